//! A worker acks, fails, renews, stops with grace, and leaves to others what it does not finish.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::support::{Server, eventually};
use duly::worker::{EventLevel, Failure, Job, Middleware, Worker, WorkerBuilder, WorkerEvent, WorkerReport};
use duly::{Client, Envelope, Millis, NewJob, Queue, ReserveOptions, RetryPolicy, State};
use serde_json::Value;
use tokio::sync::Notify;

fn job(name: &str) -> NewJob {
    NewJob::new(&1).unwrap().name(name).retry(RetryPolicy::Fixed { delay: Millis::ZERO })
}

fn worker(client: &Client) -> WorkerBuilder {
    Worker::builder(client.clone()).queue("orders", 1)
}

/// Runs the worker until the queue is as it should be.
async fn run_until(worker: WorkerBuilder, queue: &Queue, done: impl Fn(&duly::Counts) -> bool) -> WorkerReport {
    let stop = async {
        while !done(&queue.counts().await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    worker.build().unwrap().run_until(stop).await.unwrap()
}

fn is_empty(counts: &duly::Counts) -> bool {
    counts.delayed + counts.ready + counts.reserved == 0
}

#[tokio::test]
async fn jobs_run_and_are_acked() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.push_many((0..50).map(|_| job("count")), |_| {}).await.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let worker = worker(&client).concurrency(8).handler("count", move |_: Job<Value>, _| {
        let runs = Arc::clone(&counted);
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok::<(), String>(())
        }
    });
    let report = run_until(worker, &queue, is_empty).await;
    assert_eq!((report.acked, runs.load(Ordering::SeqCst)), (50, 50));
}

#[tokio::test]
async fn it_stops_by_itself_after_so_many_runs() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.push_many((0..50).map(|_| job("count")), |_| {}).await.unwrap();
    let worker =
        worker(&client).concurrency(3).max_jobs(20).handler("count", |_: Job<Value>, _| async { Ok::<(), String>(()) });
    let report = worker.build().unwrap().run_until(std::future::pending()).await.unwrap();
    assert_eq!((report.acked, report.released), (20, 0), "{report:?}");
    assert_eq!(queue.counts().await.unwrap().ready, 30);
}

#[tokio::test]
async fn the_last_run_takes_as_long_as_it_needs_and_a_stop_begins_its_grace() {
    for is_stopped in [false, true] {
        let server = Server::start();
        let (client, queue) = (server.client(), server.queue("orders"));
        queue.push_many((0..2).map(|_| job("long")), |_| {}).await.unwrap();
        let (began, ends) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, may_end) = (Arc::clone(&began), Arc::clone(&ends));
        let worker = worker(&client).max_jobs(1).grace(Duration::ZERO).lease(Duration::from_millis(300)).handler(
            "long",
            move |_: Job<Value>, _| {
                let (begins, may_end) = (Arc::clone(&begins), Arc::clone(&may_end));
                async move {
                    begins.notify_one();
                    may_end.notified().await;
                    Ok::<(), String>(())
                }
            },
        );
        let lease_end = || server.redis_cli(&["zrange", "duly:{orders}:reserved", "0", "-1", "withscores"]);
        let stop = async {
            began.notified().await;
            // Its lease is renewed, for longer than a lease, and it is shown.
            let mut last = lease_end();
            for _ in 0..5 {
                eventually("the lease is renewed", || async { lease_end() != last }).await;
                last = lease_end();
            }
            let is_shown = || async { queue.workers().await.unwrap().iter().any(|worker| worker.running.len() == 1) };
            eventually("it is shown", is_shown).await;
            assert_eq!(queue.counts().await.unwrap().ready, 1, "another one is begun");
            if !is_stopped {
                ends.notify_one();
                std::future::pending::<()>().await;
            }
        };
        let report = worker.build().unwrap().run_until(stop).await.unwrap();
        assert_eq!((report.acked, report.released), if is_stopped { (0, 1) } else { (1, 0) }, "{report:?}");
    }
}

