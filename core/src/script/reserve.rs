//! `reserve.lua`: jobs out, with everything that is due on the way.

use std::time::Duration;

use redis::Value;

use super::argument::JobKeys;
use super::declare::{Declared, scripts};
use super::reply::{FromReply, array, bytes, lossy, next, number, refuse, unexpected, utf8};
use super::settle::Outcomes;
use crate::value::error::Error;

scripts! {
    /// Leases up to `want` jobs.
    Reserve = "reserve",
    kind: Numbered in shapes and extents,
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, History, Ready, Result, Done],
    arguments: {
        want: usize, lease_ms: u64, wait_ms: u64, max_bytes: usize, promise: u64, ahead: usize, ack_count: usize, keyed: usize, result_count: JobKeys
    },
    items: (outcomes: &'a Outcomes),
    reply: ReserveReply;
}

// Under another name the leases of others would not be spared behind an outage.
const _: () = assert!(<Reserve as Declared>::FLAGS.ahead.is_some());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReserveStatus {
    Jobs,
    None,
    /// One call does a bounded amount of work: this one did not reach what is ready. The queue is to be looked at again at once.
    Unfinished,
    Paused,
}

/// One leased job as the script gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantedJob {
    pub(crate) id: String,
    /// The id as it is stored, where somebody else put one in that is not UTF-8; `id` is then only for people.
    pub(crate) foreign_id: Option<Vec<u8>>,
    pub(crate) record: Vec<u8>,
    pub(crate) came_back: Vec<u8>,
}

impl GrantedJob {
    pub(crate) fn new(id: Vec<u8>, record: Vec<u8>, came_back: Vec<u8>) -> Self {
        let (id, foreign_id) = match String::from_utf8(id) {
            Ok(id) => (id, None),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(error.into_bytes())),
        };
        Self { id, foreign_id, record, came_back }
    }

    /// The id as it is stored.
    pub(crate) fn id_bytes(&self) -> &[u8] {
        self.foreign_id.as_deref().unwrap_or(self.id.as_bytes())
    }
}

/// Jobs that had expired before a run of them began, and that the script has dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// At least 1.
    pub(crate) count: usize,
    pub(crate) first: GrantedJob,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReserveReply {
    pub(crate) status: ReserveStatus,
    /// One character per outcome handed along.
    pub(crate) settled: String,
    pub(crate) token: u64,
    /// How long until a job is due or a lease ends, to the microsecond; `None` when nothing is on its way.
    pub(crate) next_in: Option<Duration>,
    /// The server time at which this waiter promised to come back, 0 for no promise.
    pub(crate) promised: u64,
    /// With jobs, the server's time in milliseconds, where its clock was set back behind the token; 0 elsewhere.
    pub(crate) behind_token: u64,
    /// The queue has limits: what is reserved and waits takes somebody's place.
    pub(crate) limited: bool,
    /// The queue has limits, or keeps a history.
    pub(crate) has_options: bool,
    pub(crate) jobs: Vec<GrantedJob>,
    /// Jobs that failed, because their leases ended, or that have expired, and for whose results somebody may wait.
    pub(crate) awaited: Vec<String>,
    pub(crate) dropped: Option<Box<Dropped>>,
}

impl ReserveReply {
    pub(crate) fn is_unfinished(&self) -> bool {
        self.status == ReserveStatus::Unfinished
    }

    /// It is unfinished, and it left what its caller had promised as it was.
    pub(crate) fn leaves_promise(&self) -> bool {
        self.is_unfinished() && self.promised == 0
    }
}

impl FromReply for ReserveReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let reply = match reply {
            Value::Array(items) => items,
            other => return Err(refuse(&utf8(other)?).err().unwrap_or_else(|| unexpected("a list"))),
        };
        let mut items = reply.into_iter();
        let status = utf8(next(&mut items, "a status")?)?;
        let status = match status.as_str() {
            "jobs" => ReserveStatus::Jobs,
            "none" => ReserveStatus::None,
            "unfinished" => ReserveStatus::Unfinished,
            "paused" => ReserveStatus::Paused,
            _ => return Err(unexpected("a status of reserve")),
        };
        let settled = utf8(next(&mut items, "settled flags")?)?;
        let token = utf8(next(&mut items, "a token")?)?;
        let token = if token.is_empty() { 0 } else { token.parse().map_err(|_| unexpected("a token"))? };
        let next_in_us = u64::try_from(number(next(&mut items, "the next moment")?)?).ok();
        let next_in = next_in_us.map(Duration::from_micros);
        let fifth = u64::try_from(number(next(&mut items, "a promise, or the time")?)?).unwrap_or(0);
        let (promised, behind_token) = if status == ReserveStatus::Jobs { (0, fifth) } else { (fifth, 0) };
        let options = number(next(&mut items, "whether there are limits")?)?;
        let (mut jobs, mut awaited, mut dropped) = (Vec::new(), Vec::new(), None);
        while let Some(ids) = items.next() {
            let ids = array(ids)?;
            let mut records = array(next(&mut items, "records")?)?.into_iter();
            let mut notes = match next(&mut items, "what came back")? {
                Value::Array(notes) => notes.into_iter(),
                _ => Vec::new().into_iter(), // none of this queue's jobs came back
            };
            if ids.is_empty() {
                for id in records.by_ref() {
                    awaited.push(lossy(id)?);
                }
                if let Some(count) = notes.next() {
                    let count = usize::try_from(number(count)?).map_err(|_| unexpected("how many have expired"))?;
                    let [id, record] = [bytes(next(&mut notes, "an id")?)?, bytes(next(&mut notes, "a record")?)?];
                    dropped = Some(Box::new(Dropped { count, first: GrantedJob::new(id, record, Vec::new()) }));
                }
            }
            for id in ids {
                let record = bytes(next(&mut records, "a record")?)?;
                let came_back = match notes.next() {
                    None | Some(Value::Nil) => Vec::new(),
                    Some(note) => bytes(note)?,
                };
                jobs.push(GrantedJob::new(bytes(id)?, record, came_back));
            }
        }
        Ok(Self {
            status,
            settled,
            token,
            next_in,
            promised,
            behind_token,
            limited: options == 1,
            has_options: options != 0,
            jobs,
            awaited,
            dropped,
        })
    }

    fn fits(&self, outcomes: usize) -> bool {
        self.settled.len() == outcomes
    }
}
