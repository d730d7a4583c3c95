//! `on_failed` and the log hear of every job that enters `failed`, whatever sent it there.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use duly::worker::{
    Context, Ended, Engine, EventLevel, Executor, FailedJob, Failure, Job, Middleware, NextRun, Run, Worker,
    WorkerEvent, WorkerSettings,
};
use duly::{AuditOptions, Client, Envelope, NewJob, Queue, ReserveOptions, State};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Each call of `on_failed`: id, data, attempt, error.
type Reports = Arc<Mutex<Vec<(String, String, u32, String)>>>;

struct Reporting(Reports);

impl Middleware for Reporting {
    fn on_failure(&self, job: &duly::Job, _: &mut Failure, changed: &mut Envelope) {
        if job.envelope.name.as_deref() == Some("spoilt") {
            changed.key = Some("another".to_owned()); // which is refused
        }
    }

    fn on_failed(&self, job: &duly::Job, error: &str) {
        let data = job.envelope.data.as_str().to_owned();
        self.0.lock().unwrap().push((job.id().to_owned(), data, job.attempt(), error.to_owned()));
    }
}

/// A worker with the hook, whose handler `long` never ends by itself.
struct Working {
    reported: Reports,
    events: Arc<Mutex<Vec<WorkerEvent>>>,
    stop: Arc<Notify>,
    running: JoinHandle<()>,
}

impl Working {
    fn start(server: &Server) -> Self {
        Self::start_as(&server.client())
    }

    fn start_as(client: &Client) -> Self {
        let (reported, events, stop) = (Reports::default(), Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let heard = Arc::clone(&events);
        let worker = Worker::builder(client.clone())
            .queue("orders", 1)
            .lease(Duration::from_secs(1))
            .middleware(Reporting(Arc::clone(&reported)))
            .on_event(move |event| heard.lock().unwrap().push(event.clone()))
            .handler("long", |_: Job<Value>, _: Context| std::future::pending::<Result<(), Failure>>())
            .handler("bad", |_: Job<Value>, _: Context| async { Err::<(), _>("bad luck") })
            .handler("spoilt", |_: Job<Value>, _: Context| async { Err::<(), _>("bad luck") })
            .handler("own", |job: Job<Value>, _: Context| async move { job.fail("its own verb").await.map(drop) })
            .build()
            .unwrap();
        let stopped = Arc::clone(&stop);
        let running = tokio::spawn(async move {
            worker.run_until(stopped.notified()).await.unwrap();
        });
        Self { reported, events, stop, running }
    }

    async fn wait_for_reports(&self, ids: &[&str]) -> Vec<(String, String, u32, String)> {
        support::eventually("the hook is called", || async {
            let reported = self.reported.lock().unwrap();
            ids.iter().all(|id| reported.iter().any(|(of, ..)| of == id))
        })
        .await;
        self.reported.lock().unwrap().clone()
    }

    async fn until_event(&self, what: &str, is_it: impl Fn(&WorkerEvent) -> bool) {
        support::eventually(what, || async { self.events.lock().unwrap().iter().any(&is_it) }).await;
    }

    /// How many jobs were trimmed, of each time that it said so.
    fn trimmed(&self) -> Vec<u64> {
        let events = self.events.lock().unwrap();
        let jobs = |event: &WorkerEvent| match event {
            WorkerEvent::Trimmed { jobs, .. } => Some(*jobs),
            _ => None,
        };
        events.iter().filter_map(jobs).collect()
    }

    async fn stop(self) {
        self.stop.notify_one();
        self.running.await.unwrap();
    }
}

fn job(name: &str) -> NewJob {
    NewJob::new(&name).unwrap().name(name).max_retries(0)
}

/// What the server keeps of failures that nobody has heard of.
fn line(server: &Server) -> (String, String) {
    let in_line = server.redis_cli(&["HGET", "duly:{orders}:meta", "unheard_last"]).trim().to_owned();
    (server.redis_cli(&["ZCARD", "duly:{orders}:unheard"]).trim().to_owned(), in_line)
}

async fn nobody_waits(server: &Server) {
    let nobody = ("0".to_owned(), String::new());
    support::eventually("all were heard of", || async { line(server) == nobody }).await;
}

#[tokio::test]
async fn a_failure_with_a_change_that_is_refused_is_heard_of_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    let worker = Working::start(&server);
    let id = queue.push(job("spoilt")).await.unwrap().id().to_owned();
    let is_its = |event: &WorkerEvent| matches!(event, WorkerEvent::Failed { job, .. } if job.id == id);
    worker.until_event("it is an event", is_its).await;
    assert_eq!(worker.wait_for_reports(&[&id]).await.len(), 1);
    worker.stop().await;
}

