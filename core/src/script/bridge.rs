//! `adopt.lua`, `bridge/look.lua` and `bridge/take_batch.lua`: jobs of another queue, out of its keys and into ours.

use once_cell::race::OnceBox;
use redis::{Cmd, Value, cmd};

use super::argument::{Argument, Digits};
use super::call::{ByteStrings, Call, Script};
use super::crc16::crc16;
use super::declare::scripts;
use super::library::{Undeclared, undeclared};
use super::reply::{FromReply, array, bytes, next, number, text as text_of, unexpected, utf8};
use crate::value::error::Error;

const TAKE: Undeclared = undeclared!("bridge/take_batch");
const LOOK: Undeclared = undeclared!("bridge/look");
/// They are about keys of others, which no declaration spells.
#[cfg(test)]
pub(super) const UNDECLARED: [Undeclared; 4] = [TAKE, LOOK, super::depart::PUBLISH, super::depart::WITHDRAW];

scripts! {
    /// Stores the jobs of a batch with its sequence, unless they are in.
    Adopt = "adopt",
    kind: Numbered,
    keys: [Call, Meta, Jobs, Delayed, Failed, Returned, Wake, Stats, Adopted, Ready],
    arguments: { lane: String, sequence: Digits },
    items: (id: &'a [u8], record: &'a [u8], target: Target, came_back: &'a [u8]),
    reply: AdoptReply;
}

/// Where a job goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Ready,
    /// In milliseconds since 1970.
    Due(u64),
    Failed,
}

impl Argument for Target {
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
        let text = text_of(reply)?;
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

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Score => "score",
            Self::Over => "over",
        }
    }
}

/// Where the jobs are whose ids are in a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In it.
    Here,
    /// In this hash, by their ids.
    Field(String),
    /// In a hash each, whose name begins with this and a colon.
    Hash(String),
}

impl Layout {
    fn append(&self, keys: &mut ByteStrings, args: &mut ByteStrings) {
        let (word, key) = match self {
            Self::Here => ("here", None),
            Self::Field(key) => ("field", Some(key)),
            Self::Hash(key) => ("hash", Some(key)),
        };
        args.push(word.as_bytes());
        if let Some(key) = key {
            keys.push(key.as_bytes());
        }
    }
}

/// How another queue's key is read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) source: String,
    pub(crate) order: Order,
    pub(crate) layout: Layout,
    /// How long after its score the time of an entry is over, in seconds.
    pub(crate) grace_s: u64,
}

impl Reading {
    fn call<'a>(&'a self, script: &'static Script, keys: ByteStrings, args: ByteStrings) -> Call<'a> {
        Call::plain(script, &self.source, slot(&self.source), keys, args)
    }

    /// Where the token of the last bridge is.
    pub(crate) fn state_key(&self) -> String {
        beside(&self.source, "state")
    }

    /// Reads entries behind the first `from`, and takes none of them.
    pub(crate) fn look(&self, from: usize, most: usize, most_bytes: usize) -> Call<'_> {
        static SCRIPT: OnceBox<Script> = OnceBox::new();
        let (mut keys, mut args) = (ByteStrings::default(), ByteStrings::default());
        keys.push(self.source.as_bytes());
        args.push(self.order.as_str().as_bytes());
        self.layout.append(&mut keys, &mut args);
        args.push_display(self.grace_s);
        for number in [from, most, most_bytes] {
            args.push_display(number);
        }
        self.call(SCRIPT.get_or_init(|| Box::new(LOOK.assemble())), keys, args)
    }

    /// The answer to [`look`](Self::look): how many entries were read, and the jobs.
    pub(crate) fn looked(&self, reply: Value) -> Result<(usize, Entries), Error> {
        let mut items = array(reply)?.into_iter();
        let seen = number(next(&mut items, "how many entries were read")?)?;
        Ok((usize::try_from(seen).unwrap_or_default(), entries_of(items, self.order)?))
    }
}

/// Asks for the next batch of another queue's key.
#[derive(Debug)]
pub(crate) struct Take<'a> {
    pub(crate) reading: &'a Reading,
    /// Of the lock that the bridge holds.
    pub(crate) token: u64,
    /// The batch that is in.
    pub(crate) finished: Option<&'a Finished>,
    /// The lane's id, if it has none yet.
    pub(crate) lane: &'a str,
    pub(crate) most: usize,
    pub(crate) most_bytes: usize,
    /// A later batch of this lane is in: what is in flight gets a sequence above its one.
    pub(crate) above: Option<u64>,
}

/// A batch that is in.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) sequence: u64,
    /// Which of its entries go back to the other queue, by their numbers from 1.
    pub(crate) kept: Vec<usize>,
}

