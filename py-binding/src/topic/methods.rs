//! The methods of a topic, compiled twice: for `duly.Topic`, where a `call` waits, and for `duly.aio.Topic`, where it starts.
//!
//! The parent module says which classes `Topic` and `Message` are here, and what `call` is.

use std::sync::Arc;

use duly::{Bounds, DEFAULT_BOUNDS, Data, SubscribeOptions, blocking};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString, PyTuple};

use super::{Message, Topic};
use crate::convert::{self, Member, Name, Start, Text};
use crate::error::{Failure, OrRaise as _, invalid};
use crate::new_job::json;
use crate::queue::object;
use crate::topic::info::{SubscriptionMember, TopicInfo};
use crate::topic::{Published, id_of, pull_options};

impl Topic {
    pub(crate) fn new(topic: blocking::Topic) -> Self {
        Self { topic }
    }
}

#[pymethods]
impl Topic {
    #[getter]
    fn name(&self) -> &str {
        self.topic.name()
    }

    /// Publish a message and return what was published.
    ///
    /// It is published once however often the call has to be sent; after a DulyTimeoutError it may have been.
    ///
    /// Args:
    ///     data: what can be the data of a job; as JSON at most the client's `max_data_bytes` (1 MiB). Default:
    ///         None.
    ///     raw: the data as bytes of JSON, kept byte for byte, instead of `data`. Default: none.
    ///
    /// Raises:
    ///     InvalidArgumentError: the data cannot be JSON. Nothing was sent.
    ///     TooLargeError: the data is too large. Nothing was sent.
    ///     StorageFullError: the server has no room. Nothing was stored.
    #[pyo3(signature = (data=None, *, raw=None))]
    fn publish(
        &self,
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        raw: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let data = vec![Data::from_json(json(data, raw).or_raise()?, usize::MAX).or_raise()?];
        let publish = |topic: Arc<duly::Topic>| async move { topic.publish_all(&data).await };
        self.call(py, publish, |py, published| object(py, Published::from(published)))
    }

    /// Publish 1 to 1,000 messages of at most 4 MiB together, in order and without others between.
    ///
    /// Raises what `publish` raises; then none is published.
    fn publish_all(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        // What can be iterated, and is one message rather than many.
        if data.is_instance_of::<PyString>()
            || data.is_instance_of::<PyBytes>()
            || data.is_instance_of::<PyByteArray>()
            || data.is_instance_of::<PyDict>()
        {
            let what = data.get_type().name()?;
            let message = format!("publish_all takes several messages, such as a list, not one {what}: use publish");
            return Err(PyTypeError::new_err(message));
        }
        let all = data.try_iter()?.map(|data| {
            let json = convert::to_json(&data?).map_err(Failure::from)?;
            Data::from_json(json, usize::MAX).or_raise()
        });
        let data = all.collect::<PyResult<Vec<_>>>()?;
        let publish = |topic: Arc<duly::Topic>| async move { topic.publish_all(&data).await };
        self.call(py, publish, |py, published| object(py, Published::from(published)))
    }

