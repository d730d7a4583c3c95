//! A worker goes on by itself when the server, the network or another process misbehaves, and loses nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::Server;
use crate::support::proxy::{Fault, Proxy};
use duly::worker::{
    Context, Ended, Engine, Failure, Interruption, Job, NextRun, Worker, WorkerBuilder, WorkerEvent, WorkerReport,
    WorkerSettings,
};
use duly::{Client, Counts, Limits, Millis, NewJob, Queue, ReserveOptions, RetryPolicy, Schedule, Selection, State};
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

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_within_the_grace_while_the_server_is_away() {
    let mut server = Server::start();
    let worker = start(&server.client(), |worker| worker.grace(Duration::from_millis(100)));
    until("it is connected", async || server.redis_cli(&["client", "list"]).matches("cmd=blpop").count() == 1).await;
    server.kill();
    let asked = Instant::now();
    worker.stop.notify_one();
    let _ = worker.running.await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(12), "it took {:?}", asked.elapsed());
}

/// Its handler has ended, and nobody can know whether the server knows.
#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_cannot_be_sent_at_the_end_is_told_of() {
    let mut server = Server::start();
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, may_end) = (Arc::clone(&begun), Arc::clone(&ended));
    let id = server.queue("orders").push(NewJob::new(&1).unwrap().name("late")).await.unwrap().id().to_owned();
    let worker = start(&server.client(), move |worker| {
        worker.grace(Duration::from_millis(100)).handler("late", move |_: Job<Value>, _: Context| {
            let (begins, may_end) = (Arc::clone(&begins), Arc::clone(&may_end));
            async move {
                begins.notify_one();
                may_end.notified().await;
                Ok::<(), Failure>(())
            }
        })
    });
    begun.notified().await;
    server.kill();
    ended.notify_one();
    until("it notices", async || worker.notes.count(is_trouble) == 1).await;
    let notes = worker.notes.clone();
    worker.stop.notify_one();
    worker.running.await.unwrap().unwrap();
    let is_told = |event: &WorkerEvent| matches!(event, WorkerEvent::OutcomeNotStored { job } if job.id == id);
    assert_eq!(notes.count(is_told), 1);
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

/// The server is away for longer than a call of it takes, as in a failover, and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_outlasts_an_outage_at_the_end_unless_the_stop_is_asked_for_again() {
    let server = Server::start();
    let queue = server.queue("orders");
    for is_urgent in [false, true] {
        queue.push(job("late")).await.unwrap();
        let settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        let engine = Engine::start(&server.client(), settings).unwrap();
        let executor = engine.executor();
        let run = executor.next().await.unwrap();
        server.signal("-STOP");
        executor.finish(&run, Ended::DONE).unwrap();
        engine.stop();
        if is_urgent {
            engine.stop();
        }
        let has_ended = engine.ended_within(Duration::from_secs(6)).is_some();
        server.signal("-CONT");
        assert_eq!(has_ended, is_urgent);
        engine.ended().await.unwrap();
        if !is_urgent {
            assert!(is_empty(&queue.counts().await.unwrap()));
        }
    }
}

/// Another program has written over the queue: no waiting cures that, and what has run is named.
#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_is_refused_for_good_is_told_of() {
    let server = Server::start();
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, may_end) = (Arc::clone(&begun), Arc::clone(&ended));
    let id = server.queue("orders").push(NewJob::new(&1).unwrap().name("late")).await.unwrap().id().to_owned();
    let worker = start(&server.client(), move |worker| {
        worker.handler("late", move |_: Job<Value>, _: Context| {
            let (begins, may_end) = (Arc::clone(&begins), Arc::clone(&may_end));
            async move {
                begins.notify_one();
                may_end.notified().await;
                Ok::<(), Failure>(())
            }
        })
    });
    begun.notified().await;
    server.redis_cli(&["set", "duly:{orders}:reserved", "x"]);
    ended.notify_one();
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    let is_told = |event: &WorkerEvent| matches!(event, WorkerEvent::OutcomeNotStored { job } if job.id == id);
    assert_eq!(worker.notes.count(is_told), 1);
}

