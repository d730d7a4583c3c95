//! What becomes of the runs of a worker that ends while the server is away, or that ends by an error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Under, is_empty, is_trouble, job, start, until};
use crate::support::Server;
use duly::NewJob;
use duly::worker::{Context, Ended, Engine, Failure, Job, WorkerBuilder, WorkerEvent, WorkerSettings};
use serde_json::Value;
use tokio::sync::Notify;

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

/// Another program has written over the queue: waiting does not help, so the worker ends and names the jobs that have run.
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
