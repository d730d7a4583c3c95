//! `counts.lua`, `peek.lua`, `search.lua`, `find.lua`: looking without touching.

use redis::Value;

use super::argument::JobKeys;
use super::declare::scripts;
use super::operate::By;
use super::reply::{FromReply, array, bytes, lossy, moment, next, number, unexpected, utf8};
use crate::value::error::Error;

scripts! {
    /// How many jobs are where.
    Counts = "counts",
    kind: Reads,
    keys: [Meta, Jobs, Delayed, Reserved, Failed, Stale, Parked, Places, Stats, Ready],
    reply: CountsReply;

    /// A page of one state.
    Peek = "peek",
    kind: Reads,
    keys: [Jobs, Delayed, Reserved, Leases, Failed, Returned, Stale, Parked, Ready],
    arguments: { state: &'static str, offset: usize, limit: usize, cursor: Vec<u8> },
    reply: PageReply;

    /// The jobs of a state that match a filter, as far as one call looks.
    Search = "search",
    kind: Reads,
    keys: [Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Stale, Parked, Ready],
    arguments: {
        state: &'static str, cursor: Vec<u8>, limit: usize, look: usize, brief: usize, name_is: String, key_begins: String,
        error_has: String, level_is: String, at_from: String, at_until: String
    },
    reply: SearchReply;

    /// One job.
    Find = "find",
    kind: Reads,
    keys: [Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places],
    arguments: { by: By },
    items: (id_or_key: &'a str),
    reply: Option<FoundReply>;

    /// What the history has of one job, from the call with the number `start` on until that with the number `stop`; 0: to its end.
    Trace = "trace",
    kind: Reads,
    keys: [Meta, History],
    arguments: { job_id: String, start: u64, stop: u64 },
    reply: TraceReply;

    /// The server's time in ms, from which spans are counted.
    Now = "now",
    kind: Reads,
    keys: [Meta],
    reply: u64;

    /// What became of a job whose result is waited for.
    Awaited = "result",
    kind: Reads,
    keys: [Jobs, Failed, Returned, Result],
    arguments: { result_count: JobKeys },
    items: (id: &'a str),
    reply: AwaitedReply;

    /// Wakes whoever waits for the results of jobs.
    WakeWaiters = "wake_waiters",
    kind: Plain,
    keys: [Meta, Done],
    arguments: { life_ms: u64, done_count: JobKeys },
    reply: ();
}

/// A page of what the history has of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceReply {
    /// The number of the call to go on with.
    pub(crate) next: Option<u64>,
    /// `<events>;<ms>`, or nothing without a history.
    pub(crate) kept: String,
    /// The number of the first call that was read; where no job is asked for, of the first that there is.
    pub(crate) first: Option<u64>,
    /// The number that the next call will have.
    pub(crate) end: u64,
    /// Of each event the ms, who made the call, and the line.
    pub(crate) events: Vec<[String; 3]>,
}

impl FromReply for TraceReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let next_call = number(next(&mut items, "where to go on")?)?;
        let kept = lossy(next(&mut items, "how much is kept")?)?;
        let first = number(next(&mut items, "where it began")?)?;
        let end = number(next(&mut items, "where the history ends")?)?;
        let call = |number: i64| u64::try_from(number).ok().filter(|&number| number > 0);
        let mut events = Vec::new();
        while let Some(at) = items.next() {
            let origin = lossy(next(&mut items, "who made a call")?)?;
            events.push([lossy(at)?, origin, lossy(next(&mut items, "what happened")?)?]);
        }
        Ok(Self { next: call(next_call), kept, first: call(first), end: call(end).unwrap_or(1), events })
    }
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AwaitedReply {
    /// It may still be done.
    Live,
    /// It failed for good; what is kept beside its record.
    Failed(Vec<u8>),
    Done(Vec<u8>),
    /// It is done, and the server had no memory for its result.
    NotKept,
    /// There is neither a job nor a result.
    Gone,
}

impl FromReply for AwaitedReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        match utf8(next(&mut items, "a word")?)?.as_str() {
            "live" => Ok(Self::Live),
            "failed" => Ok(Self::Failed(bytes(next(&mut items, "what came back")?)?)),
            "done" => Ok(Self::Done(bytes(next(&mut items, "a result")?)?)),
            "not kept" => Ok(Self::NotKept),
            "gone" => Ok(Self::Gone),
            _ => Err(unexpected("what became of a job")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CountsReply {
    pub(crate) now: i64,
    pub(crate) delayed: i64,
    pub(crate) ready: i64,
    pub(crate) reserved: i64,
    pub(crate) failed: i64,
    pub(crate) next_due: Option<i64>,
    pub(crate) next_lease_end: Option<i64>,
    pub(crate) paused: bool,
    pub(crate) format: i64,
    pub(crate) entries_by_level: Vec<i64>,
    /// Id and record of the oldest job of each level that has one.
    pub(crate) heads: Vec<(String, Vec<u8>)>,
    pub(crate) stats: Vec<(String, i64)>,
    pub(crate) limits: LimitsReply,
}

/// The limits as `meta` has them, and how much of them is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LimitsReply {
    pub(crate) text: String,
    pub(crate) usage: Vec<LimitUsage>,
}

/// How much of one limit is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitUsage {
    pub(crate) number: u64,
    /// How many jobs have a place under it.
    pub(crate) count: i64,
    /// What its rate has seen.
    pub(crate) seen: String,
}

impl FromReply for CountsReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let mut count = |what| number(next(&mut items, what)?);
        let (now, delayed, ready) = (count("the time")?, count("delayed")?, count("ready")?);
        let (reserved, failed) = (count("reserved")?, count("failed")?);
        let next_due = moment(next(&mut items, "the next due time")?)?;
        let next_lease_end = moment(next(&mut items, "the next lease end")?)?;
        let paused = is_paused(next(&mut items, "the pause")?);
        // What is no number is no format of ours.
        let format = number(next(&mut items, "the format")?).unwrap_or(i64::MAX);
        let levels = array(next(&mut items, "levels")?)?;
        let mut heads = Vec::new();
        let mut pairs = array(next(&mut items, "heads")?)?.into_iter();
        while let Some(id) = pairs.next() {
            heads.push((lossy(id)?, bytes(next(&mut pairs, "a head's record")?)?));
        }
        let mut stats = Vec::new();
        let mut pairs = array(next(&mut items, "stats")?)?.into_iter();
        while let Some(name) = pairs.next() {
            // Totals only inform: a foreign value there is left out.
            let (name, total) = (lossy(name)?, number(next(&mut pairs, "a counter")?));
            stats.extend(total.ok().map(|total| (name, total)));
        }
        let limits = LimitsReply::decode(&mut items)?;
        Ok(Self {
            now,
            delayed,
            ready,
            reserved,
            failed,
            next_due: (next_due >= 0).then_some(next_due),
            next_lease_end: (next_lease_end >= 0).then_some(next_lease_end),
            paused,
            format,
            entries_by_level: levels.into_iter().map(number).collect::<Result<_, _>>()?,
            heads,
            stats,
            limits,
        })
    }
}