/// A worker of `orders` and `broken`, whose handler says that it has begun, and waits.
fn start_beside_broken(
    server: &Server,
    set: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
) -> (Under, Arc<Notify>, Arc<Notify>) {
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, may_end) = (Arc::clone(&begun), Arc::clone(&ended));
    let worker = start(&server.client(), |worker| {
        set(worker.queue("broken", 1)).handler("waits", move |_: Job<Value>, _: Context| {
            let (begins, may_end) = (Arc::clone(&begins), Arc::clone(&may_end));
            async move {
                begins.notify_one();
                may_end.notified().await;
                Ok::<(), Failure>(())
            }
        })
    });
    (worker, begun, ended)
}

fn is_stop_by_error(event: &WorkerEvent) -> bool {
    event.to_string().contains("waiting does not cure this error") && event.level().as_str() == "warning"
}

/// Another program has written over one queue, or a newer duly has upgraded it.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_one_queue_cuts_no_run_of_another() {
    let server = Server::start();
    let queue = server.queue("orders");
    let (worker, begun, ended) =
        start_beside_broken(&server, |worker| worker.concurrency(2).lease(Duration::from_secs(1)));
    queue.push(job("waits").max_retries(0)).await.unwrap();
    begun.notified().await;
    server.redis_cli(&["set", "duly:{broken}:jobs", "x"]);
    until("it says why it ends", async || worker.notes.count(is_stop_by_error) == 1).await;
    let lease = || server.redis_cli(&["zrange", "duly:{orders}:reserved", "0", "-1", "withscores"]);
    let before = lease();
    until("the lease is renewed", async || lease() != before).await;
    ended.notify_one();
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("broken"), "{error}");
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.reserved, counts.failed), (0, 0, 0));
    assert_eq!(worker.notes.events.lock().unwrap().len(), 1, "{:?}", worker.notes.events);
    assert!(queue.workers().await.unwrap().is_empty(), "it has said that it leaves");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_an_error_of_another_queue_what_outlives_the_grace_goes_back() {
    let server = Server::start();
    let queue = server.queue("orders");
    let (worker, begun, _ended) =
        start_beside_broken(&server, |worker| worker.concurrency(2).grace(Duration::from_millis(50)));
    queue.push(job("waits").max_retries(0)).await.unwrap();
    begun.notified().await;
    server.redis_cli(&["set", "duly:{broken}:jobs", "x"]);
    worker.running.await.unwrap().unwrap_err();
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.reserved, counts.failed), (1, 0, 0));
    assert_eq!(worker.notes.count(|event| event.to_string().contains("the job goes back")), 1);
}

