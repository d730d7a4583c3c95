//! A worker: fetches jobs, runs their handlers as tasks, renews leases meanwhile, and says what became of them.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use crate::client::Client;
use crate::consume::{DEFAULT_LEASE, Job, ReserveOptions};
use crate::error::{Error, ErrorKind};
use crate::queue::{MAX_BATCH, Queue};
use crate::retry::{Next, Outcome};
use crate::several::{QueueWeight, Selection};
use crate::time::Millis;

/// How long running handlers may go on after a stop unless the builder says otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// One fetch waits this long. A stop waits for a fetch to end, or the jobs in its answer would be leased to nobody.
const FETCH_WAIT: Duration = Duration::from_secs(1);
/// How long to rest after the server could not be reached for a whole deadline.
const REST: Duration = Duration::from_secs(1);

type Run = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
type Handler = Arc<dyn Fn(Job) -> Run + Send + Sync>;
type Trouble = Arc<dyn Fn(&Error) + Send + Sync>;

/// Runs the jobs of some queues until it is told to stop.
///
/// A handler that returns `Ok` acks its job; `Err` and a panic are failures, and the job's retry policy decides. A job whose
/// name has no handler here fails too, with an error that says so: its retries give a worker that has the handler the chance
/// to get it (during a deployment), and if there is none it ends in `failed`, where somebody sees it. Given back uncounted,
/// it would go round for ever. A job that runs longer than its `timeout` is dropped at its next `await` and fails; so is a
/// handler whose lease was lost, but its job is another worker's then. A handler may settle its job itself, as its last deed.
///
/// ```no_run
/// use duly::{Client, Job, Worker};
///
/// # async fn doc() -> Result<(), duly::Error> {
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
/// let worker = Worker::builder(client)
///     .queue("orders", 1)
///     .concurrency(10)
///     .handler("order.close", |job: Job| async move {
///         println!("closing {}", job.envelope.data.as_str());
///         Ok::<(), String>(())
///     })
///     .build()?;
/// worker.run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Worker {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    queues: Vec<QueueWeight>,
    selection: Selection,
    handlers: HashMap<String, Handler>,
    any: Option<Handler>,
    concurrency: usize,
    lease: Duration,
    grace: Duration,
    trouble: Trouble,
    counted: Counted,
}

#[derive(Default)]
struct Counted {
    acked: AtomicU64,
    failed: AtomicU64,
    released: AtomicU64,
    lost: AtomicU64,
}

/// What a worker did.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Jobs that are done.
    pub acked: u64,
    /// Runs that failed, whether the job is retried or not.
    pub failed: u64,
    /// Jobs given back: not started before the stop, or not finished within the grace.
    pub released: u64,
    /// Jobs whose lease was over before they were settled, or that their handlers settled themselves.
    pub lost: u64,
}

/// Settings of a [`Worker`].
#[must_use]
pub struct WorkerBuilder {
    client: Client,
    queues: Vec<(String, u32)>,
    selection: Selection,
    handlers: HashMap<String, Handler>,
    any: Option<Handler>,
    concurrency: usize,
    lease: Duration,
    grace: Duration,
    trouble: Trouble,
}

impl Worker {
    /// Settings to choose from: at least one queue and one handler.
    pub fn builder(client: Client) -> WorkerBuilder {
        WorkerBuilder {
            client,
            queues: Vec::new(),
            selection: Selection::default(),
            handlers: HashMap::new(),
            any: None,
            concurrency: 1,
            lease: DEFAULT_LEASE,
            grace: DEFAULT_GRACE,
            trouble: Arc::new(|error| eprintln!("duly worker: {error}")),
        }
    }

