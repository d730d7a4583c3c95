//! Workers fire the schedules of their queues, whatever else they do, and one of them each slot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::meter::Meter;
use crate::support::{Server, eventually};
use duly::worker::{BesideJobs, Job, Worker, WorkerBuilder, WorkerEvent};
use duly::{Client, ErrorKind, NewJob, Queue, Schedule};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

fn every(ms: u64) -> Schedule {
    Schedule::every(Duration::from_millis(ms), NewJob::new(&1).unwrap().name("tick")).unwrap()
}

/// What ran, by its id.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<String, u32>>>);

impl Runs {
    fn ids(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn worker(&self, client: &Client) -> JoinHandle<()> {
        let runs = self.clone();
        let worker = Worker::builder(client.clone()).queue("orders", 1).handler("tick", move |job: Job<Value>, _| {
            *runs.0.lock().unwrap().entry(job.id().to_owned()).or_default() += 1;
            async { Ok::<(), String>(()) }
        });
        let worker = worker.build().unwrap();
        tokio::spawn(async move { worker.run_until(std::future::pending()).await.map(drop).unwrap() })
    }
}

/// A worker that was given a schedule, and what it reports.
fn with_schedule(client: &Client, events: &Events) -> WorkerBuilder {
    let events = Arc::clone(&events.0);
    Worker::builder(client.clone())
        .queue("orders", 1)
        .any_handler(|_: Job<Value>, _| async { Ok::<(), String>(()) })
        .schedules("shop", "orders", [("often".to_owned(), every(100))])
        .on_event(move |event| events.lock().unwrap().push(event.clone()))
}

#[derive(Default)]
struct Events(Arc<Mutex<Vec<WorkerEvent>>>);

impl Events {
    async fn until(&self, what: &str, is_it: impl Fn(&WorkerEvent) -> bool) {
        eventually(what, || async { self.count(&is_it) > 0 }).await;
    }

    fn count(&self, is_it: impl Fn(&WorkerEvent) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|event| is_it(event)).count()
    }

    async fn waits(&self) {
        self.until("schedules that wait", |event| matches!(event, WorkerEvent::SchedulesWait { .. })).await;
    }
}

#[tokio::test]
async fn a_worker_stores_its_schedules_before_its_first_job() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    let report = with_schedule(&server.client(), &Events::default()).max_jobs(1).run().await.unwrap();
    assert_eq!(report.acked, 1);
    assert_eq!(queue.schedules().get("often").await.unwrap().unwrap().owner.as_deref(), Some("shop"));
}

#[tokio::test]
async fn a_worker_whose_schedules_wait_lives_through_a_change_of_the_password() {
    let server = Server::start();
    let (client, queue, events) = (server.client(), server.queue("orders"), Events::default());
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let worker = with_schedule(&client, &events).build().unwrap();
    let worker = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    events.waits().await;
    server.redis_cli(&["CONFIG", "SET", "requirepass", "new"]);
    server.redis_cli(&["-a", "new", "--no-auth-warning", "CLIENT", "KILL", "TYPE", "normal"]);
    events.until("trouble", |event| matches!(event, WorkerEvent::Trouble { .. })).await;
    for (name, value) in [("maxmemory", "0"), ("requirepass", "")] {
        server.redis_cli(&["-a", "new", "--no-auth-warning", "CONFIG", "SET", name, value]);
    }
    events.until("stored schedules", |event| matches!(event, WorkerEvent::SchedulesStored)).await;
    assert_eq!(events.count(|event| matches!(event, WorkerEvent::SchedulesWait { .. })), 1);
    eventually("a slot", || async { fired(&queue, "often").await > 0 }).await;
    worker.abort();
}

#[tokio::test]
async fn what_is_wrong_with_the_schedules_ends_a_worker_also_behind_an_outage() {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (client, events) = (server.client(), Events::default());
    server.queue("orders").schedules().put("often", &every(3_600_000)).await.unwrap();
    server.kill();
    let worker = with_schedule(&client, &events).build().unwrap();
    let worker = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    events.waits().await;
    server.restart();
    eventually("the worker's end", || async { worker.is_finished() }).await;
    let error = worker.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("was put by hand"), "{error}");
}

