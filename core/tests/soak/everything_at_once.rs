//! Everything at once: lost replies and requests, forgotten scripts, cut connections, and a server killed with -9 in the
//! middle; no job is lost, and none runs after its ack.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::proxy::Proxy;
use crate::support::{self, Server};
use duly::{Error, NewJob, ReserveOptions};

const CLIENTS: usize = 4;
const LEASE: Duration = Duration::from_millis(400);

#[derive(Default)]
struct Seen {
    pushed: Mutex<HashSet<String>>,
    acked: Mutex<HashSet<String>>,
    runs: Mutex<HashMap<String, usize>>,
    /// Runs that began after an ack had returned.
    after_ack: AtomicUsize,
    refused_acks: AtomicUsize,
    /// Calls whose outcome nobody knows: their jobs may come back when the lease ends.
    unknown: AtomicUsize,
}

/// A call is repeated as a user would: an error that may pass is tried again.
fn passes(error: &Error, seen: &Seen) -> bool {
    assert!(error.is_transient(), "{error}");
    seen.unknown.fetch_add(1, Ordering::SeqCst);
    true
}

async fn push_share(queue: duly::Queue, share: usize, jobs: usize, seen: Arc<Seen>) {
    let mut next = 0;
    while next < jobs {
        let batch: Vec<String> = (next..(next + 10).min(jobs)).map(|n| format!("{share}-{n}")).collect();
        let jobs = batch.iter().map(|id| NewJob::new(&1).unwrap().id(&**id).max_retries(100));
        let jobs = jobs.enumerate().map(|(n, job)| if n % 5 == 0 { job.delay(Duration::from_millis(20)) } else { job });
        match queue.push_batch(jobs.collect()).await {
            Ok(pushed) => {
                // A batch sent again after an unknown outcome may find its own jobs there.
                assert_eq!(pushed.len(), batch.len());
                next += batch.len();
                seen.pushed.lock().unwrap().extend(batch);
            }
            Err(error) => assert!(passes(&error, &seen)),
        }
    }
}

async fn work(queue: duly::Queue, jobs: usize, seen: Arc<Seen>) {
    let options = ReserveOptions::new().max(5).lease(LEASE).wait(Duration::from_millis(100));
    let mut rounds = 0;
    while seen.acked.lock().unwrap().len() < jobs {
        let taken = match queue.reserve(&options).await {
            Ok(taken) => taken,
            Err(error) => {
                passes(&error, &seen);
                continue;
            }
        };
        for job in &taken {
            *seen.runs.lock().unwrap().entry(job.id().to_owned()).or_default() += 1;
            if seen.acked.lock().unwrap().contains(job.id()) {
                seen.after_ack.fetch_add(1, Ordering::SeqCst);
            }
        }
        rounds += 1;
        if rounds % 40 == 7 && !taken.is_empty() {
            continue; // this worker died
        }
        if rounds % 40 == 27 {
            tokio::time::sleep(LEASE + LEASE / 4).await; // and this one was frozen
        }
        match queue.ack_all(&taken).await {
            Ok(settled) => {
                for (job, settled) in taken.iter().zip(settled) {
                    if settled {
                        assert!(seen.acked.lock().unwrap().insert(job.id().to_owned()), "{} was acked twice", job.id());
                    } else {
                        seen.refused_acks.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
            Err(error) => {
                passes(&error, &seen);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_run_after_its_ack_whatever_happens() {
    let started = Instant::now();
    let jobs = crate::number_from("DULY_SOAK_JOBS", 5000) / CLIENTS * CLIENTS;
    let random = crate::number_from("DULY_SOAK_SEED", 77);
    println!("DULY_SOAK_SEED={random} DULY_SOAK_JOBS={jobs}");
    // Not `everysec`, which may answer before it writes: see faults/server_killed.rs.
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "no"]);
    let seen = Arc::new(Seen::default());
    let mut proxies = Vec::new();
    let mut tasks = Vec::new();
    for share in 0..CLIENTS {
        let proxy = Proxy::before(server.port()).await;
        proxy.lose_at_random((share + random) as u64, 60);
        let client = proxy.builder().build().unwrap();
        let queue = client.queue("orders").unwrap();
        tasks.push(tokio::spawn(push_share(queue.clone(), share, jobs / CLIENTS, Arc::clone(&seen))));
        tasks.push(tokio::spawn(work(queue, jobs, Arc::clone(&seen))));
        proxies.push(proxy);
    }
    let acked = || seen.acked.lock().unwrap().len();
    for step in 1..=8 {
        support::eventually("work goes on", || async {
            acked() >= step * jobs / 10 || started.elapsed() > Duration::from_secs(14)
        })
        .await;
        server.redis_cli(&["SCRIPT", "FLUSH"]);
        server.redis_cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        if step == 4 {
            server.kill();
            server.restart();
        }
    }
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(20 + jobs as u64 / 50), task)
            .await
            .expect("all jobs get done")
            .unwrap();
    }
    let (lost_replies, lost_requests) =
        proxies.iter().map(Proxy::lost).fold((0, 0), |sum, lost| (sum.0 + lost.0, sum.1 + lost.1));
    let runs: usize = seen.runs.lock().unwrap().values().sum();
    let totals: HashMap<String, u64> = server.queue("orders").counts().await.unwrap().totals.into_iter().collect();
    let reclaimed = usize::try_from(totals.get("reclaimed").copied().unwrap_or(0)).unwrap();
    println!(
        "{jobs} jobs, {runs} runs, {reclaimed} leases ended, {} acks refused, {} calls of unknown outcome, {lost_replies} \
         replies and {lost_requests} requests lost, {:.1} s",
        seen.refused_acks.load(Ordering::SeqCst),
        seen.unknown.load(Ordering::SeqCst),
        started.elapsed().as_secs_f64()
    );
    assert!(lost_replies > 5 && lost_requests > 5, "{lost_replies} {lost_requests}");
    assert_eq!(seen.after_ack.load(Ordering::SeqCst), 0);
    assert_eq!(*seen.pushed.lock().unwrap(), *seen.acked.lock().unwrap());
    assert!(reclaimed > 0 && seen.refused_acks.load(Ordering::SeqCst) > 0, "dead and frozen workers are part of it");
    assert!(runs - jobs <= reclaimed, "a job runs twice only after its lease ended");
    assert_eq!(totals["pushed"], jobs as u64);
    let counts = server.queue("orders").counts().await.unwrap();
    assert_eq!((counts.delayed, counts.ready, counts.reserved, counts.failed), (0, 0, 0, 0));
}
