//! `duly.aio.Job`.

#[path = "../job/methods.rs"]
#[expect(clippy::duplicate_mod, reason = "both classes have the same methods, and a class of PyO3 has no parameter")]
mod methods;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use duly::{Data, Envelope, Error, LockOptions, LockTaken, Next, Outcome};
use pyo3::prelude::*;

use self::AsyncJob as Job; // for the methods
use super::future::{ready, start, start_lock};
use crate::error::OrRaise as _;
use crate::job::{Inner, ReservedJob};
use crate::lock::{AsyncLock, release_for};

/// Of a job, also for an `async def` handler.
pub(crate) fn start_lock_of(
    retry_after: &Bound<'_, PyAny>,
    lock: impl Future<Output = Result<Result<duly::Lock, LockTaken>, Error>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let after = retry_after.clone().unbind();
    let call = start_lock(retry_after.py(), lock, move |py, lock| match lock {
        Ok(lock) => Ok(AsyncLock::new(lock)),
        Err(taken) => Err(release_for(after.bind(py), &taken)?),
    });
    call.map(Bound::unbind)
}

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

    fn done(slf: &Bound<'_, Self>, result: Option<Data>) -> PyResult<Py<PyAny>> {
        let job = slf.as_super().get().job().clone();
        let done = match slf.as_super().get().delivery() {
            Some(delivery) => ready(slf.py(), delivery.ack(result), |py, ()| Ok(py.None())),
            None => start(slf.py(), async move { job.ack_with_data(result).await }, |py, ()| Ok(py.None())),
        };
        done.map(Bound::unbind)
    }

    /// The job is this process's own or its parent's: the token counts, not the connection that reserved it.
    fn settle(
        slf: &Bound<'_, Self>,
        outcome: Outcome,
        error: String,
        rewritten: Option<Envelope>,
        finish: impl FnOnce(Python<'_>, Next) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        if let Some(delivery) = slf.as_super().get().delivery() {
            return ready(slf.py(), delivery.settle(outcome, &error, rewritten), finish).map(Bound::unbind);
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
        start(slf.py(), settle, finish).map(Bound::unbind)
    }

    fn take_lock(
        slf: &Bound<'_, Self>,
        name: String,
        options: LockOptions,
        retry_after: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let job = slf.as_super().get().job().clone();
        start_lock_of(retry_after, async move { job.lock(&name, &options).await })
    }

    fn note_progress(slf: &Bound<'_, Self>, fraction: f64, text: String) -> PyResult<Py<PyAny>> {
        let job = slf.as_super().get().job().clone();
        let note = async move { job.progress(fraction, &text).await };
        start(slf.py(), note, |py, ()| Ok(py.None())).map(Bound::unbind)
    }

    fn tell_start(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        if let Some(delivery) = slf.as_super().get().delivery() {
            return start(slf.py(), delivery.note_start_async(), |py, ()| Ok(py.None())).map(Bound::unbind);
        }
        let job = slf.as_super().get().job().clone();
        let note = async move { job.note_start().await };
        start(slf.py(), note, |py, ()| Ok(py.None())).map(Bound::unbind)
    }

    fn set_lease(slf: &Bound<'_, Self>, lease: Duration) -> PyResult<Py<PyAny>> {
        let job = slf.as_super().get().job().clone();
        let extend = async move { job.extend(lease).await };
        start(slf.py(), extend, |py, ()| Ok(py.None())).map(Bound::unbind)
    }
}
