//! Topics: messages that every subscription gets, each at its own pace.
//!
//! A topic is a Redis Stream, a subscription a consumer group, and its cursor moves by acks (*Redis in Action*, 6.5.2, "pull messaging";
//! Josiah Carlson, 2013, kept a sorted set of last-read numbers). What all subscriptions have read is removed. A subscription that nobody
//! reads would keep messages for ever: the bounds of the topic end it, and its members hear of that.

mod info;
mod list;
mod message;
mod pull;
mod pull_all;

pub use info::{CutOff, Member, Subscription, TopicInfo};
pub use list::{ListedTopic, MAX_TOPICS, TopicPage};
pub use message::Message;
pub use pull::PullOptions;

use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;

use crate::process::host;
use crate::queue::{Client, Part};
use crate::script::{
    self, Ack, Bound, CutOffReply, Declared, DeleteTopic, Digits, ExamineTopic, ForgetTopic, IsMember, Membership,
    NoteTopic, PublishMessages, Subscribe, SubscribeReply, TopicKeys, TopicReply, Unregister, Unsubscribe,
    UnsubscribeReply, use_of_queue,
};
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::plural::counted;
use crate::value::time::{Millis, whole_ms};

/// The most messages of one call that publishes, and of one that pulls.
pub const MAX_PUBLISH: usize = 1000;
const MOST_BYTES_PUBLISHED: usize = 4 * 1024 * 1024;
/// What a topic keeps at most. Older messages are removed; a subscription that had not read all of them is
/// [cut off](ErrorKind::CutOff).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How long messages are kept, 1 s to 10 years.
    pub age: Duration,
    /// How many messages are kept, at least 1.
    pub messages: u64,
    /// How many bytes of messages are kept, at least 1. The last message stays, however large it is.
    pub bytes: u64,
}

/// Seven days, a million messages, 100 MB.
pub const DEFAULT_BOUNDS: Bounds =
    Bounds { age: Duration::from_secs(7 * 24 * 3600), messages: 1_000_000, bytes: 100_000_000 };
const SHORTEST_AGE: Duration = Duration::from_secs(1);
/// Begins the tag of a subscription that is being made or ended.
const ON_THE_WAY: &str = "-";
const LONGEST_AGE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Default for Bounds {
    fn default() -> Self {
        DEFAULT_BOUNDS
    }
}

impl Bounds {
    fn check(&self) -> Result<(), Error> {
        if !(SHORTEST_AGE..=LONGEST_AGE).contains(&self.age) {
            return Err(Error::invalid("the age of messages is 1 s to 10 years"));
        }
        // Numbers stay exact in the server's Lua.
        if !(1..=1 << 53).contains(&self.messages) || !(1..=1 << 53).contains(&self.bytes) {
            return Err(Error::invalid("a topic keeps at least 1 message and 1 byte, and at most 2^53 of them"));
        }
        Ok(())
    }
}

/// How a member subscribes.
#[derive(Debug, Clone, Default)]
pub struct SubscribeOptions {
    subscription: Option<String>,
    is_from_earliest: bool,
}

impl SubscribeOptions {
    /// A subscription of its own, under the member's name, from the next message on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shares this subscription with its other members: each message goes to one of them.
    #[must_use]
    pub fn subscription(mut self, name: &str) -> Self {
        self.subscription = Some(name.to_owned());
        self
    }

    /// A new subscription begins with the oldest message that is still there. One that is there stays where it is.
    #[must_use]
    pub fn from_earliest(mut self) -> Self {
        self.is_from_earliest = true;
        self
    }
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The id of each message, in order: `<ms since 1970>-<number in the topic>`.
    pub ids: Vec<String>,
    /// Subscriptions that were cut off by it: they had not read what the bounds of the topic removed.
    pub cut_off: Vec<String>,
}

/// A topic. Cheap to clone.
///
/// ```
/// use std::time::Duration;
///
/// use duly::{Client, PullOptions, SubscribeOptions};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("embedded:{}", folder.path().display());
/// let logs = Client::connect(&url).await?.topic("logs")?;
/// logs.subscribe("parser", &SubscribeOptions::new()).await?;
/// logs.publish(&"a line").await?;
/// for message in logs.pull("parser", &PullOptions::new().wait(Duration::from_secs(5))).await? {
///     assert_eq!(message.data.as_str(), r#""a line""#);
///     message.ack().await?;
/// }
/// assert_eq!(logs.info().await?.messages, 0, "all have read it");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Topic {
    part: Part,
}

impl std::fmt::Debug for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Topic").field(&self.name()).finish()
    }
}