impl LimitsReply {
    fn decode(items: &mut std::vec::IntoIter<Value>) -> Result<Self, Error> {
        let text = lossy(next(items, "the limits")?)?;
        let mut parts = array(next(items, "how much of the limits is used")?)?.into_iter();
        let mut usage = Vec::with_capacity(parts.len() / 3);
        while let Some(part) = parts.next() {
            let count = number(next(&mut parts, "how many jobs have a place")?)?;
            let seen = lossy(next(&mut parts, "what a rate has seen")?)?;
            let of = u64::try_from(number(part)?).map_err(|_| unexpected("the number of a limit"))?;
            usage.push(LimitUsage { number: of, count, seen });
        }
        Ok(Self { text, usage })
    }
}

/// One job of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeekedReply {
    pub(crate) id: String,
    /// Due, lease end or time of failure in ms; `None` when ready.
    pub(crate) score: Option<i64>,
    pub(crate) record: Vec<u8>,
    pub(crate) came_back: Vec<u8>,
}

/// A page, or as much of it as one call may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageReply {
    pub(crate) jobs: Vec<PeekedReply>,
    /// How many entries were looked at, where it ends early because of their size.
    pub(crate) ends_at: Option<usize>,
    /// Where to go on in a ready list of which one call passes by no more.
    pub(crate) next: Option<Vec<u8>>,
}

