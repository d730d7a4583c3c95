//! Spans and moments: seconds or `timedelta`, unix seconds or `datetime`.

use std::time::Duration;

use duly::{Error, Millis, When};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::type_name;
use crate::error::{Failure, invalid};

/// A span of time: seconds (int or float) or a `timedelta`.
pub(crate) fn span(what: &str, value: &Bound<'_, PyAny>) -> Result<Millis, Failure> {
    Millis::from_seconds(seconds(what, value)?).map_err(|error| named(what, &error).into())
}

/// A span that has the bounds of a lease.
pub(crate) fn lease(value: &Bound<'_, PyAny>) -> Result<Duration, Failure> {
    Ok(duly::lease_from_seconds(seconds("lease", value)?)?)
}

fn seconds(what: &str, value: &Bound<'_, PyAny>) -> Result<f64, Failure> {
    match number(what, value)? {
        Some(seconds) => Ok(seconds),
        None if is_instance(value, "timedelta")? => Ok(value.call_method0("total_seconds")?.extract()?),
        None => {
            let found = type_name(value);
            Err(invalid(format!("{what} must be seconds (int or float) or a timedelta, not {found}")).into())
        }
    }
}

/// A span as the standard library's type.
pub(crate) fn duration(what: &str, value: &Bound<'_, PyAny>) -> Result<Duration, Failure> {
    span(what, value).map(Millis::to_duration)
}

/// A moment: unix seconds, or a `datetime` that knows its time zone.
pub(crate) fn moment(what: &str, value: &Bound<'_, PyAny>) -> Result<Millis, Failure> {
    let seconds = match number(what, value)? {
        Some(seconds) => seconds,
        None if is_instance(value, "datetime")? => {
            if value.call_method0("utcoffset")?.is_none() {
                let message = "must be a datetime with a time zone, such as datetime.now(timezone.utc): nobody knows \
                               which moment a naive one means";
                return Err(invalid(format!("{what} {message}")).into());
            }
            value.call_method0("timestamp")?.extract()?
        }
        None => {
            let found = type_name(value);
            return Err(
                invalid(format!("{what} must be a datetime with a time zone or unix seconds, not {found}")).into()
            );
        }
    };
    Millis::from_unix_seconds(seconds).map_err(|error| named(what, &error).into())
}

/// When: after `delay`, or at `at`; not both.
pub(crate) fn delay(delay: Option<&Bound<'_, PyAny>>, at: Option<&Bound<'_, PyAny>>) -> Result<Option<When>, Failure> {
    match (delay, at) {
        (None, None) => Ok(None),
        (Some(delay), None) => {
            let after = span("delay", delay)?;
            Ok(Some(if after == Millis::ZERO { When::Now } else { When::After(after) }))
        }
        (None, Some(at)) => Ok(Some(When::At(moment("at", at)?))),
        (Some(_), Some(_)) => Err(invalid("give delay or at, not both").into()),
    }
}

/// So long from now, or at a `datetime` that knows its time zone.
pub(crate) fn span_or_moment(what: &str, value: &Bound<'_, PyAny>) -> Result<When, Failure> {
    if is_instance(value, "datetime")? {
        return Ok(When::At(moment(what, value)?));
    }
    let seconds = match number(what, value)? {
        Some(seconds) => seconds,
        None if is_instance(value, "timedelta")? => value.call_method0("total_seconds")?.extract()?,
        None => {
            let found = type_name(value);
            let message = "must be seconds (int or float), a timedelta, or a datetime with a time zone, not";
            return Err(invalid(format!("{what} {message} {found}")).into());
        }
    };
    Ok(When::After(Millis::from_seconds(seconds).map_err(|error| named(what, &error))?))
}

/// A number that need not be whole.
pub(crate) fn float(what: &str, value: &Bound<'_, PyAny>) -> Result<f64, Error> {
    number(what, value)?.ok_or_else(|| invalid(format!("{what} must be a number, not {}", type_name(value))))
}

/// A number; a bool is none, and an int too large for a float is out of every range.
fn number(what: &str, value: &Bound<'_, PyAny>) -> Result<Option<f64>, Error> {
    if value.is_instance_of::<PyFloat>() {
        return Ok(value.extract().ok());
    }
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        return value.extract().map(Some).map_err(|_| invalid(format!("{what} is a number beyond every limit")));
    }
    Ok(None)
}

fn is_instance(value: &Bound<'_, PyAny>, class: &str) -> PyResult<bool> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(value.py(), || value.py().import("datetime").map(Bound::unbind))?;
    value.is_instance(&module.bind(value.py()).getattr(class)?)
}

/// The engine's complaint, with the argument that it is about.
fn named(what: &str, error: &Error) -> Error {
    invalid(format!("{what}: {error}"))
}
