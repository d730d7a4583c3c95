//! The limits of a queue, in exact fractions.

use crate::keys::Levels;
use crate::script::Held;

use super::command::{Answer, CallId, Refused};
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
        let burst = (self.now_us() + u128::from(limits.per_us)) * u128::from(limits.jobs);
        let starts = || u64::try_from(burst.saturating_sub(self.arrival()) / u128::from(limits.per_us)).unwrap();
        Room { places: (limits.concurrency > 0).then_some(places), starts: (limits.jobs > 0).then(starts) }
    }

    fn now_us(&self) -> u128 {
        u128::from(self.clock) * 1000
    }

    /// When the next job would start if all came evenly, in parts of a microsecond: as many as the rate has jobs.
    fn arrival(&self) -> u128 {
        let limits = self.meta.limits.unwrap_or_default();
        let (jobs, now) = (u128::from(limits.jobs), self.now_us());
        let (at, rest) = self.meta.rate_at.unwrap_or_default();
        let arrival = u128::from(at) * jobs + u128::from(rest).min(jobs - 1);
        arrival.max(now * jobs)
    }

    /// What a slower rate or another clock left behind never means more than that a burst has just started.
    pub(super) fn forget_other_rates(&mut self) {
        let limits = self.meta.limits.unwrap_or_default();
        let full = self.clock * 1000 + limits.per_us;
        if limits.jobs > 0 && self.meta.rate_at.is_some_and(|(at, _)| at > full) {
            self.meta.rate_at = Some((full, 0));
        }
    }

    /// The first microsecond at which the rate lets a job start.
    pub(super) fn opens_us(&self) -> u64 {
        let limits = self.meta.limits.unwrap_or_default();
        let (jobs, per) = (u128::from(limits.jobs), u128::from(limits.per_us));
        u64::try_from((self.arrival() + per).div_ceil(jobs) - per).unwrap()
    }

    pub(super) fn charge_rate(&mut self, started: usize) {
        let limits = self.meta.limits.unwrap_or_default();
        if limits.jobs > 0 {
            let (jobs, arrival) =
                (u128::from(limits.jobs), self.arrival() + started as u128 * u128::from(limits.per_us));
            self.meta.rate_at = Some((u64::try_from(arrival / jobs).unwrap(), u64::try_from(arrival % jobs).unwrap()));
        }
    }

    /// Who ends a lease and takes no other job wakes somebody who may take one.
    pub(super) fn note_freed(&mut self) {
        let is_limited = self.meta.limits.is_some_and(|limits| limits.concurrency > 0);
        let some_wait = is_limited && self.ready.values().any(|list| !list.is_empty());
        if !self.meta.paused && (some_wait || self.is_some_takeable()) {
            self.wake_one();
        }
    }

    pub(super) fn limit(
        &mut self,
        passed: Levels,
        call: &CallId,
        limits: Option<Limits>,
        names: &[(String, u64)],
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

    pub(super) fn held(&self) -> Held {
        Held {
            limits: self.meta.limits.map_or(String::new(), Limits::text),
            rate_at: self.rate_text().unwrap_or_default(),
        }
    }

    pub(super) fn rate_text(&self) -> Option<String> {
        self.meta.rate_at.map(|(at, rest)| format!("{at};{rest}"))
    }
}
