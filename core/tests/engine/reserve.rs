//! How much one reserve gives.

use std::time::Duration;

use crate::support::Server;
use crate::support::meter::Meter;
use duly::{Job, Limits, NameLimits, NewJob, Queue, QueueWeight, ReserveOptions, Selection, State};

/// Four of them are as much as one call gives.
async fn push_large(queue: &Queue, count: usize) {
    let large = || NewJob::new(&"x".repeat(1_000_000)).unwrap();
    queue.push_many((0..count).map(|_| large()), |_| {}).await.unwrap();
}

#[tokio::test]
async fn large_jobs_end_a_reserve_before_it_has_as_many_as_it_may() {
    let server = Server::start();
    let queue = server.queue("orders");
    let at_once = ReserveOptions::new().max(100);
    for options in [at_once.clone(), at_once.wait(Duration::from_secs(60))] {
        push_large(&queue, 7).await;
        let mut left = 7;
        while left > 0 {
            let jobs = queue.reserve(&options).await.unwrap();
            assert!((1..=5).contains(&jobs.len()), "{} of {left}", jobs.len());
            assert!(queue.ack_all(&jobs).await.unwrap().into_iter().all(|acked| acked));
            left -= jobs.len();
        }
    }
}

/// More calls than one, each of which has room for more: without a wait each one gave 4 MiB.
#[tokio::test]
async fn a_reserve_of_several_calls_gives_no_more_than_one() {
    let server = Server::start();
    let queue = server.queue("orders");
    let at_once = ReserveOptions::new().max(1000);
    for options in [at_once.clone(), at_once.wait(Duration::from_secs(60))] {
        let text = "x".repeat(16_000);
        queue.push_many((0..600).map(|_| NewJob::new(&text).unwrap()), |_| {}).await.unwrap();
        let mut left = 600;
        while left > 0 {
            let jobs = queue.reserve(&options).await.unwrap();
            assert!((1..=263).contains(&jobs.len()), "{} of {left}", jobs.len());
            assert!(jobs.len() > 250 || jobs.len() == left, "{} of {left}", jobs.len());
            assert!(queue.ack_all(&jobs).await.unwrap().into_iter().all(|acked| acked));
            left -= jobs.len();
        }
    }
}

#[tokio::test]
async fn more_jobs_than_one_call_leases_come_with_one_reserve() {
    let server = Server::start();
    let queue = server.queue("orders");
    let at_once = ReserveOptions::new().max(1000);
    for options in [at_once.clone(), at_once.wait(Duration::from_secs(60))] {
        queue.push_many((0..620).map(|number| NewJob::new(&number).unwrap()), |_| {}).await.unwrap();
        let jobs = queue.reserve(&options).await.unwrap();
        assert_eq!(jobs.len(), 620);
        assert!(queue.ack_all(&jobs).await.unwrap().into_iter().all(|acked| acked));
    }
}

#[tokio::test]
async fn who_reserves_together_with_others_gets_jobs_though_theirs_fill_the_call() {
    let server = Server::start();
    let queue = server.queue("orders");
    push_large(&queue, 16).await;
    let options = ReserveOptions::new().max(4);
    // The first goes alone; those that come while it is on its way go together.
    let (first, second, third, fourth) = tokio::join!(
        queue.reserve(&options),
        queue.reserve(&options),
        queue.reserve(&options),
        queue.reserve(&options)
    );
    assert_eq!([first, second, third, fourth].map(|jobs| jobs.unwrap().len()), [4; 4]);
}

/// A queue in which the one place of `full` is taken.
async fn with_a_full_name(queue: Queue) -> Queue {
    queue.set_limits(&Limits::new().name("full", NameLimits::new().concurrency(1))).await.unwrap();
    queue.push(sized(10).name("full")).await.unwrap();
    assert_eq!(queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(600))).await.unwrap().len(), 1);
    queue
}

fn sized(bytes: usize) -> NewJob {
    NewJob::new(&"x".repeat(bytes)).unwrap()
}

