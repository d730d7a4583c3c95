//! Packages of older queues, and duly's own exports, are pushed with all that they say.

use crate::support::Server;
use duly::{AuditOptions, Envelope, Millis, NewJob, Next, ReserveOptions, RetryPolicy, State};

const PACKAGE: &[u8] = br#"{"id":"1690000000.5.1","time":1690000000,"delay":15,"attempts":2,"max_attempts":3,"data":{"order": 42},"error":"no answer","queue":"close"}"#;

#[tokio::test]
async fn failures_go_on_counting_where_the_package_left_off() {
    let server = Server::start();
    let queue = server.queue("orders");
    let no_wait = RetryPolicy::Fixed { delay: Millis::ZERO };
    queue.push(NewJob::from_package(PACKAGE).unwrap().retry(no_wait)).await.unwrap();
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    assert_eq!((job.id(), job.attempt(), job.envelope.error.as_str()), ("1690000000.5.1", 3, "no answer"));
    assert_eq!((job.envelope.time, job.envelope.data.as_str()), (1_690_000_000, r#"{"order": 42}"#));
    assert_eq!((job.envelope.unknown[0].name.as_str(), job.envelope.delay.as_f64()), ("queue", 15.0));
    assert_eq!(job.fail("still no").await.unwrap(), Next::RetryAfter { after: Millis::ZERO, attempts: 3 });
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    assert_eq!((job.attempt(), job.fail("never").await.unwrap()), (4, Next::Failed { attempts: 4 }));
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
    assert_eq!(queue.requeue_all().await.unwrap(), 1);
    assert_eq!(queue.reserve(&ReserveOptions::new()).await.unwrap()[0].attempt(), 1);
}

#[tokio::test]
async fn an_export_is_imported_as_it_was() {
    let server = Server::start();
    let (from, to) = (server.queue("from"), server.queue("to"));
    from.push(NewJob::new(&[1, 2]).unwrap().name("n").key("k").priority(2).max_retries(0).header("a", "b"))
        .await
        .unwrap();
    from.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("no").await.unwrap();
    let failed = from.peek(State::Failed, 0, 1).await.unwrap().remove(0).envelope;
    let package = failed.encode_complete();
    to.push(NewJob::from_package(&package).unwrap()).await.unwrap();
    assert_eq!(to.find_key("k").await.unwrap().unwrap().job.envelope, failed);
    assert_eq!(Envelope::decode(&package).unwrap(), failed);
}

#[tokio::test]
async fn a_package_of_a_job_that_is_not_due_yet_is_delayed() {
    let server = Server::start();
    let queue = server.queue("orders");
    let package = br#"{"id":"1","time":4000000000,"delay":100.5,"attempts":0,"data":1}"#;
    queue.push(NewJob::from_package(package).unwrap()).await.unwrap();
    let found = queue.find("1").await.unwrap().unwrap().job;
    assert_eq!((found.state, found.at), (State::Delayed, Some(Millis::new(4_000_000_100_500))));
    assert!(NewJob::from_package(b"{}").is_err());
}