#[tokio::test]
async fn failures_and_panics_are_retried_and_end_in_failed() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let ids = [
        queue.push(job("twice").max_retries(2)).await.unwrap().id().to_owned(),
        queue.push(job("always").max_retries(1)).await.unwrap().id().to_owned(),
        queue.push(job("panic").max_retries(0)).await.unwrap().id().to_owned(),
        queue.push(job("unknown").max_retries(0)).await.unwrap().id().to_owned(),
        queue.push(job("slow").max_retries(0).timeout(Duration::from_millis(20))).await.unwrap().id().to_owned(),
    ];
    let worker = worker(&client)
        .concurrency(2)
        .handler("twice", |job: Job<Value>, _| async move { if job.attempt() < 3 { Err("not yet") } else { Ok(()) } })
        .handler("always", |_: Job<Value>, _| async { Err::<(), _>("never") })
        .handler("slow", |_: Job<Value>, _| std::future::pending::<Result<(), String>>())
        .handler("panic", |job: Job<Value>, _| async move {
            assert!(job.id().is_empty(), "at the disco");
            Ok::<(), String>(())
        });
    let report = run_until(worker, &queue, is_empty).await;
    assert_eq!((report.acked, report.failed), (1, 2 + 2 + 1 + 1 + 1));
    assert!(queue.find(&ids[0]).await.unwrap().is_none());
    for (id, error) in ids[1..].iter().zip(["never", "at the disco", "no handler for the name 'unknown'", "timeout"]) {
        let found = queue.find(id).await.unwrap().unwrap().job;
        assert_eq!(found.state, State::Failed);
        assert!(found.envelope.error.contains(error), "{}", found.envelope.error);
    }
}

/// Panics in each hook of the jobs that are named after it.
struct Panics;

impl Panics {
    fn at(hook: &str, job: &duly::Job) {
        assert!(job.envelope.name.as_deref() != Some(hook), "in {hook}");
    }
}

impl Middleware for Panics {
    fn before(&self, job: &duly::Job) -> Result<(), Failure> {
        Self::at("before", job);
        Ok(())
    }

    fn after(&self, job: &duly::Job) {
        Self::at("after", job);
    }

    fn on_failure(&self, job: &duly::Job, _: &mut Failure, _: &mut Envelope) {
        Self::at("on_failure", job);
    }

    fn on_failed(&self, job: &duly::Job, _: &str) {
        Self::at("on_failed", job);
    }
}

/// Panics when it is dropped.
struct Brittle;

impl Drop for Brittle {
    fn drop(&mut self) {
        panic!("while it was dropped");
    }
}

#[tokio::test]
async fn an_executor_survives_panics_in_hooks_and_in_the_drop_of_a_handler() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let names = ["before", "after", "on_failure", "on_failed", "dropped", "thrown"];
    let mut ids = Vec::new();
    for name in names {
        let pushed = job(name).max_retries(0);
        let pushed = if name == "dropped" { pushed.timeout(Duration::from_millis(20)) } else { pushed };
        ids.push(queue.push(pushed).await.unwrap().id().to_owned());
    }
    let worker = worker(&client)
        .middleware(Panics)
        .on_event(|event| panic!("reported {event}"))
        .handler("dropped", |_: Job<Value>, _| async {
            let _brittle = Brittle;
            std::future::pending::<Result<(), Failure>>().await
        })
        .handler("thrown", |_: Job<Value>, _| async {
            std::panic::panic_any(Brittle);
            #[expect(unreachable_code, reason = "the handler's type")]
            Ok::<(), Failure>(())
        })
        .any_handler(|job: Job<Value>, _| async move {
            if job.envelope.name.as_deref() == Some("after") { Ok(()) } else { Err("no luck") }
        });
    let report = run_until(worker, &queue, is_empty).await;
    assert_eq!((report.acked, report.failed), (1, 5), "one executor ran them all");
    for (id, error) in
        [(&ids[0], "panicked: in before"), (&ids[2], "no luck"), (&ids[3], "no luck"), (&ids[4], "timeout")]
    {
        let kept = queue.find(id).await.unwrap().unwrap().job.envelope.error;
        assert!(kept.contains(error), "{kept}");
    }
}

