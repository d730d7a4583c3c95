//! Arguments and results of handlers of Rust programs.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::lock::{Lock, LockOptions};
use crate::value::data::Data;
use crate::value::retry::Outcome;
use crate::value::time::Millis;

/// A job with its data decoded; everything else of the reserved [`duly::Job`](crate::Job) is behind it.
#[derive(Debug, Clone)]
pub struct Job<T> {
    /// The data that the producer pushed.
    pub data: T,
    reserved: Arc<crate::queue::Job>,
}

impl<T> Deref for Job<T> {
    type Target = crate::queue::Job;

    fn deref(&self) -> &crate::queue::Job {
        &self.reserved
    }
}

impl<T> Job<T> {
    /// Takes a lock for this run. If another one holds it when the wait of the options is over, the failure gives the job back to run
    /// again after `retry_after`, not counted. [`Lock::waited`] of a later run says since when.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use duly::LockOptions;
    /// use duly::worker::{Context, Failure, Job};
    ///
    /// async fn count(job: Job<u64>, _: Context) -> Result<(), Failure> {
    ///     let lock = job.lock("stock:42", &LockOptions::new(), Duration::from_secs(5)).await?;
    ///     println!("held after {:?}", lock.waited());
    ///     Ok(lock.release().await.map(drop)?)
    /// }
    /// ```
    pub async fn lock(&self, name: &str, options: &LockOptions, retry_after: Duration) -> Result<Lock, Failure> {
        self.reserved
            .lock(name, options)
            .await?
            .map_err(|taken| Failure { error: taken.to_string(), ..Failure::release_after(retry_after) })
    }
}

/// The run, as its handler may ask about it.
#[derive(Debug, Clone)]
pub struct Context {
    worker_lease: Duration,
}

impl Context {
    pub(super) fn new(worker_lease: Duration) -> Self {
        Self { worker_lease }
    }

    /// How long the worker's leases are. They are renewed while the handler runs, up to the job's timeout.
    pub fn lease(&self) -> Duration {
        self.worker_lease
    }
}

/// Why a run failed, and what happens to its job. Any error that can be displayed becomes an ordinary failure, so `?` works
/// in handlers.
///
/// It does not implement `Display` itself, which is what lets every displayable error become one (as in `anyhow`).
#[derive(Debug, Clone)]
pub struct Failure {
    /// The outcome of the run.
    pub outcome: Outcome,
    /// The error text.
    pub error: String,
}

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { outcome: Outcome::FAILURE, error: error.to_string() }
    }
}

impl Failure {
    /// Did the run fail, or does the handler only give the job back?
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.outcome, Outcome::Retry { .. } | Outcome::FailNow)
    }

    /// Counted; the next run is after this long and not when the policy says.
    pub fn retry_after(after: Duration, error: impl Display) -> Self {
        Self { outcome: Outcome::Retry { after: Some(millis(after)), counted: true }, error: error.to_string() }
    }

    /// Not counted: what was needed is taken or not there yet. Another run after this long.
    pub fn release_after(after: Duration) -> Self {
        Self { outcome: Outcome::Release { after: millis(after) }, error: String::new() }
    }

    /// Further runs are pointless: to `failed` now, whatever retries are left.
    pub fn fail_now(error: impl Display) -> Self {
        Self { outcome: Outcome::FailNow, error: error.to_string() }
    }
}

fn millis(span: Duration) -> Millis {
    Millis::from_duration(span).unwrap_or(crate::value::time::MAX_DELAY)
}

/// Gives the job's result, if the producer wants it.
pub(super) type Running = Pin<Box<dyn Future<Output = Result<Option<Data>, Failure>> + Send>>;
pub(super) type Handler = Arc<dyn Fn(Arc<crate::queue::Job>, Context) -> Running + Send + Sync>;

pub(super) fn boxed<T, F, R, O, E>(handler: F) -> Handler
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Job<T>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, E>> + Send + 'static,
    O: Serialize + Send,
    E: Into<Failure>,
{
    let handler = Arc::new(handler);
    Arc::new(move |reserved, context| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            // A newer worker may have the type that it fits, so this is a failure like others.
            let data = reserved.envelope.data.deserialize()?;
            let given = handler(Job { data, reserved: Arc::clone(&reserved) }, context).await.map_err(Into::into)?;
            reserved.result(&given).map_err(|error| Failure::from(format!("its result: {error}")))
        })
    })
}

/// Runs a handler; a panic ends there and is a failure.
pub(super) async fn run(
    handler: &Handler,
    job: Arc<crate::queue::Job>,
    context: Context,
) -> Result<Option<Data>, Failure> {
    let mut running = Dropped(Some(guarded(|| handler(job, context))?));
    let Some(running) = &mut running.0 else { return Ok(None) };
    caught(running).await.unwrap_or_else(Err)
}

/// A handler's future, which may panic when it is dropped half-way too.
struct Dropped(Option<Running>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let running = self.0.take();
        if guarded(|| drop(running)).is_err() {
            tracing::error!(
                "a handler panicked while its future was dropped: check that it has released its resources"
            );
        }
    }
}

/// Awaits what runs code of the worker's user; a panic ends there and is a failure.
pub(super) async fn caught<F: Future>(future: F) -> Result<F::Output, Failure> {
    let mut future = pin!(future);
    poll_fn(|context| match guarded(|| future.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// Runs code of the worker's user; a panic ends there and is a failure.
pub(super) fn guarded<T>(code: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        let failure = Failure::from(format!("panicked: {}", text.unwrap_or_default()));
        // What was thrown may panic in its turn when it is dropped.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        failure
    })
}
