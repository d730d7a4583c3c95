//! `duly.aio.Queue`.

#[path = "../queue/methods.rs"]
#[expect(clippy::duplicate_mod, reason = "both classes have the same methods, and a class of PyO3 has no parameter")]
mod methods;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use duly::{Error, ReserveOptions, blocking};
use pyo3::prelude::*;

use self::AsyncQueue as Queue; // for the methods
use super::future::{start, start_reserve};
use super::job::AsyncJob;
use super::reserved::Reserved;
use super::schedules::AsyncSchedules as Schedules;
use crate::error::OrRaise as _;

/// The asyncio version of `Queue`: each method returns a `Call`.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct AsyncQueue {
    pub(crate) queue: blocking::Queue,
}

impl AsyncQueue {
    const CLASS: &str = "duly.aio.Queue";

    pub(crate) fn new(queue: blocking::Queue) -> Self {
        Self { queue }
    }

    /// Starts a call on the queue and gives its asyncio future. `finish` converts what it gives.
    pub(crate) fn call<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<duly::Queue>) -> F,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        start(py, call(self.queue.inner().or_raise()?), finish).map(Bound::unbind)
    }

    fn reserve_up_to(
        slf: &Bound<'_, Self>,
        options: &ReserveOptions,
        renew: Option<Duration>,
        finish: impl FnOnce(Python<'_>, Vec<Py<AsyncJob>>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let (whole, options) = (slf.clone().unbind(), options.clone());
        let inner = slf.get().queue.inner().or_raise()?;
        let reserve = async move { inner.reserve(&options).await.map(Reserved::new) };
        let call = start_reserve(slf.py(), reserve, move |py, reserved| {
            let queue = &whole.get().queue;
            let with_queue = |job: duly::Job| {
                let of = match queue.parts().iter().find(|part| part.name() == job.queue().name()) {
                    Some(part) => Py::new(py, Self::new(part.clone()))?,
                    None => whole.clone_ref(py),
                };
                match renew {
                    Some(lease) => AsyncJob::renewed(py, job, lease, of.into_any()),
                    None => AsyncJob::new(py, job, of.into_any()),
                }
            };
            let jobs: PyResult<_> = reserved.claim().into_iter().map(with_queue).collect();
            finish(py, jobs?)
        });
        call.map(Bound::unbind)
    }
}