/// What it was doing for the queue itself goes back with its lease: the log says that it was not stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_the_queue_that_has_failed_has_the_grace_and_is_named() {
    let server = Server::start();
    let (worker, begun, _ended) =
        start_beside_broken(&server, |worker| worker.concurrency(2).grace(Duration::from_millis(50)));
    let id = server.queue("orders").push(job("waits")).await.unwrap().id().to_owned();
    begun.notified().await;
    server.redis_cli(&["set", "duly:{orders}:reserved", "x"]);
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    let is_told = |event: &WorkerEvent| matches!(event, WorkerEvent::OutcomeNotStored { job } if job.id == id);
    assert_eq!(worker.notes.count(is_told), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_stops_at_once_while_the_server_is_away() {
    let mut server = Server::start();
    let worker = start(&server.client(), |worker| worker.grace(Duration::from_secs(30)));
    until("it is connected", async || server.redis_cli(&["client", "list"]).matches("cmd=blpop").count() == 1).await;
    server.kill();
    until("it notices", async || worker.notes.count(is_trouble) == 1).await;
    let asked = Instant::now();
    worker.stop.notify_one();
    worker.running.await.unwrap().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(12), "it took {:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_in_place_of_the_wake_ups_ends_it() {
    let server = Server::start();
    server.redis_cli(&["set", "duly:{orders}:wake", "x"]);
    let worker = start(&server.client(), |worker| worker);
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    assert_eq!(worker.notes.count(is_trouble), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_that_only_schedules_touch_ends_it_too() {
    let server = Server::start();
    let queue = server.queue("orders");
    let every = Schedule::every(Duration::from_secs(1), job("count")).unwrap();
    queue.schedules().put("often", &every).await.unwrap();
    let worker = start(&server.client(), |worker| worker);
    until("it fires", async || worker.notes.runs.load(Ordering::SeqCst) > 0).await;
    server.eval("redis.call('SET', 'duly:{orders}:schedule_due', 'foreign') return {}", &[]);
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("duly:{orders}:schedule_due"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_queues_that_are_waited_for_together_the_one_with_a_foreign_key_is_named() {
    let server = Server::start();
    server.redis_cli(&["set", "duly:{third}:wake", "x"]);
    let worker = start(&server.client(), |worker| worker.queue("second", 1).queue("third", 1).queue("fourth", 1));
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("duly:{third}:wake"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_hears_with_which_error_an_engine_ended() {
    let server = Server::start();
    let client = Client::builder().url(&server.url()).password("wrong").build().unwrap();
    let engine = Engine::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    for _ in 0..2 {
        assert_eq!(engine.ended().await.unwrap_err().kind(), duly::ErrorKind::AuthenticationFailed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_ends_it() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(job("count")).await.unwrap();
    let client = Client::builder().url(&server.url()).password("wrong").build().unwrap();
    let worker = start(&client, |worker| worker);
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::AuthenticationFailed, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_was_changed_is_an_outage_for_a_worker_that_has_worked() {
    let server = Server::start();
    server.redis_cli(&["config", "set", "requirepass", "old"]);
    let cli =
        |password: &str, words: &[&str]| server.redis_cli(&[&["-a", password, "--no-auth-warning"], words].concat());
    let client = Client::builder().url(&server.url()).password("old").build().unwrap();
    let queue = Client::builder().url(&server.url()).password("old").build().unwrap().queue("orders").unwrap();
    let worker = start(&client, |worker| worker);
    queue.push(job("count")).await.unwrap();
    until("the first job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 1).await;
    cli("old", &["config", "set", "requirepass", "new"]);
    cli("new", &["client", "kill", "type", "normal"]);
    // Longer than a call of the worker tries: first it says so, and ends only if it does not go on.
    until("it reports", async || worker.notes.count(is_trouble) == 1 || worker.running.is_finished()).await;
    assert!(!worker.running.is_finished(), "it ended");
    let reported = worker.notes.events.lock().unwrap().iter().find(|event| is_trouble(event)).cloned();
    assert!(reported.unwrap().to_string().contains("password"));
    cli("new", &["config", "set", "requirepass", "old"]);
    until("a job is pushed", async || queue.push(job("count")).await.is_ok()).await;
    until("the second job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 2).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_that_were_taken_away_are_an_outage_for_a_worker_that_has_worked() {
    let server = Server::start();
    server.redis_cli(&["acl", "setuser", "u", "on", ">p", "~duly:*", "+@all"]);
    let client = Client::builder().url(&server.url()).username("u").password("p").build().unwrap();
    let queue = server.queue("orders");
    let worker = start(&client, |worker| worker);
    for round in 1..=2 {
        queue.push(job("count")).await.unwrap();
        until("the job runs", async || worker.notes.runs.load(Ordering::SeqCst) == round).await;
        until("it waits", async || server.redis_cli(&["client", "list"]).contains("cmd=blpop")).await;
    }
    server.redis_cli(&["acl", "setuser", "u", "-evalsha", "-eval", "-blpop"]);
    server.redis_cli(&["client", "kill", "user", "u"]);
    until("it reports", async || worker.notes.count(is_trouble) == 1 || worker.running.is_finished()).await;
    assert!(!worker.running.is_finished(), "it ended");
    server.redis_cli(&["acl", "setuser", "u", "+@all"]);
    queue.push(job("count")).await.unwrap();
    until("the third job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 3).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_outlives_its_timeout_fails_and_its_handler_is_dropped() {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let id = queue.push(job("slow").max_retries(0).timeout(Duration::from_millis(30))).await.unwrap().id().to_owned();
    let dropped = Arc::new(Notify::new());
    let guard = Arc::clone(&dropped);
    let worker = start(&client, |worker| {
        worker.handler("slow", move |_: Job<Value>, _| {
            let guard = Dropped(Arc::clone(&guard));
            async move {
                let _guard = guard;
                std::future::pending::<Result<(), Failure>>().await
            }
        })
    });
    counts(&queue, "it fails", |counts| counts.failed == 1).await;
    dropped.notified().await;
    let failed = queue.find(&id).await.unwrap().unwrap().job;
    assert!(failed.envelope.error.contains("timeout of 0.03 s"), "{}", failed.envelope.error);
    // That its time is over; and perhaps already that it failed for good.
    let about = ("orders".to_owned(), id, Some("slow".to_owned()), 1);
    until("it reports", async || !worker.notes.about().is_empty()).await;
    assert!(worker.notes.about().iter().all(|one| *one == about));
    assert_eq!(worker.stop().await.failed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_fetched_ahead_goes_back_when_jobs_turn_out_long() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let gate = Arc::new(Semaphore::new(0));
    let closed = Arc::clone(&gate);
    // A hundred short jobs teach it to fetch ahead; then one blocks its only executor.
    queue.push_many((0..100).map(|_| job("count")).chain([job("long")]), |_| {}).await.unwrap();
    queue.push_many((0..50).map(|_| job("count")), |_| {}).await.unwrap();
    let worker = start(&client, |worker| {
        worker.handler("long", move |_: Job<Value>, _| {
            let gate = Arc::clone(&closed);
            async move {
                gate.acquire().await.map_err(|error| error.to_string())?.forget();
                Ok::<(), Failure>(())
            }
        })
    });
    counts(&queue, "the others are given back", |counts| counts.ready == 50 && counts.reserved == 1).await;
    // In their order, and uncounted.
    let other = queue.reserve(&ReserveOptions::new().max(50)).await.unwrap();
    assert!(other.iter().all(|job| job.attempt() == 1));
    assert!(other.is_sorted_by(|a, b| a.id() < b.id()), "the order was lost");
    queue.ack_all(&other).await.unwrap();
    gate.add_permits(1);
    counts(&queue, "the long one ends", is_empty).await;
    assert_eq!(worker.stop().await.acked, 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_stop_ends_the_grace() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.push(job("endless")).await.unwrap();
    let engine =
        duly::worker::Engine::start(&client, duly::worker::WorkerSettings::new(vec![("orders".to_owned(), 1)]))
            .unwrap();
    let executor = engine.executor();
    let run = executor.next().await.unwrap();
    engine.stop();
    assert!(engine.ended_within(Duration::from_millis(50)).is_none(), "the grace is 30 s");
    engine.stop();
    let report = engine.ended().await.unwrap();
    assert_eq!(report.released, 1);
    assert_eq!(executor.was_interrupted(&run), Some(duly::worker::Interruption::Stopped));
    assert_eq!(queue.counts().await.unwrap().ready, 1);
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

#[tokio::test(flavor = "multi_thread")]
async fn strict_queues_come_in_their_order_and_weighted_ones_all_get_a_turn() {
    // More than a worker fetches in one call.
    const JOBS: usize = 2000;
    let server = Server::start();
    for (selection, first_of_all) in [(Selection::Strict, true), (Selection::Weighted, false)] {
        let prefix = format!("{selection:?}:");
        let client = Client::builder().url(&server.url()).prefix(&prefix).build().unwrap();
        for name in ["orders", "mail"] {
            client.queue(name).unwrap().push_many((0..JOBS).map(|_| job("note")), |_| {}).await.unwrap();
        }
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&order);
        let worker = start(&client, |worker| {
            worker.queue("mail", 1).selection(selection).handler("note", move |job: Job<Value>, _| {
                seen.lock().unwrap().push(job.queue().name().to_owned());
                async { Ok::<(), Failure>(()) }
            })
        });
        until("all ran", async || order.lock().unwrap().len() == 2 * JOBS).await;
        worker.stop().await;
        let order = order.lock().unwrap();
        let mail_first = order.iter().take(JOBS).filter(|name| *name == "mail").count();
        if first_of_all {
            assert_eq!(mail_first, 0, "strict");
        } else {
            assert!((1..JOBS).contains(&mail_first), "weighted: {mail_first}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_queue_has_its_turn_beside_one_with_plenty_of_short_jobs() {
    const JOBS: usize = 2000;
    let server = Server::start();
    for selection in [Selection::Strict, Selection::Weighted] {
        let client = Client::builder().url(&server.url()).prefix(&format!("{selection:?}:")).build().unwrap();
        let (orders, mail) = (client.queue("orders").unwrap(), client.queue("mail").unwrap());
        orders.set_limits(&Limits::new().concurrency(5)).await.unwrap();
        orders.push(job("note").delay(Duration::from_millis(300))).await.unwrap();
        mail.push_many((0..JOBS).map(|_| job("note")), |_| {}).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&order);
        let worker = start(&client, |worker| {
            worker.queue("mail", 1).selection(selection).concurrency(10).handler("note", move |job: Job<Value>, _| {
                seen.lock().unwrap().push(job.queue().name().to_owned());
                async {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    Ok::<(), Failure>(())
                }
            })
        });
        until("all ran", async || order.lock().unwrap().len() == JOBS + 1).await;
        worker.stop().await;
        let turn = order.lock().unwrap().iter().position(|name| name == "orders").unwrap();
        assert!(turn < JOBS * 3 / 4, "{selection:?}: it ran behind {turn} of {JOBS}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_queue_is_served_at_once() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let worker = start(&client, |worker| worker);
    queue.pause().await.unwrap();
    queue.push(job("count")).await.unwrap();
    until("it looked and waits", async || {
        server.redis_cli(&["llen", "duly:{orders}:wake"]).trim() == "0"
            && server.redis_cli(&["client", "list"]).contains("cmd=blpop")
    })
    .await;
    assert_eq!(worker.notes.runs.load(Ordering::SeqCst), 0);
    queue.resume().await.unwrap();
    let resumed = Instant::now();
    until("it runs", async || worker.notes.runs.load(Ordering::SeqCst) == 1).await;
    // By itself it looks again after some three seconds.
    assert!(resumed.elapsed() < Duration::from_secs(2), "{:?}", resumed.elapsed());
    worker.stop().await;
}

/// Also what was fetched ahead before, because the jobs until then were short.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_starts_no_job_a_second_later() {
    const SHORT: u32 = 3000;
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let jobs = (0..SHORT).map(|_| job("count")).chain((0..2000).map(|_| job("slow")));
    queue.push_many(jobs, |_| {}).await.unwrap();
    let starts = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::clone(&starts);
    let worker = start(&client, |worker| {
        worker.concurrency(2).handler("slow", move |_: Job<Value>, _| {
            started.lock().unwrap().push(Instant::now());
            async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok::<(), Failure>(())
            }
        })
    });
    until("the slow ones begin", async || !starts.lock().unwrap().is_empty()).await;
    queue.pause().await.unwrap();
    let paused = Instant::now();
    counts(&queue, "it has given back or done all that it held", |counts| counts.reserved == 0).await;
    worker.stop().await;
    // Two at once for a second, of 20 ms each. A thousand were fetched ahead.
    let later = starts.lock().unwrap().iter().filter(|start| **start > paused).count();
    assert!(later <= 100, "{later} jobs started after the pause");
    assert!(queue.counts().await.unwrap().ready > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_start_in_time_on_one_of_several_idle_workers() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let workers: Vec<_> = (0..3).map(|_| start(&client, |worker| worker)).collect();
    queue.push_many((1..=50).map(|n| job("count").delay(Duration::from_millis(n * 20))), |_| {}).await.unwrap();
    let pushed = Instant::now();
    until("all ran", async || workers.iter().map(|worker| worker.notes.runs.load(Ordering::SeqCst)).sum::<u32>() == 50)
        .await;
    assert!(pushed.elapsed() < Duration::from_secs(3), "{:?}", pushed.elapsed());
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_run_without_an_outcome_is_followed_by_the_next() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let engine =
        duly::worker::Engine::start(&client, duly::worker::WorkerSettings::new(vec![("orders".to_owned(), 1)]))
            .unwrap();
    let executor = engine.executor();
    for number in 0..20 {
        queue.push(NewJob::new(&number).unwrap()).await.unwrap();
        let run = tokio::time::timeout(Duration::from_secs(60), executor.next()).await.unwrap().unwrap();
        // Nothing of the engine is left to do meanwhile, and it sleeps.
        tokio::time::sleep(Duration::from_millis(20)).await;
        run.job.ack().await.unwrap();
        assert!(executor.finish(&run, duly::worker::Ended::SettledByHandler).unwrap().is_none());
    }
}

#[tokio::test]
async fn endless_waits_of_an_engine_are_none() {
    let server = Server::start();
    let engine =
        Arc::new(Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap());
    let endless = {
        let (engine, executor) = (Arc::clone(&engine), engine.executor());
        std::thread::spawn(move || {
            assert!(matches!(executor.next_within(Duration::MAX), NextRun::Over));
            engine.ended_within(Duration::MAX).unwrap().unwrap();
            assert!(engine.event_within(Duration::MAX).is_none());
        })
    };
    engine.stop();
    tokio::task::spawn_blocking(|| endless.join().unwrap()).await.unwrap();
}
