//! What `Topic.info` and `Topic.members` give.

use duly::Millis;
use pyo3::prelude::*;

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
