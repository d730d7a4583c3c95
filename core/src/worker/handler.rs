//! Arguments and results of handlers of Rust programs.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::Failure;
use super::panic::{caught, guarded};
use crate::lock::{Lock, LockOptions};
use crate::value::data::Data;
use crate::value::error::Error;

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
            let data = reserved.envelope.data.deserialize().map_err(misfit::<T>)?;
            let given = match handler(Job { data, reserved: Arc::clone(&reserved) }, context).await {
                Ok(given) => given,
                Err(error) => return Err(error.into()),
            };
            reserved.result(&given).map_err(|error| {
                let error = format!("its result: {error}");
                Failure::of_duly(error.clone(), error)
            })
        })
    })
}

/// The error may quote the data, so the log has other words.
fn misfit<T>(error: Error) -> Failure {
    Failure::of_duly(error.to_string(), format!("the data does not fit {}", std::any::type_name::<T>()))
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
        if let Err(panicked) = guarded(|| drop(running)) {
            tracing::error!(
                location = panicked.origin.location(),
                "a handler panicked while its future was dropped: check that it has released its resources"
            );
        }
    }
}
