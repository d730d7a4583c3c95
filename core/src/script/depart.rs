//! `depart.lua`, `bridge/publish.lua`, `bridge/withdraw.lua` and `give_back.lua`: jobs out of our keys, into those of another queue, and
//! back if they did not get there.

use redis::{Cmd, Value, cmd};

use super::argument::Digits;
use super::bridge::{Order, Refusal, fenced};
use super::call::Call;
use super::declare::scripts;
use super::foreign::{beside, foreign, slot};
use super::keys::{Key, QueueKeys};
use super::reply::{FromReply, array, bytes, next, number, text as text_of, unexpected, utf8};
use crate::value::error::Error;

foreign! {
    PublishBatch = "bridge/publish",
    keys: [target, published],
    arguments: { lane: &'a str, sequence: Digits, order: Order };

    WithdrawBatch = "bridge/withdraw",
    keys: [target, published],
    arguments: { lane: &'a str, sequence: Digits };
}

scripts! {
    /// Takes the next batch of a state out of it, and gives it until it is named as finished.
    Depart = "depart",
    kind: Plain in shapes,
    keys: [Meta, Jobs, Delayed, Failed, Returned, Keys, Stale, Parked, Departing, Departed, History, Ready],
    arguments: {
        state: &'static str, token: Digits, finished: String, lane: String, above: String, tried: String, cap: usize,
        purpose: String, address: String, jump: usize,
    },
    reply: DepartReply;

    /// Puts the batch of this sequence back into its state.
    GiveBack = "give_back",
    kind: Plain,
    keys: [Meta, Jobs, Delayed, Failed, Returned, Keys, Wake, Stats, Departing, Departed, History, Ready],
    arguments: { token: Digits, sequence: Digits },
    reply: GiveBackReply;
}

/// What came of giving a batch back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GiveBackReply {
    /// So many jobs are in their state again.
    Given(u64),
    /// A bridge whose lock had this larger token has been here.
    Fenced(u64),
}

impl FromReply for GiveBackReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let text = text_of(reply)?;
        match text.parse() {
            Ok(count) => Ok(Self::Given(count)),
            Err(_) => fenced(Value::BulkString(text.into_bytes())).map(Self::Fenced),
        }
    }
}

/// How many jobs are on their way, and out of which state; see `departing_of`.
pub(crate) fn departing(keys: &QueueKeys) -> [Cmd; 2] {
    let (mut length, mut state) = (cmd("LLEN"), cmd("HGET"));
    length.arg(keys.spell(Key::Departing));
    state.arg(keys.spell(Key::Departed)).arg("state");
    [length, state]
}

/// The answers to the commands of [`departing`].
pub(crate) fn departing_of([length, state]: [Value; 2]) -> Result<(u64, String), Error> {
    let count = jobs_departing(u64::try_from(number(length)?).unwrap_or_default());
    Ok((count, if state == Value::Nil { String::new() } else { utf8(state)? }))
}

/// How many jobs a list of so many elements has: of each the id, the record, what came back, and the score.
pub(crate) fn jobs_departing(elements: u64) -> u64 {
    elements / 4
}

/// Gives the server of another queue's key this id, if it has none, and asks which it has; see `known_id`.
pub(crate) fn published_id(key: &str, id: &str) -> (u16, [Cmd; 2]) {
    let (mut give, mut get) = (cmd("HSETNX"), cmd("HGET"));
    give.arg(beside(key, "published")).arg("id").arg(id);
    get.arg(beside(key, "published")).arg("id");
    (slot(key), [give, get])
}

/// Where the token of the last bridge of a queue is.
pub(crate) fn departed_key(keys: &QueueKeys) -> String {
    keys.spell(Key::Departed)
}

/// What goes back.
#[derive(Debug)]
pub(crate) enum DepartReply {
    Batch {
        /// None if there is nothing.
        sequence: Option<u64>,
        lane: String,
        /// `delayed`, `ready` or `failed`.
        state: String,
        /// May the next call find something?
        more: bool,
        jobs: Vec<DepartingJob>,
    },
    Refused(Refusal),
}

#[derive(Debug)]
pub(crate) struct DepartingJob {
    pub(crate) id: String,
    pub(crate) record: Vec<u8>,
    pub(crate) came_back: Vec<u8>,
    /// When it is due, or when it failed, in ms since 1970.
    pub(crate) at: Option<u64>,
}

impl FromReply for DepartReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        if !matches!(reply, Value::Array(_)) {
            return Refusal::decode(reply).map(Self::Refused);
        }
        let mut items = array(reply)?.into_iter();
        let sequence = match utf8(next(&mut items, "a sequence")?)?.as_str() {
            "" => None,
            digits => Some(digits.parse().map_err(|_| unexpected("a sequence"))?),
        };
        let lane = utf8(next(&mut items, "a lane")?)?;
        let state = utf8(next(&mut items, "a state")?)?;
        let more = utf8(next(&mut items, "whether there is more")?)? == "more";
        let mut jobs = Vec::new();
        while let Some(id) = items.next() {
            let id = utf8(id)?;
            let record = bytes(next(&mut items, "a record")?)?;
            let came_back = bytes(next(&mut items, "what came back")?)?;
            let at = utf8(next(&mut items, "a score")?)?;
            jobs.push(DepartingJob { id, record, came_back, at: at.parse().ok() });
        }
        Ok(Self::Batch { sequence, lane, state, more, jobs })
    }
}

/// Puts a batch into another queue's key.
#[derive(Debug)]
pub(crate) struct Publish<'a> {
    pub(crate) target: &'a str,
    pub(crate) order: Order,
    pub(crate) lane: &'a str,
    pub(crate) sequence: u64,
    /// The jobs, for a sorted set each with its score.
    pub(crate) jobs: &'a [(Option<u64>, Vec<u8>)],
}

impl<'a> Publish<'a> {
    /// Right when sent twice: the batch is in then.
    pub(crate) fn call(&self) -> Call<'a> {
        let batch = PublishBatch { lane: self.lane, sequence: Digits(self.sequence), order: self.order };
        batch.call(self.target, &[&beside(self.target, "published")], |out| {
            for (score, job) in self.jobs {
                if let Some(score) = score {
                    out.push_display(score);
                }
                out.push(job);
            }
        })
    }
}

/// The answer to [`Publish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// It is in now, or was before.
    In,
    /// A later batch of its lane is in.
    Behind(u64),
}

impl Published {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let text = text_of(reply)?;
        match text.strip_prefix("behind ") {
            None if matches!(text.as_str(), "published" | "known") => Ok(Self::In),
            Some(known) => known.parse().map(Self::Behind).map_err(|_| unexpected("a sequence")),
            None => Err(unexpected("what became of a batch")),
        }
    }
}

/// Sees to it that a batch never comes into another queue's key, unless it is there.
#[derive(Debug)]
pub(crate) struct Withdraw<'a> {
    pub(crate) target: &'a str,
    pub(crate) lane: &'a str,
    pub(crate) sequence: u64,
}

impl<'a> Withdraw<'a> {
    /// Right when sent twice: the answer is the same.
    pub(crate) fn call(&self) -> Call<'a> {
        let batch = WithdrawBatch { lane: self.lane, sequence: Digits(self.sequence) };
        batch.call(self.target, &[&beside(self.target, "published")], |_| {})
    }
}

/// The answer to [`Withdraw`]: is the batch in?
pub(crate) fn is_published(reply: Value) -> Result<bool, Error> {
    match text_of(reply)?.as_str() {
        "published" => Ok(true),
        "withdrawn" => Ok(false),
        _ => Err(unexpected("whether a batch is in")),
    }
}
