//! Producers and workers behind a slow line: what takes its time is no outage, and no job runs twice for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::slow_line::{Line, SlowLine};
use crate::support::{self, Server};
use duly::worker::{Failure, Job, Worker, WorkerReport};
use duly::{Client, DEFAULT_LEASE, ErrorKind, NewJob, Queue, ReserveOptions, State};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const A_WHILE: Duration = Duration::from_secs(60);

/// How often each job ran, and with which attempt the last time.
type Runs = HashMap<String, (u32, u32)>;

/// Workers of one queue.
struct Workers {
    queue: Queue,
    lease: Duration,
    /// How many bytes the result of each job has, if it is kept.
    result: usize,
    runs: Arc<Mutex<Runs>>,
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<Result<WorkerReport, duly::Error>>>,
}

impl Workers {
    fn of(queue: &Queue) -> Self {
        let (runs, stop) = (Arc::default(), watch::Sender::new(false));
        Self { queue: queue.clone(), lease: DEFAULT_LEASE, result: 0, runs, stop, running: Vec::new() }
    }

    fn start(&mut self, client: Client, concurrency: usize) {
        let (seen, result, mut stopped) = (Arc::clone(&self.runs), self.result, self.stop.subscribe());
        let worker = Worker::builder(client)
            .queue(self.queue.name(), 1)
            .concurrency(concurrency)
            .lease(self.lease)
            .handler("large", move |job: Job<String>, _| {
                let seen = Arc::clone(&seen);
                async move {
                    let mut seen = seen.lock().unwrap();
                    let run = seen.entry(job.id().to_owned()).or_default();
                    *run = (run.0 + 1, job.attempt());
                    Ok::<_, Failure>("r".repeat(result))
                }
            });
        self.running.push(tokio::spawn(worker.run_until(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        })));
    }

    /// Until so many jobs have run.
    async fn have_run(&self, jobs: usize) {
        support::eventually_within(A_WHILE, "the jobs have run", || async { self.runs.lock().unwrap().len() >= jobs })
            .await;
    }

    /// Until all jobs are done.
    async fn end(self) -> Runs {
        support::eventually_within(A_WHILE, "all jobs are done", || async {
            let counts = self.queue.counts().await.unwrap();
            counts.ready + counts.delayed + counts.reserved == 0
        })
        .await;
        self.stop.send_replace(true);
        for worker in self.running {
            worker.await.unwrap().unwrap();
        }
        let failed = self.queue.peek(State::Failed, 0, 100).await.unwrap();
        let failed: Vec<_> = failed.iter().map(|view| &*view.envelope.error).collect();
        assert_eq!(failed, [""; 0]);
        Arc::try_unwrap(self.runs).unwrap().into_inner().unwrap()
    }
}

/// Workers behind a line of their own each until all jobs are done.
async fn work(server: &Server, line: Line, workers: usize, concurrency: usize, queue: &Queue) -> Runs {
    let mut all = Workers::of(queue);
    for _ in 0..workers {
        all.start(SlowLine::before(server.port(), line).builder().build().unwrap(), concurrency);
    }
    all.end().await
}

/// One worker behind this line, with leases of this length.
async fn work_behind(line: &SlowLine, concurrency: usize, lease: Duration, queue: &Queue) -> Runs {
    let mut one = Workers { lease, ..Workers::of(queue) };
    one.start(line.builder().build().unwrap(), concurrency);
    one.end().await
}

/// A worker behind a slow line has run these jobs, and another one waits near the server for what it loses while it sends their
/// results.
async fn send_results(line: Line, jobs: usize, bytes: usize, lease: Duration) {
    let server = Server::start();
    let queue = server.queue("orders");
    let job = NewJob::new("x").unwrap().name("large").max_retries(0).result_ttl(A_WHILE);
    queue.push_many(std::iter::repeat_n(job, jobs), |_| ()).await.unwrap();
    let line = SlowLine::before(server.port(), line);
    let mut workers = Workers { lease, result: bytes, ..Workers::of(&queue) };
    workers.start(line.builder().build().unwrap(), jobs);
    workers.have_run(jobs).await;
    workers.start(server.client(), 1);
    assert_each_ran_once(&workers.end().await, jobs);
}