#[tokio::test]
async fn a_lease_is_renewed_while_the_handler_runs() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.push(job("long")).await.unwrap();
    let other = server.queue("orders");
    let worker = worker(&client).lease(Duration::from_millis(1500)).handler("long", move |_: Job<Value>, _| {
        let other = other.clone();
        async move {
            // Two leases long, another worker looks for it.
            let taken = other.reserve(&ReserveOptions::new().wait(Duration::from_secs(3))).await;
            if taken.is_ok_and(|jobs| jobs.is_empty()) { Ok(()) } else { Err("it was taken away") }
        }
    });
    let report = run_until(worker, &queue, is_empty).await;
    assert_eq!((report.acked, report.failed, report.lost), (1, 0, 0));
}

/// Holds up a thread in the hooks behind a run.
struct Holds {
    begun: Arc<Notify>,
    may_end: Mutex<mpsc::Receiver<()>>,
}

impl Middleware for Holds {
    fn after(&self, _: &duly::Job) {
        self.begun.notify_one();
        tokio::task::block_in_place(|| self.may_end.lock().unwrap().recv().unwrap());
    }

    fn on_failed(&self, job: &duly::Job, _: &str) {
        self.after(job);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_has_come_to_stays_though_its_hooks_outlive_the_grace() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    for name in ["works", "fails"] {
        queue.push(job(name).max_retries(0)).await.unwrap();
        let begun = Arc::new(Notify::new());
        let (end, may_end) = mpsc::channel();
        let worker = worker(&client)
            .grace(Duration::ZERO)
            .middleware(Holds { begun: Arc::clone(&begun), may_end: Mutex::new(may_end) })
            .any_handler(|job: Job<Value>, _| async move {
                if job.envelope.name.as_deref() == Some("works") { Ok(()) } else { Err("no luck") }
            })
            .build()
            .unwrap();
        let worker = tokio::spawn(async move { worker.run_until(begun.notified()).await });
        eventually("what it has come to is stored", || async { is_empty(&queue.counts().await.unwrap()) }).await;
        end.send(()).unwrap();
        worker.await.unwrap().unwrap();
        let counts = queue.counts().await.unwrap();
        assert_eq!((counts.ready, counts.failed), (0, u64::from(name == "fails")), "{name}");
    }
}

/// Hooks that hold up the one thread of their test, until the server shows what they wait for.
struct Outlives {
    server: Arc<Server>,
    /// The timeout is over in `on_failure`, or in `on_failed`.
    in_on_failure: bool,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Outlives {
    fn failed(&self) -> String {
        self.server.redis_cli(&["ZCARD", "duly:{orders}:failed"]).trim().to_owned()
    }
}

impl Middleware for Outlives {
    fn on_failure(&self, _: &duly::Job, _: &mut Failure, _: &mut Envelope) {
        while self.in_on_failure && self.failed() == "0" {}
    }

    fn on_failed(&self, _: &duly::Job, error: &str) {
        self.calls.lock().unwrap().push(error.to_owned());
        // Until its lease would have ended twice, without a renewal.
        let mut leases = std::collections::HashSet::new();
        while !self.in_on_failure && leases.len() < 8 {
            assert_eq!(self.failed(), "0", "another worker hears of it");
            leases.insert(self.server.redis_cli(&["ZRANGE", "duly:{orders}:reserved", "0", "-1", "WITHSCORES"]));
        }
    }
}

/// The calls of `on_failed` for a job whose timeout is over in one of its hooks, the log and the events.
async fn outlive_the_timeout(in_on_failure: bool) -> (Vec<String>, Vec<String>, Vec<String>) {
    let lines = crate::log::Lines::default();
    let _guard =
        crate::listen(tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), lines.clone()));
    let server = Arc::new(Server::start());
    let (client, queue) = (server.client(), server.queue("orders"));
    let (calls, events) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&events);
    let worker = worker(&client)
        .lease(Duration::from_millis(500))
        .middleware(Outlives { server: Arc::clone(&server), in_on_failure, calls: Arc::clone(&calls) })
        .on_event(move |event| seen.lock().unwrap().push(event.to_string()))
        .any_handler(|_: Job<Value>, _| async { Err::<(), _>("no luck") });
    queue.push(job("fails").max_retries(0).timeout(Duration::from_millis(200))).await.unwrap();
    let is_done = eventually("it has failed, and all is heard of", || async {
        let counts = queue.counts().await.unwrap();
        let is_heard = server.redis_cli(&["HGET", "duly:{orders}:meta", "unheard_last"]).trim().is_empty()
            && server.redis_cli(&["ZCARD", "duly:{orders}:unheard"]).trim() == "0";
        counts.failed == 1 && is_heard && !calls.lock().unwrap().is_empty()
    });
    let report = worker.build().unwrap().run_until(is_done).await.unwrap();
    assert_eq!((report.failed, report.lost), (1, 0));
    let (calls, events) = (calls.lock().unwrap().clone(), events.lock().unwrap().clone());
    (calls, lines.all(), events)
}

