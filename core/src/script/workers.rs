//! `beat.lua` and `workers.lua`: who works on a queue; `hear.lua`: what its workers hear of.

use std::time::Duration;

use redis::Value;

use super::declare::scripts;
use super::reply::{FromReply, array, bytes, lossy, next, number, refuse, unexpected, utf8};
use super::reserve::GrantedJob;
use crate::value::error::Error;

scripts! {
    /// A worker is alive, or leaves; and what its runs came to since it last said so.
    Beat = "beat",
    kind: Numbered,
    keys: [Call, Meta, Workers, WorkerInfos, Stats, Rates, Unheard],
    arguments: { worker: String, life_ms: u64, info: String },
    items: (whose: &'a [u8], tally: &'a [u8]),
    reply: BeatReply;

    /// Hears of jobs that failed while no hook was there to be called. `standing`: `1` if it is heard, `0` if it is not yet, `-` if
    /// it is given back.
    Hear = "hear",
    kind: Numbered,
    keys: [Call, Meta, Jobs, Failed, Returned, Unheard],
    arguments: { claim_ms: u64, most: usize, max_bytes: usize },
    items: (id: &'a [u8], claimed_until: u64, standing: &'a [u8]),
    reply: HearReply;

    /// The workers that are alive.
    Alive = "workers",
    kind: Reads,
    keys: [Meta, Workers, WorkerInfos],
    reply: Vec<AliveReply>;

    /// What workers have counted of runs.
    Counted = "rates",
    kind: Reads,
    keys: [Rates],
    arguments: { minutes: u64, tens: u64, skip: u64, total: u64 },
    reply: RatesReply;
}

/// What workers have counted of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RatesReply {
    pub(crate) now: u64,
    pub(crate) tallies: Vec<KeptTally>,
}

/// What was counted in one window of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptTally {
    /// `m<minutes since 1970>`, `t<ten minutes since 1970>`, or `a`: of all time.
    pub(crate) window: String,
    /// `=`: all jobs; `:<name>`: those of a name, without one behind the colon those that have none; `+`: all other names.
    pub(crate) whose: String,
    pub(crate) tally: Vec<u8>,
}

impl FromReply for RatesReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let now = u64::try_from(number(next(&mut items, "the time")?)?).map_err(|_| unexpected("the time"))?;
        let mut tallies = Vec::with_capacity(items.len() / 3);
        while let Some(window) = items.next() {
            let whose = lossy(next(&mut items, "whose runs they are")?)?;
            let tally = bytes(next(&mut items, "what runs came to")?)?;
            tallies.push(KeptTally { window: lossy(window)?, whose, tally });
        }
        Ok(Self { now, tallies })
    }
}

/// A worker that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AliveReply {
    pub(crate) id: String,
    /// What it says of itself.
    pub(crate) info: Vec<u8>,
}

impl FromReply for Vec<AliveReply> {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let mut workers = Self::new();
        while let Some(id) = items.next() {
            let info = bytes(next(&mut items, "what a worker says of itself")?)?;
            workers.push(AliveReply { id: lossy(id)?, info });
        }
        Ok(workers)
    }
}

/// The answer to a report that a worker is alive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BeatReply {
    /// How many jobs entered `failed` that no hook has heard of, and no worker has taken up.
    pub(crate) unheard: u64,
    /// How many failed jobs were trimmed since the last report to a worker.
    pub(crate) trimmed: u64,
    /// How long until the next schedule fires; nothing if none does.
    pub(crate) schedule_in: Option<Duration>,
}

impl FromReply for BeatReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = items(reply)?.into_iter();
        let mut count = |what| Ok(u64::try_from(number(next(&mut items, what)?)?).unwrap_or(0));
        let (unheard, trimmed) = (count("how many nobody heard of")?, count("how many were trimmed")?);
        // Where none does, there is nothing.
        let schedule_in = items.next().map(number).transpose()?;
        let schedule_in = schedule_in.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        Ok(Self { unheard, trimmed, schedule_in })
    }
}

/// Jobs that failed while no hook was there to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HearReply {
    /// Until then this worker has to report them.
    pub(crate) claimed_until: u64,
    /// How many more can be had at once.
    pub(crate) more: u64,
    /// Ids of jobs that no hook is called for any more: too many claims have ended without a word. They are claimed, too, so that
    /// somebody says so.
    pub(crate) given_up: Vec<Vec<u8>>,
    pub(crate) jobs: Vec<GrantedJob>,
}

impl FromReply for HearReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = items(reply)?.into_iter();
        let claimed_until = utf8(next(&mut items, "the end of a claim")?)?;
        let claimed_until = claimed_until.parse().map_err(|_| unexpected("the end of a claim"))?;
        let more = u64::try_from(number(next(&mut items, "how many more there are")?)?).unwrap_or(0);
        let given_up = array(next(&mut items, "what is given up")?)?;
        let given_up = given_up.into_iter().map(bytes).collect::<Result<_, _>>()?;
        let mut jobs = Vec::new();
        while let Some(id) = items.next() {
            let record = bytes(next(&mut items, "a record")?)?;
            jobs.push(GrantedJob::new(bytes(id)?, record, bytes(next(&mut items, "what came back")?)?));
        }
        Ok(Self { claimed_until, more, given_up, jobs })
    }
}

fn items(reply: Value) -> Result<Vec<Value>, Error> {
    match reply {
        Value::Array(items) => Ok(items),
        other => Err(refuse(&utf8(other)?).err().unwrap_or_else(|| unexpected("a list"))),
    }
}
