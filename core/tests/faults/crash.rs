//! Workers that die, freeze, or are killed by the very job they run. The worker is this test program, started again.

use std::time::Duration;

use crate::support::process::Process;
use crate::support::slow_line::{Line, SlowLine, over_each_line};
use crate::support::verbs::new_job;
use crate::support::{self, Server};
use duly::{Client, ErrorKind, Job, ReserveOptions, State};
use tokio::task::block_in_place;

/// What a started worker does; its lines on standard output tell the test how far it is.
#[tokio::test]
async fn worker_process() {
    let Ok(role) = std::env::var("DULY_TEST_WORKER") else { return };
    let queue =
        Client::builder().url(&std::env::var("DULY_TEST_URL").unwrap()).build().unwrap().queue("orders").unwrap();
    let options = ReserveOptions::new().max(5).lease(Duration::from_millis(300)).wait(Duration::from_secs(10));
    let jobs = queue.reserve(&options).await.unwrap();
    // A line of its own: the test harness may have left one unfinished.
    println!("\nreserved {}", jobs.len());
    match role.as_str() {
        "holds" => std::future::pending().await,
        "dies of it" => std::process::abort(),
        "comes too late" => {
            // Frozen and thawed by the test, which then writes a line.
            std::io::stdin().read_line(&mut String::new()).unwrap();
            let acked = jobs[0].ack().await;
            let extended = jobs[0].extend(Duration::from_secs(9)).await;
            let failed = jobs[0].fail("late").await;
            let released = jobs[0].release(Duration::ZERO).await;
            let kinds = [acked.err(), extended.err(), failed.err(), released.err()];
            let lost =
                kinds.iter().filter(|error| error.as_ref().is_some_and(|error| error.kind() == ErrorKind::LeaseLost));
            println!("\nlost {}", lost.count());
        }
        _ => unreachable!("{role}"),
    }
}

/// A worker in this role, which has reserved so many jobs. It finds its server behind a line, if there is one.
fn worker_with(jobs: usize, role: &str, server: &Server, line: Option<Line>) -> Process {
    let url = line.map_or_else(|| server.url(), |line| SlowLine::before(server.port(), line).url());
    let mut worker = Process::start_at(&url, "crash::worker_process", role);
    assert_eq!(block_in_place(|| worker.heard("reserved")), jobs);
    worker
}

async fn reserve_all(server: &Server, count: usize) -> Vec<Job> {
    let queue = server.queue("orders");
    let mut jobs = Vec::new();
    while jobs.len() < count {
        let more = queue.reserve(&ReserveOptions::new().max(10).wait(Duration::from_secs(10))).await.unwrap();
        assert!(!more.is_empty(), "only {} of {count} jobs came back", jobs.len());
        jobs.extend(more);
    }
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_killed_worker_all_run_again_with_one_failure_more() {
    a_worker_is_killed(None).await;
    over_each_line(|line| a_worker_is_killed(Some(line))).await;
}

async fn a_worker_is_killed(line: Option<Line>) {
    let server = Server::start();
    let queue = server.queue("orders");
    for n in 0..5 {
        queue.push(new_job(&n.to_string())).await.unwrap();
    }
    let mut worker = worker_with(5, "holds", &server, line);
    worker.child.kill().unwrap();
    let jobs = reserve_all(&server, 5).await;
    let mut ids: Vec<_> = jobs.iter().map(Job::id).collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4"], "in their old order");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    for job in &jobs {
        assert_eq!((job.attempt(), job.envelope.attempts), (2, 1));
        assert!(job.envelope.error.contains("lease ended"), "{}", job.envelope.error);
        job.ack().await.unwrap();
    }
    assert!(queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_worker_that_wakes_up_after_its_lease_is_refused_everything() {
    a_worker_is_frozen(None).await;
    over_each_line(|line| a_worker_is_frozen(Some(line))).await;
}

async fn a_worker_is_frozen(line: Option<Line>) {
    let server = Server::start();
    server.queue("orders").push(new_job("a")).await.unwrap();
    let mut worker = worker_with(1, "comes too late", &server, line);
    support::signal(worker.child.id(), "-STOP");
    let mine = reserve_all(&server, 1).await.remove(0);
    support::signal(worker.child.id(), "-CONT");
    drop(worker.child.stdin.take()); // end of file is a line too
    assert_eq!(block_in_place(|| worker.heard("lost")), 4);
    mine.ack().await.unwrap();
    assert_eq!(server.queue("orders").counts().await.unwrap().reserved, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_workers_ends_in_failed_after_its_retries() {
    a_job_kills_its_workers(None).await;
    over_each_line(|line| a_job_kills_its_workers(Some(line))).await;
}

async fn a_job_kills_its_workers(line: Option<Line>) {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("poison").max_retries(2)).await.unwrap();
    for _ in 0..3 {
        let mut worker = worker_with(1, "dies of it", &server, line);
        block_in_place(|| worker.child.wait()).unwrap();
    }
    queue.push(new_job("next")).await.unwrap();
    support::eventually("it is given up", || async {
        queue.reclaim().await.unwrap();
        queue.counts().await.unwrap().failed == 1
    })
    .await;
    let failed = queue.peek(State::Failed, 0, 10).await.unwrap();
    assert_eq!((failed[0].envelope.id.as_str(), failed[0].envelope.attempts), ("poison", 3));
    assert_eq!(reserve_all(&server, 1).await[0].id(), "next");
}
