//! Many ask for the same thing at once, one does it, all learn how it went.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::trouble::Trouble;
use crate::value::error::{Error, ErrorKind};

/// When a shared connection breaks, every caller on it notices at once. Without this they would all dial, and the
/// server that is just coming back would be met by a stampede.
#[derive(Clone, Default)]
pub(super) struct SingleFlight(Arc<Flight>);

#[derive(Default)]
struct Flight {
    finished: AtomicU64,
    last_failure: Mutex<Option<Trouble>>,
}

impl SingleFlight {
    /// Gives what `ready` finds; else does `work`, or waits for whoever is already doing it and shares the failure.
    ///
    /// The work is a task of its own: a caller that holds its future without polling it would hold up all others.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        ready: impl Fn() -> Option<T> + Send + 'static,
        work: impl Future<Output = Result<T, Trouble>> + Send + 'static,
    ) -> Result<T, Trouble> {
        let flight = Arc::clone(&self.0);
        let task = tokio::spawn(async move { tokio::time::timeout_at(deadline, flight.run(ready, work)).await });
        if let Ok(Ok(result)) = task.await {
            return result;
        }
        Err(Trouble {
            final_when_new: false,
            ..Trouble::no_connection(Error::new(ErrorKind::Unreachable, "no connection came to be in time"))
        })
    }
}

impl Flight {
    async fn run<T>(
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
