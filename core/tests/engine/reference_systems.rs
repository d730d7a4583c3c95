//! The defects of five reference queues, each as a test of ours. `docs/reference-defects.md` has the table: number of the
//! defect, test. What another file tests already is only in the table.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::verbs::{at_once, new_job};
use crate::support::{self, Server};
use duly::{
    Client, ClientEvent, ErrorKind, Job, Millis, NewJob, Next, Outcome, PullOptions, Queue, ReserveOptions, State,
    SubscribeOptions, When,
};
use serde_json::json;

fn many(max: usize) -> ReserveOptions {
    ReserveOptions::new().max(max)
}

async fn take(queue: &Queue) -> Job {
    queue.reserve(&many(1)).await.unwrap().remove(0)
}

fn ids(jobs: &[Job]) -> Vec<String> {
    jobs.iter().map(|job| job.id().to_owned()).collect()
}

async fn until_due(queue: &Queue) {
    support::eventually("it is due", || async { queue.counts().await.unwrap().next_due_in == Some(Millis::ZERO) })
        .await;
}

/// How many commands the server has run.
fn commands(server: &Server) -> u64 {
    let info = server.redis_cli(&["INFO", "stats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap();
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn r1_1_2_two_hosts_with_the_same_settings_do_not_take_each_others_running_jobs() {
    let server = Server::start();
    let (one, other) = (server.queue("orders"), server.queue("orders"));
    one.push(new_job("a")).await.unwrap();
    let job = take(&one).await;
    assert!(other.reserve(&many(10)).await.unwrap().is_empty());
    assert_eq!(other.reclaim().await.unwrap(), 0);
    job.ack().await.unwrap();
}

#[tokio::test]
async fn r1_1_3_a_failed_job_waits_and_is_given_up_in_the_end() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a").max_retries(1)).await.unwrap();
    let next = take(&queue).await.fail("no").await.unwrap();
    assert_eq!(next, Next::RetryAfter { after: Millis::from_secs(5), attempts: 1 });
    assert!(queue.reserve(&many(1)).await.unwrap().is_empty(), "no hot loop");
    queue.reschedule("a", When::Now).await.unwrap();
    assert_eq!(take(&queue).await.fail("no").await.unwrap(), Next::Failed { attempts: 2 });
}

#[tokio::test]
async fn r1_1_5_an_idle_queue_costs_no_spinning() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.reserve(&many(1)).await.unwrap();
    let before = commands(&server);
    assert!(queue.reserve(&many(1).wait(Duration::from_millis(700))).await.unwrap().is_empty());
    let spent = commands(&server) - before;
    assert!(spent < 90, "{spent} commands in 0.7 s, those inside of scripts and of a first wait included");
}

#[tokio::test]
async fn r1_1_6_equal_bodies_stay_two_jobs() {
    let server = Server::start();
    let queue = server.queue("orders");
    for _ in 0..10 {
        queue.push(NewJob::new(&json!({ "order_no": 7 })).unwrap()).await.unwrap();
    }
    let jobs = queue.reserve(&many(20)).await.unwrap();
    assert_eq!(ids(&jobs).into_iter().collect::<HashSet<_>>().len(), 10);
    jobs[3].ack().await.unwrap();
    assert_eq!(queue.counts().await.unwrap().reserved, 9);
}

#[tokio::test]
async fn r1_1_8_a_received_job_knows_its_queue_and_its_handler() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a").name("order.close")).await.unwrap();
    let job = take(&queue).await;
    assert_eq!((job.queue().name(), job.envelope.name.as_deref()), ("orders", Some("order.close")));
    job.queue().push(new_job("b")).await.unwrap();
}

#[tokio::test]
async fn r1_1_11_calls_share_a_connection() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    let dialed = || {
        let info = server.redis_cli(&["INFO", "stats"]);
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:").map(str::to_owned));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = dialed();
    for _ in 0..50 {
        queue.push(NewJob::new(&1).unwrap()).await.unwrap();
        take(&queue).await.ack().await.unwrap();
    }
    assert_eq!(dialed() - before, 1, "the one is redis-cli");
}

