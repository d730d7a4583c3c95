//! From a Rust future to one of asyncio.

use std::future::Future;
use std::sync::Arc;

use duly::Error;
use duly::runtime::background;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tokio::task::AbortHandle;

use super::mailbox::Mailbox;
use crate::error::{Failure, OrRaise as _};
use crate::lock::AsyncLock;

/// Starts a call on the background runtime and gives the asyncio future of its result.
///
/// `finish` converts the result. Cancelling the asyncio future drops the call; what was sent already may still happen.
pub(crate) fn start<T: Send + 'static>(
    py: Python<'_>,
    call: impl Future<Output = Result<T, Error>> + Send + 'static,
    finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Bound<'_, PyAny>> {
    start_as(call_class(py)?, call, finish)
}

/// The asyncio future of what is known already.
pub(crate) fn ready<T>(
    py: Python<'_>,
    result: Result<T, Error>,
    finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
) -> PyResult<Bound<'_, PyAny>> {
    let running_loop = py.import("duly._calls")?.getattr("running_loop")?.call0()?;
    let future = call_class(py)?.call1((running_loop,))?;
    complete(&future, result, finish)?;
    Ok(future)
}

/// The same of a lock, whose future is also an `async with`.
pub(crate) fn start_lock<T: Send + 'static>(
    py: Python<'_>,
    call: impl Future<Output = Result<T, Error>> + Send + 'static,
    lock: impl FnOnce(Python<'_>, T) -> PyResult<AsyncLock> + Send + 'static,
) -> PyResult<Bound<'_, PyAny>> {
    let class = py.import("duly._calls")?.getattr("LockCall")?;
    start_as(&class, call, |py, value| Ok(Py::new(py, lock(py, value)?)?.into_any()))
}

/// The same of jobs, which go back if who awaits them is cancelled when they are there.
pub(crate) fn start_reserve<T: Send + 'static>(
    py: Python<'_>,
    call: impl Future<Output = Result<T, Error>> + Send + 'static,
    finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Bound<'_, PyAny>> {
    let class = py.import("duly._calls")?.getattr("ReserveCall")?;
    start_as(&class, call, finish)
}

fn start_as<'py, T: Send + 'static>(
    class: &Bound<'py, PyAny>,
    call: impl Future<Output = Result<T, Error>> + Send + 'static,
    finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    let (event_loop, mailbox) = Mailbox::of_running_loop(class.py())?;
    let future = class.call1((&event_loop,))?;
    let (letters, to_future) = (Arc::clone(mailbox.get().letters()), future.clone().unbind());
    let task = background().or_raise()?.spawn(async move {
        let result = call.await;
        letters.post(Box::new(move |py| complete(to_future.bind(py), result, finish)));
    });
    future.call_method1("add_done_callback", (Abandon(task.abort_handle()),))?;
    Ok(future)
}

/// `duly._calls.Call`: an asyncio future that is taken where a coroutine is wanted, too.
fn call_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CALL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let import = || py.import("duly._calls")?.getattr("Call").map(Bound::unbind);
    CALL.get_or_try_init(py, import).map(|class| class.bind(py))
}

/// On the loop's thread: completes the future unless somebody cancelled it meanwhile.
fn complete<T>(
    future: &Bound<'_, PyAny>,
    result: Result<T, Error>,
    finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
) -> PyResult<()> {
    let py = future.py();
    if future.call_method0("done")?.is_truthy()? {
        return Ok(());
    }
    let result = result.map_err(|error| PyErr::from(Failure::Duly(error))).and_then(|value| finish(py, value));
    match result {
        Ok(value) => future.call_method1("set_result", (value,))?,
        Err(error) => future.call_method1("set_exception", (error,))?,
    };
    Ok(())
}

/// Called when the future is done: if it was cancelled, the Rust future is dropped.
#[pyclass(frozen)]
struct Abandon(AbortHandle);

#[pymethods]
impl Abandon {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0("cancelled")?.is_truthy()? {
            self.0.abort();
        }
        Ok(())
    }
}
