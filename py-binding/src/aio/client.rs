//! `duly.aio.Client`.

use std::path::PathBuf;
use std::sync::Arc;

use duly::runtime::PerProcess;
use duly::{ClientBuilder, Error};
use pyo3::prelude::*;

use super::future::start;
use super::queue::AsyncQueue;
use crate::client::Settings;
use crate::error::OrRaise as _;

/// The client of this process: a forked child makes its own.
#[derive(Clone)]
pub(super) struct Shared {
    builder: ClientBuilder,
    made: Arc<PerProcess<duly::Client>>,
}

impl Shared {
    pub(super) fn client(&self) -> Result<Arc<duly::Client>, Error> {
        self.made.get(|| self.builder.clone().build())
    }
}

/// The asyncio twin of `duly.Client`.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct AsyncClient {
    shared: Shared,
}

#[pymethods]
impl AsyncClient {
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
        let shared = Shared { builder: settings.builder(py)?, made: Arc::new(PerProcess::new()) };
        shared.client().or_raise()?;
        Ok(Self { shared })
    }

    /// One round trip to the server.
    fn ping<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.shared.client().or_raise()?;
        start(py, async move { client.ping().await }, |py, ()| Ok(py.None()))
    }

    /// The queue of this name. Nothing is sent.
    fn queue(&self, name: &str) -> PyResult<AsyncQueue> {
        self.shared.client().and_then(|client| client.queue(name)).or_raise()?;
        Ok(AsyncQueue::new(self.shared.clone(), name.to_owned()))
    }

    #[expect(clippy::unused_self, reason = "settings may hold a password, so nothing of them is shown")]
    fn __repr__(&self) -> &'static str {
        "<duly.aio.Client>"
    }
}