/// A server may refuse the one and not the other, so the loop that fetches jobs notices nothing.
#[tokio::test]
async fn what_is_held_up_beside_the_jobs_is_said_once_and_that_it_goes_on() {
    let server = Server::start();
    let (client, queue, events) = (server.client(), server.queue("orders"), Events::default());
    let worker = with_schedule(&client, &events).lease(Duration::from_secs(1)).build().unwrap();
    let worker = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    eventually("a slot", || async { fired(&queue, "often").await > 0 }).await;
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let of = |wanted: BesideJobs, goes_on: bool| {
        move |event: &WorkerEvent| match event {
            WorkerEvent::HeldUp { what, queue, .. } => !goes_on && *what == wanted && queue == "orders",
            WorkerEvent::GoesOn { what, .. } => goes_on && *what == wanted,
            _ => false,
        }
    };
    events.until("schedules that are held up", of(BesideJobs::Schedules, false)).await;
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "0"]);
    events.until("schedules that fire again", of(BesideJobs::Schedules, true)).await;
    server.eval("redis.call('SET', 'duly:{orders}:workers', 'foreign') return {}", &[]);
    events.until("a worker that nobody sees", of(BesideJobs::Presence, false)).await;
    server.redis_cli(&["DEL", "duly:{orders}:workers"]);
    events.until("a worker that is seen again", of(BesideJobs::Presence, true)).await;
    for (what, goes_on) in [(BesideJobs::Schedules, false), (BesideJobs::Schedules, true), (BesideJobs::Presence, true)]
    {
        assert_eq!(events.count(of(what, goes_on)), 1, "{what:?} {goes_on}");
    }
    worker.abort();
}

#[tokio::test]
async fn schedules_that_cannot_be_are_refused_when_the_worker_is_built() {
    let server = Server::start();
    let worker = with_schedule(&server.client(), &Events::default());
    let twice = worker.schedules("shop", "orders", [("often".to_owned(), every(200))]).build().err().unwrap();
    assert!(twice.to_string().contains("twice"), "{twice}");
    // They would go into the queue without parts, and nothing would ever fire.
    let of_parts = || with_schedule(&server.client(), &Events::default()).queue("reports/0", 1).queue("reports/1", 1);
    let nightly = || [("nightly".to_owned(), every(200))];
    let parts = of_parts().schedules("shop", "reports", nightly()).build().err().unwrap();
    assert!(parts.to_string().contains("serves parts of the queue 'reports'"), "{parts}");
    // Who brings none is not concerned.
    assert!(of_parts().schedules("shop", "reports", []).build().is_ok());
    assert!(of_parts().queue("reports", 1).schedules("shop", "reports", nightly()).build().is_ok());
    assert!(of_parts().schedules("shop", "elsewhere", nightly()).build().is_ok());
}

async fn fired(queue: &Queue, name: &str) -> u64 {
    queue.schedules().get(name).await.unwrap().map_or(0, |view| view.fired)
}

#[tokio::test]
async fn a_worker_that_starts_finds_the_schedules_that_are_there() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.schedules().put("often", &every(100)).await.unwrap();
    let runs = Runs::default();
    let worker = runs.worker(&client);
    eventually("five slots", || async { runs.ids().len() >= 5 }).await;
    worker.abort();
    assert!(runs.0.lock().unwrap().values().all(|&count| count == 1));
}

