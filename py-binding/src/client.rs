//! `duly.Client`.

use duly::{Selection, blocking};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};

use crate::convert::{self, Name, QueueName, Text};
use crate::error::{Failure, OrRaise as _, invalid};
use crate::job::Job;
use crate::queue::{Partitions, Queue, reserve_options};
use crate::settings;
use crate::waiting::{Signals, wait};

/// The way to the queues of one server. Nothing is sent until the first call.
#[pyclass(frozen, module = "duly")]
pub(crate) struct Client {
    client: blocking::Client,
}

impl Client {
    pub(crate) fn client(&self) -> &blocking::Client {
        &self.client
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(
        signature = (url=None, **settings),
        text_signature = "(url=None, *, prefix='duly:', username=None, password=None, ca_file=None, \
            client_cert_file=None, client_key_file=None, connect_timeout=None, command_timeout=None, deadline=None, \
            allow_eviction=False, max_data_bytes=1048576, durability=None, manual_clock=False)"
    )]
    fn new(py: Python<'_>, url: Option<&Bound<'_, PyAny>>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let builder = settings::builder(py, url, settings)?;
        blocking::Client::new(builder).or_raise().map(|client| Self { client })
    }

    /// One round trip to the server.
    fn ping(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| self.client.ping(signals))
    }

    /// The queue of this name. Nothing is sent.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn queue(&self, name: Text<Name>) -> PyResult<Queue> {
        self.client.queue(&name).map(Queue::new).or_raise()
    }

    /// The queue of this name in so many parts. Nothing is sent.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn partitions(&self, py: Python<'_>, name: Text<Name>, count: &Bound<'_, PyAny>) -> PyResult<Py<Partitions>> {
        let count = convert::whole("count", count, 1..=duly::MAX_PARTITIONS.into()).map_err(Failure::from)?;
        Partitions::new(py, self.client.partitioned_queue(&name, count).or_raise()?)
    }

    /// Leases jobs that are ready in any of these queues, up to `max` together.
    #[pyo3(
        signature = (queues, *, max=None, wait=None, lease=None),
        text_signature = "($self, queues, *, max=1, wait=None, lease=None)"
    )]
    fn reserve_from(
        &self,
        py: Python<'_>,
        queues: &Bound<'_, PyAny>,
        max: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<Job>>> {
        let options = reserve_options(max, wait, lease)?;
        let (names, selection) = selected(queues)?;
        let queue = |(name, weight): (String, u32)| self.client.queue(&name).map(|queue| (queue, weight));
        let queues = names.into_iter().map(queue).collect::<Result<Vec<_>, _>>().or_raise()?;
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

/// Names with weights, and who goes first: a mapping gives weights; the order of anything else is strict.
pub(crate) fn selected(given: &Bound<'_, PyAny>) -> Result<(Vec<(String, u32)>, Selection), Failure> {
    if let Ok(weights) = given.cast::<PyMapping>() {
        let weighted = |item: Bound<'_, PyAny>| {
            let (name, weight): (Text<QueueName>, Bound<'_, PyAny>) = item.extract()?;
            Ok((name.into_string(), convert::whole("weight", &weight, 1..=duly::MAX_WEIGHT.into())?))
        };
        let queues: Result<_, Failure> = weights.items()?.iter().map(weighted).collect();
        return Ok((queues?, Selection::Weighted));
    }
    if given.is_instance_of::<PyString>() {
        return Err(invalid("queues must be a list of names, such as ['orders'], or a dict of weights").into());
    }
    let strict = |name: PyResult<Bound<'_, PyAny>>| Ok((name?.extract::<Text<QueueName>>()?.into_string(), 1));
    let names = given
        .try_iter()
        .map_err(|_| convert::of_wrong_type("queues", "a list of names or a dict of weights", given))?;
    let queues: Result<_, Failure> = names.map(strict).collect();
    Ok((queues?, Selection::Strict))
}
