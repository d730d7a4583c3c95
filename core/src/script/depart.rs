//! `depart.lua` and `bridge/publish.lua`: jobs out of our keys, and into those of another queue.

use redis::Value;

use super::argument::Digits;
use super::bridge::Order;
use super::call::Call;
use super::declare::scripts;
use super::foreign::{beside, foreign};
use super::reply::{FromReply, array, bytes, next, text as text_of, unexpected, utf8};
use crate::value::error::Error;

foreign! {
    PublishBatch = "bridge/publish",
    keys: [target, published],
    arguments: { lane: &'a str, sequence: Digits, order: Order };
}

scripts! {
    /// Takes the next batch of a state out of it, and gives it until it is named as finished.
    Depart = "depart",
    kind: Plain in shapes,
    keys: [Meta, Jobs, Delayed, Failed, Returned, Keys, Stale, Parked, Departing, Departed, Ready],
    arguments: { state: &'static str, token: Digits, finished: String, lane: String, above: String, cap: usize },
    reply: DepartReply;
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
    /// Another bridge has taken over.
    Fenced,
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
            return if text_of(reply)? == "fenced" { Ok(Self::Fenced) } else { Err(unexpected("a batch")) };
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
