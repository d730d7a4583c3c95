//! What handlers of Rust programs get and give.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::executor::Ended;
use crate::retry::Outcome;
use crate::time::Millis;

/// A job with its data decoded; everything else of the reserved [`duly::Job`](crate::Job) is behind it.
#[derive(Debug, Clone)]
pub struct Job<T> {
    /// What the producer pushed.
    pub data: T,
    reserved: Arc<crate::Job>,
}

impl<T> Deref for Job<T> {
    type Target = crate::Job;

    fn deref(&self) -> &crate::Job {
        &self.reserved
    }
}

/// What a handler may ask about its run.
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

/// Why a run did not work, and what is to become of its job. Any error that can be displayed becomes an ordinary failure, so
/// `?` works in handlers.
///
/// It does not implement `Display` itself, which is what lets every displayable error become one (as in `anyhow`).
#[derive(Debug, Clone)]
pub struct Failure {
    outcome: Outcome,
    error: String,
}

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { outcome: Outcome::FAILURE, error: error.to_string() }
    }
}

impl Failure {
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
    Millis::from_duration(span).unwrap_or(crate::time::MAX_DELAY)
}

pub(super) type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;
pub(super) type Handler = Arc<dyn Fn(Arc<crate::Job>, Context) -> Running + Send + Sync>;

pub(super) fn boxed<T, F, R, E>(handler: F) -> Handler
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Job<T>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<Failure>,
{
    let handler = Arc::new(handler);
    Arc::new(move |reserved, context| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let data = match serde_json::from_str(reserved.envelope.data.as_str()) {
                Ok(data) => data,
                // Decoding fails the same way each time.
                Err(error) => {
                    let error = format!("the data does not fit the handler's type: {error}");
                    return Ended::Outcome { outcome: Outcome::FailNow, error, rewritten: None };
                }
            };
            match handler(Job { data, reserved }, context).await {
                Ok(()) => Ended::DONE,
                Err(failure) => {
                    let Failure { outcome, error } = failure.into();
                    Ended::Outcome { outcome, error, rewritten: None }
                }
            }
        })
    })
}

/// Runs a handler; a panic ends there and is a failure.
pub(super) async fn run(handler: &Handler, job: Arc<crate::Job>, context: Context) -> Ended {
    let mut running = match catch_unwind(AssertUnwindSafe(|| handler(job, context))) {
        Ok(running) => running,
        Err(panic) => return panicked(&*panic),
    };
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
        Ok(polled) => polled,
        Err(panic) => std::task::Poll::Ready(panicked(&*panic)),
    })
    .await
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Ended {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    Ended::failed(format!("panicked: {}", text.unwrap_or_default()))
}