#[tokio::test]
async fn a_hook_that_outlives_the_timeout_of_its_run_is_called_once() {
    let (calls, lines, events) = outlive_the_timeout(false).await;
    assert_eq!(calls, ["no luck"]);
    assert!(lines.iter().any(|line| line.contains("failed for good; find the cause")), "{lines:?}");
    let said = "it ran longer than its timeout, but what becomes of the job was decided before";
    assert!(events.iter().any(|event| event.contains(said)), "{events:?}");
}

#[tokio::test]
async fn a_run_that_was_interrupted_in_its_on_failure_hook_is_heard_of_once() {
    let (calls, lines, _) = outlive_the_timeout(true).await;
    assert_eq!(calls, ["ran longer than its timeout of 0.2 s"]);
    assert!(lines.iter().any(|line| line.contains("was interrupted behind its failure")), "{lines:?}");
}

#[tokio::test]
async fn a_stop_lets_run_within_the_grace_and_gives_back_the_rest() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let stop = Arc::new(Notify::new());
    queue.push(job("short")).await.unwrap();
    queue.push(job("endless")).await.unwrap();
    queue.push(job("short")).await.unwrap();
    let (stopper, started) = (Arc::clone(&stop), Arc::new(Notify::new()));
    let endless_started = Arc::clone(&started);
    let reported = Arc::new(Notify::new());
    let reporting = Arc::clone(&reported);
    let worker = worker(&client)
        .concurrency(2)
        .grace(Duration::from_secs(1))
        .on_event(move |event| {
            if event.to_string().starts_with("the worker stops: 2 jobs may run on for 1 s")
                && event.level() == EventLevel::Info
            {
                reporting.notify_one();
            }
        })
        .handler("short", move |_: Job<Value>, _| {
            let (stop, started, reported) = (Arc::clone(&stopper), Arc::clone(&endless_started), Arc::clone(&reported));
            async move {
                started.notified().await;
                stop.notify_one();
                reported.notified().await;
                Ok::<(), String>(())
            }
        })
        .handler("endless", move |_: Job<Value>, _| {
            started.notify_one();
            std::future::pending::<Result<(), String>>()
        });
    let report = worker.build().unwrap().run_until(stop.notified()).await.unwrap();
    assert_eq!((report.acked, report.released, report.failed), (1, 1, 0));
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.reserved), (2, 0));
    let jobs = queue.reserve(&ReserveOptions::new().max(2)).await.unwrap();
    assert!(jobs.iter().all(|job| job.attempt() == 1));
}

#[tokio::test]
async fn an_engine_that_is_dropped_after_its_stop_still_gives_back_what_it_has() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    for _ in 0..20 {
        queue.push(job("any")).await.unwrap();
        let settings = duly::worker::WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        let engine = duly::worker::Engine::start(&client, settings).unwrap();
        let executor = engine.executor();
        let run = executor.next().await.unwrap();
        engine.stop();
        drop(engine);
        // Long before the lease of ten seconds ends, and no failure was counted.
        let again = queue.reserve(&ReserveOptions::new().wait(Duration::from_secs(5))).await.unwrap();
        assert_eq!((again.len(), again[0].attempt(), again[0].id()), (1, 1, run.job.id()));
        again[0].ack().await.unwrap();
    }
}

