//! The fetch loop's questions to the desk: when to call, how many jobs to ask for, and to take what came.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::leases::{late_below, sure_until};
use super::outcomes::{Batch, Noted, OUTCOMES_A_CALL};
use super::starts::Start;
use super::{Desk, Leased, Phase, State};
use crate::queue::{Job, Unread};
use crate::script::Verb;
use crate::worker::event::{AboutJob, WorkerEvent};

/// Outcomes wait at most this long for a fetch to ride along with, and only while there is other work.
const RIDE_WITHIN: Duration = Duration::from_millis(5);
/// How many jobs or outcomes are worth a call while another one is under way.
const WORTH_A_SECOND_CALL: usize = 50;

/// What the fetch loop does next.
pub(in crate::worker) enum Step {
    Call { want: Want },
    Sleep { until: Option<Instant>, want: Want },
    Over,
}

/// How many jobs to ask for.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::worker) struct Want {
    /// With those that wait here for an executor.
    pub(in crate::worker) jobs: usize,
    /// Those that an executor takes at once.
    pub(in crate::worker) free: usize,
}

impl Want {
    /// What is wanted after so many have come.
    pub(in crate::worker) fn less(self, came: usize) -> Self {
        Self { jobs: self.jobs.saturating_sub(came), free: self.free.saturating_sub(came) }
    }
}

impl Desk {
    /// Would an executor take a job at once?
    pub(in crate::worker) fn has_free_executor(&self) -> bool {
        self.lock().want().free > 0
    }

    /// What to do now. `due`: may a queue have jobs that were not looked at?
    pub(in crate::worker) fn next_step(&self, due: bool) -> Step {
        let mut state = self.lock();
        let now = Instant::now();
        state.begin_grace_behind_last_run(now, self.grace);
        let is_busy = state.is_busy();
        if let Phase::Stopping { until, .. } = state.phase
            && (!is_busy || now >= until)
        {
            state.interrupt_all(self);
            if !state.lanes.has_calls() && state.lanes.all_is_settled() {
                self.end(state, Phase::Over);
                return Step::Over;
            }
        }
        if state.phase.is_over() {
            return Step::Over;
        }
        state.fetcher.may_have_more = due;
        state.give_back_hoarded(now, self);
        state.drop_expired(now, self);
        state.note_starts(now);
        let want = state.want();
        let ride_over = state.lanes.oldest_outcome.is_some_and(|oldest| now >= oldest + RIDE_WITHIN);
        // Beside a call that is under way only what is worth one of its own.
        let least = if state.lanes.calls == 0 { 1 } else { WORTH_A_SECOND_CALL };
        let leave_now =
            state.lanes.outcomes >= least && (state.waiting_here() == 0 || state.lanes.outcomes >= OUTCOMES_A_CALL);
        // An executor waits for it.
        let start_now = state.jobs.starts.unsent > 0 && state.lanes.calls == 0;
        if leave_now
            || start_now
            || (ride_over && state.lanes.outcomes > 0)
            || (due && want.jobs >= least && state.is_low())
        {
            let concurrency = state.concurrency;
            state.prefetch.grow(concurrency);
            state.fetcher.is_awake = true;
            return Step::Call { want: state.want() };
        }
        if state.is_asked_anew() {
            // That question came when the loop had seen what is due, and is answered by no look from before it.
            return Step::Sleep { until: Some(now), want };
        }
        let until = [
            state.lanes.oldest_outcome.map(|oldest| oldest + RIDE_WITHIN),
            state.next_look_for_hoarded(now),
            state.next_start_at(now),
            state.asks_until().filter(|&until| until > now),
            match state.phase {
                Phase::Stopping { until, .. } if is_busy && now < until => Some(until),
                _ => None,
            },
        ];
        let until = until.into_iter().flatten().min();
        state.has_looked(self);
        state.fetcher.is_awake = false;
        state.fetcher.wakes_at = until;
        Step::Sleep { until, want }
    }

    /// Waits until an executor or a stop wants something of the fetch loop.
    pub(in crate::worker) async fn called(&self) {
        self.for_fetcher.notified().await;
    }

    /// The fetch loop woke by itself.
    pub(in crate::worker) fn awake(&self) {
        self.lock().fetcher.is_awake = true;
    }

    /// A call to this queue that may bring `want` jobs: gives the outcomes for it. `lease`: of what
    /// it brings, if that is not the usual one.
    pub(in crate::worker) fn begin_call(&self, lane: usize, want: usize, lease: Option<Duration>) -> Arc<Batch> {
        let mut state = self.lock();
        // What was not sent by the end is left to the end of the leases.
        let is_over = state.phase.is_over();
        let next = if is_over { None } else { state.lanes.each[lane].batches.pop_front() };
        let mut batch = next.unwrap_or_default();
        (batch.asked_at, batch.lease) = (Some(Instant::now()), lease);
        state.lanes.count_call(lane, want, true);
        if !state.lanes.each[lane].is_silent {
            state.lanes.outcomes -= batch.outcomes.len();
            if state.jobs.starts.unsent > 0 {
                state.jobs.starts.unsent -= batch.starts();
            }
        }
        if state.lanes.outcomes == 0 {
            state.lanes.oldest_outcome = None;
        }
        let batch = Arc::new(batch);
        if batch.outcomes.len() > 0 {
            state.lanes.each[lane].under_way.push(Arc::clone(&batch));
        }
        batch
    }