/// Another program put them in; each is heard of, and neither for the other, though people read the same id.
#[tokio::test]
async fn failed_jobs_whose_ids_are_not_utf8_are_heard_of_once_each() {
    let server = Server::start();
    for id in ["\\2551", "\\2541"] {
        let put = format!("redis.call('HSET', KEYS[1], '{id}', ARGV[1]) redis.call('RPUSH', KEYS[2], '{id}')");
        server.redis_cli(&["EVAL", &put, "2", "duly:{orders}:jobs", "duly:{orders}:ready:5", "{\"data\":1}"]);
    }
    let worker = Working::start(&server);
    support::eventually("the hook is called for both", || async { worker.reported.lock().unwrap().len() == 2 }).await;
    nobody_waits(&server).await;
    let is_it = |event: &&WorkerEvent| matches!(event, WorkerEvent::Failed { .. });
    let events: Vec<_> = worker.events.lock().unwrap().iter().filter(is_it).map(ToString::to_string).collect();
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.contains("its record cannot be read, see its stored error")), "{events:?}");
    for (id, _, _, error) in worker.reported.lock().unwrap().iter() {
        assert!(id == "\u{fffd}1" && error.contains("not UTF-8"), "{id}: {error}");
    }
    worker.stop().await;
}

/// A fleet of workers with one run each would hear of nothing, if a worker heard of nothing during its last run.
#[tokio::test]
async fn a_worker_hears_of_failures_during_its_last_run() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(job("waits")).await.unwrap();
    let (reported, last_runs) = (Reports::default(), Arc::new(Notify::new()));
    let (runs, heard) = (Arc::clone(&last_runs), Arc::clone(&reported));
    let worker = Worker::builder(server.client())
        .queue("orders", 1)
        .max_jobs(1)
        .middleware(Reporting(Arc::clone(&reported)))
        .handler("waits", move |_: Job<Value>, _: Context| {
            let (runs, heard) = (Arc::clone(&runs), Arc::clone(&heard));
            async move {
                runs.notify_one();
                support::eventually("the hook is called", || async { !heard.lock().unwrap().is_empty() }).await;
                Ok::<_, Failure>(())
            }
        })
        .build()
        .unwrap();
    let worker = tokio::spawn(async move { worker.run().await.unwrap() });
    last_runs.notified().await;
    let id = queue.push(job("by hand")).await.unwrap().id().to_owned();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("by hand").await.unwrap();
    assert_eq!(worker.await.unwrap().acked, 1);
    assert_eq!(reported.lock().unwrap().iter().map(|(of, ..)| of.clone()).collect::<Vec<_>>(), [id]);
}