impl<'a> Take<'a> {
    /// Right when sent twice: what is in flight stays there until the call that names it.
    pub(crate) fn call(&self) -> Call<'a> {
        static SCRIPT: OnceBox<Script> = OnceBox::new();
        let (mut keys, mut args) = (ByteStrings::default(), ByteStrings::default());
        let source = &self.reading.source;
        keys.push(source.as_bytes());
        for own in ["in_flight", "state"] {
            keys.push(beside(source, own).as_bytes());
        }
        args.push_display(self.token);
        match self.finished {
            Some(finished) => args.push_display(finished.sequence),
            None => args.push(b""),
        }
        args.push(self.lane.as_bytes());
        args.push(self.reading.order.as_str().as_bytes());
        args.push_display(self.most);
        args.push_display(self.most_bytes);
        match self.above {
            Some(above) => args.push_display(above),
            None => args.push(b""),
        }
        self.reading.layout.append(&mut keys, &mut args);
        args.push_display(self.reading.grace_s);
        let kept = self.finished.map(|finished| finished.kept.as_slice()).unwrap_or_default();
        args.push(kept.iter().map(usize::to_string).collect::<Vec<_>>().join(" ").as_bytes());
        self.reading.call(SCRIPT.get_or_init(|| Box::new(TAKE.assemble())), keys, args)
    }
}

/// A key of the bridge in the same slot.
pub(super) fn beside(source: &str, own: &str) -> String {
    if tag(source).is_some() {
        return format!("{source}:duly:{own}");
    }
    if !source.contains('}') {
        return format!("{{{source}}}:duly:{own}");
    }
    // It is no tag itself: a number that has its slot is.
    let number = (0..1_000_000_u32).find(|number| slot(&number.to_string()) == slot(source)).unwrap_or_default();
    format!("{{{number}}}:{source}:duly:{own}")
}

/// What a cluster takes the slot from, where that is not the whole key.
fn tag(key: &str) -> Option<&str> {
    let (_, behind) = key.split_once('{')?;
    behind.split_once('}').map(|(tag, _)| tag).filter(|tag| !tag.is_empty())
}

pub(super) fn slot(key: &str) -> u16 {
    crc16(tag(key).unwrap_or(key).as_bytes()) % 16384
}

/// Jobs of another queue's key, each with its score, where it has one.
pub(crate) type Entries = Vec<(Vec<u8>, Option<f64>)>;

/// The answer to [`Take`].
#[derive(Debug)]
pub(crate) enum Taken {
    Batch {
        /// None if there is nothing.
        sequence: Option<u64>,
        lane: String,
        /// How many that went back to the other queue lie before this batch.
        kept_before: u64,
        /// May the next call find something?
        more: bool,
        /// How many entries this bridge has dropped so far, because they name no job.
        dropped: u64,
        entries: Entries,
    },
    /// A bridge whose lock had this larger token has been here.
    Fenced(u64),
}

/// The answer to a bridge whose token is too small.
pub(super) fn fenced(reply: Value) -> Result<u64, Error> {
    let text = text_of(reply)?;
    let token = text.strip_prefix("fenced ").and_then(|token| token.parse().ok());
    token.ok_or_else(|| unexpected("a batch"))
}

impl Taken {
    pub(crate) fn decode(reply: Value, order: Order) -> Result<Self, Error> {
        if !matches!(reply, Value::Array(_)) {
            return fenced(reply).map(Self::Fenced);
        }
        let mut items = array(reply)?.into_iter();
        let sequence = utf8(next(&mut items, "a sequence")?)?;
        let sequence = match sequence.as_str() {
            "" => None,
            digits => Some(digits.parse().map_err(|_| unexpected("a sequence"))?),
        };
        let lane = utf8(next(&mut items, "a lane")?)?;
        let kept_before = number(next(&mut items, "how many went back")?)?;
        let more = utf8(next(&mut items, "whether there is more")?)? == "more";
        let dropped = number(next(&mut items, "how many were dropped")?)?;
        let entries = entries_of(items, order)?;
        let [kept_before, dropped] = [kept_before, dropped].map(|count| u64::try_from(count).unwrap_or_default());
        Ok(Self::Batch { sequence, lane, kept_before, more, dropped, entries })
    }
}

/// How many there are: in the key, and in flight from a bridge that has ended.
pub(crate) fn old_length(source: &str, order: Order) -> (u16, [Cmd; 2]) {
    let mut length = cmd(if order.has_scores() { "ZCARD" } else { "LLEN" });
    length.arg(source);
    let mut in_flight = cmd("LLEN");
    in_flight.arg(beside(source, "in_flight"));
    (slot(source), [length, in_flight])
}

/// Makes a list no longer than this.
pub(crate) fn trimmed(list: &str, most: u64) -> (u16, Cmd) {
    let mut trim = cmd("LTRIM");
    trim.arg(list);
    // With a last index of -1 all of it would stay.
    if most == 0 {
        trim.arg(1).arg(0)
    } else {
        trim.arg(0).arg(most - 1)
    };
    (slot(list), trim)
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
            // Behind it may be the id of the entry.
            let score = score.split('\t').next().unwrap_or_default();
            Some(score.parse().map_err(|_| unexpected("a score"))?)
        } else {
            None
        };
        entries.push((entry, score));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_bridge_are_in_the_slot_of_the_key() {
        for key in ["orders", "{queues:orders}", "a{}b", "a}b", "{}", "}{", "a{b}c", "{a", "{a{}b}"] {
            assert_eq!(slot(&beside(key, "state")), slot(key), "{key}");
        }
        assert_eq!(beside("orders", "state"), "{orders}:duly:state");
        assert_eq!(beside("{queues:orders}", "state"), "{queues:orders}:duly:state");
    }
}
