//! `duly.Client`.

mod methods;

use std::future::Future;
use std::sync::Arc;

use duly::{Error, LockOptions, ReserveOptions, Selection, blocking};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use self::Closing as AtTheEnd; // for the methods
use crate::job::Job;
use crate::lock::Lock;
use crate::message::Message;
use crate::queue::{Queue, object, of_callers};
use crate::topic::Topic;
use crate::waiting::{unless_interrupted, wait};

/// A client of the server that holds the queues. Safe to share between threads, and to use after a fork.
///
/// The first call connects; to create a client sends nothing.
///
/// Args:
///     url: `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://`, `redis+cluster://`, or `embedded:` for a
///         private server. Default: the environment variable `DULY_URL`, or else `redis://127.0.0.1:6379`.
///     prefix: the beginning of all keys, at most 128 of the characters `A-Z a-z 0-9 . _ : -`. Default: "duly:".
///     username: overrides the one in the URL.
///     password: overrides the one in the URL.
///     ca_file: PEM file of the certificate authorities to trust, for TLS. Default: the system's.
///     client_cert_file: PEM file of the client's certificate, for TLS; only together with `client_key_file`.
///     client_key_file: PEM file of its private key.
///     connect_timeout: the longest attempt to connect, in seconds or as a timedelta, up to 10 minutes. Default: 3 s.
///     command_timeout: how long an attempt of a call waits without receiving a byte, in seconds or as a timedelta, up
///         to 10 minutes. Default: 5 s.
///     deadline: how long a call is retried while the server is away, in seconds or as a timedelta, up to 10 minutes.
///         Default: the environment variable `DULY_DEADLINE`, or else 2 s in a process that answers web requests
///         (decided at the first call), and 15 s elsewhere.
///     allow_eviction: accept a server that may evict keys, and with them jobs. Default: False, which raises
///         EvictionPolicyError.
///     max_data_bytes: the largest data of a job, as bytes of JSON, 1 to 2^53 - 1. Default: 1,048,576 (1 MiB).
///     durability: when a push returns that does not set its own: "none" (the server has the job in memory),
///         "wait:<n>" (so many replicas have it, 1 to 4,294,967,295), "fsync" (the server's disk has it). The
///         confirmation may take up to `command_timeout` and `deadline`; then NotDurableError. Default: "none".
///     fail_fast: after a call has waited for its whole deadline in vain, the next calls raise UnreachableError at
///         once, and about one a second probes whether the server is back. Default: True if the deadline is at most 5
///         s.
///     manual_clock: for tests: the clock stands still until `Queue.set_clock`. Default: False.
#[pyclass(frozen, extends = Closing, module = "duly")]
pub(crate) struct Client {
    client: blocking::Client,
}

impl Client {
    const SHOWN: &str = "<duly.Client>";

    pub(crate) fn client(&self) -> &blocking::Client {
        &self.client
    }

    fn call<T: Send, F: Future<Output = Result<T, Error>>>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<duly::Client>) -> F + Send,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        wait(py, |signals| self.client.wait_for(call, signals)).and_then(|given| finish(py, given))
    }

    #[expect(clippy::needless_pass_by_value, reason = "the calls of asyncio take them with them")]
    fn take_lock(&self, py: Python<'_>, name: String, options: LockOptions) -> PyResult<Py<PyAny>> {
        wait(py, |signals| self.client.lock(&name, &options, signals)).and_then(|lock| object(py, Lock::new(lock)))
    }

    fn close_all(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        wait(py, |signals| self.client.close(signals)).map(|()| py.None())
    }

    #[expect(clippy::needless_pass_by_value, reason = "the calls of asyncio take them with them")]
    fn reserve_up_to(
        &self,
        py: Python<'_>,
        queues: Vec<(blocking::Queue, u32)>,
        selection: Selection,
        options: ReserveOptions,
    ) -> PyResult<Py<PyAny>> {
        let jobs = wait(py, |signals| self.client.reserve_from(&queues, selection, &options, signals))?;
        let with_queue = |job: blocking::Job| {
            let queue = Py::new(py, Queue::new(job.queue().clone()))?;
            Job::new(py, job, queue.into_any())
        };
        let jobs = jobs.into_iter().map(with_queue).collect::<PyResult<Vec<_>>>()?;
        if !jobs.is_empty() {
            unless_interrupted(py, || of_callers(py, &jobs))?;
        }
        object(py, jobs)
    }
}

/// What is closed at the end of a `with`.
#[pyclass(frozen, subclass, module = "duly._core")]
pub(crate) struct Closing {}

#[pymethods]
impl Closing {
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(slf: &Bound<'_, Self>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        slf.call_method0("close").map(drop)
    }
}
