//! How many jobs a worker fetches ahead of its handlers. Pure: nothing here reads a clock.

use std::time::Duration;

/// No more work than this waits in a worker, so that short jobs fly and long jobs are not hoarded.
const WORK_AHEAD: Duration = Duration::from_millis(50);
/// The most jobs that wait in a worker, however short they are.
pub(super) const MOST_AHEAD: usize = 1000;

/// What was learned from the runs so far.
#[derive(Debug)]
pub(super) struct Prefetch {
    /// How long a handler takes, in seconds; none before the first has ended.
    run_s: Option<f64>,
    ahead: usize,
    /// The most that its owner allows.
    most: usize,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self::at_most(None)
    }
}

impl Prefetch {
    /// As its owner allows; nothing said: as it is learned.
    pub(super) fn at_most(most: Option<usize>) -> Self {
        Self { run_s: None, ahead: 0, most: most.unwrap_or(MOST_AHEAD) }
    }

    /// A run took this long. Longer runs are believed sooner than shorter ones: fetching too little costs a round trip,
    /// fetching too much keeps jobs from workers that are idle.
    pub(super) fn learn(&mut self, run: Duration) {
        let run = run.as_secs_f64();
        self.run_s = Some(match self.run_s {
            None => run,
            Some(known) if run > known => f64::midpoint(known, run),
            Some(known) => known + (run - known) / 16.0,
        });
    }

    /// What was fetched waited too long for a handler: begin anew with none.
    pub(super) fn forget(&mut self) {
        *self = Self::at_most(Some(self.most));
    }

    /// How many jobs may wait besides those that run, for the next fetch. At most doubles from one fetch to the next, so
    /// that a few short runs do not bring a thousand long ones.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
    pub(super) fn grow(&mut self, concurrency: usize) {
        let Some(run_s) = self.run_s else { return };
        #[expect(clippy::cast_precision_loss, reason = "a few thousand at the most")]
        let fit = WORK_AHEAD.as_secs_f64() * concurrency as f64 / run_s.max(1e-9);
        self.ahead = (fit as usize).min(self.most).min(2 * self.ahead + concurrency);
    }

    /// How many jobs may wait besides those that run.
    pub(super) fn ahead(&self) -> usize {
        self.ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(runs: &[u64], concurrency: usize) -> usize {
        let mut prefetch = Prefetch::default();
        for &micros in runs {
            prefetch.learn(Duration::from_micros(micros));
            prefetch.grow(concurrency);
        }
        prefetch.ahead()
    }

    #[test]
    fn nothing_is_fetched_ahead_before_a_run_has_ended() {
        assert_eq!(after(&[], 4), 0);
    }

    #[test]
    fn short_jobs_fly() {
        assert_eq!(after(&[5; 20], 1), MOST_AHEAD);
    }

    #[test]
    fn it_doubles_at_the_most() {
        assert_eq!([1, 2, 3].map(|runs| after(&[5; 3][..runs], 2)), [2, 6, 14]);
    }

    #[test]
    fn never_more_than_its_owner_allows() {
        for (most, ahead) in [(0, 0), (5, 5), (MOST_AHEAD, 62)] {
            let mut prefetch = Prefetch::at_most(Some(most));
            for _ in 0..5 {
                prefetch.learn(Duration::from_micros(5));
                prefetch.grow(2);
            }
            assert_eq!(prefetch.ahead(), ahead);
            prefetch.forget();
            assert_eq!((prefetch.ahead(), prefetch.most), (0, most));
        }
    }

    #[test]
    fn long_jobs_are_not_hoarded() {
        assert_eq!(after(&[60_000; 10], 1), 0);
        assert_eq!(after(&[20_000; 10], 1), 2);
        assert_eq!(after(&[20_000; 10], 8), 20);
    }

    #[test]
    fn one_long_run_among_short_ones_is_believed_at_once() {
        let mut runs = [5; 21];
        runs[20] = 1_000_000;
        assert_eq!(after(&runs, 1), 0);
    }
}
