//! The server is away for longer than a lease: whoever lives keeps the jobs that it runs, and settles them when it is back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::meter::Meter;
use crate::support::slow_line::{Line, SlowLine};
use crate::support::{Server, eventually};
use duly::worker::{Context, Failure, Job, Worker, WorkerEvent, WorkerReport};
use duly::{Client, Counts, ErrorKind, Millis, NewJob, Queue, ReserveOptions, RetryPolicy};
use futures_util::future::join_all;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

const LEASE: Duration = Duration::from_secs(2);
/// Longer than the lease.
const OUTAGE: Duration = Duration::from_millis(3500);
const SAFE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn job(id: &str, max_retries: u32) -> NewJob {
    NewJob::new(&id).unwrap().id(id).max_retries(max_retries).retry(RetryPolicy::Fixed { delay: Millis::ZERO })
}

/// What all workers of a test share.
#[derive(Clone)]
struct Shop {
    /// How often each job ran.
    runs: Arc<Mutex<BTreeMap<String, u32>>>,
    /// Lets the handler of a job end whose id begins so.
    gates: [(&'static str, Arc<Semaphore>); 2],
}

impl Shop {
    fn new() -> Self {
        let gate = |name| (name, Arc::new(Semaphore::new(0)));
        Self { runs: Arc::default(), gates: [gate("within"), gate("later")] }
    }

    fn open(&self, name: &str) {
        for (_, gate) in self.gates.iter().filter(|gate| gate.0 == name) {
            gate.add_permits(1000);
        }
    }

    fn runs(&self) -> BTreeMap<String, u32> {
        self.runs.lock().unwrap().clone()
    }

    fn worker(&self, client: &Client) -> Under {
        let (stop, troubles) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
        let (of_handler, reported) = (self.clone(), Arc::clone(&troubles));
        let worker = Worker::builder(client.clone())
            .queue("orders", 1)
            .concurrency(4)
            .lease(LEASE)
            .any_handler(move |job: Job<String>, _: Context| {
                let here = of_handler.clone();
                async move {
                    *here.runs.lock().unwrap().entry(job.id().to_owned()).or_default() += 1;
                    for (_, gate) in here.gates.iter().filter(|gate| job.id().starts_with(gate.0)) {
                        gate.acquire().await.unwrap().forget();
                    }
                    Ok::<(), Failure>(())
                }
            })
            .on_event(move |event| *reported.lock().unwrap() += u32::from(matches!(event, WorkerEvent::Trouble { .. })))
            .build()
            .unwrap();
        let stopped = Arc::clone(&stop);
        let running = tokio::spawn(async move { worker.run_until(stopped.notified()).await });
        Under { stop, troubles, running }
    }
}

struct Under {
    stop: Arc<Notify>,
    troubles: Arc<Mutex<u32>>,
    running: JoinHandle<Result<WorkerReport, duly::Error>>,
}

impl Under {
    async fn notices(&self) {
        eventually("it notices the outage", async || *self.troubles.lock().unwrap() > 0).await;
    }

    async fn stop(self) -> WorkerReport {
        self.stop.notify_one();
        self.running.await.unwrap().unwrap()
    }
}

#[derive(Debug, Clone, Copy)]
enum Away {
    Restarts,
    IsReplica,
}

impl Away {
    fn begins(self, server: &mut Server) {
        match self {
            Self::Restarts => server.kill(),
            Self::IsReplica => drop(server.redis_cli(&["replicaof", "127.0.0.1", "1"])),
        }
    }

    fn ends(self, server: &mut Server) {
        match self {
            Self::Restarts => server.restart(),
            Self::IsReplica => drop(server.redis_cli(&["replicaof", "no", "one"])),
        }
    }
}

fn total(counts: &Counts, name: &str) -> u64 {
    counts.totals.iter().find(|(known, _)| known == name).map_or(0, |(_, total)| *total)
}

async fn is_held(queue: &Queue, ids: &[&str]) -> bool {
    let counts = queue.counts().await.unwrap();
    let is_renewed = counts.next_lease_end_in.is_some_and(|ends| ends > Millis::ZERO);
    counts.reserved == ids.len() as u64 && is_renewed
}

async fn workers_keep_what_they_run(away: Away, line: Option<Line>) {
    let mut server = Server::start_with(&SAFE);
    let (queue, shop) = (server.queue("orders"), Shop::new());
    let client = || match line {
        Some(line) => SlowLine::before(server.port(), line).builder().build().unwrap(),
        None => server.client(),
    };
    let workers = [shop.worker(&client()), shop.worker(&client())];
    for id in ["within0", "later0"] {
        queue.push(job(id, 0)).await.unwrap();
    }
    for id in ["within5", "later5"] {
        queue.push(job(id, 5)).await.unwrap();
    }
    eventually("all run", async || shop.runs().len() == 4).await;

    away.begins(&mut server);
    for worker in &workers {
        worker.notices().await;
    }
    shop.open("within");
    tokio::time::sleep(OUTAGE).await;
    away.ends(&mut server);
    eventually("those that ended are settled, and those that run are renewed", async || {
        is_held(&queue, &["later0", "later5"]).await
    })
    .await;
    // Longer than leases are spared: a look that reclaims finds nothing to reclaim.
    tokio::time::sleep(Duration::from_secs(7)).await;
    shop.open("later");
    eventually("all is done", async || queue.counts().await.unwrap().reserved == 0).await;

    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.delayed, counts.failed), (0, 0, 0), "{counts:?}");
    assert_eq!(["acked", "reclaimed", "failed"].map(|name| total(&counts, name)), [4, 0, 0], "{away:?}: {counts:?}");
    let runs = shop.runs();
    assert!(runs.values().all(|&runs| runs == 1), "{away:?}: {runs:?}");
    for worker in workers {
        assert_eq!(worker.stop().await.lost, 0, "{away:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_takes_longer_than_a_lease_charges_no_job_of_a_worker_that_lives() {
    workers_keep_what_they_run(Away::Restarts, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_takes_longer_than_a_lease_charges_no_job_of_a_worker_that_lives() {
    workers_keep_what_they_run(Away::IsReplica, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_behind_a_slow_line_charges_no_job_of_a_worker_that_lives() {
    let kinds = [(Away::Restarts, Line::MOBILE), (Away::IsReplica, Line::FAR), (Away::Restarts, Line::TEN_MEGABIT)];
    join_all(kinds.map(|(away, line)| workers_keep_what_they_run(away, Some(line)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_of_a_worker_that_died_runs_soon_after_the_outage_and_nobody_spins_until_then() {
    let mut server = Server::start_with(&SAFE);
    let (queue, shop) = (server.queue("orders"), Shop::new());
    queue.push(job("dead", 5)).await.unwrap();
    let died = server.queue("orders").reserve(&ReserveOptions::new().lease(OUTAGE)).await.unwrap();
    assert_eq!(died.len(), 1);
    let workers = [shop.worker(&server.client()), shop.worker(&server.client())];
    queue.push(job("alive", 5)).await.unwrap();
    eventually("they work", async || shop.runs().contains_key("alive")).await;

    server.kill();
    for worker in &workers {
        worker.notices().await;
    }
    tokio::time::sleep(OUTAGE).await;
    server.restart();
    let mut meter = Meter::of(&server);
    eventually("it runs", async || shop.runs().contains_key("dead")).await;
    // Each worker looks once a second, and says each two seconds that it is alive.
    let calls = meter.calls("evalsha") + meter.calls("eval");
    assert!(calls < 100, "{calls} calls until it was reclaimed");
    eventually("it is acked", async || queue.counts().await.unwrap().reserved == 0).await;
    assert_eq!(total(&queue.counts().await.unwrap(), "reclaimed"), 1);
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reserves_by_hand_takes_nothing_from_others_that_settle_after_an_outage() {
    let mut server = Server::start_with(&SAFE);
    let (mine, others) = (server.queue("orders"), server.queue("orders"));
    mine.push(job("a", 0)).await.unwrap();
    let held = mine.reserve(&ReserveOptions::new().lease(LEASE)).await.unwrap().remove(0);
    let options = ReserveOptions::new().wait(Duration::from_secs(60));
    let waiting = tokio::spawn(async move { others.reserve(&options).await });
    let mut meter = Meter::of(&server);
    meter.until("it waits", |meter| meter.blocked() == 1).await;

    server.kill();
    tokio::time::sleep(OUTAGE).await;
    server.restart();
    let mut meter = Meter::of(&server);
    meter.until("it has looked, and waits again", |meter| meter.blocked() == 1).await;
    held.ack().await.expect("nobody took it");
    mine.push(job("b", 0)).await.unwrap();
    let jobs = waiting.await.unwrap().unwrap();
    assert_eq!(jobs.iter().map(duly::Job::id).collect::<Vec<_>>(), ["b"]);
}

/// It has seen nothing of the outage.
#[tokio::test(flavor = "multi_thread")]
async fn who_comes_when_a_server_has_just_started_again_takes_nothing_from_others_that_live() {
    let mut server = Server::start_with(&SAFE);
    let (queue, shop) = (server.queue("orders"), Shop::new());
    let by_hand = async |id| {
        queue.push(job(id, 0)).await.unwrap();
        queue.reserve(&ReserveOptions::new().lease(LEASE)).await.unwrap().remove(0)
    };
    let (held, dead) = (by_hand("held").await, by_hand("dead").await);
    let old = shop.worker(&server.client());
    for (id, max_retries) in [("later0", 0), ("later5", 5)] {
        queue.push(job(id, max_retries)).await.unwrap();
    }
    eventually("they run", async || shop.runs().len() == 2).await;

    server.kill();
    old.notices().await;
    tokio::time::sleep(OUTAGE).await;
    server.restart();
    let found = server.queue("orders").reserve(&ReserveOptions::new()).await.unwrap();
    assert_eq!(found.iter().map(duly::Job::id).collect::<Vec<_>>(), Vec::<&str>::new());
    let new = shop.worker(&server.client());
    held.ack().await.expect("nobody took it");
    eventually("the job of who died is taken back", async || total(&queue.counts().await.unwrap(), "reclaimed") == 1)
        .await;
    shop.open("later");
    eventually("all is done", async || queue.counts().await.unwrap().reserved == 0).await;
    drop(dead);

    let counts = queue.counts().await.unwrap();
    assert_eq!(["acked", "reclaimed", "failed"].map(|name| total(&counts, name)), [3, 1, 1], "{counts:?}");
    let runs = shop.runs();
    assert!(runs.values().all(|&runs| runs == 1), "{runs:?}");
    for worker in [old, new] {
        assert_eq!(worker.stop().await.lost, 0);
    }
}

/// Meanwhile a reserve that finds nothing is answered, unless it has to write.
#[tokio::test]
async fn who_reserves_while_writes_are_refused_takes_nothing_from_others_when_they_are_accepted_again() {
    let server = Server::start();
    let (others, lease) = (server.queue("orders"), ReserveOptions::new().lease(Duration::from_secs(1)));
    let mine = server.builder().deadline(Duration::from_millis(300)).fail_fast(false).build().unwrap();
    let mine = mine.queue("orders").unwrap();
    others.push_many([job("a", 0), job("b", 0)], |_| ()).await.unwrap();
    let theirs = others.reserve(&lease).await.unwrap().remove(0);
    let held = mine.reserve(&ReserveOptions::new()).await.unwrap().remove(0);

    server.redis_cli(&["config", "set", "min-replicas-to-write", "1"]);
    let mut looks = 0;
    while looks < 6 || others.counts().await.unwrap().next_lease_end_in > Some(Millis::ZERO) {
        held.extend(LEASE).await.unwrap_err();
        let _ = mine.reserve(&ReserveOptions::new()).await;
        looks += 1;
    }
    server.redis_cli(&["config", "set", "min-replicas-to-write", "0"]);
    assert_eq!(mine.reserve(&ReserveOptions::new()).await.unwrap().len(), 0);
    theirs.ack().await.expect("nobody took it");
    held.ack().await.unwrap();
}

/// Whoever runs a job cannot renew its lease meanwhile, as in any other outage.
#[tokio::test]
async fn who_reserves_while_permissions_are_withdrawn_takes_nothing_from_others_when_they_are_given_back() {
    for (withdrawn, given_back) in
        [(["-evalsha"; 2], "+evalsha"), (["-hdel"; 2], "+hdel"), (["resetkeys", "~other:*"], "~*")]
    {
        let server = Server::start();
        server.redis_cli(&["acl", "setuser", "worker", "on", ">s3cr3t", "~*", "&*", "+@all"]);
        let client =
            || server.builder().username("worker").password("s3cr3t").deadline(2 * LEASE).fail_fast(false).build();
        let client = || client().unwrap().queue("orders").unwrap();
        let (theirs, mine) = (client(), client());
        let others = server.queue("orders");
        others.push_many([job("a", 0), job("b", 0)], |_| ()).await.unwrap();
        let theirs = theirs.reserve(&ReserveOptions::new().lease(Duration::from_secs(1))).await.unwrap().remove(0);
        let held = mine.reserve(&ReserveOptions::new()).await.unwrap().remove(0);

        server.redis_cli(&["acl", "setuser", "worker", withdrawn[0], withdrawn[1]]);
        eventually("their lease is over", || async {
            // On a busy machine its deadline may end within an attempt.
            let refused = held.extend(LEASE).await.unwrap_err().kind();
            assert!(matches!(refused, ErrorKind::PermissionDenied | ErrorKind::Timeout), "{refused:?}");
            // A call that only reads may be answered, and says nothing of those that write.
            let _ = mine.find("a").await;
            others.counts().await.unwrap().next_lease_end_in == Some(Millis::ZERO)
        })
        .await;
        server.redis_cli(&["acl", "setuser", "worker", given_back]);
        assert_eq!(mine.reserve(&ReserveOptions::new()).await.unwrap().len(), 0, "{withdrawn:?}");
        theirs.ack().await.expect("nobody took it");
        held.ack().await.unwrap();
    }
}

/// It may read, and push nothing: what it is refused is no outage to anybody else, and dead workers' jobs come back.
#[tokio::test]
async fn a_client_that_lacks_a_permission_for_good_takes_back_the_jobs_of_dead_workers() {
    let server = Server::start();
    server.redis_cli(&[
        "acl",
        "setuser",
        "worker",
        "on",
        ">s3cr3t",
        "~duly:{orders}:*",
        "~duly:session:*",
        "&*",
        "+@all",
    ]);
    let client = server.builder().username("worker").password("s3cr3t").build().unwrap();
    let (mine, forbidden) = (client.queue("orders").unwrap(), client.queue("forbidden").unwrap());
    let others = server.queue("orders");
    others.push(job("a", 3)).await.unwrap();
    assert_eq!(forbidden.push(job("x", 0)).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    others.reserve(&ReserveOptions::new().lease(Duration::from_millis(100))).await.unwrap().remove(0);
    eventually("it is taken back", || async {
        let _ = forbidden.push(job("x", 0)).await;
        !mine.reserve(&ReserveOptions::new()).await.unwrap().is_empty()
    })
    .await;
}
