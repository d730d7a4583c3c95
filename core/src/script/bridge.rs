//! `adopt.lua`, `bridge/look.lua` and `bridge/take_batch.lua`: jobs of another queue, out of its keys and into ours.

use redis::{Cmd, Value, cmd};

use super::argument::{Argument, Digits};
use super::call::{ByteStrings, Call};
use super::declare::scripts;
use super::foreign::{beside, foreign, slot};
use super::keys::bridge_target_key;
use super::reply::{FromReply, array, bytes, next, number, text as text_of, unexpected, utf8};
use crate::process::host;
use crate::value::error::{Error, ErrorKind};

foreign! {
    Look = "bridge/look",
    keys: [source, companion],
    arguments: { order: Order, held: &'a Layout, grace_s: u64, from: usize, most: usize, most_bytes: usize };

    TakeBatch = "bridge/take_batch",
    keys: [source, in_flight, state, companion],
    arguments: {
        token: Digits, finished: Option<Digits>, lane: &'a str, order: Order, most: usize, most_bytes: usize,
        above: Option<u64>, tried: Option<Digits>, held: &'a Layout, grace_s: u64, kept: String, rest: String,
        purpose: &'a str, address: &'a str, jump: usize,
    };
}

scripts! {
    /// Stores the jobs of a batch with its sequence, unless they are in.
    Adopt = "adopt",
    kind: Numbered,
    keys: [Call, Meta, Jobs, Delayed, Failed, Returned, Wake, Stats, Adopted, History, Ready],
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
}

impl Argument for Order {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        out.push(match self {
            Self::Left => b"left".as_slice(),
            Self::Right => b"right",
            Self::Score => b"score",
            Self::Over => b"over",
        });
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
    fn key(&self) -> Option<&str> {
        match self {
            Self::Here => None,
            Self::Field(key) | Self::Hash(key) => Some(key),
        }
    }
}

impl Argument for &Layout {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        out.push(match self {
            Layout::Here => b"here".as_slice(),
            Layout::Field(_) => b"field",
            Layout::Hash(_) => b"hash",
        });
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
    /// Where the token of the last bridge is.
    pub(crate) fn state_key(&self) -> String {
        beside(&self.source, "state")
    }

    /// What it says of the key of an entry that holds no job.
    pub(crate) fn foreign(&self, key: &str) -> Error {
        let (key, source) = (key.escape_debug(), self.source.escape_debug());
        let message =
            format!("an entry of the key '{source}' names the key '{key}', which is no job: remove one of the two");
        Error::new(ErrorKind::Corrupt, message).during("bridge")
    }

    /// Reads entries behind the first `from`, and takes none of them.
    pub(crate) fn look(&self, from: usize, most: usize, most_bytes: usize) -> Call<'_> {
        let look = Look { order: self.order, held: &self.layout, grace_s: self.grace_s, from, most, most_bytes };
        look.call(&self.source, self.layout.key().as_slice(), |_| {})
    }

    /// The answer to [`look`](Self::look): how many entries were read, and the jobs.
    pub(crate) fn looked(&self, reply: Value) -> Result<(usize, Entries), Error> {
        if let Some(key) = foreign_key(&reply) {
            return Err(self.foreign(&key));
        }
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
    pub(crate) behind: Option<Behind>,
    /// What its batches are made for: one in flight that was made for something else is refused.
    pub(crate) purpose: &'a str,
    /// Where they go to, for people.
    pub(crate) address: &'a str,
}

/// A batch was not taken, because a later one of its lane is in: it gets a sequence above that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) batch: u64,
    /// The later one.
    pub(crate) known: u64,
}

/// A batch that is in.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) sequence: u64,
    /// Which of its entries go back to the other queue, by their numbers from 1.
    pub(crate) kept: Vec<usize>,
    /// Which of its entries are not in, by their numbers from 1: they become the next batch.
    pub(crate) rest: Vec<usize>,
}

