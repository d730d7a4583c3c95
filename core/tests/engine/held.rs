//! A job whose holder knows no more of it than its id and its token.

use std::time::Duration;

use crate::support::Server;
use duly::{Client, ErrorKind, Job, NewJob, Next, Queue, ReserveOptions};

async fn reserve(queue: &Queue) -> Job {
    queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0)
}

fn both(client: &Client) -> [Queue; 2] {
    [client.queue("orders").unwrap(), client.partitioned_queue("clicks", 5).unwrap()]
}

#[tokio::test]
async fn another_process_settles_a_job_by_its_id_and_its_token() {
    let server = Server::start();
    for (queue, same) in both(&server.client()).iter().zip(both(&server.client())) {
        // A part is chosen by the key, and the id says another one.
        let job = NewJob::new(&42).unwrap().id("order-42").key("close:7").result_ttl(Duration::from_secs(60));
        queue.push(job).await.unwrap();
        let job = reserve(queue).await;
        let held = same.held(job.id(), job.token()).await.unwrap();
        assert_eq!(held.envelope, job.envelope);
        held.extend(Duration::from_secs(60)).await.unwrap();
        assert_eq!(held.fail("no").await.unwrap(), Next::RetryAfter { after: duly::Millis::from_secs(5), attempts: 1 });
        assert_eq!(same.held(job.id(), job.token()).await.unwrap_err().kind(), ErrorKind::LeaseLost, "it is delayed");

        queue.reschedule(job.id(), duly::When::Now).await.unwrap();
        let again = reserve(queue).await;
        assert_eq!(same.held(job.id(), job.token()).await.unwrap_err().kind(), ErrorKind::LeaseLost, "an old token");
        let held = same.held(again.id(), again.token()).await.unwrap();
        assert_eq!((held.attempt(), held.returns), (2, 1));
        held.ack_with(&"closed").await.unwrap();
        assert_eq!(queue.wait_result(job.id(), None).await.unwrap().as_str(), "\"closed\"");
        assert_eq!(queue.find_key("close:7").await.unwrap().map(|found| found.why), None, "the key is free");
        let error = same.held(job.id(), again.token()).await.unwrap_err();
        assert_eq!((error.kind(), error.job_id()), (ErrorKind::LeaseLost, Some("order-42")), "{error}");
        assert_eq!(same.held("", 1).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn a_lease_that_nobody_could_look_up_was_not_touched() {
    let server = Server::start();
    let client = server.builder().deadline(Duration::from_secs(1)).fail_fast(false).build().unwrap();
    for queue in both(&client) {
        queue.push(NewJob::new(&42).unwrap().id("order-42")).await.unwrap();
        let job = queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(3600))).await.unwrap().remove(0);
        server.signal("-STOP");
        let error = queue.held_for("ack", job.id(), job.token()).await.unwrap_err();
        server.signal("-CONT");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unreachable, Some("ack")), "{error}");
        assert!(error.to_string().contains("job 'order-42': the server did not answer in time"), "{error}");
        queue.held_for("ack", job.id(), job.token()).await.unwrap().ack().await.unwrap();
    }
}
