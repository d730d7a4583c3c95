//! The engine of a worker for languages whose handlers run in threads or in the process itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Client, Interrupt, Job, Queue};
use crate::format::envelope::Envelope;
use crate::queue::{Decided, Settlement};
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::retry::{Next, Outcome};
use crate::value::time::LONGEST_WAIT;
use crate::worker::{self, Ended, FailedJob, Interruption, RunOutcome, WorkerEvent, WorkerReport, WorkerSettings};

/// How often a waiting call asks whether it was interrupted.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// See [`worker::Engine`]. Its own thread fetches, renews and settles; the caller's threads run the handlers.
///
/// ```no_run
/// use std::time::Duration;
/// use duly::blocking::{Client, Engine, NextRun, Uninterrupted};
/// use duly::worker::{Ended, WorkerSettings};
///
/// let client = Client::connect("redis://127.0.0.1:6379")?;
/// let engine = Engine::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)]))?;
/// let executor = engine.executor();
/// while let NextRun::Run(run) = executor.next(Duration::from_secs(1), &mut Uninterrupted)? {
///     println!("running {}", run.job().reserved().id());
///     executor.finish(&run, Ended::DONE)?;
/// }
/// engine.stop();
/// # Ok::<(), duly::Error>(())
/// ```
pub struct Engine {
    engine: worker::Engine,
    queues: Arc<[Queue]>,
}

/// See [`worker::Executor`]: one thread's way to the engine.
pub struct Executor {
    executor: worker::Executor,
    queues: Arc<[Queue]>,
}

/// One run: the job, with verbs of its own.
pub struct Run {
    of_engine: worker::Run,
    job: Job,
    outcome: RunOutcome,
}

/// The answer to a thread that waits for a run.
pub enum NextRun {
    /// A job to run.
    Run(Run),
    /// None within the wait.
    None,
    /// The worker stops, or belongs to the process that forked this one: there will be none.
    Over,
}

impl Engine {
    /// See [`worker::Engine::start`]. The process must not fork while the engine runs, or the child must leave it alone.
    pub fn start(client: &Client, settings: WorkerSettings) -> Result<Self, Error> {
        let queues = settings.queues.iter().map(|(name, _)| client.queue_or_part(name)).collect::<Result<_, _>>()?;
        Ok(Self { engine: worker::Engine::start(&*client.inner()?, settings)?, queues })
    }

    /// Would these settings do? Starts nothing. Errors: `InvalidArgument`.
    pub fn check(client: &Client, settings: &WorkerSettings) -> Result<(), Error> {
        settings.check(&*client.inner()?)
    }

    /// The queues that it serves.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// A new executor; one for each thread that runs handlers.
    pub fn executor(&self) -> Executor {
        Executor { executor: self.engine.executor(), queues: Arc::clone(&self.queues) }
    }

    /// See [`worker::Engine::stop`].
    pub fn stop(&self) {
        self.engine.stop();
    }

    /// See [`worker::Engine::stop_to_exit`].
    pub fn stop_to_exit(&self) {
        self.engine.stop_to_exit();
    }

    /// See [`worker::Engine::retire`].
    pub fn retire(&self) {
        self.engine.retire();
    }

    /// Was it asked to stop?
    pub fn is_stopping(&self) -> bool {
        self.engine.is_stopping()
    }

    /// Waits until the engine has ended; nothing when it has not within the wait.
    ///
    /// Errors: that with which it ended.
    pub fn ended<I: Interrupt>(&self, wait: Duration, interrupt: &mut I) -> Result<Option<WorkerReport>, I::Error> {
        let report = sliced(wait, interrupt, |slice| self.engine.ended_within(slice))?;
        report.transpose().map_err(I::Error::from)
    }

    /// The next event; none within the wait, or when the engine has ended.
    pub fn event<I: Interrupt>(&self, wait: Duration, interrupt: &mut I) -> Result<Option<WorkerEvent>, I::Error> {
        let event = sliced(wait, interrupt, |slice| {
            // Asked first: what happened before the end must not be missed.
            let over = self.engine.is_over();
            match self.engine.event_within(if over { Duration::ZERO } else { slice }) {
                None if over => Some(None),
                event => event.map(Some),
            }
        })?;
        Ok(event.flatten())
    }

    /// See [`worker::Engine::may_call_hooks`].
    pub fn may_call_hooks(&self, failed: &FailedJob) -> bool {
        self.engine.may_call_hooks(failed)
    }

    /// See [`worker::Engine::heard`].
    pub fn heard(&self, failed: &FailedJob) -> bool {
        self.engine.heard(failed)
    }

    /// See [`worker::Engine::leave_hooks`].
    pub fn leave_hooks(&self, failed: &FailedJob) {
        self.engine.leave_hooks(failed);
    }

    /// See [`worker::Engine::leave_unread`].
    pub fn leave_unread(&self, event: &WorkerEvent) {
        self.engine.leave_unread(event);
    }

    /// A job that [`WorkerEvent::Failed`] reported, with the verbs of a thread.
    pub fn failed_job(&self, failed: &FailedJob) -> Option<Job> {
        let queue = self.queues.iter().find(|queue| queue.name() == failed.job.queue().name())?;
        Some(Job { job: Arc::clone(&failed.job), queue: queue.clone() })
    }

    /// See [`worker::Engine::unread_for`].
    pub fn unread_for(&self) -> Duration {
        self.engine.unread_for()
    }

    /// See [`worker::Engine::overdue_for`].
    pub fn overdue_for(&self) -> Duration {
        self.engine.overdue_for()
    }

    /// See [`worker::Engine::overdue`].
    pub fn overdue(&self) -> Vec<worker::AboutJob> {
        self.engine.overdue()
    }

