//! A worker goes on by itself when the server, the network or another process misbehaves, and loses nothing.

mod refusals;
mod stops;
mod turns;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::Server;
use crate::support::proxy::{Fault, Proxy};
use duly::worker::{
    Context, Ended, Engine, Failure, Interruption, Job, Worker, WorkerBuilder, WorkerEvent, WorkerReport,
    WorkerSettings,
};
use duly::{Client, Counts, Millis, NewJob, Queue, ReserveOptions, RetryPolicy, State};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

fn job(name: &str) -> NewJob {
    NewJob::new(&1).unwrap().name(name).retry(RetryPolicy::Fixed { delay: Millis::ZERO })
}

/// What the worker reported, and how often it ran each job.
#[derive(Clone, Default)]
struct Notes {
    events: Arc<Mutex<Vec<WorkerEvent>>>,
    runs: Arc<AtomicU32>,
}

impl Notes {
    fn count(&self, is: impl Fn(&WorkerEvent) -> bool) -> usize {
        self.events.lock().unwrap().iter().filter(|event| is(event)).count()
    }

    /// Queue, id, name and attempt of each job that was reported.
    fn about(&self) -> Vec<(String, String, Option<String>, u32)> {
        let events = self.events.lock().unwrap();
        let jobs = events.iter().filter_map(WorkerEvent::job).cloned();
        jobs.map(|job| (job.queue, job.id, job.name, job.attempt)).collect()
    }
}

/// A worker under way, with a handler `count` that counts its runs.
struct Under {
    notes: Notes,
    stop: Arc<Notify>,
    running: JoinHandle<Result<WorkerReport, duly::Error>>,
}

