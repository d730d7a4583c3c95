//! Jobs that are given back together.

use crate::support::Server;
use duly::{NewJob, Outcome, ReserveOptions, Settlement};

#[tokio::test]
async fn a_verb_that_was_refused_does_not_outweigh_one_that_was_taken() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::from_json("1").unwrap()).await.unwrap();
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    // Acks are taken first.
    let release = Settlement { outcome: Outcome::GIVEN_BACK, ..Settlement::done(&job) };
    assert_eq!(queue.settle_all(&[release, Settlement::done(&job)]).await.unwrap(), [false, true]);
    assert!(job.is_acked());
    job.ack().await.unwrap_err();
    assert!(job.is_acked(), "and a second ack changes nothing");
}

#[tokio::test]
async fn they_keep_the_order_in_which_they_were_reserved() {
    let server = Server::start();
    let queue = server.queue("orders");
    for data in ["1", "2", "3", "4"] {
        queue.push(NewJob::from_json(data).unwrap()).await.unwrap();
    }
    let jobs = queue.reserve(&ReserveOptions::new().max(3)).await.unwrap();
    let release = Outcome::GIVEN_BACK;
    let back: Vec<_> = jobs.iter().map(|job| Settlement { outcome: release, ..Settlement::done(job) }).collect();
    assert!(jobs.iter().all(|job| !job.is_settled()));
    assert_eq!(queue.settle_all(&back).await.unwrap(), [true; 3]);
    assert!(jobs.iter().all(|job| job.is_settled() && !job.is_acked()));
    let again = queue.reserve(&ReserveOptions::new().max(4)).await.unwrap();
    let order: Vec<_> = again.iter().map(|job| job.envelope.data.as_str()).collect();
    assert_eq!(order, ["1", "2", "3", "4"]);
}
