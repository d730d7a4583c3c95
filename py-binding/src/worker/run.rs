//! A job while a worker runs it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duly::worker::{Ended, Interruption};
use duly::{Data, Envelope, Error, ErrorKind, Next, Outcome, blocking};

/// What `job.ack()`, `job.fail()` and `job.release()` say in a handler is noted, and sent when the handler has ended: one
/// lease, renewed as long as the handler runs, and one outcome.
pub(crate) struct InRun {
    run: blocking::Run,
    executor: Arc<blocking::Executor>,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// By the handler itself.
    said: Option<Outcome>,
    ended: Option<Ended>,
    /// The engine has it; whoever still holds the job has nothing to say.
    is_over: bool,
}

impl InRun {
    pub(super) fn new(run: blocking::Run, executor: Arc<blocking::Executor>) -> Self {
        Self { run, executor, noted: Mutex::default() }
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
        if noted.ended.is_some() || noted.is_over || self.was_interrupted().is_some() {
            let said =
                "it is decided already what becomes of this job: by its handler, or because its run was interrupted";
            return Err(about(Error::new(ErrorKind::LeaseLost, said)));
        }
        if let Some(changed) = &mut rewritten {
            changed.error.clone_from(&error);
        }
        let next = job.what_becomes(outcome, rewritten.as_ref()).map_err(about)?;
        noted.ended = Some(Ended::Outcome { outcome, error, rewritten: rewritten.map(Box::new), result: None });
        noted.said = Some(outcome);
        Ok(next)
    }

    /// Notes that the job is done, and what it gives. Errors: as `note`.
    pub(crate) fn note_done(&self, result: Option<Data>) -> Result<(), Error> {
        self.note(Outcome::Done, String::new(), None)?;
        self.lock().ended = Some(Ended::done(result));
        Ok(())
    }

    /// What the handler itself has said, unless that came to nothing because the run was interrupted.
    pub(crate) fn said(&self) -> Option<Outcome> {
        self.lock().said.filter(|_| self.was_interrupted().is_none())
    }

    /// Notes what the handler gave, if nothing was said before.
    pub(super) fn keep(&self, result: Option<Data>) {
        self.lock().ended.get_or_insert_with(|| Ended::done(result));
    }

    /// What was noted, at the end of the run.
    pub(super) fn close(&self) -> Option<Ended> {
        let said = self.said();
        let mut noted = self.lock();
        noted.said = said;
        noted.is_over = true;
        noted.ended.take()
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
