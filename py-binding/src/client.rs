//! `duly.Client`.

use duly::{Selection, blocking};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};

use crate::convert::{self, Name, QueueName, Text};
use crate::error::{Failure, OrRaise as _, invalid};
use crate::job::Job;
use crate::queue::{Partitions, Queue, reserve_options};
use crate::settings;
use crate::waiting::{Signals, wait};

/// The way to the queues of one server. Nothing is sent until the first call; safe among threads and after a fork.
///
/// Without a URL it is the environment's `DULY_URL`, else `redis://127.0.0.1:6379`. Also `rediss://` (TLS), `unix://`,
/// `redis+sentinel://`, `redis+cluster://`, and `embedded:` for a private server. `durability`, of a push that
/// does not say its own: `"none"` (if None), `"wait:2"` for two replicas, or `"fsync"` for the server's disk; it is
/// confirmed within `command_timeout` (5 s) and `deadline` (15 s), or NotDurableError.
///
/// `deadline`, in seconds: how long a call is tried again while the server is away (if None the environment's
/// `DULY_DEADLINE`, else 15). Set 2 or so where somebody waits for the answer, as in a web request. `fail_fast`: once a
/// call has waited for its whole deadline in vain, the next ones raise UnreachableError at once, and one a second
/// probes whether the server is back; if None, where the deadline is at most 5 s.
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
            allow_eviction=False, max_data_bytes=1048576, durability=None, fail_fast=None, \
            manual_clock=False)"
    )]
    fn new(py: Python<'_>, url: Option<&Bound<'_, PyAny>>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let builder = settings::builder(py, url, settings)?;
        blocking::Client::new(builder).or_raise().map(|client| Self { client })
    }

    /// Make one round trip to the server.
    fn ping(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| self.client.ping(signals))
    }

    /// Give the queue of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn queue(&self, name: Text<Name>) -> PyResult<Queue> {
        self.client.queue(&name).map(Queue::new).or_raise()
    }

    /// Give the queue of this name in 1 to 256 parts, `name/0`, `name/1`, ...; all clients must agree in `count`.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn partitions(&self, py: Python<'_>, name: Text<Name>, count: &Bound<'_, PyAny>) -> PyResult<Py<Partitions>> {
        let count = convert::whole("count", count, 1..=duly::MAX_PARTITIONS.into()).map_err(Failure::from)?;
        Partitions::new(py, self.client.partitioned_queue(&name, count).or_raise()?)
    }

    /// Close the connections of this client and its queues; later calls raise InvalidArgumentError.
    ///
    /// `with duly.Client() as client:` does it at the end. A worker has connections of its own and goes on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| self.client.close(signals))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Lease up to `max` jobs (1 to 1,000) of several queues, and wait for all of them at once.
    ///
    /// A list is a strict order: a later queue gets a turn only when the earlier ones are empty. A mapping gives
    /// weights (1 to 1,000): a queue of weight 3 comes before one of weight 1 three times out of four.
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
