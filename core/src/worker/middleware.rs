//! Code that runs around every handler.

use super::handler::Failure;
use crate::envelope::Envelope;
use crate::job::Job;

/// Hooks around the runs of a worker. All do nothing by default.
///
/// The order is the same in every language. `before` hooks run in the order in which they were added; the handler; then, in
/// the opposite order, `after` hooks if it worked, also if it acked the job itself. If it did not: `on_failure` hooks, then the
/// decision (retry or `failed`), then `on_failed` hooks if it was `failed`. A `before` that gives a failure ends the run as if
/// the handler had failed; the handler and the `before` hooks behind it do not run. A run that was interrupted (timeout, lost
/// lease, end of the grace) calls neither `after` nor `on_failure`: the job is settled by then. Nor does one whose handler gave the
/// job back or failed it with the job's own verbs.
///
/// `on_failed` is called for every job that enters `failed`, whatever sent it there: at least once, and as a rule once. For those
/// whose worker died, whose time was over or that were failed with their own verbs it is called within seconds, by any worker of
/// the queue, beside its runs: give all workers of a queue the same hooks. The job is then as its last run had it, but that nobody
/// holds its lease.
pub trait Middleware: Send + Sync {
    /// The handler is about to run.
    fn before(&self, job: &Job) -> Result<(), Failure> {
        let _ = job;
        Ok(())
    }

    /// The handler worked; the job is about to be acked, if it was not by the handler.
    fn after(&self, job: &Job) {
        let _ = job;
    }

    /// The run failed. The hook may change what becomes of the job (`failure`), and the job itself before it is stored: its
    /// data, attempts, retries allowed and error in `changed` (not its id, key or priority).
    fn on_failure(&self, job: &Job, failure: &mut Failure, changed: &mut Envelope) {
        let _ = (job, failure, changed);
    }

    /// The job has no retries left, or was told to fail now: it is about to go to `failed`, or is there already.
    fn on_failed(&self, job: &Job, error: &str) {
        let _ = (job, error);
    }
}
