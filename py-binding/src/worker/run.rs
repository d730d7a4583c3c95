//! A job while a worker runs it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duly::worker::{Ended, Interruption};
use duly::{Data, Envelope, Error, ErrorKind, Next, Outcome, blocking};

/// What `job.ack()`, `job.fail()` and `job.release()` say in a handler is noted, and told when the handler has ended: one
/// lease, renewed as long as the handler runs, and one outcome.
pub(crate) struct InRun {
    run: blocking::Run,
    executor: Arc<blocking::Executor>,
    noted: Mutex<Noted>,
}

enum Noted {
    Nothing,
    Ended(Ended),
    /// The engine was told; whoever still holds the job has nothing to say.
    Over,
}

impl InRun {
    pub(super) fn new(run: blocking::Run, executor: Arc<blocking::Executor>) -> Self {
        Self { run, executor, noted: Mutex::new(Noted::Nothing) }
    }

    pub(crate) fn job(&self) -> &blocking::Job {
        self.run.job()
    }

    pub(super) fn run(&self) -> &blocking::Run {
        &self.run
    }

    pub(super) fn was_interrupted(&self) -> Option<Interruption> {
        self.executor.was_interrupted(&self.run)
    }

    /// Notes what is to become of the job. Errors: `LeaseLost` when that is decided already, `InvalidArgument` and `TooLarge`.
    pub(crate) fn note(&self, outcome: Outcome, error: String, mut rewritten: Option<Envelope>) -> Result<Next, Error> {
        let operation = match outcome {
            Outcome::Done => "ack",
            Outcome::Release { .. } => "release",
            _ => "fail",
        };
        let job = self.job().reserved();
        let about = |error: Error| error.during(operation).in_queue(job.queue().name()).of_job(job.id());
        let mut noted = self.lock();
        if !matches!(*noted, Noted::Nothing) || self.was_interrupted().is_some() {
            let said =
                "it is decided already what becomes of this job: by its handler, or because its run was interrupted";
            return Err(about(Error::new(ErrorKind::LeaseLost, said)));
        }
        if let Some(changed) = &mut rewritten {
            changed.error.clone_from(&error);
        }
        let next = job.what_becomes(outcome, rewritten.as_ref()).map_err(about)?;
        *noted = Noted::Ended(Ended::Outcome { outcome, error, rewritten: rewritten.map(Box::new), result: None });
        job.note_settled(outcome);
        Ok(next)
    }

    /// Notes that the job is done, and what it gives. Errors: as `note`.
    pub(crate) fn note_done(&self, result: Option<Data>) -> Result<(), Error> {
        self.note(Outcome::Done, String::new(), None)?;
        *self.lock() = Noted::Ended(Ended::done(result));
        Ok(())
    }

    /// Is it said already what becomes of the job?
    pub(super) fn is_noted(&self) -> bool {
        !matches!(*self.lock(), Noted::Nothing)
    }

    /// Notes what the handler gave, if nothing was said before.
    pub(super) fn keep(&self, result: Option<Data>) {
        let mut noted = self.lock();
        if matches!(*noted, Noted::Nothing) {
            *noted = Noted::Ended(Ended::done(result));
        }
    }

    /// What was noted, at the end of the run.
    pub(super) fn close(&self) -> Option<Ended> {
        match std::mem::replace(&mut *self.lock(), Noted::Over) {
            Noted::Ended(ended) => Some(ended),
            Noted::Nothing | Noted::Over => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