#[tokio::test]
async fn r1_1_12_and_r4_4_11_a_push_that_did_not_happen_is_an_error() {
    let mut server = Server::start();
    server.queue("orders").push(new_job("a")).await.unwrap();
    let queue = server.builder().deadline(Duration::from_millis(500)).build().unwrap().queue("orders").unwrap();
    server.kill();
    let error = queue.push(new_job("b")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout), "{error}");
    let error = server.queue("orders").push(new_job("c")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn r1_1_12_a_released_or_lost_job_keeps_its_place_in_front() {
    let server = Server::start();
    let queue = server.queue("orders");
    for id in ["a", "b", "c"] {
        queue.push(new_job(id)).await.unwrap();
    }
    take(&queue).await.release(Duration::ZERO).await.unwrap();
    assert_eq!(ids(&queue.reserve(&many(2).lease(Duration::from_millis(1))).await.unwrap()), ["a", "b"]);
    let jobs = queue.reserve(&many(3).wait(Duration::from_secs(5))).await.unwrap();
    // The leases may end one after the other between two looks: the order holds all the same.
    let first = ids(&jobs);
    assert!(first == ["a", "b", "c"] || first == ["c"], "{first:?}");
}

#[tokio::test]
async fn r2_2_2_racing_workers_get_different_jobs_and_many_at_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push_many((0..400).map(|n| new_job(&n.to_string())), |_| {}).await.unwrap();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let queue = server.queue("orders");
            tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let jobs = queue.reserve(&many(50)).await.unwrap();
                    if jobs.is_empty() {
                        return mine;
                    }
                    mine.extend(ids(&jobs));
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (400, 400));
}

#[tokio::test]
async fn r2_2_3_a_due_job_is_not_a_poll_late() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.reserve(&many(1)).await.unwrap();
    let mut lateness = Vec::new();
    for _ in 0..5 {
        let pushed = Instant::now();
        queue.push(NewJob::new(&1).unwrap().delay(Duration::from_millis(60))).await.unwrap();
        let job = queue.reserve(&many(1).wait(Duration::from_secs(5))).await.unwrap().remove(0);
        assert!(pushed.elapsed() >= Duration::from_millis(60), "never early");
        lateness.push(pushed.elapsed().saturating_sub(Duration::from_millis(60)));
        job.ack().await.unwrap();
    }
    // Each is late by a poll where there are polls; a busy machine makes some late.
    assert!(*lateness.iter().min().unwrap() < Duration::from_millis(50), "{lateness:?}");
}

#[tokio::test]
async fn r2_2_7_only_the_servers_clock_decides() {
    let server = Server::start();
    let queue = server.builder().manual_clock().build().unwrap().queue("orders").unwrap();
    // A server whose clock is decades away from this host's.
    let now = Millis::from_secs(1_000_000_000);
    queue.set_clock(now).await.unwrap();
    queue.push(new_job("a").delay(Duration::from_secs(300))).await.unwrap();
    assert!(queue.reserve(&many(1)).await.unwrap().is_empty());
    queue.set_clock(now.saturating_add(Millis::new(299_999))).await.unwrap();
    assert!(queue.reserve(&many(1)).await.unwrap().is_empty());
    queue.set_clock(now.saturating_add(Millis::new(300_000))).await.unwrap();
    assert_eq!(take(&queue).await.id(), "a");
}

#[tokio::test]
async fn r3_3_1_and_r4_4_1_success_never_goes_to_failed_and_failure_never_vanishes() {
    let server = Server::start();
    let queue = server.queue("orders");
    for id in ["good", "bad", "retried"] {
        queue.push(new_job(id).max_retries(u32::from(id == "retried")).retry(at_once())).await.unwrap();
    }
    let jobs = queue.reserve(&many(3)).await.unwrap();
    jobs[0].ack().await.unwrap();
    jobs[1].fail("no").await.unwrap();
    jobs[2].fail("no").await.unwrap();
    take(&queue).await.ack().await.unwrap();
    let failed = queue.peek(State::Failed, 0, 10).await.unwrap();
    assert_eq!(failed.iter().map(|job| job.envelope.id.as_str()).collect::<Vec<_>>(), ["bad"]);
    assert!(queue.reserve(&many(3)).await.unwrap().is_empty());
}