fn start(client: &Client, set: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Under {
    let (notes, stop) = (Notes::default(), Arc::new(Notify::new()));
    let (events, runs) = (Arc::clone(&notes.events), Arc::clone(&notes.runs));
    let worker = set(Worker::builder(client.clone()).queue("orders", 1))
        .handler("count", move |_: Job<Value>, _: Context| {
            runs.fetch_add(1, Ordering::SeqCst);
            async { Ok::<(), Failure>(()) }
        })
        .on_event(move |event| events.lock().unwrap().push(event.clone()))
        .build()
        .unwrap();
    let stopped = Arc::clone(&stop);
    let running = tokio::spawn(async move { worker.run_until(stopped.notified()).await });
    Under { notes, stop, running }
}

impl Under {
    async fn stop(self) -> WorkerReport {
        self.stop.notify_one();
        self.running.await.unwrap().unwrap()
    }
}

async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !done().await {
        assert!(Instant::now() < patience, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn counts(queue: &Queue, what: &str, done: impl Fn(&Counts) -> bool) {
    until(what, async || queue.counts().await.is_ok_and(|counts| done(&counts))).await;
}

fn is_empty(counts: &Counts) -> bool {
    counts.delayed + counts.ready + counts.reserved == 0
}

fn is_trouble(event: &WorkerEvent) -> bool {
    matches!(event, WorkerEvent::Trouble { .. })
}

fn is_recovered(event: &WorkerEvent) -> bool {
    matches!(event, WorkerEvent::Recovered { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_after_a_restart_of_the_server_and_tells_it_once() {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (client, queue) = (server.client(), server.queue("orders"));
    let worker = start(&client, |worker| worker.concurrency(2));
    queue.push(job("count")).await.unwrap();
    counts(&queue, "the first job runs", is_empty).await;
    server.kill();
    until("it notices", async || worker.notes.count(is_trouble) == 1).await;
    server.restart();
    let back = Instant::now();
    queue.push(job("count")).await.unwrap();
    until("the second job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 2).await;
    assert!(back.elapsed() < Duration::from_secs(12), "it took {:?}", back.elapsed());
    until("it reports", async || worker.notes.count(is_recovered) == 1).await;
    let notes = worker.notes.clone();
    worker.stop().await;
    assert_eq!((notes.count(is_trouble), notes.count(is_recovered)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reserve_that_it_made_again_after_an_outage_leases_nothing_to_nobody_when_its_copy_comes_late() {
    let server = Server::start();
    let queue = server.queue("orders");
    let proxy = Proxy::before(server.port()).await;
    let worker = start(&proxy.builder().build().unwrap(), |worker| worker);
    // Its second call that finds nothing does not renew its answers any more.
    for _ in 0..2 {
        queue.push(job("count")).await.unwrap();
        counts(&queue, "the job runs", is_empty).await;
    }
    proxy.next(Fault::HoldRequest);
    // It looks at once, and finds nothing.
    server.redis_cli(&["LPUSH", "duly:{orders}:wake", "1"]);
    proxy.happened().await;
    until("it notices", async || worker.notes.count(is_trouble) == 1).await;
    proxy.reopen();
    until("it reports", async || worker.notes.count(is_recovered) == 1).await;
    worker.stop().await;
    queue.push(job("count")).await.unwrap();
    proxy.deliver().await;
    assert_eq!(queue.counts().await.unwrap().ready, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_out_a_frozen_server() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let worker = start(&client, |worker| worker);
    queue.push(job("count")).await.unwrap();
    counts(&queue, "the first job runs", is_empty).await;
    server.signal("-STOP");
    until("it notices", async || worker.notes.count(is_trouble) == 1).await;
    server.signal("-CONT");
    queue.push(job("count")).await.unwrap();
    until("the second job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 2).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_and_the_grace_hold_while_the_server_does_not_answer() {
    /// A call that is not answered holds up the fetch loop for 15 s and more.
    const SOON: Duration = Duration::from_secs(8);
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let frozen = Arc::new(Notify::new());
    let ends = Arc::clone(&frozen);
    let worker = start(&client, |worker| {
        worker
            .concurrency(3)
            .grace(Duration::from_millis(500))
            .handler("ends", move |_: Job<Value>, _| {
                let frozen = Arc::clone(&ends);
                async move {
                    frozen.notified().await;
                    Ok::<(), Failure>(())
                }
            })
            .handler("endless", |_: Job<Value>, _| std::future::pending::<Result<(), Failure>>())
    });
    queue.push(job("ends")).await.unwrap();
    queue.push(job("endless").timeout(Duration::from_secs(2))).await.unwrap();
    queue.push(job("endless")).await.unwrap();
    counts(&queue, "all run", |counts| counts.reserved == 3).await;
    server.signal("-STOP");
    let since = Instant::now();
    // The outcome of this one goes out at once, and is not answered.
    frozen.notify_one();
    let interrupted = |why: Interruption| {
        let notes = worker.notes.clone();
        move || notes.count(|event| matches!(event, WorkerEvent::Interrupted { why: is, .. } if *is == why))
    };
    let (timed_out, stopped) = (interrupted(Interruption::TimedOut), interrupted(Interruption::Stopped));
    until("the timeout ends a run", async || timed_out() == 1).await;
    assert!(since.elapsed() < SOON, "the timeout of 2 s ended the run after {:?}", since.elapsed());
    until("it notices", async || worker.notes.count(is_trouble) == 1).await;
    worker.stop.notify_one();
    let since = Instant::now();
    until("the end of the grace ends the other", async || stopped() == 1).await;
    assert!(since.elapsed() < SOON, "the grace of 0.5 s ended the run after {:?}", since.elapsed());
    server.signal("-CONT");
    let _ = worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_cost_nothing() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let worker = start(&client, |worker| worker.concurrency(4));
    for round in 1..=10 {
        queue.push_many((0..100).map(|_| job("count")), |_| {}).await.unwrap();
        server.redis_cli(&["client", "kill", "type", "normal", "skipme", "yes"]);
        until("the round is done", async || worker.notes.runs.load(Ordering::SeqCst) >= round * 100).await;
    }
    counts(&queue, "all is acked", is_empty).await;
    let report = worker.stop().await;
    assert_eq!((report.acked, report.lost), (1000, 0), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_is_waited_out() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let worker = start(&client, |worker| worker);
    queue.push(job("count")).await.unwrap();
    counts(&queue, "the first job runs", is_empty).await;
    server.redis_cli(&["replicaof", "127.0.0.1", "1"]);
    until("it notices", async || worker.notes.count(is_trouble) == 1).await;
    server.redis_cli(&["replicaof", "no", "one"]);
    queue.push(job("count")).await.unwrap();
    until("the second job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 2).await;
    assert_eq!(worker.notes.count(is_trouble), 1);
    worker.stop().await;
}

/// A handler that pushes a follow-up seldom is no new program with a wrong address.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_of_a_handlers_own_client_is_waited_out_as_its_worker_has_reached_the_server() {
    let mut server = Server::start();
    let queue = server.queue("orders");
    queue.push(job("follows up")).await.unwrap();
    let (client, settings) = (server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)]));
    let engine = Engine::start(&client, settings).unwrap();
    let executor = engine.executor();
    let run = executor.next().await.unwrap();
    server.kill();
    let mut pushing = tokio::spawn(async move { client.queue("mail")?.push(job("count")).await });
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut pushing).await.is_err(), "it gives up");
    server.restart();
    pushing.await.unwrap().unwrap();
    executor.finish(&run, Ended::DONE).unwrap();
    engine.stop();
    engine.ended().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_is_refused_and_harms_nothing() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let id = queue.push(job("zombie")).await.unwrap().id().to_owned();
    let (started, gate) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (starting, closed) = (Arc::clone(&started), Arc::clone(&gate));
    let worker = start(&client, |worker| {
        worker.lease(Duration::from_secs(10)).handler("zombie", move |_: Job<Value>, _| {
            starting.notify_one();
            let gate = Arc::clone(&closed);
            async move {
                gate.acquire().await.map_err(|error| error.to_string())?.forget();
                Ok::<(), Failure>(())
            }
        })
    });
    started.notified().await;
    // Its lease ends behind its back, and another takes the job.
    server.redis_cli(&["zadd", "duly:{orders}:reserved", "1", &id]);
    let other = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    gate.add_permits(1);
    until("it is reported", async || worker.notes.count(|event| matches!(event, WorkerEvent::LeaseLost { .. })) == 1)
        .await;
    assert_eq!(worker.notes.about(), [("orders".to_owned(), id.clone(), Some("zombie".to_owned()), 1)]);
    assert_eq!(queue.find(&id).await.unwrap().unwrap().job.state, State::Reserved);
    other.ack().await.unwrap();
    let report = worker.stop().await;
    assert_eq!((report.acked, report.lost), (0, 1));
}

#[tokio::test]
async fn a_server_that_was_emptied_is_not_told_of_once_a_job() {
    const JOBS: usize = 200;
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let mut settings = duly::worker::WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    settings.concurrency = JOBS;
    let engine = duly::worker::Engine::start(&client, settings).unwrap();
    queue.push_many((0..JOBS).map(|_| job("any")), |_| {}).await.unwrap();
    let mut runs = Vec::new();
    for _ in 0..JOBS {
        let executor = engine.executor();
        let run = tokio::time::timeout(Duration::from_secs(60), executor.next()).await.unwrap().unwrap();
        runs.push((executor, run));
    }
    server.redis_cli(&["FLUSHALL"]);
    for (executor, run) in &runs {
        executor.finish(run, duly::worker::Ended::DONE).unwrap();
    }
    let (mut lines, mut lost) = (0, 0);
    while lost < JOBS {
        lines += 1;
        lost += match engine.event().await {
            WorkerEvent::LeaseLost { .. } => 1,
            WorkerEvent::LeasesLost { jobs, .. } => usize::try_from(jobs).unwrap(),
            WorkerEvent::DataLost { .. } => 0,
            other => panic!("{other}"),
        };
    }
    assert!(lines < JOBS / 2, "{lines} lines");
    assert_eq!((lost, engine.report().lost), (JOBS, JOBS as u64));
}
