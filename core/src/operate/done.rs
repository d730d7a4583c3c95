//! What the earlier requests of a call have done, for the error of a later one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::value::error::Error;

/// How many jobs it is done to.
#[derive(Debug, Default)]
pub(super) struct Done(AtomicU64);

impl Done {
    pub(super) fn add(&self, jobs: u64) {
        self.0.fetch_add(jobs, Ordering::Relaxed);
    }

    pub(super) fn jobs(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes all steps. An error says how many jobs were, such as, removed before it.
    pub(super) async fn all<T>(&self, steps: impl Future<Output = Result<T, Error>>, done: &str) -> Result<T, Error> {
        steps.await.map_err(|error| match self.jobs() {
            0 => error,
            jobs => error.after(jobs, done),
        })
    }
}
