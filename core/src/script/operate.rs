//! What operators and producers do to jobs that wait: cancel, reschedule, requeue, purge, pause, and the hand-started rounds.

use redis::Value;

use super::argument::{Argument, Digits, Due};
use super::call::ByteStrings;
use super::declare::scripts;
use super::reply::{FromReply, text, two_numbers, unexpected};
use crate::value::error::Error;

scripts! {
    /// Removes jobs.
    Cancel = "cancel",
    kind: Numbered in shapes,
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, History, Ready],
    arguments: { by: By, only: String },
    items: (id_or_key: &'a str),
    reply: Vec<CancelReply>;

    /// Moves a waiting job to another due time.
    Reschedule = "reschedule",
    kind: Numbered in shapes,
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Keys, Stale, Parked, Wake, History, Ready],
    arguments: { by: By, only: &'static str },
    items: (id_or_key: &'a str, due: Due),
    reply: RescheduleReply;

    /// Promotes what is due.
    Promote = "promote",
    kind: Plain,
    keys: [Meta, Jobs, Delayed, Wake, History, Ready],
    arguments: { promote_cap: usize },
    reply: u64;

    /// Reclaims leases that are over.
    Reclaim = "reclaim",
    kind: Plain in shapes,
    keys: [Meta, Jobs, Reserved, Leases, Failed, Returned, Keys, Parked, Places, Wake, Stats, History, Ready],
    arguments: { reclaim_cap: usize },
    reply: ReclaimReply;

    /// Failed jobs round again.
    Requeue = "requeue",
    kind: Numbered,
    keys: [Call, Meta, Jobs, Failed, Returned, Keys, Wake, Stats, History, Ready],
    arguments: { known_record: Vec<u8>, new_record: Vec<u8> },
    items: (id: &'a [u8]),
    reply: Vec<RequeueReply>;

    /// Removes jobs of one state.
    Purge = "purge",
    kind: Numbered in shapes,
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, History, Ready],
    arguments: { state: &'static str, cap: usize, latest: String },
    reply: PurgeReply;

    /// Pauses (`1`) or resumes (`0`).
    Pause = "pause",
    kind: Numbered,
    keys: [Call, Meta, Jobs, Wake],
    arguments: { pause: &'static str },
    reply: ();

    /// The limits of names, and of the queue, which has no name; `<concurrency>;<jobs>:<us>` each. And its length.
    SetLimits = "set_limits",
    kind: Numbered,
    keys: [Call, Meta, Jobs, Reserved, Parked, Places, Wake],
    arguments: { max_length: Option<Digits> },
    items: (name: &'a str, limit: String),
    reply: LimitReply;

    /// Brings a queue of an older format to ours.
    Upgrade = "upgrade",
    kind: Plain,
    keys: [Meta],
    reply: ();

    /// Bounds of the failed set.
    Configure = "configure",
    kind: Numbered,
    keys: [Call, Meta, Jobs],
    arguments: { failed_max: u64, failed_age_ms: u64 },
    reply: ();

    /// How many events the history keeps, and for how long; none: there is none.
    KeepHistory = "keep_history",
    kind: Numbered,
    keys: [Call, Meta, Jobs, History],
    arguments: { history_events: u64, history_age_ms: u64 },
    reply: ();
}

impl Requeue {
    /// With the records that they have.
    pub(crate) fn as_they_are() -> Self {
        Self { known_record: Vec::new(), new_record: Vec::new() }
    }
}

/// How an operator names a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Id,
    Key,
}

impl Argument for By {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        out.push(match self {
            Self::Id => b"id",
            Self::Key => b"key",
        });
    }
}

/// Were the limits set?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReply {
    Set,
    /// Limits of too many names were taken away while their jobs run.
    Busy,
}

impl FromReply for LimitReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        Ok(if text(reply)? == "busy" { Self::Busy } else { Self::Set })
    }
}

/// What became of one job that was to be cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CancelReply {
    /// It is gone; somebody may wait for its result.
    Removed {
        was: String,
        id: String,
        is_awaited: bool,
    },
    /// Not touched: it is in none of the states in which it was to be cancelled.
    Kept {
        state: String,
        id: String,
    },
    Absent,
    /// Not looked at: the records before it are as much as one call reads.
    Later,
}

impl FromReply for Vec<CancelReply> {
    fn decode(reply: Value) -> Result<Self, Error> {
        text(reply)?
            .split('\n')
            .map(|line| {
                let owned = |(state, id): (&str, &str)| (state.to_owned(), id.to_owned());
                if let Some(kept) = line.strip_prefix("kept ").and_then(|line| line.split_once(' ')) {
                    let (state, id) = owned(kept);
                    return Ok(CancelReply::Kept { state, id });
                }
                let (line, is_awaited) = line.strip_prefix("awaited ").map_or((line, false), |line| (line, true));
                match line.split_once(' ').map(owned) {
                    None if line == "absent" => Ok(CancelReply::Absent),
                    None if line == "later" => Ok(CancelReply::Later),
                    Some((was, id)) => Ok(CancelReply::Removed { was, id, is_awaited }),
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

impl FromReply for PurgeReply {
    fn decode(reply: Value) -> Result<Self, Error> {
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
    pub(crate) is_unfinished: bool,
    /// The jobs that failed and for whose results somebody may wait.
    pub(crate) awaited: Vec<String>,
}

impl FromReply for ReclaimReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        let mut lines = text.split('\n');
        let (taken, is_unfinished) = two_numbers(lines.next().unwrap_or_default())?;
        Ok(Self { taken, is_unfinished: is_unfinished > 0, awaited: lines.map(str::to_owned).collect() })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RescheduleReply {
    Moved(String),
    /// Not touched: it runs, has failed, or is in another state than the one that was meant.
    InState(String, String),
    Absent,
}

impl FromReply for RescheduleReply {
    fn decode(reply: Value) -> Result<Self, Error> {
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

impl FromReply for Vec<RequeueReply> {
    fn decode(reply: Value) -> Result<Self, Error> {
        text(reply)?
            .split('\n')
            .map(|line| match line.split_once(' ') {
                None if line == "requeued" => Ok(RequeueReply::Requeued),
                None if line == "absent" => Ok(RequeueReply::Absent),
                None if line == "later" => Ok(RequeueReply::Later),
                Some(("duplicate", id)) => Ok(RequeueReply::Duplicate(id.to_owned())),
                _ => Err(unexpected("what became of a requeued job")),
            })
            .collect()
    }
}
