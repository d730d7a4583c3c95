//! The worker of Rust programs: handlers run as tasks of the caller's runtime.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use super::desk::Run;
use super::engine::Engine;
use super::event::{AboutJob, FailedJob, WorkerEvent};
use super::executor::{Ended, Executor};
use super::failure::{Failure, LogErrors};
use super::handler::{self, Context, Handler};
use super::middleware::Middleware;
use super::panic::{caught, guarded, note_locations};
use super::run_log::{Why, log_outcome};
use super::{WorkerBuilder, WorkerReport, WorkerSettings, span};
use crate::queue::{Client, Decided, Job, Settlement};
use crate::value::error::{Error, ErrorKind};

pub(super) type OnEvent = Arc<dyn Fn(&WorkerEvent) + Send + Sync>;

/// Runs the jobs of some queues until it is stopped.
///
/// If a handler returns `Ok`, its job is acked, and the value is the job's result if the producer asked for one
/// (`result_ttl`). `Err` and a panic are failures, and the job's retry policy decides, unless the
/// [`Failure`](super::Failure) does. A job whose data does not fit the handler's type, or whose name has no handler here,
/// fails too, and the error says so: its retries give a worker of another version the chance to run it (during a
/// deployment); otherwise it ends in `failed`. A handler that runs longer than its job's `timeout` is dropped at its next
/// `await`, and the run fails. A handler whose lease was lost is dropped too, but another worker may have its job then.
///
/// ```no_run
/// use duly::Client;
/// use duly::worker::{Failure, Job, Worker};
///
/// #[derive(serde::Deserialize)]
/// struct Close {
///     order_id: u64,
/// }
///
/// # async fn doc() -> Result<(), duly::Error> {
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
/// let worker = Worker::builder(client)
///     .queue("orders", 1)
///     .concurrency(10)
///     .handler("order.close", |job: Job<Close>, _context| async move {
///         println!("closing order {}, attempt {}", job.data.order_id, job.attempt());
///         Ok::<(), Failure>(())
///     })
///     .build()?;
/// worker.run().await?; // until SIGTERM or Ctrl-C
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Worker {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) settings: WorkerSettings,
    pub(super) handlers: HashMap<String, Handler>,
    pub(super) any: Option<Handler>,
    pub(super) middleware: Vec<Box<dyn Middleware>>,
    pub(super) on_event: OnEvent,
    pub(super) log_errors: LogErrors,
}

impl Worker {
    /// Settings to choose from: at least one queue and one handler.
    pub fn builder(client: Client) -> WorkerBuilder {
        WorkerBuilder::new(client)
    }

    /// Runs until SIGTERM or SIGINT (Ctrl-C); a second one ends the grace. Errors: as [`Worker::run_until`].
    pub async fn run(&self) -> Result<WorkerReport, Error> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Error::new(ErrorKind::Internal, "signals cannot be listened to: use run_until").caused_by(error)
            })
        };
        let (mut term, mut int) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        self.work(|engine| async move {
            loop {
                tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
                engine.stop(); // the second ends the grace
            }
        })
        .await
    }

    /// Runs until `stop` is ready: then fetches no more jobs, lets running handlers finish within the grace, and gives the
    /// rest back.
    ///
    /// Outages are waited out, and logged once each. Errors: permanent ones, such as `AuthenticationFailed` or `FormatTooNew`.
    /// A worker whose future is dropped leaves its jobs to others when their leases end.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) -> Result<WorkerReport, Error> {
        self.work(|engine| async move {
            stop.await;
            engine.stop();
            std::future::pending().await
        })
        .await
    }

    async fn work<S>(&self, stops: impl FnOnce(Arc<Engine>) -> S) -> Result<WorkerReport, Error>
    where
        S: Future<Output = Infallible>,
    {
        note_locations();
        let engine = Arc::new(Engine::start(&self.shared.client, self.shared.settings.clone())?);
        let mut executors = JoinSet::new();
        for _ in 0..self.shared.settings.concurrency {
            executors.spawn(Arc::clone(&self.shared).serve(engine.executor()));
        }
        let (failures, failed) = mpsc::unbounded_channel();
        let events = async {
            loop {
                match engine.event().await {
                    event @ WorkerEvent::Failed { failed: Some(_), .. } => _ = failures.send(event),
                    event => self.shared.report(&event),
                }
            }
        };
        let in_hook = Mutex::new(None);
        let hooks = Box::pin(Arc::clone(&self.shared).hear_failures(&engine, failed, &in_hook));
        // The stop may be a large future.
        let stops = Box::pin(stops(Arc::clone(&engine)));
        tokio::select! {
            report = engine.ended() => {
                executors.shutdown().await;
                while let Some(event) = engine.event_within(Duration::ZERO) {
                    // Of claims that are left, another worker reports.
                    if !matches!(event, WorkerEvent::Failed { failed: Some(_), .. }) {
                        self.shared.report(&event);
                    }
                }
                let in_hook = in_hook.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(job) = in_hook {
                    tracing::warn!("the on_failed hook for {job} goes on behind the grace: another worker calls it");
                }
                report
            }
            never = stops => match never {},
            never = events => never,
            never = hooks => match never {},
        }
    }
}