#[tokio::test]
async fn r3_3_5_a_push_into_a_queue_that_is_not_empty_succeeds_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    for n in 0..3 {
        let pushed = queue.push(NewJob::new(&n).unwrap()).await.unwrap();
        assert!(matches!(pushed, duly::Pushed::Created { .. }));
    }
    assert_eq!(queue.counts().await.unwrap().ready, 3);
}

#[tokio::test]
async fn r3_3_6_and_3_7_due_times_are_kept_to_the_millisecond_and_never_fire_early() {
    let server = Server::start();
    let queue = server.queue("orders");
    let at = Millis::new(4_102_444_800_123); // in the year 2100
    queue.push(new_job("far").when(When::At(at))).await.unwrap();
    let found = queue.find("far").await.unwrap().unwrap();
    assert_eq!(found.job.at, Some(at));
    assert!(found.job.envelope.time > 1_700_000_000 && found.job.envelope.delay.to_millis().get() > 1_000_000_000);
    assert!(queue.reserve(&many(1)).await.unwrap().is_empty());
}

#[tokio::test]
async fn r3_3_10_a_batch_takes_one_round_trip_and_not_one_a_job() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push_many((0..300).map(|n| new_job(&n.to_string()).delay(Duration::from_millis(1))), |_| {}).await.unwrap();
    until_due(&queue).await;
    let before = commands(&server);
    assert_eq!(queue.reserve(&many(300)).await.unwrap().len(), 300);
    let spent = commands(&server) - before;
    assert!(spent < 60, "{spent} commands, those inside of the script included");
}

#[tokio::test]
async fn r3_3_12_a_receiver_that_starts_again_counts_once_and_a_dead_one_is_named() {
    let server = Server::start();
    let topic = server.client().topic("files").unwrap();
    for member in ["again", "dead", "busy"] {
        topic.subscribe(member, &SubscribeOptions::new()).await.unwrap();
    }
    let ids = topic.publish("a file").await.unwrap().ids;
    for _ in 0..3 {
        let again = server.client().topic("files").unwrap();
        let pulled = again.pull("again", &PullOptions::new()).await.unwrap();
        again.ack("again", &ids).await.unwrap();
        assert!(pulled.len() <= 1);
    }
    for message in topic.pull("busy", &PullOptions::new()).await.unwrap() {
        assert!(message.ack().await.unwrap());
    }
    let info = topic.info().await.unwrap();
    assert_eq!(info.messages, 1, "it stays until all have it, however often one of them said so");
    let missing: Vec<_> = info.subscriptions.iter().filter(|one| one.unread > 0).map(|one| &*one.name).collect();
    assert_eq!(missing, ["dead"]);
    assert!(topic.unsubscribe("dead").await.unwrap());
    assert_eq!(topic.info().await.unwrap().messages, 0, "and nobody waits for it for ever");
}

#[tokio::test]
async fn r4_4_2_backoff_is_measured_across_a_minute_boundary() {
    let server = Server::start();
    let queue = server.builder().manual_clock().build().unwrap().queue("orders").unwrap();
    let mut now = Millis::new(1_790_000_099_000 / 60_000 * 60_000 + 58_000); // the 58th second of a minute
    queue.set_clock(now).await.unwrap();
    queue.push(new_job("a")).await.unwrap();
    for run in 1..=5 {
        let wait = Millis::from_secs(5 * run);
        assert!(
            matches!(take(&queue).await.fail("no").await.unwrap(), Next::RetryAfter { after, .. } if after == wait)
        );
        let due = now.saturating_add(wait);
        queue.set_clock(due.saturating_sub(Millis::new(1))).await.unwrap();
        assert!(queue.reserve(&many(1)).await.unwrap().is_empty(), "run {run} was early");
        queue.set_clock(due).await.unwrap();
        now = due;
    }
    assert_eq!(take(&queue).await.fail("no").await.unwrap(), Next::Failed { attempts: 6 });
}

