//! Settings of the worker of Rust programs.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::event::{EventLevel, WorkerEvent};
use super::failure::{Failure, LogErrors};
use super::handler::{Context, Handler, Job, boxed};
use super::middleware::Middleware;
use super::run::{OnEvent, Shared, Worker};
use super::{WorkerReport, WorkerSettings};
use crate::queue::{Client, Selection};
use crate::schedule::{OwnSchedules, Schedule};
use crate::value::error::Error;
use crate::value::name::check_handler;

/// Settings of a [`Worker`].
#[must_use]
pub struct WorkerBuilder {
    client: Client,
    settings: WorkerSettings,
    handlers: HashMap<String, Handler>,
    any: Option<Handler>,
    middleware: Vec<Box<dyn Middleware>>,
    on_event: OnEvent,
    log_errors: LogErrors,
    /// The first setting that cannot be.
    refused: Option<Error>,
}

impl WorkerBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            settings: WorkerSettings::new(Vec::new()),
            handlers: HashMap::new(),
            any: None,
            middleware: Vec::new(),
            on_event: Arc::new(log),
            log_errors: LogErrors::default(),
            refused: None,
        }
    }

    /// A queue to serve, with its weight (which matters under [`Selection::Weighted`] only).
    pub fn queue(mut self, name: &str, weight: u32) -> Self {
        self.settings.queues.push((name.to_owned(), weight));
        self
    }

    /// Which queue goes first (default: strictly in the given order).
    pub fn selection(mut self, selection: Selection) -> Self {
        self.settings.selection = selection;
        self
    }

    /// Stops the worker after so many runs (default: never). The last ones may take as long as they need: the grace begins when the
    /// worker is asked to stop. What goes on behind them, an `on_failed` hook for another job or a run that was interrupted, has the grace,
    /// too. Errors at [`build`](Self::build): 0.
    pub fn max_jobs(mut self, count: u64) -> Self {
        self.settings.max_jobs = Some(count);
        self
    }

    /// Makes the schedules of this owner in this queue those of the list when the worker starts: see
    /// [`Schedules::sync`](crate::Schedules::sync). While the server cannot take them, the worker runs jobs and tries again. Further calls
    /// for the same owner and queue add to the list. Errors at [`build`](Self::build): what `sync` refuses without asking the server.
    pub fn schedules(mut self, owner: &str, queue: &str, list: impl IntoIterator<Item = (String, Schedule)>) -> Self {
        let own = &mut self.settings.schedules;
        // Each sync would remove what the other has stored.
        match own.iter_mut().find(|own| own.owner == owner && own.queue == queue) {
            Some(own) => own.list.extend(list),
            None => own.push(OwnSchedules {
                queue: queue.to_owned(),
                owner: owner.to_owned(),
                list: list.into_iter().collect(),
            }),
        }
        self
    }

    /// The handler of the jobs of this name. Their data is decoded to the handler's type first; its return value is the
    /// job's result if the producer asked for one. An empty name means jobs without a name.
    ///
    /// Errors at [`build`](Self::build): a name has one handler, and a job must be able to have it.
    pub fn handler<T, F, R, O, E>(mut self, name: &str, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Job<T>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        O: Serialize + Send,
        E: Into<Failure>,
    {
        let named = if name.is_empty() { "jobs without a name".to_owned() } else { format!("the name '{name}'") };
        if self.handlers.insert(name.to_owned(), boxed(handler)).is_some() {
            self.refuse(Error::invalid(format!("there is a handler for {named} already: a name has one handler")));
        }
        if let Some(error) = check_handler(name).err().filter(|_| !name.is_empty()) {
            self.refuse(error);
        }
        self
    }

    /// The handler of the jobs without a name, or with a name that has no handler. Errors at [`build`](Self::build): a second one.
    pub fn any_handler<T, F, R, O, E>(mut self, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Job<T>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        O: Serialize + Send,
        E: Into<Failure>,
    {
        if self.any.replace(boxed(handler)).is_some() {
            self.refuse(Error::invalid("there is a handler for any job already: a worker has one"));
        }
        self
    }

    fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// The most handlers that run at once, 1 to 10,000 (default 1).
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.concurrency = concurrency;
        self
    }

    /// How soon others take over the jobs if this worker dies, 100 ms to 24 h (default 10 s). Leases are renewed while
    /// handlers run.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long running handlers may go on after a stop, at most 24 h (default 30 s).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// The most jobs that wait in the process besides those that run, up to 1,000; 0 for none (default: as many as run within 50 ms,
    /// by what was learned from the runs so far).
    pub fn prefetch(mut self, prefetch: usize) -> Self {
        self.settings.prefetch = Some(prefetch);
        self
    }

    /// The longest run of a job that has no `timeout` of its own (default: as long as it likes).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// The worker's name in [`Queue::workers`](crate::Queue::workers), 1 to 128 bytes (default: none).
    pub fn name(mut self, name: &str) -> Self {
        self.settings.name = Some(name.to_owned());
        self
    }

    /// Hooks around every run; see [`Middleware`] for their order.
    pub fn middleware(mut self, middleware: impl Middleware + 'static) -> Self {
        self.middleware.push(Box::new(middleware));
        self
    }

    /// Is called for outages, lost leases and interrupted runs, once each (default: an event of the `tracing` crate).
    pub fn on_event(mut self, on_event: impl Fn(&WorkerEvent) + Send + Sync + 'static) -> Self {
        self.on_event = Arc::new(on_event);
        self
    }

    /// What the log says of the errors with which handlers fail (default: [`LogErrors::Location`], and never their texts).
    pub fn log_errors(mut self, log_errors: LogErrors) -> Self {
        self.log_errors = log_errors;
        self
    }

    /// Builds it and runs it until SIGTERM or SIGINT. Errors: those of [`Worker::run`] and of `build`.
    pub async fn run(self) -> Result<WorkerReport, Error> {
        self.build()?.run().await
    }

    /// Builds it and runs it until `stop` is ready. Errors: those of [`Worker::run_until`] and of `build`.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<WorkerReport, Error> {
        self.build()?.run_until(stop).await
    }

    /// The worker. Errors: `InvalidArgument`.
    pub fn build(self) -> Result<Worker, Error> {
        if self.handlers.is_empty() && self.any.is_none() {
            return Err(Error::invalid("a worker needs at least one handler"));
        }
        self.settings.check(&self.client)?;
        let Self { client, settings, handlers, any, middleware, on_event, log_errors, refused } = self;
        if let Some(error) = refused {
            return Err(error);
        }
        Ok(Worker { shared: Arc::new(Shared { client, settings, handlers, any, middleware, on_event, log_errors }) })
    }
}