impl FromReply for PageReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let ends_at = number(next(&mut items, "where the page ends")?)?;
        let ends_at = usize::try_from(ends_at).ok().filter(|&at| at > 0);
        let cursor = bytes(next(&mut items, "where to go on")?)?;
        Ok(Self { next: (!cursor.is_empty()).then_some(cursor), jobs: peeked(items)?, ends_at })
    }
}

/// What a call of `search` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchReply {
    pub(crate) looked_at: u64,
    /// Entries of a ready list that no longer count.
    pub(crate) passed: u64,
    /// Of their records, and of what came back.
    pub(crate) bytes: u64,
    /// Where to go on; nothing at the end.
    pub(crate) next: Option<Vec<u8>>,
    /// With the name instead of the record, if it was to be brief.
    pub(crate) jobs: Vec<PeekedReply>,
}

impl FromReply for SearchReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let mut count = |what| u64::try_from(number(next(&mut items, what)?)?).map_err(|_| unexpected(what));
        let (looked_at, passed) = (count("how many were looked at")?, count("how many were passed by")?);
        let read = count("how many bytes were read")?;
        let cursor = bytes(next(&mut items, "where to go on")?)?;
        Ok(Self { looked_at, passed, bytes: read, next: (!cursor.is_empty()).then_some(cursor), jobs: peeked(items)? })
    }
}

fn peeked(mut items: std::vec::IntoIter<Value>) -> Result<Vec<PeekedReply>, Error> {
    let mut jobs = Vec::with_capacity(items.len() / 4);
    while let Some(id) = items.next() {
        jobs.push(PeekedReply {
            id: lossy(id)?,
            score: score(next(&mut items, "a score")?)?,
            record: bytes(next(&mut items, "a record")?)?,
            came_back: bytes(next(&mut items, "what came back")?)?,
        });
    }
    Ok(jobs)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundReply {
    pub(crate) state: String,
    pub(crate) job: PeekedReply,
    pub(crate) token: Option<u64>,
    pub(crate) now: i64,
    pub(crate) paused: bool,
    /// With the usage of those that may hold it back.
    pub(crate) limits: LimitsReply,
}

/// Nothing if there is no such job.
impl FromReply for Option<FoundReply> {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let Some(id) = items.next() else { return Ok(None) };
        let id = lossy(id)?;
        let state = utf8(next(&mut items, "a state")?)?;
        let job = PeekedReply {
            id,
            score: score(next(&mut items, "a score")?)?,
            record: bytes(next(&mut items, "a record")?)?,
            came_back: bytes(next(&mut items, "what came back")?)?,
        };
        let token = utf8(next(&mut items, "a token")?)?.parse().ok();
        let now = number(next(&mut items, "the time")?)?;
        let paused = is_paused(next(&mut items, "the pause")?);
        let limits = LimitsReply::decode(&mut items)?;
        Ok(Some(FoundReply { state, job, token, now, paused, limits }))
    }
}

fn score(reply: Value) -> Result<Option<i64>, Error> {
    let bytes = bytes(reply)?;
    if bytes.is_empty() { Ok(None) } else { moment(Value::BulkString(bytes)).map(Some) }
}

/// Any other value than ours is no pause, as for the scripts.
fn is_paused(reply: Value) -> bool {
    number(reply).is_ok_and(|paused| paused == 1)
}
