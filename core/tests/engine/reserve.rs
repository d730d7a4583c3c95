//! How much one reserve gives.

use std::time::Duration;

use crate::support::Server;
use duly::{NewJob, Queue, ReserveOptions};

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