#[tokio::test]
async fn r4_4_4_two_pollers_promote_a_job_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push_many((0..200).map(|n| new_job(&n.to_string()).delay(Duration::from_millis(1))), |_| {}).await.unwrap();
    until_due(&queue).await;
    let (one, other) = (server.queue("orders"), server.queue("orders"));
    let (first, second) = tokio::join!(one.promote(), other.promote());
    assert_eq!(first.unwrap() + second.unwrap(), 200);
    assert_eq!(queue.reserve(&many(1000)).await.unwrap().len(), 200);
}

#[tokio::test]
async fn r4_4_5_oldest_due_goes_first_under_backlog() {
    let server = Server::start();
    let queue = server.builder().manual_clock().build().unwrap().queue("orders").unwrap();
    let now = Millis::from_secs(1_790_000_000);
    queue.set_clock(now).await.unwrap();
    // Pushed with the last due first.
    let jobs = (1..=3000).rev().map(|n| new_job(&n.to_string()).delay(Duration::from_millis(n)));
    queue.push_many(jobs, |_| {}).await.unwrap();
    queue.set_clock(now.saturating_add(Millis::from_secs(60))).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3000 {
        seen.extend(queue.reserve(&many(128)).await.unwrap().iter().map(|job| job.id().parse::<u32>().unwrap()));
    }
    assert_eq!(seen, (1..=3000).collect::<Vec<_>>());
}

#[tokio::test]
async fn r4_4_6_a_backlog_is_never_in_one_reply() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push_many((0..2000).map(|n| new_job(&n.to_string()).delay(Duration::from_millis(1))), |_| {}).await.unwrap();
    until_due(&queue).await;
    assert_eq!(queue.reserve(&many(10)).await.unwrap().len(), 10);
    let counts = queue.counts().await.unwrap();
    assert!(counts.delayed > 1500, "one call promotes a bounded number, not {}", 2000 - counts.delayed);
}

