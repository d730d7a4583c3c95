//! Jobs that expire before a handler is free for them.

use std::time::Duration;

use crate::support::{self, Server};
use duly::worker::{Ended, Engine, WorkerEvent, WorkerSettings};
use duly::{ErrorKind, Happening, Limits, Millis, NewJob, When};

const A_WHILE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn what_expires_while_its_worker_is_busy_is_dropped_and_told() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    settings.concurrency = 1;
    let engine = Engine::start(&client, settings).unwrap();
    let executor = engine.executor();
    let next = async || tokio::time::timeout(A_WHILE, executor.next()).await.expect("a run").unwrap();
    let job = |data: u8| NewJob::new(&data).unwrap().result_ttl(A_WHILE);
    queue.push(job(1)).await.unwrap();
    let run = next().await;
    let soon = When::After(Millis::new(200));
    let expiring = queue.push_batch(vec![job(2).expires(soon).key("k"), job(3).expires(soon)]).await.unwrap();
    let waiter = tokio::spawn({
        let (queue, id) = (server.queue("orders"), expiring[1].id().to_owned());
        async move { queue.wait_result(&id, Some(A_WHILE)).await.unwrap_err().kind() }
    });
    let expires = queue.find(expiring[0].id()).await.unwrap().unwrap().job.envelope.expires.unwrap();
    support::eventually("they have expired", async || server.clock() / 1000 >= expires.get()).await;
    executor.finish(&run, Ended::DONE).unwrap();
    queue.push(job(4)).await.unwrap();
    let run = next().await;
    assert_eq!(run.job.envelope.data.as_str(), "4");
    executor.finish(&run, Ended::DONE).unwrap();
    support::eventually("both are counted", async || queue.counts().await.unwrap().total("expired") == 2).await;
    assert_eq!(waiter.await.unwrap(), ErrorKind::NoResult);
    queue.push(job(5).key("k")).await.expect("its key is free");
    engine.stop();
    let report = tokio::time::timeout(A_WHILE, engine.ended()).await.expect("it ends").unwrap();
    assert_eq!((report.acked, report.expired, report.failed, report.lost), (2, 2, 0, 0));
    let events: Vec<_> = std::iter::from_fn(|| engine.event_within(Duration::ZERO)).collect();
    let told = events.iter().filter_map(|event| match event {
        WorkerEvent::Expired { others, .. } => Some(1 + others),
        _ => None,
    });
    assert_eq!(told.sum::<usize>(), 2, "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_drops_where_a_queue_has_limits_is_told() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.set_limits(&Limits::new().rate(1, Duration::from_secs(3600))).await.unwrap();
    let soon = When::After(Millis::new(1));
    let job = |data: u8| NewJob::new(&data).unwrap().name("mail");
    let expiring = queue.push_batch(vec![job(1).expires(soon), job(2).expires(soon)]).await.unwrap();
    queue.push(job(3)).await.unwrap();
    let expires = queue.find(expiring[1].id()).await.unwrap().unwrap().job.envelope.expires.unwrap();
    support::eventually("they have expired", async || server.clock() / 1000 >= expires.get()).await;
    let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    let executor = engine.executor();
    let run = tokio::time::timeout(A_WHILE, executor.next()).await.expect("a run").unwrap();
    assert_eq!(run.job.envelope.data.as_str(), "3");
    executor.finish(&run, Ended::DONE).unwrap();
    engine.stop();
    let report = tokio::time::timeout(A_WHILE, engine.ended()).await.expect("it ends").unwrap();
    assert_eq!((report.acked, report.expired), (1, 2));
    let events: Vec<_> = std::iter::from_fn(|| engine.event_within(Duration::ZERO)).collect();
    let told = events.iter().find_map(|event| match event {
        WorkerEvent::Expired { job, others } => Some((&*job.id, job.name.as_deref(), *others)),
        _ => None,
    });
    assert_eq!(told, Some((expiring[0].id(), Some("mail"), 1)), "{events:?}");
}

