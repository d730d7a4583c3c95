//! `duly.Lock` and `duly.aio.Lock`.

use duly::{LockOptions, LockTaken, blocking};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::aio::{ready, start};
use crate::convert;
use crate::error::{Failure, OrRaise as _};
use crate::waiting::wait;

/// A lock that is held, and renewed by a native thread until it is released.
///
/// `with client.lock("stock:42") as lock:` releases it at the end, and raises LeaseLostError there if it was lost
/// before. One that is dropped is released soon after; one whose process dies is free after its `ttl`.
#[pyclass(frozen, subclass, module = "duly")]
pub(crate) struct Lock {
    lock: blocking::Lock,
}

impl Lock {
    pub(crate) fn new(lock: blocking::Lock) -> Self {
        Self { lock }
    }
}

#[pymethods]
impl Lock {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.lock.name()
    }

    /// The fencing token, greater than that of every earlier holder: `WHERE id = :id AND fence < :token`.
    #[getter]
    fn token(&self) -> u64 {
        self.lock.token()
    }

    /// Whether it is held, by what the server has said; False as soon as it may have ended there.
    #[getter]
    fn held(&self) -> bool {
        self.lock.is_held()
    }

    /// How many seconds it was waited for: by this call; of `Job.lock`, since the job first met it taken.
    #[getter]
    fn waited(&self) -> f64 {
        self.lock.waited().as_secs_f64()
    }

    /// Release it, and wake one who waits for it; return whether it was held until now.
    fn release(&self, py: Python<'_>) -> PyResult<bool> {
        wait(py, |signals| self.lock.release(signals))
    }

    /// A second block with it would not be protected.
    fn __enter__(slf: Py<Self>) -> PyResult<Py<Self>> {
        slf.get().lock.enter().or_raise()?;
        Ok(slf)
    }

    #[pyo3(signature = (raised=None, *_more))]
    fn __exit__(&self, py: Python<'_>, raised: Option<&Bound<'_, PyAny>>, _more: &Bound<'_, PyTuple>) -> PyResult<()> {
        let left = wait(py, |signals| self.lock.leave(signals));
        left.or_else(|error| unless_raised(py, error, raised))
    }

    fn __repr__(&self) -> String {
        format!("<duly.Lock {:?}, token {}>", self.name(), self.token())
    }
}

/// The asyncio version of `Lock`.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct AsyncLock {
    lock: duly::Lock,
}

impl AsyncLock {
    pub(crate) fn new(lock: duly::Lock) -> Self {
        Self { lock }
    }
}

#[pymethods]
impl AsyncLock {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.lock.name()
    }

    /// The fencing token, greater than that of every earlier holder: `WHERE id = :id AND fence < :token`.
    #[getter]
    fn token(&self) -> u64 {
        self.lock.token()
    }

    /// Whether it is held, by what the server has said; False as soon as it may have ended there.
    #[getter]
    fn held(&self) -> bool {
        self.lock.is_held()
    }

    /// How many seconds it was waited for: by this call; of `Job.lock`, since the job first met it taken.
    #[getter]
    fn waited(&self) -> f64 {
        self.lock.waited().as_secs_f64()
    }

    /// Release it, and wake one who waits for it; return whether it was held until now.
    fn release<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        start(py, self.lock.release(), |py, held| Ok(held.into_pyobject(py)?.to_owned().into_any().unbind()))
    }

    fn __aenter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let (py, entered) = (slf.py(), slf.get().lock.enter());
        let slf = slf.unbind().into_any();
        // Nothing is awaited: a task that is cancelled here would hold it without a block that ends.
        ready(py, entered, move |_, ()| Ok(slf))
    }

    #[pyo3(signature = (raised=None, *_more))]
    fn __aexit__<'py>(
        &self,
        py: Python<'py>,
        raised: Option<Bound<'py, PyAny>>,
        _more: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (leave, raised) = (self.lock.leave(), raised.is_some_and(|raised| !raised.is_none()));
        let leave = async move { leave.await.or_else(|error| if raised { Ok(()) } else { Err(error) }) };
        start(py, leave, |py, ()| Ok(py.None()))
    }

    fn __repr__(&self) -> String {
        format!("<duly.aio.Lock {:?}, token {}>", self.name(), self.token())
    }
}

/// Gives up a lock that reached the event loop when who awaited it had been cancelled, in the background: there may be no loop any more.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes it")]
pub(crate) fn _give_up(lock: PyRef<'_, AsyncLock>) {
    drop(lock.lock.release());
}

pub(crate) fn lock_options(
    ttl: Option<&Bound<'_, PyAny>>,
    wait: Option<&Bound<'_, PyAny>>,
) -> Result<LockOptions, Failure> {
    let span = |what, span: Option<&Bound<'_, PyAny>>| span.map(|span| convert::duration(what, span)).transpose();
    let mut options = LockOptions::new();
    if let Some(ttl) = span("ttl", ttl)? {
        options = options.ttl(ttl);
    }
    if let Some(wait) = span("wait", wait)? {
        options = options.wait(wait);
    }
    Ok(options)
}

/// What the block raised says more than an error of duly's, but not more than Ctrl-C.
fn unless_raised(py: Python<'_>, error: PyErr, raised: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let is_raised = raised.is_some_and(|raised| !raised.is_none());
    if is_raised && error.is_instance_of::<PyException>(py) { Ok(()) } else { Err(error) }
}

/// What a handler raises that meets a lock taken: `duly.Release`.
pub(crate) fn release_for(after: &Bound<'_, PyAny>, taken: &LockTaken) -> PyResult<PyErr> {
    let py = after.py();
    let about = PyDict::new(py);
    about.set_item("reason", taken.to_string())?;
    let release = py.import("duly.outcomes")?.getattr("Release")?;
    Ok(PyErr::from_value(release.call((after,), Some(&about))?))
}
