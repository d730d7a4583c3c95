//! `duly.Client`.

use std::path::PathBuf;
use std::time::Duration;

use duly::{ClientBuilder, Selection, blocking};
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};

use crate::convert;
use crate::error::{Failure, OrRaise as _, invalid};
use crate::job::Job;
use crate::queue::{Queue, reserve_options};
use crate::waiting::{Signals, wait};

/// The way to the queues of one server. Nothing is sent until the first call.
#[pyclass(frozen, module = "duly")]
pub(crate) struct Client {
    client: blocking::Client,
    builder: ClientBuilder,
}

impl Client {
    pub(crate) fn builder(&self) -> ClientBuilder {
        self.builder.clone()
    }

    /// A mapping gives weights; the order of anything else is strict.
    fn selected(&self, given: &Bound<'_, PyAny>) -> Result<(Vec<(blocking::Queue, u32)>, Selection), Failure> {
        if let Ok(weights) = given.cast::<PyMapping>() {
            let weighted = |item: Bound<'_, PyAny>| {
                let (name, weight): (String, Bound<'_, PyAny>) = item.extract()?;
                Ok((self.client.queue(&name)?, convert::whole("weight", &weight, u32::MAX)?))
            };
            let queues: Result<_, Failure> = weights.items()?.iter().map(weighted).collect();
            return Ok((queues?, Selection::Weighted));
        }
        if given.is_instance_of::<PyString>() {
            return Err(invalid("queues must be a list of names, such as ['orders'], or a dict of weights").into());
        }
        let strict = |name: PyResult<Bound<'_, PyAny>>| Ok((self.client.queue(&name?.extract::<String>()?)?, 1));
        let queues: Result<_, Failure> = given.try_iter()?.map(strict).collect();
        Ok((queues?, Selection::Strict))
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (
        url=None, *, prefix="duly:", username=None, password=None, ca_file=None, client_cert_file=None,
        client_key_file=None, connect_timeout=None, command_timeout=None, deadline=None, allow_eviction=false,
        max_data_bytes=1_048_576, durability=None, manual_clock=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        url: Option<&str>,
        prefix: &str,
        username: Option<&str>,
        password: Option<&str>,
        ca_file: Option<PathBuf>,
        client_cert_file: Option<PathBuf>,
        client_key_file: Option<PathBuf>,
        connect_timeout: Option<&Bound<'_, PyAny>>,
        command_timeout: Option<&Bound<'_, PyAny>>,
        deadline: Option<&Bound<'_, PyAny>>,
        allow_eviction: bool,
        max_data_bytes: usize,
        durability: Option<&str>,
        manual_clock: bool,
    ) -> PyResult<Self> {
        let settings = Settings {
            url,
            prefix,
            username,
            password,
            ca_file,
            client_cert_file,
            client_key_file,
            connect_timeout,
            command_timeout,
            deadline,
            allow_eviction,
            max_data_bytes,
            durability,
            manual_clock,
        };
        let builder = settings.builder(py)?;
        let client = blocking::Client::new(builder.clone()).or_raise()?;
        Ok(Self { client, builder })
    }

    /// One round trip to the server.
    fn ping(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| self.client.ping(signals))
    }

    /// The queue of this name. Nothing is sent.
    fn queue(&self, name: &str) -> PyResult<Queue> {
        self.client.queue(name).map(Queue::new).or_raise()
    }

    /// Leases jobs that are ready in any of these queues, up to `max` together.
    #[pyo3(signature = (queues, *, max=1, wait=None, lease=None))]
    fn reserve_from(
        &self,
        py: Python<'_>,
        queues: &Bound<'_, PyAny>,
        max: usize,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<Job>>> {
        let options = reserve_options(max, wait, lease)?;
        let (queues, selection) = self.selected(queues)?;
        let reserve = |signals: &mut Signals| self.client.reserve_from(&queues, selection, &options, signals);
        let jobs = crate::waiting::wait(py, reserve)?;
        let with_queue = |job: blocking::Job| {
            let queue = Py::new(py, Queue::new(job.queue().clone()))?;
            Job::new(py, job, queue.into_any())
        };
        jobs.into_iter().map(with_queue).collect()
    }

    #[expect(clippy::unused_self, reason = "settings may hold a password, so nothing of them is shown")]
    fn __repr__(&self) -> &'static str {
        "<duly.Client>"
    }
}

/// The arguments of a client, sync or asyncio.
pub(crate) struct Settings<'a, 'py> {
    pub(crate) url: Option<&'a str>,
    pub(crate) prefix: &'a str,
    pub(crate) username: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) client_cert_file: Option<PathBuf>,
    pub(crate) client_key_file: Option<PathBuf>,
    pub(crate) connect_timeout: Option<&'a Bound<'py, PyAny>>,
    pub(crate) command_timeout: Option<&'a Bound<'py, PyAny>>,
    pub(crate) deadline: Option<&'a Bound<'py, PyAny>>,
    pub(crate) allow_eviction: bool,
    pub(crate) max_data_bytes: usize,
    pub(crate) durability: Option<&'a str>,
    pub(crate) manual_clock: bool,
}

impl Settings<'_, '_> {
    pub(crate) fn builder(self, py: Python<'_>) -> Result<ClientBuilder, Failure> {
        let mut builder = duly::Client::builder()
            .prefix(self.prefix)
            .allow_eviction(self.allow_eviction)
            .max_data_bytes(self.max_data_bytes);
        if let Some(url) = self.url {
            builder = builder.url(url);
        }
        if let Some(username) = self.username {
            builder = builder.username(username);
        }
        if let Some(password) = self.password {
            builder = builder.password(password);
        }
        if let Some(ca_file) = self.ca_file {
            builder = builder.ca_file(ca_file);
        }
        builder = match (self.client_cert_file, self.client_key_file) {
            (Some(certificate), Some(key)) => builder.client_certificate(certificate, key),
            (None, None) => builder,
            _ => return Err(invalid("client_cert_file and client_key_file belong together: give both").into()),
        };
        let mut confirmed_within = DEFAULT_COMMAND_TIMEOUT;
        if let Some(timeout) = self.connect_timeout {
            builder = builder.connect_timeout(patience("connect_timeout", timeout)?);
        }
        if let Some(timeout) = self.command_timeout {
            confirmed_within = patience("command_timeout", timeout)?;
            builder = builder.command_timeout(confirmed_within);
        }
        if let Some(deadline) = self.deadline {
            builder = builder.deadline(patience("deadline", deadline)?);
        }
        builder = builder.durability(convert::durability(self.durability, confirmed_within)?);
        if self.manual_clock {
            builder = builder.manual_clock();
        }
        if is_embedded(self.url) {
            let brought = py.import("duly.embedded")?.call_method0("server_program")?;
            if let Some(program) = brought.extract::<Option<PathBuf>>()? {
                builder = builder.server_program(program);
            }
        }
        Ok(builder)
    }
}

/// The engine's own; a durable push is confirmed within the same time.
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

fn patience(what: &str, given: &Bound<'_, PyAny>) -> Result<Duration, Failure> {
    let patience = convert::duration(what, given)?;
    if patience.is_zero() { Err(invalid(format!("{what} must be more than 0")).into()) } else { Ok(patience) }
}

fn is_embedded(url: Option<&str>) -> bool {
    match url {
        Some(url) => url.starts_with("embedded:"),
        None => std::env::var("DULY_URL").is_ok_and(|url| url.starts_with("embedded:")),
    }
}
