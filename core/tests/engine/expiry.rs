//! When jobs expire: what a push may say, and what the server's clock decides.

use std::time::Duration;

use crate::support::verbs::assert_kind;
use crate::support::{Server, eventually};
use duly::{ErrorKind, Limits, Millis, NewJob, OnDuplicate, Queue, ReserveOptions, Schedule, State, When};

/// Far from that of this host.
const NOW: Millis = Millis::new(1_600_000_000_000);

fn job() -> NewJob {
    NewJob::new(&1).unwrap()
}

fn after(ms: u64) -> When {
    When::After(Millis::new(ms))
}

async fn with_clock(server: &Server) -> Queue {
    let client = duly::Client::builder().url(&server.url()).manual_clock().build().unwrap();
    let queue = client.queue("orders").unwrap();
    queue.set_clock(NOW).await.unwrap();
    queue
}

async fn expires(queue: &Queue, job: NewJob) -> Millis {
    let id = queue.push(job).await.unwrap().id().to_owned();
    queue.find(&id).await.unwrap().unwrap().job.envelope.expires.unwrap()
}

#[tokio::test]
async fn the_servers_clock_decides_and_not_the_hosts() {
    let server = Server::start();
    let queue = with_clock(&server).await;
    assert_eq!(expires(&queue, job().expires(after(1500))).await, NOW.saturating_add(Millis::new(1500)));
    let at = NOW.saturating_add(Millis::new(7));
    assert_eq!(expires(&queue, job().expires(When::At(at))).await, at);
    for late in [When::Now, When::At(NOW), When::At(Millis::new(1)), after(0)] {
        assert_kind(&queue.push(job().expires(late)).await.unwrap_err(), ErrorKind::InvalidArgument);
    }
    let error = queue.push_batch(vec![job(), job().when(When::At(at)).expires(When::At(at))]).await.unwrap_err();
    assert_kind(&error, ErrorKind::InvalidArgument);
    assert_eq!(error.batch_index(), Some(1));
}

