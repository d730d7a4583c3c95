//! Who works on a queue: `Duly\WorkerInfo` and `Duly\RunningJob`.

use duly::Millis;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;

use crate::record::record;

record! {
    /// A worker that is alive. Times are unix seconds of its host's clock.
    WorkerInfo = "Duly\\WorkerInfo" {
        /// Its own, made when it started.
        id: String,
        /// The host on which it runs.
        host: String,
        /// Its process there.
        pid: i64,
        /// `rust`, `python` or `php`.
        language: String,
        /// The version of duly.
        version: String,
        /// The name that it was given.
        name: Option<String>,
        /// All queues that it serves.
        queues: Vec<String>,
        /// How many handlers it runs at once.
        concurrency: i64,
        /// When it started.
        started_at: f64,
        /// What it runs of this queue, at most 20 jobs; as of its last report, up to 10 s ago.
        running: Vec<RunningJob>,
    }
}

record! {
    /// A job that a worker runs.
    RunningJob = "Duly\\RunningJob" {
        /// The job's id.
        id: String,
        /// Its handler's name.
        name: Option<String>,
        /// When this run began.
        started_at: f64,
    }
}

impl From<duly::WorkerInfo> for WorkerInfo {
    fn from(worker: duly::WorkerInfo) -> Self {
        Self {
            id: worker.id,
            host: worker.host,
            pid: worker.pid.into(),
            language: worker.language,
            version: worker.version,
            name: worker.name,
            queues: worker.queues,
            concurrency: i64::try_from(worker.concurrency).unwrap_or(i64::MAX),
            started_at: Millis::as_seconds(worker.started_at),
            running: worker.running.into_iter().map(RunningJob::from).collect(),
        }
    }
}

impl From<duly::RunningJob> for RunningJob {
    fn from(job: duly::RunningJob) -> Self {
        Self { id: job.id, name: job.name, started_at: Millis::as_seconds(job.started_at) }
    }
}
