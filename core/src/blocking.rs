//! The same words without `async`: each call returns when it is done. The Python and PHP skins are built on this.
//!
//! Safe after a fork: a client that was made before one makes itself anew in the child at its first call there.
//!
//! A call that waits asks its [`Interrupt`] ten times a second whether to give up, which is how Ctrl-C reaches Python and
//! signals reach PHP.

mod long_push;
mod partitions;
#[doc(hidden)] // for the skins
pub mod process;
mod worker;

#[doc(hidden)] // for the skins
pub use long_push::LongPush;
pub use partitions::Partitions;
pub use worker::{Engine, Executor, NextRun, Run};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::format::envelope::Envelope;
use crate::operate::{
    AuditOptions, AuditReport, Cancelled, Counts, Found, JobView, Limits, Requeued, State, WorkerInfo,
};
use crate::partitions::check_queue_or_part;
use crate::process::runtime::{PerProcess, block_on};
use crate::queue::{
    ClientBuilder, Job as AsyncJob, MAX_BATCH, NewJob, PushSummary, Pushed, QueueWeight, ReserveOptions, Selection,
    Settlement, client_closed,
};
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::name;
use crate::value::retry::{Next, Outcome};
use crate::value::time::{Millis, When};

/// What a waiting call asks ten times a second; an error ends the wait and is what the call returns.
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
}

impl Client {
    /// A client with these settings. Nothing is sent: the first call connects.
    ///
    /// Errors: `InvalidArgument`.
    pub fn new(builder: ClientBuilder) -> Result<Self, Error> {
        let client =
            Self { shared: Arc::new(Shared { builder, made: PerProcess::new(), is_closed: AtomicBool::new(false) }) };
        client.inner()?;
        Ok(client)
    }

    /// A client for this URL, with a first round trip to the server.
    pub fn connect(url: &str) -> Result<Self, Error> {
        let client = Self::new(crate::queue::Client::builder().url(url))?;
        client.ping(&mut Uninterrupted)?;
        Ok(client)
    }

    /// See [`crate::Client::close`].
    pub fn close<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        let Some(client) = self.shared.made.known() else { return Ok(()) };
        let close = async {
            client.close().await;
            Ok(())
        };
        block_on(close, || interrupt.check())
    }

    fn inner(&self) -> Result<Arc<crate::queue::Client>, Error> {
        if self.shared.is_closed.load(Ordering::Relaxed) {
            return Err(client_closed());
        }
        self.shared.made.get(|| self.shared.builder.clone().build())
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
        let from = |job: &AsyncJob| queues.iter().find(|(queue, _)| queue.name() == job.queue().name());
        Ok(jobs
            .into_iter()
            .filter_map(|job| from(&job).map(|(queue, _)| Job { job: job.clone().into(), queue: queue.clone() }))
            .collect())
    }

    /// The queue of this name. Errors: `InvalidArgument`.
    pub fn queue(&self, name: &str) -> Result<Queue, Error> {
        name::check_queue(name)?;
        Ok(Queue::new(self, name))
    }

    pub(crate) fn queue_or_part(&self, name: &str) -> Result<Queue, Error> {
        check_queue_or_part(name)?;
        Ok(Queue::new(self, name))
    }
}

/// A blocking queue; see [`crate::Queue`] for what each verb moves and which errors it gives.
#[derive(Clone)]
pub struct Queue {
    client: Client,
    name: Arc<str>,
    made: Arc<PerProcess<crate::queue::Queue>>,
}

