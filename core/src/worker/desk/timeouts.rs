//! Runs that must end before their handlers do: their timeouts, and how a run is interrupted.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outcomes::{failure, give_back};
use super::{Desk, Leased, Run, Running, State};
use crate::queue::Job;
use crate::value::retry::Next;
use crate::value::time::Millis;
use crate::worker::event::{AboutJob, Interruption, WorkerEvent, timeout_error};

impl Desk {
    /// Ends what takes too long, and gives when something will next.
    pub(in crate::worker) fn end_overdue(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.lock();
        let (noted, running) = (state.lanes.outcomes, state.runs.running);
        state.end_timed_out(now, self);
        if state.grace_ends().is_some_and(|until| until <= now) {
            state.interrupt_all(self);
        }
        state.runs.timer_rings_at = state.next_end().filter(|at| *at > now);
        let rings_at = state.runs.timer_rings_at;
        let freed = running - state.runs.running;
        let wake = (state.lanes.outcomes > noted || state.is_last_run()) && state.wake_for_outcome();
        let wake = wake || (freed > 0 && state.wake_if(true));
        self.wake_executors(state, freed);
        if wake {
            self.for_fetcher.notify_one();
        }
        rings_at
    }

    /// The longest run of this job.
    pub(super) fn timeout_of(&self, job: &Job) -> Option<Millis> {
        job.envelope.timeout.or_else(|| Millis::from_duration(self.timeout?).ok())
    }

    /// When a run of it must end that starts now.
    pub(super) fn end_of(&self, job: &Job, started: Instant) -> Option<Instant> {
        started.checked_add(self.timeout_of(job)?.to_duration())
    }

    /// Its owner asks the server whether it may start: that time is not the run's, unless the server knows of the start already. False
    /// if the run is over.
    pub(in crate::worker) fn hold_time(&self, run: &Run) -> bool {
        let mut state = self.lock();
        let Some(running) = state.running(run) else { return false };
        running.asking += 1;
        if !running.is_noted {
            running.ends_at = None;
        }
        true
    }

    /// It has asked. The time of the run begins when the server knows of the start, or when nobody asks any more. False if it is over.
    pub(in crate::worker) fn begin_time(&self, run: &Run, is_noted: bool) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        let ends_at = self.end_of(&run.job, now);
        let Some(running) = state.running(run) else { return false };
        running.asking -= 1;
        if running.is_noted || (!is_noted && running.asking > 0) {
            return true;
        }
        (running.started, running.ends_at, running.is_noted) = (now, ends_at, is_noted);
        state.note_end(ends_at, run.index, run.number);
        let timer_is_late = state.timer_is_late();
        drop(state);
        if timer_is_late {
            self.for_timer.notify_one();
        }
        true
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
        self.lock().jobs_of_runs(|run| run.interrupted.is_some() && run.kept.is_none())
    }

    /// The same of runs whose outcome was decided before: their handlers or hooks go on.
    pub(in crate::worker) fn decided(&self) -> Vec<AboutJob> {
        self.lock().jobs_of_runs(|run| run.kept.is_some())
    }

    /// The jobs of all runs.
    pub(in crate::worker) fn all_running(&self) -> Vec<AboutJob> {
        self.lock().jobs_of_runs(|_| true)
    }
}

impl State {
    pub(super) fn jobs_of_runs(&self, which: impl Fn(&Running) -> bool) -> Vec<AboutJob> {
        let of_it = |leased: &&Leased| leased.run.as_ref().is_some_and(&which);
        self.jobs.leased.iter().flatten().filter(of_it).map(|leased| AboutJob::of(&leased.job)).collect()
    }

    /// Of a run that nothing has ended.
    fn running(&mut self, run: &Run) -> Option<&mut Running> {
        let running = self.jobs.leased[run.index].as_mut()?.run.as_mut()?;
        (running.number == run.number && running.interrupted.is_none()).then_some(running)
    }

