//! Pulling from a topic, with the command that serves all topics of a slot.

use std::time::{Duration, Instant};

use super::message::Unreadable;
use super::{MAX_PUBLISH, Message, Topic, member_only};
use crate::process::host;
use crate::queue::{KeptFailure, MAX_LEASE, Pulled};
use crate::script::{Declared, Digits, Pull, PulledMessage, TopicKeys, unexpected};
use crate::value::error::Error;
use crate::value::name;
use crate::value::time::{LONGEST_WAIT, whole_ms};

/// About so many bytes of messages come with one call.
pub(super) const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How long a member has for its acks unless it says otherwise.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// How messages are pulled.
#[derive(Debug, Clone)]
pub struct PullOptions {
    pub(super) max: usize,
    pub(super) wait: Duration,
    pub(super) lease: Duration,
}

impl PullOptions {
    /// 100 messages at most, without waiting, leased for 30 s.
    pub fn new() -> Self {
        Self { max: 100, wait: Duration::ZERO, lease: DEFAULT_LEASE }
    }

    /// How many messages at most, 1 to 1,000. About 4 MB come at once, so there may be fewer.
    #[must_use]
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// How long to wait if there are none (default: not at all).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long the member has for its acks, 1 ms to 24 h (default 30 s): behind it the messages are pulled anew. That of its last pull
    /// counts for all that it has pulled.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if !(1..=MAX_PUBLISH).contains(&self.max) {
            return Err(Error::invalid(format!("a pull asks for 1 to {MAX_PUBLISH} messages, not {}", self.max)));
        }
        if !(Duration::from_millis(1)..=MAX_LEASE).contains(&self.lease) {
            return Err(Error::invalid("the lease of messages is 1 ms to 24 h"));
        }
        Ok(())
    }
}

impl Default for PullOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Topic {
    /// Messages for a member, oldest first: before all others those that were pulled and not acked within their lease. Who shares a
    /// subscription gets what the others have not got.
    ///
    /// Errors: `NotFound` for who has not subscribed; `CutOff` if messages went that this subscription had not read: the message says
    /// which, and [`Self::subscribe`] begins anew, [from the earliest](super::SubscribeOptions::from_earliest) with what is left; `Corrupt`
    /// for a message that is not JSON, which another program has written: others come first, and an [ack](Self::ack) of its id passes over
    /// it.
    pub async fn pull(&self, member: &str, options: &PullOptions) -> Result<Vec<Message>, Error> {
        name::check_topic(member).and_then(|()| options.check()).map_err(self.during("pull"))?;
        let until = Instant::now() + options.wait.min(LONGEST_WAIT);
        let room = Room { most: options.max, max_bytes: MOST_BYTES };
        let held = &self.part.client.shared.pulls;
        if let Some(failure) = held.take_failure(member, Some(self.name())) {
            return Err(failure.into_error());
        }
        loop {
            let pulled = self.pull_once(member, options, room).await?;
            let pulled = member_only(member, pulled).map_err(self.during("pull"))?;
            let calls = pulled.calls;
            let (messages, failed) = self.messages(member, pulled.messages);
            match failed {
                Some(failure) if messages.is_empty() => return Err(failure.into_error()),
                Some(failure) => held.keep_failure(member, failure),
                None => {}
            }
            if !messages.is_empty() || Instant::now() >= until {
                return Ok(messages);
            }
            self.part.client.wait_for_messages(&[(self.clone(), calls)], until).await?;
        }
    }

    async fn pull_once(&self, member: &str, options: &PullOptions, room: Room) -> Pulled {
        pull_with_one_command(member, &[self], options, room).await?.pop().unwrap_or_else(|| Err(unexpected("a topic")))
    }

    /// Those that can be read; and the error of those that cannot, which hide no other.
    pub(super) fn messages(&self, member: &str, pulled: Vec<PulledMessage>) -> (Vec<Message>, Option<KeptFailure>) {
        if let Some(first) = pulled.first() {
            self.part.client.shared.pulls.note_tag(member, self.name(), &first.tag);
        }
        let (mut messages, mut failed) = (Vec::with_capacity(pulled.len()), Vec::new());
        for one in pulled {
            match Message::of(self, member, one) {
                Ok(message) => messages.push(message),
                Err(one) => {
                    let Unreadable { id, error } = *one;
                    let error = self.during("pull")(error);
                    KeptFailure::add(&mut failed, KeptFailure::of_unreadable(self.name(), id, error));
                }
            }
        }
        (messages, failed.pop())
    }
}

/// How much a command may bring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) most: usize,
    pub(super) max_bytes: usize,
}

/// What each topic of a group gives.
pub(super) async fn pull_of(member: &str, group: &[Topic], options: &PullOptions, room: Room) -> Vec<Pulled> {
    let of_group: Vec<_> = group.iter().collect();
    let mut pulled = match pull_with_one_command(member, &of_group, options, room).await {
        Ok(pulled) => pulled,
        Err(error) => return vec![Err(error)],
    };
    for (topic, of_topic) in of_group.iter().zip(&mut pulled) {
        // Alone it gives the error itself.
        if of_topic.is_err() && group.len() > 1 {
            *of_topic = topic.pull_once(member, options, Room { most: 1, max_bytes: 1 }).await;
        }
    }
    pulled
}

async fn pull_with_one_command(
    member: &str,
    topics: &[&Topic],
    options: &PullOptions,
    room: Room,
) -> Result<Vec<Pulled>, Error> {
    let Some(first) = topics.first() else { return Ok(Vec::new()) };
    let pull = Pull {
        member: member.to_owned(),
        lease_ms: whole_ms(options.lease),
        again: Digits(0),
        call_id: host::random_id()?,
        most: room.most,
        max_bytes: room.max_bytes,
        topic_count: TopicKeys::of(topics.iter().map(|topic| topic.name())),
    };
    let reply = first.part.run(pull.with([])).await.map_err(first.during("pull"))?;
    if reply.0.len() != topics.len() {
        return Err(first.during("pull")(unexpected("one answer a topic")));
    }
    let named = topics.iter().zip(reply.0);
    Ok(named.map(|(topic, pulled)| pulled.map_err(topic.during("pull"))).collect())
}
