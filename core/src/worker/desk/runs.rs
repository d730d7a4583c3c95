//! The executors' questions to the desk: the next run, and to note how it ended.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::between_runs::Hearing;
use super::outcomes::failure;
use super::starts::{Start, Turn};
use super::tallies::due_since;
use super::timeouts::is_running;
use super::{Desk, Leased, Phase, Running, State};
use crate::queue::{Decided, Job, Settlement};
use crate::value::error::Error;
use crate::value::retry::{Next, Outcome};
use crate::value::time::LONGEST_WAIT;
use crate::worker::event::{AboutJob, WorkerEvent};
use crate::worker::executor::{Ended, ExecutorShared};

/// One run for an executor.
#[derive(Debug)]
pub struct Run {
    /// The job.
    pub job: Arc<Job>,
    /// Counts the runs of this worker.
    pub number: u64,
    pub(super) index: usize,
}

impl Run {
    pub(in crate::worker) fn again(&self) -> Self {
        Self { job: Arc::clone(&self.job), ..*self }
    }
}

/// The answer to an executor that asks for a run.
pub(in crate::worker) enum Taken {
    Run(Run),
    /// There is none just now.
    None,
    /// There will be none.
    Over,
}

impl Desk {
    /// The next run; a task that finds none is counted as waiting under the same lock, so that no job comes in between.
    fn take_or_wait(&self, executor: &Arc<ExecutorShared>) -> (Taken, Hearing) {
        let mut state = self.lock();
        let (taken, hearing) = self.take(&mut state, executor);
        match taken {
            Taken::Run(_) => self.refill(state),
            Taken::None => state.waiting.tasks += 1,
            Taken::Over => {}
        }
        (taken, hearing)
    }

    fn take(&self, state: &mut State, executor: &Arc<ExecutorShared>) -> (Taken, Hearing) {
        if state.phase != Phase::Working {
            return (Taken::Over, Hearing::Over);
        }
        let hearing = self.hears_first(state);
        if !matches!(hearing, Hearing::Over) {
            return (Taken::None, hearing);
        }
        let taken = state.take(executor, self);
        state.waits_no_more(matches!(taken, Taken::Run(_)));
        (taken, hearing)
    }

    /// Wakes the fetch loop if what an executor took leaves too little, and all if it was the last run.
    pub(super) fn refill(&self, mut state: MutexGuard<'_, State>) {
        let wake = state.wake_to_refill();
        let was_last = state.runs.left == 0;
        let timer_is_late = state.timer_is_late();
        drop(state);
        if timer_is_late {
            self.for_timer.notify_one();
        }
        if was_last {
            self.wake_all();
        }
        if wake {
            self.for_fetcher.notify_one();
        }
    }

    /// The next run, waited for by a thread.
    pub(in crate::worker) fn take_within(&self, executor: &Arc<ExecutorShared>, wait: Duration) -> Taken {
        let until = Instant::now() + wait.min(LONGEST_WAIT);
        let mut state = self.lock();
        loop {
            let (taken, hearing) = self.take(&mut state, executor);
            if !matches!(taken, Taken::None) {
                self.refill(state);
                return taken;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Taken::None;
            }
            state.waiting.threads += 1;
            let wait = hearing.at_most(left);
            state = self.for_job.threads.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting.threads -= 1;
            if matches!(hearing, Hearing::Due(_)) {
                return Taken::None;
            }
        }
    }

    /// The next run, waited for by a task.
    pub(in crate::worker) async fn take_async(&self, executor: &Arc<ExecutorShared>) -> Option<Run> {
        loop {
            // Registered before the look, so that what comes in between is not missed.
            let mut there = std::pin::pin!(self.for_job.tasks.notified());
            there.as_mut().enable();
            let (taken, hearing) = self.take_or_wait(executor);
            match taken {
                Taken::Run(run) => return Some(run),
                Taken::Over => return None,
                Taken::None => {}
            }
            match hearing {
                Hearing::Over => there.await,
                _ => _ = tokio::time::timeout(hearing.at_most(LONGEST_WAIT), there).await,
            }
            self.lock().waiting.tasks -= 1;
        }
    }

    /// Notes what a run comes to whose hooks are still to be called: if it is interrupted meanwhile, that counts. False if it was
    /// interrupted before: then another worker calls the hooks.
    pub(in crate::worker) fn decide(&self, run: &Run, decided: Decided) -> bool {
        let mut state = self.lock();
        let leased = state.jobs.leased.get_mut(run.index).and_then(Option::as_mut);
        let running = leased.and_then(|leased| leased.run.as_mut()).filter(|one| one.number == run.number);
        let Some(running) = running.filter(|running| running.interrupted.is_none()) else { return false };
        running.decided = Some(Box::new(decided));
        true
    }

