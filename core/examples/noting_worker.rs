//! A worker that notes on the server when each run starts and ends, for the tests that kill workers at random; see its
//! sibling `python-tests/noting/worker.py`.

use std::time::{Duration, SystemTime};

use duly::worker::{Failure, Job, Worker};
use duly::{Client, NewJob, Queue};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    r#do: String,
    seconds: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), duly::Error> {
    let notes_url = std::env::var("NOTING_URL").unwrap_or_default();
    let notes = Client::builder().url(&notes_url).build()?.queue("notes")?;
    let lease = std::env::var("NOTING_LEASE").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(1.0);
    let work_builder = Client::builder(); // DULY_URL says where
    let is_manual = std::env::var_os("NOTING_MANUAL_CLOCK").is_some();
    let work_builder = if is_manual { work_builder.manual_clock() } else { work_builder };
    Worker::builder(work_builder.build()?)
        .queue("orders", 1)
        .concurrency(4)
        .lease(Duration::from_secs_f64(lease))
        .handler("work", move |job: Job<Order>, _| work(notes.clone(), job))
        .on_event(|event| eprintln!("{event}"))
        .run() // until SIGTERM
        .await?;
    Ok(())
}

async fn work(notes: Queue, job: Job<Order>) -> Result<(), Failure> {
    note(&notes, "start", &job).await?;
    tokio::time::sleep(Duration::from_secs_f64(job.data.seconds)).await;
    note(&notes, "end", &job).await?;
    match job.data.r#do.as_str() {
        "fail once" if job.attempt() == 1 => Err("once".into()),
        "fail" => Err("always".into()),
        "kill" => std::process::abort(),
        _ => Ok(()),
    }
}

async fn note(notes: &Queue, what: &str, job: &Job<Order>) -> Result<(), duly::Error> {
    let at_us = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros();
    let note = format!("{what} {} {} {} {at_us}", job.id(), job.token(), std::process::id());
    notes.push(NewJob::new(&note)?).await?;
    Ok(())
}