#[tokio::test]
async fn each_way_into_failed_is_heard_of_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    let push = async |queue: &Queue, job: NewJob| queue.push(job).await.unwrap().id().to_owned();
    // A worker that dies with it, before there is another; and one who fails it by hand.
    let dead = push(&queue, job("dead")).await;
    drop(queue.reserve(&ReserveOptions::new().lease(Duration::from_millis(1))).await.unwrap());
    let by_hand = push(&queue, job("by hand")).await;
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("by hand").await.unwrap();

    let worker = Working::start(&server);
    let timed_out = push(&queue, job("long").timeout(Duration::from_millis(20))).await;
    let bad = push(&queue, job("bad")).await;
    let own = push(&queue, job("own")).await;
    let reported = worker.wait_for_reports(&[&dead, &by_hand, &timed_out, &bad, &own]).await;
    for (id, data, error) in [
        (&dead, "\"dead\"", "lease ended"),
        (&by_hand, "\"by hand\"", "by hand"),
        (&timed_out, "\"long\"", "ran longer than its timeout of 0.02 s"),
        (&bad, "\"bad\"", "bad luck"),
        (&own, "\"own\"", "its own verb"),
    ] {
        let of_it: Vec<_> = reported.iter().filter(|(of, ..)| of == id).collect();
        assert_eq!(of_it.len(), 1, "{reported:?}");
        assert!(of_it[0].1 == data && of_it[0].2 == 1 && of_it[0].3.contains(error), "{of_it:?}");
    }
    nobody_waits(&server).await;
    let was_last = |event: &WorkerEvent| matches!(event, WorkerEvent::Interrupted { job, is_last: true, .. } if job.id == timed_out);
    worker.until_event("the timeout says that it was the last", was_last).await;
    for (id, why) in
        [(&dead, "its worker died"), (&timed_out, "longer than its timeout"), (&own, "see its stored error")]
    {
        let is_it = |event: &WorkerEvent| {
            let about = matches!(event, WorkerEvent::Failed { job, .. } if job.id == *id);
            about && event.level() == EventLevel::Error && event.to_string().contains(why)
        };
        worker.until_event(why, is_it).await;
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_job_whose_hook_died_is_told_of_again() {
    let server = Server::start();
    let queue = server.queue("orders");
    let id = queue.push(job("by hand")).await.unwrap().id().to_owned();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("by hand").await.unwrap();

    // This one is reported, and ends before it says that its hooks have run.
    let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    let event = tokio::time::timeout(Duration::from_secs(20), engine.event()).await.expect("it is reported");
    assert!(matches!(&event, WorkerEvent::Failed { failed: Some(_), .. }), "{event}");
    drop(engine);
    assert_eq!(line(&server).0, "1");

    // Its claim is over.
    server.redis_cli(&["ZADD", "duly:{orders}:unheard", "1", &id]);
    let worker = Working::start(&server);
    assert_eq!(worker.wait_for_reports(&[&id]).await.len(), 1);
    nobody_waits(&server).await;
    worker.stop().await;
}

/// Its hook ends the process, again and again: with those that were claimed beside it, then alone, and then no more.
#[tokio::test]
async fn a_hook_that_ends_its_process_ends_three_at_most_and_takes_no_other_hook_along() {
    let server = Server::start();
    let queue = server.queue("orders");
    let bad = fail_by_hand(&queue).await;
    let mut others = vec![fail_by_hand(&queue).await, fail_by_hand(&queue).await];
    for claimed_with_it in [3, 1, 1] {
        // It comes first, as if its claim had ended first.
        let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
        assert_eq!(failed_event(&engine).await.job.id(), bad);
        if claimed_with_it > 1 {
            failed_event(&engine).await;
            failed_event(&engine).await;
        } else {
            support::eventually("it is claimed alone", || async { line(&server).0 == "3" }).await;
        }
        drop(engine);
        for (at, id) in [&bad].into_iter().chain(&others).enumerate() {
            server.redis_cli(&["ZADD", "duly:{orders}:unheard", &(at + 1).to_string(), id]);
        }
    }
    let worker = Working::start(&server);
    worker
        .until_event("it is given up", |event| matches!(event, WorkerEvent::HooksGivenUp { job } if job.id == bad))
        .await;
    let reported = worker.wait_for_reports(&others.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut reported: Vec<_> = reported.into_iter().map(|report| report.0).collect();
    reported.sort();
    others.sort();
    assert_eq!(reported, others);
    nobody_waits(&server).await;
    assert_eq!(
        server
            .redis_cli(&["--raw", "HKEYS", "duly:{orders}:meta"])
            .lines()
            .filter(|name| name.starts_with("ended:"))
            .count(),
        0
    );
    worker.stop().await;
}

/// Fails a new job by hand.
async fn fail_by_hand(queue: &Queue) -> String {
    let id = queue.push(job("by hand")).await.unwrap().id().to_owned();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("by hand").await.unwrap();
    id
}

async fn failed_event(engine: &Engine) -> Arc<FailedJob> {
    let event = tokio::time::timeout(Duration::from_secs(20), engine.event()).await.expect("it is reported");
    match event {
        WorkerEvent::Failed { failed: Some(failed), .. } => failed,
        other => panic!("{other}"),
    }
}

/// May any worker claim this job now?
fn is_free(server: &Server, id: &str) -> bool {
    let now: u64 = server.redis_cli(&["TIME"]).lines().next().unwrap().trim().parse().unwrap();
    let claimed_until = server.redis_cli(&["ZSCORE", "duly:{orders}:unheard", id]);
    claimed_until.trim().parse::<u64>().is_ok_and(|until| until < (now + 1) * 1000)
}

#[tokio::test]
async fn what_a_worker_has_claimed_and_not_told_is_free_when_it_ends() {
    let server = Server::start();
    let queue = server.queue("orders");
    let (first, second) = (fail_by_hand(&queue).await, fail_by_hand(&queue).await);
    let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    // One is read, and its hooks are not begun; the other is not read.
    let read = failed_event(&engine).await;
    assert!(!is_free(&server, &first) && !is_free(&server, &second));
    engine.stop();
    engine.ended().await.unwrap();
    assert!(is_free(&server, &first) && is_free(&server, &second));
    assert!(!engine.may_call_hooks(&read), "another worker may have called them by now");
    engine.heard(&read);

    let worker = Working::start(&server);
    assert_eq!(worker.wait_for_reports(&[&first, &second]).await.len(), 2);
    nobody_waits(&server).await;
    worker.stop().await;
}

#[tokio::test]
async fn hooks_that_run_when_a_worker_ends_are_known_to_have_run() {
    let server = Server::start();
    let queue = server.queue("orders");
    fail_by_hand(&queue).await;
    let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    let failed = failed_event(&engine).await;
    assert!(engine.may_call_hooks(&failed));
    engine.stop();
    engine.heard(&failed);
    engine.ended().await.unwrap();
    assert_eq!(line(&server), ("0".to_owned(), String::new()));
}

/// Each job for which the hook is called; it waits for one word a job.
struct Slow {
    called: Arc<Mutex<Vec<String>>>,
    may_end: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Middleware for Slow {
    fn on_failed(&self, job: &duly::Job, _: &str) {
        self.called.lock().unwrap().push(job.id().to_owned());
        let _ = self.may_end.lock().unwrap().recv();
    }
}

/// A worker whose hooks wait, and what ends one of them, or all when it is dropped.
fn slow_worker(server: &Server) -> (Worker, Arc<Mutex<Vec<String>>>, std::sync::mpsc::Sender<()>) {
    let (ends, may_end) = std::sync::mpsc::channel();
    let called = Arc::new(Mutex::new(Vec::new()));
    let slow = Slow { called: Arc::clone(&called), may_end: Mutex::new(may_end) };
    let worker = Worker::builder(server.client())
        .queue("orders", 1)
        .lease(Duration::from_secs(1))
        .grace(Duration::from_millis(100))
        .middleware(slow)
        .handler("runs", |_: Job<Value>, _: Context| async { Ok::<(), Failure>(()) })
        .build()
        .unwrap();
    (worker, called, ends)
}

#[tokio::test]
async fn what_waits_for_a_slow_hook_is_heard_by_another_worker() {
    let server = Server::start();
    let queue = server.queue("orders");
    let mut failed = vec![fail_by_hand(&queue).await, fail_by_hand(&queue).await, fail_by_hand(&queue).await];
    // Reserved before there are workers, which would run it.
    queue.push(job("by hand")).await.unwrap();
    let by_hand = queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(600))).await.unwrap().remove(0);
    let (worker, called, ends) = slow_worker(&server);
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let running = tokio::spawn(async move { worker.run_until(stopped.notified()).await.unwrap() });
    support::eventually("it calls a hook", || async { called.lock().unwrap().len() == 1 }).await;
    // Nothing else waits for it: neither runs nor what failed before or fails meanwhile.
    queue.push(job("runs")).await.unwrap();
    support::eventually("it runs a job", || async { queue.counts().await.unwrap().ready == 0 }).await;
    let other = Working::start(&server);
    by_hand.fail("by hand").await.unwrap();
    failed.push(by_hand.id().to_owned());
    let slow = called.lock().unwrap()[0].clone();
    failed.retain(|id| *id != slow);
    other.wait_for_reports(&failed.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(*called.lock().unwrap(), [slow]);
    // The last word of the other worker may still be under way.
    support::eventually("only that is claimed", || async { line(&server).0 == "1" }).await;
    ends.send(()).unwrap();
    nobody_waits(&server).await;
    assert_eq!(other.reported.lock().unwrap().len(), 3);
    stop.notify_one();
    running.await.unwrap();
    other.stop().await;
}

#[tokio::test]
async fn a_hook_that_goes_on_behind_the_grace_is_logged_and_left_to_another_worker() {
    let server = Server::start();
    let lines = crate::log::Lines::default();
    let _guard =
        crate::listen(tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), lines.clone()));
    let queue = server.queue("orders");
    let failed = fail_by_hand(&queue).await;
    let (worker, called, ends) = slow_worker(&server);
    let has_begun = support::eventually("it calls the hook", || async { called.lock().unwrap().len() == 1 });
    worker.run_until(has_begun).await.unwrap();
    let said = lines.all().into_iter().find(|line| line.contains("goes on behind the grace")).expect("it says so");
    assert!(said.contains(&failed), "{said}");
    assert!(is_free(&server, &failed));
    drop(ends);
}

