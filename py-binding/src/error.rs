//! duly's one error becomes a Python exception: the class of its kind in `duly.errors`.

use std::error::Error as _;

use duly::{Error, ErrorKind, State};
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError};
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
    let by_kind = by_kind(py)?;
    let class = match by_kind.get_item(error.kind().as_str())? {
        Some(class) => class,
        None => by_kind.get_item(ErrorKind::Internal.as_str())?.ok_or_else(|| PyKeyError::new_err("internal"))?,
    };
    let about = PyDict::new(py);
    about.set_item("kind", error.kind().as_str())?;
    about.set_item("transient", error.is_transient())?;
    about.set_item("operation", error.operation())?;
    about.set_item("queue", error.queue())?;
    about.set_item("job_id", error.job_id())?;
    about.set_item("job_state", error.job_state().map(State::as_str))?;
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

/// The classes as a program has them that caught what it imported last: `duly.errors` may be loaded anew.
fn by_kind(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    static FIRST: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let now = || Ok(py.import("duly.errors")?.getattr("BY_KIND")?.cast_into::<PyDict>()?);
    match now() {
        Ok(classes) => {
            FIRST.get_or_init(py, || classes.clone().unbind());
            Ok(classes)
        }
        // Nothing is imported any more when Python ends.
        Err(error) => FIRST.get(py).map(|first| first.bind(py).clone()).ok_or(error),
    }
}
