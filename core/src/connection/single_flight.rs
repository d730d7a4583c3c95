//! Many ask for the same thing at once, one does it, all learn how it went.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::trouble::Trouble;

/// When a shared connection breaks, every caller on it notices at once. Without this they would all dial, and the
/// server that is just coming back would be met by a stampede.
#[derive(Default)]
pub(super) struct SingleFlight {
    finished: AtomicU64,
    last_failure: Mutex<Option<Trouble>>,
}

impl SingleFlight {
    /// Gives what `ready` finds; else does `work`, or waits for whoever is already doing it and shares the failure.
    /// A caller that is dropped half-way leaves the work to the next one in the queue.
    pub(super) async fn run<T>(
        &self,
        ready: impl Fn() -> Option<T>,
        work: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let finished_before = self.finished.load(Ordering::Acquire);
        let mut last_failure = self.last_failure.lock().await;
        if let Some(found) = ready() {
            return Ok(found);
        }
        if self.finished.load(Ordering::Acquire) != finished_before
            && let Some(trouble) = &*last_failure
        {
            return Err(trouble.clone());
        }
        let result = work.await;
        *last_failure = result.as_ref().err().cloned();
        self.finished.fetch_add(1, Ordering::Release);
        result
    }
}
