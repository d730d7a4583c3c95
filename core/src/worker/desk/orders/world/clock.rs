//! What time would bring.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::owners::{Doing, Owner};
use super::server::Loop;
use super::{World, is_ready};
use crate::worker::desk::Phase;
use crate::worker::event::Interruption;

/// Nothing that is so far off comes by itself.
pub(super) const FAR: Duration = Duration::from_secs(20 * 3600);
/// What is so far off comes when the test says so.
pub(super) const SOON: Duration = Duration::from_secs(3600);

pub(super) fn past() -> Instant {
    let now = Instant::now();
    now.checked_sub(Duration::from_secs(1)).unwrap_or(now)
}

impl World<'_> {
    pub(super) fn ring(&mut self) {
        let number = {
            let mut state = self.desk.lock();
            let first = state.runs.timeouts.pop();
            first.map(|Reverse((_, index, number))| {
                let at = past();
                state.runs.timeouts.push(Reverse((at, index, number)));
                let run = state.jobs.leased[index].as_mut().and_then(|leased| leased.run.as_mut());
                if let Some(run) = run.filter(|run| run.number == number) {
                    run.ends_at = Some(at);
                }
                number
            })
        };
        self.desk.end_overdue();
        let is_it = |owner: &Owner| matches!(&owner.doing, Doing::Runs(one) if Some(one.run.number) == number);
        if let Some(owner) = self.owners.iter().position(is_it) {
            self.interrupted(owner, Interruption::TimedOut);
        }
    }

    pub(super) fn grace_ends(&mut self) {
        if let Phase::Stopping { until, .. } = &mut self.desk.lock().phase {
            *until = past();
        }
        self.desk.end_overdue();
        self.all_stop();
        if matches!(self.fetcher, Loop::Sleeps { .. }) {
            self.wakes_fetcher();
        }
    }

    /// What the desk compares with the clock comes by events only.
    pub(super) fn keep_clocks(&self) {
        let (mut state, far) = (self.desk.lock(), Instant::now() + FAR);
        for leased in state.jobs.leased.iter_mut().flatten() {
            leased.fetched_at = far;
            if let Some(run) = &mut leased.run {
                run.started = far;
            }
        }
        if let Some(asks_until) = state.pulls.as_mut().and_then(|pulls| pulls.asks_until.as_mut()) {
            *asks_until = far;
        }
    }

    /// The timer is there at once when it is called, and knows the next end of a run then.
    pub(super) fn attend_timer(&self) -> Result<(), String> {
        if is_ready(std::pin::pin!(self.desk.timer_is_late())) {
            self.desk.end_overdue();
        }
        let goes_on = |owner: &Owner| matches!(&owner.doing, Doing::Runs(running) if running.interrupted.is_none());
        if self.desk.lock().timer_is_late() && self.owners.iter().any(goes_on) {
            Err("the timer sleeps too long".to_owned())
        } else {
            Ok(())
        }
    }
}