    /// Make a member, and return whether its subscription is new; one that is there stays where it is.
    ///
    /// Args:
    ///     member: its name, 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
    ///     subscription: a name that other members use, too: each message goes to one of them. Default: the member's
    ///         name, so a subscription of its own.
    ///     from_: where a new subscription begins: "latest", so with the next message, or "earliest", with the oldest
    ///         one that is still there. Default: "latest".
    ///
    /// Raises:
    ///     InvalidArgumentError: an argument is wrong, or the member has another subscription to this topic.
    #[pyo3(
        signature = (member, *, subscription=None, from_=None),
        text_signature = "($self, member, *, subscription=None, from_='latest')"
    )]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn subscribe(
        &self,
        py: Python<'_>,
        member: Text<Member>,
        subscription: Option<Text<Name>>,
        from_: Option<Text<Start>>,
    ) -> PyResult<Py<PyAny>> {
        let mut options = SubscribeOptions::new();
        if let Some(name) = subscription {
            options = options.subscription(&name);
        }
        match from_.as_deref() {
            None | Some("latest") => {}
            Some("earliest") => options = options.from_earliest(),
            Some(_) => return Err(Failure::from(invalid("from_ must be 'latest' or 'earliest'")).into()),
        }
        let subscribe = |topic: Arc<duly::Topic>| async move { topic.subscribe(&member, &options).await };
        self.call(py, subscribe, object)
    }

    /// End a membership, and return whether there was one.
    ///
    /// What the member has pulled and not acked goes to the others of its subscription. With the last member the
    /// subscription ends.
    fn unsubscribe(&self, py: Python<'_>, member: Text<Member>) -> PyResult<Py<PyAny>> {
        let unsubscribe = |topic: Arc<duly::Topic>| async move { topic.unsubscribe(&member).await };
        self.call(py, unsubscribe, object)
    }

    /// Return messages for a member, oldest first; a message that is not acked within its lease comes again.
    ///
    /// Args:
    ///     member: its name.
    ///     max: the most messages to return, 1 to 1,000; fewer when they make up about 4 MiB. Default: 100.
    ///     wait: how long to wait if there are none, in seconds or as a timedelta, a year at most. Default: 0.
    ///     lease: how long the member has for its acks, in seconds or as a timedelta, 0.001 s to 24 h. That of its last
    ///         pull counts for all that it has pulled. Default: 30 s.
    ///
    /// Raises:
    ///     NotFoundError: it has not subscribed.
    ///     CorruptError: there is only a message that is not JSON; ack the id that it names to pass over it.
    ///         What else was pulled comes first, and the next pull raises it.
    ///     CutOffError: messages went that its subscription had not read. The text says which; subscribe again.
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
        let (options, topic) = (pull_options(max, wait, lease)?, self.clone());
        let pull = |topic: Arc<duly::Topic>| async move { topic.pull(&member, &options).await };
        self.call(py, pull, move |py, messages| {
            let of = |message| Message::new(message, topic.clone());
            object(py, messages.into_iter().map(of).collect::<Vec<_>>())
        })
    }

    /// Note that a member has read messages; return how many of them its subscription had pulled and not acked.
    ///
    /// It is the subscription that this client has pulled from as that member, and no newer one of its name; where it
    /// has not pulled, the one that the member has now. It may be repeated. Raises what `pull` raises.
    ///
    /// Args:
    ///     member: its name.
    ///     messages: the messages, or their ids.
    #[pyo3(signature = (member, *messages))]
    fn ack(&self, py: Python<'_>, member: Text<Member>, messages: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let ids = messages.iter().map(|message| id_of(self.name(), &message)).collect::<PyResult<Vec<_>>>()?;
        let ack = |topic: Arc<duly::Topic>| async move { topic.ack(&member, &ids).await };
        self.call(py, ack, object)
    }

    /// Return how much is there, who reads it, and how far each is.
    fn info(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let info = |topic: Arc<duly::Topic>| async move { topic.info().await };
        self.call(py, info, |py, info| object(py, TopicInfo::from(info)))
    }

    /// Return its members, by name: the subscription of each, how far behind it is, and for how long it was silent.
    ///
    /// Those of a subscription that was cut off are among them.
    fn members(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let members = |topic: Arc<duly::Topic>| async move { topic.members().await };
        self.call(py, members, |py, members| {
            object(py, members.into_iter().map(SubscriptionMember::from).collect::<Vec<_>>())
        })
    }

    /// Set how many messages the topic keeps, and for how long, from the next message on.
    ///
    /// Older messages are removed. A subscription that had not read all of them is cut off.
    ///
    /// Args:
    ///     age: how long a message is kept, in seconds or as a timedelta, 1 s to 10 years. Default: 7 days.
    ///     messages: how many are kept, at least 1. Default: 1,000,000.
    ///     bytes: how many bytes of data are kept, at least 1; the last message stays. Default: 100,000,000.
    #[pyo3(signature = (*, age=None, messages=None, bytes=None))]
    fn set_bounds(
        &self,
        py: Python<'_>,
        age: Option<&Bound<'_, PyAny>>,
        messages: Option<&Bound<'_, PyAny>>,
        bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let mut bounds: Bounds = DEFAULT_BOUNDS;
        if let Some(age) = age {
            bounds.age = convert::duration("age", age)?;
        }
        let most = 1..=convert::MAX_COUNT;
        if let Some(messages) = messages {
            bounds.messages = convert::whole("messages", messages, most.clone()).map_err(Failure::from)?;
        }
        if let Some(bytes) = bytes {
            bounds.bytes = convert::whole("bytes", bytes, most).map_err(Failure::from)?;
        }
        self.call(py, |topic| async move { topic.set_bounds(bounds).await }, |py, ()| Ok(py.None()))
    }

    /// Remove the topic with its messages, subscriptions and bounds.
    fn delete(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |topic| async move { topic.delete().await }, |py, ()| Ok(py.None()))
    }

    fn __repr__(&self) -> String {
        format!("<{} {:?}>", Self::CLASS, self.name())
    }
}
