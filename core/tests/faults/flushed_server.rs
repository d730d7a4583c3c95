//! Somebody empties the server (FLUSHALL) under workers that wait and workers that hold jobs. The jobs are gone and nobody
//! can bring them back; what must not happen is that a worker hangs, or that a holder believes its job was finished.

use std::time::Duration;

use crate::support::verbs::{assert_kind, new_job};
use crate::support::{Server, eventually};
use duly::{Client, ErrorKind, Job, Queue, ReserveOptions};

async fn one(queue: &Queue, wait: Duration) -> Job {
    queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(60)).wait(wait)).await.unwrap().remove(0)
}

/// Workers of `orders` that wait, each a client of its own: one is the timekeeper, the other not.
async fn two_that_wait(server: &Server) -> Vec<tokio::task::JoinHandle<Job>> {
    let mut waiting = Vec::new();
    for count in 1..=2 {
        let queue = server.queue("orders");
        waiting.push(tokio::spawn(async move { one(&queue, Duration::from_secs(20)).await }));
        eventually("it waits", || async {
            server.redis_cli(&["INFO", "clients"]).contains(&format!("blocked_clients:{count}"))
        })
        .await;
    }
    waiting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_jobs_hear_that_the_lease_is_lost() {
    let server = Server::start();
    let queue = server.queue("orders");
    for id in ["acked", "extended", "failed", "released"] {
        queue.push(new_job(id)).await.unwrap();
    }
    let jobs = queue.reserve(&ReserveOptions::new().max(4).lease(Duration::from_secs(60))).await.unwrap();
    server.redis_cli(&["FLUSHALL"]);
    // The same ids again, under new leases: the old holders must not finish these.
    for job in &jobs {
        queue.push(new_job(job.id())).await.unwrap();
    }
    let again = queue.reserve(&ReserveOptions::new().max(4).lease(Duration::from_secs(60))).await.unwrap();
    for round in 0..2 {
        assert_kind(&jobs[0].ack().await.unwrap_err(), ErrorKind::LeaseLost);
        assert_kind(&jobs[1].extend(Duration::from_secs(9)).await.unwrap_err(), ErrorKind::LeaseLost);
        assert_kind(&jobs[2].fail("no").await.unwrap_err(), ErrorKind::LeaseLost);
        assert_kind(&jobs[3].release(Duration::ZERO).await.unwrap_err(), ErrorKind::LeaseLost);
        if round == 0 {
            assert_eq!(queue.counts().await.unwrap().reserved, 4);
            for job in &again {
                job.ack().await.unwrap();
            }
        }
    }
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.reserved, counts.delayed, counts.failed), (0, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_wait_go_on() {
    let server = Server::start();
    let pusher: Client = server.client();
    let orders = pusher.queue("orders").unwrap();
    // Another level and a due time far away, so that clients and timekeeper know things that are then forgotten.
    orders.push(new_job("far").priority(2).delay(Duration::from_secs(3600))).await.unwrap();
    let waiting = two_that_wait(&server).await;
    server.redis_cli(&["FLUSHALL"]);
    orders.push(new_job("soon").delay(Duration::from_millis(150))).await.unwrap();
    orders.push(new_job("now").priority(7)).await.unwrap();
    let mut done = Vec::new();
    for worker in waiting {
        let job = tokio::time::timeout(Duration::from_secs(60), worker).await.expect("nobody hangs").unwrap();
        done.push(job.id().to_owned());
        job.ack().await.unwrap();
    }
    done.sort();
    assert_eq!(done, ["now", "soon"]);
    let counts = orders.counts().await.unwrap();
    assert_eq!((counts.ready, counts.reserved, counts.delayed), (0, 0, 0));
}