/// Nobody asks it to stop: it has run its jobs.
#[tokio::test]
async fn a_hook_has_the_grace_behind_the_last_run_of_its_worker() {
    let server = Server::start();
    let queue = server.queue("orders");
    let failed = fail_by_hand(&queue).await;
    let (called, (ends, may_end)) = (Arc::default(), std::sync::mpsc::channel());
    let has_begun = Arc::clone(&called);
    let worker = Worker::builder(server.client())
        .queue("orders", 1)
        .grace(Duration::from_millis(100))
        .max_jobs(1)
        .middleware(Slow { called, may_end: Mutex::new(may_end) })
        .handler("runs", move |_: Job<Value>, _: Context| {
            let has_begun: Arc<Mutex<Vec<String>>> = Arc::clone(&has_begun);
            async move {
                support::eventually("the hook is called", || async { has_begun.lock().unwrap().len() == 1 }).await;
                Ok::<(), Failure>(())
            }
        })
        .build()
        .unwrap();
    queue.push(job("runs")).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), worker.run_until(std::future::pending())).await;
    assert_eq!(ended.expect("it ends").unwrap().acked, 1);
    assert!(is_free(&server, &failed), "another worker calls it");
    drop(ends);
}

#[tokio::test]
async fn a_last_run_that_was_interrupted_and_goes_on_has_the_grace() {
    let server = Server::start();
    let queue = server.queue("orders");
    let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    (settings.max_jobs, settings.grace) = (Some(1), Duration::from_millis(100));
    let engine = Engine::start(&server.client(), settings).unwrap();
    queue.push(job("any").timeout(Duration::from_millis(50))).await.unwrap();
    let executor = engine.executor();
    let run = executor.next().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), engine.ended()).await;
    assert_eq!(ended.expect("it ends").unwrap().failed, 1, "{}", run.job.id());
    assert!(!engine.was_cut_short());
}