impl Client {
    /// The topic of this name (1 to 128 of the characters `A-Z a-z 0-9 . _ : -`). It is there with its first message or subscription.
    ///
    /// Errors: `InvalidArgument`.
    pub fn topic(&self, name: &str) -> Result<Topic, Error> {
        name::check_topic(name).map_err(|error| error.during("topic").of_topic(name))?;
        Ok(Topic { part: Part::of_topic(self.clone(), name) })
    }

    /// The topics that this member has subscribed to, by name.
    ///
    /// Errors: `InvalidArgument`, and those of any call.
    pub async fn topics_of(&self, member: &str) -> Result<Vec<String>, Error> {
        let mut noted = self.noted_topics(member).await?;
        noted.sort();
        let topics = noted.iter().map(|(name, _)| self.topic(name)).collect::<Result<Vec<_>, _>>()?;
        let groups = self.together(&topics);
        let is_member = join_all(groups.iter().map(async |group| {
            let topic_count = TopicKeys::of(group.iter().map(|&at| topics[at].name()));
            let is_member = IsMember { member: member.to_owned(), topic_count };
            let flags = topics[group[0]].part.run(is_member.with([]).during("topics_of")).await?;
            Ok::<_, Error>(group.iter().copied().zip(flags.0).collect::<Vec<_>>())
        }));
        let mut are_left = vec![true; noted.len()];
        for flags in is_member.await {
            for (at, flag) in flags? {
                are_left[at] = flag;
            }
        }
        for ((name, tag), _) in noted.iter().zip(&are_left).filter(|(_, is_left)| !**is_left) {
            self.forget_topic(member, name, tag).await?;
        }
        let mut are_left = are_left.into_iter();
        noted.retain(|_| are_left.next().unwrap_or_default());
        Ok(noted.into_iter().map(|(name, _)| name).collect())
    }

    /// By topic, with the tag of the subscription.
    async fn noted_topics(&self, member: &str) -> Result<Vec<(String, String)>, Error> {
        name::check_topic(member).map_err(|error| error.during("topics_of"))?;
        let part = Part::beside_queues(self.clone(), member);
        let keys = &part.shared.keys;
        script::noted_topics(self.command("topics_of", keys.slot(), script::topics(keys)).await?)
    }

    /// Gives the tag. One that is `on_the_way` says nothing if the member turns out to be none.
    async fn note_topic(&self, member: &str, topic: &str, on_the_way: bool) -> Result<String, Error> {
        let part = Part::beside_queues(self.clone(), member);
        let tag = format!("{}{}", if on_the_way { ON_THE_WAY } else { "" }, host::random_id()?);
        let note = NoteTopic { name: topic.to_owned(), tag: tag.clone() };
        part.run(note.with([]).during("subscribe")).await?;
        Ok(tag)
    }

    async fn forget_topic(&self, member: &str, topic: &str, tag: &str) -> Result<(), Error> {
        let part = Part::beside_queues(self.clone(), member);
        part.run(ForgetTopic { name: topic.to_owned(), tag: tag.to_owned() }.with([])).await.map(drop)
    }
}

impl Topic {
    /// Its name.
    pub fn name(&self) -> &str {
        self.part.name()
    }

    /// Publishes one message: any value that can be JSON.
    ///
    /// Errors: `InvalidArgument`, `TooLarge`, `StorageFull`, and those of any call. It is published once however often the call has to
    /// be sent; after a `Timeout` it may have been.
    pub async fn publish<T: Serialize + ?Sized>(&self, data: &T) -> Result<Published, Error> {
        let data = Data::from_serialize(data, self.part.client.shared.max_data_bytes);
        self.publish_all(&[data.map_err(self.during("publish"))?]).await
    }

