//! What runs came to: counted here, and taken along by the next beat.

use std::collections::HashMap;
use std::time::Duration;

use super::{Desk, State};
use crate::process::host;
use crate::queue::Job;
use crate::value::id;
use crate::value::name::MAX_HANDLER_BYTES;
use crate::value::retry::Next;
use crate::value::tally::Tally;

/// So many names are counted each by itself; the server keeps no more of a queue, either.
const MOST_NAMES: usize = 200;
/// One call takes along as many, and others the rest: the server adds each name to two windows of time.
const NAMES_A_CALL: usize = 25;

/// The runs of one queue since they were last reported.
#[derive(Default)]
pub(in crate::worker) struct Tallies {
    /// By the name of the job; those without one under an empty one.
    names: HashMap<String, Tally>,
    /// Of all other names.
    others: Tally,
}

impl Tallies {
    fn count(&mut self, name: Option<&str>, came_to: Next, waited: Option<Duration>, took: Duration) {
        let name = name.unwrap_or_default();
        if let Some(known) = self.names.get_mut(name) {
            known.count(came_to, waited, took);
        } else if self.may_keep(name) {
            self.names.entry(name.to_owned()).or_default().count(came_to, waited, took);
        } else {
            self.others.count(came_to, waited, took);
        }
    }

    /// The server separates names by ends of lines. A record that a stranger wrote may have any.
    fn may_keep(&self, name: &str) -> bool {
        self.names.len() < MOST_NAMES && name.len() <= MAX_HANDLER_BYTES && !name.contains('\n')
    }

    /// Takes out what one call can report.
    pub(in crate::worker) fn split(&mut self) -> Self {
        let others = std::mem::take(&mut self.others);
        if self.names.len() <= NAMES_A_CALL {
            return Self { names: std::mem::take(&mut self.names), others };
        }
        let some: Vec<_> = self.names.keys().take(NAMES_A_CALL).cloned().collect();
        Self { names: some.into_iter().filter_map(|name| self.names.remove_entry(&name)).collect(), others }
    }

    pub(in crate::worker) fn add_all(&mut self, other: Self) {
        for (name, tally) in other.names {
            if self.names.contains_key(&name) || self.may_keep(&name) {
                self.names.entry(name).or_default().add_all(&tally);
            } else {
                self.others.add_all(&tally);
            }
        }
        self.others.add_all(&other.others);
    }

    pub(in crate::worker) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.others == Tally::default()
    }

    /// Whose they are, and the tally, as the server takes them: of the queue first, then of each name.
    pub(in crate::worker) fn rows(&self) -> Vec<(String, String)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut all = self.others.clone();
        self.names.values().for_each(|tally| all.add_all(tally));
        let names = self.names.iter().map(|(name, tally)| (format!(":{name}"), tally.encode()));
        let others = (self.others != Tally::default()).then(|| ("+".to_owned(), self.others.encode()));
        std::iter::once(("=".to_owned(), all.encode())).chain(names).chain(others).collect()
    }
}

impl State {
    /// A run has ended. `due_since`: see [`due_since`].
    pub(super) fn tally(&mut self, lane: usize, job: &Job, took: Duration, due_since: Option<Duration>, came_to: Next) {
        let waited = due_since.map(|since| since.saturating_sub(took));
        self.lanes.each[lane].tallies.count(job.envelope.name.as_deref(), came_to, waited, took);
    }
}

impl Desk {
    /// What this beat is to report of the queue's runs.
    pub(in crate::worker) fn unreported(&self, lane: usize) -> Unreported<'_> {
        Unreported { desk: self, lane, tallies: std::mem::take(&mut self.lock().lanes.each[lane].tallies) }
    }
}

/// What a beat is to report. What is left when it is dropped is reported by a later one.
pub(in crate::worker) struct Unreported<'a> {
    desk: &'a Desk,
    lane: usize,
    pub(in crate::worker) tallies: Tallies,
}

impl Drop for Unreported<'_> {
    fn drop(&mut self) {
        if !self.tallies.is_empty() {
            self.desk.lock().lanes.each[self.lane].tallies.add_all(std::mem::take(&mut self.tallies));
        }
    }
}

/// For how long a job has been due. Known in the first run of a job whose id duly made: the id holds the millisecond. By the clocks of the
/// host that pushed it, and of this one.
pub(super) fn due_since(job: &Job) -> Option<Duration> {
    let envelope = &job.envelope;
    if job.returns > 0 || envelope.attempts > 0 || job.redelivered() {
        return None;
    }
    let pushed = id::made_at(&envelope.id).filter(|at| at.whole_seconds() == envelope.time)?;
    let due = pushed.saturating_add(envelope.delay.to_millis());
    Some(host::now().saturating_sub(due).to_duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(names: impl IntoIterator<Item = String>) -> Tallies {
        let mut tallies = Tallies::default();
        for name in names {
            tallies.count(Some(&name), Next::Ack, None, Duration::from_millis(1));
        }
        tallies
    }

    fn done(tallies: &Tallies) -> u64 {
        tallies.names.values().chain([&tallies.others]).map(|tally| tally.done).sum()
    }

    #[test]
    fn names_beyond_two_hundred_and_those_that_are_none_count_as_others() {
        let strange = ["a\nb".to_owned(), "x".repeat(MAX_HANDLER_BYTES + 1)];
        let tallies = counted((0..250).map(|number| format!("n{number}")).chain(strange));
        assert_eq!((tallies.names.len(), tallies.others.done, done(&tallies)), (200, 52, 252));
        assert!(tallies.rows().iter().all(|(whose, _)| !whose.contains('\n')));
    }

    #[test]
    fn calls_report_all_of_it_once_and_what_was_not_reported_comes_with_a_later_one() {
        let mut tallies = counted((0..60).map(|number| format!("n{}", number % 30)));
        let mut reported = Tallies::default();
        let first = tallies.split();
        assert_eq!((first.names.len(), first.rows().len()), (NAMES_A_CALL, NAMES_A_CALL + 1));
        assert!(first.rows()[0].1.starts_with("50 0 0 0 "), "{:?}", first.rows()[0]);
        tallies.add_all(first);
        while !tallies.is_empty() {
            reported.add_all(tallies.split());
        }
        assert_eq!((reported.names.len(), done(&reported)), (30, 60));
        assert!(tallies.rows().is_empty());
    }
}