#[tokio::test]
async fn jobs_of_a_dropped_worker_run_again_when_their_leases_end() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.push(job("endless")).await.unwrap();
    let started = Arc::new(Notify::new());
    let starting = Arc::clone(&started);
    let worker = worker(&client).lease(Duration::from_millis(300)).handler("endless", move |_: Job<Value>, _| {
        starting.notify_one();
        std::future::pending::<Result<(), String>>()
    });
    let worker = worker.build().unwrap();
    tokio::select! {
        _ = worker.run_until(std::future::pending()) => unreachable!(),
        () = started.notified() => {}
    }
    let again = queue.reserve(&ReserveOptions::new().wait(Duration::from_secs(5))).await.unwrap();
    assert_eq!(again[0].attempt(), 1);
}

#[tokio::test]
async fn a_handler_that_lost_its_lease_is_dropped() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let id = queue.push(job("endless")).await.unwrap().id().to_owned();
    let cancelling = queue.clone();
    let worker = worker(&client).lease(Duration::from_secs(1)).handler("endless", move |_: Job<Value>, _| {
        let (queue, id) = (cancelling.clone(), id.clone());
        async move {
            queue.cancel(&id).await.map_err(|error| error.to_string())?;
            std::future::pending::<Result<(), String>>().await
        }
    });
    let report = run_until(worker, &queue, is_empty).await;
    assert_eq!((report.acked, report.lost), (0, 1));
}

