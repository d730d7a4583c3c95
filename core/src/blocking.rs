//! The same words without `async`: each call returns when it is done. The Python and PHP skins are built on this.
//!
//! Safe after a fork: a client that was made before one makes itself anew in the child at its first call there.
//!
//! A call that waits asks its [`Interrupt`] ten times a second whether to give up, which is how Ctrl-C reaches Python and
//! signals reach PHP.

mod consumer;
mod lock;
mod long_push;
#[doc(hidden)] // for the skins
pub mod process;
#[doc(hidden)] // for the skins
pub mod supervision;
mod topic;
mod worker;

pub use consumer::{Consumer, Delivery};
pub use lock::Lock;
#[doc(hidden)] // for the skins
pub use long_push::LongPush;
pub use topic::Topic;
pub use worker::{Engine, Executor, NextRun, Run};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use once_cell::race::OnceBox;

use crate::format::envelope::Envelope;
use crate::operate::{
    AuditOptions, AuditReport, Cancelled, Counts, Filter, Found, JobView, Limits, QueuePage, Rates, Requeued,
    SearchPage, Trace, WorkerInfo,
};
use crate::process::runtime::{PerProcess, block_on, part_with};
use crate::queue::{
    ClientBuilder, Job as AsyncJob, NewJob, Part, PushSummary, Pushed, QueueWeight, Renewal, ReserveOptions, Selection,
    Settlement, batches, check_queue_or_part, client_closed,
};
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::name;
use crate::value::retry::{Next, Outcome};
use crate::value::state::State;
use crate::value::time::{Millis, When};

/// A waiting call asks this ten times a second; an error ends the wait, and the call returns it.
pub trait Interrupt {
    /// The error type of the caller's language; duly's own errors become it.
    type Error: From<Error>;

    /// Shall the call go on?
    fn check(&mut self) -> Result<(), Self::Error>;
}

/// Never interrupted: for Rust programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uninterrupted;

impl Interrupt for Uninterrupted {
    type Error = Error;

    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// A blocking client. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    builder: ClientBuilder,
    made: PerProcess<crate::queue::Client>,
    /// A child forks a closed client closed.
    is_closed: AtomicBool,
    hurried: OnceBox<Client>,
}

impl Client {
    /// A client with these settings. Nothing is sent: the first call connects.
    ///
    /// Errors: `InvalidArgument`.
    pub fn new(builder: ClientBuilder) -> Result<Self, Error> {
        let (made, is_closed, hurried) = (PerProcess::new(), AtomicBool::new(false), OnceBox::new());
        let builder = builder.keeping_what_is_reached();
        let client = Self { shared: Arc::new(Shared { builder, made, is_closed, hurried }) };
        client.inner()?;
        Ok(client)
    }

    /// A client for this URL, with a first round trip to the server.
    pub fn connect(url: &str) -> Result<Self, Error> {
        let client = Self::new(crate::queue::Client::builder().url(url))?;
        client.ping(&mut Uninterrupted)?;
        Ok(client)
    }

    /// See [`crate::Client::queues`].
    pub fn queues<I: Interrupt>(
        &self,
        limit: usize,
        cursor: Option<&str>,
        interrupt: &mut I,
    ) -> Result<QueuePage, I::Error> {
        let client = self.inner()?;
        block_on(client.queues(limit, cursor), || interrupt.check())
    }

