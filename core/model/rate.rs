//! A rate, in exact fractions.

/// When the next job would start if all came evenly: microseconds, and a rest in parts of one, as many as the rate has jobs.
pub(super) type RateAt = (u64, u64);

pub(super) fn text((at, rest): RateAt) -> String {
    format!("{at};{rest}")
}

/// At most `jobs` starts in `per_us`, and what has started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    jobs: u128,
    per_us: u128,
    now_us: u128,
    /// In parts of a microsecond.
    arrival: u128,
}

impl Rate {
    pub(super) fn new(jobs: u64, per_us: u64, seen: Option<RateAt>, now_us: u64) -> Self {
        let (jobs, now_us) = (u128::from(jobs), u128::from(now_us));
        let (at, rest) = seen.unwrap_or_default();
        let arrival = u128::from(at) * jobs + u128::from(rest).min(jobs - 1);
        let full = (now_us + u128::from(per_us)) * jobs;
        // What a slower rate or another clock left behind never means more than that a burst has just started.
        let is_late = u128::from(at) * jobs > full;
        Self { jobs, per_us: per_us.into(), now_us, arrival: if is_late { full } else { arrival.max(now_us * jobs) } }
    }

    pub(super) fn starts(self) -> u64 {
        let burst = (self.now_us + self.per_us) * self.jobs;
        u64::try_from(burst.saturating_sub(self.arrival) / self.per_us).unwrap()
    }

    /// The first microsecond at which a job may start.
    pub(super) fn opens_us(self) -> u64 {
        u64::try_from((self.arrival + self.per_us).div_ceil(self.jobs) - self.per_us).unwrap()
    }

    pub(super) fn seen_after(self, started: u64) -> RateAt {
        let arrival = self.arrival + u128::from(started) * self.per_us;
        (u64::try_from(arrival / self.jobs).unwrap(), u64::try_from(arrival % self.jobs).unwrap())
    }

    /// What replaces it if it is too late.
    pub(super) fn corrected(self, (at, _): RateAt) -> Option<RateAt> {
        let full = self.now_us + self.per_us;
        (u128::from(at) > full).then(|| (u64::try_from(full).unwrap(), 0))
    }
}
