//! The stop: what runs may end within the grace, what waits goes back, and what is known is sent.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::outcomes::Batch;
use super::{Desk, Phase, State};
use crate::connection::at_the_slowest;
use crate::value::error::Error;
use crate::value::time::LONGEST_WAIT;
use crate::worker::event::{Interruption, WorkerEvent};

/// Large results get so much longer than the farewell at most, as a slow line may need it.
const MOST_FOR_RESULTS: Duration = Duration::from_secs(10);
/// A server that is away gets so long at least from the first request to stop, until there is a second one: most restarts and failovers
/// are over by then, and what is not sent runs again. Supervisors give more.
const AWAY: Duration = Duration::from_secs(8);

/// What was to be sent when the last run had ended, or the grace.
#[derive(Default)]
pub(super) struct Farewell {
    since: Option<Instant>,
    bytes: usize,
    /// When the stop was asked for, if it was: none is behind the last run of a worker that has run all that it may.
    asked: Option<Instant>,
    asked_again: Option<Instant>,
}

impl Farewell {
    /// Until when the last outcomes are sent again, of which the last was known at `from`. Never ends before somebody asks for a stop.
    fn until(&self, from: Instant, farewell: Duration) -> Option<Instant> {
        match (self.asked, self.asked_again) {
            (_, Some(again)) => Some(from.max(again) + farewell),
            (Some(asked), None) => Some(from.max(asked) + farewell.max(AWAY)),
            (None, None) => None,
        }
    }

    /// How much longer it takes from then on, as there are still so many bytes to be sent. What arrives meanwhile makes it no
    /// shorter: the others wait behind it.
    fn time_for(&mut self, bytes: usize, since: Instant, now: Instant) -> Duration {
        if self.since != Some(since) || now < since {
            (self.since, self.bytes) = (Some(since), bytes);
        }
        self.bytes = self.bytes.max(bytes);
        at_the_slowest(self.bytes).min(MOST_FOR_RESULTS)
    }
}

impl Desk {
    /// Starts nothing more, gives back what waits, and lets what runs end within the grace.
    pub(in crate::worker) fn stop(&self, grace: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        let until = now + grace;
        if grace < LONGEST_WAIT {
            state.farewell.asked.get_or_insert(now);
        }
        match &mut state.phase {
            Phase::Over | Phase::Ended => return,
            Phase::Stopping { until: earlier, .. } => *earlier = until.min(*earlier),
            phase @ Phase::Working => *phase = Phase::Stopping { since: now, until },
        }
        if grace < LONGEST_WAIT
            && state.runs.running > 0
            && !std::mem::replace(&mut state.events.stop_is_reported, true)
        {
            let running = state.runs.running;
            state.report(WorkerEvent::Stopping { running, grace, error: self.failure() }, self);
        }
        state.give_back_fetched();
        if state.between_runs.is_some() || state.is_in_hook() {
            self.give_back_due(&mut state);
        }
        state.show();
        drop(state);
        self.wake_all();
        self.for_fetcher.notify_one();
        self.for_timer.notify_one();
    }

    /// The stop was asked for once more, by somebody who is in a hurry: the grace is over.
    pub(in crate::worker) fn stop_now(&self) {
        self.lock().farewell.asked_again.get_or_insert_with(Instant::now);
        self.stop(Duration::ZERO);
    }

    /// It ends with this error, which waiting does not cure, unless it does with an earlier one. What runs may end within the grace: most of it
    /// is of queues that have nothing to do with the error.
    pub(in crate::worker) fn fails(&self, error: Error) {
        if self.failure.set(error).is_ok() {
            self.stop(self.grace);
        }
    }

    /// The error with which it ends, if that is no stop.
    pub(in crate::worker) fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// Is over at once: what was not sent yet is left to the end of the leases.
    pub(in crate::worker) fn abandon(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Ended {
            return;
        }
        state.interrupt_all(self);
        self.end(state, Phase::Over);
        self.for_fetcher.notify_one();
    }

    /// The engine has ended, also by an error or a panic: nobody may wait for more.
    pub(in crate::worker) fn has_ended(&self) {
        let mut state = self.lock();
        state.interrupt_all(self);
        self.end(state, Phase::Ended);
    }

    pub(super) fn end(&self, mut state: MutexGuard<'_, State>, phase: Phase) {
        if !state.phase.is_over() {
            state.report_not_stored(self);
        }
        state.phase = phase;
        // From now on no hook begins here.
        self.give_back_due(&mut state);
        state.show();
        drop(state);
        self.over.notify_waiters();
        self.wake_all();
    }

