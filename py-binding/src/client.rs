//! `duly.Client`.

use duly::blocking;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert::{self, Member, Name, Text};
use crate::error::{Failure, OrRaise as _};
use crate::job::Job;
use crate::lock::{Lock, lock_options};
use crate::message::Message;
use crate::queue::{Queue, reserve_options};
use crate::select;
use crate::settings;
use crate::topic::{Topic, pull_options};
use crate::waiting::{Signals, wait};

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
///         Default: the environment variable `DULY_DEADLINE`, or else 2 s in a process that answers web requests (decided
///         at the first call), and 15 s elsewhere.
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

    /// Return the queue of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn queue(&self, name: Text<Name>) -> PyResult<Queue> {
        self.client.queue(&name).map(Queue::new).or_raise()
    }

    /// Return a queue in 1 to 256 parts, `name/0`, `name/1`, ...; all clients must use the same `count`.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn partitions(&self, name: Text<Name>, count: &Bound<'_, PyAny>) -> PyResult<Queue> {
        let count = convert::whole("count", count, 1..=duly::MAX_PARTITIONS.into()).map_err(Failure::from)?;
        self.client.partitioned_queue(&name, count).map(Queue::new).or_raise()
    }

    /// Return the topic of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn topic(&self, name: Text<Name>) -> PyResult<Topic> {
        self.client.topic(&name).map(Topic::new).or_raise()
    }

    /// Return the names of the topics that this member has subscribed to.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn topics_of(&self, py: Python<'_>, member: Text<Member>) -> PyResult<Vec<String>> {
        wait(py, |signals| self.client.topics_of(&member, signals))
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
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn pull(
        &self,
        py: Python<'_>,
        member: Text<Member>,
        max: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Message>> {
        let options = pull_options(max, wait, lease)?;
        let messages = crate::waiting::wait(py, |signals| self.client.pull(&member, &options, signals))?;
        messages.into_iter().map(|message| Message::of(&self.client, message)).collect()
    }

    /// Take the lock of this name, or wait until it is free, and return it.
    ///
    /// `with client.lock("stock:42", wait=10) as lock:` releases it at the end. It is renewed by a native thread until
    /// then, also while Python is busy. Raises LockedError if another one holds it when the wait is over.
    ///
    /// Args:
    ///     name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
    ///     ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
    ///     wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.
    #[pyo3(signature = (name, *, ttl=None, wait=None))]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn lock(
        &self,
        py: Python<'_>,
        name: Text<Name>,
        ttl: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Lock> {
        let options = lock_options(ttl, wait)?;
        crate::waiting::wait(py, |signals| self.client.lock(&name, &options, signals)).map(Lock::new)
    }

    /// Close the connections of this client and its queues; later calls raise InvalidArgumentError.
    ///
    /// `with duly.Client() as client:` closes it at the end. A worker has connections of its own and keeps running.
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
    fn reserve_from(
        &self,
        py: Python<'_>,
        queues: &Bound<'_, PyAny>,
        max: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<Job>>> {
        let options = reserve_options(max, wait, lease)?;
        let (names, selection) = select::names(queues)?;
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