/// The jobs that one reserve gives, and how many calls of scripts it takes.
async fn counted(server: &Server, reserve: impl Future<Output = Result<Vec<Job>, duly::Error>>) -> (Vec<Job>, u64) {
    let mut meter = Meter::of(server);
    let before = meter.calls("evalsha");
    let jobs = reserve.await.unwrap();
    (jobs, meter.calls("evalsha") - before)
}

/// The first jobs leave room for little more than one record: each call passed over one job of the full name, while their leases ran.
#[tokio::test]
async fn what_has_come_is_given_before_a_backlog_of_a_full_name_is_passed_over() {
    let server = Server::start();
    let queue = with_a_full_name(server.queue("orders")).await;
    let at_once = ReserveOptions::new().max(1000);
    for options in [at_once.clone(), at_once.wait(Duration::from_secs(60))] {
        queue.push_many((0..250).map(|_| sized(16_650)), |_| {}).await.unwrap();
        queue.push_many((0..400).map(|_| sized(20_000).name("full")), |_| {}).await.unwrap();
        queue.push(sized(10)).await.unwrap();
        let (jobs, calls) = counted(&server, queue.reserve(&options)).await;
        assert!(calls <= 2, "{calls} calls");
        assert_eq!(jobs.len(), 250);
        assert!(queue.ack_all(&jobs).await.unwrap().into_iter().all(|acked| acked));
        // Where nothing has come, the reserve goes on to what is ready, 4 MiB a call.
        let (jobs, calls) = counted(&server, queue.reserve(&options)).await;
        assert_eq!(jobs.len(), 1);
        assert!(calls <= 3, "{calls} calls");
        jobs[0].ack().await.unwrap();
    }
}

#[tokio::test]
async fn a_reserve_from_several_queues_calls_one_of_them_a_few_times_once_jobs_have_come() {
    let server = Server::start();
    let client = server.client();
    let high = with_a_full_name(client.queue("high").unwrap()).await;
    high.push_many((0..200).map(|_| sized(16_000)), |_| {}).await.unwrap();
    for _ in 0..30 {
        high.push_many((0..10).map(|_| sized(100_000).name("full")), |_| {}).await.unwrap();
        high.push(sized(10)).await.unwrap();
    }
    client.queue("low").unwrap().push(sized(10)).await.unwrap();
    let queues = ["high", "low"].map(|name| QueueWeight::new(client.queue(name).unwrap(), 1));
    let options = ReserveOptions::new().max(1000);
    let (jobs, calls) = counted(&server, client.reserve_from(&queues, Selection::Strict, &options)).await;
    assert!(calls <= 3, "{calls} calls");
    assert!(jobs.len() >= 200, "{}", jobs.len());
    assert!(
        jobs.iter().all(|job| job.queue().name() == "high"),
        "a job of `low` was taken while others are ready in `high`"
    );
}

/// What cannot be decoded is not given, and takes no room from what is.
#[tokio::test]
async fn what_cannot_be_decoded_leaves_all_room_to_what_comes_behind_it() {
    let server = Server::start();
    let queue = with_a_full_name(server.queue("orders")).await;
    let at_once = ReserveOptions::new().max(1000);
    for options in [at_once.clone(), at_once.wait(Duration::from_secs(60))] {
        queue.push_many((1..=250).map(|number| sized(10).id(format!("broken{number}"))), |_| {}).await.unwrap();
        let break_them = "for n = 1, 250 do redis.call('HSET', KEYS[1], 'broken' .. n, string.rep('x', 16700)) end";
        server.redis_cli(&["EVAL", break_them, "1", "duly:{orders}:jobs"]);
        queue.push_many((0..400).map(|_| sized(20_000).name("full")), |_| {}).await.unwrap();
        queue.push(sized(10)).await.unwrap();
        let (jobs, calls) = counted(&server, queue.reserve(&options)).await;
        assert_eq!(jobs.len(), 1);
        assert!(calls <= 6, "{calls} calls");
        jobs[0].ack().await.unwrap();
        assert_eq!(queue.purge(State::Failed).await.unwrap(), 250);
    }
}
