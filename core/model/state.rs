//! What a queue is: its keys as Rust collections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::script::{Due, Levels};

use super::limits::Limits;
use super::parked::Parked;
use super::rate::RateAt;
use super::step_reserve::{STALE_RUN, stale_run};

/// The level of a record that does not say.
pub(super) const DEFAULT_LEVEL: u8 = 5;
/// The largest record of which a hundred are not too much for one call.
pub(super) const LARGE: usize = 41_943;
/// How many failed jobs may go in a call, for each of the two limits, even if fewer entered.
const TRIM_CAP: usize = 100;
/// A wake list is never longer.
const MOST_WAKES: usize = 2;

/// How the body of a job ends that leaves a result.
pub(super) const RESULT_TTL: &str = ",\"result_ttl\":60}";

/// A stored job: what a script may know of it, and the bytes that it may not look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) level: u8,
    pub(super) max_retries: u64,
    pub(super) key: Option<String>,
    pub(super) name: Option<String>,
    pub(super) body: String,
}

impl Record {
    /// As it is stored: routing values in front unless all are the default.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let key = self.key.as_deref().unwrap_or("");
        let name = self.name.as_deref().unwrap_or("");
        if self.level == DEFAULT_LEVEL && self.max_retries == 5 && key.is_empty() && name.is_empty() {
            return self.body.clone().into_bytes();
        }
        let (numbers, body) = (format!("{};{}", self.level, self.max_retries), &self.body);
        format!("{numbers};{};{};{key}{name}{body}", key.len(), name.len()).into_bytes()
    }

    /// Was it pushed with a `result_ttl`, which is the last field then?
    pub(super) fn keeps_result(&self) -> bool {
        self.body.ends_with(RESULT_TTL)
    }
}

/// One element of a ready list. An entry whose job was cancelled or moved stays where it is and does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) counts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) ends: u64,
    pub(super) token: u64,
}

/// What is kept beside the record of a job that came back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Returned {
    pub(super) attempts: u64,
    pub(super) returns: u64,
    pub(super) error: String,
    /// By the holder of its lease.
    pub(super) is_started: bool,
    /// A lease of it ended once.
    pub(super) is_suspect: bool,
}

