//! The calls of the scripts as data, and the way from such a call to a step of the model.

use crate::queue::Claim;
use crate::script::{
    AliveReply, AwaitedReply, BeatReply, By, CountsReply, Due, FoundReply, HearReply, IfDuplicate, Levels,
    MemoryRenewal, Numbering, PageReply, ReserveReply, Shape, Verb,
};

use super::limits::Limit;
use super::state::{Record, Returned, State};
use super::world::USERS_IDS;

/// The answer to a call that its client has given up, once that client went on.
const GIVEN_UP: &str = "superseded";
/// The answer to a client that should be remembered and is not.
const FORGOTTEN: &str = "forgotten";

/// Who calls, and under which number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallId {
    pub(super) client: String,
    pub(super) slot: usize,
    pub(super) number: u64,
    pub(super) renewal: MemoryRenewal,
    /// Does the client say that it must be remembered?
    pub(super) is_known: bool,
}

impl CallId {
    /// As the engine says it.
    pub(super) fn numbering(&self) -> Numbering<'_> {
        let Self { client, slot, number, renewal, is_known } = self;
        Numbering { client, slot: *slot, number: *number, renewal, is_known: *is_known }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Became {
    /// With what it leaves.
    Done(Option<String>),
    Back {
        verb: Verb,
        delay_ms: u64,
        error: String,
        rewritten: Option<(u64, Record)>,
    },
}

/// What became of a reserved job.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) id: String,
    pub(super) token: u64,
    pub(super) key: Option<String>,
    pub(super) became: Became,
}

