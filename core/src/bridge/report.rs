//! The counts of a bridge.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::old_queue::{Lane, OldState};
use super::package::{Fate, Moved};
use crate::script::Target;
use crate::value::plural::{counted, verb};

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
    /// Why what is left was not counted at the end, if it was not: then these counts are those from before.
    pub uncounted: Option<String>,
    /// Was nothing moved?
    pub is_dry: bool,
    /// How many jobs of duly an interrupted bridge has left on their way back to another queue, where this one is none of that kind.
    pub departing: BTreeMap<String, u64>,
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
    /// Why the rest of its jobs waits, if it does.
    pub blocked: Option<String>,
    /// Is it shown while it is empty?
    is_seldom: bool,
    /// The last batch, and which of its jobs are counted: it may come again behind an outage.
    counted: (u64, BTreeSet<usize>),
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
            blocked: None,
            is_seldom: lane.is_seldom,
            counted: Default::default(),
        }
    }

    /// Of the way back.
    pub(super) fn of_queue(queue: &str, state: OldState, count: u64, in_flight: u64) -> Self {
        let before = count + in_flight;
        Self {
            key: queue.to_owned(),
            state,
            before,
            moved: 0,
            left: before,
            in_flight,
            dropped: 0,
            stays: BTreeMap::new(),
            blocked: None,
            is_seldom: false,
            counted: Default::default(),
        }
    }

    /// Was this job of this batch not counted before? It is now.
    pub(super) fn is_news(&mut self, sequence: u64, at: usize) -> bool {
        if self.counted.0 != sequence {
            self.counted = (sequence, BTreeSet::new());
        }
        self.counted.1.insert(at)
    }

    /// Workers of the old queue have taken some of those that stayed, nobody knows which: so many are left.
    pub(super) fn stay_at_most(&mut self, count: u64) {
        let mut surplus = self.stays.values().sum::<u64>().saturating_sub(count);
        while let Some(most) = self.stays.values_mut().max().filter(|_| surplus > 0) {
            let taken = surplus.min(*most);
            *most -= taken;
            surplus -= taken;
        }
        self.stays.retain(|_, count| *count > 0);
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
        let is_done = |lane: &LaneReport| {
            self.is_back || lane.state == OldState::Reserved || lane.moved + lane.dropped == lane.before
        };
        self.uncounted.is_none()
            && self.lanes.iter().all(|lane| lane.left == 0 && lane.in_flight == 0 && is_done(lane))
            && self.pushed.values().all(PushedCounts::agrees)
            && (!self.is_back || self.agrees_back())
    }

    /// Did as many jobs go back as there were? They change their states meanwhile: a delayed one is due, and what a worker had comes back.
    fn agrees_back(&self) -> bool {
        let (held, others): (Vec<&LaneReport>, Vec<&LaneReport>) =
            self.lanes.iter().partition(|lane| lane.state == OldState::Reserved);
        let sum = |lanes: &[&LaneReport], of: fn(&LaneReport) -> u64| lanes.iter().map(|lane| of(lane)).sum::<u64>();
        let (before, held) = (sum(&others, |lane| lane.before), sum(&held, |lane| lane.before));
        (before..=before + held).contains(&sum(&others, |lane| lane.moved + lane.left))
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
            let left = if self.uncounted.is_some() { "?".to_owned() } else { left.to_string() };
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
            let drop = if self.is_dry { "would be dropped" } else { verb(dropped, "was dropped", "were dropped") };
            let entries = if dropped == 1 { "entry" } else { "entries" };
            let name = verb(dropped, "names", "name");
            write!(f, "\n{dropped} {entries} of the old queue {name} no job any more, and {drop}")?;
        }
        for (reason, count) in self.stays() {
            let stay = if self.is_dry { "would stay" } else { verb(count, "stays", "stay") };
            write!(f, "\n{} {stay} in {here}: {reason}", counted(count, "job"))?;
        }
        for lane in shown() {
            if let Some(reason) = &lane.blocked {
                write!(f, "\nthe jobs of '{}' wait: {reason}", lane.shown())?;
            }
        }
        if let Some(why) = &self.uncounted {
            let keys = if self.is_back { "queues" } else { "old keys" };
            return write!(f, "\nthe {keys} could not be counted at the end: {why}");
        }
        let interrupted = self.lanes.iter().filter(|lane| lane.blocked.is_none());
        let in_flight: u64 = interrupted.map(|lane| lane.in_flight).sum();
        let or = if self.is_back { ", or `duly bridge give-back`" } else { "" };
        if in_flight > 0 {
            let (jobs, are) = (counted(in_flight, "job"), verb(in_flight, "is", "are"));
            write!(
                f,
                "\n{jobs} {are} in flight from a bridge that was interrupted: run it again with the same options{or}"
            )?;
        }
        for (queue, count) in &self.departing {
            let (jobs, are) = (counted(*count, "job"), verb(*count, "is on its", "are on their"));
            write!(
                f,
                "\n{jobs} of '{queue}' {are} way to another queue, by a bridge --back that was interrupted: run that again, or \
                 `duly bridge give-back`"
            )?;
        }
        if self.is_dry {
            return write!(f, "\nnothing was moved");
        }
        for (queue, PushedCounts { before, after, .. }) in &self.pushed {
            let before = counted(*before, "pushed job");
            write!(f, "\nthe queue '{queue}' had counted {before} before, and counts {after} now")?;
        }
        let mut others = self.lanes.iter().filter(|lane| lane.state != OldState::Reserved);
        let differs = if self.is_back {
            !self.agrees_back()
        } else {
            others.any(|lane| lane.moved + lane.left + lane.dropped != lane.before)
        };
        let held = |lane: &LaneReport| lane.left.saturating_sub(lane.stays.values().sum());
        let held: u64 = self.lanes.iter().filter(|lane| lane.state == OldState::Reserved).map(held).sum();
        if held > 0 {
            let (jobs, are) = (counted(held, "job"), verb(held, "is", "are"));
            let left = verb(held, "it is left to them until its", "they are left to them until their");
            write!(f, "\n{jobs} {are} with workers of {here}: {left} time is over, so run it again then")?;
        }
        if let Some((queue, pushed)) = self.pushed.iter().find(|(_, pushed)| !pushed.agrees()) {
            let stored = pushed.stored;
            return write!(
                f,
                "\n{} {} stored in the queue '{queue}', which does not count {}: its server may have lost writes, so compare the jobs \
                 there before you give up the old queue",
                counted(stored, "job"),
                verb(stored, "was", "were"),
                verb(stored, "it", "them")
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

/// What became of jobs that an interrupted bridge had left on their way back.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// How many are in their state again.
    pub given: u64,
    /// How many the old queue had already: they are there, and not in duly any more.
    pub published: u64,
}

impl fmt::Display for GivenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, published } = *self;
        write!(f, "{} {} in duly again", counted(given, "job"), verb(given, "is", "are"))?;
        if published > 0 {
            let (were, are) = (verb(published, "was", "were"), verb(published, "is", "are"));
            write!(f, "\n{} {were} in the old queue already, and {are} there", counted(published, "job"))?;
        }
        Ok(())
    }
}
