//! Endings: runs whose timeout is over, jobs that were hoarded, and the worker.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::outcomes::{Batch, Noted, failure, give_back};
use super::{Desk, Leased, Phase, Running, State};
use crate::connection::at_the_slowest;
use crate::script::Verb;
use crate::value::retry::Next;
use crate::value::time::{LONGEST_WAIT, Millis};
use crate::worker::event::{AboutJob, Interruption, WorkerEvent, timeout_error};

/// Jobs that waited this long while all executors are busy are given back.
const HOARDED_AFTER: Duration = Duration::from_millis(500);
/// Large results get so much longer than the farewell at most, as a slow line may need it.
const MOST_FOR_RESULTS: Duration = Duration::from_secs(10);

/// What was to be sent when the last run had ended, or the grace.
#[derive(Default)]
pub(super) struct Farewell {
    since: Option<Instant>,
    bytes: usize,
}

impl Farewell {
    /// How much longer it takes from then on, as there are still so many bytes to be sent. What arrives meanwhile makes it no
    /// shorter: the others wait behind it.
    fn time_for(&mut self, bytes: usize, since: Instant, now: Instant) -> Duration {
        if self.since != Some(since) || now < since {
            *self = Self { since: Some(since), bytes };
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
        match &mut state.phase {
            Phase::Over | Phase::Ended => return,
            Phase::Stopping { until: earlier, .. } => *earlier = until.min(*earlier),
            phase @ Phase::Working => *phase = Phase::Stopping { since: now, until },
        }
        if state.runs.running > 0 && !std::mem::replace(&mut state.events.stop_is_reported, true) {
            let running = state.runs.running;
            state.report(WorkerEvent::Stopping { running, grace }, self);
        }
        state.give_back_fetched();
        if state.between_runs.is_some() || state.is_in_hook() {
            self.give_back_due(&mut state);
        }
        drop(state);
        self.wake_all();
        self.for_fetcher.notify_one();
        self.for_timer.notify_one();
    }

    /// Is over at once: what was not sent yet is left to the end of the leases.
    pub(in crate::worker) fn abandon(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Ended {
            return;
        }
        state.interrupt_all(self);
        if !state.phase.is_over() {
            state.report_not_stored(self);
        }
        self.end(state, Phase::Over);
        self.for_fetcher.notify_one();
    }

    /// The engine has ended, also by an error or a panic: nobody may wait for more.
    pub(in crate::worker) fn has_ended(&self) {
        let mut state = self.lock();
        state.interrupt_all(self);
        if !state.phase.is_over() {
            state.report_not_stored(self);
        }
        self.end(state, Phase::Ended);
    }

    pub(super) fn end(&self, mut state: MutexGuard<'_, State>, phase: Phase) {
        state.phase = phase;
        drop(state);
        self.over.notify_waiters();
        self.wake_all();
    }

    pub(in crate::worker) fn is_stopping(&self) -> bool {
        self.lock().phase != Phase::Working
    }

    /// Is a call with these outcomes not worth trying any longer? When the worker stops and no handler runs, outcomes are
    /// tried for the farewell; if there are none either, nobody waits for a server that does not answer.
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
                (nothing_to_settle && state.trouble.calls > 0) || now > from + farewell
            }
            Phase::Over | Phase::Ended => true,
        }
    }

    /// Ends what takes too long, and gives when something will next.
    pub(in crate::worker) fn end_overdue(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.lock();
        let noted = state.lanes.outcomes;
        state.end_timed_out(now, self);
        if state.grace_ends().is_some_and(|until| until <= now) {
            state.interrupt_all(self);
        }
        state.runs.timer_rings_at = state.next_end().filter(|at| *at > now);
        let rings_at = state.runs.timer_rings_at;
        let wake = state.lanes.outcomes > noted && state.wake_for_outcome();
        drop(state);
        if wake {
            self.for_fetcher.notify_one();
        }
        rings_at
    }

    /// Ready when something must end before the timer rings.
    pub(in crate::worker) async fn timer_is_late(&self) {
        self.for_timer.notified().await;
    }

    /// For how long a run goes on that was interrupted; that of the first one.
    pub(in crate::worker) fn overdue_for(&self) -> Duration {
        let state = self.lock();
        let runs = state.jobs.leased.iter().flatten().filter_map(|leased| leased.run.as_ref()?.interrupted);
        runs.min().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The jobs of runs that go on though they were interrupted.
    pub(in crate::worker) fn overdue(&self) -> Vec<AboutJob> {
        self.lock().jobs_of_runs(|run| run.interrupted.is_some() && !run.is_kept)
    }

    /// The jobs of all runs.
    pub(in crate::worker) fn all_running(&self) -> Vec<AboutJob> {
        self.lock().jobs_of_runs(|_| true)
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
    pub(super) fn jobs_of_runs(&self, which: impl Fn(&Running) -> bool) -> Vec<AboutJob> {
        let of_it = |leased: &&Leased| leased.run.as_ref().is_some_and(&which);
        self.jobs.leased.iter().flatten().filter(of_it).map(|leased| AboutJob::of(&leased.job)).collect()
    }

    /// Ends the runs whose timeout is over: each counts as a failure, and its job is settled now.
    fn end_timed_out(&mut self, now: Instant, desk: &Desk) {
        while let Some(&Reverse((at, index, number))) = self.runs.timeouts.peek() {
            if is_running(&self.jobs.leased, index, number) {
                if at > now {
                    return;
                }
                self.interrupt(index, Interruption::TimedOut, desk);
            }
            self.runs.timeouts.pop();
        }
    }

    /// When the first of the timeouts and the grace is over.
    fn next_end(&self) -> Option<Instant> {
        let timeout = self.runs.timeouts.peek().map(|Reverse((at, ..))| *at);
        timeout.into_iter().chain(self.grace_ends()).min()
    }

    fn grace_ends(&self) -> Option<Instant> {
        match self.phase {
            Phase::Stopping { until, .. } if self.runs.running > 0 => Some(until),
            _ => None,
        }
    }

    /// Must something end before the timer rings?
    pub(super) fn timer_is_late(&self) -> bool {
        self.next_end().is_some_and(|at| self.runs.timer_rings_at.is_none_or(|rings_at| at < rings_at))
    }

    /// Most runs end long before their timeout: what is left of them must not pile up.
    pub(super) fn forget_old_timeouts(&mut self) {
        if self.runs.timeouts.len() > 100 + 4 * self.jobs.leased.len() {
            let leased = &self.jobs.leased;
            self.runs.timeouts.retain(|&Reverse((_, index, number))| is_running(leased, index, number));
        }
    }

    /// Does a handler run, or a hook that has the worker to itself? When it is to stop, that may go on for the grace.
    pub(super) fn is_busy(&self) -> bool {
        self.runs.running > 0 || self.is_in_hook()
    }

    pub(super) fn interrupt(&mut self, index: usize, why: Interruption, desk: &Desk) {
        let Some(leased) = self.jobs.leased[index].as_mut() else { return };
        let (job, lane) = (Arc::clone(&leased.job), leased.lane);
        let Some(run) = &mut leased.run else {
            // It waits for an executor: only a lost lease ends that.
            self.jobs.fetched.retain(|&waiting| waiting != index);
            self.jobs.take_out_waiting(index);
            return;
        };
        if run.interrupted.is_some() {
            return;
        }
        // One of the job's own verbs may have learned it sooner.
        let why = if job.is_lost() { Interruption::LeaseLost } else { why };
        run.interrupted = Some(Instant::now());
        self.runs.cut_short |= why == Interruption::Stopped;
        let (executor, number) = (Arc::clone(&run.executor), run.number);
        let decided = run.decided.take().filter(|_| why != Interruption::LeaseLost && !job.is_settled());
        run.is_kept = decided.is_some();
        let was_settled = run.is_kept || job.is_settled();
        let mut is_last = false;
        if let Some(decided) = decided {
            self.note_decided(lane, &job, *decided);
        }
        match why {
            _ if was_settled => {}
            Interruption::TimedOut => {
                let error = timeout_error(job.envelope.timeout.unwrap_or(Millis::ZERO));
                let next = self.note(lane, &job, &failure(&job, &error));
                is_last = next.is_ok_and(Next::is_last);
            }
            Interruption::Stopped => {
                let _ = self.note(lane, &job, &give_back(&job));
            }
            Interruption::LeaseLost => self.report.lost += 1,
        }
        executor.interrupt(number, why);
        let (job, executor) = (AboutJob::of(&job), executor.tag);
        self.report(WorkerEvent::Interrupted { job, executor, run: number, why, was_settled, is_last }, desk);
    }

    pub(super) fn interrupt_all(&mut self, desk: &Desk) {
        for index in 0..self.jobs.leased.len() {
            if self.jobs.leased[index].as_ref().is_some_and(|leased| leased.run.is_some()) {
                self.interrupt(index, Interruption::Stopped, desk);
            }
        }
    }

    fn hoarded_at(&self) -> Option<Instant> {
        let oldest = self.jobs.leased[*self.jobs.fetched.front()?].as_ref()?;
        Some(oldest.fetched_at + HOARDED_AFTER)
    }

    /// When to look at the hoarded again. If they are over and were not given back, no executor is missing, but a renewal.
    pub(super) fn next_look_for_hoarded(&self, now: Instant) -> Option<Instant> {
        self.hoarded_at().map(|at| if at > now { at } else { now + HOARDED_AFTER })
    }

    /// Jobs that were fetched ahead because others like them were short go back when these turn out to be long.
    pub(super) fn give_back_hoarded(&mut self, now: Instant, desk: &Desk) {
        if self.hoarded_at().is_none_or(|at| at > now) {
            return;
        }
        if let Some(since) = now.checked_sub(HOARDED_AFTER) {
            self.give_back_blocked(since, now);
        }
        if self.runs.running < self.concurrency || self.jobs.fetched.is_empty() {
            return;
        }
        let mut given_back = BTreeMap::<String, usize>::new();
        for leased in self.jobs.fetched.iter().filter_map(|&index| self.jobs.leased[index].as_ref()) {
            *given_back.entry(leased.job.part().name().to_owned()).or_default() += 1;
        }
        self.give_back_fetched();
        self.prefetch.forget();
        for (queue, jobs) in given_back {
            self.report(WorkerEvent::GivenBack { queue, jobs }, desk);
        }
    }

    pub(super) fn give_back_fetched(&mut self) {
        let fetched = std::mem::take(&mut self.jobs.fetched);
        self.give_back(fetched, Duration::ZERO);
    }

    /// Others may have them, at the earliest after so long.
    pub(super) fn give_back(&mut self, fetched: VecDeque<usize>, after: Duration) {
        for index in fetched {
            if let Some(leased) = self.jobs.take_out_waiting(index) {
                self.note_other(leased.lane, &leased.job, Verb::Unstarted, Noted::Released, after);
            }
        }
    }
}

fn is_running(leased: &[Option<Leased>], index: usize, number: u64) -> bool {
    leased[index].as_ref().and_then(|leased| leased.run.as_ref()).is_some_and(|run| run.number == number)
}