impl<'a> Take<'a> {
    /// Right when sent twice: what is in flight stays there until the call that names it.
    pub(crate) fn call(&self) -> Call<'a> {
        let Reading { source, order, layout, grace_s } = self.reading;
        let numbers = |of: fn(&Finished) -> &[usize]| {
            let numbers = self.finished.map(of).unwrap_or_default();
            numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
        };
        let take = TakeBatch {
            token: Digits(self.token),
            finished: self.finished.map(|finished| Digits(finished.sequence)),
            lane: self.lane,
            order: *order,
            most: self.most,
            most_bytes: self.most_bytes,
            above: self.behind.map(|behind| behind.known),
            tried: self.behind.map(|behind| Digits(behind.batch)),
            held: layout,
            grace_s: *grace_s,
            kept: numbers(|finished| &finished.kept),
            rest: numbers(|finished| &finished.rest),
            purpose: self.purpose,
            address: self.address,
            jump: jump(),
        };
        let own = ["in_flight", "state"].map(|own| beside(source, own));
        let others: Vec<&str> = own.iter().map(String::as_str).chain(layout.key()).collect();
        take.call(source, &others, |_| {})
    }
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
    Refused(Refusal),
    /// An entry names this key, which holds something else than a job.
    Foreign(String),
}

/// Why a bridge gets no batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A bridge whose lock had this larger token has been here.
    Fenced(u64),
    /// A batch waits that was made for something else.
    Other {
        /// How many elements its list has.
        elements: u64,
        /// Where it goes to, for people.
        address: String,
        purpose: String,
    },
}

/// The key that an answer says to hold no job.
fn foreign_key(reply: &Value) -> Option<String> {
    let Value::BulkString(text) = reply else { return None };
    Some(String::from_utf8_lossy(text.strip_prefix(b"foreign ")?).into_owned())
}

/// How far behind the last sequence the next one lies where the server's clock is behind both: a server that has lost its last writes does
/// not give one twice.
pub(crate) fn jump() -> usize {
    host::random_below(1 << 16)
}

impl Refusal {
    pub(super) fn decode(reply: Value) -> Result<Self, Error> {
        let text = text_of(reply)?;
        let other = |text: &str| {
            let mut lines = text.strip_prefix("other ")?.splitn(3, '\n');
            let (elements, address, purpose) = (lines.next()?.parse().ok()?, lines.next()?, lines.next()?);
            Some(Self::Other { elements, address: address.to_owned(), purpose: purpose.to_owned() })
        };
        match other(&text) {
            Some(other) => Ok(other),
            None => fenced(Value::BulkString(text.into_bytes())).map(Self::Fenced),
        }
    }
}

/// The answer to a bridge whose token is too small.
pub(super) fn fenced(reply: Value) -> Result<u64, Error> {
    let text = text_of(reply)?;
    let token = text.strip_prefix("fenced ").and_then(|token| token.parse().ok());
    token.ok_or_else(|| unexpected("a batch"))
}

impl Taken {
    pub(crate) fn decode(reply: Value, order: Order) -> Result<Self, Error> {
        if let Some(key) = foreign_key(&reply) {
            return Ok(Self::Foreign(key));
        }
        if !matches!(reply, Value::Array(_)) {
            return Refusal::decode(reply).map(Self::Refused);
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

/// Gives duly's server this id, if it has none, and asks which it has.
pub(crate) fn target_id(prefix: &str, id: &str) -> (u16, [Cmd; 2]) {
    let key = bridge_target_key(prefix);
    let (mut give, mut get) = (cmd("SET"), cmd("GET"));
    give.arg(&key).arg(id).arg("NX");
    get.arg(&key);
    (slot(&key), [give, get])
}

/// The answer to the second command of [`lane_id`] and its like.
pub(crate) fn known_id(reply: Value) -> Result<Option<String>, Error> {
    if reply == Value::Nil { Ok(None) } else { utf8(reply).map(Some) }
}

/// A command of `take_batch` that no other script has, about a key that is not there: it fails, with `PermissionDenied` if its user may not
/// run it.
pub(crate) fn try_lset(source: &str) -> (u16, Cmd) {
    let mut lset = cmd("LSET");
    lset.arg(beside(source, "permissions")).arg(0).arg("");
    (slot(source), lset)
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
