//! Sends letters: a worker process in Rust. `make demo` runs it beside workers in Python and PHP.
//!
//! `DULY_URL=embedded: cargo run --example worker` waits for jobs of the queue `letters`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly::Client;
use duly::worker::{Context, Job, Worker};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), duly::Error> {
    let worker = Worker::builder(Client::builder().build()?) // DULY_URL says where
        .queue("letters", 1)
        .concurrency(10)
        // A short lease: if this process dies, another takes its jobs over that soon. It is renewed while a handler runs.
        .lease(Duration::from_millis(1500))
        .handler("letter.send", send_letter)
        .build()?;
    tell("ready", json!({}));
    worker.run().await?; // until SIGTERM or Ctrl-C
    Ok(())
}

/// `Ok` acks the job; `Err` and a panic are failures, and the job's retry policy decides.
async fn send_letter(job: Job<Value>, _: Context) -> Result<(), String> {
    let about = format!("letter {}", job.data["letter"]);
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
