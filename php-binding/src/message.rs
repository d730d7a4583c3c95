//! `Duly\Message`, and what publishing gives: `Duly\Published`.

use duly::{Data, Millis, blocking};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert::{self, text, type_name, values};
use crate::error::Fault;
use crate::record::{record, signed};
use crate::waiting::Signals;

record! {
    /// What was published.
    Published = "Duly\\Published" {
        /// The id of each message, in order.
        ids: Vec<String>,
        /// The last of them: of `publish`, the only one.
        id: String,
        /// Subscriptions that were cut off by it.
        cut_off: Vec<String>,
    }
}

impl From<duly::Published> for Published {
    fn from(published: duly::Published) -> Self {
        let id = published.ids.last().cloned().unwrap_or_default();
        Self { ids: published.ids, id, cut_off: published.cut_off }
    }
}

/// A message that a member has pulled. It holds nothing of the process that pulled it: a forked child may ack it.
#[php_class]
#[php(name = "Duly\\Message")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct Message {
    id: String,
    data: Data,
    published_at: Millis,
    deliveries: u64,
    topic: blocking::Topic,
    member: String,
}

impl Message {
    pub fn new(message: duly::Message, topic: blocking::Topic, member: &str) -> Self {
        Self {
            id: message.id,
            data: message.data,
            published_at: message.published_at,
            deliveries: message.deliveries,
            topic,
            member: member.to_owned(),
        }
    }
}

#[php_impl]
impl Message {
    /// The message's id.
    #[php(getter)]
    pub fn id(&self) -> String {
        self.id.clone()
    }

    /// The name of its topic.
    #[php(getter)]
    pub fn topic(&self) -> String {
        self.topic.name().to_owned()
    }

    /// The data exactly as it was published, as JSON.
    #[php(getter)]
    pub fn raw(&self) -> String {
        self.data.as_str().to_owned()
    }

    /// When it was published, in unix seconds by the server's clock.
    #[php(getter)]
    pub fn published_at(&self) -> f64 {
        self.published_at.as_seconds()
    }

    /// How often it was pulled, this time counted.
    #[php(getter)]
    pub fn deliveries(&self) -> i64 {
        signed(self.deliveries)
    }

    /// The data as `json_decode` gives it: arrays, or objects with `assoc: false`.
    #[php(defaults(assoc = true))]
    pub fn data(&self, assoc: bool) -> PhpResult<Zval> {
        Ok(convert::decode_of("message", self.data.as_str(), assoc)?)
    }

    /// Notes that it was read; gives whether it was not acked before.
    pub fn ack(&self) -> PhpResult<bool> {
        Ok(ack(&self.topic, &self.member, &[&self.id])? > 0)
    }
}

pub fn ack<I: AsRef<str> + Sync>(topic: &blocking::Topic, member: &str, ids: &[I]) -> Result<u64, Fault> {
    topic.wait_for(|topic| async move { topic.ack(member, ids).await }, &mut Signals)
}

/// Messages of this topic, or their ids.
pub fn ids_of(messages: &ZendHashTable, topic: &str) -> Result<Vec<String>, Fault> {
    let id = |value: &Zval| match value.extract::<&Message>() {
        // Its id may be that of another message here.
        Some(Message { id, topic: other, .. }) if other.name() != topic => {
            Err(Fault::invalid(format!("the message '{id}' is of the topic '{}': ack it there", other.name())))
        }
        Some(message) => Ok(message.id.clone()),
        None if value.is_string() => text("the id of a message", value),
        None => {
            let found = type_name(value);
            Err(Fault::invalid(format!("messages must be a list of Duly\\Message or their ids, not of {found}")))
        }
    };
    values(messages).map(id).collect()
}