async fn push(queue: &Queue, jobs: usize, bytes: usize) {
    let job = NewJob::new(&"x".repeat(bytes)).unwrap().name("large");
    queue.push_many(std::iter::repeat_n(job, jobs), |_| ()).await.unwrap();
}

fn assert_each_ran_once(runs: &Runs, jobs: usize) {
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
    assert_each_ran_once(&work_behind(&line, 1, Duration::from_secs(2), &queue).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_once_over_a_line_that_cuts_off_each_large_reply() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 20, 10_000).await;
    let line = SlowLine::that_breaks(server.port(), Line::TEN_MEGABIT, 60_000);
    assert_each_ran_once(&work_behind(&line, 20, Duration::from_secs(1), &queue).await, 20);
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
    send_results(Line::MOBILE, 20, 60_000, Duration::from_secs(4)).await;
}

/// Each result takes longer than a call may be silent, and than a lease.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_whose_results_take_longer_than_a_lease_to_send_run_once() {
    send_results(Line::MODEM, 2, 200_000, Duration::from_secs(3)).await;
}

/// What never gets through holds up nobody else: its job is settled without it, and who waits for it hears why.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_cut_off_each_time_is_given_up() {
    let server = Server::start();
    let queue = server.queue("orders");
    let line = SlowLine::that_takes(server.port(), Line::TEN_MEGABIT, 300_000);
    let mut workers = Workers { result: 500_000, ..Workers::of(&queue) };
    workers.start(line.builder().build().unwrap(), 1);
    let job = NewJob::new("x").unwrap().name("large").max_retries(0).result_ttl(A_WHILE);
    let ids = [queue.push(job.clone()).await.unwrap(), queue.push(job).await.unwrap()];
    for id in ids {
        let error = queue.wait_result(id.id(), Some(A_WHILE)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoResult, "{error}");
        assert!(error.to_string().contains("could not be sent"), "{error}");
    }
    assert_each_ran_once(&workers.end().await, 2);
}

/// A worker behind a slow line is stopped when it has run these jobs, and ends when their results have arrived.
async fn stop_before_results_are_sent(jobs: usize, bytes: usize) {
    let server = Server::start();
    let queue = server.queue("orders");
    let job = NewJob::new("x").unwrap().name("large").max_retries(0).result_ttl(A_WHILE);
    queue.push_many(std::iter::repeat_n(job, jobs), |_| ()).await.unwrap();
    let line = SlowLine::before(server.port(), Line::MODEM);
    let mut workers = Workers { result: bytes, ..Workers::of(&queue) };
    workers.start(line.builder().build().unwrap(), jobs);
    workers.have_run(jobs).await;
    workers.stop.send_replace(true);
    let report = workers.running.pop().unwrap().await.unwrap().unwrap();
    assert_eq!((report.acked, queue.counts().await.unwrap().reserved), (jobs as u64, 0));
}

/// The second connection, over which its lease is renewed meanwhile, does not come to be at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_result_is_slow_to_send_runs_once_though_another_connection_is_refused() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new("x").unwrap().name("large").max_retries(0).result_ttl(A_WHILE)).await.unwrap();
    let line = SlowLine::before(server.port(), Line::MODEM);
    let mut workers = Workers { lease: Duration::from_secs(3), result: 200_000, ..Workers::of(&queue) };
    workers.start(line.builder().build().unwrap(), 1);
    workers.have_run(1).await;
    line.refuse_one();
    workers.start(server.client(), 1);
    assert_each_ran_once(&workers.end().await, 1);
    assert!(line.has_refused());
}

