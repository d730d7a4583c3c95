//! The counts of a bridge.

use std::collections::BTreeMap;
use std::fmt;

use super::old_queue::{Lane, OldState};
use super::package::{Fate, Moved};
use crate::script::Target;

/// The counts of a bridge: jobs that it has taken over, or would.
#[non_exhaustive]
#[derive(Debug, Clone, Default)]
pub struct BridgeReport {
    /// Of each key of the old queue.
    pub lanes: Vec<LaneReport>,
    /// How many jobs came into which queue: ready, delayed and failed.
    pub queues: BTreeMap<String, [u64; 3]>,
    /// What each of these queues counts itself.
    pub pushed: BTreeMap<String, PushedCounts>,
    /// How many of the failed ones could not be read; they are kept as they are, with the reason.
    pub unreadable: u64,
    /// The error that the bridge waits out at the moment.
    pub trouble: Option<String>,
    /// Was nothing moved?
    pub is_dry: bool,
    /// Do jobs go back? Then the lanes are duly's queues, and the queues are the other one's keys.
    pub is_back: bool,
}

/// How many jobs a queue of duly counts as pushed: its `pushed` of [`Counts::totals`](crate::Counts::totals).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushedCounts {
    /// Before the bridge.
    pub before: u64,
    /// Behind it, with those that others have pushed meanwhile.
    pub after: u64,
    /// How many this bridge has stored.
    pub stored: u64,
}

impl PushedCounts {
    fn agrees(&self) -> bool {
        self.after >= self.before + self.stored
    }
}

/// One key of the old queue.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct LaneReport {
    /// The key.
    pub key: String,
    /// The state of its jobs.
    pub state: OldState,
    /// How many jobs it had at the start, in flight from an earlier bridge among them.
    pub before: u64,
    /// How many were taken over.
    pub moved: u64,
    /// How many are left.
    pub left: u64,
    /// How many were taken out and are not stored yet.
    pub in_flight: u64,
    /// How many entries were dropped, because they name no job any more: the old queue would drop them too.
    pub dropped: u64,
    /// Why jobs stay in the old queue, and how many.
    pub stays: BTreeMap<String, u64>,
    /// Is it shown while it is empty?
    is_seldom: bool,
    /// The last batch that was counted: it may come again behind an outage.
    pub(super) counted: Option<u64>,
}

impl LaneReport {
    /// `length`: without those in flight.
    pub(super) fn new(lane: &Lane, length: u64, in_flight: u64) -> Self {
        let before = length + in_flight;
        Self {
            key: lane.key().to_owned(),
            state: lane.state,
            before,
            moved: 0,
            left: before,
            in_flight,
            dropped: 0,
            stays: BTreeMap::new(),
            is_seldom: lane.is_seldom,
            counted: None,
        }
    }

    /// Of the way back.
    pub(super) fn of_queue(queue: &str, state: OldState, count: u64) -> Self {
        Self {
            key: queue.to_owned(),
            state,
            before: count,
            moved: 0,
            left: count,
            in_flight: 0,
            dropped: 0,
            stays: BTreeMap::new(),
            is_seldom: false,
            counted: None,
        }
    }

    /// The key as a terminal can show it.
    fn shown(&self) -> String {
        self.key.escape_debug().to_string()
    }

    fn is_shown(&self) -> bool {
        !self.is_seldom || self.before + self.moved + self.left > 0
    }
}

impl BridgeReport {
    pub(super) fn note_fate(&mut self, lane: usize, fate: &Fate) {
        match fate {
            Fate::Moves(moved) => self.note(lane, moved),
            Fate::Stays(reason) => *self.lanes[lane].stays.entry(reason.clone()).or_default() += 1,
        }
    }

    pub(super) fn note(&mut self, lane: usize, moved: &Moved) {
        self.lanes[lane].moved += 1;
        self.unreadable += u64::from(moved.fault.is_some());
        let counts = self.queues.entry(moved.queue.clone()).or_default();
        match moved.target {
            Target::Failed => counts[2] += 1,
            _ if moved.is_due => counts[0] += 1,
            _ => counts[1] += 1,
        }
    }

    pub(super) fn note_back(&mut self, lane: usize, key: &str, count: u64) {
        self.lanes[lane].moved += count;
        let counts = self.queues.entry(key.to_owned()).or_default();
        match self.lanes[lane].state {
            OldState::Delayed => counts[1] += count,
            OldState::Failed => counts[2] += count,
            OldState::Ready | OldState::Reserved => counts[0] += count,
        }
    }