    /// Runs until SIGTERM or SIGINT (Ctrl-C). Errors: as [`Worker::run_until`].
    pub async fn run(&self) -> Result<WorkerReport, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Error::new(ErrorKind::Internal, "signals cannot be listened to: use run_until").caused_by(error)
            })
        };
        let (mut term, mut int) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        self.run_until(async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        })
        .await
    }

    /// Runs until `stop` is ready: then fetches no more, lets what runs finish within the grace, and gives the rest back.
    ///
    /// Outages are waited out, and told once each. Errors: those that waiting does not cure, such as
    /// `AuthenticationFailed` or `FormatTooNew`; what was running is finished before, as after a stop. A worker whose future
    /// is dropped leaves its jobs to others when their leases end.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) -> Result<WorkerReport, Error> {
        let mut stop = pin!(stop);
        let running = Running::default();
        let _renewals = AbortOnDrop(tokio::spawn(self.clone().renew(running.clone())).abort_handle());
        let mut tasks: JoinSet<()> = JoinSet::new();
        let mut in_trouble = false;
        let mut fatal = None;
        let mut stopping = false;
        while !stopping {
            while tasks.try_join_next().is_some() {}
            let free = self.shared.concurrency - tasks.len();
            if free == 0 {
                tokio::select! {
                    () = &mut stop => stopping = true,
                    _ = tasks.join_next() => {}
                }
                continue;
            }
            let options = ReserveOptions::new().max(free.min(MAX_BATCH)).wait(FETCH_WAIT).lease(self.shared.lease);
            let mut fetch =
                Box::pin(self.shared.client.reserve_from(&self.shared.queues, self.shared.selection, &options));
            // Never dropped half-way: the jobs of an answer that nobody reads are leased to nobody.
            let fetched = tokio::select! {
                fetched = &mut fetch => fetched,
                () = &mut stop => {
                    stopping = true;
                    fetch.await
                }
            };
            match fetched {
                Ok(jobs) => {
                    in_trouble = false;
                    for job in jobs {
                        if stopping {
                            Box::pin(self.give_back(&job)).await;
                        } else {
                            tasks.spawn(self.clone().run_one(job, running.clone()));
                        }
                    }
                }
                Err(error) if error.is_transient() => {
                    if !in_trouble {
                        (self.shared.trouble)(&error);
                        in_trouble = true;
                    }
                    if !stopping {
                        tokio::select! {
                            () = &mut stop => stopping = true,
                            () = tokio::time::sleep(REST) => {}
                        }
                    }
                }
                Err(error) => {
                    fatal = Some(error);
                    break;
                }
            }
        }
        Box::pin(self.finish(tasks, &running)).await;
        fatal.map_or_else(|| Ok(self.shared.counted.report()), Err)
    }

    /// Lets what runs finish within the grace, then gives the leases back.
    async fn finish(&self, mut tasks: JoinSet<()>, running: &Running) {
        let all_ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.shared.grace, all_ended).await.is_err() {
            tasks.shutdown().await;
            for job in running.jobs() {
                self.give_back(&job).await;
            }
        }
    }

    async fn give_back(&self, job: &Job) {
        match job.release(Duration::ZERO).await {
            Ok(()) => count(&self.shared.counted.released),
            Err(error) => self.not_settled(&error),
        }
    }

    async fn run_one(self, job: Job, running: Running) {
        let lost = running.enter(&job);
        let settled = match self.handle(&job, &lost).await {
            Ended::Done => job.ack().await.map(|()| Next::Ack),
            Ended::Failed(error) => job.settle(Outcome::FAILURE, &error).await,
            Ended::Lost => {
                running.leave(&job);
                count(&self.shared.counted.lost);
                return;
            }
        };
        running.leave(&job);
        match settled {
            Ok(Next::Ack) => count(&self.shared.counted.acked),
            Ok(_) => count(&self.shared.counted.failed),
            Err(error) => self.not_settled(&error),
        }
    }

    async fn handle(&self, job: &Job, lost: &Notify) -> Ended {
        let name = job.envelope.name.as_deref().unwrap_or_default();
        let Some(handler) = self.shared.handlers.get(name).or(self.shared.any.as_ref()).cloned() else {
            return Ended::Failed(format!(
                "no handler for the name '{name}' in this worker: register one, or deploy it"
            ));
        };
        let for_handler = job.clone();
        // A task of its own: a panic ends there.
        let mut task = tokio::spawn(async move { handler(for_handler).await });
        let _dropped_with_us = AbortOnDrop(task.abort_handle());
        let timeout = job.envelope.timeout;
        let over = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(Duration::from_millis(timeout.get())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = &mut task => match ended {
                Ok(Ok(())) => Ended::Done,
                Ok(Err(error)) => Ended::Failed(error),
                Err(error) => Ended::Failed(panic_text(error)),
            },
            () = over => {
                let timeout = timeout.unwrap_or(Millis::ZERO);
                Ended::Failed(format!("ran longer than its timeout of {timeout} s"))
            }
            () = lost.notified() => Ended::Lost,
        }
    }

    fn not_settled(&self, error: &Error) {
        if error.kind() == ErrorKind::LeaseLost {
            count(&self.shared.counted.lost);
        } else {
            (self.shared.trouble)(error);
        }
    }

    /// Renews the leases of what runs, three times a lease.
    async fn renew(self, running: Running) {
        let every = self.shared.lease / 3;
        let mut next = Instant::now() + every;
        loop {
            tokio::time::sleep_until(next).await;
            next = Instant::now() + every;
            let mut by_queue: HashMap<String, (Queue, Vec<Job>)> = HashMap::new();
            for job in running.jobs() {
                let of_queue = by_queue.entry(job.queue().name().to_owned());
                of_queue.or_insert_with(|| (job.queue().clone(), Vec::new())).1.push(job);
            }
            for (queue, jobs) in by_queue.into_values() {
                // An outage is not the end of a lease: whoever holds it when the server is back goes on.
                let Ok(held) = queue.extend_all(&jobs, self.shared.lease).await else { continue };
                for (job, _) in jobs.iter().zip(held).filter(|(_, held)| !held) {
                    running.tell_lost(job);
                }
            }
        }
    }
}

