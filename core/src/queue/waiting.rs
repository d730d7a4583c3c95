//! How a waiter spends its time when there is no job: until the next one is due if it promised to come back for it, until
//! shortly after if another waiter did, else until a wake-up; and never longer than a second, because wake-ups are hints
//! that can get lost.

use std::time::{Duration, Instant};

use crate::process::host;
use crate::script::{ReserveReply, ReserveStatus};
use crate::value::time::LONGEST_WAIT;

/// Every waiter looks again after this long at the latest, whatever the reply said, and up to `SPREAD` earlier, so that
/// waiters do not look all at once.
const LOOK_AGAIN: Duration = Duration::from_millis(1200);
const SPREAD: Duration = Duration::from_millis(400);

/// The state of one wait.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    until: Instant,
    /// The server time at which we promised to come back; 0 for no promise.
    promise: u64,
    trust: Trust,
    over: bool,
}

/// How far a waiter relies on another one's promise to come back for the next job. A promise outlives its process, and
/// nobody says so: whoever relies on it looks shortly after its moment, but each time leaves more rest between two such
/// looks, so that many idle waiters beside a lively queue cost little.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trust {
    rest: Duration,
}

impl Trust {
    /// How long after the promised moment to look, and up to as much again: the one who promised goes first.
    const MARGIN: Duration = Duration::from_millis(20);
    const FIRST_REST: Duration = Duration::from_millis(50);
    const LONGEST_REST: Duration = Duration::from_secs(1);

    /// How long to wait, `longest` at most, after a reserve that found nothing, and whose next job comes `next_in` from now.
    pub(crate) fn next_look(
        &mut self,
        next_in: Option<Duration>,
        have_promised: bool,
        is_paused: bool,
        longest: Duration,
    ) -> Duration {
        match next_in {
            Some(next_in) if have_promised && !is_paused => next_in.min(longest),
            Some(next_in) if !is_paused => self.look_after_promise(next_in, longest),
            _ => longest,
        }
    }

    /// The same when somebody else has promised to come back `next_in` from now.
    fn look_after_promise(&mut self, next_in: Duration, longest: Duration) -> Duration {
        let chance = host::random_fraction();
        let next_look = (next_in + Self::MARGIN.mul_f64(1.0 + chance)).max(self.rest.mul_f64(0.75 + chance / 2.0));
        if next_look >= longest {
            // A quiet time: there is little to save.
            self.rest /= 2;
            return longest;
        }
        self.rest = (self.rest * 2).clamp(Self::FIRST_REST, Self::LONGEST_REST);
        next_look
    }
}

impl Waiting {
    pub(crate) fn new(now: Instant, wait: Duration) -> Self {
        let until = now + wait.min(LONGEST_WAIT);
        Self { until, promise: 0, trust: Trust::default(), over: wait.is_zero() }
    }

    pub(crate) fn left(&self) -> Duration {
        if self.over { Duration::ZERO } else { self.until.saturating_duration_since(Instant::now()) }
    }

    pub(crate) fn promise(&self) -> u64 {
        self.promise
    }

    /// The same for one last look, which gives up the promise.
    pub(crate) fn ended(&self) -> Self {
        Self { over: true, ..*self }
    }

    /// The server no longer counts on us.
    pub(crate) fn forget_promise(&mut self) {
        self.promise = 0;
    }

    /// How long to wait before looking again; nothing when the wait is over. The last look is made without promising
    /// anything, so that a promise still open goes to another waiter.
    pub(crate) fn next_look(&mut self, reply: &ReserveReply) -> Option<Duration> {
        if self.over {
            return None;
        }
        // One call does a bounded amount of work: this one did not reach what is ready, and left the promise as it was.
        let leaves_promise = reply.leaves_promise();
        if !leaves_promise {
            self.promise = reply.promised;
        }
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.over = true;
            return Some(Duration::ZERO);
        }
        if leaves_promise {
            return Some(Duration::ZERO);
        }
        let look_again = LOOK_AGAIN.saturating_sub(SPREAD.mul_f64(host::random_fraction()));
        let is_paused = reply.status == ReserveStatus::Paused;
        Some(self.trust.next_look(reply.next_in, reply.promised > 0, is_paused, look_again).min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(3);

    fn nothing(next_in: Option<Duration>, promised: u64) -> ReserveReply {
        ReserveReply {
            status: ReserveStatus::None,
            settled: String::new(),
            token: 0,
            next_in,
            promised,
            behind_token: 0,
            limited: false,
            has_options: false,
            jobs: Vec::new(),
            awaited: Vec::new(),
            dropped: None,
        }
    }

    #[test]
    fn a_look_that_did_not_reach_what_is_ready_changes_nothing_of_what_was_promised() {
        let mut waiting = Waiting::new(Instant::now(), LONGEST);
        let soon = Some(Duration::from_millis(300));
        waiting.next_look(&nothing(soon, 7));
        for _ in 0..10 {
            let unfinished = ReserveReply { status: ReserveStatus::Unfinished, ..nothing(None, 0) };
            assert_eq!(waiting.next_look(&unfinished), Some(Duration::ZERO));
            assert_eq!(waiting.promise(), 7);
        }
        let next_look = waiting.next_look(&nothing(soon, 0)).unwrap();
        assert!(
            waiting.promise() == 0 && next_look < Duration::from_millis(400),
            "another one has promised: {next_look:?}"
        );
    }

    #[test]
    fn a_new_waiter_looks_shortly_after_the_moment_that_another_one_promised() {
        let next_in = Duration::from_millis(700);
        let next_look = Trust::default().look_after_promise(next_in, LONGEST);
        assert!(next_look >= next_in + Trust::MARGIN && next_look <= next_in + 2 * Trust::MARGIN, "{next_look:?}");
    }

    #[test]
    fn each_look_after_a_promise_leaves_more_rest_until_the_next() {
        let mut trust = Trust::default();
        let looks: Vec<_> = (0..20).map(|_| trust.look_after_promise(Duration::ZERO, LONGEST)).collect();
        assert!(looks[0] <= 2 * Trust::MARGIN, "{looks:?}");
        for next_look in &looks[6..] {
            let (least, most) = (Trust::LONGEST_REST.mul_f64(0.75), Trust::LONGEST_REST.mul_f64(1.25));
            assert!(*next_look >= least && *next_look <= most, "{looks:?}");
        }
    }

    #[test]
    fn a_moment_far_away_is_no_reason_to_rely_more() {
        let mut trust = Trust::default();
        assert_eq!(trust.look_after_promise(Duration::from_secs(60), LONGEST), LONGEST);
        assert!(trust.look_after_promise(Duration::ZERO, LONGEST) <= 2 * Trust::MARGIN);
    }

    #[test]
    fn a_quiet_time_shortens_the_rest() {
        let mut trust = Trust { rest: Trust::LONGEST_REST };
        for _ in 0..6 {
            trust.look_after_promise(Duration::from_secs(60), LONGEST);
        }
        assert!(trust.look_after_promise(Duration::ZERO, LONGEST) <= 2 * Trust::MARGIN);
    }
}