/// The second connection is closed when no renewal is held up any more, also if there is nothing to renew.
#[tokio::test(flavor = "multi_thread")]
async fn the_other_connection_of_a_worker_that_has_nothing_left_to_renew_is_closed() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new("x").unwrap().name("large").result_ttl(A_WHILE)).await.unwrap();
    let line = SlowLine::before(server.port(), Line::MODEM);
    let mut workers = Workers { lease: Duration::from_secs(3), result: 120_000, ..Workers::of(&queue) };
    workers.start(line.builder().build().unwrap(), 1);
    let calling = || server.redis_cli(&["client", "list"]).lines().filter(|line| line.contains("cmd=eval")).count();
    support::eventually("its lease is renewed over a second connection", async || calling() > 2).await;
    support::eventually_within(Duration::from_secs(20), "it is closed", async || {
        queue.counts().await.unwrap().reserved == 0 && calling() == 2
    })
    .await;
    workers.end().await;
}

/// It takes longer to send than a worker that stops waits for a server that does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_a_result_that_is_on_its_way() {
    stop_before_results_are_sent(1, 120_000).await;
}

/// Each goes in a call of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_the_last_of_several_results() {
    stop_before_results_are_sent(4, 60_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_is_too_large_for_its_line_says_so() {
    let server = Server::start();
    let line = SlowLine::before(server.port(), Line::MODEM);
    let client = line.builder().deadline(Duration::from_secs(4)).build().unwrap();
    let push = client.queue("orders").unwrap().push(NewJob::new(&"x".repeat(400_000)).unwrap()).await;
    let error = push.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("to a call of 400 KB: if the line is slow, set a longer deadline"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_push_over_a_very_slow_line_is_sent_once() {
    let server = Server::start();
    let line = SlowLine::before(server.port(), Line::MODEM);
    let client = line.builder().command_timeout(Duration::from_secs(2)).deadline(A_WHILE).build().unwrap();
    let queue = client.queue("orders").unwrap();
    push(&queue, 1, 200_000).await;
    assert_eq!(server.queue("orders").counts().await.unwrap().ready, 1);
    // With its name, and with its text, as the server does not know the script yet.
    assert!(line.sent() < 500_000, "{} bytes", line.sent());
}

/// Each answer to a renewal comes when a lease of the usual length would be over.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_leases_are_shorter_than_a_round_trip_runs_its_jobs() {
    for max_retries in [0, 20] {
        let server = Server::start();
        let queue = server.queue("orders");
        let job = NewJob::new("x").unwrap().name("large").max_retries(max_retries);
        queue.push_many(std::iter::repeat_n(job, 20), |_| ()).await.unwrap();
        let line = Line { bytes_per_s: 12_500_000, latency: Duration::from_millis(400) };
        let line = SlowLine::before(server.port(), line);
        let runs = work_behind(&line, 4, Duration::from_millis(500), &queue).await;
        assert_eq!(runs.len(), 20);
        assert!(max_retries > 0 || runs.values().all(|run| run.0 == 1), "{runs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_start_while_a_worker_behind_a_slow_line_hears_of_large_ones_that_failed() {
    const FAILED: u64 = 40;
    let server = Server::start();
    let queue = server.queue("orders");
    let large = NewJob::new(&"x".repeat(100_000)).unwrap().name("gone").max_retries(0);
    queue.push_many(std::iter::repeat_n(large, 40), |_| ()).await.unwrap();
    while queue.counts().await.unwrap().failed < FAILED {
        for job in queue.reserve(&ReserveOptions::new().max(40)).await.unwrap() {
            job.fail("nobody hears of it").await.unwrap();
        }
    }
    let line = SlowLine::before(server.port(), Line { bytes_per_s: 500_000, latency: Duration::from_millis(5) });
    let mut workers = Workers::of(&queue);
    workers.start(line.builder().build().unwrap(), 1);
    support::eventually("it begins to hear of them", || async { line.received() > 100_000 }).await;
    push(&queue, 1, 10).await;
    workers.have_run(1).await;
    assert!(line.received() < 1_000_000, "it started behind {} bytes of what had failed", line.received());
    workers.stop.send_replace(true);
    for worker in workers.running {
        worker.await.unwrap().unwrap();
    }
}
