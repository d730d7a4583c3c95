//! `duly.Trace` and its parts: the life of a job.

use duly::Millis;
use pyo3::prelude::*;

use crate::inspect::JobView;

/// The life of a job.
///
/// Without a history (`Queue.keep_history`) the events are those that the stored job tells.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Trace {
    id: String,
    job: Option<Py<JobView>>,
    kept: bool,
    complete: bool,
    events: Vec<Py<TraceEvent>>,
    runs: Vec<Py<TraceRun>>,
}

/// One thing that happened to a job.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct TraceEvent {
    at: f64,
    what: &'static str,
    language: String,
    pid: u32,
    host: String,
    due: Option<f64>,
    token: Option<u64>,
    attempt: Option<u32>,
    took: Option<f64>,
    error: Option<String>,
    detail: Option<String>,
}

/// One run of a job, as its events tell it. Times are unix seconds by the server's clock.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct TraceRun {
    attempt: Option<u32>,
    token: Option<u64>,
    language: String,
    pid: u32,
    host: String,
    reserved_at: Option<f64>,
    started_at: Option<f64>,
    ended_at: Option<f64>,
    outcome: Option<&'static str>,
    error: Option<String>,
    error_class: Option<String>,
}

impl Trace {
    pub(crate) fn new(py: Python<'_>, trace: duly::Trace) -> PyResult<Self> {
        let runs = trace.runs().into_iter().map(|run| Py::new(py, TraceRun::new(run))).collect::<PyResult<_>>()?;
        let events =
            trace.events.into_iter().map(|event| Py::new(py, TraceEvent::new(event))).collect::<PyResult<_>>()?;
        let job = trace.job.map(|job| Py::new(py, JobView::new(job))).transpose()?;
        Ok(Self { id: trace.id, job, kept: trace.is_kept, complete: trace.is_complete, events, runs })
    }
}

impl TraceEvent {
    fn new(event: duly::TraceEvent) -> Self {
        Self {
            at: event.at.as_seconds(),
            what: event.what.as_str(),
            language: event.language,
            pid: event.pid,
            host: event.host,
            due: event.due.map(Millis::as_seconds),
            token: event.token,
            attempt: event.attempt,
            took: event.took.map(|took| took.as_secs_f64()),
            error: event.error,
            detail: event.detail,
        }
    }
}

impl TraceRun {
    fn new(run: duly::TraceRun) -> Self {
        Self {
            attempt: run.attempt,
            token: run.token,
            reserved_at: run.reserved_at.map(Millis::as_seconds),
            started_at: run.started_at.map(Millis::as_seconds),
            ended_at: run.ended_at.map(Millis::as_seconds),
            outcome: run.outcome.map(duly::Happening::as_str),
            error_class: run.error_class().map(str::to_owned),
            error: run.error,
            language: run.language,
            pid: run.pid,
            host: run.host,
        }
    }
}

#[pymethods]
impl Trace {
    fn __repr__(&self) -> String {
        let (events, runs) = (self.events.len(), self.runs.len());
        format!("<duly.Trace of {}: {events} events, {runs} runs>", self.id)
    }
}

#[pymethods]
impl TraceEvent {
    fn __repr__(&self) -> String {
        format!("<duly.TraceEvent {} at {:.3}>", self.what, self.at)
    }
}

#[pymethods]
impl TraceRun {
    fn __repr__(&self) -> String {
        let attempt = self.attempt.map_or_else(|| "?".to_owned(), |attempt| attempt.to_string());
        format!("<duly.TraceRun {attempt}: {}>", self.outcome.unwrap_or("goes on"))
    }
}
