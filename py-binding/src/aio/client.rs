//! `duly.aio.Client`.

use std::collections::HashMap;
use std::sync::Arc;

use duly::runtime::PerProcess;
use duly::{ClientBuilder, Error, QueueWeight};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::future::start;
use super::job::AsyncJob;
use super::queue::{AsyncPartitions, AsyncQueue};
use super::reserved::Reserved;
use crate::client::selected;
use crate::convert::{self, Name, Text};
use crate::error::{Failure, OrRaise as _};
use crate::queue::reserve_options;
use crate::settings;

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
    #[pyo3(
        signature = (url=None, **settings),
        text_signature = "(url=None, *, prefix='duly:', username=None, password=None, ca_file=None, \
            client_cert_file=None, client_key_file=None, connect_timeout=None, command_timeout=None, deadline=None, \
            allow_eviction=False, max_data_bytes=1048576, durability=None, manual_clock=False)"
    )]
    fn new(py: Python<'_>, url: Option<&Bound<'_, PyAny>>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let shared = Shared { builder: settings::builder(py, url, settings)?, made: Arc::new(PerProcess::new()) };
        shared.client().or_raise()?;
        Ok(Self { shared })
    }

    /// One round trip to the server.
    fn ping<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.shared.client().or_raise()?;
        start(py, async move { client.ping().await }, |py, ()| Ok(py.None()))
    }

    /// The queue of this name. Nothing is sent.
    fn queue(&self, name: Text<Name>) -> PyResult<AsyncQueue> {
        AsyncQueue::new(self.shared.clone(), name.into_string())
    }

    /// The queue of this name in so many parts. Nothing is sent.
    fn partitions(&self, py: Python<'_>, name: Text<Name>, count: &Bound<'_, PyAny>) -> PyResult<Py<AsyncPartitions>> {
        let count = convert::whole("count", count, 1..=duly::MAX_PARTITIONS.into()).map_err(Failure::from)?;
        AsyncPartitions::new(py, self.shared.clone(), name.into_string(), count)
    }

    /// Leases jobs that are ready in any of these queues, up to `max` together.
    #[pyo3(
        signature = (queues, *, max=None, wait=None, lease=None),
        text_signature = "($self, queues, *, max=1, wait=None, lease=None)"
    )]
    fn reserve_from<'py>(
        &self,
        py: Python<'py>,
        queues: &Bound<'py, PyAny>,
        max: Option<&Bound<'py, PyAny>>,
        wait: Option<&Bound<'py, PyAny>>,
        lease: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = reserve_options(max, wait, lease)?;
        let (names, selection) = selected(queues)?;
        let client = self.shared.client().or_raise()?;
        let mut weights = Vec::with_capacity(names.len());
        let mut by_name = HashMap::with_capacity(names.len());
        for (name, weight) in names {
            weights.push(QueueWeight::new(client.queue(&name).or_raise()?, weight));
            by_name.insert(name.clone(), Py::new(py, AsyncQueue::new(self.shared.clone(), name)?)?);
        }
        let reserve = async move { client.reserve_from(&weights, selection, &options).await.map(Reserved::new) };
        start(py, reserve, move |py, reserved| {
            let mut jobs = Vec::new();
            for job in reserved.claim() {
                if let Some(queue) = by_name.get(job.queue().name()) {
                    jobs.push(AsyncJob::new(py, job, queue.clone_ref(py).into_any())?);
                }
            }
            jobs.into_py_any(py)
        })
    }

    #[expect(clippy::unused_self, reason = "settings may hold a password, so nothing of them is shown")]
    fn __repr__(&self) -> &'static str {
        "<duly.aio.Client>"
    }
}
