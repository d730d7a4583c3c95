//! A failed job runs again with other data.

use crate::support::Server;
use crate::support::verbs::assert_kind;
use duly::{Data, ErrorKind, NewJob, Queue, Requeued, ReserveOptions, State};

fn data(json: &str) -> Data {
    Data::from_json(json, usize::MAX).unwrap()
}

async fn failed(queue: &Queue, job: NewJob) -> String {
    let id = queue.push(job.max_retries(0)).await.unwrap().id().to_owned();
    let jobs = queue.reserve(&ReserveOptions::new().max(10)).await.unwrap();
    jobs.into_iter().find(|job| job.id() == id).unwrap().fail("no such order").await.unwrap();
    id
}

#[tokio::test]
async fn its_options_stay_and_its_failures_go() {
    let server = Server::start();
    for queue in [server.queue("orders"), server.client().partitioned_queue("clicks", 4).unwrap()] {
        let job = NewJob::new(&42).unwrap().name("close").key("k").priority(2).header("h", "1");
        let id = failed(&queue, job).await;
        assert_eq!(queue.requeue_with(&id, data("{ \"order\": 1.0 }")).await.unwrap(), Requeued::Ready);
        let job = queue.reserve(&ReserveOptions::new()).await.unwrap().pop().unwrap();
        let envelope = &job.envelope;
        assert_eq!((job.id(), envelope.data.as_str(), job.attempt()), (&*id, "{ \"order\": 1.0 }", 1));
        assert_eq!(
            (envelope.name.as_deref(), envelope.key.as_deref(), envelope.priority),
            (Some("close"), Some("k"), 2)
        );
        assert_eq!((envelope.headers["h"].as_str(), &*envelope.error), ("1", ""));
        assert_eq!(queue.requeue_with(&id, data("1")).await.unwrap(), Requeued::Absent, "it runs");
    }
}

#[tokio::test]
async fn what_cannot_be_stays_as_it_is() {
    let server = Server::start();
    let queue = server.queue("orders");
    let id = failed(&queue, NewJob::new(&42).unwrap().key("k")).await;
    queue.push(NewJob::new(&1).unwrap().id("other").key("k")).await.unwrap();
    let other = || Requeued::Duplicate { id: "other".to_owned() };
    assert_eq!(queue.requeue_with(&id, data("1")).await.unwrap(), other());
    assert_eq!(queue.requeue_with("none", data("1")).await.unwrap(), Requeued::Absent);
    assert_kind(&queue.requeue_with("a\nb", data("1")).await.unwrap_err(), ErrorKind::InvalidArgument);
    let large = data(&format!("\"{}\"", "x".repeat(duly::DEFAULT_MAX_DATA_BYTES)));
    assert_kind(&queue.requeue_with(&id, large).await.unwrap_err(), ErrorKind::TooLarge);
    server.redis_cli(&["HSET", "duly:{orders}:jobs", &id, "{"]);
    let error = queue.requeue_with(&id, data("1")).await.unwrap_err();
    assert_kind(&error, ErrorKind::Corrupt);
    assert_eq!(queue.peek(State::Failed, 0, 10).await.unwrap().len(), 1);
}
