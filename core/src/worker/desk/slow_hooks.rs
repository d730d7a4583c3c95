//! Of hooks that take long: how many failed jobs are claimed at once, which go to other workers, and what is reported.

use std::time::{Duration, Instant};

use super::Desk;
use super::unheard::Claimed;
use crate::queue::Job;
use crate::worker::event::{AboutJob, WorkerEvent};

/// So many are claimed at once while nothing is known of the hooks, and however quick they are.
const FIRST_CLAIMED: usize = 10;
const MOST_CLAIMED: usize = 100;
/// As many are claimed as hooks are called in this time.
const SOON: Duration = Duration::from_secs(1);
/// A claimed job that has waited so long for its hooks is another worker's.
const LONGEST_HELD: Duration = Duration::from_secs(3);
/// A hook that runs for so long is reported.
const SLOW: Duration = Duration::from_secs(10);

/// The hooks of one job, which its owner calls.
pub(super) struct InHooks {
    pub(super) job: AboutJob,
    pub(super) since: Instant,
    is_reported: bool,
}

/// What is known of the hooks of jobs that failed elsewhere.
pub(super) struct Hooks {
    /// How long they take.
    take: Option<Duration>,
    /// By the queue: are there more to hear of, as far as its server has said?
    has_more: Vec<bool>,
}

impl InHooks {
    pub(super) fn of(job: &Job) -> Self {
        Self { job: AboutJob::of(job), since: Instant::now(), is_reported: false }
    }
}

impl Hooks {
    pub(super) fn new(lanes: usize) -> Self {
        Self { take: None, has_more: vec![false; lanes] }
    }

    /// How many jobs may be claimed at once.
    pub(super) fn most(&self) -> usize {
        let Some(take) = self.take else { return FIRST_CLAIMED };
        let in_time = SOON.as_micros() / take.as_micros().max(1);
        usize::try_from(in_time).map_or(MOST_CLAIMED, |most| most.clamp(1, MOST_CLAIMED))
    }

    /// Those of one job took so long. A slow one counts at once: the next one may be as slow.
    pub(super) fn learn(&mut self, took: Duration) {
        self.take = Some(self.take.map_or(took, |take| took.max((3 * take + took) / 4)));
    }

    pub(super) fn note_more(&mut self, lane: usize, has_more: bool) {
        self.has_more[lane] = has_more;
    }

    pub(super) fn lanes_with_more(&self) -> Vec<usize> {
        (0..self.has_more.len()).filter(|&lane| self.has_more[lane]).collect()
    }
}

impl Desk {
    /// Gives back what has waited too long for its hooks, and reports hooks that take long. Is there something to say to the queue?
    pub(in crate::worker) fn look_at_hooks(&self, lane: usize) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        let mut slow = Vec::new();
        let mut gives_back = false;
        for one in
            state.claimed.iter_mut().filter(|one| one.lane == lane && one.is_over_at().is_some_and(|at| at <= now))
        {
            if let Some(begun) = &mut one.begun {
                begun.is_reported = true;
                slow.push(begun.job.clone());
            } else {
                one.give_back();
                gives_back = true;
            }
        }
        for job in slow {
            state.report(WorkerEvent::SlowHook { job, after: SLOW }, self);
        }
        if gives_back {
            state.note_may_hear(lane, true);
        }
        gives_back
    }

    /// When to look at them again.
    pub(in crate::worker) fn looks_at_hooks_at(&self, lane: usize) -> Option<Instant> {
        self.lock().claimed_of(lane).filter_map(Claimed::is_over_at).min()
    }
}

impl Claimed {
    /// When it has waited too long for its hooks, or these are slow.
    fn is_over_at(&self) -> Option<Instant> {
        match &self.begun {
            None if self.is_due() => Some(self.since + LONGEST_HELD),
            Some(begun) if self.is_begun() && !begun.is_reported => Some(begun.since + SLOW),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most_after(took: &[f64]) -> usize {
        let mut hooks = Hooks::new(1);
        for &seconds in took {
            hooks.learn(Duration::from_secs_f64(seconds));
        }
        hooks.most()
    }

    #[test]
    fn as_many_are_claimed_as_hooks_are_called_in_a_second() {
        assert_eq!(most_after(&[]), 10, "nothing is known");
        for (seconds, most) in [(0.0, 100), (0.001, 100), (0.1, 10), (0.6, 1), (60.0, 1)] {
            assert_eq!(most_after(&[seconds]), most, "hooks of {seconds} s");
        }
    }

    #[test]
    fn a_slow_hook_counts_at_once_and_quick_ones_little_by_little() {
        assert_eq!(most_after(&[0.001, 0.001, 60.0]), 1);
        let mut took = vec![60.0, 0.001];
        assert_eq!(most_after(&took), 1);
        took.resize(50, 0.001);
        assert_eq!(most_after(&took), 100);
    }
}