/// With and without a history, which sees no start of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_passes_by_many_that_have_expired_in_few_calls_and_starts_none() {
    for keeps_history in [false, true] {
        let server = Server::start();
        let queue = server.queue("orders");
        if keeps_history {
            queue.keep_history(10_000, Duration::from_secs(3600)).await.unwrap();
        }
        let soon = When::After(Millis::new(1));
        let job = |data: u16| NewJob::new(&data).unwrap().max_retries(0);
        let expired = queue.push_batch((0..600).map(|data| job(data).expires(soon)).collect()).await.unwrap();
        queue.push(job(1000)).await.unwrap();
        let until = queue.find(expired[599].id()).await.unwrap().unwrap().job.envelope.expires.unwrap();
        support::eventually("they have expired", async || server.clock() / 1000 >= until.get()).await;
        let calls = || {
            let stats = server.redis_cli(&["INFO", "commandstats"]);
            let of_scripts = stats.lines().filter_map(|line| line.trim().strip_prefix("cmdstat_evalsha:calls="));
            of_scripts.map(|line| line.split_once(',').unwrap().0.parse::<u64>().unwrap()).sum::<u64>()
        };
        let before = calls();
        let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
        let executor = engine.executor();
        let run = tokio::time::timeout(A_WHILE, executor.next()).await.expect("a run").unwrap();
        assert_eq!(run.job.envelope.data.as_str(), "1000");
        assert!(calls() - before < 60, "{} calls for 600 jobs", calls() - before);
        executor.finish(&run, Ended::DONE).unwrap();
        engine.stop();
        let report = tokio::time::timeout(A_WHILE, engine.ended()).await.expect("it ends").unwrap();
        assert_eq!((report.acked, report.expired, report.failed), (1, 600, 0));
        let events: Vec<_> = std::iter::from_fn(|| engine.event_within(Duration::ZERO)).collect();
        let told = events.iter().filter_map(|event| match event {
            WorkerEvent::Expired { others, .. } => Some(others + 1),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told.iter().sum::<usize>(), 600);
        assert!(told.len() < 60, "{} lines", told.len());
        for one in expired.iter().filter(|_| keeps_history) {
            let trace = queue.trace(one.id()).await.unwrap().unwrap();
            assert!(trace.events.iter().all(|event| event.what != Happening::Started), "{trace:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_says_once_that_it_leaves_jobs_of_a_later_version_alone() {
    let server = Server::start();
    let queue = server.queue("orders");
    for id in ["a", "b"] {
        queue.push(NewJob::new(&1).unwrap().id(id)).await.unwrap();
        server.redis_cli(&["HSET", "duly:{orders}:jobs", id, r#"{"data":1,"v":3}"#]);
    }
    let engine = Engine::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    let executor = engine.executor();
    queue.push(NewJob::new(&1).unwrap().id("c")).await.unwrap();
    let run = tokio::time::timeout(A_WHILE, executor.next()).await.expect("a run").unwrap();
    assert_eq!(run.job.id(), "c");
    executor.finish(&run, Ended::DONE).unwrap();
    support::eventually("they wait for others", async || queue.counts().await.unwrap().delayed == 2).await;
    engine.stop();
    let report = tokio::time::timeout(A_WHILE, engine.ended()).await.expect("it ends").unwrap();
    assert_eq!((report.acked, report.failed), (1, 0));
    let events: Vec<_> = std::iter::from_fn(|| engine.event_within(Duration::ZERO)).collect();
    assert_eq!(events.iter().filter(|event| matches!(event, WorkerEvent::TooNew { .. })).count(), 1, "{events:?}");
    assert!(events.iter().all(|event| event.queue() == Some("orders")), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_ends_no_job_early() {
    const NOW: Millis = Millis::new(1_600_000_000_000);
    let server = Server::start();
    let client = duly::Client::builder().url(&server.url()).manual_clock().build().unwrap();
    let queue = client.queue("orders").unwrap();
    queue.set_clock(NOW.saturating_add(Millis::new(60_000))).await.unwrap();
    let engine = Engine::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    let executor = engine.executor();
    for (data, expires) in [(1, None), (2, Some(When::After(Millis::new(30_000))))] {
        let job = NewJob::new(&data).unwrap();
        queue.push(if let Some(expires) = expires { job.expires(expires) } else { job }).await.unwrap();
        let run = tokio::time::timeout(A_WHILE, executor.next()).await.expect("a run").unwrap();
        assert_eq!(run.job.envelope.data.as_str(), data.to_string());
        executor.finish(&run, Ended::DONE).unwrap();
        queue.set_clock(NOW).await.unwrap();
    }
    engine.stop();
    let report = tokio::time::timeout(A_WHILE, engine.ended()).await.expect("it ends").unwrap();
    assert_eq!((report.acked, report.expired), (2, 0));
}
