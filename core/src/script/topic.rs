//! The scripts in `lua/topic`: a topic, its subscriptions and their members.

use std::sync::Arc;

use redis::{Cmd, Value, cmd};

use super::argument::{Digits, TopicKeys};
use super::declare::scripts;
use super::keys::{Key, QueueKeys};
use super::reply::{FromReply, array, bytes, lossy, next, number, refuse, text, unexpected, utf8};
use super::settle::flags;
use crate::value::error::Error;
use crate::value::time::Millis;

scripts! {
    /// Appends messages.
    PublishMessages = "topic/publish",
    kind: Numbered,
    keys: [Call, Topic, Messages, Floors, News],
    arguments: { default_age_ms: u64, default_messages: u64, default_bytes: u64 },
    items: (data: &'a [u8]),
    reply: PublishReply;

    /// Makes a member, and its subscription.
    Subscribe = "topic/subscribe",
    kind: Numbered,
    keys: [Call, Topic, Messages, Floors],
    arguments: { member: String, subscription: String, from_earliest: Digits, default_age_ms: u64, tag: String },
    reply: SubscribeReply;

    /// Ends a membership.
    Unsubscribe = "topic/unsubscribe",
    kind: Numbered,
    keys: [Call, Topic, Messages, Floors],
    arguments: { member: String },
    reply: UnsubscribeReply;

    /// Gives messages of topics to a member. `again` is 0, and becomes 1 behind an attempt that may have been executed.
    Pull = "topic/pull",
    kind: Plain,
    keys: [Topics],
    arguments: {
        member: String, lease_ms: u64, again: Digits, call_id: String, most: usize, max_bytes: usize, topic_count: TopicKeys,
    },
    reply: PullReply;

    /// Notes what a member has read: ids. `tag` says of which subscription, if that is known.
    Ack = "topic/ack",
    kind: Plain,
    keys: [Topic, Messages, Floors],
    arguments: { member: String, tag: String },
    items: (id: &'a [u8]),
    reply: Membership<u64>;

    /// What a topic has.
    ExamineTopic = "topic/examine",
    kind: Reads,
    keys: [Topic, Messages, Floors],
    arguments: { default_age_ms: u64, default_messages: u64, default_bytes: u64 },
    reply: TopicReply;

    /// Sets the bounds of a topic.
    Bound = "topic/bound",
    kind: Numbered,
    keys: [Call, Topic, Messages, Floors],
    arguments: { max_age_ms: u64, max_messages: u64, max_bytes: u64 },
    reply: ();

    /// Removes all of a topic.
    DeleteTopic = "topic/delete",
    kind: Numbered,
    keys: [Call, Topic, Messages, Floors, News],
    reply: ();

    /// Is this a member of each of these topics?
    IsMember = "topic/is_member",
    kind: Reads,
    keys: [Topics],
    arguments: { member: String, topic_count: TopicKeys },
    reply: IsMemberReply;

    /// Puts a topic on the list of a member; `tag` says when.
    NoteTopic = "topic/note",
    kind: Numbered,
    keys: [Call, MemberTopics],
    arguments: { name: String, tag: String },
    reply: ();

    /// Takes a topic from the list of a member.
    ForgetTopic = "topic/forget",
    kind: Plain,
    keys: [MemberTopics],
    arguments: { name: String, tag: String },
    reply: u64;
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublishReply {
    pub(crate) ids: Vec<String>,
    /// The subscriptions that were cut off by this call.
    pub(crate) cut_off: Vec<String>,
}

impl FromReply for PublishReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        let (ids, cut_off) = text.split_once(';').ok_or_else(|| unexpected("what was published"))?;
        let words = |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect();
        Ok(Self { ids: words(ids), cut_off: words(cut_off) })
    }

    fn fits(&self, jobs: usize) -> bool {
        self.ids.len() == jobs
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubscribeReply {
    /// The subscription is new.
    Made,
    /// It was there, and the member is new.
    Joined,
    Known,
    /// The member has this one.
    Other(String),
}

impl FromReply for SubscribeReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        Ok(match text.split_once(' ') {
            None if text == "made" => Self::Made,
            None if text == "joined" => Self::Joined,
            None if text == "known" => Self::Known,
            Some(("other", name)) => Self::Other(name.to_owned()),
            _ => return Err(unexpected("what became of a subscription")),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsubscribeReply {
    Left,
    /// And the subscription with it.
    Ended,
    /// It has pulled more than one call hands over, and is still a member.
    More,
    Stranger,
}

impl FromReply for UnsubscribeReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        match text(reply)?.as_str() {
            "left" => Ok(Self::Left),
            "ended" => Ok(Self::Ended),
            "more" => Ok(Self::More),
            "stranger" => Ok(Self::Stranger),
            _ => Err(unexpected("what became of a membership")),
        }
    }
}

/// The answer to who may be a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Membership<T> {
    Member(T),
    Stranger,
    CutOff(CutOffReply),
}

impl<T: FromReply> FromReply for Membership<T> {
    fn decode(reply: Value) -> Result<Self, Error> {
        let Value::BulkString(_) = &reply else { return T::decode(reply).map(Self::Member) };
        let text = text(reply)?;
        if text == "stranger" {
            return Ok(Self::Stranger);
        }
        let words = text.strip_prefix("cut ").map(|words| words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        match words.as_deref() {
            Some([at, first, last, subscription]) => Ok(Self::CutOff(CutOffReply {
                subscription: subscription.clone(),
                at: Millis::new(digits(at)?),
                first: digits(first)?,
                last: digits(last)?,
            })),
            _ => Err(unexpected("what a member gets")),
        }
    }
}

/// Of each topic.
#[derive(Debug)]
pub(crate) struct IsMemberReply(pub(crate) Vec<bool>);

impl FromReply for IsMemberReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        flags(&text(reply)?).map(Self)
    }
}

/// A subscription that lost messages which it had not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CutOffReply {
    pub(crate) subscription: String,
    pub(crate) at: Millis,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// What a member gets, of each topic of the call. An error is of one topic.
#[derive(Debug)]
pub(crate) struct PullReply(pub(crate) Vec<Result<Membership<PulledTopic>, Error>>);

impl FromReply for PullReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        Ok(Self(array(reply)?.into_iter().map(Membership::decode).collect()))
    }
}