    /// See [`worker::Engine::decided`].
    pub fn decided(&self) -> Vec<worker::AboutJob> {
        self.engine.decided()
    }

    /// See [`worker::Engine::running`].
    pub fn running(&self) -> Vec<worker::AboutJob> {
        self.engine.running()
    }

    /// See [`worker::Engine::in_hooks`].
    pub fn in_hooks(&self) -> Vec<worker::AboutJob> {
        self.engine.in_hooks()
    }

    /// See [`worker::Engine::was_cut_short`].
    pub fn was_cut_short(&self) -> bool {
        self.engine.was_cut_short()
    }

    /// Has it ended?
    pub fn is_over(&self) -> bool {
        self.engine.is_over()
    }

    /// Its work so far.
    pub fn report(&self) -> WorkerReport {
        self.engine.report()
    }
}

impl Executor {
    /// The next run, waited for.
    pub fn next<I: Interrupt>(&self, wait: Duration, interrupt: &mut I) -> Result<NextRun, I::Error> {
        let next = sliced(wait, interrupt, |slice| match self.executor.next_within(slice) {
            worker::NextRun::None => None,
            worker::NextRun::Over => Some(NextRun::Over),
            worker::NextRun::Run(run) => {
                let queue = self.queues.iter().find(|queue| queue.name() == run.job.queue().name());
                // A job comes from one of the queues that the engine was started with.
                Some(queue.map_or(NextRun::Over, |queue| {
                    let job = Job { job: Arc::clone(&run.job), queue: queue.clone() };
                    NextRun::Run(Run { of_engine: run, job, outcome: RunOutcome::default() })
                }))
            }
        })?;
        Ok(next.unwrap_or(NextRun::None))
    }

    /// See [`worker::Executor::finish`]: no I/O.
    pub fn finish(&self, run: &Run, ended: Ended) -> Result<Option<Next>, Error> {
        self.executor.finish(&run.of_engine, ended)
    }

    /// Notes what is to become of the job, which a failure hook may have changed, and gives what that comes to; [`Executor::end`]
    /// sends it.
    ///
    /// Errors: `LeaseLost` when that is decided already, also by an interruption; `InvalidArgument` and `TooLarge` for a change
    /// that cannot be stored.
    pub fn note(&self, run: &Run, outcome: Outcome, error: String, changed: Option<Envelope>) -> Result<Next, Error> {
        let was_interrupted = self.was_interrupted(run).is_some();
        let next = run.outcome.note(run.job.reserved(), was_interrupted, outcome, error, changed)?;
        if !self.decide(run) {
            // Interrupted just now: it says so.
            return run.outcome.note(run.job.reserved(), true, outcome, String::new(), None);
        }
        Ok(next)
    }

    /// Notes that the job is done, and what it gives. Errors: as of [`Executor::note`].
    pub fn note_done(&self, run: &Run, result: Option<Data>) -> Result<(), Error> {
        run.outcome.note_done(run.job.reserved(), self.was_interrupted(run).is_some(), result)?;
        if self.decide(run) { Ok(()) } else { run.outcome.note_done(run.job.reserved(), true, None) }
    }

    /// Handler or hooks go on, but what becomes of the job is known: what was noted, or else that it is done. That counts also if the run
    /// is interrupted now; false if it was interrupted before.
    pub fn decide(&self, run: &Run) -> bool {
        let job = run.job.reserved();
        let decided = run.outcome.decided(job).or_else(|| Decided::of(&Settlement::done(job)).ok());
        decided.is_none_or(|decided| self.executor.decide(&run.of_engine, decided))
    }

    /// Notes what the handler gave, if nothing was noted before.
    pub fn keep(&self, run: &Run, result: Option<Data>) {
        run.outcome.keep(result);
    }

    /// The outcome that was noted, unless that came to nothing because the run was interrupted.
    pub fn said(&self, run: &Run) -> Option<Outcome> {
        run.outcome.said(|| self.was_interrupted(run).is_some())
    }

    /// Ends the run with what was noted, or else as this says: see [`worker::Executor::finish`]. `heard`: should the job have
    /// failed for good, its hooks were called.
    pub fn end(&self, run: &Run, heard: bool, otherwise: impl FnOnce() -> Ended) -> Result<Option<Next>, Error> {
        let ended = run.outcome.close(|| self.was_interrupted(run).is_some()).unwrap_or_else(otherwise);
        if heard {
            self.executor.finish(&run.of_engine, ended)
        } else {
            self.executor.finish_unheard(&run.of_engine, ended)
        }
    }

    /// Was this run interrupted?
    pub fn was_interrupted(&self, run: &Run) -> Option<Interruption> {
        self.executor.was_interrupted(&run.of_engine)
    }

    /// Was the run of this number interrupted, if it is the current one?
    pub fn interruption_of(&self, run: u64) -> Option<Interruption> {
        self.executor.interruption_of(run)
    }

    /// By which events name it.
    pub fn number(&self) -> u64 {
        self.executor.number()
    }
}

impl Run {
    /// The job as a log names it.
    pub fn about(&self) -> worker::AboutJob {
        worker::AboutJob::of(self.job.reserved())
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// By which events name it.
    pub fn number(&self) -> u64 {
        self.of_engine.number
    }
}

/// Waits in slices, between which the caller may be interrupted. What is there is given without asking.
pub(super) fn sliced<T, I: Interrupt>(
    wait: Duration,
    interrupt: &mut I,
    mut look: impl FnMut(Duration) -> Option<T>,
) -> Result<Option<T>, I::Error> {
    let until = Instant::now() + wait.min(LONGEST_WAIT);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if let Some(found) = look(left.min(CHECK_EVERY)) {
            return Ok(Some(found));
        }
        if left.is_zero() {
            return Ok(None);
        }
        interrupt.check()?;
    }
}