#[tokio::test]
async fn no_hook_begins_when_the_engine_is_over() {
    let server = Server::start();
    let queue = server.queue("orders");
    let failed = fail_by_hand(&queue).await;
    let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    let read = failed_event(&engine).await;
    // It ends without a farewell.
    server.redis_cli(&["HSET", "duly:{orders}:meta", "format", "99"]);
    queue.push(job("any")).await.unwrap_err();
    engine.ended().await.unwrap_err();
    assert!(!engine.may_call_hooks(&read), "another worker calls it: {failed}");
    assert!(engine.in_hooks().is_empty());
}

/// An engine whose owner calls the hooks between its runs.
fn engine_with_hooks_between_runs(server: &Server) -> Engine {
    let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    (settings.lease, settings.hooks_between_runs) = (Duration::from_secs(1), true);
    Engine::start(&server.client(), settings).unwrap()
}

/// Jobs that no worker gets.
async fn hold(queue: &Queue, count: usize) -> Vec<duly::Job> {
    for _ in 0..count {
        queue.push(job("by hand")).await.unwrap();
    }
    let held = queue.reserve(&ReserveOptions::new().max(count).lease(Duration::from_secs(600))).await.unwrap();
    assert_eq!(held.len(), count);
    held
}

/// What has happened before is known to the one worker.
async fn has_answered_a_beat(server: &Server) {
    let mut beats = std::collections::HashSet::new();
    // The second one may have been on its way; the third is sent when that was answered.
    support::eventually("it beats", || {
        beats.insert(server.redis_cli(&["ZRANGE", "duly:{orders}:workers", "0", "-1", "WITHSCORES"]));
        let enough = beats.len() > 3;
        async move { enough }
    })
    .await;
}