/// Messages of a topic for a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PulledTopic {
    /// How many calls have published.
    pub(crate) calls: u64,
    /// Are there more that nobody has pulled?
    pub(crate) has_more: bool,
    pub(crate) messages: Vec<PulledMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PulledMessage {
    pub(crate) id: String,
    pub(crate) pulled: u64,
    pub(crate) data: Vec<u8>,
    /// Says which subscription of its name has pulled it; empty for one that an older version made.
    pub(crate) tag: Arc<str>,
}

impl FromReply for PulledTopic {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let calls = digits(&utf8(next(&mut items, "how many calls there were")?)?)?;
        let has_more = utf8(next(&mut items, "whether there is more")?)? == "1";
        let tag: Arc<str> = utf8(next(&mut items, "which subscription it is")?)?.into();
        let mut messages = Vec::new();
        while let Some(id) = items.next() {
            let pulled = u64::try_from(number(next(&mut items, "how often it was pulled")?)?);
            let pulled = pulled.map_err(|_| unexpected("how often it was pulled"))?;
            let (id, data) = (utf8(id)?, bytes(next(&mut items, "a message")?)?);
            messages.push(PulledMessage { id, pulled, data, tag: Arc::clone(&tag) });
        }
        Ok(Self { calls, has_more, messages })
    }
}

/// What a topic has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicReply {
    pub(crate) now: Millis,
    pub(crate) published: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) oldest: Option<Millis>,
    /// Its bounds: ms, messages, bytes.
    pub(crate) bounds: [u64; 3],
    pub(crate) subscriptions: Vec<SubscriptionReply>,
    pub(crate) members: Vec<MemberReply>,
    pub(crate) cut_off: Vec<CutOffReply>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubscriptionReply {
    pub(crate) name: String,
    /// Number of the first message that it has not read.
    pub(crate) unread: u64,
    /// Number of the last one that was pulled.
    pub(crate) at: u64,
    pub(crate) pulled: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberReply {
    pub(crate) name: String,
    pub(crate) subscription: String,
    pub(crate) seen: Millis,
    pub(crate) pulled: u64,
}

impl FromReply for TopicReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let items = match reply {
            Value::Array(items) => items,
            other => return Err(refuse(&utf8(other)?).err().unwrap_or_else(|| unexpected("what a topic has"))),
        };
        let mut items = items.into_iter();
        let mut word = || utf8(next(&mut items, "what a topic has")?);
        let (now, published) = (Millis::new(digits(&word()?)?), digits(&word()?)?);
        let (messages, bytes, oldest) = (digits(&word()?)?, digits(&word()?)?, word()?);
        let oldest = if oldest.is_empty() { None } else { Some(Millis::new(digits(&oldest)?)) };
        let bounds = [digits(&word()?)?, digits(&word()?)?, digits(&word()?)?];
        let rows = |value: Option<Value>| {
            let words = array(value.ok_or_else(|| unexpected("what a topic has"))?)?.into_iter().map(lossy);
            let words = words.collect::<Result<Vec<_>, _>>()?;
            let (rows, rest) = words.as_chunks::<4>();
            if rest.is_empty() { Ok(rows.to_vec()) } else { Err(unexpected("what a topic has")) }
        };
        let subscriptions = rows(items.next())?.into_iter().map(|[name, unread, at, pulled]| {
            Ok(SubscriptionReply { name, unread: digits(&unread)?, at: digits(&at)?, pulled: digits(&pulled)? })
        });
        let subscriptions = subscriptions.collect::<Result<_, Error>>()?;
        let members = rows(items.next())?.into_iter().map(|[name, subscription, seen, pulled]| {
            Ok(MemberReply { name, subscription, seen: Millis::new(digits(&seen)?), pulled: digits(&pulled)? })
        });
        let members = members.collect::<Result<_, Error>>()?;
        let cut_off = rows(items.next())?.into_iter().map(|[subscription, at, first, last]| {
            let (at, first, last) = (Millis::new(digits(&at)?), digits(&first)?, digits(&last)?);
            Ok(CutOffReply { subscription, at, first, last })
        });
        let cut_off = cut_off.collect::<Result<_, Error>>()?;
        Ok(Self { now, published, messages, bytes, oldest, bounds, subscriptions, members, cut_off })
    }
}

fn digits(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| unexpected("a number"))
}

/// The topics of a member; see [`noted_topics`].
pub(crate) fn topics(keys: &QueueKeys) -> Cmd {
    let mut command = cmd("HGETALL");
    command.arg(keys.spell(Key::MemberTopics));
    command
}

/// The answer to [`topics`]: each topic with its tag.
pub(crate) fn noted_topics(reply: Value) -> Result<Vec<(String, String)>, Error> {
    let words = match reply {
        Value::Map(pairs) => pairs.into_iter().flat_map(|(name, tag)| [name, tag]).collect(),
        other => array(other)?,
    };
    let words = words.into_iter().map(utf8).collect::<Result<Vec<_>, _>>()?;
    let (pairs, _) = words.as_chunks::<2>();
    Ok(pairs.iter().map(|[name, tag]| (name.clone(), tag.clone())).collect())
}
