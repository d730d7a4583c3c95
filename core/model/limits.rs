//! The limits of a queue.

use crate::script::{Levels, LimitsReply};

use super::command::{Answer, CallId, Refused};
use super::rate::{self, Rate, RateAt};
use super::state::State;

/// At most `concurrency` jobs reserved at once; `jobs` starts in `per_us`. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Limits {
    pub(super) concurrency: u64,
    pub(super) jobs: u64,
    pub(super) per_us: u64,
}

impl Limits {
    pub(super) fn text(self) -> String {
        format!("{};{};{}", self.concurrency, self.jobs, self.per_us)
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    pub(super) fn rate(self, seen: Option<RateAt>, now_us: u64) -> Option<Rate> {
        (self.jobs > 0).then(|| Rate::new(self.jobs, self.per_us, seen, now_us))
    }
}

/// What the limits leave at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// `None`: as many as there are.
    pub(super) places: Option<u64>,
    pub(super) starts: Option<u64>,
}

impl Room {
    pub(super) fn total(self) -> Option<usize> {
        self.places.into_iter().chain(self.starts).min().map(|room| usize::try_from(room).unwrap())
    }

    pub(super) fn is_none(self) -> bool {
        self.total() == Some(0)
    }

    /// Is it the rate alone that holds jobs back once so many more have started?
    pub(super) fn waits_for_rate(self, started: usize) -> bool {
        self.total() == Some(started) && self.places.is_none_or(|places| places > started as u64)
    }
}

impl State {
    pub(super) fn room(&self) -> Room {
        let limits = self.meta.limits.unwrap_or_default();
        let places = limits.concurrency.saturating_sub(self.leases.len() as u64);
        Room { places: (limits.concurrency > 0).then_some(places), starts: self.rate().map(Rate::starts) }
    }

    fn rate(&self) -> Option<Rate> {
        self.meta.limits.and_then(|limits| limits.rate(self.meta.rate_at, self.now_us()))
    }

    /// Each reserve writes down what is too late, of the queue's rate.
    pub(super) fn forget_other_rates(&mut self) {
        let corrected = self.rate().and_then(|rate| rate.corrected(self.meta.rate_at?));
        self.meta.rate_at = corrected.or(self.meta.rate_at);
    }

    /// The first microsecond at which the rate lets a job start.
    pub(super) fn opens_us(&self) -> u64 {
        self.rate().unwrap().opens_us()
    }

    pub(super) fn charge_rate(&mut self, started: usize) {
        if let Some(rate) = self.rate() {
            self.meta.rate_at = Some(rate.seen_after(started as u64));
        }
    }

    /// Who ends a lease and takes no other job wakes somebody who may take one.
    pub(super) fn note_freed(&mut self) {
        let is_limited = self.meta.limits.is_some_and(|limits| limits.concurrency > 0);
        let some_wait = is_limited && self.ready.values().any(|list| !list.is_empty());
        let later = || self.next_start_us().is_some_and(|next| !self.is_awaited(next.div_ceil(1000)));
        if !self.meta.paused && (some_wait || self.is_some_takeable() || later()) {
            self.wake_one();
        }
    }

    pub(super) fn limit(
        &mut self,
        passed: Levels,
        call: &CallId,
        limits: Option<Limits>,
        names: &[(String, Limits)],
    ) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit(passed)?;
        let found = self.names();
        if !self.limit_names(names, |state| state.note_use(passed, found)) {
            return Ok(self.remember(call, "busy".to_owned()));
        }
        self.meta.limits = limits;
        if limits.is_none() {
            self.meta.rate_at = None;
        }
        self.wake_one();
        Ok(self.remember(call, "ok".to_owned()))
    }

    pub(super) fn limits_reply(&self) -> LimitsReply {
        LimitsReply {
            limits: self.meta.limits.map_or(String::new(), Limits::text),
            rate_at: self.rate_text().unwrap_or_default(),
        }
    }

    pub(super) fn rate_text(&self) -> Option<String> {
        self.meta.rate_at.map(rate::text)
    }
}