#[tokio::test]
async fn r4_4_7_and_r5_5_4_a_backlog_drains_without_a_pause_a_batch() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue
        .push_many((0..10_000).map(|_| NewJob::new(&1).unwrap().delay(Duration::from_millis(1))), |_| {})
        .await
        .unwrap();
    until_due(&queue).await;
    let started = Instant::now();
    let mut drained = 0;
    while drained < 10_000 {
        let jobs = queue.reserve(&many(100).wait(Duration::from_secs(5))).await.unwrap();
        drained += queue.ack_all(&jobs).await.unwrap().len();
    }
    // A second a batch of 100 would be 100 s.
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[tokio::test]
async fn r4_4_9_ids_of_many_clients_and_threads_never_meet() {
    let server = Server::start();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let queue = server.queue("orders");
            tokio::spawn(async move {
                let jobs = (0..500).map(|_| NewJob::new(&json!("same")).unwrap()).collect();
                queue.push_batch(jobs).await.unwrap().iter().map(|pushed| pushed.id().to_owned()).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut all = HashSet::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_eq!(all.len(), 4000);
    assert_eq!(server.queue("orders").counts().await.unwrap().ready, 4000);
}

#[tokio::test]
async fn r4_4_10_and_4_14_any_data_is_the_same_bytes_after_a_retry_with_any_error_text() {
    let server = Server::start();
    let queue = server.queue("orders");
    for data in [
        "null",
        "9007199254740993",
        "18446744073709551616",
        "1.0",
        "[]",
        "{}",
        "\"\\u0000\\ud83d\\ude00\"",
        "0.30000000000000004",
        "{ \"b\":1,\"a\":[ ] }",
        "-0.0",
        "1e400",
        "\"\u{8ba2}\"",
    ] {
        queue.push(NewJob::from_json(data).unwrap().retry(at_once())).await.unwrap();
        take(&queue).await.fail("\u{fffd}\0\r\n\"}{;;\u{1b}[0m").await.unwrap();
        let job = take(&queue).await;
        assert_eq!(job.envelope.data.as_str(), data);
        assert_eq!(job.envelope.error, "\u{fffd}\0\r\n\"}{;;\u{1b}[0m");
        job.ack().await.unwrap();
    }
}

#[tokio::test]
async fn r4_4_13_producers_and_workers_notice_that_a_cache_has_emptied_the_database() {
    let mut server = Server::start();
    let any = || NewJob::new(&1).unwrap();
    let news = Arc::new(Mutex::new(Vec::new()));
    let one_more = |name: &'static str| {
        let news = Arc::clone(&news);
        let hears = move |event: &ClientEvent| {
            let ClientEvent::DataLost { queue } = event else { panic!("{event}") };
            news.lock().unwrap().push((name, queue.clone()));
        };
        server.builder().on_event(hears).build().unwrap()
    };
    let (busy, other, worker, newcomer) = (one_more("busy"), one_more("other"), one_more("worker"), one_more("new"));
    let [busy, other, worker, newcomer] = [busy, other, worker, newcomer].map(|client| client.queue("orders").unwrap());
    // Slots that are used for the first time, and calls that find nothing, are no news.
    assert!(worker.reserve(&many(1)).await.unwrap().is_empty());
    futures_util::future::join_all((0..20).map(|_| other.push(any()))).await;
    busy.push(any()).await.unwrap();
    let jobs = worker.reserve(&many(5)).await.unwrap();
    assert_eq!(jobs.len(), 5);
    assert_eq!(*news.lock().unwrap(), []);

    server.redis_cli(&["FLUSHALL"]);
    let pushed = futures_util::future::join_all((0..20).map(|_| busy.push(any()))).await;
    assert!(pushed.iter().all(Result::is_ok));
    newcomer.push(any()).await.unwrap();
    assert_eq!(*news.lock().unwrap(), [("busy", "orders".to_owned())], "once, by the one that has called");
    other.push(any()).await.unwrap();
    assert_eq!(news.lock().unwrap().last().unwrap().0, "other", "although others have pushed since");
    assert_eq!(jobs[0].ack().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(worker.reserve(&many(50)).await.unwrap().len(), 22);
    assert_eq!(news.lock().unwrap().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["busy", "other", "worker"]);

    // Again, and this time it is a server that starts without its data, so the first call is sent over a new connection.
    server.kill();
    server.restart();
    busy.push(any()).await.unwrap();
    worker.reserve(&many(1)).await.unwrap();
    assert_eq!(news.lock().unwrap().iter().map(|(name, _)| *name).collect::<Vec<_>>()[3..], ["busy", "worker"]);
}

#[tokio::test]
async fn r4_4_13_a_cache_that_empties_the_database_breaks_no_worker() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a")).await.unwrap();
    let job = take(&queue).await;
    server.redis_cli(&["FLUSHALL"]);
    assert_eq!(job.ack().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(job.extend(Duration::from_secs(1)).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert!(queue.reserve(&many(1)).await.unwrap().is_empty());
    queue.push(new_job("b")).await.unwrap();
    let next = take(&queue).await;
    assert!(next.token() > job.token(), "tokens rise also over an emptied database");
}

#[tokio::test]
async fn r4_4_15_a_server_that_hangs_up_is_not_dialed_in_a_hot_loop() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dialed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dialed);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let client = Client::builder()
        .url(&format!("redis://127.0.0.1:{port}"))
        .deadline(Duration::from_millis(700))
        .build()
        .unwrap();
    let queue = client.queue("orders").unwrap();
    let started = Instant::now();
    queue.reserve(&many(1).wait(Duration::from_millis(700))).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(14));
    let dialed = dialed.load(Ordering::SeqCst);
    assert!(dialed < 40, "{dialed} connections in 0.7 s");
}

#[tokio::test]
async fn r4_4_16_queues_are_apart_failed_is_bounded_and_a_run_knows_its_number() {
    let server = Server::start();
    let client = server.client();
    let (orders, mails) = (client.queue("orders").unwrap(), client.queue("mails").unwrap());
    orders.keep_failed(3, Duration::from_secs(3600)).await.unwrap();
    for n in 0..6 {
        orders.push(new_job(&n.to_string())).await.unwrap();
        let job = take(&orders).await;
        assert_eq!((job.id(), job.attempt()), (n.to_string().as_str(), 1));
        job.settle(Outcome::FailNow, "no").await.unwrap();
    }
    assert!(mails.reserve(&many(1)).await.unwrap().is_empty());
    assert_eq!(orders.counts().await.unwrap().failed, 3);
    assert_eq!(orders.requeue_all().await.unwrap(), 3);
}