    /// Ends the runs whose timeout is over: each counts as a failure, and its job is settled now.
    fn end_timed_out(&mut self, now: Instant, desk: &Desk) {
        while let Some(&Reverse((at, index, number))) = self.runs.timeouts.peek() {
            if is_due(&self.jobs.leased, (at, index, number)) {
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

    /// Must something end before the timer rings?
    pub(super) fn timer_is_late(&self) -> bool {
        self.next_end().is_some_and(|at| self.runs.timer_rings_at.is_none_or(|rings_at| at < rings_at))
    }

    /// Of a run, if it must end.
    pub(super) fn note_end(&mut self, ends_at: Option<Instant>, index: usize, number: u64) {
        let Some(until) = ends_at else { return };
        self.runs.timeouts.push(Reverse((until, index, number)));
        // Most runs end long before their timeout: what is left of them must not pile up.
        if self.runs.timeouts.len() > 100 + 4 * self.jobs.leased.len() {
            let leased = &self.jobs.leased;
            self.runs.timeouts.retain(|&Reverse(timeout)| is_due(leased, timeout));
        }
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
            self.interrupt_again(index, why, desk);
            return;
        }
        // One of the job's own verbs may have learned it sooner.
        let why = if job.is_lost() { Interruption::LeaseLost } else { why };
        run.interrupted = Some(Instant::now());
        let started = Some(run.started);
        let (executor, number) = (Arc::clone(&run.executor), run.number);
        let decided = run.decided.take().filter(|_| why != Interruption::LeaseLost && !job.is_settled());
        run.kept = decided.as_ref().map(|decided| decided.next);
        let was_settled = run.kept.is_some() || job.is_settled();
        self.runs.cut_short |= why == Interruption::Stopped && !was_settled;
        let mut is_last = false;
        match decided {
            Some(decided) if why == Interruption::TimedOut && decided.is_unheard() => run.decided = Some(decided),
            Some(decided) => _ = self.note_decided(lane, &job, *decided, started),
            None => {}
        }
        match why {
            _ if was_settled => {}
            Interruption::TimedOut => {
                let error = timeout_error(desk.timeout_of(&job).unwrap_or_default());
                let next = self.note(lane, &job, &failure(&job, &error), started);
                is_last = next.is_ok_and(Next::is_last);
            }
            Interruption::Stopped => {
                let _ = self.note(lane, &job, &give_back(&job), started);
            }
            Interruption::LeaseLost => self.report.lost += 1,
        }
        executor.interrupt(number, why);
        let (job, executor) = (AboutJob::of(&job), executor.tag);
        self.report(WorkerEvent::Interrupted { job, executor, run: number, why, was_settled, is_last }, desk);
        if self.pulls.is_some() {
            // Nobody is asked to end it.
            self.end_run(index, Instant::now());
        }
    }
}

impl State {
    /// Of a run whose last failure is held back while its hooks are called.
    fn interrupt_again(&mut self, index: usize, why: Interruption, desk: &Desk) {
        let Some(leased) = self.jobs.leased[index].as_mut().filter(|leased| !leased.is_interrupted()) else { return };
        let (job, lane) = (Arc::clone(&leased.job), leased.lane);
        let Some(run) = &mut leased.run else { return };
        let started = Some(run.started);
        match why {
            Interruption::TimedOut => {}
            Interruption::LeaseLost => {
                (run.decided, run.kept) = (None, None);
                self.report.lost += 1;
                self.report(WorkerEvent::LeaseLost { job: AboutJob::of(&job) }, desk);
            }
            Interruption::Stopped => {
                if let Some(decided) = run.decided.take() {
                    self.note_decided(lane, &job, *decided, started);
                }
            }
        }
    }
}

/// Is that still when this run must end?
fn is_due(leased: &[Option<Leased>], (at, index, number): (Instant, usize, u64)) -> bool {
    let run = leased[index].as_ref().and_then(|leased| leased.run.as_ref());
    run.is_some_and(|run| run.number == number && run.ends_at == Some(at))
}

pub(super) fn is_running(leased: &[Option<Leased>], index: usize, number: u64) -> bool {
    leased[index].as_ref().and_then(|leased| leased.run.as_ref()).is_some_and(|run| run.number == number)
}