    /// It was answered after so long, or given up. `has_options`: what the answer says of the queue.
    pub(in crate::worker) fn end_call(
        &self,
        lane: usize,
        want: usize,
        batch: &Arc<Batch>,
        took: Duration,
        has_options: Option<bool>,
    ) {
        let mut state = self.lock();
        state.lanes.count_call(lane, want, false);
        let lane = &mut state.lanes.each[lane];
        lane.has_options = has_options.unwrap_or(lane.has_options);
        lane.call_ended(batch, took, self.lease);
    }

    /// It was refused by an error that waiting does not cure, and the outcomes with it, which are not sent again.
    pub(in crate::worker) fn refuse_call(&self, lane: usize, want: usize, batch: &Arc<Batch>) {
        let mut state = self.lock();
        state.lanes.count_call(lane, want, false);
        state.lanes.each[lane].refuse(batch);
    }

    /// Jobs that were fetched; given back at once if the worker stops meanwhile. `unread`: id, token, and why no handler gets it. Says whether some
    /// had expired.
    pub(in crate::worker) fn deliver(
        &self,
        lane: usize,
        of: &Batch,
        jobs: Vec<Job>,
        unread: &[(Vec<u8>, u64, Unread)],
    ) -> bool {
        let now = Instant::now();
        let asked_at = of.asked_at.unwrap_or(now);
        let sure_until = sure_until(asked_at, of.lease.unwrap_or(self.lease));
        // The renewals have their own rhythm, and the next one may be too late for these.
        let is_late = sure_until < now + late_below(self.lease);
        // One that is sent now may take as long as this call.
        let may_be_over = is_late && sure_until < now + (now - asked_at);
        let mut state = self.lock();
        for (id, token, why) in unread {
            state.note_unread(lane, id, *token, why);
        }
        let count = jobs.len();
        let mut expired: Option<(AboutJob, usize)> = None;
        for job in jobs {
            if job.has_expired() {
                // Its start must not be noted, either.
                let job = Arc::new(job);
                state.note_expired(lane, &job);
                expired.get_or_insert_with(|| (AboutJob::of(&job), 0)).1 += 1;
            } else if state.phase == Phase::Working {
                let start = Start::of(&job);
                // Others may have it before the renewal arrives: it waits until it is renewed. So does one whose start is noted, which
                // is charged for that if its lease ends.
                let waits = may_be_over || is_late && start != Start::Free;
                let sure_until = if waits { now } else { sure_until };
                let expires_at = job.expires_in().and_then(|left| now.checked_add(left.to_duration()));
                let (job, fetched_at) = (Arc::new(job), now);
                state.jobs.add(Leased { job, lane, fetched_at, sure_until, expires_at, start, run: None });
            } else {
                state.note_other(lane, &Arc::new(job), Verb::Unstarted, Noted::Unstarted, Duration::ZERO);
            }
        }
        let some_expired = expired.is_some();
        if let Some((job, count)) = expired {
            state.report(WorkerEvent::Expired { job, others: count - 1 }, self);
        }
        self.wake_executors(state, count);
        if is_late {
            self.for_queues[lane].renewal.notify_one();
        }
        some_expired
    }
}

impl State {
    /// How many jobs to ask for.
    fn want(&self) -> Want {
        if self.phase != Phase::Working {
            return Want::default();
        }
        let here = self.waiting_here() + self.lanes.asked;
        let slots = self.slots();
        let room = (slots + self.prefetch.ahead()).saturating_sub(self.runs.running + here);
        let jobs = room.min(usize::try_from(self.runs.left).unwrap_or(usize::MAX).saturating_sub(here));
        Want { jobs, free: jobs.min(slots.saturating_sub(self.runs.running + here)) }
    }

    /// Do so few jobs wait that more should be fetched?
    fn is_low(&self) -> bool {
        2 * (self.waiting_here() + self.lanes.asked) <= self.prefetch.ahead()
    }

    pub(super) fn wake_to_refill(&mut self) -> bool {
        let must_wake = self.phase != Phase::Working || self.has_starts();
        self.wake_if(must_wake || (self.fetcher.may_have_more && self.is_low() && self.want().jobs > 0))
    }

    pub(super) fn wake_for_outcome(&mut self) -> bool {
        let stopping = self.phase != Phase::Working;
        let no_timer = self
            .lanes
            .oldest_outcome
            .is_some_and(|oldest| self.fetcher.wakes_at.is_none_or(|wakes_at| wakes_at > oldest + RIDE_WITHIN));
        self.wake_if(stopping || self.has_starts() || self.waiting_here() == 0 || no_timer)
    }

    pub(super) fn wake_if(&mut self, needed: bool) -> bool {
        let wake = needed && !self.fetcher.is_awake;
        self.fetcher.is_awake |= wake;
        wake
    }
}
