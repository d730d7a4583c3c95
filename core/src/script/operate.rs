//! What operators and producers do to jobs that wait: cancel, reschedule, requeue, purge, pause, and the hand-started rounds.

use redis::Value;

use super::declare::{Digits, Renewal, script};
use super::reply::{text, two_numbers, unexpected};
use crate::value::error::Error;

script! {
    /// Removes jobs. Items: ids, or keys.
    Cancel = "cancel",
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, Ready],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal, by: &'static str }
}

script! {
    /// Moves a waiting job to another due time. Items: id or key, due.
    Reschedule = "reschedule",
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Keys, Stale, Parked, Wake, Ready],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal, by: &'static str }
}

script! {
    /// Promotes what is due.
    Promote = "promote",
    keys: [Meta, Jobs, Delayed, Wake, Ready],
    arguments: { promote_cap: usize }
}

script! {
    /// Reclaims leases that are over.
    Reclaim = "reclaim",
    keys: [Meta, Jobs, Reserved, Leases, Failed, Returned, Keys, Parked, Places, Wake, Stats, Ready],
    arguments: { reclaim_cap: usize }
}

script! {
    /// Failed jobs round again. Items: ids.
    Requeue = "requeue",
    keys: [Call, Meta, Jobs, Failed, Returned, Keys, Wake, Stats, Ready],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal }
}

script! {
    /// Removes jobs of one state.
    Purge = "purge",
    keys: [Call, Meta, Jobs, Delayed, Failed, Returned, Keys, Stale, Parked, Stats, Ready],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal, state: &'static str, cap: usize }
}

script! {
    /// Pauses (`1`) or resumes (`0`).
    Pause = "pause",
    keys: [Call, Meta, Jobs, Wake],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal, pause: &'static str }
}

script! {
    /// The limits of the queue, as [`crate::operate::Limits::written`]. Items: (name, the most) each.
    Limit = "limit",
    keys: [Call, Meta, Jobs, Reserved, Parked, Places, Wake],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal, limits: String }
}

script! {
    /// Bounds of the failed set.
    Configure = "configure",
    keys: [Call, Meta, Jobs],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal, failed_max: u64, failed_age_ms: u64 }
}

/// How an operator names a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Id,
    Key,
}

impl By {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Key => "key",
        }
    }
}

/// The state a cancelled job was in and its id, or nothing; and whether somebody may wait for its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CancelReply(pub(crate) Option<(String, String)>, pub(crate) bool);

impl CancelReply {
    pub(crate) fn decode(reply: Value) -> Result<Vec<Self>, Error> {
        text(reply)?
            .split('\n')
            .map(|line| {
                let (line, is_awaited) = line.strip_prefix("awaited ").map_or((line, false), |line| (line, true));
                match line.split_once(' ') {
                    None if line == "absent" => Ok(Self(None, false)),
                    Some((state, id)) => Ok(Self(Some((state.to_owned(), id.to_owned())), is_awaited)),
                    None => Err(unexpected("what became of a cancelled job")),
                }
            })
            .collect()
    }
}

/// What a call of `purge` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PurgeReply {
    pub(crate) removed: u64,
    pub(crate) seen: u64,
    /// The removed jobs for whose results somebody may wait.
    pub(crate) awaited: Vec<String>,
}

impl PurgeReply {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        let mut lines = text.split('\n');
        let (removed, seen) = two_numbers(lines.next().unwrap_or_default())?;
        Ok(Self { removed, seen, awaited: lines.map(str::to_owned).collect() })
    }
}

/// What a call of `reclaim` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReclaimReply {
    pub(crate) taken: u64,
    /// It stopped before its cap, because the records are large.
    pub(crate) is_cut: bool,
    /// The jobs that failed and for whose results somebody may wait.
    pub(crate) awaited: Vec<String>,
}

impl ReclaimReply {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        let mut lines = text.split('\n');
        let (taken, is_cut) = two_numbers(lines.next().unwrap_or_default())?;
        Ok(Self { taken, is_cut: is_cut > 0, awaited: lines.map(str::to_owned).collect() })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RescheduleReply {
    Moved(String),
    /// Not touched: it runs, or has failed.
    InState(String, String),
    Absent,
}

impl RescheduleReply {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        match text.split_once(' ') {
            None if text == "absent" => Ok(Self::Absent),
            Some(("moved", id)) => Ok(Self::Moved(id.to_owned())),
            Some((state, id)) => Ok(Self::InState(state.to_owned(), id.to_owned())),
            None => Err(unexpected("what became of a rescheduled job")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequeueReply {
    Requeued,
    Duplicate(String),
    Absent,
    /// Not looked at: the records before it are as much as one call reads.
    Later,
}

impl RequeueReply {
    pub(crate) fn decode(reply: Value) -> Result<Vec<Self>, Error> {
        text(reply)?
            .split('\n')
            .map(|line| match line.split_once(' ') {
                None if line == "requeued" => Ok(Self::Requeued),
                None if line == "absent" => Ok(Self::Absent),
                None if line == "later" => Ok(Self::Later),
                Some(("duplicate", id)) => Ok(Self::Duplicate(id.to_owned())),
                _ => Err(unexpected("what became of a requeued job")),
            })
            .collect()
    }
}