fn next_run(executor: &Executor) -> Run {
    match executor.next_within(Duration::from_secs(20)) {
        NextRun::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_calls_hooks_between_its_runs_leaves_failures_to_others_while_a_run_goes_on() {
    let server = Server::start();
    let queue = server.queue("orders");
    let held = hold(&queue, 12).await;
    let busy = engine_with_hooks_between_runs(&server);
    queue.push(job("long run")).await.unwrap();
    let executor = busy.executor();
    let run = next_run(&executor);
    for job in &held {
        job.fail("by hand").await.unwrap();
    }
    has_answered_a_beat(&server).await;
    assert_eq!(line(&server), ("0".to_owned(), "12".to_owned()), "none is claimed");
    let ids: Vec<_> = held.iter().map(duly::Job::id).collect();
    let idle = Working::start(&server);
    assert_eq!(idle.wait_for_reports(&ids).await.len(), 12);
    nobody_waits(&server).await;
    assert!(busy.event_within(Duration::ZERO).is_none());
    executor.finish(&run, Ended::DONE).unwrap();
    idle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_calls_hooks_between_its_runs_hears_of_failures_before_the_next_run() {
    let server = Server::start();
    let queue = server.queue("orders");
    let held = hold(&queue, 1).await;
    let engine = engine_with_hooks_between_runs(&server);
    for name in ["first run", "second run"] {
        queue.push(job(name)).await.unwrap();
    }
    let executor = engine.executor();
    let run = next_run(&executor);
    held[0].fail("by hand").await.unwrap();
    has_answered_a_beat(&server).await;
    executor.finish(&run, Ended::DONE).unwrap();
    assert!(matches!(executor.next_within(Duration::from_secs(20)), NextRun::None), "an event is to be read first");
    let reported = failed_event(&engine).await;
    assert_eq!(reported.job.id(), held[0].id());
    assert!(engine.may_call_hooks(&reported));
    engine.heard(&reported);
    let run = next_run(&executor);
    executor.finish(&run, Ended::DONE).unwrap();
    nobody_waits(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_between_runs_has_the_grace_when_its_worker_stops() {
    let server = Server::start();
    let queue = server.queue("orders");
    for ends_by_itself in [true, false] {
        let (first, second) = (fail_by_hand(&queue).await, fail_by_hand(&queue).await);
        let engine = engine_with_hooks_between_runs(&server);
        let (called, waits) = (failed_event(&engine).await, failed_event(&engine).await);
        assert!(engine.may_call_hooks(&called));
        engine.stop();
        assert!(!engine.may_call_hooks(&waits), "it begins none when it stops");
        support::eventually("it is another worker's", || async { is_free(&server, &second) }).await;
        has_answered_a_beat(&server).await;
        assert!(engine.ended_within(Duration::ZERO).is_none() && !is_free(&server, &first));
        assert_eq!(engine.in_hooks().iter().map(|job| &job.id).collect::<Vec<_>>(), [&first]);
        if ends_by_itself {
            engine.heard(&called);
        } else {
            engine.stop();
        }
        engine.ended().await.unwrap();
        let claimed = server.redis_cli(&["ZSCORE", "duly:{orders}:unheard", &first]);
        assert_eq!(claimed.trim(), if ends_by_itself { "" } else { "0" }, "else another worker calls it");
        assert_eq!(engine.in_hooks().is_empty(), ends_by_itself);
        if !ends_by_itself {
            assert!(!engine.heard(&called), "it goes on, and another worker calls it, too");
            assert!(engine.in_hooks().is_empty());
        }
        for id in [first, second] {
            queue.cancel(&id).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_a_stopping_worker_is_given_all_the_same_goes_back() {
    let server = Server::start();
    let queue = server.queue("orders");
    fail_by_hand(&queue).await;
    let second = queue.push(job("by hand")).await.unwrap().id().to_owned();
    let held = queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(600))).await.unwrap();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    let engine = Engine::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    let failed = failed_event(&engine).await;
    held[0].fail("by hand").await.unwrap();
    // The call that says that the first one is heard claims the second one. Its answer comes when the worker stops.
    proxy.only(b":returned\r\n$21\r\nduly:{orders}:unheard");
    proxy.next_after(0, Fault::HoldReply);
    engine.heard(&failed);
    proxy.happened().await;
    support::eventually("it is claimed", || async { line(&server) == ("1".to_owned(), String::new()) }).await;
    engine.stop();
    proxy.deliver().await;
    engine.ended().await.unwrap();
    let reported = engine.event_within(Duration::ZERO);
    assert!(reported.is_none(), "{reported:?}");
    assert!(is_free(&server, &second));
}

#[tokio::test]
async fn what_cannot_be_read_is_told_of_by_its_id() {
    let server = Server::start();
    let queue = server.queue("orders");
    let id = queue.push(job("any")).await.unwrap().id().to_owned();
    server.redis_cli(&["HSET", "duly:{orders}:jobs", &id, "nonsense"]);
    let worker = Working::start(&server);
    let is_it = |event: &WorkerEvent| matches!(event, WorkerEvent::Failed { job, failed: None } if job.id == id);
    worker.until_event("it is reported", is_it).await;
    nobody_waits(&server).await;
    worker.stop().await;
}

#[tokio::test]
async fn what_an_audit_sends_to_failed_is_heard_of() {
    let server = Server::start();
    let queue = server.queue("orders");
    let id = queue.push(job("any")).await.unwrap().id().to_owned();
    server.redis_cli(&["HSET", "duly:{orders}:jobs", &id, "{broken"]);
    server.redis_cli(&["DEL", "duly:{orders}:ready:5"]);
    queue.audit(AuditOptions::new().repair(true)).await.unwrap();
    assert_eq!(queue.counts().await.unwrap().failed, 1);
    let worker = Working::start(&server);
    let is_it = |event: &WorkerEvent| matches!(event, WorkerEvent::Failed { job, failed: None } if job.id == id);
    worker.until_event("it is reported", is_it).await;
    nobody_waits(&server).await;
    worker.stop().await;
}

#[tokio::test]
async fn what_has_left_failed_is_told_of_no_more_and_the_line_is_bounded() {
    let server = Server::start();
    let queue = server.queue("orders");
    let id = queue.push(job("by hand")).await.unwrap().id().to_owned();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("by hand").await.unwrap();
    queue.cancel(&id).await.unwrap();
    // As if ten thousand more had failed before the next one does.
    server.redis_cli(&["HSET", "duly:{orders}:meta", "unheard_last", "10000"]);
    let next = queue.push(job("by hand")).await.unwrap().id().to_owned();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("by hand").await.unwrap();
    let field = |number: &str| server.redis_cli(&["HGET", "duly:{orders}:meta", &format!("unheard:{number}")]);
    assert_eq!((field("1").trim(), field("10001").trim()), ("", &*next), "the oldest made room");

    server.redis_cli(&["ZADD", "duly:{orders}:unheard", "1", &id]);
    let worker = Working::start(&server);
    let reported = worker.wait_for_reports(&[&next]).await;
    nobody_waits(&server).await;
    assert_eq!(reported.len(), 1, "{reported:?}");
    worker.stop().await;
}

#[tokio::test]
async fn one_worker_tells_of_trimmed_jobs_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.keep_failed(2, Duration::from_secs(3600)).await.unwrap();
    for _ in 0..5 {
        queue.push(job("by hand")).await.unwrap();
        queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("by hand").await.unwrap();
    }
    assert_eq!(queue.peek(State::Failed, 0, 10).await.unwrap().len(), 2);
    let first = Working::start(&server);
    first.until_event("it is reported", |event| matches!(event, WorkerEvent::Trimmed { jobs: 3, .. })).await;
    let second = Working::start(&server);
    support::eventually("the second is there", || async { queue.workers().await.unwrap().len() == 2 }).await;
    let of_first = first.trimmed();
    first.stop().await;
    // The call that says that it is there also asks what was trimmed: it has reported that by now, or it never will.
    queue.push(job("bad")).await.unwrap();
    second.until_event("it reports the next", |event| matches!(event, WorkerEvent::Trimmed { .. })).await;
    assert_eq!((of_first, second.trimmed()), (vec![3], vec![1]));
    second.stop().await;
}

/// The keys of a call, as it is sent.
const OF_HEAR: &[u8] = b":returned\r\n$21\r\nduly:{orders}:unheard";
const OF_BEAT: &[u8] = b":rates\r\n$21\r\nduly:{orders}:unheard";

/// The server knows the scripts by then: each call is sent once.
async fn use_scripts(server: &Server) {
    fail_by_hand(&server.queue("another")).await;
    let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("another".to_owned(), 1)])).unwrap();
    failed_event(&engine).await;
    engine.stop();
    engine.ended().await.unwrap();
}

#[tokio::test]
async fn a_lost_reply_is_no_hook_that_ended_its_process() {
    let server = Server::start();
    use_scripts(&server).await;
    let proxy = Proxy::before(server.port()).await;
    let id = fail_by_hand(&server.queue("orders")).await;
    proxy.only(OF_HEAR);
    proxy.next_after(0, Fault::LoseReply);
    let client = proxy.builder().build().unwrap();
    let engine = Engine::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    proxy.happened().await;
    let failed = failed_event(&engine).await;
    assert_eq!(failed.job.id(), id);
    assert_eq!(server.redis_cli(&["HGET", "duly:{orders}:meta", &format!("ended:{id}")]).trim(), "");
    assert!(engine.may_call_hooks(&failed) && engine.heard(&failed));
    nobody_waits(&server).await;
    engine.stop();
    engine.ended().await.unwrap();
}

#[tokio::test]
async fn a_worker_tells_of_trimmed_jobs_though_the_reply_that_told_it_was_lost() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.keep_failed(2, Duration::from_secs(3600)).await.unwrap();
    for job in hold(&queue, 5).await {
        job.fail("by hand").await.unwrap();
    }
    use_scripts(&server).await;
    let proxy = Proxy::before(server.port()).await;
    proxy.only(OF_BEAT);
    proxy.next_after(0, Fault::LoseReply);
    let worker = Working::start_as(&proxy.builder().build().unwrap());
    proxy.happened().await;
    worker.until_event("it is reported", |event| matches!(event, WorkerEvent::Trimmed { .. })).await;
    assert_eq!(worker.trimmed(), [3]);
    worker.stop().await;
}