#[tokio::test]
async fn a_check_without_a_server_takes_the_hosts_clock() {
    assert!(job().expires(after(1)).check().is_ok());
    assert_kind(&job().when(after(10)).expires(after(10)).check().unwrap_err(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_push_without_expiry_asks_for_no_time() {
    let server = Server::start();
    let queue = server.queue("orders");
    let expiring = || job().expires(after(60_000));
    let calls = || {
        let stats = server.redis_cli(&["INFO", "commandstats"]);
        let (_, behind) = stats.split_once("cmdstat_evalsha:calls=").unwrap();
        behind.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    // The server learns the scripts, and the list of queues the queue.
    queue.push(expiring()).await.unwrap();
    eventually("the queue is listed", async || !server.client().queues(1, None).await.unwrap().queues.is_empty()).await;
    let before = calls();
    queue.push(job()).await.unwrap();
    assert_eq!(calls() - before, 1);
    queue.push_batch(vec![expiring(), expiring()]).await.unwrap();
    assert_eq!(calls() - before, 3, "the time is asked for once for a batch");
}

#[tokio::test]
async fn a_job_says_why_it_will_be_dropped() {
    let server = Server::start();
    let queue = with_clock(&server).await;
    let why = async |id: &str| queue.find(id).await.unwrap().unwrap().why;
    queue.push(job().id("a").expires(after(2000))).await.unwrap();
    queue.push(job().id("b").delay(Duration::from_secs(1)).expires(after(2000))).await.unwrap();
    assert_eq!(
        why("a").await,
        "is ready and waits for a worker; it expires in 2 s, and is dropped unless it has started"
    );
    queue.reschedule("b", after(5000)).await.unwrap();
    assert!(why("b").await.ends_with("it expires before that, in 2 s, and is dropped then"), "{}", why("b").await);
    queue.set_clock(NOW.saturating_add(Millis::new(3000))).await.unwrap();
    assert_eq!(why("a").await, "expired 1 s ago: the next worker that comes to it drops it");
}

#[tokio::test]
async fn a_package_brings_its_expiry_along() {
    let server = Server::start();
    let queue = with_clock(&server).await;
    queue.push(job().id("a").expires(after(2000))).await.unwrap();
    let package = queue.find("a").await.unwrap().unwrap().job.package();
    let text = String::from_utf8(package.clone()).unwrap();
    assert!(text.ends_with(r#""v":2,"expires":1600000002}"#), "{text}");
    queue.cancel("a").await.unwrap();
    queue.set_clock(NOW.saturating_add(Millis::new(5000))).await.unwrap();
    queue.push(NewJob::from_package(&package).unwrap()).await.expect("what is over by now is taken, and dropped");
    assert!(queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty());
    let failed_before = text.replace(r#""attempts":0"#, r#""attempts":1"#);
    queue.push(NewJob::from_package(failed_before.as_bytes()).unwrap()).await.unwrap();
    assert_eq!(queue.reserve(&ReserveOptions::new()).await.unwrap().len(), 1, "it has begun");
    assert_eq!(queue.counts().await.unwrap().total("expired"), 1);
}

#[tokio::test]
async fn a_schedule_has_jobs_that_do_not_expire() {
    let error = Schedule::every(Duration::from_secs(60), job().expires(after(1000))).unwrap_err();
    assert_kind(&error, ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("catch_up and grace"), "{error}");
}

#[tokio::test]
async fn many_that_have_expired_hide_none_that_has_not() {
    let server = Server::start();
    let queue = with_clock(&server).await;
    queue.push_batch((0..700).map(|_| job().expires(after(1000))).collect()).await.unwrap();
    queue.push(job().id("last")).await.unwrap();
    queue.set_clock(NOW.saturating_add(Millis::new(1000))).await.unwrap();
    let jobs = queue.reserve(&ReserveOptions::new()).await.unwrap();
    assert_eq!(jobs.iter().map(duly::Job::id).collect::<Vec<_>>(), ["last"]);
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.of(State::Reserved), counts.total("expired")), (0, 1, 700));
}

/// Each lease of a job that its caller does not get would be charged if that died before it is given back.
#[tokio::test]
async fn behind_jobs_that_have_expired_no_more_are_leased_than_were_asked_for() {
    for (many, keeps_history) in [(1, false), (400, false), (1, true), (400, true)] {
        let server = Server::start();
        let queue = with_clock(&server).await;
        if keeps_history {
            queue.keep_history(10_000, Duration::from_secs(3600)).await.unwrap();
        }
        let expired = queue.push_batch((0..many).map(|_| job().expires(after(1000))).collect()).await.unwrap();
        queue.push_batch((0..20).map(|_| job()).collect()).await.unwrap();
        queue.set_clock(NOW.saturating_add(Millis::new(1000))).await.unwrap();
        let calls = || {
            let stats = server.redis_cli(&["INFO", "commandstats"]);
            let (_, behind) = stats.split_once("cmdstat_evalsha:calls=").unwrap();
            behind.split_once(',').unwrap().0.parse::<u64>().unwrap()
        };
        let before = calls();
        assert_eq!(queue.reserve(&ReserveOptions::new()).await.unwrap().len(), 1);
        assert!(calls() - before < 20, "{}", calls() - before);
        let counts = queue.counts().await.unwrap();
        let totals = ["expired", "released"].map(|name| counts.total(name));
        assert_eq!((totals, counts.ready, counts.of(State::Reserved)), ([many, 0], 19, 1));
        if keeps_history && many > 1 {
            let trace = queue.trace(expired.last().unwrap().id()).await.unwrap().unwrap();
            let told: Vec<_> = trace.events.iter().map(|event| event.what.as_str()).collect();
            assert_eq!(told, ["pushed", "expired"], "dropped in the script");
        }
    }
}

#[tokio::test]
async fn where_a_queue_has_limits_the_server_drops_them_and_they_use_no_start() {
    let server = Server::start();
    let queue = with_clock(&server).await;
    queue.set_limits(&Limits::new().rate(1, Duration::from_secs(3600))).await.unwrap();
    let waits =
        queue.push(job().result_ttl(Duration::from_secs(60)).expires(after(1000))).await.unwrap().id().to_owned();
    queue.push_batch((0..699).map(|_| job().expires(after(1000))).collect()).await.unwrap();
    queue.push(job().id("last")).await.unwrap();
    queue.set_clock(NOW.saturating_add(Millis::new(1000))).await.unwrap();
    let waiter = tokio::spawn({
        let queue = server.queue("orders");
        async move { queue.wait_result(&waits, Some(Duration::from_secs(60))).await.unwrap_err().kind() }
    });
    let jobs = queue.reserve(&ReserveOptions::new()).await.unwrap();
    assert_eq!(jobs.iter().map(duly::Job::id).collect::<Vec<_>>(), ["last"]);
    assert_eq!(queue.counts().await.unwrap().total("expired"), 700);
    assert_eq!(waiter.await.unwrap(), ErrorKind::NoResult);
}

/// Tokens run ahead of such a clock, and this host's is ahead of it, too.
#[tokio::test]
async fn a_clock_that_was_set_back_ends_no_job_early() {
    for has_limits in [false, true] {
        let server = Server::start();
        let queue = with_clock(&server).await;
        if has_limits {
            queue.set_limits(&Limits::new().concurrency(10)).await.unwrap();
        }
        queue.set_clock(NOW.saturating_add(Millis::new(60_000))).await.unwrap();
        queue.push(job()).await.unwrap();
        assert_eq!(queue.reserve(&ReserveOptions::new()).await.unwrap().len(), 1);
        queue.set_clock(NOW).await.unwrap();
        let id = queue.push(job().expires(after(30_000))).await.unwrap().id().to_owned();
        let jobs = queue.reserve(&ReserveOptions::new()).await.unwrap();
        assert_eq!(jobs.iter().map(duly::Job::id).collect::<Vec<_>>(), [id], "limits: {has_limits}");
        assert_eq!(queue.counts().await.unwrap().total("expired"), 0);
    }
}

#[tokio::test]
async fn a_trace_says_of_a_job_that_a_new_one_found_expired_that_it_expired() {
    let server = Server::start();
    let queue = with_clock(&server).await;
    queue.keep_history(10_000, Duration::from_secs(3600)).await.unwrap();
    queue.push(job().id("a").key("k").expires(after(1000))).await.unwrap();
    queue.set_clock(NOW.saturating_add(Millis::new(1000))).await.unwrap();
    queue.push(job().id("b").key("k")).await.unwrap();
    queue.push(job().id("c").key("k").on_duplicate(OnDuplicate::Replace)).await.unwrap();
    for (id, what) in [("a", "expired"), ("b", "replaced")] {
        let trace = queue.trace(id).await.unwrap().unwrap();
        let told: Vec<_> = trace.events.iter().map(|event| event.what.as_str()).collect();
        assert_eq!(told, ["pushed", what]);
    }
}