impl Shared {
    fn report(&self, event: &WorkerEvent) {
        if let Err(panicked) = guarded(|| (self.on_event)(event)) {
            tracing::error!(
                location = panicked.origin.location(),
                "on_event panicked and the worker goes on: correct the callback"
            );
        }
    }

    /// Calls the hooks of jobs that failed elsewhere, one after the other; `in_hook` is the job whose hooks are called just now.
    async fn hear_failures(
        self: Arc<Self>,
        engine: &Engine,
        mut failures: mpsc::UnboundedReceiver<WorkerEvent>,
        in_hook: &Mutex<Option<AboutJob>>,
    ) -> Infallible {
        let note = |job| *in_hook.lock().unwrap_or_else(PoisonError::into_inner) = job;
        while let Some(event) = failures.recv().await {
            let WorkerEvent::Failed { job, failed: Some(failed) } = &event else { continue };
            if !engine.may_call_hooks(failed) {
                continue; // another worker reports it
            }
            note(Some(job.clone()));
            if !self.middleware.is_empty() {
                Arc::clone(&self).call_on_failed(Arc::clone(failed)).await;
            }
            engine.heard(failed);
            note(None);
            self.report(&event);
        }
        std::future::pending().await
    }

    /// On a thread of its own: a hook that waits holds up neither runs nor the stop, nor, as a blocking task of the runtime does, the end of
    /// the program.
    async fn call_on_failed(self: Arc<Self>, failed: Arc<FailedJob>) {
        let (says, ended) = oneshot::channel();
        let (runtime, log) = (tokio::runtime::Handle::current(), tracing::dispatcher::get_default(Clone::clone));
        let (shared, of_thread) = (Arc::clone(&self), Arc::clone(&failed));
        let call = move || {
            let _runtime = runtime.enter();
            tracing::dispatcher::with_default(&log, || shared.on_failed(&of_thread));
            let _ = says.send(());
        };
        match std::thread::Builder::new().name("duly-on-failed".to_owned()).spawn(call) {
            Ok(_) => _ = ended.await,
            // The system gives no thread.
            Err(_) => self.on_failed(&failed),
        }
    }

    fn on_failed(&self, failed: &FailedJob) {
        self.hooks("on_failed", |middleware| middleware.on_failed(&failed.job, failed.error()));
    }

    /// One executor.
    async fn serve(self: Arc<Self>, executor: Executor) {
        while let Some(run) = executor.next().await {
            let span = span::of_run(&run.job);
            let mut why = Why::new(self.log_errors);
            let run_one = caught(self.run_one(&executor, &run, &span, &mut why));
            // Whatever panicked, the executor goes on: its job would be renewed for ever.
            let ended = run_one.instrument(span.clone()).await.unwrap_or_else(|failure| {
                why.note(&failure);
                Ended::failed(failure.error)
            });
            match executor.finish(&run, ended) {
                Ok(next) => span.in_scope(|| log_outcome(&run.job, next.or_else(|| why.said(&run.job)), &why)),
                Err(error) => {
                    tracing::error!(parent: &span, %error, error_type = why.kind(), location = why.location(), "an on_failure hook made a change that is refused, so the failure stays as it was: correct the hook");
                }
            }
            // A handler that never waits must not keep its thread from other tasks.
            tokio::task::consume_budget().await;
        }
    }

