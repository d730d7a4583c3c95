//! Workers fire the schedules of their queues, whatever else they do, and one of them each slot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::meter::Meter;
use crate::support::{Server, eventually};
use duly::worker::{Job, Worker};
use duly::{Client, NewJob, Queue, Schedule};
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
