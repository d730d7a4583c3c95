//! `Duly\Topic`, and the calls of a client on all topics of a member.

mod info;

pub use info::{CutOff, Member, Subscription, TopicInfo};

use std::time::Duration;

use duly::blocking;
use duly::{Bounds, DEFAULT_BOUNDS, Data, MAX_PUBLISH, PullOptions, SubscribeOptions};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::call::Guarded;
use crate::client::Client;
use crate::convert::{self, Text, given, millis, span, utf8, values, whole};
use crate::error::Fault;
use crate::message::{self, Message, Published};
use crate::record::signed;
use crate::waiting::Signals;

/// Where a new subscription begins unless it says otherwise.
const LATEST: &str = "latest";

/// A topic of a client.
#[php_class]
#[php(name = "Duly\\Topic")]
#[php(flags = ClassFlags::Final)]
pub struct Topic {
    topic: blocking::Topic,
}

#[php_impl]
impl Topic {
    /// The topic's name.
    #[php(getter)]
    pub fn name(&self) -> String {
        self.topic.name().to_owned()
    }

    /// Publishes one message; `raw` is data that is JSON already, in place of `data`.
    #[php(optional = data)]
    pub fn publish(&self, data: Option<&Zval>, raw: Option<&Zval>) -> PhpResult<Published> {
        Ok(self.call("publish", || self.published(&[convert::data(data, raw)?]))?)
    }

    /// Publishes a message for each value, 1 to 1,000, with one call.
    pub fn publish_all(&self, data: &ZendHashTable) -> PhpResult<Published> {
        Ok(self.call("publish", || self.published(&each_data(data)?))?)
    }

    /// Makes a member; gives whether its subscription is new.
    #[php(defaults(from = LATEST))]
    pub fn subscribe(&self, member: Text, subscription: Option<Text>, from: Text) -> PhpResult<bool> {
        Ok(self.call("subscribe", || {
            let (member, options) = (member.utf8("member")?, subscribe_options(subscription, from)?);
            self.topic.wait_for(|topic| async move { topic.subscribe(&member, &options).await }, &mut Signals)
        })?)
    }

    /// Ends a membership; gives whether it was a member.
    pub fn unsubscribe(&self, member: Text) -> PhpResult<bool> {
        Ok(self.call("unsubscribe", || {
            let member = member.utf8("member")?;
            self.topic.wait_for(|topic| async move { topic.unsubscribe(&member).await }, &mut Signals)
        })?)
    }

    /// Leases up to `max` messages. An empty list when there is none until `wait` seconds are over.
    #[php(defaults(max = 100))]
    pub fn pull(&self, member: Text, max: i64, wait: Option<&Zval>, lease: Option<&Zval>) -> PhpResult<Vec<Message>> {
        Ok(self.call("pull", || {
            let (member, options) = (member.utf8("member")?, pull_options(max, wait, lease)?);
            let (who, how) = (&member, &options);
            let messages = self.topic.wait_for(|topic| async move { topic.pull(who, how).await }, &mut Signals)?;
            Ok(messages.into_iter().map(|message| Message::new(message, self.topic.clone(), &member)).collect())
        })?)
    }

    /// Notes that a member has read these messages; gives how many of them its subscription had pulled and not acked.
    pub fn ack(&self, member: Text, messages: &ZendHashTable) -> PhpResult<i64> {
        Ok(self.call("ack", || {
            let (member, ids) = (member.utf8("member")?, message::ids_of(messages, self.topic.name())?);
            Ok(signed(message::ack(&self.topic, &member, &ids)?))
        })?)
    }

    /// How much is here, who reads it, and how far each is.
    pub fn info(&self) -> PhpResult<TopicInfo> {
        Ok(self.call("info", || {
            let info = self.topic.wait_for(|topic| async move { topic.info().await }, &mut Signals)?;
            Ok(info.into())
        })?)
    }

    /// Its members, by name: the subscription of each, how far behind it is, and for how long it was silent.
    pub fn members(&self) -> PhpResult<Vec<Member>> {
        Ok(self.call("members", || {
            let members = self.topic.wait_for(|topic| async move { topic.members().await }, &mut Signals)?;
            Ok(members.into_iter().map(Member::from).collect())
        })?)
    }

