//! The lease of one reserved job, renewed beside its holder.

use std::time::Duration;

use crate::support::{self, Server};
use duly::blocking::{Client, Uninterrupted};
use duly::{ErrorKind, NewJob, ReserveOptions};

const LEASE: Duration = Duration::from_millis(300);
const A_WHILE: Duration = Duration::from_secs(60);

fn options() -> ReserveOptions {
    ReserveOptions::new().lease(LEASE).wait(A_WHILE)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ours_until_the_renewal_is_dropped_or_its_timeout_is_over() {
    let server = Server::start();
    let queue = server.queue("orders");
    for timeout in [None, Some(LEASE * 4)] {
        let job = NewJob::new(&1).unwrap();
        queue.push(timeout.into_iter().fold(job, NewJob::timeout)).await.unwrap();
        let job = queue.reserve(&options()).await.unwrap().remove(0);
        let mut renewal = Some(job.renew(LEASE).unwrap());
        let began = std::time::Instant::now();
        tokio::time::sleep(LEASE * 3).await;
        assert!(queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty());
        renewal.take_if(|_| timeout.is_none());
        let again = queue.reserve(&options()).await.unwrap().remove(0);
        assert!(again.token() > job.token() && began.elapsed() >= LEASE * 3);
        assert_eq!(job.ack().await.unwrap_err().kind(), ErrorKind::LeaseLost);
        again.ack().await.unwrap();
    }
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    let job = queue.reserve(&options()).await.unwrap().remove(0);
    assert_eq!(job.renew(Duration::ZERO).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Nobody drives the runtime of blocking calls between two of them.
#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_while_the_holder_makes_no_call() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    let url = server.url();
    let held = tokio::task::spawn_blocking(move || {
        let client = Client::connect(&url).unwrap();
        let job = client.queue("orders").unwrap().reserve(&options(), &mut Uninterrupted).unwrap().remove(0);
        let _renewal = job.renew(LEASE).unwrap();
        std::thread::sleep(LEASE * 4);
        job.ack(&mut Uninterrupted).unwrap();
    });
    support::eventually("it is reserved", || async { queue.counts().await.unwrap().reserved == 1 }).await;
    held.await.unwrap();
    assert_eq!(queue.counts().await.unwrap().reserved, 0);
}