    /// Notes what became of a run, for the next call, unless the job's own verbs have said that. Of an outcome that
    /// makes no sense what does is noted, and the error is given.
    pub(in crate::worker) fn finish(&self, run: &Run, ended: Ended, is_heard: bool) -> Result<Option<Next>, Error> {
        // Before the lock is taken: what a stranger wrote into a record must not hold up the other executors.
        let (decided, refused) = decide(&run.job, ended, is_heard);
        match (self.conclude(run, decided, is_heard), refused) {
            (Concluded::Noted(_), Some(refused)) => Err(refused),
            (Concluded::Noted(next), None) => Ok(Some(next)),
            (Concluded::Before(next), _) => Ok(next),
        }
    }

    /// The run has ended, and this is to become of its job.
    pub(super) fn conclude(&self, run: &Run, decided: Option<Decided>, is_heard: bool) -> Concluded {
        let (now, due_since) = (Instant::now(), due_since(&run.job));
        let mut state = self.lock();
        let is_ours = is_running(&state.jobs.leased, run.index, run.number);
        let Some(leased) = is_ours.then(|| state.end_run(run.index, now)).flatten() else {
            return Concluded::Before(None);
        };
        let started = leased.run.as_ref().map(|run| run.started);
        let run = leased.run.filter(|run| run.interrupted.is_some());
        let concluded = match decided {
            _ if leased.job.is_settled() => Concluded::Before(None),
            _ if run.is_some() => {
                Concluded::Before(run.and_then(|run| state.note_held(leased.lane, &leased.job, run, is_heard)))
            }
            _ if leased.job.is_lost() => {
                state.report.lost += 1;
                state.report(WorkerEvent::LeaseLost { job: AboutJob::of(&leased.job) }, self);
                Concluded::Before(None)
            }
            None => Concluded::Before(None),
            Some(decided) => Concluded::Noted(state.note_decided(leased.lane, &leased.job, decided, started)),
        };
        let came_to = match &concluded {
            Concluded::Noted(next) => Some(*next),
            Concluded::Before(next) => next.or_else(|| leased.job.said()),
        };
        if let (Some(started), Some(next)) = (started, came_to) {
            state.tally(leased.lane, &leased.job, now.saturating_duration_since(started), due_since, next);
        }
        // A run without an outcome of its own leaves a free executor behind: the fetch loop may be asleep for want of one.
        let has_none = matches!(concluded, Concluded::Before(None));
        let wake = if has_none { state.wake_if(true) } else { state.wake_for_outcome() };
        // Who pulls may wait for the end of a run.
        let may_start = usize::from(state.pulls.is_some());
        self.wake_executors(state, may_start);
        if wake {
            self.for_fetcher.notify_one();
        }
        concluded
    }

    pub(super) fn wake_executors(&self, mut state: MutexGuard<'_, State>, count: usize) {
        let threads = state.waiting.threads.min(count);
        let tasks = state.waiting.tasks.min(count);
        state.show_jobs();
        drop(state);
        for _ in 0..threads {
            self.for_job.threads.notify_one();
        }
        for _ in 0..tasks {
            self.for_job.tasks.notify_one();
        }
    }

    pub(super) fn wake_all(&self) {
        self.for_job.threads.notify_all();
        self.for_job.tasks.notify_waiters();
        self.for_event.threads.notify_all();
    }
}

/// What the end of a run comes to.
pub(super) enum Concluded {
    /// This was noted.
    Noted(Next),
    /// What is said at its end no longer counts; this had been decided before.
    Before(Option<Next>),
}

/// What becomes of the job after this run, if its end says anything. If that makes no sense, also the error: then the job stays as it is, or
/// else it is a plain failure.
fn decide(job: &Job, ended: Ended, is_heard: bool) -> (Option<Decided>, Option<Error>) {
    let Ended::Outcome { outcome, error, rewritten, result } = ended else { return (None, None) };
    let rewritten = rewritten.map(|changed| *changed);
    match Decided::of(&Settlement { job, outcome, error: &error, rewritten, result }) {
        Ok(decided) => (Some(if is_heard { decided.heard() } else { decided }), None),
        Err(refused) => {
            let error = if error.is_empty() { refused.to_string() } else { error };
            let plain = || Decided::of(&failure(job, &error));
            // An ack would leave `null` for who waits for the result.
            let decided = if outcome == Outcome::Done {
                plain()
            } else {
                let unchanged = Settlement { job, outcome, error: &error, rewritten: None, result: None };
                Decided::of(&unchanged).or_else(|_| plain())
            };
            (decided.ok(), Some(refused))
        }
    }
}

