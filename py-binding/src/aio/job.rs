//! `duly.aio.Job`.

use std::time::Duration;

use duly::{Next, Outcome};
use pyo3::prelude::*;

use super::future::start;
use crate::convert;
use crate::job::{Held, ReservedJob, error_text, failure, release, wait_of};

/// A reserved job of an asyncio queue. One verb settles it: ack, fail or release.
#[pyclass(frozen, extends = ReservedJob, module = "duly._core")]
pub(crate) struct AsyncJob {}

impl AsyncJob {
    pub(super) fn new(py: Python<'_>, job: duly::Job, queue: Py<PyAny>) -> PyResult<Py<Self>> {
        let reserved = ReservedJob::new(Held::Async(job), queue);
        Py::new(py, PyClassInitializer::from(reserved).add_subclass(Self {}))
    }
}

/// The job is this process's own or its parent's: the token counts, not the connection that reserved it.
fn settle<'py>(
    slf: &Bound<'py, AsyncJob>,
    outcome: Outcome,
    error: String,
    finish: impl FnOnce(Python<'_>, Next) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    let reserved = slf.as_super().clone().unbind();
    let job = slf.as_super().get().job().clone();
    start(slf.py(), async move { job.settle(outcome, &error).await }, move |py, next| {
        reserved.get().note_settled();
        finish(py, next)
    })
}

#[pymethods]
impl AsyncJob {
    /// Done: the job leaves the queue.
    fn ack<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        settle(slf, Outcome::Done, String::new(), |py, _| Ok(py.None()))
    }

    /// Failed: the wait in seconds until it runs again, or None when it is in failed now.
    #[pyo3(signature = (error, *, retry_after=None, counted=true, r#final=false))]
    fn fail<'py>(
        slf: &Bound<'py, Self>,
        error: &Bound<'py, PyAny>,
        retry_after: Option<&Bound<'py, PyAny>>,
        counted: bool,
        r#final: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let failed = failure(retry_after, counted, r#final)?;
        settle(slf, failed, error_text(error)?, |py, next| Ok(wait_of(next).into_pyobject(py)?.unbind()))
    }

    /// Gives it back without counting a failure.
    #[pyo3(signature = (after=None))]
    fn release<'py>(slf: &Bound<'py, Self>, after: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        settle(slf, release(after)?, String::new(), |py, _| Ok(py.None()))
    }

    /// Sets the lease to end this long from now.
    fn extend<'py>(slf: &Bound<'py, Self>, lease: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let lease: Duration = convert::duration("lease", lease)?;
        let job = slf.as_super().get().job().clone();
        start(slf.py(), async move { job.extend(lease).await }, |py, ()| Ok(py.None()))
    }
}
