//! Runs one handler at a time for a worker: a thread, a task, or a whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::desk::{Desk, Run, Taken};
use super::event::Interruption;
use crate::format::envelope::Envelope;
use crate::process::id::id;
use crate::queue::Decided;
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::retry::{Next, Outcome};

/// Takes runs from the worker's engine, one at a time, and says how they ended.
pub struct Executor {
    pub(super) desk: Arc<Desk>,
    pub(super) shared: Arc<ExecutorShared>,
}

/// What the engine knows of an executor.
pub(super) struct ExecutorShared {
    pub(super) tag: u64,
    pub(super) pid: u32,
    /// The number of the interrupted run, whether it was the job's last, and why, packed; 0 for none.
    interrupted: AtomicU64,
    interruption: Notify,
}

/// The answer to a thread that waits for a run.
#[derive(Debug)]
pub enum NextRun {
    /// A job to run.
    Run(Run),
    /// None within the wait; or there is an event to read first, if hooks are called between runs.
    None,
    /// The worker stops: there will be none.
    Over,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub enum Ended {
    /// There is nothing to settle: the run was interrupted, or its handler acked, failed or released the job itself.
    SettledByHandler,
    /// This is to be settled.
    Outcome {
        /// How the run ended.
        outcome: Outcome,
        /// The error text, empty when there is none.
        error: String,
        /// The envelope as a failure hook changed it.
        rewritten: Option<Box<Envelope>>,
        /// The result of a job that is done; see [`Job::result`](crate::Job::result).
        result: Option<Data>,
    },
}

impl Ended {
    /// The job is done.
    pub const DONE: Self = Self::done(None);

    /// The job is done, and gives this.
    pub const fn done(result: Option<Data>) -> Self {
        Self::Outcome { outcome: Outcome::Done, error: String::new(), rewritten: None, result }
    }

    /// The job failed; its policy decides.
    pub fn failed(error: impl Into<String>) -> Self {
        Self::Outcome { outcome: Outcome::FAILURE, error: error.into(), rewritten: None, result: None }
    }
}

impl ExecutorShared {
    pub(super) fn new(tag: u64) -> Self {
        Self { tag, pid: id(), interrupted: AtomicU64::new(0), interruption: Notify::new() }
    }

    pub(super) fn interrupt(&self, run: u64, why: Interruption) {
        let why = match why {
            Interruption::TimedOut => 1,
            Interruption::LeaseLost => 2,
            Interruption::Stopped => 3,
        };
        self.interrupted.store(run << 2 | why, Ordering::Release);
        self.interruption.notify_one();
    }

    fn interrupted(&self, run: u64) -> Option<Interruption> {
        let packed = self.interrupted.load(Ordering::Acquire);
        if packed >> 2 != run {
            return None;
        }
        match packed & 3 {
            1 => Some(Interruption::TimedOut),
            2 => Some(Interruption::LeaseLost),
            3 => Some(Interruption::Stopped),
            _ => None,
        }
    }
}

impl Executor {
    /// The next run; none when the worker stops.
    pub async fn next(&self) -> Option<Run> {
        self.desk.take_async(&self.shared).await
    }

    /// The next run, waited for by this thread.
    pub fn next_within(&self, wait: Duration) -> NextRun {
        match self.desk.take_within(&self.shared, wait) {
            Taken::Run(run) => NextRun::Run(run),
            Taken::None => NextRun::None,
            Taken::Over => NextRun::Over,
        }
    }

    /// Notes how the run ended, with its hooks called, without I/O: the engine sends it with its next call, at once when it is idle.
    ///
    /// Gives what becomes of the job; nothing, whatever is said here, when the handler settled it, or the run was interrupted before that
    /// was decided.
    ///
    /// Errors: `InvalidArgument` for a rewritten envelope that is none, `TooLarge` for a result; the run then counts as a plain
    /// failure.
    pub fn finish(&self, run: &Run, ended: Ended) -> Result<Option<Next>, Error> {
        self.desk.finish(run, ended, true)
    }

    /// The same where no hook was called, because the handler said so itself or its language gave up: if the job fails for good,
    /// [`WorkerEvent::Failed`](super::WorkerEvent::Failed) is then an event of some worker of the queue.
    pub fn finish_unheard(&self, run: &Run, ended: Ended) -> Result<Option<Next>, Error> {
        self.desk.finish(run, ended, false)
    }

    /// Notes what the run comes to while its hooks are still to be called, without I/O: if it is interrupted meanwhile, this is sent, as
    /// by [`Self::finish_unheard`]; a last failure whose timeout ends, when its hooks have. [`Self::finish`] is to be called all the same.
    /// False if the run was interrupted before, and its hooks are another worker's.
    pub(crate) fn decide(&self, run: &Run, decided: Decided) -> bool {
        // In a forked child the desk's lock may be held for ever.
        self.shared.pid != id() || self.desk.decide(run, decided)
    }

    /// By which events name it.
    pub fn number(&self) -> u64 {
        self.shared.tag
    }

    /// Was this run interrupted, or has a verb of its job learned that the lease is lost?
    pub fn was_interrupted(&self, run: &Run) -> Option<Interruption> {
        let found_lost = || run.job.is_lost().then_some(Interruption::LeaseLost);
        self.shared.interrupted(run.number).or_else(found_lost)
    }

    /// Was the run of this number interrupted, if it is the current one?
    pub fn interruption_of(&self, run: u64) -> Option<Interruption> {
        self.shared.interrupted(run)
    }

    /// Ready when the run must end.
    pub async fn interrupted(&self, run: &Run) -> Interruption {
        loop {
            let interruption = self.shared.interruption.notified();
            if let Some(why) = self.was_interrupted(run) {
                return why;
            }
            interruption.await;
        }
    }
}