    /// See [`crate::Client::close`].
    pub fn close<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        let Some(client) = self.mark_closed() else { return Ok(()) };
        let close = async {
            client.close().await;
            Ok(())
        };
        block_on(close, || interrupt.check())
    }

    /// No call is made any more. Gives the client whose connections are still open.
    #[doc(hidden)] // for the skins
    pub fn mark_closed(&self) -> Option<Arc<crate::queue::Client>> {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.made.known()
    }

    /// The client that this process works with.
    #[doc(hidden)] // for the skins
    pub fn inner(&self) -> Result<Arc<crate::queue::Client>, Error> {
        if self.shared.is_closed.load(Ordering::Relaxed) {
            return Err(client_closed());
        }
        self.shared.made.get(|| self.shared.builder.clone().build())
    }

    /// A sibling with this deadline: for people who look at a page. It is made once, and lives as long as this client.
    ///
    /// Errors: `InvalidArgument` if this client is closed.
    #[doc(hidden)] // for the page
    pub fn hurried(&self, deadline: Duration) -> Result<Self, Error> {
        self.inner()?;
        let make = || Self::new(self.shared.builder.clone().deadline(deadline)).map(Box::new);
        self.shared.hurried.get_or_try_init(make).cloned()
    }

    /// Another client with the same settings, and connections of its own. Once one of them has reached the server, both wait out an outage.
    ///
    /// Errors: `InvalidArgument` if this client is closed.
    #[doc(hidden)] // for Python
    pub fn sibling(&self) -> Result<Self, Error> {
        self.inner()?;
        Self::new(self.shared.builder.clone())
    }

    /// Its settings for another library in this process: see [`ClientBuilder::hand_over`].
    ///
    /// Errors: `InvalidArgument` if this client is closed.
    #[doc(hidden)] // for PHP
    pub fn hand_over(&self) -> Result<String, Error> {
        self.inner()?;
        self.shared.builder.hand_over()
    }

    /// Any call on the client, waited for.
    pub fn wait_for<T, I: Interrupt, F: Future<Output = Result<T, Error>>>(
        &self,
        call: impl FnOnce(Arc<crate::queue::Client>) -> F,
        interrupt: &mut I,
    ) -> Result<T, I::Error> {
        block_on(call(self.inner()?), || interrupt.check())
    }

    /// One round trip to the server.
    pub fn ping<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        let client = self.inner()?;
        block_on(client.ping(), || interrupt.check())
    }

    /// See [`crate::Client::reserve_from`]; the queues with their weights.
    pub fn reserve_from<I: Interrupt>(
        &self,
        queues: &[(Queue, u32)],
        selection: Selection,
        options: &ReserveOptions,
        interrupt: &mut I,
    ) -> Result<Vec<Job>, I::Error> {
        let client = self.inner()?;
        let mut weights = Vec::with_capacity(queues.len());
        for (queue, weight) in queues {
            weights.push(QueueWeight::new(crate::queue::Queue::clone(&*queue.inner()?), *weight));
        }
        let jobs = block_on(client.reserve_from(&weights, selection, options), || interrupt.check())?;
        let with_queue = |job: AsyncJob| {
            let (queue, _) = queues.iter().find(|(queue, _)| queue.part(job.part().name()).is_some())?;
            queue.with_queue(job)
        };
        Ok(jobs.into_iter().filter_map(with_queue).collect())
    }

    /// The queue of this name. Errors: `InvalidArgument`.
    pub fn queue(&self, name: &str) -> Result<Queue, Error> {
        name::check_queue(name)?;
        Ok(Queue::new(self, name, Vec::new()))
    }

    /// See [`crate::Client::partitioned_queue`]. Errors: `InvalidArgument`.
    pub fn partitioned_queue(&self, name: &str, count: u16) -> Result<Queue, Error> {
        let split = self.inner()?.partitioned_queue(name, count)?;
        let parts = split.parts().iter().map(|part| Queue::new(self, part.name(), Vec::new())).collect();
        Ok(Queue::new(self, name, parts))
    }

    pub(crate) fn queue_or_part(&self, name: &str) -> Result<Queue, Error> {
        check_queue_or_part(name)?;
        Ok(Queue::new(self, name, Vec::new()))
    }
}

/// A blocking queue; see [`crate::Queue`] for what each verb moves and which errors it gives.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<QueueShared>,
}

struct QueueShared {
    client: Client,
    name: String,
    /// Of a partitioned queue.
    parts: Vec<Queue>,
    made: PerProcess<crate::queue::Queue>,
}

