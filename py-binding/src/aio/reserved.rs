//! Reserved jobs on their way to the event loop.

use duly::Job;
use duly::blocking::process;
use duly::runtime::background;

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
        let jobs = std::mem::take(&mut self.jobs);
        if jobs.is_empty() || self.of_process != process::id() {
            return;
        }
        // If this fails, the end of their leases gives them back.
        if let Ok(runtime) = background() {
            runtime.spawn(async move { Job::give_back(&jobs).await });
        }
    }
}
