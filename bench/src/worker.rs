//! A worker of no-op jobs, which on SIGTERM prints what it saw: `duly-bench worker <url> <queue> <concurrency>`.
//!
//! `bench/worker.py` and `bench/worker.php` are the same in the other languages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duly::Client;
use duly::worker::{Engine, Failure as HandlerFailure, Job, Worker, WorkerSettings};
use serde_json::json;

use crate::figure::Figure;
use crate::server::{Failure, Server};
use crate::{RUNS, floor};

/// What a producer of these benchmarks pushes.
#[derive(serde::Deserialize)]
struct Data {
    /// When the job was pushed, or is due: nanoseconds of the monotonic clock.
    t: u64,
}

/// How often an idle worker reports that it is there.
const A_BEAT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Seen {
    first_ns: u64,
    last_ns: u64,
    late_us: Vec<f64>,
}

pub(crate) async fn run(url: &str, queue: &str, concurrency: usize) -> Result<(), Failure> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let of_handler = Arc::clone(&seen);
    let worker = Worker::builder(Client::builder().url(url).build()?)
        .queue(queue, 1)
        .concurrency(concurrency)
        .any_handler(move |job: Job<Data>, _| {
            let now = now_ns();
            let mut seen = of_handler.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.first_ns == 0 {
                seen.first_ns = now;
            }
            seen.last_ns = now;
            #[allow(clippy::cast_precision_loss)] // far below 2^53
            seen.late_us.push((now as f64 - job.data.t as f64) / 1e3);
            drop(seen);
            async { Ok::<(), HandlerFailure>(()) }
        })
        .build()?;
    let report = worker.run().await?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let line = json!({
        "n": seen.late_us.len(), "acked": report.acked, "first_ns": seen.first_ns, "last_ns": seen.last_ns,
        "cpu_us": cpu_us(), "late_us": seen.late_us,
    });
    println!("{line}");
    Ok(())
}

/// A worker with a short lease whose jobs never end: `duly-bench hold <url> <queue> <jobs>`. To be killed.
pub(crate) async fn hold(url: &str, queue: &str, jobs: usize) -> Result<(), Failure> {
    let worker = Worker::builder(Client::builder().url(url).build()?)
        .queue(queue, 1)
        .concurrency(jobs)
        .lease(Duration::from_secs(1))
        .any_handler(|_: Job<Data>, _| std::future::pending::<Result<(), HandlerFailure>>());
    worker.run().await?;
    Ok(())
}

/// So many idle workers, each with connections of its own: `duly-bench idle <url> <queue> <workers>`. To be killed.
pub(crate) fn idle(url: &str, queue: &str, workers: usize) -> Result<(), Failure> {
    let client = Client::builder().url(url).build()?;
    let settings = WorkerSettings::new(vec![(queue.to_owned(), 1)]);
    let mut engines = Vec::with_capacity(workers);
    for _ in 0..workers {
        engines.push(Engine::start(&client, settings.clone())?);
        // Or all would tell of themselves at once, every ten seconds.
        std::thread::sleep(A_BEAT / u32::try_from(workers)?);
    }
    println!("{} workers wait", engines.len());
    loop {
        std::thread::park();
    }
}

/// The script that a worker cannot beat: `duly-bench combined <url>`.
pub(crate) async fn floor(server: &mut Server) -> Result<(), Failure> {
    let mut rate = Figure::default();
    for run in 0..=RUNS {
        server.flush()?;
        let jobs_per_s = floor::combined(server.url(), 100_000).await?;
        if run > 0 {
            rate.add(jobs_per_s);
        }
    }
    rate.print("worker.floor_rate", "jobs/s");
    server.flush()
}

/// The monotonic clock, which all processes of a machine share.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock writes into `time`, which lives until the call returns.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// CPU time of this process so far.
fn cpu_us() -> u64 {
    // SAFETY: all zeros is a valid value of this struct of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes into `usage`, which lives until it returns.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let micros = |time: libc::timeval| u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0);
    micros(usage.ru_utime) + micros(usage.ru_stime)
}
