//! The trace context of whoever pushes, for programs that use OpenTelemetry.

use std::collections::BTreeMap;

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
    let trace = py.import("duly._telemetry")?.call_method0("headers")?;
    let trace: BTreeMap<String, String> = trace.extract()?;
    Ok(trace.into_iter().fold(job, |job, (name, value)| job.header(name, value)))
}