enum Ended {
    Done,
    Failed(String),
    Lost,
}

fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the handler was aborted".to_owned() };
    let text = panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref().cloned());
    format!("panicked: {}", text.unwrap_or_default())
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counted {
    fn report(&self) -> WorkerReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerReport {
            acked: read(&self.acked),
            failed: read(&self.failed),
            released: read(&self.released),
            lost: read(&self.lost),
        }
    }
}

/// The jobs whose leases are to be renewed, by token and id.
#[derive(Clone, Default)]
struct Running {
    jobs: Arc<Mutex<HashMap<(u64, String), Entry>>>,
}

struct Entry {
    job: Job,
    lost: Arc<Notify>,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, String), Entry>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives what tells the task that the lease was lost.
    fn enter(&self, job: &Job) -> Arc<Notify> {
        let lost = Arc::new(Notify::new());
        self.lock().insert(place(job), Entry { job: job.clone(), lost: Arc::clone(&lost) });
        lost
    }

    /// Not called for a task that was aborted: its lease is to be given back.
    fn leave(&self, job: &Job) {
        self.lock().remove(&place(job));
    }

    fn jobs(&self) -> Vec<Job> {
        self.lock().values().map(|entry| entry.job.clone()).collect()
    }

    fn tell_lost(&self, job: &Job) {
        if let Some(entry) = self.lock().get(&place(job)) {
            entry.lost.notify_one();
        }
    }
}

fn place(job: &Job) -> (u64, String) {
    (job.token(), format!("{} {}", job.queue().name(), job.id()))
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl WorkerBuilder {
    /// A queue to serve, with its weight (which matters under [`Selection::Weighted`] only).
    pub fn queue(mut self, name: &str, weight: u32) -> Self {
        self.queues.push((name.to_owned(), weight));
        self
    }

    /// Which queue goes first (default: strictly as they were given).
    pub fn selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// What runs the jobs of this name.
    pub fn handler<F, R, E>(mut self, name: &str, handler: F) -> Self
    where
        F: Fn(Job) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        self.handlers.insert(name.to_owned(), boxed(handler));
        self
    }

    /// What runs the jobs that have no name, or a name without a handler of its own.
    pub fn any_handler<F, R, E>(mut self, handler: F) -> Self
    where
        F: Fn(Job) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        self.any = Some(boxed(handler));
        self
    }

    /// How many handlers run at once (default 1).
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long a lease is (default 10 s), and so how soon others notice that this worker died. Renewed while a handler runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long running handlers may go on after a stop (default 30 s).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What is told of an outage, once, and of an outcome that could not be written down (default: a line on stderr).
    pub fn on_trouble(mut self, trouble: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.trouble = Arc::new(trouble);
        self
    }

    /// The worker. Errors: `InvalidArgument`.
    pub fn build(self) -> Result<Worker, Error> {
        if self.queues.is_empty() || (self.handlers.is_empty() && self.any.is_none()) || self.concurrency == 0 {
            return Err(Error::invalid("a worker needs a queue, a handler and a concurrency of at least 1"));
        }
        if self.lease < Duration::from_millis(100) {
            return Err(Error::invalid("a worker's lease is at least 100 ms, to be renewed in time"));
        }
        ReserveOptions::new().lease(self.lease).check()?;
        let queue = |(name, weight): &(String, u32)| Ok(QueueWeight::new(self.client.queue(name)?, *weight));
        let queues = self.queues.iter().map(queue).collect::<Result<_, Error>>()?;
        Ok(Worker {
            shared: Arc::new(Shared {
                client: self.client,
                queues,
                selection: self.selection,
                handlers: self.handlers,
                any: self.any,
                concurrency: self.concurrency,
                lease: self.lease,
                grace: self.grace,
                trouble: self.trouble,
                counted: Counted::default(),
            }),
        })
    }
}

fn boxed<F, R, E>(handler: F) -> Handler
where
    F: Fn(Job) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>> + Send + 'static,
    E: Display,
{
    Arc::new(move |job| {
        let run = handler(job);
        Box::pin(async move { run.await.map_err(|error| error.to_string()) })
    })
}
