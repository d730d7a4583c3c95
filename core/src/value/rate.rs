//! So many jobs in so much time: a token bucket, of a queue or of a job name; see `lua/lib/limits/rate.lua`.

use std::time::Duration;

use crate::value::time::Millis;

/// The most jobs of a rate.
pub const MAX_RATE_JOBS: u32 = 1_000_000;
/// The longest time of a rate.
pub const MAX_RATE_PER: Duration = Duration::from_secs(24 * 3600);
/// Jobs times microseconds: what the script can count exactly is 2^53.
const MAX_PRODUCT: u128 = 9_000_000_000_000_000;

/// So many jobs may start in so much time, and as many at once after a rest: a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many: 1 to 1,000,000.
    pub jobs: u32,
    /// In which time: 1 ms to 24 h, by the server's clock.
    pub per: Duration,
}

impl Rate {
    /// What is wrong with it.
    pub(crate) fn check(self) -> Result<(), &'static str> {
        if self.jobs == 0 || self.jobs > MAX_RATE_JOBS {
            return Err("a rate is 1 to 1000000 jobs in a time: use pause to stop a queue");
        }
        if self.per < Duration::from_millis(1) || self.per > MAX_RATE_PER {
            return Err("the time of a rate is 1 ms to 24 h: say 1 job in an hour as (1, 3600)");
        }
        if u128::from(self.jobs) * self.per.as_micros() > MAX_PRODUCT {
            return Err("so many jobs in so long a time: say the rate for a shorter time");
        }
        Ok(())
    }

    /// Zeros are no rate.
    pub(crate) fn read(jobs: u64, per_us: u64) -> Option<Self> {
        let jobs = u32::try_from(jobs).ok().filter(|&jobs| jobs > 0)?;
        Some(Self { jobs, per: Duration::from_micros(per_us) })
    }

    /// How long until the next job may start, by what the rate has seen (`<µs>;<rest>`); nothing if one may start now.
    pub(crate) fn next_start_in(self, seen: &str, now_ms: i64) -> Option<Millis> {
        let (at, rest) = seen.split_once(';')?;
        let (at, rest) = (i128::from(at.parse::<i64>().ok()?), i128::from(rest.parse::<i64>().ok()?));
        let (jobs, per) = (i128::from(self.jobs), i128::try_from(self.per.as_micros()).ok()?);
        let clock_us = i128::from(now_ms) * 1000;
        let left_us = at.min(clock_us + per) + (rest + per + jobs - 1) / jobs - per - clock_us;
        let left = Duration::from_micros(u64::try_from(left_us).ok().filter(|&us| us > 0)?);
        Millis::from_duration(left).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_says_when_the_next_job_may_start() {
        // Two a second, and both have started at 10 s.
        let rate = Rate { jobs: 2, per: Duration::from_secs(1) };
        let next = |now_ms| rate.next_start_in("11000000;0", now_ms).map(|left| left.to_string());
        assert_eq!(next(10_000).as_deref(), Some("0.5"));
        assert_eq!(next(10_499).as_deref(), Some("0.001"));
        assert_eq!(next(10_500), None);
        // What a slower rate left means no more than a burst.
        assert_eq!(next(0).as_deref(), Some("0.5"));
        for foreign in ["", "x", "1", "1;x", "1;170141183460469231731687303715884105727"] {
            assert_eq!(rate.next_start_in(foreign, 0), None);
        }
    }
}
