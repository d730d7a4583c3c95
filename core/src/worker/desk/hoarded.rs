//! Jobs that were fetched ahead, and go back.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::outcomes::Noted;
use super::{Desk, State};
use crate::script::Verb;
use crate::worker::event::WorkerEvent;

/// Jobs that waited this long while all executors are busy are given back.
const HOARDED_AFTER: Duration = Duration::from_millis(500);

impl State {
    fn hoarded_at(&self) -> Option<Instant> {
        let oldest = self.jobs.leased[*self.jobs.fetched.front()?].as_ref()?;
        Some(oldest.fetched_at + HOARDED_AFTER)
    }

    /// When to look at the hoarded again. If they are over and were not given back, no executor is missing, but a renewal.
    pub(super) fn next_look_for_hoarded(&self, now: Instant) -> Option<Instant> {
        self.hoarded_at().map(|at| if at > now { at } else { now + HOARDED_AFTER })
    }

    /// Jobs that were fetched ahead because others like them were short go back when these turn out to be long.
    pub(super) fn give_back_hoarded(&mut self, now: Instant, desk: &Desk) {
        if self.hoarded_at().is_none_or(|at| at > now) {
            return;
        }
        if let Some(since) = now.checked_sub(HOARDED_AFTER) {
            self.give_back_blocked(since, now);
        }
        if self.has_takers() || self.jobs.fetched.is_empty() {
            return;
        }
        let mut given_back = BTreeMap::<String, usize>::new();
        for leased in self.jobs.fetched.iter().filter_map(|&index| self.jobs.leased[index].as_ref()) {
            *given_back.entry(leased.job.part().name().to_owned()).or_default() += 1;
        }
        self.give_back_fetched();
        self.prefetch.forget();
        self.asks_no_more();
        for (queue, jobs) in given_back {
            self.report(WorkerEvent::GivenBack { queue, jobs }, desk);
        }
    }

    pub(super) fn give_back_fetched(&mut self) {
        let fetched = std::mem::take(&mut self.jobs.fetched);
        self.give_back(fetched, Duration::ZERO);
    }

    /// Others may have them, at the earliest after so long.
    pub(super) fn give_back(&mut self, fetched: VecDeque<usize>, after: Duration) {
        for index in fetched {
            if let Some(leased) = self.jobs.take_out_waiting(index) {
                self.note_other(leased.lane, &leased.job, Verb::Unstarted, Noted::Unstarted, after);
            }
        }
    }
}