impl State {
    /// An interrupted run has ended: notes what was held back until now, and gives what was decided before.
    fn note_held(&mut self, lane: usize, job: &Arc<Job>, run: Running, is_heard: bool) -> Option<Next> {
        if let Some(decided) = run.decided {
            let decided = if is_heard { decided.heard() } else { *decided };
            self.note_decided(lane, job, decided, Some(run.started));
        }
        run.kept
    }

    /// It runs no longer, and another one may.
    pub(super) fn end_run(&mut self, index: usize, now: Instant) -> Option<Leased> {
        let leased = self.jobs.take_out(index)?;
        if let Some(run) = &leased.run {
            self.prefetch.learn(now - run.started);
        }
        self.runs.running -= 1;
        self.runs.last_end = Some(now);
        Some(leased)
    }

    pub(super) fn take(&mut self, executor: &Arc<ExecutorShared>, desk: &Desk) -> Taken {
        let started = Instant::now();
        self.drop_expired(started, desk);
        let Some(index) = self.next_to_start(started) else { return Taken::None };
        self.runs.last_number += 1;
        let number = self.runs.last_number;
        let Some(leased) = self.jobs.leased[index].as_mut() else { return Taken::None };
        let executor = Arc::clone(executor);
        let job = Arc::clone(&leased.job);
        let ends_at = desk.end_of(&job, started);
        leased.run = Some(Running {
            number,
            started,
            ends_at,
            asking: 0,
            is_noted: false,
            executor,
            decided: None,
            interrupted: None,
            kept: None,
        });
        self.note_end(ends_at, index, number);
        self.runs.running += 1;
        self.runs.left -= 1;
        if self.runs.left == 0 {
            // Nobody has asked for this stop: what runs may take as long as it needs, until somebody does.
            self.phase = Phase::Stopping { since: started, until: started + LONGEST_WAIT };
            self.give_back_fetched();
        }
        Taken::Run(Run { job, number, index })
    }

    /// The first job that may start, and whose lease is surely ours. While this process was frozen, or no renewal came through,
    /// another worker may have run and acked what waited here: that waits on, until a renewal says whether it is ours.
    fn next_to_start(&mut self, now: Instant) -> Option<usize> {
        let mut is_for_suspect = false;
        for (at, &index) in self.jobs.fetched.iter().enumerate() {
            let Some(leased) = self.jobs.leased[index].as_ref().filter(|leased| leased.sure_until > now) else {
                continue;
            };
            is_for_suspect = is_for_suspect || self.is_next_suspect(leased, now);
            match self.turn_of(leased, now) {
                Turn::Now if is_for_suspect && leased.start == Start::Free => {}
                Turn::Now => {
                    self.jobs.starts.waits_no_more(leased.start);
                    return self.jobs.fetched.remove(at);
                }
                Turn::Later => {}
                Turn::First => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::envelope::Envelope;
    use crate::queue::Client;
    use crate::value::data::Data;
    use crate::worker::WorkerSettings;
    use crate::worker::desk::Batch;
    use crate::worker::event::Interruption;
    use crate::worker::executor::Executor;

    #[tokio::test]
    async fn the_last_run_of_a_worker_has_a_grace_only_when_it_is_asked_to_stop() {
        let queue = Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap();
        let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        (settings.max_jobs, settings.grace) = (Some(1), Duration::ZERO);
        let desk = Arc::new(Desk::new(&settings));
        let executor = Executor { desk: Arc::clone(&desk), shared: Arc::new(ExecutorShared::new(0)) };
        let job = Job::granted(Envelope::new("a", Data::from_json("1", 10).unwrap()), 0, 16, &queue, false);
        desk.deliver(0, &Batch::default(), vec![job], &[]);
        let Taken::Run(run) = desk.take_within(&executor.shared, Duration::ZERO) else { panic!("there is none") };
        assert!(desk.is_stopping() && matches!(desk.take_within(&executor.shared, Duration::ZERO), Taken::Over));
        assert!(desk.end_overdue().is_some_and(|at| at > Instant::now() + 1000 * settings.lease));
        assert_eq!(executor.was_interrupted(&run), None, "nobody has asked it to stop");
        desk.stop(settings.grace);
        desk.end_overdue();
        assert_eq!(executor.was_interrupted(&run), Some(Interruption::Stopped));
    }
}