impl Outcome {
    /// Does its caller say that somebody may wait for the result? In these tests, of every job that failed for good, or expired, with a text.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(&self.became, Became::Back { verb: Verb::Failed | Verb::Unheard | Verb::Expired, error, .. } if !error.is_empty())
    }

    /// It ends nothing.
    pub(super) fn is_start(&self) -> bool {
        self.starts().is_some()
    }

    /// For how long a lease that is over goes on with a start.
    pub(super) fn starts(&self) -> Option<u64> {
        match self.became {
            Became::Back { verb: Verb::Start, delay_ms, .. } => Some(delay_ms),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct ReserveCall {
    pub(super) call: CallId,
    pub(super) want: usize,
    pub(super) lease_ms: u64,
    pub(super) wait_ms: u64,
    pub(super) max_bytes: usize,
    pub(super) promise: u64,
    pub(super) ahead: bool,
    /// Leases that are over are left alone.
    pub(super) spares: bool,
    /// Acks first.
    pub(super) outcomes: Vec<Outcome>,
}

/// An id, its record, when it is due, and what an import says of its earlier runs.
pub(super) type UniqueItem = (String, Record, Due, Option<Returned>);

/// Is one of these ids the user's? Then it may have been another job's before.
pub(super) fn gives_ids(items: &[UniqueItem]) -> bool {
    items.iter().any(|(id, ..)| USERS_IDS.contains(&id.as_str()))
}

#[derive(Debug, Clone)]
pub(super) enum Command {
    Push { call: CallId, level: u8, due: Due, items: Vec<(String, Record)> },
    PushUnique { call: CallId, if_duplicate: IfDuplicate, items: Vec<UniqueItem> },
    Reserve(ReserveCall),
    Settle { call: CallId, outcomes: Vec<Outcome> },
    Extend { lease_ms: u64, leases: Vec<(String, u64)> },
    Cancel { call: CallId, by: By, only: &'static str, names: Vec<String> },
    Reschedule { call: CallId, by: By, name: String, due: Due },
    Requeue { call: CallId, ids: Vec<String> },
    Purge { call: CallId, state: &'static str, cap: usize, latest: Option<u64> },
    Promote { cap: usize },
    Reclaim { cap: usize },
    Pause { call: CallId, pause: bool },
    Configure { call: CallId, failed_max: u64, failed_age_ms: u64 },
    Limit { call: CallId, of_queue: Option<Limit>, names: Vec<(String, Limit)> },
    Counts,
    Peek { state: &'static str, offset: usize, limit: usize },
    Find { by: By, name: String },
    Awaited { id: String },
    WakeWaiters { ids: Vec<String> },
    Beat { call: CallId, worker: String, life_ms: u64, info: String },
    Hear { call: CallId, claim_ms: u64, most: usize, max_bytes: usize, claims: Vec<Claim> },
    Alive,
    Progress { id: String, token: u64, fraction: &'static str, text: &'static str },
    ProgressOf { ids: Vec<String> },
}

/// The number of a command that has one, borrowed as the command is.
macro_rules! call_of {
    ($command:expr) => {
        match $command {
            Command::Push { call, .. }
            | Command::PushUnique { call, .. }
            | Command::Reserve(ReserveCall { call, .. })
            | Command::Settle { call, .. }
            | Command::Cancel { call, .. }
            | Command::Reschedule { call, .. }
            | Command::Requeue { call, .. }
            | Command::Purge { call, .. }
            | Command::Pause { call, .. }
            | Command::Configure { call, .. }
            | Command::Beat { call, .. }
            | Command::Hear { call, .. }
            | Command::Limit { call, .. } => Some(call),
            _ => None,
        }
    };
}

impl Command {
    pub(super) fn call(&self) -> Option<&CallId> {
        call_of!(self)
    }

    pub(super) fn call_mut(&mut self) -> Option<&mut CallId> {
        call_of!(self)
    }

    pub(super) fn outcomes(&self) -> &[Outcome] {
        match self {
            Self::Reserve(reserve) => &reserve.outcomes,
            Self::Settle { outcomes, .. } => outcomes,
            _ => &[],
        }
    }
}

/// What its sender knows of the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    pub(super) levels: Levels,
    pub(super) shape: Shape,
}

/// A command as it goes over the wire.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) command: Command,
    pub(super) passed: Passed,
}

/// What a script answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Text(String),
    Count(u64),
    Reserved(ReserveReply),
    Beat(BeatReply),
    Heard(HearReply),
    Counts(CountsReply),
    Page(PageReply),
    Found(Option<FoundReply>),
    Awaited(AwaitedReply),
    Alive(Vec<AliveReply>),
    Progress(Vec<String>),
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }
}

/// A call that was not let in: the answer to give instead.
pub(super) type Refused = String;

impl State {
    /// What a script does.
    pub(super) fn step(&mut self, sent: &Sent) -> Answer {
        let (passed, levels) = (sent.passed, sent.passed.levels);
        if let Some(call) = sent.command.call().filter(|call| call.renewal != MemoryRenewal::No) {
            // Also when it was executed before.
            let is_known = self.earlier(call) != Ok(None);
            if let Some(calls) = self.calls.get_mut(&call.client).filter(|_| is_known) {
                calls.is_fresh = true;
            }
        }
        let result = match &sent.command {
            Command::Push { call, level, due, items } => self.push(passed, call, *level, *due, items),
            Command::PushUnique { call, if_duplicate, items } => self.push_unique(passed, call, *if_duplicate, items),
            Command::Reserve(reserve) => self.reserve(passed, reserve),
            Command::Settle { call, outcomes } => self.settle(passed, call, outcomes),
            Command::Extend { lease_ms, leases } => self.extend(*lease_ms, leases),
            Command::Cancel { call, by, only, names } => self.cancel(passed, call, *by, only, names),
            Command::Reschedule { call, by, name, due } => self.reschedule(passed, call, *by, name, *due),
            Command::Requeue { call, ids } => self.requeue(levels, call, ids),
            Command::Purge { call, state, cap, latest } => self.purge(passed, call, state, *cap, *latest),
            Command::Promote { cap } => self.promote(levels, *cap),
            Command::Reclaim { cap } => self.reclaim(passed, *cap),
            Command::Pause { call, pause } => self.pause(levels, call, *pause),
            Command::Configure { call, failed_max, failed_age_ms } => {
                self.configure(levels, call, *failed_max, *failed_age_ms)
            }
            Command::Limit { call, of_queue, names } => self.limit(levels, call, *of_queue, names),
            Command::Counts => Ok(Answer::Counts(self.counts())),
            Command::Peek { state, offset, limit } => Ok(Answer::Page(self.peek(state, *offset, *limit))),
            Command::Find { by, name } => Ok(Answer::Found(self.find(*by, name))),
            Command::Beat { call, worker, life_ms, info } => self.beat(call, worker, *life_ms, info),
            Command::Progress { id, token, fraction, text } => self.note_progress(id, *token, fraction, text),
            Command::ProgressOf { ids } => Ok(Answer::Progress(ids.iter().map(|id| self.progress_of(id)).collect())),
            Command::Hear { call, claim_ms, most, max_bytes, claims } => {
                self.hear(call, *claim_ms, *most, *max_bytes, claims)
            }
            Command::Alive => Ok(Answer::Alive(self.alive())),
            Command::Awaited { id } => Ok(Answer::Awaited(self.awaited(id))),
            Command::WakeWaiters { ids } => self.wake_waiters(ids),
        };
        result.unwrap_or_else(Answer::Text)
    }

    /// The answer that this call has had already, if its slot remembers it; a call that came too late is refused.
    pub(super) fn earlier(&self, call: &CallId) -> Result<Option<String>, Refused> {
        if call.is_known && !self.calls.contains_key(&call.client) {
            return Err(FORGOTTEN.to_owned());
        }
        let Some((number, answer)) = self.calls.get(&call.client).and_then(|calls| calls.slots.get(&call.slot)) else {
            return Ok(None);
        };
        match call.number.cmp(number) {
            std::cmp::Ordering::Equal if answer == GIVEN_UP => Err(GIVEN_UP.to_owned()),
            std::cmp::Ordering::Equal => Ok(Some(answer.clone())),
            std::cmp::Ordering::Less => Err(GIVEN_UP.to_owned()),
            std::cmp::Ordering::Greater => Ok(None),
        }
    }

    /// Keeps the answer for the case that the call is sent again.
    pub(super) fn remember(&mut self, call: &CallId, text: String) -> Answer {
        let calls = self.calls.entry(call.client.clone()).or_default();
        let is_new = calls.slots.insert(call.slot, (call.number, text.clone())).is_none();
        calls.is_fresh |= is_new || call.renewal != MemoryRenewal::No;
        if let MemoryRenewal::Asked(given_up) = &call.renewal {
            for &(slot, number) in given_up {
                let last = calls.slots.entry(slot).or_default();
                if last.0 < number {
                    *last = (number, GIVEN_UP.to_owned());
                }
            }
        }
        Answer::Text(text)
    }

    /// Refuses a queue in a newer format, and callers that do not know of all levels in use; gives the levels in use.
    pub(super) fn admit(&self, passed: Levels) -> Result<Levels, Refused> {
        self.admit_format()?;
        // A queue that lost its `meta` may have jobs in any level.
        let unknown = if self.records.is_empty() { passed } else { Levels::ALL };
        let used = self.meta.levels.unwrap_or(unknown);
        if used.iter().all(|level| passed.iter().any(|known| known == level)) {
            Ok(used)
        } else {
            Err(format!("levels {used}"))
        }
    }

    /// The same, of scripts that are there in every shape: the plain one serves no queue with limits.
    pub(super) fn admit_shape(&self, passed: Passed) -> Result<Levels, Refused> {
        let used = self.admit(passed.levels)?;
        match passed.shape {
            Shape::Plain if self.limits().is_some() => Err("shape limits".to_owned()),
            _ => Ok(used),
        }
    }

    pub(super) fn admit_format(&self) -> Result<(), Refused> {
        match self.meta.format {
            Some(format) if format != 2 => Err(format!("format {format}")),
            _ => Ok(()),
        }
    }
}