impl Returned {
    pub(super) fn text(&self) -> String {
        let zero = |is_marked| if is_marked { "0" } else { "" };
        let (started, suspect) = (zero(self.is_started), zero(self.is_suspect));
        format!("{started}{};{suspect}{};{}", self.attempts, self.returns, self.error)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Meta {
    pub(super) format: Option<u64>,
    pub(super) levels: Option<Levels>,
    pub(super) paused: bool,
    /// When the one waiter that promised it comes back.
    pub(super) timer: Option<u64>,
    pub(super) token: Option<u64>,
    pub(super) failed_max: Option<u64>,
    pub(super) failed_age_ms: Option<u64>,
    pub(super) limits: Option<Limits>,
    /// What the rates of limits have seen, by their numbers.
    pub(super) rate_at: BTreeMap<u64, RateAt>,
    /// By how many microseconds the clock was seen behind the last token, when leases had been shortened for it; and that token.
    pub(super) set_back: Option<(u64, u64)>,
    /// There may be records of which a hundred are too much for one call.
    pub(super) large: bool,
    /// How often a job was parked.
    pub(super) parked: Option<u64>,
    /// How often a job was put at the head of a ready list.
    pub(super) put_first: Option<u64>,
    /// The line of those that failed unheard: the number of the last, up to which they were taken, and who waits.
    pub(super) unheard_last: Option<u64>,
    pub(super) heard_to: Option<u64>,
    pub(super) unheard: BTreeMap<u64, String>,
    /// How many claims of an unheard job have ended without a word.
    pub(super) ended: BTreeMap<String, u64>,
    /// How many trimmed jobs workers were told of.
    pub(super) trimmed_reported: Option<u64>,
}

/// A client's remembered calls: slot -> number and answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Calls {
    pub(super) slots: BTreeMap<usize, (u64, String)>,
    /// Was its lifetime set anew since a test shortened it?
    pub(super) is_fresh: bool,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobState {
    Delayed,
    Ready,
    Reserved,
    Failed,
}

impl JobState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Reserved => "reserved",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct State {
    /// Whole milliseconds.
    pub(super) clock: u64,
    /// And so many microseconds.
    pub(super) clock_rest: u64,
    pub(super) records: BTreeMap<String, Record>,
    pub(super) delayed: BTreeMap<(String, u8), u64>,
    pub(super) ready: BTreeMap<u8, VecDeque<Entry>>,
    pub(super) leases: BTreeMap<String, Lease>,
    pub(super) failed: BTreeMap<String, u64>,
    pub(super) returned: BTreeMap<String, Returned>,
    pub(super) keys: BTreeMap<String, String>,
    pub(super) parked: BTreeMap<String, Parked>,
    /// Reserved jobs whose name has a limit, and the number of the name.
    pub(super) places: BTreeMap<String, u64>,
    pub(super) wakes: usize,
    pub(super) meta: Meta,
    pub(super) stats: BTreeMap<String, u64>,
    pub(super) calls: BTreeMap<String, Calls>,
    /// What acked jobs left. In this time none ends.
    pub(super) results: BTreeMap<String, String>,
    /// Whose waiters were woken. In this time none ends.
    pub(super) woken: BTreeSet<String>,
    /// What was noted of runs: token, and all of it as it is kept. In this time none ends.
    pub(super) progress: BTreeMap<String, (u64, String)>,
    /// Until when a worker is alive, and what it says of itself.
    pub(super) workers: BTreeMap<String, (u64, String)>,
    /// Failed jobs of which no hook has heard, by when any worker may take that up.
    pub(super) unheard: BTreeMap<String, u64>,
}

/// The member of `delayed` that stands for this job.
pub(super) fn delayed_member(id: &str, level: u8) -> String {
    if level == DEFAULT_LEVEL { id.to_owned() } else { format!("{id}\t{level}") }
}

impl State {
    /// When a job is due, unless that is now or over.
    pub(super) fn due_at(&self, due: Due) -> Option<u64> {
        match due {
            Due::Now | Due::After(0) => None,
            Due::After(ms) => Some(self.after(ms)),
            Due::At(ms) => Some(ms),
        }
        .filter(|&at| at > self.clock)
    }

    pub(super) fn now_us(&self) -> u64 {
        self.clock * 1000 + self.clock_rest
    }

    pub(super) fn clock_text(&self) -> String {
        if self.clock_rest == 0 { self.clock.to_string() } else { format!("{}.{:03}", self.clock, self.clock_rest) }
    }

    /// The first whole millisecond at which so much time is over.
    pub(super) fn after(&self, ms: u64) -> u64 {
        self.now_us().div_ceil(1000) + ms
    }

    /// By how many milliseconds leases would last longer since the clock was set back.
    pub(super) fn too_long_by(&self) -> u64 {
        let more = self.behind().saturating_sub(self.seen_behind());
        if more > 1_000_000 { more / 1000 } else { 0 }
    }

    /// By how many microseconds the clock is behind the last token.
    fn behind(&self) -> u64 {
        self.meta.token.unwrap_or(0).saturating_sub(self.now_us())
    }

    /// The same when somebody saw it last; nothing if the clock has come up with the tokens since, which then went on with it.
    fn seen_behind(&self) -> u64 {
        let (behind, then) = self.meta.set_back.unwrap_or_default();
        if self.meta.token.unwrap_or(0) > then + 1_000_000 { 0 } else { behind }
    }

    /// Whoever ends a lease or sets its end puts that right first.
    pub(super) fn note_set_back(&mut self) {
        let (behind, token) = (self.behind(), self.meta.token.unwrap_or(0));
        let by = self.too_long_by();
        let is_old = self.meta.set_back.is_some_and(|(_, then)| token > then + 500_000);
        if by > 0 {
            // All at once: the script takes 10,000 a call.
            for lease in self.leases.values_mut() {
                lease.ends -= by;
            }
        }
        match behind {
            0 => {}
            _ if by > 0 => self.meta.set_back = Some((behind, token)),
            1..=1_000_000 => self.meta.set_back = None,
            _ if is_old || behind + 1_000_000 < self.seen_behind() => self.meta.set_back = Some((behind, token)),
            _ => {}
        }
    }

    pub(super) fn count(&mut self, what: &str, by: usize) {
        if by > 0 {
            *self.stats.entry(what.to_owned()).or_default() += by as u64;
        }
    }

    /// Entries of the ready lists that no longer count.
    pub(super) fn stale_entries(&self) -> BTreeMap<(u8, String), usize> {
        let mut stale = BTreeMap::new();
        for (&level, list) in &self.ready {
            for entry in list.iter().filter(|entry| !entry.counts) {
                *stale.entry((level, entry.id.clone())).or_default() += 1;
            }
        }
        stale
    }

    /// The index that the job is in.
    pub(super) fn state_of(&self, id: &str) -> JobState {
        if self.delayed.keys().any(|(delayed, _)| delayed == id) {
            JobState::Delayed
        } else if self.leases.contains_key(id) {
            JobState::Reserved
        } else if self.failed.contains_key(id) {
            JobState::Failed
        } else {
            JobState::Ready
        }
    }

    pub(super) fn put_at_tail(&mut self, level: u8, id: &str) {
        self.ready.entry(level).or_default().push_back(Entry { id: id.to_owned(), counts: true });
    }

    pub(super) fn put_at_head(&mut self, level: u8, id: &str) {
        self.ready.entry(level).or_default().push_front(Entry { id: id.to_owned(), counts: true });
        self.meta.put_first = Some(self.meta.put_first.unwrap_or(0) + 1);
    }

    /// Takes a job out of the index that it is in; in a ready list its entry stays, but no longer counts, and what no longer
    /// counts leaves the head. `entered`: the level whose list gets an entry for it; there it leaves if it is among the last hundred.
    pub(super) fn leave_state(&mut self, id: &str, level: u8, state: JobState, entered: Option<u8>) {
        match state {
            JobState::Delayed => {
                self.delayed.remove(&(id.to_owned(), level));
            }
            JobState::Reserved => {
                self.leases.remove(id);
                self.places.remove(id);
            }
            JobState::Failed => {
                self.failed.remove(id);
            }
            JobState::Ready if self.parked.remove(id).is_some() => {}
            JobState::Ready => {
                let list = self.ready.entry(level).or_default();
                let at = list.iter().position(|entry| entry.counts && entry.id == id);
                let at = at.expect("a job that is nowhere else is in its ready list");
                if entered == Some(level) && at + 100 >= list.len() {
                    list.remove(at);
                    return;
                }
                list[at].counts = false;
                // What no longer counts leaves the head.
                let run = stale_run(list, &mut STALE_RUN.clone());
                list.drain(..run);
            }
        }
    }

    /// Removes a job for good and says where it was.
    pub(super) fn remove(&mut self, id: &str, entered: Option<u8>) -> Option<JobState> {
        let record = self.records.get(id)?.clone();
        let state = self.state_of(id);
        self.leave_state(id, record.level, state, entered);
        self.records.remove(id);
        self.returned.remove(id);
        self.free_key(record.key.as_deref(), id);
        Some(state)
    }

    /// A key is only ever taken from the job that holds it.
    pub(super) fn free_key(&mut self, key: Option<&str>, id: &str) {
        if let Some(key) = key.filter(|&key| self.keys.get(key).is_some_and(|holder| holder == id)) {
            self.keys.remove(key);
        }
    }

    /// Notes that a job came back; gives its failures so far.
    pub(super) fn came_back(&mut self, id: &str, is_failure: bool, error: &str) -> u64 {
        let note = self.returned.entry(id.to_owned()).or_default();
        note.attempts += u64::from(is_failure);
        note.returns += 1;
        note.is_started = false;
        if !error.is_empty() {
            error.clone_into(&mut note.error);
        }
        note.attempts
    }

    /// A failed job keeps no key: a key means one live job.
    pub(super) fn enter_failed(&mut self, id: &str, key: Option<&str>) {
        let last = self.failed.values().copied().max().filter(|&last| last < self.clock + 86_400_000);
        self.failed.insert(id.to_owned(), last.map_or(self.clock, |last| last.max(self.clock)));
        self.free_key(key, id);
    }

    /// Nobody has heard of its failure: it waits in line.
    pub(super) fn note_unheard(&mut self, id: &str) {
        let last = self.meta.unheard_last.unwrap_or(0) + 1;
        self.meta.unheard_last = Some(last);
        self.meta.unheard.insert(last, id.to_owned());
    }

    /// Lets the oldest failed jobs go: those above the limit, then those that are too old; of each a hundred at the most, or
    /// as many as entered in this call.
    pub(super) fn trim_failed(&mut self, entered: usize) {
        let cap = entered.max(TRIM_CAP);
        let most = usize::try_from(self.meta.failed_max.unwrap_or(10_000)).unwrap();
        let surplus = self.failed.len().saturating_sub(most);
        self.forget_oldest_failed(surplus.min(cap), u64::MAX);
        let too_old = self.clock.saturating_sub(self.meta.failed_age_ms.unwrap_or(180 * 24 * 3600 * 1000));
        self.forget_oldest_failed(cap, too_old);
    }

    fn forget_oldest_failed(&mut self, most: usize, failed_by: u64) {
        let mut oldest: Vec<_> = self.failed.iter().map(|(id, &at)| (at, id.clone())).collect();
        oldest.sort();
        oldest.retain(|&(at, _)| at <= failed_by);
        oldest.truncate(most);
        for (_, id) in &oldest {
            self.failed.remove(id);
            self.records.remove(id);
            self.returned.remove(id);
        }
        self.count("trimmed", oldest.len());
    }

    pub(super) fn wake_one(&mut self) {
        self.wakes = (self.wakes + 1).min(MOST_WAKES);
    }

    /// Has a waiter promised to come back after now, and not later than this?
    pub(super) fn is_awaited(&self, due: u64) -> bool {
        self.meta.timer.is_some_and(|timer| timer > self.clock && timer <= due)
    }

    pub(super) fn wake_for(&mut self, due: u64) {
        if !self.is_awaited(due) {
            self.wake_one();
        }
    }

    /// Writes down format and levels, as every call does that puts a job into a ready list or `delayed` from outside.
    ///
    /// `found`: the limits as the call found them; that they were lost is written down, too.
    pub(super) fn note_use(&mut self, passed: Levels, found: Option<Limits>) {
        self.meta.format = Some(2);
        self.meta.levels = Some(passed);
        self.meta.limits = found;
    }

    /// How many of these jobs, from the first one on, have records that make up so many bytes at the most, but one at least;
    /// takes the bytes away.
    pub(super) fn fitting(&self, ids: &[String], left: &mut usize) -> usize {
        let mut count = 0;
        for id in ids {
            let size = self.size_of(id);
            if size > *left && count > 0 {
                break;
            }
            *left = left.saturating_sub(size);
            count += 1;
        }
        count
    }

    pub(super) fn size_of(&self, id: &str) -> usize {
        self.records.get(id).map_or(0, |record| record.bytes().len())
    }

    /// All ids that some index names, each as often as it is named.
    pub(super) fn indexed(&self) -> Vec<(&str, JobState)> {
        let delayed = self.delayed.keys().map(|(id, _)| (id.as_str(), JobState::Delayed));
        let ready = self.ready.values().flatten().filter(|entry| entry.counts);
        let ready = ready.map(|entry| (entry.id.as_str(), JobState::Ready));
        let parked = self.parked.keys().map(|id| (id.as_str(), JobState::Ready));
        let reserved = self.leases.keys().map(|id| (id.as_str(), JobState::Reserved));
        let failed = self.failed.keys().map(|id| (id.as_str(), JobState::Failed));
        delayed.chain(ready).chain(parked).chain(reserved).chain(failed).collect()
    }

    /// The ids of all jobs, for tests that pick some.
    pub(super) fn ids(&self) -> BTreeSet<&str> {
        self.records.keys().map(String::as_str).collect()
    }
}
