//! A message that was pulled.

use std::sync::Arc;

use super::{Topic, parts_of};
use crate::script::PulledMessage;
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::time::Millis;

/// A message that a member has pulled. Until it is acked within its lease it is pulled again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message {
    /// `<ms since 1970>-<number in the topic>`.
    pub id: String,
    /// What was published.
    pub data: Data,
    /// When, by the server's clock.
    pub published_at: Millis,
    /// How often it was pulled, this time counted.
    pub deliveries: u64,
    topic: Topic,
    member: String,
    tag: Arc<str>,
}

/// What has come in the place of a message.
pub(super) struct Unreadable {
    pub(super) id: String,
    pub(super) error: Error,
}

impl Message {
    pub(super) fn of(topic: &Topic, member: &str, pulled: PulledMessage) -> Result<Self, Box<Unreadable>> {
        let PulledMessage { id, pulled: deliveries, data, tag } = pulled;
        let Some((published_at, _)) = parts_of(&id) else {
            let message = "a message has an id that duly did not give it";
            return Err(Box::new(Unreadable { id, error: Error::new(ErrorKind::Corrupt, message) }));
        };
        match Data::from_json(data, usize::MAX) {
            Ok(data) => {
                let (topic, member) = (topic.clone(), member.to_owned());
                Ok(Self { id, data, published_at, deliveries, topic, member, tag })
            }
            Err(error) => {
                let message = format!(
                    "the data of message {id} is not JSON, another program wrote it: ack this id to pass over it"
                );
                let error = Error::new(ErrorKind::Corrupt, message).caused_by(error);
                Err(Box::new(Unreadable { id, error }))
            }
        }
    }

    /// The name of its topic.
    pub fn topic(&self) -> &str {
        self.topic.name()
    }

    /// Who has pulled it.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Notes that it was read. Gives whether it was not acked before: false if its subscription has ended, also where there
    /// is a newer one of that name. Many are acked with one call by [`Topic::ack`].
    ///
    /// Errors: as [`Topic::ack`].
    pub async fn ack(&self) -> Result<bool, Error> {
        Ok(self.topic.ack_of(&self.member, &self.tag, &[&self.id]).await? > 0)
    }
}
