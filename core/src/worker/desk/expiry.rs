//! Jobs that expire while they wait for an executor.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{Desk, Jobs, Leased, State};
use crate::worker::event::{AboutJob, WorkerEvent};

impl Leased {
    fn has_expired(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

impl Jobs {
    /// A job begins to wait that may expire then.
    pub(super) fn expires_at(&mut self, at: Option<Instant>) {
        self.next_expiry = self.next_expiry.into_iter().chain(at).min();
    }
}

impl State {
    /// No run of these has begun in time: they go, with the next call.
    pub(super) fn drop_expired(&mut self, now: Instant, desk: &Desk) {
        if self.jobs.next_expiry.is_none_or(|at| at > now) {
            return;
        }
        let of =
            |index: usize, leased: &[Option<Leased>]| leased[index].as_ref().is_some_and(|one| one.has_expired(now));
        let waiting = std::mem::take(&mut self.jobs.fetched);
        let (expired, waiting) = waiting.into_iter().partition::<Vec<_>, _>(|&index| of(index, &self.jobs.leased));
        self.jobs.fetched = waiting.into();
        let left = self.jobs.fetched.iter().filter_map(|&index| self.jobs.leased[index].as_ref()?.expires_at);
        self.jobs.next_expiry = left.min();
        let mut dropped = BTreeMap::<usize, (AboutJob, usize)>::new();
        for index in expired {
            let Some(leased) = self.jobs.take_out_waiting(index) else { continue };
            self.note_expired(leased.lane, &leased.job);
            dropped.entry(leased.lane).or_insert_with(|| (AboutJob::of(&leased.job), 0)).1 += 1;
        }
        for (job, count) in dropped.into_values() {
            self.report(WorkerEvent::Expired { job, others: count - 1 }, desk);
        }
        if self.wake_for_outcome() {
            desk.for_fetcher.notify_one();
        }
    }
}
