//! Producers and workers behind a slow line: what takes its time is no outage, and no job runs twice for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::slow_line::{Line, SlowLine};
use crate::support::{self, Server};
use duly::worker::{Failure, Job, Worker};
use duly::{DEFAULT_LEASE, NewJob, Queue};
use tokio::sync::watch;

const A_WHILE: Duration = Duration::from_secs(60);

/// How often each job ran, and with which attempt the last time.
type Runs = Arc<Mutex<HashMap<String, (u32, u32)>>>;

/// Workers behind a line of their own each until all jobs are done.
async fn work(
    server: &Server,
    line: Line,
    workers: usize,
    concurrency: usize,
    queue: &Queue,
) -> HashMap<String, (u32, u32)> {
    let lines = (0..workers).map(|_| SlowLine::before(server.port(), line)).collect();
    work_behind(lines, concurrency, DEFAULT_LEASE, queue).await
}

async fn work_behind(
    lines: Vec<SlowLine>,
    concurrency: usize,
    lease: Duration,
    queue: &Queue,
) -> HashMap<String, (u32, u32)> {
    let (runs, stop) = (Runs::default(), watch::Sender::new(false));
    let mut running = Vec::new();
    for line in lines {
        let (seen, mut stopped) = (Arc::clone(&runs), stop.subscribe());
        let worker = Worker::builder(line.builder().build().unwrap())
            .queue(queue.name(), 1)
            .concurrency(concurrency)
            .lease(lease)
            .handler("large", move |job: Job<String>, _| {
                let seen = Arc::clone(&seen);
                async move {
                    let mut seen = seen.lock().unwrap();
                    let run = seen.entry(job.id().to_owned()).or_default();
                    *run = (run.0 + 1, job.attempt());
                    Ok::<(), Failure>(())
                }
            });
        running.push(tokio::spawn(worker.run_until(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        })));
    }
    support::eventually_within(A_WHILE, "all jobs are done", || async {
        let counts = queue.counts().await.unwrap();
        counts.ready + counts.delayed + counts.reserved == 0
    })
    .await;
    stop.send_replace(true);
    for worker in running {
        worker.await.unwrap().unwrap();
    }
    assert_eq!(queue.counts().await.unwrap().failed, 0);
    Arc::try_unwrap(runs).unwrap().into_inner().unwrap()
}

async fn push(queue: &Queue, jobs: usize, bytes: usize) {
    let job = NewJob::new(&"x".repeat(bytes)).unwrap().name("large");
    queue.push_many(std::iter::repeat_n(job, jobs), |_| ()).await.unwrap();
}

fn assert_each_ran_once(runs: &HashMap<String, (u32, u32)>, jobs: usize) {
    assert_eq!(runs.len(), jobs);
    assert!(runs.values().all(|run| *run == (1, 1)), "(runs, attempt) of each: {runs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_jobs_run_once_over_ten_megabit() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 20, 200_000).await;
    assert_each_ran_once(&work(&server, Line::TEN_MEGABIT, 1, 20, &queue).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_behind_slow_lines_share_large_jobs() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 20, 200_000).await;
    assert_each_ran_once(&work(&server, Line::TEN_MEGABIT, 2, 20, &queue).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_reply_takes_longer_than_any_call_may_be_silent_runs_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 1, 900_000).await;
    assert_each_ran_once(&work(&server, Line::MOBILE, 1, 4, &queue).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_takes_longer_than_a_lease_to_arrive_runs_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 2, 500_000).await;
    let line = SlowLine::before(server.port(), Line::MOBILE);
    assert_each_ran_once(&work_behind(vec![line], 1, Duration::from_secs(2), &queue).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_once_over_a_line_that_cuts_off_each_large_reply() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 20, 10_000).await;
    let line = SlowLine::that_breaks(server.port(), Line::TEN_MEGABIT, 60_000);
    assert_each_ran_once(&work_behind(vec![line], 20, Duration::from_secs(1), &queue).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_jobs_run_once_over_a_far_line() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 500, 100).await;
    assert_each_ran_once(&work(&server, Line::FAR, 2, 10, &queue).await, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_push_over_a_slow_line_is_no_silence() {
    let server = Server::start();
    let line = SlowLine::before(server.port(), Line::MOBILE);
    let client = line.builder().command_timeout(Duration::from_secs(2)).deadline(A_WHILE).build().unwrap();
    let queue = client.queue("orders").unwrap();
    push(&queue, 1, 900_000).await;
    assert_eq!(server.queue("orders").counts().await.unwrap().ready, 1);
}

/// The lease of a job that has ended is kept until the server has its outcome, however long that takes: else the other worker
/// would find jobs that a dead worker had started.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_whose_large_results_are_slow_to_send_run_once() {
    const JOBS: usize = 20;
    let server = Server::start();
    let queue = server.queue("orders");
    let job = NewJob::new("x").unwrap().name("large").max_retries(0).result_ttl(A_WHILE);
    queue.push_many(std::iter::repeat_n(job, JOBS), |_| ()).await.unwrap();
    let (runs, stop) = (Arc::new(Mutex::new(Vec::new())), watch::Sender::new(false));
    let line = SlowLine::before(server.port(), Line::MOBILE);
    let mut workers = Vec::new();
    for (client, concurrency) in [(line.builder().build().unwrap(), JOBS), (server.client(), 1)] {
        let (seen, mut stopped) = (Arc::clone(&runs), stop.subscribe());
        let worker = Worker::builder(client)
            .queue(queue.name(), 1)
            .concurrency(concurrency)
            .lease(Duration::from_secs(4))
            .handler("large", move |job: Job<String>, _| {
                seen.lock().unwrap().push(job.id().to_owned());
                async move { Ok::<_, Failure>("r".repeat(60_000)) }
            });
        workers.push(tokio::spawn(worker.run_until(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        })));
        // The far one takes them all, and the near one waits for what it loses.
        support::eventually_within(A_WHILE, "the far worker has run them", || async {
            runs.lock().unwrap().len() >= JOBS
        })
        .await;
    }
    support::eventually_within(A_WHILE, "all jobs are done", || async {
        let counts = queue.counts().await.unwrap();
        counts.ready + counts.delayed + counts.reserved == 0
    })
    .await;
    stop.send_replace(true);
    for worker in workers {
        worker.await.unwrap().unwrap();
    }
    let failed = queue.peek(duly::State::Failed, 0, JOBS).await.unwrap();
    let failed: Vec<_> = failed.iter().map(|view| &*view.envelope.error).collect();
    assert_eq!(failed, [""; 0]);
    assert_eq!(runs.lock().unwrap().len(), JOBS, "runs");
}
