//! `duly.aio.Client`.

use std::collections::HashMap;

use duly::{QueueWeight, blocking};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::future::{start, start_lock};
use super::job::AsyncJob;
use super::message::AsyncMessage;
use super::queue::AsyncQueue;
use super::reserved::Reserved;
use super::topic::AsyncTopic;
use crate::convert::{self, Member, Name, Text};
use crate::error::{Failure, OrRaise as _};
use crate::lock::{AsyncLock, lock_options};
use crate::queue::{object, reserve_options};
use crate::select;
use crate::settings;
use crate::topic::pull_options;

/// The asyncio version of `Client`, with the same arguments.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct AsyncClient {
    pub(crate) client: blocking::Client,
}

#[pymethods]
impl AsyncClient {
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
    fn ping<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.client.inner().or_raise()?;
        start(py, async move { client.ping().await }, |py, ()| Ok(py.None()))
    }

    /// Return the queue of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn queue(&self, name: Text<Name>) -> PyResult<AsyncQueue> {
        self.client.queue(&name).map(AsyncQueue::new).or_raise()
    }

    /// Return a queue in 1 to 256 parts, `name/0`, `name/1`, ...; all clients must use the same `count`.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn partitions(&self, name: Text<Name>, count: &Bound<'_, PyAny>) -> PyResult<AsyncQueue> {
        let count = convert::whole("count", count, 1..=duly::MAX_PARTITIONS.into()).map_err(Failure::from)?;
        self.client.partitioned_queue(&name, count).map(AsyncQueue::new).or_raise()
    }

    /// Return the topic of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn topic(&self, name: Text<Name>) -> PyResult<AsyncTopic> {
        self.client.topic(&name).map(AsyncTopic::new).or_raise()
    }

    /// Return the names of the topics that this member has subscribed to.
    fn topics_of<'py>(&self, py: Python<'py>, member: Text<Member>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.client.inner().or_raise()?;
        start(py, async move { client.topics_of(&member).await }, object)
    }

    /// Return messages from all topics of a member, at most `max` together, and wait for all of the topics at once.
    ///
    /// Arguments and errors are those of `Topic.pull`. If it is cut off from one topic, CutOffError is raised when no
    /// other has messages; so is the error of a server of a cluster that does not answer. NotFoundError is raised once
    /// for each topic of which it is no member any more without having unsubscribed.
    #[pyo3(
        signature = (member, *, max=None, wait=None, lease=None),
        text_signature = "($self, member, *, max=100, wait=None, lease=None)"
    )]
    fn pull<'py>(
        &self,
        py: Python<'py>,
        member: Text<Member>,
        max: Option<&Bound<'py, PyAny>>,
        wait: Option<&Bound<'py, PyAny>>,
        lease: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = pull_options(max, wait, lease)?;
        let (client, blocking) = (self.client.inner().or_raise()?, self.client.clone());
        start(py, async move { client.pull(&member, &options).await }, move |py, messages| {
            let of = |message| AsyncMessage::of(&blocking, message);
            object(py, messages.into_iter().map(of).collect::<PyResult<Vec<_>>>()?)
        })
    }

    /// Take the lock of this name, or wait until it is free, and return it; also for `async with`.
    ///
    /// `async with client.lock("stock:42", wait=10) as lock:` releases it at the end. It is renewed by a native thread
    /// until then, also while Python is busy. Raises LockedError if another one holds it when the wait is over.
    ///
    /// Args:
    ///     name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
    ///     ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
    ///     wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.
    #[pyo3(signature = (name, *, ttl=None, wait=None))]
    fn lock<'py>(
        &self,
        py: Python<'py>,
        name: Text<Name>,
        ttl: Option<&Bound<'py, PyAny>>,
        wait: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = lock_options(ttl, wait)?;
        let (client, name) = (self.client.inner().or_raise()?, name.into_string());
        start_lock(py, async move { client.lock(&name, &options).await }, |_, lock| Ok(AsyncLock::new(lock)))
    }

    /// Close the connections of this client and its queues; later calls raise InvalidArgumentError.
    ///
    /// `async with duly.aio.Client() as client:` closes it at the end.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.client.mark_closed();
        let close = async move {
            if let Some(client) = client {
                client.close().await;
            }
            Ok(())
        };
        start(py, close, |py, ()| Ok(py.None()))
    }

    fn __aenter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let py = slf.py();
        let client = slf.unbind().into_any();
        start(py, async { Ok(()) }, move |_, ()| Ok(client))
    }

    #[pyo3(signature = (*_raised))]
    fn __aexit__<'py>(&self, py: Python<'py>, _raised: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.close(py)
    }

    /// Lease jobs of several queues, and wait for all of the queues at once.
    ///
    /// Args:
    ///     queues: a list is a strict order: a later queue gets a turn only when the earlier ones are empty. A dict
    ///         gives weights (1 to 1,000): a queue of weight 3 comes before one of weight 1 three times out of four.
    ///     max: the most jobs to return, 1 to 1,000; fewer when their records make up 4 MiB. Default: 1.
    ///     wait: how long to wait for the first job, in seconds or as a timedelta, a year at most. Default: 0.
    ///     lease: how long the jobs are yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
    ///         10 s.
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
        let (names, selection) = select::names(queues)?;
        let client = self.client.inner().or_raise()?;
        let mut weights = Vec::with_capacity(names.len());
        let mut by_name = HashMap::with_capacity(names.len());
        for (name, weight) in names {
            let queue = self.client.queue(&name).or_raise()?;
            weights.push(QueueWeight::new(duly::Queue::clone(&*queue.inner().or_raise()?), weight));
            by_name.insert(name, Py::new(py, AsyncQueue::new(queue))?);
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
