//! What a worker of a Rust program logs of a run; never the job's data.

use super::event::AboutJob;
use super::failure::{Failure, LogErrors, Origin};
use crate::queue::Job;
use crate::value::retry::Next;

/// Why a run failed, as far as the log says it.
pub(super) struct Why {
    log_errors: LogErrors,
    origin: Origin,
    text: Option<String>,
}

impl Why {
    pub(super) fn new(log_errors: LogErrors) -> Self {
        Self { log_errors, origin: Origin::default(), text: None }
    }

    pub(super) fn note(&mut self, failure: &Failure) {
        self.origin = failure.origin.clone();
        self.text = (self.log_errors == LogErrors::Full).then(|| failure.error.clone());
    }

    pub(super) fn kind(&self) -> Option<&'static str> {
        self.origin.kind()
    }

    pub(super) fn location(&self) -> Option<&str> {
        self.origin.location()
    }

    /// None of the handler's, unless it was asked for.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref().or(self.origin.words())
    }
}

/// What became of a run.
pub(super) fn log_outcome(job: &Job, next: Option<Next>, why: &Why) {
    let about = || AboutJob::of(job);
    let (error_type, location, error) = (why.kind(), why.location(), why.text());
    match next {
        Some(Next::Ack) => tracing::debug!("{} is done", about()),
        Some(Next::RetryAfter { after, .. }) => {
            tracing::warn!(retry_after_s = %after, error_type, location, error, "{} failed; it runs again in {after} s", about());
        }
        Some(Next::Failed { attempts }) => {
            let to_do = "find the cause, then requeue or cancel it";
            tracing::error!(attempts, error_type, location, error, "{} failed for good; {to_do}", about());
        }
        Some(Next::ReleaseAfter(after)) => {
            tracing::info!(after_s = %after, "{} was released by its handler; it runs again in {after} s", about());
        }
        None => {}
    }
}
