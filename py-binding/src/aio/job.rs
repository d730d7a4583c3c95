//! `duly.aio.Job`.

use std::sync::Arc;
use std::time::Duration;

use duly::{Envelope, Next, Outcome};
use pyo3::prelude::*;

use super::future::{ready, start, start_lock};
use crate::convert::{self, Counted, Final, Name, Text, Words};
use crate::error::OrRaise as _;
use crate::job::{
    Inner, ReservedJob, error_text, extension, failure, fraction_of, given, release, result_of, rewritten, unchanged,
    wait_of,
};
use crate::lock::{AsyncLock, lock_options, release_for};

/// The asyncio version of `Job`.
#[pyclass(frozen, extends = ReservedJob, module = "duly._core")]
pub(crate) struct AsyncJob {}

impl AsyncJob {
    pub(super) fn new(py: Python<'_>, job: duly::Job, queue: Py<PyAny>) -> PyResult<Py<Self>> {
        let reserved = ReservedJob::new(Inner::Async(Arc::new(job)), queue);
        Self::of(py, reserved)
    }

    /// With a lease that is renewed.
    pub(super) fn renewed(py: Python<'_>, job: duly::Job, lease: Duration, queue: Py<PyAny>) -> PyResult<Py<Self>> {
        let renewal = job.renew(lease).or_raise()?;
        Self::of(py, ReservedJob::renewed(Inner::Async(Arc::new(job)), queue, Some(renewal)))
    }

    pub(crate) fn of(py: Python<'_>, reserved: ReservedJob) -> PyResult<Py<Self>> {
        Py::new(py, PyClassInitializer::from(reserved).add_subclass(Self {}))
    }
}

/// The job is this process's own or its parent's: the token counts, not the connection that reserved it.
fn settle<'py>(
    slf: &Bound<'py, AsyncJob>,
    outcome: Outcome,
    error: String,
    rewritten: Option<Envelope>,
    finish: impl FnOnce(Python<'_>, Next) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(delivery) = slf.as_super().get().delivery() {
        return ready(slf.py(), delivery.settle(outcome, &error, rewritten), finish);
    }
    let job = slf.as_super().get().job().clone();
    let settle = async move {
        match rewritten {
            Some(mut changed) => {
                changed.error = error;
                job.settle_rewritten(outcome, changed).await
            }
            None => job.settle(outcome, &error).await,
        }
    };
    start(slf.py(), settle, finish)
}

#[pymethods]
impl AsyncJob {
    /// Mark the job as done: it leaves the queue. The result is kept if the producer asked for it (`result_ttl`).
    #[pyo3(signature = (result=None))]
    fn ack<'py>(slf: &Bound<'py, Self>, result: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let job = slf.as_super().get().job().clone();
        let result = result_of(&job, result)?;
        if let Some(delivery) = slf.as_super().get().delivery() {
            return ready(slf.py(), delivery.ack(result), |py, ()| Ok(py.None()));
        }
        start(slf.py(), async move { job.ack_with_data(result).await }, |py, ()| Ok(py.None()))
    }

    /// Mark the run as failed; return the seconds until the retry, or None if the job is in `failed` now.
    ///
    /// Args:
    ///     error: the text or the exception that is kept with the job, at most 8 KiB.
    ///     retry_after: the wait before the retry, in seconds or as a timedelta, 0 to 100 years. Default: the job's
    ///         policy decides.
    ///     counted: whether this failure counts as an attempt. Default: True.
    ///     final: move the job to `failed` now, whatever retries are left. Default: False.
    ///     data: new data of the job; None is data too. Default: unchanged.
    ///     attempts: the number of failures before this one, 0 to 4,294,967,295. Default: unchanged.
    ///     max_retries: how many retries the job may have, 0 to 4,294,967,295. Default: unchanged.
    #[pyo3(signature = (
        error, *, retry_after=None, counted=true, r#final=false, data=unchanged(), attempts=None, max_retries=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn fail<'py>(
        slf: &Bound<'py, Self>,
        error: &Bound<'py, PyAny>,
        retry_after: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = convert::is_set::<Counted>)] counted: bool,
        #[pyo3(from_py_with = convert::is_set::<Final>)] r#final: bool,
        #[pyo3(from_py_with = given)] data: Option<Bound<'py, PyAny>>,
        attempts: Option<&Bound<'py, PyAny>>,
        max_retries: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (failed, error) = (failure(retry_after, counted, r#final)?, error_text(error)?);
        let changed = rewritten(slf.as_super().get(), data, attempts, max_retries)?;
        settle(slf, failed, error, changed, |py, next| Ok(wait_of(next).into_pyobject(py)?.unbind()))
    }

    /// Give the job back without counting a failure.
    ///
    /// Args:
    ///     after: how long until it may run again, in seconds or as a timedelta, 0 to 100 years. Default: 0, at once.
    ///     reason: a text that is kept with the job as its last error, at most 8 KiB. Default: that stays.
    #[pyo3(signature = (after=None, *, reason=None), text_signature = "($self, after=None, *, reason='')")]
    fn release<'py>(
        slf: &Bound<'py, Self>,
        after: Option<&Bound<'py, PyAny>>,
        reason: Option<Text<Words>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reason = reason.map(Text::into_string).unwrap_or_default();
        settle(slf, release(after)?, reason, None, |py, _| Ok(py.None()))
    }

    /// Take a lock for this run, as `Client.lock` does, and return it; also for `async with`.
    ///
    /// If another one holds it when the wait is over, this raises `duly.Release`. `Lock.waited` of a later run then
    /// says for how long the job has met the lock taken.
    ///
    /// Args:
    ///     name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
    ///     retry_after: the wait before the next run, in seconds or as a timedelta, 0 to 100 years.
    ///     ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
    ///     wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.
    #[pyo3(signature = (name, *, retry_after, ttl=None, wait=None))]
    fn lock<'py>(
        slf: &Bound<'py, Self>,
        name: Text<Name>,
        retry_after: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
        wait: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (name, options) = (name.into_string(), lock_options(ttl, wait)?);
        convert::span("retry_after", retry_after)?;
        let (job, after) = (slf.as_super().get().job().clone(), retry_after.clone().unbind());
        start_lock(slf.py(), async move { job.lock(&name, &options).await }, move |py, lock| match lock {
            Ok(lock) => Ok(AsyncLock::new(lock)),
            Err(taken) => Err(release_for(after.bind(py), &taken)?),
        })
    }

    /// Report how far the run has come, from 0 to 1, with a text of at most 1 KiB, for `find` and `peek`.
    #[pyo3(signature = (fraction, text=None), text_signature = "($self, fraction, text='')")]
    fn progress<'py>(
        slf: &Bound<'py, Self>,
        fraction: &Bound<'py, PyAny>,
        text: Option<Text<Words>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (fraction, text) = (fraction_of(fraction)?, text.map(Text::into_string).unwrap_or_default());
        let job = slf.as_super().get().job().clone();
        start(slf.py(), async move { job.progress(fraction, &text).await }, |py, ()| Ok(py.None()))
    }

    /// Set the lease to end this long from now, 0.001 s to 24 h (default 10 s).
    #[pyo3(signature = (lease=None))]
    fn extend<'py>(slf: &Bound<'py, Self>, lease: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let lease = extension(lease)?;
        let job = slf.as_super().get().job().clone();
        start(slf.py(), async move { job.extend(lease).await }, |py, ()| Ok(py.None()))
    }
}
