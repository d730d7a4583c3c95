//! `duly.NewJob`, and the arguments that it shares with `Queue.push`.

use duly::Error;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::convert::{self, Keywords};
use crate::error::{Failure, OrRaise as _, invalid};
use crate::retry::RetryPolicy;
use crate::telemetry;

/// What may be said of a job beside its data. Their defaults stand in the signatures that Python shows, and in the stub.
const OPTIONS: [&str; 15] = [
    "name",
    "delay",
    "at",
    "id",
    "key",
    "priority",
    "max_retries",
    "retry",
    "timeout",
    "headers",
    "expires",
    "result_ttl",
    "on_duplicate",
    "durability",
    "raw",
];

/// The job that these arguments of `call` describe, checked as far as it can be without a client.
pub(crate) fn new_job(
    py: Python<'_>,
    call: &str,
    data: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> Result<duly::NewJob, Failure> {
    let given = Keywords::of(call, &OPTIONS, options)?;
    let mut job = duly::NewJob::from_json(json(data, given.get(intern!(py, "raw"))?)?)?;
    if options.is_none() {
        return telemetry::add_trace(py, job, None);
    }
    let (delay, at) = (given.get(intern!(py, "delay"))?, given.get(intern!(py, "at"))?);
    if let Some(when) = convert::delay(delay.as_ref(), at.as_ref())? {
        job = job.when(when);
    }
    if let Some(name) = given.get(intern!(py, "name"))? {
        job = job.name(convert::text("name", &name)?);
    }
    if let Some(id) = given.get(intern!(py, "id"))? {
        job = job.id(convert::text("id", &id)?);
    }
    if let Some(key) = given.get(intern!(py, "key"))? {
        job = job.key(convert::text("key", &key)?);
    }
    if let Some(priority) = given.get(intern!(py, "priority"))? {
        job = job.priority(convert::whole("priority", &priority, 0..=duly::MAX_PRIORITY.into())?);
    }
    if let Some(max_retries) = given.get(intern!(py, "max_retries"))? {
        job = job.max_retries(convert::whole("max_retries", &max_retries, 0..=u32::MAX.into())?);
    }
    if let Some(retry) = given.get(intern!(py, "retry"))? {
        let refused = |_| invalid(format!("retry must be a duly.RetryPolicy, not {}", convert::type_name(&retry)));
        job = job.retry(retry.cast::<RetryPolicy>().map_err(refused)?.get().policy());
    }
    if let Some(timeout) = given.get(intern!(py, "timeout"))? {
        job = job.timeout(convert::duration("timeout", &timeout)?);
    }
    if let Some(expires) = given.get(intern!(py, "expires"))? {
        job = job.expires(convert::span_or_moment("expires", &expires)?);
    }
    if let Some(ttl) = given.get(intern!(py, "result_ttl"))? {
        job = job.result_ttl(convert::duration("result_ttl", &ttl)?);
    }
    let headers = given.get(intern!(py, "headers"))?.map(|headers| convert::headers(&headers)).transpose()?;
    job = telemetry::add_trace(py, job, headers.as_ref())?;
    for (name, value) in headers.unwrap_or_default() {
        job = job.header(name, value);
    }
    if let Some(on_duplicate) = given.get(intern!(py, "on_duplicate"))? {
        job = job.on_duplicate(convert::text("on_duplicate", &on_duplicate)?.parse()?);
    }
    if let Some(durability) = given.get(intern!(py, "durability"))? {
        job = job.durability(convert::durability(&durability)?);
    }
    Ok(job)
}

pub(crate) fn json(data: Option<&Bound<'_, PyAny>>, raw: Option<Bound<'_, PyAny>>) -> Result<Vec<u8>, Error> {
    match (data, raw) {
        (Some(data), None) => convert::to_json(data),
        (None, None) => Ok(b"null".to_vec()),
        (None, Some(raw)) => match raw.cast::<PyBytes>() {
            Ok(raw) => Ok(raw.as_bytes().to_vec()),
            Err(_) => Err(invalid(format!("raw must be bytes of JSON, not {}", convert::type_name(&raw)))),
        },
        (Some(_), Some(_)) => Err(invalid("give data or raw, not both")),
    }
}

/// A job for `Queue.push_many`, with the arguments of `Queue.push`. Its data is converted when it is created.
#[pyclass(frozen, module = "duly")]
pub(crate) struct NewJob {
    job: duly::NewJob,
}

impl NewJob {
    pub(crate) fn job(&self) -> duly::NewJob {
        self.job.clone()
    }
}

#[pymethods]
impl NewJob {
    #[new]
    #[pyo3(
        signature = (data=None, **options),
        text_signature = "(data=None, *, name=None, delay=None, at=None, id=None, key=None, priority=None, \
            max_retries=None, retry=None, timeout=None, headers=None, expires=None, result_ttl=None, \
            on_duplicate='refuse', durability=None, raw=None)"
    )]
    fn new(py: Python<'_>, data: Option<&Bound<'_, PyAny>>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Ok(Self { job: new_job(py, "NewJob", data, options)? })
    }

    /// Raise InvalidArgumentError now if every push of this job would.
    fn check(&self) -> PyResult<()> {
        self.job.check().or_raise()
    }

    #[expect(clippy::unused_self, reason = "data stays out of logs")]
    fn __repr__(&self) -> &'static str {
        "<duly.NewJob>"
    }
}
