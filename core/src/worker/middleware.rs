//! Code that runs around every handler.

use super::failure::Failure;
use crate::format::envelope::Envelope;
use crate::queue::Job;

/// Hooks around the runs of a worker. All do nothing by default.
///
/// The order is the same in every language. `before` hooks run in the order in which they were added; the handler; then, in
/// the opposite order, `after` hooks if it returned `Ok`, also if it acked the job itself. Otherwise: `on_failure` hooks,
/// then the decision (retry or `failed`), then `on_failed` hooks if it is `failed`. A `before` that returns a failure ends
/// the run as if the handler had failed; the handler and later `before` hooks do not run. An interrupted run (timeout, lost
/// lease, end of the grace) calls neither `after` nor `on_failure`, because its job is already settled. Nor does a run whose
/// handler released or failed the job itself.
///
/// `on_failed` is called for every job that enters `failed`, for any reason: at least once, and usually once. For a job
/// whose worker died, that timed out, or that was failed by the verb `fail`, any worker of the queue calls it within
/// seconds, on a thread of its own beside its runs: give all workers of a queue the same hooks. The job is then as in its last run, but
/// its lease is over.
pub trait Middleware: Send + Sync {
    /// The handler is about to run.
    fn before(&self, job: &Job) -> Result<(), Failure> {
        let _ = job;
        Ok(())
    }

    /// The handler returned `Ok`; the job is about to be acked, unless the handler did that.
    fn after(&self, job: &Job) {
        let _ = job;
    }

    /// The run failed. The hook may change the decision about the job (`failure`), and the job itself before it is stored:
    /// its data, attempts, retries allowed and error in `changed` (not its id, key or priority).
    fn on_failure(&self, job: &Job, failure: &mut Failure, changed: &mut Envelope) {
        let _ = (job, failure, changed);
    }

    /// The job has no retries left, or failed for good: it is about to go to `failed`, or is there already.
    fn on_failed(&self, job: &Job, error: &str) {
        let _ = (job, error);
    }
}
