//! `duly.aio.Client`.

#[path = "../client/methods.rs"]
#[expect(clippy::duplicate_mod, reason = "both classes have the same methods, and a class of PyO3 has no parameter")]
mod methods;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use duly::{Error, LockOptions, QueueWeight, ReserveOptions, Selection, blocking};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use self::AsyncClient as Client; // for the methods
use self::AsyncClosing as AtTheEnd;
use super::future::{ready, start, start_lock, start_reserve};
use super::job::AsyncJob;
use super::message::AsyncMessage as Message;
use super::queue::AsyncQueue as Queue;
use super::reserved::Reserved;
use super::topic::AsyncTopic as Topic;
use crate::client::Client as SyncClient;
use crate::error::OrRaise as _;
use crate::lock::AsyncLock;
use crate::queue::object;

/// The asyncio version of `Client`, with the same arguments.
#[pyclass(frozen, extends = AsyncClosing, module = "duly._core")]
pub(crate) struct AsyncClient {
    pub(crate) client: blocking::Client,
}

impl AsyncClient {
    const SHOWN: &str = "<duly.aio.Client>";

    fn call<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<duly::Client>) -> F,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        start(py, call(self.client.inner().or_raise()?), finish).map(Bound::unbind)
    }

    fn take_lock(&self, py: Python<'_>, name: String, options: LockOptions) -> PyResult<Py<PyAny>> {
        let client = self.client.inner().or_raise()?;
        let lock = async move { client.lock(&name, &options).await };
        start_lock(py, lock, |_, lock| Ok(AsyncLock::new(lock))).map(Bound::unbind)
    }

    fn close_all(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let closing = self.client.mark_closed().map(|client| client.close());
        let close = async move {
            if let Some(closing) = closing {
                closing.await;
            }
            Ok(())
        };
        start(py, close, |py, ()| Ok(py.None())).map(Bound::unbind)
    }

    fn reserve_up_to(
        &self,
        py: Python<'_>,
        queues: Vec<(blocking::Queue, u32)>,
        selection: Selection,
        options: ReserveOptions,
    ) -> PyResult<Py<PyAny>> {
        let client = self.client.inner().or_raise()?;
        let mut weights = Vec::with_capacity(queues.len());
        let mut by_name = HashMap::with_capacity(queues.len());
        for (queue, weight) in queues {
            weights.push(QueueWeight::new(duly::Queue::clone(&*queue.inner().or_raise()?), weight));
            by_name.insert(queue.name().to_owned(), Py::new(py, Queue::new(queue))?);
        }
        let reserve = async move { client.reserve_from(&weights, selection, &options).await.map(Reserved::new) };
        let call = start_reserve(py, reserve, move |py, reserved| {
            let mut jobs = Vec::new();
            for job in reserved.claim() {
                if let Some(queue) = by_name.get(job.queue().name()) {
                    jobs.push(AsyncJob::new(py, job, queue.clone_ref(py).into_any())?);
                }
            }
            object(py, jobs)
        });
        call.map(Bound::unbind)
    }
}

/// The client for asyncio with the settings of this one. See [`blocking::Client::sibling`].
#[pyfunction]
pub(crate) fn _async_sibling(py: Python<'_>, client: &SyncClient) -> PyResult<Py<AsyncClient>> {
    let client = client.client().sibling().or_raise()?;
    Py::new(py, PyClassInitializer::from(AsyncClosing {}).add_subclass(AsyncClient { client }))
}

/// What is closed at the end of an `async with`.
#[pyclass(frozen, subclass, module = "duly._core")]
pub(crate) struct AsyncClosing {}

#[pymethods]
impl AsyncClosing {
    fn __aenter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let py = slf.py();
        let closing = slf.unbind().into_any();
        ready(py, Ok(()), move |_, ()| Ok(closing))
    }

    #[pyo3(signature = (*_raised))]
    fn __aexit__<'py>(slf: &Bound<'py, Self>, _raised: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method0("close")
    }
}