    /// Publishes messages, in order and without others between, 1 to 1,000 of at most 4 MiB together.
    ///
    /// Errors: as [`Self::publish`]; then none is published.
    pub async fn publish_all(&self, data: &[Data]) -> Result<Published, Error> {
        let published = async {
            if !(1..=MAX_PUBLISH).contains(&data.len()) {
                return Err(Error::invalid(format!("one call publishes 1 to {MAX_PUBLISH} messages: make several")));
            }
            for one in data {
                one.check_size(self.part.client.shared.max_data_bytes)?;
            }
            if data.len() > 1 && data.iter().map(|data| data.as_bytes().len()).sum::<usize>() > MOST_BYTES_PUBLISHED {
                let message = "one call publishes 4 MiB at most: make several";
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            self.part.note_use();
            let Bounds { age, messages, bytes } = DEFAULT_BOUNDS;
            let publish =
                PublishMessages { default_age_ms: whole_ms(age), default_messages: messages, default_bytes: bytes };
            self.part.run(publish.with(data.iter().map(Data::as_bytes))).await
        };
        let reply = published.await.map_err(self.during("publish"))?;
        Ok(Published { ids: reply.ids, cut_off: reply.cut_off })
    }

    /// Makes a member. Gives whether its subscription is new: one that was there stays where it is, whatever the options say.
    ///
    /// Errors: `InvalidArgument`, also for a member that has another subscription to this topic.
    pub async fn subscribe(&self, member: &str, options: &SubscribeOptions) -> Result<bool, Error> {
        let subscribed = async {
            let subscription = options.subscription.as_deref().unwrap_or(member);
            name::check_topic(member).and_then(|()| name::check_topic(subscription))?;
            let subscribe = Subscribe {
                member: member.to_owned(),
                subscription: subscription.to_owned(),
                from_earliest: Digits(u64::from(options.is_from_earliest)),
                default_age_ms: whole_ms(DEFAULT_BOUNDS.age),
                tag: host::random_id()?,
            };
            self.part.note_use();
            // Before, so that no subscription is without an entry in the list, and behind, as a pull in between takes it away again.
            self.part.client.note_topic(member, self.name(), true).await?;
            let made = match self.part.run(subscribe.with([])).await? {
                SubscribeReply::Made => true,
                SubscribeReply::Joined | SubscribeReply::Known => false,
                SubscribeReply::Other(other) => {
                    let message = format!("'{member}' is a member of the subscription '{other}': unsubscribe it first");
                    return Err(Error::invalid(message));
                }
            };
            self.part.client.note_topic(member, self.name(), false).await?;
            Ok(made)
        };
        subscribed.await.map_err(self.during("subscribe"))
    }

    /// Ends a membership: what it has pulled and not acked goes to the others of its subscription, and with the last member the
    /// subscription ends. Gives whether it was a member.
    ///
    /// Errors: those of any call.
    pub async fn unsubscribe(&self, member: &str) -> Result<bool, Error> {
        let unsubscribed = async {
            name::check_topic(member)?;
            let client = &self.part.client;
            let is_noted = client.noted_topics(member).await?.iter().any(|(name, _)| name == self.name());
            // A pull of all of its topics in between must not take it for one that was lost.
            let tag = if is_noted { Some(client.note_topic(member, self.name(), true).await?) } else { None };
            let mut was = UnsubscribeReply::More;
            while was == UnsubscribeReply::More {
                was = self.part.run(Unsubscribe { member: member.to_owned() }.with([])).await?;
            }
            client.shared.pulls.forget_tag(member, self.name());
            if let Some(tag) = tag {
                client.forget_topic(member, self.name(), &tag).await?;
            }
            Ok(was != UnsubscribeReply::Stranger)
        };
        unsubscribed.await.map_err(self.during("unsubscribe"))
    }

    /// Notes that a member has read these messages, by their ids. Gives how many of them its subscription had pulled and not acked:
    /// those that an earlier copy of this call has acked, whose reply was lost, do not count.
    ///
    /// It is the subscription that this client has pulled from as that member, and no newer one of its name; where it has not pulled, the one
    /// that the member has now.
    ///
    /// Errors: as [`Self::pull`]. It may be sent again.
    pub async fn ack<I: AsRef<str> + Sync>(&self, member: &str, ids: &[I]) -> Result<u64, Error> {
        name::check_topic(member).map_err(self.during("ack"))?;
        let tag = self.part.client.shared.pulls.tag(member, self.name());
        self.ack_of(member, &tag.unwrap_or_default(), ids).await
    }

    /// `tag`: the subscription that has pulled them. A late copy of this call must not ack what a newer one has pulled.
    async fn ack_of<I: AsRef<str> + Sync>(&self, member: &str, tag: &str, ids: &[I]) -> Result<u64, Error> {
        let acked = async {
            let mut acked = 0;
            for ids in ids.chunks(MAX_PUBLISH) {
                let ids = ids.iter().map(AsRef::as_ref);
                if let Some(bad) = ids.clone().find(|id| !is_id(id)) {
                    return Err(Error::invalid(format!("'{bad}' is not the id of a message")));
                }
                let ack = Ack { member: member.to_owned(), tag: tag.to_owned() }.with(ids.map(str::as_bytes));
                acked += member_only(member, self.part.run(ack).await?)?;
            }
            Ok(acked)
        };
        acked.await.map_err(self.during("ack"))
    }

    /// How much is here, who reads it, and how far each is.
    ///
    /// Errors: those of any call.
    pub async fn info(&self) -> Result<TopicInfo, Error> {
        self.examine("info").await.map(TopicInfo::of)
    }

    /// Its members, by name: the subscription of each, how far behind it is, and when it was last there. Those of a subscription that was
    /// [cut off](ErrorKind::CutOff) are among them.
    ///
    /// Errors: those of any call.
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        self.examine("members").await.map(|reply| info::members_of(&reply))
    }

