//! Who works on a queue: workers that are alive, that die, and that stop.

use std::time::Duration;

use crate::support::{Server, eventually};
use duly::worker::{Failure, Job, Worker};
use duly::{Client, NewJob, Queue, WorkerInfo};
use tokio::sync::oneshot;

/// With such a lease a worker beats each second, and is taken for dead after three.
const LEASE: Duration = Duration::from_secs(1);

struct Running {
    stop: oneshot::Sender<()>,
    worker: tokio::task::JoinHandle<Result<duly::WorkerReport, duly::Error>>,
}

fn start(client: &Client, lease: Duration, name: Option<&str>) -> Running {
    let builder = Worker::builder(client.clone()).queue("q", 1).queue("other", 1).concurrency(3).lease(lease);
    let builder = match name {
        Some(name) => builder.name(name),
        None => builder,
    };
    let worker = builder
        .handler("wait", |_job: Job<serde_json::Value>, _context| async move {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok::<(), Failure>(())
        })
        .grace(Duration::ZERO)
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    Running { stop, worker: tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await }) }
}

async fn until_alive(queue: &Queue, count: usize) -> Vec<WorkerInfo> {
    eventually("so many workers", async || queue.workers().await.unwrap().len() == count).await;
    queue.workers().await.unwrap()
}

#[tokio::test]
async fn a_worker_is_listed_until_it_stops() {
    let server = Server::start();
    let client = server.client();
    let (queue, other) = (client.queue("q").unwrap(), client.queue("other").unwrap());
    assert_eq!(queue.workers().await.unwrap(), []);
    let first = start(&client, LEASE, Some("first"));
    let second = start(&client, LEASE, None);
    let workers = until_alive(&queue, 2).await;
    let listed = workers.iter().find(|worker| worker.name.as_deref() == Some("first")).unwrap();
    assert_eq!((listed.language.as_str(), listed.version.as_str()), ("rust", env!("CARGO_PKG_VERSION")));
    assert_eq!((listed.pid, listed.concurrency), (std::process::id(), 3));
    assert_eq!(listed.queues, ["q", "other"]);
    assert!(!listed.host.is_empty() && listed.started_at.get() > 0);
    assert_eq!(until_alive(&other, 2).await.len(), 2);

    // What runs is reported with the next beat, and only to the queue that it is of.
    let id = queue.push(NewJob::new(&"not reported").unwrap().name("wait")).await.unwrap().id().to_owned();
    eventually("somebody runs it", async || {
        let workers = queue.workers().await.unwrap();
        workers.iter().flat_map(|worker| &worker.running).any(|run| run.id == id && run.name.as_deref() == Some("wait"))
    })
    .await;
    assert!(other.workers().await.unwrap().iter().all(|worker| worker.running.is_empty()));
    assert!(!server.dump("jobs").concat().contains("not reported"), "data in the registry");

    for running in [first, second] {
        running.stop.send(()).unwrap();
        running.worker.await.unwrap().unwrap();
    }
    // A clean stop needs no wait.
    assert_eq!(queue.workers().await.unwrap(), []);
    assert_eq!(server.redis_cli(&["exists", "duly:{q}:workers", "duly:{q}:worker_infos"]).trim(), "0");
}

#[tokio::test]
async fn a_worker_that_is_gone_is_left_out_after_its_time() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("q").unwrap();
    // As one leaves it that was killed: python-tests and php-tests kill real ones.
    let now: u64 = server.redis_cli(&["time"]).lines().next().unwrap().parse().unwrap();
    let dead_at = ((now + 2) * 1000).to_string();
    server.redis_cli(&["zadd", "duly:{q}:workers", &dead_at, "killed"]);
    server.redis_cli(&["hset", "duly:{q}:worker_infos", "killed", "{}"]);
    until_alive(&queue, 1).await;
    until_alive(&queue, 0).await;
    // The next one sweeps what it left.
    let next = start(&client, LEASE, Some("next"));
    until_alive(&queue, 1).await;
    assert_eq!(server.redis_cli(&["zcard", "duly:{q}:workers"]).trim(), "1");
    assert_eq!(server.redis_cli(&["hlen", "duly:{q}:worker_infos"]).trim(), "1");
    next.stop.send(()).unwrap();
    next.worker.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_somebody_else_wrote_there_stops_no_worker() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("q").unwrap();
    server.redis_cli(&["set", "duly:{q}:workers", "foreign"]);
    server.redis_cli(&["hset", "duly:{other}:worker_infos", "x", "no json"]);
    server.redis_cli(&["zadd", "duly:{other}:workers", "9999999999999", "x"]);
    let running = start(&client, LEASE, None);
    let id = queue.push(NewJob::new(&1).unwrap().name("wait")).await.unwrap().id().to_owned();
    eventually("the job runs", async || queue.find(&id).await.unwrap().unwrap().token.is_some()).await;
    assert_eq!(queue.workers().await.unwrap_err().kind(), duly::ErrorKind::Corrupt);
    let other = until_alive(&client.queue("other").unwrap(), 2).await;
    assert_eq!((other[1].id.as_str(), other[1].pid), ("x", 0));
    assert!(queue.audit(duly::AuditOptions::new()).await.unwrap().findings.is_empty());
    running.stop.send(()).unwrap();
    running.worker.await.unwrap().unwrap();
}