    pub(in crate::worker) fn is_stopping(&self) -> bool {
        self.lock().phase != Phase::Working
    }

    /// Is a call with these outcomes not worth trying any longer? When the worker stops and no handler runs, outcomes are
    /// tried for the farewell, or [longer](Farewell::until); if there are none either, nobody waits for a server that does not answer.
    pub(in crate::worker) fn is_hopeless(&self, batch: &Batch, farewell: Duration) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        match state.phase {
            Phase::Working => false,
            Phase::Stopping { since, until } => {
                // Also by other calls that are under way.
                let is_busy = state.is_busy();
                let nothing_to_settle = !is_busy && batch.outcomes.len() == 0 && state.lanes.all_is_settled();
                let last_run = state.runs.last_end.map_or(since, |end| end.max(since));
                let from = if is_busy { until } else { last_run.min(until) };
                let to_send = state.lanes.payload_bytes();
                let farewell = farewell + state.farewell.time_for(to_send, from, now);
                let is_over = state.farewell.until(from, farewell).is_some_and(|over| now > over);
                (nothing_to_settle && state.trouble.calls > 0) || is_over
            }
            Phase::Over | Phase::Ended => true,
        }
    }

    /// Ready when the fetch loop has said all that it had to say.
    pub(in crate::worker) async fn until_over(&self) {
        self.until(|state| state.phase.is_over()).await;
    }

    /// Ready when the engine has.
    pub(in crate::worker) async fn until_ended(&self) {
        self.until(|state| state.phase == Phase::Ended).await;
    }

    async fn until(&self, is_it: impl Fn(&State) -> bool) {
        loop {
            let mut over = std::pin::pin!(self.over.notified());
            over.as_mut().enable();
            if is_it(&self.lock()) {
                return;
            }
            over.await;
        }
    }

    /// Has the engine ended? Waited for by a thread; false when the time is over before.
    pub(in crate::worker) fn ended_within(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait.min(LONGEST_WAIT);
        let mut state = self.lock();
        while state.phase != Phase::Ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.for_event.threads.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl State {
    /// The last run takes as long as it needs, until somebody asks for a stop. What goes on behind it, a hook or a run that was interrupted,
    /// has the grace: a worker that has no more runs must not wait for that for ever.
    pub(super) fn begin_grace_behind_last_run(&mut self, now: Instant, grace: Duration) {
        if self.is_last_run() && self.jobs.leased.iter().flatten().all(|leased| !leased.goes_on()) {
            self.phase = Phase::Stopping { since: now, until: now + grace };
        }
    }

    /// Has the last run begun, and has nobody asked for a stop?
    pub(super) fn is_last_run(&self) -> bool {
        matches!(self.phase, Phase::Stopping { since, until } if until.duration_since(since) >= LONGEST_WAIT)
    }

    pub(super) fn grace_ends(&self) -> Option<Instant> {
        match self.phase {
            Phase::Stopping { until, .. } if self.runs.running > 0 => Some(until),
            _ => None,
        }
    }

    /// Does a handler run, or a hook that has the worker to itself? When it is to stop, that may go on for the grace.
    pub(super) fn is_busy(&self) -> bool {
        self.runs.running > 0 || self.is_in_hook()
    }

    pub(super) fn interrupt_all(&mut self, desk: &Desk) {
        for index in 0..self.jobs.leased.len() {
            if self.jobs.leased[index].as_ref().is_some_and(|leased| leased.run.is_some()) {
                self.interrupt(index, Interruption::Stopped, desk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_outcomes_have_longer_until_the_stop_is_asked_for_again() {
        let (from, farewell) = (Instant::now(), Duration::from_secs(2));
        let later = |seconds| from + Duration::from_secs(seconds);
        let mut stop = Farewell::default();
        assert_eq!(stop.until(from, farewell), None, "nobody has asked");
        stop.asked = Some(later(3));
        assert_eq!(stop.until(from, farewell), Some(later(3) + AWAY));
        assert_eq!(stop.until(later(5), farewell), Some(later(5) + AWAY));
        assert_eq!(stop.until(later(5), Duration::from_secs(11)), Some(later(16)), "large results");
        stop.asked_again = Some(later(7));
        assert_eq!(stop.until(later(5), farewell), Some(later(9)));
        assert_eq!(stop.until(later(8), farewell), Some(later(10)));
    }
}
