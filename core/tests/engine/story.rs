//! The main job, end to end: what is pushed comes out when it is due, and leaves when it is done.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::Server;
use duly::{ErrorKind, Millis, NewJob, Next, OnDuplicate, Pushed, ReserveOptions, State};
use serde_json::json;

fn close(order: u32) -> NewJob {
    NewJob::new(&json!({ "order_id": order })).unwrap().name("order.close")
}

#[tokio::test]
async fn a_pushed_job_is_reserved_and_acked() {
    let server = Server::start();
    let queue = server.queue("orders");
    let pushed = queue.push(close(42)).await.unwrap();
    let jobs = queue.reserve(&ReserveOptions::new()).await.unwrap();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].id(), pushed.id());
    assert_eq!(jobs[0].envelope.data.as_str(), r#"{"order_id":42}"#);
    assert_eq!(jobs[0].envelope.name.as_deref(), Some("order.close"));
    jobs[0].ack().await.unwrap();
    assert_eq!(jobs[0].ack().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.reserved, counts.delayed, counts.failed), (0, 0, 0, 0));
}

#[tokio::test]
async fn a_delayed_job_waits_until_it_is_due() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(close(42).delay(Duration::from_millis(300)).key("close:42")).await.unwrap();
    assert!(queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty());
    let found = queue.find_key("close:42").await.unwrap().unwrap();
    assert_eq!(found.job.state, State::Delayed);
    let jobs = queue.reserve(&ReserveOptions::new().wait(Duration::from_secs(5))).await.unwrap();
    assert_eq!(jobs.len(), 1);
    jobs[0].ack().await.unwrap();
    assert!(queue.find_key("close:42").await.unwrap().is_none());
}

#[tokio::test]
async fn a_key_is_refused_kept_or_replaced() {
    let server = Server::start();
    let queue = server.queue("orders");
    let first = queue.push(close(1).key("k")).await.unwrap();
    let refused = queue.push(close(2).key("k")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.job_id()), (ErrorKind::Duplicate, Some(first.id())));
    let kept = queue.push(close(2).key("k").on_duplicate(OnDuplicate::Keep)).await.unwrap();
    assert_eq!(kept, Pushed::Kept { id: first.id().to_owned() });
    let replaced = queue.push(close(3).key("k").on_duplicate(OnDuplicate::Replace)).await.unwrap();
    assert!(matches!(&replaced, Pushed::Replaced { replaced, .. } if replaced == first.id()));
    let jobs = queue.reserve(&ReserveOptions::new().max(10)).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.envelope.data.as_str()).collect::<Vec<_>>(), [r#"{"order_id":3}"#]);
}

#[tokio::test]
async fn a_failing_job_is_retried_and_ends_in_failed() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(close(1).max_retries(1).retry(duly::RetryPolicy::Fixed { delay: duly::Millis::ZERO })).await.unwrap();
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    assert!(matches!(job.fail("no").await.unwrap(), Next::RetryAfter { attempts: 1, .. }));
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    assert_eq!((job.attempt(), job.envelope.error.as_str()), (2, "no"));
    assert!(matches!(job.fail("still no").await.unwrap(), Next::Failed { attempts: 2 }));
    let failed = queue.peek(State::Failed, 0, 10).await.unwrap();
    assert_eq!(failed[0].envelope.error, "still no");
    assert_eq!(queue.requeue_all().await.unwrap(), 1);
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    assert_eq!(job.attempt(), 1);
}

#[tokio::test]
async fn priorities_go_first_and_cancelled_ones_are_skipped() {
    let server = Server::start();
    let queue = server.queue("orders");
    let mut ids = Vec::new();
    for (order, priority) in [(1, 5), (2, 9), (3, 0), (4, 5)] {
        ids.push(queue.push(close(order).priority(priority)).await.unwrap().id().to_owned());
    }
    assert_eq!(queue.cancel(&ids[0]).await.unwrap().unwrap().was, State::Ready);
    assert_eq!(queue.counts().await.unwrap().ready, 3);
    // Another client, which does not know yet that three levels are in use.
    let queue = server.queue("orders");
    let jobs = queue.reserve(&ReserveOptions::new().max(10)).await.unwrap();
    let order: Vec<_> = jobs.iter().map(|job| job.id().to_owned()).collect();
    assert_eq!(order, [ids[2].clone(), ids[3].clone(), ids[1].clone()]);
    assert!(queue.ack_all(&jobs).await.unwrap().into_iter().all(|settled| settled));
}

#[tokio::test]
async fn a_lease_that_ends_gives_the_job_to_another() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(close(1)).await.unwrap();
    let lost = queue.reserve(&ReserveOptions::new().lease(Duration::from_millis(50))).await.unwrap().remove(0);
    let job = queue.reserve(&ReserveOptions::new().wait(Duration::from_secs(5))).await.unwrap().remove(0);
    assert_eq!(job.attempt(), 2);
    assert!(job.token() > lost.token());
    assert_eq!(lost.ack().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    job.ack().await.unwrap();
}

#[tokio::test]
async fn a_job_reserved_for_a_task_that_is_gone_is_given_back_uncounted() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(close(1)).await.unwrap();
    queue.push(close(2)).await.unwrap();
    let reserve = || {
        let queue = queue.clone();
        tokio::spawn(async move { queue.reserve(&ReserveOptions::new()).await })
    };
    // The second gathers while the first is on its way, and is gone when its job comes.
    let (first, second) = (reserve(), reserve());
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    second.abort();
    let taken = first.await.unwrap().unwrap();
    assert_eq!(taken.len(), 1);
    let job = queue.reserve(&ReserveOptions::new().wait(Duration::from_secs(5))).await.unwrap().remove(0);
    assert_eq!(job.attempt(), 1, "no lease had to end");
}

#[tokio::test]
async fn the_age_of_a_ready_job_begins_when_it_is_due() {
    let server = Server::start();
    let queue = server.builder().manual_clock().build().unwrap().queue("orders").unwrap();
    let pushed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    queue.set_clock(Millis::from_secs(pushed)).await.unwrap();
    let delayed = |seconds| close(42).delay(Duration::from_secs(seconds));
    queue.push_many([delayed(3600), delayed(3601)], |_| ()).await.unwrap();
    queue.set_clock(Millis::from_secs(pushed + 3700)).await.unwrap();
    assert_eq!(queue.reserve(&ReserveOptions::new()).await.unwrap().len(), 1, "and the other one is ready");
    let age = queue.counts().await.unwrap().oldest_ready_age.unwrap();
    assert!((90..=99).contains(&age.whole_seconds()), "{age}");
}
