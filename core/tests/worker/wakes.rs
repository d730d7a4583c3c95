//! What a worker of many queues costs its server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::support::Server;
use crate::support::meter::Meter;
use duly::worker::{Job, Worker, WorkerBuilder};
use duly::{Client, NewJob};
use serde_json::Value;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("queue{n}")).collect()
}

/// A worker that only counts.
fn counting(client: &Client, names: &[String], runs: &Arc<AtomicU64>) -> WorkerBuilder {
    let runs = Arc::clone(runs);
    let worker = Worker::builder(client.clone()).concurrency(4).handler("count", move |_: Job<Value>, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok::<(), String>(()) }
    });
    names.iter().fold(worker, |worker, name| worker.queue(name, 1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_fifty_queues_waits_with_few_connections() {
    let server = Server::start();
    let (client, names, runs) = (server.client(), names(50), Arc::new(AtomicU64::new(0)));
    let mut meter = Meter::of(&server);
    let before = meter.dialed();
    let stop = Arc::new(Notify::new());
    let worker = counting(&client, &names, &runs).build().unwrap();
    let stopped = Arc::clone(&stop);
    let worker = tokio::spawn(async move { worker.run_until(stopped.notified()).await });

    // Each look and each beat is a call.
    meter.until("it has looked everywhere, and waits", |it| it.calls("evalsha") >= 100 && it.blocked() == 1).await;
    // The order is mixed, and each queue has several turns.
    for n in 0..200 {
        let queue = client.queue(&names[n * 7 % 50]).unwrap();
        queue.push(NewJob::new(&n).unwrap().name("count")).await.unwrap();
        meter.until("it ran", |_| runs.load(Ordering::SeqCst) == n as u64 + 1).await;
        let connected = meter.connected();
        assert!(connected <= 12, "{connected} connections");
    }
    let dialed = meter.dialed() - before;
    assert!(dialed <= 20, "{dialed} connections were made for 200 jobs");
    stop.notify_one();
    assert_eq!(worker.await.unwrap().unwrap().acked, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_many_idle_queues_looks_at_a_few_of_them_at_a_time() {
    let server = Server::start();
    let (client, names, runs) = (server.client(), names(100), Arc::new(AtomicU64::new(0)));
    let stop = Arc::new(Notify::new());
    // With this lease it reports to each queue once a second that it is alive, which is the clock of this test.
    let worker = counting(&client, &names, &runs).lease(Duration::from_secs(1)).build().unwrap();
    let stopped = Arc::clone(&stop);
    let worker = tokio::spawn(async move { worker.run_until(stopped.notified()).await });
    let mut meter = Meter::of(&server);
    meter.until("it has looked everywhere", |it| it.calls("evalsha") >= 200 && it.blocked() >= 1).await;
    let beats = |meter: &mut Meter| meter.calls("zadd");
    let (beats_before, calls_before) = (beats(&mut meter), meter.calls("evalsha"));
    meter.until("eight seconds of beats", |it| beats(it) >= beats_before + 800).await;
    let (beats, calls) = (beats(&mut meter) - beats_before, meter.calls("evalsha") - calls_before);
    let looks = calls.saturating_sub(beats);
    // One each three seconds and queue would be a third of the beats.
    assert!(looks <= beats / 5, "{looks} looks beside {beats} beats");
    stop.notify_one();
    worker.await.unwrap().unwrap();
}