    /// Sets what the topic keeps at most, from the next message on. Older messages are removed; a subscription that had not read all of
    /// them is [cut off](ErrorKind::CutOff).
    ///
    /// Errors: `InvalidArgument`.
    pub async fn set_bounds(&self, bounds: Bounds) -> Result<(), Error> {
        let set = async {
            bounds.check()?;
            let Bounds { age, messages, bytes } = bounds;
            let bound = Bound { max_age_ms: whole_ms(age), max_messages: messages, max_bytes: bytes };
            self.part.run(bound.with([]).during("set_bounds")).await
        };
        set.await.map_err(self.during("set_bounds"))
    }

    /// Removes the topic with its messages, subscriptions and bounds; its members hear that they have not subscribed.
    ///
    /// Errors: those of any call.
    pub async fn delete(&self) -> Result<(), Error> {
        let list = Part::list_of_topics(self.part.client.clone());
        let held = self.part.hold_registration();
        // Whoever uses the topic from now on lists it anew, and it stays on the list.
        let used = list.command("delete", use_of_queue(&list.shared.keys, self.name())).await;
        self.part.run(DeleteTopic {}.with([])).await.map_err(self.during("delete"))?;
        drop(held);
        // A name that stays on the list, as its user may not write there, is forgotten after a while.
        if let Ok(used) = used {
            let unregister = Unregister { name: self.name().to_owned(), used: script::said_of_queue(used) };
            _ = list.run(unregister.with([]).during("delete")).await;
        }
        Ok(())
    }

    async fn examine(&self, operation: &'static str) -> Result<TopicReply, Error> {
        let Bounds { age, messages, bytes } = DEFAULT_BOUNDS;
        let examine = ExamineTopic { default_age_ms: whole_ms(age), default_messages: messages, default_bytes: bytes };
        self.part.run(examine.with([]).during(operation)).await.map_err(self.during(operation))
    }

    fn slot(&self) -> u16 {
        self.part.shared.keys.slot()
    }

    /// Says of an error what was done, and to which topic.
    fn during(&self, operation: &'static str) -> impl Fn(Error) -> Error {
        move |error| explained(error).during(operation).of_topic(self.name())
    }
}

fn member_only<T>(member: &str, reply: Membership<T>) -> Result<T, Error> {
    match reply {
        Membership::Member(reply) => Ok(reply),
        Membership::CutOff(reply) => Err(cut_off(member, &reply)),
        Membership::Stranger => Err(stranger(member)),
    }
}

fn stranger(member: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("'{member}' is no member: subscribe first"))
}

fn cut_off(member: &str, reply: &CutOffReply) -> Error {
    let CutOffReply { subscription, at, first, last } = reply;
    let lost = match counted(last.saturating_sub(*first).saturating_add(1), "message") {
        one if first == last => format!("{one} ({first}) that it had not read"),
        most => format!("up to {most}: what it had not read of {first} to {last}"),
    };
    let message = format!(
        "the subscription '{subscription}' of '{member}' has lost {lost}, by the topic's bounds, since {}: subscribe \
         again, from earliest to go on with what is left, also what it has read of that (the default, latest, skips it)",
        at.as_seconds()
    );
    Error::new(ErrorKind::CutOff, message)
}

/// What it means that a consumer group is gone.
fn explained(error: Error) -> Error {
    let has_no_group = |said: &dyn std::error::Error| said.to_string().contains("NOGROUP");
    if error.kind() != ErrorKind::Internal || !std::error::Error::source(&error).is_some_and(has_no_group) {
        return error;
    }
    let message = "the consumer group of a subscription is gone, and duly did not remove it: unsubscribe its members, and \
                   subscribe again";
    Error::new(ErrorKind::Corrupt, message).caused_by(error)
}

/// `<ms>-<number>`
fn is_id(id: &str) -> bool {
    let is_number = |part: &str| part.parse::<u64>().is_ok();
    id.split_once('-').is_some_and(|(ms, number)| is_number(ms) && is_number(number))
}

/// When a message with this id was published, and its number.
fn parts_of(id: &str) -> Option<(Millis, u64)> {
    let (ms, number) = id.split_once('-')?;
    Some((Millis::new(ms.parse().ok()?), number.parse().ok()?))
}
