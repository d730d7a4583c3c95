//! The methods of a client, compiled twice: for `duly.Client`, where a `call` waits, and for `duly.aio.Client`, where it starts.
//!
//! The parent module says which classes `Client`, `Queue`, `Topic` and `Message` are here, and what closes the client at the end of
//! a `with`.

use std::sync::Arc;

use duly::blocking;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{AtTheEnd, Client, Message, Queue, Topic};
use crate::convert::{self, Cursor, Member, Name, Text};
use crate::error::{Failure, OrRaise as _};
use crate::lock::lock_options;
use crate::operate::{QueuePage, TopicPage};
use crate::queue::{object, reserve_options};
use crate::select;
use crate::settings;
use crate::topic::pull_options;

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
    fn new(
        py: Python<'_>,
        url: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let client = blocking::Client::new(settings::builder(py, url, settings)?).or_raise()?;
        Ok(PyClassInitializer::from(AtTheEnd {}).add_subclass(Self { client }))
    }

    /// Make one round trip to the server.
    fn ping(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |client| async move { client.ping().await }, |py, ()| Ok(py.None()))
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

    /// Return a page of the queues that were used under this client's prefix, by name.
    ///
    /// A queue is listed with the first call of any client that pushes to it, reserves from it, or changes it in
    /// another way. One that is empty and was not used for 30 days is forgotten by this call.
    ///
    /// Args:
    ///     limit: the most queues of the page, 1 to 1,000.
    ///     cursor: that of the page before. Default: the first page.
    #[pyo3(signature = (limit=None, cursor=None), text_signature = "($self, limit=100, cursor=None)")]
    fn queues(
        &self,
        py: Python<'_>,
        limit: Option<&Bound<'_, PyAny>>,
        cursor: Option<Text<Cursor>>,
    ) -> PyResult<Py<PyAny>> {
        let limit = limit.map(|limit| convert::whole("limit", limit, 1..=duly::MAX_QUEUES as u64));
        let limit = limit.transpose().map_err(Failure::from)?.unwrap_or(100);
        let cursor = cursor.map(Text::into_string);
        let queues = move |client: Arc<duly::Client>| async move { client.queues(limit, cursor.as_deref()).await };
        self.call(py, queues, |py, page| object(py, QueuePage::from(page)))
    }

    /// Return the topic of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn topic(&self, name: Text<Name>) -> PyResult<Topic> {
        self.client.topic(&name).map(Topic::new).or_raise()
    }

    /// Return a page of the topics that were used under this client's prefix, by name.
    ///
    /// A topic is listed with the first message or subscription of any client. One without messages and subscriptions
    /// that was not used for 30 days is forgotten by this call.
    ///
    /// Args:
    ///     limit: the most topics of the page, 1 to 1,000.
    ///     cursor: that of the page before. Default: the first page.
    #[pyo3(signature = (limit=None, cursor=None), text_signature = "($self, limit=100, cursor=None)")]
    fn topics(
        &self,
        py: Python<'_>,
        limit: Option<&Bound<'_, PyAny>>,
        cursor: Option<Text<Cursor>>,
    ) -> PyResult<Py<PyAny>> {
        let limit = limit.map(|limit| convert::whole("limit", limit, 1..=duly::MAX_TOPICS as u64));
        let limit = limit.transpose().map_err(Failure::from)?.unwrap_or(100);
        let cursor = cursor.map(Text::into_string);
        let topics = move |client: Arc<duly::Client>| async move { client.topics(limit, cursor.as_deref()).await };
        self.call(py, topics, |py, page| object(py, TopicPage::from(page)))
    }

    /// Return the names of the topics that this member has subscribed to.
    fn topics_of(&self, py: Python<'_>, member: Text<Member>) -> PyResult<Py<PyAny>> {
        self.call(py, |client| async move { client.topics_of(&member).await }, object)
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
    fn pull(
        &self,
        py: Python<'_>,
        member: Text<Member>,
        max: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let options = pull_options(max, wait, lease)?;
        let blocking = self.client.clone();
        let pull = |client: Arc<duly::Client>| async move { client.pull(&member, &options).await };
        self.call(py, pull, move |py, messages| {
            let of = |message| Message::of(&blocking, message);
            object(py, messages.into_iter().map(of).collect::<PyResult<Vec<_>>>()?)
        })
    }

    /// Take the lock of this name, or wait until it is free, and return it.
    ///
    /// `with client.lock("stock:42", wait=10) as lock:` (`async with` in `duly.aio`) releases it at the end. It is
    /// renewed by a native thread until then, also while Python is busy. Raises LockedError if another one holds it
    /// when the wait is over.
    ///
    /// Args:
    ///     name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
    ///     ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
    ///     wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.
    #[pyo3(signature = (name, *, ttl=None, wait=None))]
    fn lock(
        &self,
        py: Python<'_>,
        name: Text<Name>,
        ttl: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.take_lock(py, name.into_string(), lock_options(ttl, wait)?)
    }

    /// Close the connections of this client and its queues; later calls raise InvalidArgumentError.
    ///
    /// `with duly.Client() as client:` (`async with` in `duly.aio`) closes it at the end. A worker has connections of
    /// its own and keeps running.
    fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.close_all(py)
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
    ) -> PyResult<Py<PyAny>> {
        let options = reserve_options(max, wait, lease)?;
        let (names, selection) = select::names(queues)?;
        let queue = |(name, weight): (String, u32)| self.client.queue(&name).map(|queue| (queue, weight));
        let queues = names.into_iter().map(queue).collect::<Result<Vec<_>, _>>().or_raise()?;
        self.reserve_up_to(py, queues, selection, options)
    }

    /// Settings may hold a password, so nothing of them is shown.
    #[expect(clippy::unused_self, reason = "as Python calls it")]
    fn __repr__(&self) -> &'static str {
        Self::SHOWN
    }
}
