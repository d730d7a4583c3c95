//! `duly.NewJob`, and the arguments that it shares with `Queue.push`.

use duly::Error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert;
use crate::error::{Failure, invalid};
use crate::retry::RetryPolicy;

/// The arguments of a job to be pushed.
pub(crate) struct Options<'a, 'py> {
    pub(crate) data: Option<&'a Bound<'py, PyAny>>,
    pub(crate) name: Option<&'a str>,
    pub(crate) delay: Option<&'a Bound<'py, PyAny>>,
    pub(crate) at: Option<&'a Bound<'py, PyAny>>,
    pub(crate) id: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) priority: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_retries: Option<&'a Bound<'py, PyAny>>,
    pub(crate) retry: Option<&'a Bound<'py, RetryPolicy>>,
    pub(crate) timeout: Option<&'a Bound<'py, PyAny>>,
    pub(crate) headers: Option<&'a Bound<'py, PyAny>>,
    pub(crate) on_duplicate: &'a str,
    pub(crate) raw: Option<&'a Bound<'py, PyAny>>,
}

impl Options<'_, '_> {
    /// The job, checked as far as it can be without a client.
    pub(crate) fn job(self) -> Result<duly::NewJob, Failure> {
        let mut job = duly::NewJob::from_json(self.json()?)?.on_duplicate(convert::on_duplicate(self.on_duplicate)?);
        if let Some(when) = convert::delay(self.delay, self.at)? {
            job = job.when(when);
        }
        if let Some(name) = self.name {
            job = job.name(name);
        }
        if let Some(id) = self.id {
            job = job.id(id);
        }
        if let Some(key) = self.key {
            job = job.key(key);
        }
        if let Some(priority) = self.priority {
            job = job.priority(convert::whole("priority", priority, duly::MAX_PRIORITY)?);
        }
        if let Some(max_retries) = self.max_retries {
            job = job.max_retries(convert::whole("max_retries", max_retries, u32::MAX)?);
        }
        if let Some(policy) = self.retry {
            job = job.retry(policy.get().policy());
        }
        if let Some(timeout) = self.timeout {
            job = job.timeout(convert::duration("timeout", timeout)?);
        }
        if let Some(headers) = self.headers {
            for (name, value) in convert::headers(headers)? {
                job = job.header(name, value);
            }
        }
        Ok(job)
    }

    fn json(&self) -> Result<Vec<u8>, Error> {
        match (self.data, self.raw) {
            (Some(data), None) => convert::to_json(data),
            (None, None) => Ok(b"null".to_vec()),
            (None, Some(raw)) => match raw.cast::<PyBytes>() {
                Ok(raw) => Ok(raw.as_bytes().to_vec()),
                Err(_) => Err(invalid(format!("raw must be bytes of JSON, not {}", convert::type_name(raw)))),
            },
            (Some(_), Some(_)) => Err(invalid("give data or raw, not both")),
        }
    }
}

/// A job for `Queue.push_many`. Its data is converted when it is made.
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
    #[pyo3(signature = (
        data=None, *, name=None, delay=None, at=None, id=None, key=None, priority=None, max_retries=None, retry=None,
        timeout=None, headers=None, on_duplicate="refuse", raw=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        data: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
        delay: Option<&Bound<'_, PyAny>>,
        at: Option<&Bound<'_, PyAny>>,
        id: Option<&str>,
        key: Option<&str>,
        priority: Option<&Bound<'_, PyAny>>,
        max_retries: Option<&Bound<'_, PyAny>>,
        retry: Option<&Bound<'_, RetryPolicy>>,
        timeout: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        on_duplicate: &str,
        raw: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = Options {
            data,
            name,
            delay,
            at,
            id,
            key,
            priority,
            max_retries,
            retry,
            timeout,
            headers,
            on_duplicate,
            raw,
        };
        Ok(Self { job: options.job()? })
    }

    #[expect(clippy::unused_self, reason = "data stays out of logs")]
    fn __repr__(&self) -> &'static str {
        "<duly.NewJob>"
    }
}
