//! A million failed jobs are searched, grouped, run again by what they have, and removed, while workers take jobs of the same queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::Server;
use duly::{Filter, NewJob, Queue, ReserveOptions, State};

/// What is named by the search: one job of ten.
const NAMES: [&str; 10] = ["mail.send", "a", "b", "c", "d", "e", "f", "g", "h", "i"];

async fn take_and_fail(queue: Queue, failed: Arc<AtomicU64>, all: u64) {
    while failed.load(Ordering::Relaxed) < all {
        let jobs = queue.reserve(&ReserveOptions::new().max(500).wait(Duration::from_millis(100))).await.unwrap();
        for some in jobs.chunks(50) {
            let ends = some.iter().map(|job| async {
                let number: u64 = job.envelope.data.as_str().parse().unwrap();
                job.fail(&format!("Timeout: host {number}\n  at /srv/app.py:{} in run", number % 20)).await.unwrap();
            });
            futures_util::future::join_all(ends).await;
            failed.fetch_add(some.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Acks what is ready until it is told to stop; gives how many.
async fn work(queue: Queue, is_over: Arc<AtomicBool>) -> u64 {
    let mut done = 0;
    loop {
        let jobs = queue.reserve(&ReserveOptions::new().max(100).wait(Duration::from_millis(100))).await.unwrap();
        if jobs.is_empty() && is_over.load(Ordering::Relaxed) {
            return done;
        }
        done += queue.ack_all(&jobs).await.unwrap().into_iter().filter(|acked| *acked).count() as u64;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_failed_jobs_are_acted_on_while_workers_run() {
    let jobs = crate::number_from("DULY_SOAK_MANY", 1_000_000) as u64;
    let server = Server::start();
    let queue = server.queue("mail");
    queue.keep_failed(jobs, Duration::from_secs(86_400)).await.unwrap();
    let job = |n: u64| NewJob::new(&n).unwrap().name(NAMES[usize::try_from(n % 10).unwrap()]).max_retries(0);
    queue.push_many((0..jobs).map(job), |_| ()).await.unwrap();
    let failed = Arc::new(AtomicU64::new(0));
    let takers = (0..4).map(|_| tokio::spawn(take_and_fail(queue.clone(), Arc::clone(&failed), jobs)));
    futures_util::future::join_all(takers).await;
    assert_eq!(queue.counts().await.unwrap().failed, jobs);

    // From here on everything that takes longer than 2 ms is noted.
    server.redis_cli(&["CONFIG", "SET", "slowlog-log-slower-than", "2000"]);
    server.redis_cli(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    let is_over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..2).map(|_| tokio::spawn(work(queue.clone(), Arc::clone(&is_over)))).collect();

    let started = Instant::now();
    let mut groups = queue.failure_groups();
    while groups.look().await.unwrap() {}
    assert_eq!(groups.looked_at(), jobs);
    let groups = groups.largest();
    assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), jobs);
    println!("{} groups of {jobs} failed jobs: {:.1} s", groups.len(), started.elapsed().as_secs_f64());

    let started = Instant::now();
    let mut found = queue.matching(State::Failed, Filter::new().name("mail.send").error("Timeout")).unwrap();
    while found.look().await.unwrap() {}
    assert_eq!(found.len() as u64, jobs / 10);
    println!("{} of them found: {:.1} s", found.len(), started.elapsed().as_secs_f64());
    let (started, mut requeued) = (Instant::now(), 0);
    while !found.is_empty() {
        requeued += found.requeue().await.unwrap();
    }
    assert_eq!(requeued, jobs / 10);
    println!("run again: {:.1} s", started.elapsed().as_secs_f64());

    let (started, mut removed) = (Instant::now(), 0);
    let mut found = queue.matching(State::Failed, Filter::new()).unwrap();
    while found.look().await.unwrap() {}
    while !found.is_empty() {
        removed += found.cancel().await.unwrap();
    }
    assert_eq!(removed, jobs - jobs / 10);
    println!("all others found and removed: {:.1} s", started.elapsed().as_secs_f64());

    is_over.store(true, Ordering::Relaxed);
    let mut done = 0;
    for worker in workers {
        done += worker.await.unwrap();
    }
    assert_eq!(done, jobs / 10);
    let slow = server.redis_cli(&["--json", "SLOWLOG", "GET", "-1"]);
    let slow: serde_json::Value = serde_json::from_str(&slow).unwrap();
    let slow: Vec<u64> = slow.as_array().unwrap().iter().map(|entry| entry[2].as_u64().unwrap()).collect();
    let longest = Duration::from_micros(slow.iter().copied().max().unwrap_or(0));
    println!("calls that took the server longer than 2 ms: {}; the longest {longest:?}", slow.len());
}
