//! What a failure hook may change of a job before it is stored: data, attempts, retries allowed, error.

#![allow(clippy::unwrap_used)] // a test

mod support;

use duly::{Job, Millis, NewJob, Next, Outcome, Queue, ReserveOptions, RetryPolicy};
use support::Server;

async fn reserved(queue: &Queue) -> Job {
    queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0)
}

#[tokio::test]
async fn the_attempts_that_a_hook_sets_count() {
    let server = Server::start();
    let queue = server.queue("orders");
    let at_once = RetryPolicy::Fixed { delay: Millis::ZERO };
    queue.push(NewJob::from_json("[1]").unwrap().retry(at_once).max_retries(3).key("k")).await.unwrap();
    reserved(&queue).await.fail("one").await.unwrap();
    reserved(&queue).await.fail("two").await.unwrap();

    let job = reserved(&queue).await;
    let mut changed = job.envelope.clone();
    assert_eq!(changed.attempts, 2);
    changed.attempts = 0;
    changed.max_attempts = 1;
    changed.error = "changed".to_owned();
    changed.data = duly::Data::from_json("[2]", 100).unwrap();
    let next = job.settle_rewritten(Outcome::FAILURE, changed).await.unwrap();
    assert!(matches!(next, Next::RetryAfter { attempts: 1, .. }));

    let job = reserved(&queue).await;
    let stored = &job.envelope;
    assert_eq!((stored.attempts, stored.max_attempts, stored.error.as_str()), (1, 1, "changed"));
    assert_eq!((stored.data.as_str(), stored.key.as_deref(), job.returns), ("[2]", Some("k"), 3));
    let next = job.fail("last").await.unwrap();
    assert_eq!(next, Next::Failed { attempts: 2 });
    assert_eq!(queue.peek(duly::State::Failed, 0, 1).await.unwrap()[0].envelope.attempts, 2);
}