impl Queue {
    fn new(client: &Client, name: &str, parts: Vec<Self>) -> Self {
        let shared = QueueShared { client: client.clone(), name: name.to_owned(), parts, made: PerProcess::new() };
        Self { shared: Arc::new(shared) }
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// See [`crate::Queue::parts`].
    pub fn parts(&self) -> &[Self] {
        &self.shared.parts
    }

    /// The queue that this process works with.
    #[doc(hidden)] // for the skins
    pub fn inner(&self) -> Result<Arc<crate::queue::Queue>, Error> {
        let QueueShared { client, name, parts, made } = &*self.shared;
        made.get(|| {
            let client = client.inner()?;
            match u16::try_from(parts.len()).unwrap_or(u16::MAX) {
                0 => client.queue_or_part(name).map(crate::queue::Queue::from),
                count => client.partitioned_queue(name, count),
            }
        })
    }

    /// Any call on it, waited for.
    #[doc(hidden)] // for the skins
    pub fn wait_for<T, I: Interrupt, F: Future<Output = Result<T, Error>>>(
        &self,
        call: impl FnOnce(Arc<crate::queue::Queue>) -> F,
        interrupt: &mut I,
    ) -> Result<T, I::Error> {
        let call = call(self.inner()?);
        block_on(call, || interrupt.check())
    }

    /// The part of that name; of a queue that is not partitioned itself, if that is its name.
    #[doc(hidden)] // for the skins
    pub fn part(&self, name: &str) -> Option<&Self> {
        match self.parts() {
            [] => Some(self).filter(|queue| queue.name() == name),
            parts => parts.iter().find(|part| part.name() == name),
        }
    }

    /// See [`crate::Queue::push_many`]. The jobs are taken outside the runtime: their iterator may call duly itself, and holds
    /// nobody up when it is slow.
    pub fn push_many<I: Interrupt>(
        &self,
        jobs: impl IntoIterator<Item = NewJob>,
        mut progress: impl FnMut(&[Pushed]),
        interrupt: &mut I,
    ) -> Result<PushSummary, I::Error> {
        let mut summary = PushSummary::default();
        for batch in batches(jobs) {
            let pushed = self.push_some(batch, summary.total(), interrupt)?;
            summary.add(&pushed);
            progress(&pushed);
        }
        Ok(summary)
    }

    /// One batch of a long push, so many jobs of which went before: that is in the error.
    #[doc(hidden)] // for the skins
    pub fn push_some<I: Interrupt>(
        &self,
        jobs: Vec<NewJob>,
        before: u64,
        interrupt: &mut I,
    ) -> Result<Vec<Pushed>, I::Error> {
        let queue = self.inner()?;
        let push = async { queue.push_batch(jobs).await.map_err(|error| error.after_jobs(before)) };
        block_on(push, || interrupt.check())
    }

    /// See [`crate::Queue::reserve`].
    pub fn reserve<I: Interrupt>(&self, options: &ReserveOptions, interrupt: &mut I) -> Result<Vec<Job>, I::Error> {
        let queue = self.inner()?;
        let jobs = block_on(queue.reserve(options), || interrupt.check())?;
        Ok(jobs.into_iter().filter_map(|job| self.with_queue(job)).collect())
    }

    fn with_queue(&self, job: AsyncJob) -> Option<Job> {
        let queue = self.part(job.part().name())?.clone();
        Some(Job { job: job.into(), queue })
    }

    /// See [`crate::Queue::ack_all`].
    pub fn ack_all<I: Interrupt>(&self, jobs: &[Job], interrupt: &mut I) -> Result<Vec<bool>, I::Error> {
        let done: Vec<_> = jobs.iter().map(|job| Settlement::done(&job.job)).collect();
        self.settle_all(&done, interrupt)
    }

    /// See [`crate::Queue::extend_all`].
    pub fn extend_all<I: Interrupt>(
        &self,
        jobs: &[Job],
        lease: Duration,
        interrupt: &mut I,
    ) -> Result<Vec<bool>, I::Error> {
        let queue = self.inner()?;
        let jobs: Vec<AsyncJob> = jobs.iter().map(|job| AsyncJob::clone(&job.job)).collect();
        block_on(queue.extend_all(&jobs, lease), || interrupt.check())
    }
}

/// Declares verbs that are those of [`crate::Queue`], waited for.
macro_rules! verbs {
    ($($name:ident($($argument:ident: $given:ty),*) -> $answer:ty;)*) => {
        impl Queue {$(
            #[doc = concat!("See [`crate::Queue::", stringify!($name), "`].")]
            pub fn $name<I: Interrupt>(&self, $($argument: $given,)* interrupt: &mut I) -> Result<$answer, I::Error> {
                self.wait_for(|queue| async move { queue.$name($($argument),*).await }, interrupt)
            }
        )*}
    };
}

verbs! {
    push(job: NewJob) -> Pushed;
    push_batch(jobs: Vec<NewJob>) -> Vec<Pushed>;
    settle_all(settlements: &[Settlement<'_>]) -> Vec<bool>;
    cancel(id: &str) -> Option<Cancelled>;
    cancel_key(key: &str) -> Option<Cancelled>;
    cancel_only(id: &str, states: &[State]) -> Option<Cancelled>;
    cancel_key_only(key: &str, states: &[State]) -> Option<Cancelled>;
    reschedule(id: &str, when: When) -> String;
    reschedule_key(key: &str, when: When) -> String;
    requeue(ids: &[String]) -> Vec<Requeued>;
    requeue_all() -> u64;
    purge(state: State) -> u64;
    clear() -> u64;
    pause() -> ();
    resume() -> ();
    promote() -> u64;
    reclaim() -> u64;
    keep_failed(max: u64, age: Duration) -> ();
    delete(jobs: u64) -> ();
    set_limits(limits: &Limits) -> ();
    limits() -> Limits;
    counts() -> Counts;
    peek(state: State, offset: usize, limit: usize) -> Vec<JobView>;
    search(state: State, filter: &Filter, cursor: Option<&str>, limit: usize) -> SearchPage;
    workers() -> Vec<WorkerInfo>;
    rates(within: Duration) -> Rates;
    keep_history(jobs: u64, age: Duration) -> ();
    trace(id: &str) -> Option<Trace>;
    wait_result(id: &str, timeout: Option<Duration>) -> Data;
    find(id: &str) -> Option<Found>;
    find_key(key: &str) -> Option<Found>;
    audit(options: AuditOptions) -> AuditReport;
    set_clock(now: Millis) -> ();
}

/// A reserved job of a blocking queue; see [`crate::Job`].
#[derive(Clone)]
pub struct Job {
    job: Arc<AsyncJob>,
    queue: Queue,
}

impl Job {
    /// The job as the async API gives it: envelope, token, attempt.
    pub fn reserved(&self) -> &AsyncJob {
        &self.job
    }

    /// The same, to be held without a copy.
    #[doc(hidden)] // for the skins
    pub fn shared(&self) -> Arc<AsyncJob> {
        Arc::clone(&self.job)
    }

    /// The queue that it came from.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Gives back jobs whose caller was interrupted just when he got them, as if they had not been reserved: a call is asked ten times
    /// a second whether it was, and its answer may come before. Takes a second at most.
    #[doc(hidden)] // for the skins
    pub fn give_back(jobs: &[Self]) {
        let jobs: Vec<AsyncJob> = jobs.iter().map(|job| AsyncJob::clone(&job.job)).collect();
        part_with(async move { drop(AsyncJob::give_back(&jobs).await) });
    }

    /// What this process makes the calls about it with.
    fn part(&self) -> Result<Part, Error> {
        self.queue.inner().map(|queue| queue.first_and_others().0.clone())
    }

    /// See [`crate::Job::ack`].
    pub fn ack<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        self.settle(Outcome::Done, "", interrupt).map(|_| ())
    }

    /// See [`crate::Job::ack_with`].
    pub fn ack_with<T: serde::Serialize + ?Sized, I: Interrupt>(
        &self,
        result: &T,
        interrupt: &mut I,
    ) -> Result<(), I::Error> {
        let result = self.job.result(result)?;
        self.ack_with_data(result, interrupt)
    }

    /// See [`crate::Job::ack_with_data`].
    pub fn ack_with_data<I: Interrupt>(&self, result: Option<Data>, interrupt: &mut I) -> Result<(), I::Error> {
        self.settle_as(Settlement { result, ..Settlement::done(&self.job) }, interrupt).map(|_| ())
    }

    fn settle_as<I: Interrupt>(&self, settlement: Settlement<'_>, interrupt: &mut I) -> Result<Next, I::Error> {
        let part = self.part()?;
        block_on(part.settle_job(settlement), || interrupt.check())
    }

    /// See [`crate::Job::settle`].
    pub fn settle<I: Interrupt>(&self, outcome: Outcome, error: &str, interrupt: &mut I) -> Result<Next, I::Error> {
        self.settle_as(Settlement { outcome, error, ..Settlement::done(&self.job) }, interrupt)
    }

    /// See [`crate::Job::settle_rewritten`].
    pub fn settle_rewritten<I: Interrupt>(
        &self,
        outcome: Outcome,
        changed: Envelope,
        interrupt: &mut I,
    ) -> Result<Next, I::Error> {
        let error = changed.error.clone();
        let rewritten = Some(changed);
        self.settle_as(Settlement { outcome, error: &error, rewritten, ..Settlement::done(&self.job) }, interrupt)
    }

    /// See [`crate::Job::progress`].
    pub fn progress<I: Interrupt>(&self, fraction: f64, text: &str, interrupt: &mut I) -> Result<(), I::Error> {
        let part = self.part()?;
        block_on(part.note_progress(&self.job, fraction, text), || interrupt.check())
    }

    /// See [`crate::Job::note_start`].
    pub fn note_start<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        let part = self.part()?;
        block_on(part.note_start(&self.job), || interrupt.check())
    }

    /// See [`crate::Job::renew`].
    pub fn renew(&self, lease: Duration) -> Result<Renewal, Error> {
        Renewal::of(&self.job, &self.part()?, lease)
    }

    /// See [`crate::Job::extend`].
    pub fn extend<I: Interrupt>(&self, lease: Duration, interrupt: &mut I) -> Result<(), I::Error> {
        let part = self.part()?;
        block_on(part.extend_one(&self.job, lease), || interrupt.check())
    }
}