    /// Sets what the topic keeps at most; null is the default of that bound.
    #[php(optional = age)]
    pub fn set_bounds(&self, age: Option<&Zval>, messages: Option<i64>, bytes: Option<i64>) -> PhpResult<()> {
        Ok(self.call("set_bounds", || {
            let bounds = bounds(age, messages, bytes)?;
            self.topic.wait_for(|topic| async move { topic.set_bounds(bounds).await }, &mut Signals)
        })?)
    }

    /// Removes the topic with its messages, subscriptions and bounds.
    pub fn delete(&self) -> PhpResult<()> {
        Ok(self.call("delete", || self.topic.wait_for(|topic| async move { topic.delete().await }, &mut Signals))?)
    }
}

impl Topic {
    /// Its faults say which call it was, and of which topic.
    fn call<T>(&self, operation: &'static str, call: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        call().map_err(|fault| fault.of_topic(operation, self.topic.name()))
    }

    fn published(&self, data: &[Data]) -> Result<Published, Fault> {
        let published = self.topic.wait_for(|topic| async move { topic.publish_all(data).await }, &mut Signals)?;
        Ok(published.into())
    }
}

// What the methods of a client do, outside of the macro.
impl Client {
    pub fn topic_of(&self, name: Text) -> Result<Topic, Fault> {
        Ok(Topic { topic: self.blocking()?.topic(&name.utf8("name")?)? })
    }

    pub fn names_of_topics(&self, member: Text) -> Result<Vec<String>, Fault> {
        self.blocking()?.topics_of(&member.utf8("member")?, &mut Signals)
    }

    pub fn pull_all(
        &self,
        member: Text,
        max: i64,
        wait: Option<&Zval>,
        lease: Option<&Zval>,
    ) -> Result<Vec<Message>, Fault> {
        let (member, options) = (member.utf8("member")?, pull_options(max, wait, lease)?);
        let client = self.blocking()?;
        let messages = client.pull(&member, &options, &mut Signals)?;
        let of_topic = |message: duly::Message| {
            let topic = client.topic(message.topic())?;
            Ok(Message::new(message, topic, &member))
        };
        messages.into_iter().map(of_topic).collect()
    }
}

/// Runs PHP code (`JsonSerializable`), which may change what elements refer to: each is held meanwhile.
fn each_data(data: &ZendHashTable) -> Result<Vec<Data>, Fault> {
    let encode = |(index, value)| {
        let value = Guarded::of(value);
        let data = convert::data_at(index, &value)?;
        value.release().map(|()| data)
    };
    values(data).enumerate().map(encode).collect()
}

fn subscribe_options(subscription: Option<Text>, from: Text) -> Result<SubscribeOptions, Fault> {
    let mut options = SubscribeOptions::new();
    if let Some(subscription) = utf8("subscription", subscription)? {
        options = options.subscription(&subscription);
    }
    match from.utf8("from")?.as_str() {
        LATEST => Ok(options),
        "earliest" => Ok(options.from_earliest()),
        _ => Err(Fault::invalid("from must be 'latest' or 'earliest'")),
    }
}

fn pull_options(max: i64, wait: Option<&Zval>, lease: Option<&Zval>) -> Result<PullOptions, Fault> {
    let largest = i64::try_from(MAX_PUBLISH).unwrap_or(i64::MAX);
    let options = PullOptions::new().max(whole("max", max, largest)?).wait(span("wait", wait, Duration::ZERO)?);
    let lease = given(lease).map(|lease| millis("lease", lease)).transpose()?;
    Ok(match lease {
        Some(lease) => options.lease(lease.to_duration()),
        None => options,
    })
}

fn bounds(age: Option<&Zval>, messages: Option<i64>, bytes: Option<i64>) -> Result<Bounds, Fault> {
    let bound = |name, number: Option<i64>, default| number.map_or(Ok(default), |number| whole(name, number, i64::MAX));
    Ok(Bounds {
        age: span("age", age, DEFAULT_BOUNDS.age)?,
        messages: bound("messages", messages, DEFAULT_BOUNDS.messages)?,
        bytes: bound("bytes", bytes, DEFAULT_BOUNDS.bytes)?,
    })
}
