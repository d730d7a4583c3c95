//! What a failure hook may change of a job before it is stored: data, attempts, retries allowed, error.

use crate::support::Server;
use duly::worker::{Failure, Middleware, Worker};
use duly::{Envelope, ErrorKind, Job, Millis, NewJob, Next, Outcome, Queue, ReserveOptions, RetryPolicy, Settlement};

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

#[tokio::test]
async fn data_that_a_hook_made_too_large_is_refused_and_the_lease_is_still_held() {
    let server = Server::start();
    let queue = server.builder().max_data_bytes(10).build().unwrap().queue("orders").unwrap();
    queue.push(NewJob::from_json("[1]").unwrap().max_retries(0)).await.unwrap();
    let job = reserved(&queue).await;
    let mut changed = job.envelope.clone();
    changed.data = duly::Data::from_json("\"too much of it\"", 100).unwrap();
    let before = server.dump("");

    let error = job.settle_rewritten(Outcome::FAILURE, changed.clone()).await.unwrap_err();
    assert_eq!((error.kind(), error.operation(), error.job_id()), (ErrorKind::TooLarge, Some("fail"), Some(job.id())));
    let settlement =
        Settlement { job: &job, outcome: Outcome::FAILURE, error: "", rewritten: Some(changed.clone()), result: None };
    assert_eq!(queue.settle_all(&[settlement]).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(server.dump(""), before);

    // What was pushed larger elsewhere may stay: only what the hook writes is measured.
    let elsewhere = server.queue("orders");
    elsewhere.push(NewJob::from_json("\"pushed elsewhere\"").unwrap().max_retries(0)).await.unwrap();
    let large = reserved(&queue).await;
    let mut changed = large.envelope.clone();
    changed.attempts = 7;
    assert_eq!(large.settle_rewritten(Outcome::FAILURE, changed).await.unwrap(), Next::Failed { attempts: 8 });
    job.ack().await.unwrap();
}

/// Makes of each job what cannot be stored.
struct Refused;

impl Middleware for Refused {
    fn on_failure(&self, _: &Job, _: &mut Failure, changed: &mut Envelope) {
        changed.priority = 200;
    }
}

#[tokio::test]
async fn a_change_that_is_refused_takes_nothing_from_what_the_handler_has_said() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::from_json("[1]").unwrap().name("ends").max_retries(5)).await.unwrap();
    let worker = Worker::builder(server.client())
        .queue("orders", 1)
        .max_jobs(1)
        .middleware(Refused)
        .handler("ends", |_: duly::worker::Job<serde_json::Value>, _| async {
            Err::<(), _>(Failure::fail_now("no order"))
        });
    worker.build().unwrap().run_until(std::future::pending()).await.unwrap();
    let failed = &queue.peek(duly::State::Failed, 0, 1).await.unwrap()[0].envelope;
    assert_eq!((failed.error.as_str(), failed.attempts, failed.priority), ("no order", 1, 5));
}
