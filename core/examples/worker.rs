//! Sends letters: a worker in Rust, made of the queue's verbs alone, to show what a worker does.
//!
//! `cargo run --example worker` with a server on `DULY_URL`; the demo (`make demo`) runs it beside workers in Python and PHP.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly::{Client, Job, ReserveOptions};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

const LEASE: Duration = Duration::from_millis(1500);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::builder().build()?; // DULY_URL says where
    let letters = client.queue("letters")?;
    let mut stop = signal(SignalKind::terminate())?;
    tell("ready", json!({}));
    // A short lease, so that another worker takes over soon if this one dies.
    let options = ReserveOptions::new().wait(Duration::from_secs(60)).lease(LEASE);
    loop {
        let jobs = tokio::select! {
            jobs = letters.reserve(&options) => jobs?,
            _ = stop.recv() => return Ok(()), // a job that was just being leased comes back when its lease ends
        };
        for job in jobs {
            match with_lease_kept(&job, send_letter(&job)).await {
                Ok(()) => job.ack().await?,
                // The job's retry policy decides: again after a while, or to failed.
                Err(error) => drop(job.fail(&error.to_string()).await?),
            }
        }
    }
}

/// Extends the lease for as long as the handler runs.
async fn with_lease_kept<T>(
    job: &Job,
    handler: impl Future<Output = Result<T, Box<dyn Error>>>,
) -> Result<T, Box<dyn Error>> {
    let mut handler = std::pin::pin!(handler);
    let mut every = tokio::time::interval(LEASE / 3);
    loop {
        tokio::select! {
            outcome = &mut handler => return outcome,
            // An error means that the lease is lost: another worker has the job, so this one stops.
            _ = every.tick() => job.extend(LEASE).await?,
        }
    }
}

async fn send_letter(job: &Job) -> Result<(), Box<dyn Error>> {
    let data: Value = serde_json::from_str(job.envelope.data.as_str())?;
    let about = format!("letter {}", data["letter"]);
    let line = json!({ "job": job.id(), "attempt": job.attempt(), "token": job.token(), "about": about });
    tell("started", line.clone());
    tokio::time::sleep(Duration::from_millis(1)).await; // a quick mail server
    tell("done", line);
    Ok(())
}

/// Tells the demo's director; `demo/run.py` reads these lines.
fn tell(what: &str, mut line: Value) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    line["what"] = what.into();
    line["at"] = now.as_secs_f64().into();
    println!("@ {line}");
}
