//! Results: what a worker's handler gives, and who waits for it.

use std::time::{Duration, Instant};

use crate::support::{Server, eventually};
use duly::worker::{Failure, Job, Worker};
use duly::{Client, Error, ErrorKind, NewJob, Queue, ReserveOptions};

const TTL: Duration = Duration::from_secs(60);

async fn reserved(queue: &Queue) -> duly::Job {
    let options = ReserveOptions::new().wait(Duration::from_secs(10));
    queue.reserve(&options).await.unwrap().pop().unwrap()
}

fn client(server: &Server) -> Client {
    server.client()
}

/// Waits until so many clients wait for an element of a list.
async fn until_blocked(server: &Server, count: usize) {
    let line = format!("blocked_clients:{count}\r");
    eventually("blocked clients", async || {
        server.redis_cli(&["info", "clients"]).lines().any(|it| it == line.trim_end())
    })
    .await;
}

#[tokio::test]
async fn all_who_wait_get_the_result_at_once() {
    let server = Server::start();
    let client = client(&server);
    let queue = client.queue("q").unwrap();
    let mut soonest = Duration::MAX;
    for _ in 0..3 {
        let id = queue.push(NewJob::new(&1).unwrap().result_ttl(TTL)).await.unwrap().id().to_owned();
        let mut waiters = tokio::task::JoinSet::new();
        for own_client in [false, false, true, true] {
            let queue = if own_client { self::client(&server).queue("q").unwrap() } else { queue.clone() };
            let id = id.clone();
            waiters.spawn(async move {
                let result = queue.wait_result(&id, None).await;
                (result.unwrap().deserialize::<Vec<u32>>().unwrap(), Instant::now())
            });
        }
        let job = reserved(&queue).await;
        until_blocked(&server, 4).await;
        job.ack_with(&[1, 2]).await.unwrap();
        let acked = Instant::now();
        let mut last = acked;
        while let Some(waiter) = waiters.join_next().await {
            let (result, at) = waiter.unwrap();
            assert_eq!(result, [1, 2]);
            last = last.max(at);
        }
        soonest = soonest.min(last - acked);
    }
    // Sooner than by looking again each second.
    assert!(soonest < Duration::from_millis(500), "{soonest:?}");
}

#[tokio::test]
async fn a_waiter_that_is_dropped_takes_nothing_from_the_others() {
    let server = Server::start();
    let queue = client(&server).queue("q").unwrap();
    let id = queue.push(NewJob::new(&1).unwrap().result_ttl(TTL)).await.unwrap().id().to_owned();
    let job = reserved(&queue).await;
    let dropped = tokio::spawn({
        let (queue, id) = (queue.clone(), id.clone());
        async move { queue.wait_result(&id, None).await }
    });
    until_blocked(&server, 1).await;
    dropped.abort();
    let _ = dropped.await;
    until_blocked(&server, 0).await;
    let waits = tokio::spawn(async move { queue.wait_result(&id, None).await });
    until_blocked(&server, 1).await;
    job.ack_with("given").await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap().as_str(), "\"given\"");
}

#[tokio::test]
async fn a_waiter_sees_a_failure_and_a_cancellation() {
    let server = Server::start();
    let queue = client(&server).queue("q").unwrap();
    let push = || NewJob::new(&1).unwrap().result_ttl(TTL).max_retries(0);
    let failing = queue.push(push()).await.unwrap().id().to_owned();
    let job = reserved(&queue).await;
    let cancelled = queue.push(push()).await.unwrap().id().to_owned();
    let wait = |id: &str| {
        let (queue, id) = (queue.clone(), id.to_owned());
        tokio::spawn(async move { queue.wait_result(&id, None).await.unwrap_err() })
    };
    let (first, second) = (wait(&failing), wait(&cancelled));
    until_blocked(&server, 2).await;
    job.fail("no answer").await.unwrap();
    queue.cancel(&cancelled).await.unwrap();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((first.kind(), second.kind()), (ErrorKind::JobFailed, ErrorKind::NoResult));
    assert!(first.to_string().ends_with("no answer"), "{first}");
    assert_eq!(first.job_id(), Some(failing.as_str()));
}

