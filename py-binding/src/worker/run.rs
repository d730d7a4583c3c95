//! A job while a worker runs it.

use std::sync::Arc;

use duly::worker::{Ended, Interruption};
use duly::{Data, Envelope, Error, Next, Outcome, blocking};

/// What `job.ack()`, `job.fail()` and `job.release()` say in a handler is noted, and sent when the handler has ended.
pub(crate) struct InRun {
    run: blocking::Run,
    executor: Arc<blocking::Executor>,
}

impl InRun {
    pub(super) fn new(run: blocking::Run, executor: Arc<blocking::Executor>) -> Self {
        Self { run, executor }
    }

    pub(crate) fn job(&self) -> &blocking::Job {
        self.run.job()
    }

    pub(super) fn number(&self) -> u64 {
        self.run.number()
    }

    pub(crate) fn was_interrupted(&self) -> Option<Interruption> {
        self.executor.was_interrupted(&self.run)
    }

    pub(crate) fn note(&self, outcome: Outcome, error: String, changed: Option<Envelope>) -> Result<Next, Error> {
        self.executor.note(&self.run, outcome, error, changed)
    }

    pub(crate) fn note_done(&self, result: Option<Data>) -> Result<(), Error> {
        self.executor.note_done(&self.run, result)
    }

    /// What the handler itself has said.
    pub(crate) fn said(&self) -> Option<Outcome> {
        self.executor.said(&self.run)
    }

    /// Notes what the handler gave.
    pub(super) fn keep(&self, result: Option<Data>) {
        self.executor.keep(&self.run, result);
    }

    /// Hooks follow: see [`blocking::Executor::decide`].
    pub(super) fn decide(&self) {
        self.executor.decide(&self.run);
    }

    pub(super) fn end(&self, heard: bool, otherwise: impl FnOnce() -> Ended) -> Result<Option<Next>, Error> {
        self.executor.end(&self.run, heard, otherwise)
    }
}