fn log(event: &WorkerEvent) {
    let job = event.job();
    let (queue, id) = (event.queue(), job.map(|job| &*job.id));
    let (name, attempt) = (job.and_then(|job| job.name.as_deref()), job.map(|job| job.attempt));
    match event.level() {
        EventLevel::Error => tracing::error!(queue, id, name, attempt, "{event}"),
        EventLevel::Warning => tracing::warn!(queue, id, name, attempt, "{event}"),
        EventLevel::Debug => tracing::debug!(queue, id, name, attempt, "{event}"),
        EventLevel::Info => tracing::info!(queue, id, name, attempt, "{event}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;

    fn refusal(build: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Option<String> {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let builder = Worker::builder(client).queue("orders", 1);
        let error = build(builder).build().err()?;
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        Some(error.to_string())
    }

    async fn done(_: Job<u8>, _: Context) -> Result<(), Failure> {
        Ok(())
    }

    #[test]
    fn a_name_has_one_handler_and_one_that_jobs_can_have() {
        assert_eq!(refusal(|worker| worker.handler("a", done).handler("b", done).handler("", done)), None);
        for (build, why) in [
            (
                refusal(|worker| worker.handler("a", done).handler("a", done)),
                "there is a handler for the name 'a' already",
            ),
            (
                refusal(|worker| worker.handler("", done).handler("", done)),
                "there is a handler for jobs without a name",
            ),
            (refusal(|worker| worker.any_handler(done).any_handler(done)), "there is a handler for any job already"),
            (refusal(|worker| worker.handler(&"a".repeat(129), done)), "1 to 128 bytes"),
            (refusal(|worker| worker.handler("a\n", done)), "no control characters"),
        ] {
            assert!(build.as_deref().is_some_and(|said| said.contains(why)), "{build:?}");
        }
    }
}