#[tokio::test]
async fn an_idle_worker_hears_at_once_of_a_new_schedule_and_of_one_that_fires_sooner() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let runs = Runs::default();
    let worker = runs.worker(&client);
    let mut meter = Meter::of(&server);
    meter.until("it waits", |meter| meter.blocked() == 1).await;
    // It has reported that it is alive, and does so again in ten seconds.
    eventually("it is alive", || async { queue.workers().await.unwrap().len() == 1 }).await;
    queue.schedules().put("late", &every(3_600_000)).await.unwrap();
    let promised = || async { server.redis_cli(&["HGET", "duly:{orders}:meta", "schedule_timer"]).trim().len() > 9 };
    eventually("it has promised to come back", promised).await;
    for number in 0.. {
        meter.until("it waits again", |meter| meter.blocked() == 1).await;
        let beats = || server.redis_cli(&["ZRANGE", "duly:{orders}:workers", "0", "-1", "WITHSCORES"]);
        let (before, name) = (beats(), format!("often{number}"));
        queue.schedules().put(&name, &every(100)).await.unwrap();
        eventually("two slots", || async { fired(&queue, &name).await >= 2 }).await;
        queue.schedules().remove(&name).await.unwrap();
        // Unless a beat came in between, which would have said so, too.
        if beats() == before {
            break;
        }
    }
    worker.abort();
}

/// It does not wait for a wake-up then: its next report that it is alive brings the news, which with this lease is one a second.
#[tokio::test]
async fn a_busy_worker_hears_of_a_new_schedule_with_its_next_report() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let ends = Arc::new(Notify::new());
    let may_end = Arc::clone(&ends);
    let worker = Worker::builder(client).queue("orders", 1).concurrency(1).lease(Duration::from_secs(1));
    let worker = worker.handler("tick", move |_: Job<Value>, _| {
        let may_end = Arc::clone(&may_end);
        async move {
            may_end.notified().await;
            Ok::<(), String>(())
        }
    });
    let worker = worker.build().unwrap();
    let worker = tokio::spawn(async move { worker.run_until(std::future::pending()).await.map(drop).unwrap() });
    // More than it takes ahead.
    for _ in 0..50 {
        queue.push(NewJob::new(&1).unwrap().name("tick")).await.unwrap();
    }
    eventually("it is busy", || async { queue.counts().await.unwrap().reserved > 0 }).await;
    queue.schedules().put("often", &every(100)).await.unwrap();
    eventually("two slots", || async { fired(&queue, "often").await >= 2 }).await;
    assert_eq!(
        queue.counts().await.unwrap().totals.iter().find(|(name, _)| name == "acked").map(|(_, acked)| *acked),
        None
    );
    ends.notify_one();
    worker.abort();
}

#[tokio::test]
async fn a_worker_whose_handlers_are_busy_fires_all_the_same() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.schedules().put("often", &every(100)).await.unwrap();
    let ends = Arc::new(Notify::new());
    let may_end = Arc::clone(&ends);
    let worker = Worker::builder(client).queue("orders", 1).handler("tick", move |_: Job<Value>, _| {
        let may_end = Arc::clone(&may_end);
        async move {
            may_end.notified().await;
            Ok::<(), String>(())
        }
    });
    let worker = worker.build().unwrap();
    let running = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    eventually("slots fire behind the job that runs", || async { fired(&queue, "often").await >= 5 }).await;
    assert_eq!(queue.counts().await.unwrap().reserved, 1);
    running.abort();
}

#[tokio::test]
async fn others_take_over_when_the_one_that_promised_is_gone() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    queue.schedules().put("often", &every(100)).await.unwrap();
    let (first, second) = (Runs::default(), Runs::default());
    let dies = first.worker(&client);
    eventually("the first one fires", || async { fired(&queue, "often").await >= 2 }).await;
    let stays = second.worker(&server.client());
    eventually("both are alive", || async { queue.workers().await.unwrap().len() == 2 }).await;
    dies.abort();
    let before = fired(&queue, "often").await;
    eventually("the second one fires", || async { fired(&queue, "often").await >= before + 5 }).await;
    stays.abort();
}

#[tokio::test]
async fn of_many_workers_one_fires_each_slot() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let runs = Runs::default();
    let workers: Vec<_> = (0..8).map(|_| runs.worker(&client)).collect();
    queue.schedules().put("often", &every(100)).await.unwrap();
    eventually("thirty slots", || async { runs.ids().len() >= 30 }).await;
    workers.iter().for_each(JoinHandle::abort);
    let runs = runs.0.lock().unwrap().clone();
    assert!(runs.values().all(|&count| count == 1), "{runs:?}");
}