/// Writes down in which order it is called.
struct Noted(&'static str, Arc<std::sync::Mutex<Vec<String>>>);

impl Noted {
    fn note(&self, hook: &str) {
        self.1.lock().unwrap().push(format!("{hook} {}", self.0));
    }
}

impl Middleware for Noted {
    fn before(&self, job: &duly::Job) -> Result<(), Failure> {
        self.note("before");
        if job.envelope.name.as_deref() == Some("refused") { Err("not today".into()) } else { Ok(()) }
    }

    fn after(&self, _: &duly::Job) {
        self.note("after");
    }

    fn on_failure(&self, _: &duly::Job, failure: &mut Failure, changed: &mut Envelope) {
        self.note("on_failure");
        failure.error.push_str(" (seen)");
        changed.data = duly::Data::from_json(r#""changed""#, 100).unwrap();
    }

    fn on_failed(&self, _: &duly::Job, _: &str) {
        self.note("on_failed");
    }
}

#[tokio::test]
async fn hooks_run_in_the_documented_order_and_may_change_a_failed_job() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let mut orders = Vec::new();
    let mut ids = Vec::new();
    for name in ["good", "bad", "refused"] {
        ids.push(queue.push(job(name).max_retries(0)).await.unwrap().id().to_owned());
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let worker = worker(&client)
            .handler("good", |_: Job<Value>, _| async { Ok::<(), Failure>(()) })
            .handler("bad", |_: Job<Value>, _| async { Err::<(), _>("bad luck") })
            .middleware(Noted("outer", Arc::clone(&order)))
            .middleware(Noted("inner", Arc::clone(&order)));
        run_until(worker, &queue, is_empty).await;
        orders.push(order.lock().unwrap().join(", "));
    }
    assert_eq!(orders[0], "before outer, before inner, after inner, after outer");
    let failed = "on_failure inner, on_failure outer, on_failed inner, on_failed outer";
    assert_eq!(orders[1], format!("before outer, before inner, {failed}"));
    assert_eq!(orders[2], format!("before outer, {failed}"));
    let kept = queue.find(&ids[1]).await.unwrap().unwrap().job.envelope;
    assert_eq!((kept.error.as_str(), kept.data.as_str()), ("bad luck (seen) (seen)", r#""changed""#));
}

#[tokio::test]
async fn a_handler_may_settle_its_job_itself() {
    const LATER: Duration = Duration::from_secs(60);
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    for name in ["acks", "releases", "fails", "fails by a clone", "acks and errs"] {
        queue.push(job(name).max_retries(0)).await.unwrap();
    }
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let events = Arc::new(AtomicU32::new(0));
    let reported = Arc::clone(&events);
    let worker = worker(&client)
        .handler("acks", |job: Job<Value>, _| async move { job.ack().await })
        .handler("releases", |job: Job<Value>, _| async move { job.release(LATER).await })
        .handler("fails", |job: Job<Value>, _| async move { job.fail("no").await.map(drop) })
        .handler("fails by a clone", |job: Job<Value>, _| async move { (*job).clone().fail("no").await.map(drop) })
        .handler("acks and errs", |job: Job<Value>, _| async move {
            job.ack().await?;
            Err::<(), Failure>("too late".into())
        })
        .middleware(Noted("it", Arc::clone(&order)))
        .on_event(move |event| {
            // A machine that stands still has trouble with its server, too.
            if !matches!(event, WorkerEvent::Trouble { .. } | WorkerEvent::Recovered { .. }) {
                reported.fetch_add(1, Ordering::SeqCst);
            }
        });
    let report = run_until(worker, &queue, |counts| counts.ready + counts.reserved == 0).await;
    assert_eq!((report.lost, events.load(Ordering::SeqCst)), (0, 0), "no lease was lost");
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.delayed, counts.failed), (1, 2));
    let before_and_after = "before it, after it, before it, before it, before it, before it";
    assert_eq!(order.lock().unwrap().join(", "), before_and_after, "after hooks only behind the ack");
}

#[tokio::test]
async fn a_failure_says_what_becomes_of_the_job() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let mut ids = Vec::new();
    for name in ["later", "back", "never"] {
        ids.push(queue.push(job(name)).await.unwrap().id().to_owned());
    }
    for retries in [1, 0] {
        let secret = NewJob::new(&"secret").unwrap().name("misfit").max_retries(retries);
        ids.push(queue.push(secret).await.unwrap().id().to_owned());
    }
    // As deep as data may be, and deeper than serde_json reads by default.
    let deep = NewJob::from_json(format!("{}{}", "[".repeat(512), "]".repeat(512))).unwrap().name("deep");
    queue.push(deep).await.unwrap();
    let hour = Duration::from_secs(3600);
    let worker = worker(&client)
        .handler("later", move |_: Job<Value>, _| async move { Err::<(), _>(Failure::retry_after(hour, "busy")) })
        .handler("back", move |_: Job<Value>, _| async move { Err::<(), _>(Failure::release_after(hour)) })
        .handler("never", |_: Job<Value>, _| async { Err::<(), _>(Failure::fail_now("no such order")) })
        .handler("misfit", |_: Job<Vec<u8>>, _| async { Ok::<(), Failure>(()) })
        .handler("deep", |_: Job<Value>, _| async { Ok::<(), Failure>(()) });
    let report = run_until(worker, &queue, |counts| counts.ready + counts.reserved == 0).await;
    assert_eq!(report.acked, 1, "what is nested deeply");
    let mut found = Vec::new();
    for id in &ids {
        let job = queue.find(id).await.unwrap().unwrap().job;
        found.push((job.state, job.envelope.attempts, job.envelope.error));
    }
    assert_eq!(found[0], (State::Delayed, 1, "busy".to_owned()));
    assert_eq!(found[1], (State::Delayed, 0, String::new()));
    assert_eq!(found[2], (State::Failed, 1, "no such order".to_owned()));
    for (misfit, state) in [(&found[3], State::Delayed), (&found[4], State::Failed)] {
        assert_eq!((misfit.0, misfit.1), (state, 1), "the retry policy decides");
        assert!(misfit.2.contains("does not fit the handler's type") && !misfit.2.contains("secret"), "{}", misfit.2);
    }
}

#[tokio::test]
async fn a_job_that_an_older_worker_cannot_read_is_left_to_a_newer_one() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.push(job("close").max_retries(1)).await.unwrap();
    let older = worker(&client).max_jobs(1).handler("close", |_: Job<String>, _| async { Ok::<(), Failure>(()) });
    assert_eq!(older.build().unwrap().run_until(std::future::pending()).await.unwrap().failed, 1);
    let newer = worker(&client).handler("close", |_: Job<u32>, _| async { Ok::<(), Failure>(()) });
    assert_eq!(run_until(newer, &queue, is_empty).await.acked, 1);
    assert_eq!(queue.counts().await.unwrap().failed, 0);
}
