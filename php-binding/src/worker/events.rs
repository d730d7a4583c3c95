//! What PHP hears of the worker: its events, and with them the failed jobs whose hooks PHP calls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use duly::blocking::Engine;
use duly::worker::{AboutJob, FailedJob, WorkerEvent};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::types::Zval;

use crate::job::Job;

/// Jobs that `events` gave, and whose hooks have not run yet.
#[derive(Default)]
pub(super) struct FailedJobs(RefCell<Vec<Arc<FailedJob>>>);

impl FailedJobs {
    /// An event as PHP gets it. The failed job in it is kept until its hooks were called.
    pub(super) fn array_of(
        &self,
        event: &WorkerEvent,
        engine: &Engine,
    ) -> ext_php_rs::error::Result<BTreeMap<&'static str, Zval>> {
        let mut fields = fields_of(event)?;
        if let WorkerEvent::Failed { failed: Some(failed), .. } = event
            && let Some(job) = engine.failed_job(failed)
        {
            fields.insert("failed", Job::new(job).into_zval(false)?);
            fields.insert("error", failed.error().into_zval(false)?);
            self.0.borrow_mut().push(Arc::clone(failed));
        }
        Ok(fields)
    }

    /// See `WorkerEngine::heard`.
    pub(super) fn heard(&self, job: &Job, engine: &Engine) -> bool {
        let mut failed = self.0.borrow_mut();
        let index = failed.iter().position(|failed| is_of(failed, job));
        index.is_none_or(|index| engine.heard(&failed.swap_remove(index)))
    }

    /// See `WorkerEngine::may_call_hooks`.
    pub(super) fn may_call_hooks(&self, job: &Job, engine: &Engine) -> bool {
        let mut failed = self.0.borrow_mut();
        let Some(index) = failed.iter().position(|failed| is_of(failed, job)) else { return false };
        let may_call = engine.may_call_hooks(&failed[index]);
        if !may_call {
            failed.swap_remove(index);
        }
        may_call
    }
}

/// What a log says of an event.
pub fn fields_of(event: &WorkerEvent) -> ext_php_rs::error::Result<BTreeMap<&'static str, Zval>> {
    let mut fields = BTreeMap::from([
        ("level", event.level().as_str().into_zval(false)?),
        ("text", event.to_string().into_zval(false)?),
    ]);
    if let Some(queue) = event.queue() {
        fields.insert("queue", queue.into_zval(false)?);
    }
    if let Some(AboutJob { id, name, attempt, .. }) = event.job() {
        fields.insert("id", id.as_str().into_zval(false)?);
        fields.insert("name", name.as_deref().into_zval(false)?);
        fields.insert("attempt", attempt.into_zval(false)?);
    }
    Ok(fields)
}

/// The same job in memory: ids that are not UTF-8 may read the same, and a job that has failed twice has one id.
fn is_of(failed: &FailedJob, job: &Job) -> bool {
    std::ptr::eq(&raw const *failed.job, job.job.reserved())
}
