//! duly's one error becomes a Python exception: the class of its kind in `duly.errors`.

use std::error::Error as _;

use duly::{Error, ErrorKind};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Why a call did not succeed: an error of the engine, or an exception that Python raised meanwhile (Ctrl-C, a generator).
#[derive(Debug)]
pub(crate) enum Failure {
    Duly(Error),
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Duly(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Duly(error) => Python::attach(|py| exception(py, &error).unwrap_or_else(|other| other)),
            Failure::Python(error) => error,
        }
    }
}

/// A call of the engine that needs no waiting.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| Failure::Duly(error).into())
    }
}

pub(crate) fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    static BY_KIND: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    static BASE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let by_kind = BY_KIND.get_or_try_init(py, || {
        py.import("duly.errors")?.getattr("BY_KIND")?.extract::<Py<PyDict>>().map_err(PyErr::from)
    })?;
    let class = match by_kind.bind(py).get_item(error.kind().as_str())? {
        Some(class) => class,
        None => BASE
            .get_or_try_init(py, || py.import("duly.errors")?.getattr("DulyError").map(Bound::unbind))?
            .bind(py)
            .clone(),
    };
    let about = PyDict::new(py);
    about.set_item("kind", error.kind().as_str())?;
    about.set_item("transient", error.is_transient())?;
    about.set_item("operation", error.operation())?;
    about.set_item("queue", error.queue())?;
    about.set_item("job_id", error.job_id())?;
    let exception = PyErr::from_value(class.call((error.to_string(),), Some(&about))?);
    if let Some(source) = error.source() {
        let cause = match source.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            Some(number) => PyOSError::new_err((number, source.to_string())),
            None if source.is::<std::io::Error>() => PyOSError::new_err(source.to_string()),
            None => PyRuntimeError::new_err(source.to_string()),
        };
        exception.set_cause(py, Some(cause));
    }
    Ok(exception)
}