impl Queue {
    fn new(client: &Client, name: &str) -> Self {
        Self { client: client.clone(), name: name.into(), made: Arc::new(PerProcess::new()) }
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn inner(&self) -> Result<Arc<crate::queue::Queue>, Error> {
        // The name was checked when this was made; a part of a queue has one that nobody else may give.
        self.made.get(|| Ok(crate::queue::Queue::new(crate::queue::Client::clone(&*self.client.inner()?), &self.name)))
    }

    /// See [`crate::Queue::push`].
    pub fn push<I: Interrupt>(&self, job: NewJob, interrupt: &mut I) -> Result<Pushed, I::Error> {
        let queue = self.inner()?;
        block_on(queue.push(job), || interrupt.check())
    }

    /// See [`crate::Queue::push_batch`].
    pub fn push_batch<I: Interrupt>(&self, jobs: Vec<NewJob>, interrupt: &mut I) -> Result<Vec<Pushed>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.push_batch(jobs), || interrupt.check())
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
        let mut jobs = jobs.into_iter();
        loop {
            let batch: Vec<NewJob> = jobs.by_ref().take(MAX_BATCH).collect();
            if batch.is_empty() {
                return Ok(summary);
            }
            let pushed = self.push_some(batch, summary.total(), interrupt)?;
            summary.add(&pushed);
            progress(&pushed);
        }
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
        Ok(jobs.into_iter().map(|job| Job { job: job.into(), queue: self.clone() }).collect())
    }

    /// See [`crate::Queue::ack_all`].
    pub fn ack_all<I: Interrupt>(&self, jobs: &[Job], interrupt: &mut I) -> Result<Vec<bool>, I::Error> {
        let done: Vec<_> = jobs.iter().map(|job| Settlement::done(&job.job)).collect();
        self.settle_all(&done, interrupt)
    }

    /// See [`crate::Queue::settle_all`].
    pub fn settle_all<I: Interrupt>(
        &self,
        settlements: &[Settlement<'_>],
        interrupt: &mut I,
    ) -> Result<Vec<bool>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.settle_all(settlements), || interrupt.check())
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

    /// See [`crate::Queue::cancel`].
    pub fn cancel<I: Interrupt>(&self, id: &str, interrupt: &mut I) -> Result<Option<Cancelled>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.cancel(id), || interrupt.check())
    }

    /// See [`crate::Queue::cancel_key`].
    pub fn cancel_key<I: Interrupt>(&self, key: &str, interrupt: &mut I) -> Result<Option<Cancelled>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.cancel_key(key), || interrupt.check())
    }

    /// See [`crate::Queue::reschedule`].
    pub fn reschedule<I: Interrupt>(&self, id: &str, when: When, interrupt: &mut I) -> Result<String, I::Error> {
        let queue = self.inner()?;
        block_on(queue.reschedule(id, when), || interrupt.check())
    }

    /// See [`crate::Queue::reschedule_key`].
    pub fn reschedule_key<I: Interrupt>(&self, key: &str, when: When, interrupt: &mut I) -> Result<String, I::Error> {
        let queue = self.inner()?;
        block_on(queue.reschedule_key(key, when), || interrupt.check())
    }

    /// See [`crate::Queue::requeue`].
    pub fn requeue<I: Interrupt>(&self, ids: &[String], interrupt: &mut I) -> Result<Vec<Requeued>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.requeue(ids), || interrupt.check())
    }

    /// See [`crate::Queue::requeue_all`].
    pub fn requeue_all<I: Interrupt>(&self, interrupt: &mut I) -> Result<u64, I::Error> {
        let queue = self.inner()?;
        block_on(queue.requeue_all(), || interrupt.check())
    }

    /// See [`crate::Queue::purge`].
    pub fn purge<I: Interrupt>(&self, state: State, interrupt: &mut I) -> Result<u64, I::Error> {
        let queue = self.inner()?;
        block_on(queue.purge(state), || interrupt.check())
    }

    /// See [`crate::Queue::pause`].
    pub fn pause<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.pause(), || interrupt.check())
    }

    /// See [`crate::Queue::resume`].
    pub fn resume<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.resume(), || interrupt.check())
    }

    /// See [`crate::Queue::promote`].
    pub fn promote<I: Interrupt>(&self, interrupt: &mut I) -> Result<u64, I::Error> {
        let queue = self.inner()?;
        block_on(queue.promote(), || interrupt.check())
    }

    /// See [`crate::Queue::reclaim`].
    pub fn reclaim<I: Interrupt>(&self, interrupt: &mut I) -> Result<u64, I::Error> {
        let queue = self.inner()?;
        block_on(queue.reclaim(), || interrupt.check())
    }

    /// See [`crate::Queue::keep_failed`].
    pub fn keep_failed<I: Interrupt>(&self, max: u64, age: Duration, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.keep_failed(max, age), || interrupt.check())
    }

    /// See [`crate::Queue::set_limits`].
    pub fn set_limits<I: Interrupt>(&self, limits: &Limits, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.set_limits(limits), || interrupt.check())
    }

    /// See [`crate::Queue::limits`].
    pub fn limits<I: Interrupt>(&self, interrupt: &mut I) -> Result<Limits, I::Error> {
        let queue = self.inner()?;
        block_on(queue.limits(), || interrupt.check())
    }

    /// See [`crate::Queue::counts`].
    pub fn counts<I: Interrupt>(&self, interrupt: &mut I) -> Result<Counts, I::Error> {
        let queue = self.inner()?;
        block_on(queue.counts(), || interrupt.check())
    }

    /// See [`crate::Queue::peek`].
    pub fn peek<I: Interrupt>(
        &self,
        state: State,
        offset: usize,
        limit: usize,
        interrupt: &mut I,
    ) -> Result<Vec<JobView>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.peek(state, offset, limit), || interrupt.check())
    }

    /// See [`crate::Queue::workers`].
    pub fn workers<I: Interrupt>(&self, interrupt: &mut I) -> Result<Vec<WorkerInfo>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.workers(), || interrupt.check())
    }

    /// See [`crate::Queue::wait_result`].
    pub fn wait_result<I: Interrupt>(
        &self,
        id: &str,
        timeout: Option<Duration>,
        interrupt: &mut I,
    ) -> Result<Data, I::Error> {
        let queue = self.inner()?;
        block_on(queue.wait_result(id, timeout), || interrupt.check())
    }

    /// See [`crate::Queue::find`].
    pub fn find<I: Interrupt>(&self, id: &str, interrupt: &mut I) -> Result<Option<Found>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.find(id), || interrupt.check())
    }

    /// See [`crate::Queue::find_key`].
    pub fn find_key<I: Interrupt>(&self, key: &str, interrupt: &mut I) -> Result<Option<Found>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.find_key(key), || interrupt.check())
    }

    /// See [`crate::Queue::audit`].
    pub fn audit<I: Interrupt>(&self, options: AuditOptions, interrupt: &mut I) -> Result<AuditReport, I::Error> {
        let queue = self.inner()?;
        block_on(queue.audit(options), || interrupt.check())
    }

    /// See [`crate::Queue::set_clock`].
    pub fn set_clock<I: Interrupt>(&self, now: Millis, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.set_clock(now), || interrupt.check())
    }
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

    /// The queue that it came from.
    pub fn queue(&self) -> &Queue {
        &self.queue
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
        let queue = self.queue.inner()?;
        block_on(queue.settle_job(settlement), || interrupt.check())
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
        let queue = self.queue.inner()?;
        block_on(queue.note_progress(&self.job, fraction, text), || interrupt.check())
    }

    /// See [`crate::Job::extend`].
    pub fn extend<I: Interrupt>(&self, lease: Duration, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.queue.inner()?;
        block_on(queue.extend_one(&self.job, lease), || interrupt.check())
    }
}
