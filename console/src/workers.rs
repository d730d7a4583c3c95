//! `duly workers`.

use clap::Args;
use duly::{Error, WorkerInfo};

use crate::show::{Shown, moment, or_dash};
use crate::target::One;
use crate::{DONE, Output};

/// Show the workers of a queue that are alive, and what they run
#[derive(Debug, Args)]
pub(crate) struct Workers {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    shown: Shown,
}

impl Workers {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let workers = self.one.open(&output).await?.workers().await?;
        if self.shown.json {
            output.json(&workers)?;
            return Ok(DONE);
        }
        if workers.is_empty() {
            output.line(&format!("no worker serves {}", self.one.queue));
            return Ok(DONE);
        }
        let row = |worker: &WorkerInfo| {
            let running: Vec<_> = worker.running.iter().map(|job| job.id.as_str()).collect();
            vec![
                worker.host.clone(),
                worker.pid.to_string(),
                or_dash(worker.name.clone()),
                format!("{} {}", worker.language, worker.version),
                worker.concurrency.to_string(),
                moment(worker.started_at),
                worker.queues.join(","),
                or_dash(Some(running.join(" "))),
            ]
        };
        let rows = workers.iter().map(row).collect();
        let headings = ["HOST", " PID", "NAME", "VERSION", " CONCURRENCY", "STARTED (UTC)", "QUEUES", "RUNS"];
        output.table(&headings, rows);
        Ok(DONE)
    }
}
