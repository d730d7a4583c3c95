//! Which job is next, and when: several queues, limits, pauses, timeouts and jobs that turn out long.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{counts, is_empty, job, start, until};
use crate::support::Server;
use duly::worker::{Engine, Failure, Job, NextRun, WorkerSettings};
use duly::{Client, Limits, NewJob, ReserveOptions, Selection};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};

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
