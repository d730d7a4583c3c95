//! `adopt.lua` and `bridge/take.lua`: jobs of another queue, out of its keys and into ours.

use once_cell::race::OnceBox;
use redis::{Cmd, Value, cmd};

use super::argument::{Argument, Digits};
use super::call::{ByteStrings, Call, Script};
use super::crc16::crc16;
use super::declare::scripts;
use super::reply::{FromReply, array, bytes, next, number, text, unexpected, utf8};
use crate::value::error::Error;

/// It is about keys of others, which no declaration spells.
pub(super) const TAKE: &str = include_str!("../../lua/bridge/take.lua");

scripts! {
    /// Stores the jobs of a batch with its sequence, unless they are in.
    Adopt = "adopt",
    kind: Numbered,
    keys: [Call, Meta, Jobs, Delayed, Failed, Returned, Wake, Stats, Adopted, Ready],
    arguments: { lane: String, sequence: Digits },
    items: (id: &'a [u8], record: &'a [u8], place: Place, came_back: &'a [u8]),
    reply: AdoptReply;
}

/// Where a job goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    /// In milliseconds since 1970.
    Due(u64),
    Failed,
}

impl Argument for Place {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        match self {
            Self::Ready => out.push(b"ready"),
            Self::Due(at) => out.push_display(format_args!("@{at}")),
            Self::Failed => out.push(b"failed"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdoptReply {
    Adopted,
    /// It was in before.
    Known,
    /// A later one of this lane is in.
    Behind(u64),
    /// So many more jobs fit into `failed`; none was stored.
    Room(usize),
}

impl FromReply for AdoptReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        match text.split_once(' ') {
            None if text == "adopted" => Ok(Self::Adopted),
            None if text == "known" => Ok(Self::Known),
            Some(("behind", known)) => known.parse().map(Self::Behind).map_err(|_| unexpected("a sequence")),
            Some(("room", left)) => left.parse().map(Self::Room).map_err(|_| unexpected("the room of failed jobs")),
            _ => Err(unexpected("what became of a batch")),
        }
    }
}

/// In which order another queue's key has its jobs, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// A list whose first entry is taken first.
    Left,
    /// A list whose last entry is.
    Right,
    /// A sorted set, all of it.
    Score,
    /// A sorted set by seconds since 1970: what lies in the past.
    Over,
}

impl Order {
    pub(crate) fn has_scores(self) -> bool {
        matches!(self, Self::Score | Self::Over)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Score => "score",
            Self::Over => "over",
        }
    }
}

/// Asks for the next batch of another queue's key.
#[derive(Debug)]
pub(crate) struct Take<'a> {
    pub(crate) source: &'a str,
    pub(crate) order: Order,
    /// Of the lock that the bridge holds.
    pub(crate) token: u64,
    /// The sequence of the batch that is in.
    pub(crate) finished: Option<u64>,
    /// The lane's id, if it has none yet.
    pub(crate) lane: &'a str,
    pub(crate) most: usize,
    pub(crate) most_bytes: usize,
    /// A later batch of this lane is in: what is in flight gets a sequence above its one.
    pub(crate) above: Option<u64>,
}

impl Take<'_> {
    /// Right when sent twice: what is in flight stays there until the call that names it.
    pub(crate) fn call(&self) -> Call<'_> {
        static SCRIPT: OnceBox<Script> = OnceBox::new();
        let (mut keys, mut args) = (ByteStrings::default(), ByteStrings::default());
        keys.push(self.source.as_bytes());
        for own in ["in_flight", "state"] {
            keys.push(beside(self.source, own).as_bytes());
        }
        args.push_display(self.token);
        match self.finished {
            Some(finished) => args.push_display(finished),
            None => args.push(b""),
        }
        args.push(self.lane.as_bytes());
        args.push(self.order.as_str().as_bytes());
        args.push_display(self.most);
        args.push_display(self.most_bytes);
        match self.above {
            Some(above) => args.push_display(above),
            None => args.push(b""),
        }
        Call {
            script: SCRIPT.get_or_init(|| Box::new(Script::new(TAKE.to_owned()))),
            queue: self.source,
            slot: slot(self.source),
            keys,
            args,
            is_numbered: false,
            notes_again: false,
            reclaims: false,
            is_again: false,
        }
    }
}