    /// How many jobs were taken over.
    pub fn moved(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.moved).sum()
    }

    /// Why jobs stay in the old queue, and how many.
    pub fn stays(&self) -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        for (reason, count) in self.lanes.iter().flat_map(|lane| &lane.stays) {
            *all.entry(reason.as_str()).or_default() += count;
        }
        all
    }

    /// Was as much taken over as there was, with nothing left, and does duly count as many more?
    pub fn is_complete(&self) -> bool {
        // Workers of the old queue take from `reserved` as well.
        // What was on its way from an earlier bridge is in no state of duly.
        let is_done = |lane: &LaneReport| {
            self.is_back || lane.state == OldState::Reserved || lane.moved + lane.dropped == lane.before
        };
        self.lanes.iter().all(|lane| lane.left == 0 && lane.in_flight == 0 && is_done(lane))
            && self.pushed.values().all(PushedCounts::agrees)
    }
}

impl fmt::Display for BridgeReport {
    /// A table, a line each key and queue.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = match (self.is_dry, self.is_back) {
            (true, false) => "readable",
            (true, true) => "would go",
            (false, _) => "moved",
        };
        let (from, to) = if self.is_back { ("duly queue", "old key") } else { ("old key", "duly queue") };
        let here = if self.is_back { "duly" } else { "the old queue" };
        let shown = || self.lanes.iter().filter(|lane| lane.is_shown());
        let width = shown().map(|lane| lane.shown().chars().count()).max().unwrap_or(0).max(from.len());
        writeln!(f, "{:width$}  {:9}  {:>9}  {done:>9}  {:>9}", from, "state", "before", "left")?;
        for lane in shown() {
            let (key, LaneReport { state, before, moved, left, .. }) = (lane.shown(), lane);
            writeln!(f, "{key:width$}  {:9}  {before:>9}  {moved:>9}  {left:>9}", state.as_str())?;
        }
        let width = self.queues.keys().map(String::len).max().unwrap_or(0).max(to.len());
        write!(f, "{to:width$}  {:>9}  {:>9}  {:>9}", "ready", "delayed", "failed")?;
        for (queue, [ready, delayed, failed]) in &self.queues {
            write!(f, "\n{queue:width$}  {ready:>9}  {delayed:>9}  {failed:>9}")?;
        }
        if self.unreadable > 0 {
            write!(f, "\n{} of the failed ones could not be read: their errors say why", self.unreadable)?;
        }
        let dropped: u64 = self.lanes.iter().map(|lane| lane.dropped).sum();
        if dropped > 0 {
            let drop = if self.is_dry { "would be dropped" } else { "were dropped" };
            write!(f, "\n{dropped} entries of the old queue name no job any more, and {drop}")?;
        }
        for (reason, count) in self.stays() {
            let stay = if self.is_dry { "would stay" } else { "stay" };
            write!(f, "\n{count} jobs {stay} in {here}: {reason}")?;
        }
        let in_flight: u64 = self.lanes.iter().map(|lane| lane.in_flight).sum();
        if in_flight > 0 {
            write!(f, "\n{in_flight} jobs are in flight from a bridge that was interrupted: run it again")?;
        }
        if self.is_dry {
            return write!(f, "\nnothing was moved");
        }
        for (queue, PushedCounts { before, after, .. }) in &self.pushed {
            write!(f, "\nthe queue '{queue}' had counted {before} pushed jobs before, and counts {after} now")?;
        }
        let others = self.lanes.iter().filter(|lane| lane.state != OldState::Reserved);
        let differs = others.clone().any(|lane| lane.moved + lane.left + lane.dropped != lane.before);
        let held = |lane: &LaneReport| lane.left.saturating_sub(lane.stays.values().sum());
        let held: u64 = self.lanes.iter().filter(|lane| lane.state == OldState::Reserved).map(held).sum();
        if held > 0 {
            write!(
                f,
                "\n{held} jobs are with workers of {here}: they are left to them until their time is over, so run it again then"
            )?;
        }
        if let Some((queue, pushed)) = self.pushed.iter().find(|(_, pushed)| !pushed.agrees()) {
            let stored = pushed.stored;
            return write!(
                f,
                "\n{stored} jobs were stored in the queue '{queue}', which does not count them: its server may have lost writes, \
                 so compare the jobs there before you give up the old queue"
            );
        }
        if self.is_complete() {
            write!(f, "\ncounts before and after agree: nothing is left")
        } else if differs {
            write!(f, "\n{here} was in use meanwhile: moved and left are not what was there before")
        } else {
            write!(f, "\nnot all was moved")
        }
    }
}