#[tokio::test]
async fn a_handler_gives_the_result() {
    let server = Server::start();
    let client = client(&server);
    let queue = client.queue("q").unwrap();
    let worker = Worker::builder(client.clone())
        .queue("q", 1)
        .handler("double", |job: Job<u32>, _context| async move { Ok::<_, Failure>(2 * job.data) })
        .handler("nothing", |_job: Job<u32>, _context| async move { Ok::<(), Failure>(()) })
        .handler("nan", |_job: Job<u32>, _context| async move { Ok::<_, Failure>(f64::NAN) })
        .handler("large", |_job: Job<u32>, _context| async move { Ok::<_, Failure>("x".repeat(1 << 20)) })
        .build()
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await });
    let ask = async |name: &str, ttl: Option<Duration>| -> Result<String, Error> {
        let job = NewJob::new(&21).unwrap().name(name).max_retries(0);
        let job = match ttl {
            Some(ttl) => job.result_ttl(ttl),
            None => job,
        };
        let id = queue.push(job).await?.id().to_owned();
        queue.wait_result(&id, Some(Duration::from_secs(10))).await.map(|result| result.as_str().to_owned())
    };
    assert_eq!(ask("double", Some(TTL)).await.unwrap(), "42");
    assert_eq!(ask("nothing", Some(TTL)).await.unwrap(), "null");
    // A run whose result cannot be kept has failed; nobody looks at what nobody wants.
    let (no_json, large) = (ask("nan", Some(TTL)).await.unwrap_err(), ask("large", Some(TTL)).await.unwrap_err());
    assert_eq!((no_json.kind(), large.kind()), (ErrorKind::JobFailed, ErrorKind::JobFailed));
    assert!(no_json.to_string().contains("NaN") && large.to_string().contains("max_data_bytes"), "{no_json}, {large}");
    assert_eq!(ask("nan", None).await.unwrap_err().kind(), ErrorKind::NoResult);
    eventually("the last job is done", async || {
        let counts = queue.counts().await.unwrap();
        counts.ready + counts.reserved == 0
    })
    .await;
    stop.send(()).unwrap();
    let report = working.await.unwrap().unwrap();
    assert_eq!((report.acked, report.failed), (3, 2));
}

#[tokio::test]
async fn large_results_of_many_tasks_go_in_several_calls() {
    let server = Server::start();
    let queue = client(&server).queue("q").unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..12 {
        queue.push(NewJob::new(&1).unwrap().result_ttl(TTL)).await.unwrap();
        let job = reserved(&queue).await;
        tasks.spawn(async move { job.ack_with(&"x".repeat((1 << 20) - 2)).await });
    }
    while let Some(acked) = tasks.join_next().await {
        acked.unwrap().unwrap();
    }
    assert_eq!(queue.counts().await.unwrap().reserved, 0);
}

#[tokio::test]
async fn a_partitioned_queue_finds_the_result_in_its_part() {
    let server = Server::start();
    let queue = client(&server).partitioned_queue("q", 5).unwrap();
    for key in [None, Some("close:42")] {
        let job = NewJob::new(&1).unwrap().result_ttl(TTL);
        let job = match key {
            Some(key) => job.id("of-its-own").key(key),
            None => job,
        };
        let id = queue.push(job).await.unwrap().id().to_owned();
        let job = queue.reserve(&ReserveOptions::new().wait(Duration::from_secs(10))).await.unwrap().pop().unwrap();
        job.ack_with(&key).await.unwrap();
        let result = queue.wait_result(&id, None).await.unwrap();
        assert_eq!(result.deserialize::<Option<String>>().unwrap().as_deref(), key);
    }
    assert_eq!(queue.wait_result("none", None).await.unwrap_err().kind(), ErrorKind::NoResult);
}

/// Else a queue whose jobs all leave results could never drain, and its acks would hold up others.
#[tokio::test]
async fn a_full_server_lets_jobs_end_without_their_results_and_says_so() {
    let server = Server::start();
    let queue = client(&server).queue("q").unwrap();
    for id in ["by hand", "a", "b"] {
        queue.push(NewJob::new(&1).unwrap().id(id).result_ttl(TTL)).await.unwrap();
    }
    queue.push(NewJob::new(&1).unwrap().id("plain")).await.unwrap();
    let jobs = queue.reserve(&ReserveOptions::new().max(4)).await.unwrap();
    let waiter = tokio::spawn({
        let queue = self::client(&server).queue("q").unwrap();
        async move { queue.wait_result("b", None).await }
    });
    until_blocked(&server, 1).await;
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    jobs[0].ack_with(&"by hand").await.unwrap();
    assert_eq!(queue.ack_all(&jobs[1..]).await.unwrap(), [true, true, true]);
    assert_eq!(queue.counts().await.unwrap().reserved, 0);
    for error in [queue.wait_result("by hand", None).await.unwrap_err(), waiter.await.unwrap().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::NoResult, "{error}");
        assert!(error.to_string().contains("maxmemory"), "what to do next: {error}");
    }
    assert_eq!(server.redis_cli(&["EXISTS", "duly:{q}:result:plain"]).trim(), "0");
}

#[tokio::test]
async fn a_worker_names_a_job_whose_result_a_full_server_did_not_keep() {
    let server = std::sync::Arc::new(Server::start());
    let client = client(&server);
    let queue = client.queue("q").unwrap();
    queue.push(NewJob::new(&1).unwrap().id("a").name("count").result_ttl(TTL)).await.unwrap();
    let (events, mut reported) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::builder(client)
        .queue("q", 1)
        .handler("count", move |_job: Job<u32>, _context| {
            let server = std::sync::Arc::clone(&server);
            async move {
                server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
                Ok::<_, Failure>(7)
            }
        })
        .on_event(move |event| drop(events.send(event.to_string())))
        .build()
        .unwrap();
    let not_kept = async move {
        while let Some(text) = reported.recv().await {
            if text.contains("not kept") {
                assert!(text.contains("job a (count") && text.contains("maxmemory"), "{text}");
                return;
            }
        }
    };
    let stop = async { tokio::time::timeout(Duration::from_secs(20), not_kept).await.expect("it is reported") };
    assert_eq!(worker.run_until(stop).await.unwrap().acked, 1);
}
