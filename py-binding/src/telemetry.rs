//! The trace context of whoever pushes, for programs that use OpenTelemetry.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::error::Failure;

const TRACEPARENT: &str = "traceparent";

/// Adds `traceparent` and `tracestate` of the current span, unless the headers given have a trace.
///
/// A program that has not imported OpenTelemetry has no span: it is not imported here, and one look costs it nothing.
pub(crate) fn add_trace(
    py: Python<'_>,
    job: duly::NewJob,
    given: Option<&BTreeMap<String, String>>,
) -> Result<duly::NewJob, Failure> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES
        .get_or_try_init(py, || py.import("sys")?.getattr("modules")?.extract::<Py<PyDict>>().map_err(PyErr::from))?;
    if !modules.bind(py).contains(intern!(py, "opentelemetry.trace"))?
        || given.is_some_and(|headers| headers.contains_key(TRACEPARENT))
    {
        return Ok(job);
    }
    let headers = || py.import("duly._telemetry")?.call_method0("headers")?.extract::<BTreeMap<String, String>>();
    let trace = match headers() {
        Ok(trace) => trace,
        // Jobs are pushed though their trace is broken, or was replaced for a test.
        Err(error) if error.is_instance_of::<PyException>(py) => {
            tell_once(py, &error);
            return Ok(job);
        }
        Err(error) => return Err(error.into()),
    };
    Ok(trace.into_iter().fold(job, |job, (name, value)| job.header(name, value)))
}

/// A program that pushes thousands of jobs hears of it once.
fn tell_once(py: Python<'_>, error: &PyErr) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if IS_TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let told = || {
        let what = "OpenTelemetry gives no trace for jobs, which are pushed without one: %s";
        let log = py.import("logging")?.call_method1("getLogger", ("duly",))?;
        log.call_method1("warning", (what, error.to_string()))
    };
    // A logger that raises is no reason to push nothing, either.
    let _: PyResult<_> = told();
}