#[tokio::test]
async fn r5_5_3_entries_without_a_job_do_not_block_those_behind_them() {
    let server = Server::start();
    let queue = server.queue("orders");
    let jobs = (0..300).map(|n| new_job(&n.to_string()).delay(Duration::from_millis(1)));
    queue.push_many(jobs, |_| {}).await.unwrap();
    until_due(&queue).await;
    queue.push(new_job("good").delay(Duration::from_millis(1))).await.unwrap();
    server.eval("for n = 0, 299 do redis.call('HDEL', 'duly:{orders}:jobs', n) end return {}", &[]);
    let jobs = queue.reserve(&many(1).wait(Duration::from_secs(5))).await.unwrap();
    assert_eq!(ids(&jobs), ["good"]);
}

#[tokio::test]
async fn r5_5_5_a_reserved_job_is_not_gone_before_its_ack() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a")).await.unwrap();
    let _job = take(&queue).await;
    let found = queue.find("a").await.unwrap().unwrap();
    assert_eq!(found.job.state, State::Reserved);
    assert!(found.job.at.unwrap() > found.now);
}

#[tokio::test]
async fn r5_5_6_a_job_that_outlives_its_lease_again_and_again_is_given_up() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a").max_retries(2)).await.unwrap();
    for run in 1..=3 {
        let options = many(1).lease(Duration::from_millis(5)).wait(Duration::from_secs(5));
        assert_eq!(queue.reserve(&options).await.unwrap()[0].attempt(), run);
    }
    support::eventually("it is given up", || async { queue.reclaim().await.unwrap() == 1 }).await;
    assert_eq!(queue.counts().await.unwrap().failed, 1);
}

#[tokio::test]
async fn r5_5_7_a_late_ack_is_refused_while_the_second_run_is_alive() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a")).await.unwrap();
    let late = queue.reserve(&many(1).lease(Duration::from_millis(5))).await.unwrap().remove(0);
    let job = queue.reserve(&many(1).wait(Duration::from_secs(5))).await.unwrap().remove(0);
    assert_eq!(late.ack().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(late.fail("late").await.unwrap_err().kind(), ErrorKind::LeaseLost);
    job.ack().await.unwrap();
}

#[tokio::test]
async fn r5_5_9_of_sixteen_producers_with_one_id_one_gets_it_in() {
    let server = Server::start();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let queue = server.queue("orders");
            tokio::spawn(async move { queue.push(new_job("same")).await })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => created += 1,
            Err(error) => assert_eq!((error.kind(), error.job_id()), (ErrorKind::Duplicate, Some("same"))),
        }
    }
    assert_eq!((created, server.queue("orders").counts().await.unwrap().ready), (1, 1));
}

#[tokio::test]
async fn r5_5_10_a_job_that_is_due_earlier_wakes_who_waits_for_a_later_one() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("later").delay(Duration::from_secs(3600))).await.unwrap();
    let mut soonest = Duration::MAX;
    for _ in 0..3 {
        let waiting = queue.clone();
        let wait = tokio::spawn(async move { waiting.reserve(&many(1).wait(Duration::from_secs(20))).await });
        let waits = || async { server.redis_cli(&["INFO", "clients"]).contains("blocked_clients:1") };
        support::eventually("it waits", waits).await;
        // By another process, which knows nothing of that timer.
        let pushed = Instant::now();
        server.queue("orders").push(new_job("sooner").delay(Duration::from_millis(50))).await.unwrap();
        let jobs = wait.await.unwrap().unwrap();
        soonest = soonest.min(pushed.elapsed());
        assert_eq!(ids(&jobs), ["sooner"]);
        jobs[0].ack().await.unwrap();
    }
    // Who only looks again now and then takes 0.8 s each time.
    assert!(soonest < Duration::from_millis(700), "{soonest:?}");
}
