//! `duly.WorkerInfo` and `duly.RunningJob`: who works on a queue.

use duly::Millis;
use pyo3::prelude::*;

/// A worker that is alive. Times are unix seconds of its host's clock.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct WorkerInfo {
    id: String,
    host: String,
    pid: u32,
    language: String,
    version: String,
    name: Option<String>,
    queues: Vec<String>,
    concurrency: usize,
    started_at: f64,
    running: Vec<RunningJob>,
}

/// A job that a worker is running.
#[pyclass(frozen, get_all, module = "duly")]
#[derive(Clone)]
pub(crate) struct RunningJob {
    id: String,
    name: Option<String>,
    started_at: f64,
}

impl From<duly::WorkerInfo> for WorkerInfo {
    fn from(worker: duly::WorkerInfo) -> Self {
        Self {
            id: worker.id,
            host: worker.host,
            pid: worker.pid,
            language: worker.language,
            version: worker.version,
            name: worker.name,
            queues: worker.queues,
            concurrency: worker.concurrency,
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

#[pymethods]
impl WorkerInfo {
    fn __repr__(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
        let Self { host, pid, running, .. } = self;
        format!("<duly.WorkerInfo{name} on {host:?}, process {pid}, {} running>", running.len())
    }
}

#[pymethods]
impl RunningJob {
    fn __repr__(&self) -> String {
        format!("<duly.RunningJob {:?}>", self.id)
    }
}