/// A key of the bridge in the same slot.
fn beside(source: &str, own: &str) -> String {
    if tag(source).is_some() { format!("{source}:duly:{own}") } else { format!("{{{source}}}:duly:{own}") }
}

/// What a cluster takes the slot from, where that is not the whole key.
fn tag(key: &str) -> Option<&str> {
    let (_, behind) = key.split_once('{')?;
    behind.split_once('}').map(|(tag, _)| tag).filter(|tag| !tag.is_empty())
}

fn slot(key: &str) -> u16 {
    crc16(tag(key).unwrap_or(key).as_bytes()) % 16384
}

/// Entries of another queue's key, each with its score, where it has one.
pub(crate) type Entries = Vec<(Vec<u8>, Option<f64>)>;

/// The answer to [`Take`].
#[derive(Debug)]
pub(crate) enum Taken {
    Batch {
        /// None if there is nothing.
        sequence: Option<u64>,
        lane: String,
        entries: Entries,
    },
    /// Another bridge has taken over.
    Fenced,
}

impl Taken {
    pub(crate) fn decode(reply: Value, order: Order) -> Result<Self, Error> {
        if !matches!(reply, Value::Array(_)) {
            return if text(reply)? == "fenced" { Ok(Self::Fenced) } else { Err(unexpected("a batch")) };
        }
        let mut items = array(reply)?.into_iter();
        let sequence = utf8(next(&mut items, "a sequence")?)?;
        let sequence = match sequence.as_str() {
            "" => None,
            digits => Some(digits.parse().map_err(|_| unexpected("a sequence"))?),
        };
        let lane = utf8(next(&mut items, "a lane")?)?;
        let entries = entries_of(items, order)?;
        Ok(Self::Batch { sequence, lane, entries })
    }
}

/// Looks at so many entries behind the first `from`, and takes none of them.
pub(crate) fn entries(source: &str, order: Order, from: usize, count: usize) -> (u16, Cmd) {
    let mut command = cmd(if order.has_scores() { "ZRANGE" } else { "LRANGE" });
    command.arg(source);
    match order {
        Order::Right => command.arg(format!("-{}", from + count)).arg(format!("-{}", from + 1)),
        _ => command.arg(from).arg(from + count - 1),
    };
    if order.has_scores() {
        command.arg("WITHSCORES");
    }
    (slot(source), command)
}

impl Order {
    /// What [`entries`] gave.
    pub(crate) fn read(self, reply: Value) -> Result<Entries, Error> {
        entries_of(array(reply)?.into_iter(), self)
    }
}

/// How many there are: in the key, and in flight from a bridge that has ended.
pub(crate) fn old_length(source: &str, order: Order) -> (u16, [Cmd; 2]) {
    let (mut length, mut in_flight) = (cmd(if order.has_scores() { "ZCARD" } else { "LLEN" }), cmd("LLEN"));
    length.arg(source);
    in_flight.arg(beside(source, "in_flight"));
    (slot(source), [length, in_flight])
}

/// Gives a lane this id, if it has none, and asks which it has.
pub(crate) fn lane_id(source: &str, id: &str) -> (u16, [Cmd; 2]) {
    let (mut give, mut get) = (cmd("HSETNX"), cmd("HGET"));
    give.arg(beside(source, "state")).arg("lane").arg(id);
    get.arg(beside(source, "state")).arg("lane");
    (slot(source), [give, get])
}

/// The answer to the second command of [`lane_id`].
pub(crate) fn lane(reply: Value) -> Result<Option<String>, Error> {
    if reply == Value::Nil { Ok(None) } else { utf8(reply).map(Some) }
}

/// The answer to a command of [`old_length`].
pub(crate) fn length(reply: Value) -> Result<u64, Error> {
    Ok(u64::try_from(number(reply)?).unwrap_or_default())
}

fn entries_of(items: impl Iterator<Item = Value>, order: Order) -> Result<Entries, Error> {
    let (mut items, mut entries) = (items, Vec::new());
    while let Some(entry) = items.next() {
        let entry = bytes(entry)?;
        let score = if order.has_scores() {
            let score = utf8(next(&mut items, "a score")?)?;
            Some(score.parse().map_err(|_| unexpected("a score"))?)
        } else {
            None
        };
        entries.push((entry, score));
    }
    Ok(entries)
}
