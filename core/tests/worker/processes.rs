//! Worker processes that are frozen, or killed by the very job they run. The worker is this test program, started again.

use std::time::{Duration, Instant};

use crate::support::process::Process;
use crate::support::{self, Server};
use duly::worker::{Context, Failure, Job, Worker, WorkerEvent};
use duly::{Client, Millis, NewJob, ReserveOptions, RetryPolicy, State};
use serde_json::Value;

/// What a started worker does; its lines on standard output tell the test how far it is.
#[tokio::test]
async fn worker_process() {
    let Ok(url) = std::env::var("DULY_TEST_URL") else { return };
    let client = Client::builder().url(&url).build().unwrap();
    let gate = client.queue("gate").unwrap();
    let worker = Worker::builder(client)
        .queue("orders", 1)
        .lease(Duration::from_secs(1))
        .handler("say", |job: Job<Value>, _: Context| async move {
            println!("\nsaid {}", job.attempt());
            Ok::<(), Failure>(())
        })
        .handler("wait", move |job: Job<Value>, _: Context| {
            let gate = gate.clone();
            async move {
                println!("\nwaits {}", job.attempt());
                while gate.reserve(&ReserveOptions::new()).await?.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok::<(), Failure>(())
            }
        })
        .handler("poison", |job: Job<Value>, _: Context| async move {
            println!("\npoisoned {}", job.attempt());
            std::process::abort();
            #[allow(unreachable_code)] // it says what the handler would give
            Ok::<(), Failure>(())
        })
        .on_event(|event| {
            if matches!(event, WorkerEvent::Interrupted { .. } | WorkerEvent::LeaseLost { .. }) {
                println!("\nlost 1");
            }
        })
        .build()
        .unwrap();
    let report = worker.run().await.unwrap();
    println!("\nacked {}", report.acked);
}

fn job(name: &str) -> NewJob {
    NewJob::new(&1).unwrap().name(name).retry(RetryPolicy::Fixed { delay: Millis::ZERO })
}

#[tokio::test]
async fn a_frozen_worker_is_refused_and_goes_on() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(job("wait")).await.unwrap();
    let mut zombie = Process::start(&server, "processes::worker_process", "");
    assert_eq!(zombie.heard("waits"), 1);
    support::signal(zombie.child.id(), "-STOP");
    let mine = queue.reserve(&ReserveOptions::new().wait(Duration::from_secs(20))).await.unwrap().remove(0);
    assert_eq!((mine.attempt(), mine.returns), (1, 0), "nobody knows whether it had started");
    server.queue("gate").push(job("open")).await.unwrap();
    support::signal(zombie.child.id(), "-CONT");
    assert_eq!(zombie.heard("lost"), 1);
    queue.push(job("say")).await.unwrap();
    assert_eq!(zombie.heard("said"), 1);
    mine.ack().await.unwrap();
    support::signal(zombie.child.id(), "-TERM");
    assert_eq!(zombie.heard("acked"), 1);
}

#[tokio::test]
async fn a_job_that_kills_its_worker_ends_in_failed() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(job("poison").max_retries(2)).await.unwrap();
    for attempt in [1, 1, 2, 3] {
        let mut worker = Process::start(&server, "processes::worker_process", "");
        assert_eq!(worker.heard("poisoned"), attempt);
        worker.child.wait().unwrap();
    }
    queue.push(job("say")).await.unwrap();
    let mut worker = Process::start(&server, "processes::worker_process", "");
    assert_eq!(worker.heard("said"), 1);
    support::eventually("it is given up", || async { queue.counts().await.unwrap().failed == 1 }).await;
    let failed = queue.peek(State::Failed, 0, 10).await.unwrap();
    assert_eq!(failed[0].envelope.attempts, 3);
}

/// The killed one had promised to come back for the job, and the server still counts on it.
#[tokio::test]
async fn a_worker_that_relies_on_the_promise_of_a_killed_one_is_there_all_the_same() {
    let server = Server::start();
    let queue = server.queue("orders");
    let delay = Duration::from_millis(1500);
    queue.push(job("say").delay(delay)).await.unwrap();
    let due = Instant::now() + delay;
    let killed = Process::start(&server, "processes::worker_process", "");
    let has_promised = || async { !server.redis_cli(&["HGET", "duly:{orders}:meta", "timer"]).trim().is_empty() };
    support::eventually("it promises", has_promised).await;
    drop(killed);
    let mut worker = Process::start(&server, "processes::worker_process", "");
    let waits = || async { server.redis_cli(&["INFO", "clients"]).contains("blocked_clients:1") };
    support::eventually("it waits", waits).await;
    let there = Instant::now();
    assert_eq!(worker.heard("said"), 1);
    // Without that look it comes after its longest sleep: more than a second later.
    let late = due.max(there).elapsed();
    assert!(late < Duration::from_millis(900), "{late:?} late");
}
