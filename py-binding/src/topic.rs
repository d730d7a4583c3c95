//! `duly.Topic` and `duly.Message`, their asyncio twins, and what looking at a topic gives.

use std::future::Future;
use std::sync::Arc;

use duly::{Bounds, DEFAULT_BOUNDS, Data, Error, MAX_PUBLISH, Millis, PullOptions, SubscribeOptions, blocking};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString, PyTuple};

use crate::aio::start;
use crate::convert::{self, Ids, Member, Name, Start, Text};
use crate::error::{Failure, OrRaise as _, invalid};
use crate::message::{AsyncMessage, Message};
use crate::new_job::json;
use crate::queue::object;
use crate::waiting::wait;

/// A topic: messages that every subscription gets, each at its own pace.
///
/// Created by `client.topic(name)`; safe to share between threads. A message stays until all subscriptions have read
/// it, within the bounds of the topic. A subscription that has not read what goes beyond them is cut off: its members
/// get CutOffError until they subscribe again.
#[pyclass(frozen, module = "duly")]
#[derive(Clone)]
pub(crate) struct Topic {
    topic: blocking::Topic,
}

/// The asyncio version of `Topic`: each method returns a `Call`.
#[pyclass(frozen, module = "duly._core")]
#[derive(Clone)]
pub(crate) struct AsyncTopic {
    topic: blocking::Topic,
}

impl Topic {
    const CLASS: &str = "duly.Topic";

    pub(crate) fn call<T: Send, F: Future<Output = Result<T, Error>>>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<duly::Topic>) -> F + Send,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        wait(py, |signals| self.topic.wait_for(call, signals)).and_then(|given| finish(py, given))
    }
}

impl AsyncTopic {
    const CLASS: &str = "duly.aio.Topic";

    pub(crate) fn call<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<duly::Topic>) -> F,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        start(py, call(self.topic.inner().or_raise()?), finish).map(Bound::unbind)
    }
}

/// The verbs, which both topics have: `call` waits in the one, and starts in the other.
macro_rules! verbs {
    ($class:ident, $message:ident) => {
        impl $class {
            pub(crate) fn new(topic: blocking::Topic) -> Self {
                Self { topic }
            }

            fn given(&self, py: Python<'_>, messages: Vec<duly::Message>) -> PyResult<Py<PyAny>> {
                let of = |message| $message::new(message, self.clone());
                object(py, messages.into_iter().map(of).collect::<Vec<_>>())
            }
        }

        #[pymethods]
        impl $class {
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
            #[pyo3(signature = (member, *, subscription=None, from_=None), text_signature = "($self, member, *, subscription=None, from_='latest')")]
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
                self.call(py, subscribe, |py, made| object(py, made))
            }

            /// End a membership, and return whether there was one.
            ///
            /// What the member has pulled and not acked goes to the others of its subscription. With the last member the
            /// subscription ends.
            fn unsubscribe(&self, py: Python<'_>, member: Text<Member>) -> PyResult<Py<PyAny>> {
                let unsubscribe = |topic: Arc<duly::Topic>| async move { topic.unsubscribe(&member).await };
                self.call(py, unsubscribe, |py, was| object(py, was))
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
                let (options, of) = (pull_options(max, wait, lease)?, self.clone());
                let pull = |topic: Arc<duly::Topic>| async move { topic.pull(&member, &options).await };
                self.call(py, pull, move |py, messages| of.given(py, messages))
            }

            /// Note that a member has read messages; return how many of them were not acked before.
            ///
            /// It may be repeated. Raises what `pull` raises.
            ///
            /// Args:
            ///     member: its name.
            ///     messages: the messages, or their ids.
            #[pyo3(signature = (member, *messages))]
            fn ack(&self, py: Python<'_>, member: Text<Member>, messages: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
                let ids = messages.iter().map(|message| id_of(self.name(), &message)).collect::<PyResult<Vec<_>>>()?;
                let ack = |topic: Arc<duly::Topic>| async move { topic.ack(&member, &ids).await };
                self.call(py, ack, |py, acked| object(py, acked))
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

            /// Set what the topic keeps at most, from the next message on. Who has not read what goes is cut off.
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
    };
}

verbs! { Topic, Message }
verbs! { AsyncTopic, AsyncMessage }

/// The answer of a publish.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Published {
    ids: Vec<String>,
    cut_off: Vec<String>,
}

impl From<duly::Published> for Published {
    fn from(published: duly::Published) -> Self {
        Self { ids: published.ids, cut_off: published.cut_off }
    }
}

#[pymethods]
impl Published {
    /// The id of the last message, which is the only one of `publish`.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.ids.last().map(String::as_str)
    }

    fn __repr__(&self) -> String {
        format!("<duly.Published: {} messages>", self.ids.len())
    }
}

