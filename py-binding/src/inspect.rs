//! `duly.Counts`, `duly.JobView` and `duly.Found`: what looking at a queue gives.

use duly::{Envelope, Millis};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMappingProxy};

use crate::convert;
use crate::job;

/// How many jobs are in each state, and what comes next. Times are in seconds.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Counts {
    delayed: u64,
    ready: u64,
    reserved: u64,
    failed: u64,
    paused: bool,
    oldest_ready_age: Option<f64>,
    next_due_in: Option<f64>,
    overdue: Option<f64>,
    next_lease_end_in: Option<f64>,
    totals: Py<PyDict>,
    held: Option<String>,
}

impl Counts {
    pub(crate) fn new(py: Python<'_>, counts: duly::Counts) -> PyResult<Self> {
        let totals = PyDict::new(py);
        for (name, total) in counts.totals {
            totals.set_item(name, total)?;
        }
        Ok(Self {
            delayed: counts.delayed,
            ready: counts.ready,
            reserved: counts.reserved,
            failed: counts.failed,
            paused: counts.paused,
            oldest_ready_age: counts.oldest_ready_age.map(Millis::as_seconds),
            next_due_in: counts.next_due_in.map(Millis::as_seconds),
            overdue: counts.overdue.map(Millis::as_seconds),
            next_lease_end_in: counts.next_lease_end_in.map(Millis::as_seconds),
            totals: totals.unbind(),
            held: counts.held,
        })
    }
}

#[pymethods]
impl Counts {
    fn __repr__(&self) -> String {
        let Self { delayed, ready, reserved, failed, .. } = self;
        let paused = if self.paused { ", paused" } else { "" };
        format!("<duly.Counts: {delayed} delayed, {ready} ready, {reserved} reserved, {failed} failed{paused}>")
    }
}

/// A job as `peek` shows it.
#[pyclass(frozen, subclass, module = "duly")]
pub(crate) struct JobView {
    view: duly::JobView,
}

impl JobView {
    pub(crate) fn new(view: duly::JobView) -> Self {
        Self { view }
    }

    fn envelope(&self) -> &Envelope {
        &self.view.envelope
    }
}

#[pymethods]
impl JobView {
    #[getter]
    fn id(&self) -> &str {
        &self.envelope().id
    }

    /// The data that was pushed, decoded.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.envelope().data)
    }

    /// The data that was pushed, byte for byte.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.envelope().data.as_bytes())
    }

    /// The complete JSON package, as an export or an older consumer reads it; the stored bytes if undecodable.
    #[getter]
    fn package<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.view.package())
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.envelope().name.as_deref()
    }

    #[getter]
    fn key(&self) -> Option<&str> {
        self.envelope().key.as_deref()
    }

    #[getter]
    fn priority(&self) -> u8 {
        self.envelope().priority
    }

    /// How often it has failed so far.
    #[getter]
    fn attempts(&self) -> u32 {
        self.envelope().attempts
    }

    #[getter]
    fn max_retries(&self) -> u32 {
        self.envelope().max_attempts
    }

    /// The text of the last failure; empty if there was none.
    #[getter]
    fn error(&self) -> &str {
        &self.envelope().error
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        job::headers(py, self.envelope())
    }

    /// The fields of its package that duly does not know, decoded: another program or queue has written them.
    #[getter]
    fn extra<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMappingProxy>> {
        job::extra(py, self.envelope())
    }

    /// The longest run, in seconds; None if there is no limit.
    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.envelope().timeout.map(Millis::as_seconds)
    }

    /// When it is dropped unless a run of it has started, in unix seconds; None if never.
    #[getter]
    fn expires(&self) -> Option<f64> {
        self.envelope().expires.map(Millis::as_seconds)
    }

    /// For how many seconds its result is kept; None if it is not kept.
    #[getter]
    fn result_ttl(&self) -> Option<f64> {
        self.envelope().result_ttl.map(Millis::as_seconds)
    }

    /// When it was pushed, in unix seconds by the clock of the host that pushed it.
    #[getter]
    fn pushed_at(&self) -> u64 {
        self.envelope().time
    }

    #[getter]
    fn state(&self) -> &'static str {
        self.view.state.as_str()
    }

    /// Due time, end of the lease or time of failure, in unix seconds by the server's clock; None if ready.
    #[getter]
    fn at(&self) -> Option<f64> {
        self.view.at.map(Millis::as_seconds)
    }

    /// How often the job came back after a worker had started it: failed, released, or its lease ended.
    #[getter]
    fn returns(&self) -> u32 {
        self.view.returns
    }

    /// How far its run has come, if it is reserved and its handler has reported that.
    #[getter]
    fn progress(&self) -> Option<Progress> {
        self.view.progress.clone().map(Progress::from)
    }

    /// Why the record could not be decoded; None if it could. The data of such a job is None.
    #[getter]
    fn undecodable(&self) -> Option<&str> {
        self.view.undecodable.as_deref()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let class = slf.get_type().name()?.to_string();
        Ok(format!("<duly.{class} {:?}, {}>", slf.get().id(), slf.get().state()))
    }
}

/// How far a run has come.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Progress {
    fraction: f64,
    text: String,
    at: f64,
}

impl From<duly::Progress> for Progress {
    fn from(progress: duly::Progress) -> Self {
        Self { fraction: progress.fraction, text: progress.text, at: progress.at.as_seconds() }
    }
}

#[pymethods]
impl Progress {
    fn __repr__(&self) -> String {
        format!("<duly.Progress {:?} {:?}>", self.fraction, self.text)
    }
}

/// Where one job is and why it is not running.
#[pyclass(frozen, extends = JobView, module = "duly")]
pub(crate) struct Found {
    #[pyo3(get)]
    token: Option<u64>,
    #[pyo3(get)]
    now: f64,
    #[pyo3(get)]
    why: String,
}

impl Found {
    pub(crate) fn new(py: Python<'_>, found: duly::Found) -> PyResult<Py<Self>> {
        let extra = Self { token: found.token, now: found.now.as_seconds(), why: found.why };
        Py::new(py, PyClassInitializer::from(JobView::new(found.job)).add_subclass(extra))
    }
}