    async fn run_one(&self, executor: &Executor, run: &Run, span: &Span, why: &mut Why) -> Ended {
        let handled = async {
            for middleware in &self.middleware {
                guarded(|| middleware.before(&run.job)).unwrap_or_else(Err)?;
            }
            let name = run.job.envelope.name.as_deref().unwrap_or_default();
            let Some(handler) = self.handlers.get(name).or(self.any.as_ref()) else {
                let none = format!("no handler for the name '{name}' in this worker: register one, or deploy it");
                return Err(Failure::of_duly(none.clone(), none));
            };
            handler::run(handler, Arc::clone(&run.job), Context::new(self.settings.lease)).await
        };
        let handled = tokio::select! {
            biased;
            handled = handled => handled,
            // What it says no longer counts.
            _ = executor.interrupted(run) => {
                span::interrupted(span);
                return Ended::SettledByHandler;
            }
        };
        if executor.was_interrupted(run).is_some() {
            span::interrupted(span);
            return Ended::SettledByHandler;
        }
        if run.job.is_settled() {
            return self.settled(&run.job, handled.err(), why);
        }
        match handled {
            Ok(result) => {
                let done = Settlement { result: result.clone(), ..Settlement::done(&run.job) };
                if !self.middleware.is_empty()
                    && let Ok(decided) = Decided::of(&done)
                    && !executor.decide(run, decided)
                {
                    span::interrupted(span);
                    return Ended::SettledByHandler;
                }
                self.after(&run.job);
                Ended::done(result)
            }
            Err(failure) => {
                span::failed(span, &failure);
                why.note(&failure);
                self.failed(executor, run, failure, why)
            }
        }
    }

    /// Calls a hook of each middleware, the last that was added first. A panic in one changes nothing.
    fn hooks(&self, name: &'static str, mut hook: impl FnMut(&dyn Middleware)) {
        for middleware in self.middleware.iter().rev() {
            if let Err(panicked) = guarded(|| hook(&**middleware)) {
                let location = panicked.origin.location();
                tracing::error!(
                    hook = name,
                    location,
                    "a hook panicked, and the outcome of its job stays: correct the hook"
                );
            }
        }
    }

    fn after(&self, job: &Job) {
        self.hooks("after", |middleware| middleware.after(job));
    }

    /// Its handler has said itself what becomes of the job; what it gave no longer counts.
    fn settled(&self, job: &Job, failure: Option<Failure>, why: &mut Why) -> Ended {
        if let Some(failure) = failure {
            why.note(&failure);
            let (error_type, location, error) = (why.kind(), why.location(), why.text());
            tracing::error!(
                error_type,
                location,
                error,
                "the handler failed after it had settled its job, and the outcome stays"
            );
        } else if job.is_acked() {
            self.after(job);
        }
        Ended::SettledByHandler
    }

    fn failed(&self, executor: &Executor, run: &Run, mut failure: Failure, why: &Why) -> Ended {
        let job = &*run.job;
        let mut rewritten = None;
        if !self.middleware.is_empty() && failure.is_failure() {
            let mut changed = job.envelope.clone();
            self.hooks("on_failure", |middleware| middleware.on_failure(job, &mut failure, &mut changed));
            let is_changed = changed != job.envelope;
            rewritten = is_changed.then(|| Box::new(changed));
            let (outcome, error, rewritten) = (failure.outcome, &failure.error, rewritten.as_deref().cloned());
            // A change that is refused is left out, and the engine reports if it is the last run.
            if let Ok(decided) = Decided::of(&Settlement { job, outcome, error, rewritten, result: None }) {
                let is_last = decided.next.is_last();
                // The grace may end before the hooks.
                if !executor.decide(run, decided) {
                    let (error_type, location, error) = (why.kind(), why.location(), why.text());
                    tracing::error!(
                        error_type,
                        location,
                        error,
                        "{} was interrupted behind its failure",
                        AboutJob::of(job)
                    );
                    return Ended::SettledByHandler;
                }
                if is_last {
                    self.hooks("on_failed", |middleware| middleware.on_failed(job, &failure.error));
                }
            }
        }
        Ended::Outcome { outcome: failure.outcome, error: failure.error, rewritten, result: None }
    }
}