/// The state of a topic, by the server's clock. Times are in seconds.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct TopicInfo {
    published: u64,
    messages: u64,
    bytes: u64,
    oldest_at: Option<f64>,
    max_age: f64,
    max_messages: u64,
    max_bytes: u64,
    subscriptions: Vec<Subscription>,
    cut_off: Vec<CutOff>,
}

/// How far a subscription is.
#[pyclass(frozen, get_all, module = "duly")]
#[derive(Clone)]
pub(crate) struct Subscription {
    name: String,
    read: u64,
    unread: u64,
    pulled: u64,
    members: Vec<SubscriptionMember>,
}

/// A member of a subscription.
#[pyclass(frozen, get_all, module = "duly")]
#[derive(Clone)]
pub(crate) struct SubscriptionMember {
    name: String,
    subscription: String,
    silent_for: f64,
    pulled: u64,
    behind: u64,
    is_cut_off: bool,
}

impl From<duly::Member> for SubscriptionMember {
    fn from(member: duly::Member) -> Self {
        Self {
            name: member.name,
            subscription: member.subscription,
            silent_for: member.silent_for.as_secs_f64(),
            pulled: member.pulled,
            behind: member.behind,
            is_cut_off: member.is_cut_off,
        }
    }
}

/// A subscription that has lost messages.
#[pyclass(frozen, get_all, module = "duly")]
#[derive(Clone)]
pub(crate) struct CutOff {
    name: String,
    at: f64,
    first: u64,
    last: u64,
}

impl From<duly::TopicInfo> for TopicInfo {
    fn from(info: duly::TopicInfo) -> Self {
        let subscription = |of: duly::Subscription| Subscription {
            name: of.name,
            read: of.read,
            unread: of.unread,
            pulled: of.pulled,
            members: of.members.into_iter().map(SubscriptionMember::from).collect(),
        };
        let cut_off =
            |of: duly::CutOff| CutOff { name: of.name, at: of.at.as_seconds(), first: of.first, last: of.last };
        Self {
            published: info.published,
            messages: info.messages,
            bytes: info.bytes,
            oldest_at: info.oldest_at.map(Millis::as_seconds),
            max_age: info.bounds.age.as_secs_f64(),
            max_messages: info.bounds.messages,
            max_bytes: info.bounds.bytes,
            subscriptions: info.subscriptions.into_iter().map(subscription).collect(),
            cut_off: info.cut_off.into_iter().map(cut_off).collect(),
        }
    }
}

#[pymethods]
impl TopicInfo {
    fn __repr__(&self) -> String {
        let Self { messages, published, subscriptions, .. } = self;
        format!("<duly.TopicInfo: {messages} of {published} messages, {} subscriptions>", subscriptions.len())
    }
}

#[pymethods]
impl Subscription {
    fn __repr__(&self) -> String {
        let Self { name, unread, pulled, .. } = self;
        format!("<duly.Subscription {name:?}: {unread} unread, {pulled} pulled>")
    }
}

#[pymethods]
impl SubscriptionMember {
    fn __repr__(&self) -> String {
        format!("<duly.SubscriptionMember {:?} of {:?}: {} behind>", self.name, self.subscription, self.behind)
    }
}

#[pymethods]
impl CutOff {
    fn __repr__(&self) -> String {
        format!("<duly.CutOff {:?}: {} to {}>", self.name, self.first, self.last)
    }
}

pub(crate) fn pull_options(
    max: Option<&Bound<'_, PyAny>>,
    wait: Option<&Bound<'_, PyAny>>,
    lease: Option<&Bound<'_, PyAny>>,
) -> Result<PullOptions, Failure> {
    let mut options = PullOptions::new();
    if let Some(max) = max {
        options = options.max(convert::whole("max", max, 1..=MAX_PUBLISH as u64)?);
    }
    if let Some(wait) = wait {
        options = options.wait(convert::duration("wait", wait)?);
    }
    if let Some(lease) = lease {
        options = options.lease(convert::lease(lease)?);
    }
    Ok(options)
}

/// The id of a message of this topic: another topic may have one of the same id.
fn id_of(topic: &str, message: &Bound<'_, PyAny>) -> PyResult<String> {
    let given = match (message.cast::<Message>(), message.cast::<AsyncMessage>()) {
        (Ok(message), _) => Some((message.get().topic(), message.get().id())),
        (_, Ok(message)) => Some((message.get().topic(), message.get().id())),
        _ => None,
    };
    if let Some((of, id)) = given {
        let other = || invalid(format!("the message {id} is of the topic '{of}', not of '{topic}'"));
        return if of == topic { Ok(id.to_owned()) } else { Err(Failure::from(other()).into()) };
    }
    if !message.is_instance_of::<PyString>() {
        return Err(convert::of_wrong_type("messages", "messages or their ids", message));
    }
    message.extract::<Text<Ids>>().map(Text::into_string)
}
