//! Reserved jobs on their way to the event loop.

use duly::blocking::process;
use duly::runtime::background;
use duly::{Job, Outcome};
use pyo3::prelude::*;

use super::job::AsyncJob;

/// Jobs that nobody has yet: if the asyncio future was cancelled meanwhile, or its loop is gone, they are given back.
pub(super) struct Reserved {
    jobs: Vec<Job>,
    /// A forked child drops its copy of what its parent will deliver.
    of_process: u32,
}

impl Reserved {
    pub(super) fn new(jobs: Vec<Job>) -> Self {
        Self { jobs, of_process: process::id() }
    }

    pub(super) fn claim(mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.of_process == process::id() {
            give_back(std::mem::take(&mut self.jobs));
        }
    }
}

/// Gives back jobs that reached the event loop when who awaited them had been cancelled; what was settled meanwhile is left alone.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes it")]
pub(crate) fn _give_back(jobs: Vec<PyRef<'_, AsyncJob>>) {
    let of_consumer = |job: &&PyRef<'_, AsyncJob>| job.as_super().delivery().is_some();
    for delivery in jobs.iter().filter_map(|job| job.as_super().delivery()) {
        // What it says of one that is settled is refused.
        let _ = delivery.settle(Outcome::GIVEN_BACK, "", None);
    }
    let jobs = jobs.iter().filter(|job| !of_consumer(job)).map(|job| job.as_super().job().clone());
    give_back(jobs.filter(|job| !job.is_settled()).collect());
}

fn give_back(jobs: Vec<Job>) {
    if jobs.is_empty() {
        return;
    }
    // If this fails, the end of their leases gives them back.
    if let Ok(runtime) = background() {
        runtime.spawn(async move { Job::give_back(&jobs).await });
    }
}
