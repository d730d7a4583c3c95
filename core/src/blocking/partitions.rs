//! The blocking twin of [`crate::Partitions`].

use std::sync::Arc;
use std::time::Duration;

use super::{Client, Interrupt, Job, Queue};
use crate::operate::{
    AuditOptions, AuditReport, Cancelled, Counts, Found, JobView, Limits, Requeued, State, WorkerInfo,
};
use crate::process::runtime::{PerProcess, block_on};
use crate::queue::{Job as AsyncJob, MAX_BATCH, NewJob, PushSummary, Pushed, ReserveOptions, Settlement};
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::time::{Millis, When};

/// A blocking queue in parts; see [`crate::Partitions`] for what that costs.
#[derive(Clone)]
pub struct Partitions {
    client: Client,
    name: Arc<str>,
    parts: Arc<[Queue]>,
    made: Arc<PerProcess<crate::partitions::Partitions>>,
}

impl Client {
    /// See [`crate::Client::partitioned_queue`]. Errors: `InvalidArgument`.
    pub fn partitioned_queue(&self, name: &str, count: u16) -> Result<Partitions, Error> {
        let checked = self.inner()?.partitioned_queue(name, count)?;
        let part = |part: &crate::queue::Queue| Queue::new(self, part.name());
        Ok(Partitions {
            client: self.clone(),
            name: name.into(),
            parts: checked.parts().map(part).collect(),
            made: Arc::new(PerProcess::new()),
        })
    }
}

impl Partitions {
    /// The name of the whole.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parts. Each is a queue of its own.
    pub fn parts(&self) -> &[Queue] {
        &self.parts
    }

    fn inner(&self) -> Result<Arc<crate::partitions::Partitions>, Error> {
        let count = u16::try_from(self.parts.len()).unwrap_or(u16::MAX);
        self.made.get(|| self.client.inner()?.partitioned_queue(&self.name, count))
    }

    /// See [`crate::Queue::push`].
    pub fn push<I: Interrupt>(&self, job: NewJob, interrupt: &mut I) -> Result<Pushed, I::Error> {
        let queue = self.inner()?;
        block_on(queue.push(job), || interrupt.check())
    }

    /// See [`crate::Partitions::push_batch`].
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

    /// See [`crate::Partitions::reserve`].
    pub fn reserve<I: Interrupt>(&self, options: &ReserveOptions, interrupt: &mut I) -> Result<Vec<Job>, I::Error> {
        let queue = self.inner()?;
        let jobs = block_on(queue.reserve(options), || interrupt.check())?;
        let in_part = |job: AsyncJob| {
            let part = self.parts.iter().find(|part| part.name() == job.queue().name()).cloned();
            let queue = part.ok_or_else(|| Error::new(ErrorKind::Internal, "a job of no partition"))?;
            Ok(Job { job: job.into(), queue })
        };
        jobs.into_iter().map(in_part).collect::<Result<_, Error>>().map_err(I::Error::from)
    }

    /// See [`crate::Partitions::ack_all`].
    pub fn ack_all<I: Interrupt>(&self, jobs: &[Job], interrupt: &mut I) -> Result<Vec<bool>, I::Error> {
        let done: Vec<_> = jobs.iter().map(|job| Settlement::done(&job.job)).collect();
        self.settle_all(&done, interrupt)
    }

    /// See [`crate::Partitions::settle_all`].
    pub fn settle_all<I: Interrupt>(
        &self,
        settlements: &[Settlement<'_>],
        interrupt: &mut I,
    ) -> Result<Vec<bool>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.settle_all(settlements), || interrupt.check())
    }

    /// See [`crate::Partitions::extend_all`].
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

    /// See [`crate::Partitions::cancel`].
    pub fn cancel<I: Interrupt>(&self, id: &str, interrupt: &mut I) -> Result<Option<Cancelled>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.cancel(id), || interrupt.check())
    }

    /// See [`crate::Partitions::cancel_key`].
    pub fn cancel_key<I: Interrupt>(&self, key: &str, interrupt: &mut I) -> Result<Option<Cancelled>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.cancel_key(key), || interrupt.check())
    }

    /// See [`crate::Partitions::reschedule`].
    pub fn reschedule<I: Interrupt>(&self, id: &str, when: When, interrupt: &mut I) -> Result<String, I::Error> {
        let queue = self.inner()?;
        block_on(queue.reschedule(id, when), || interrupt.check())
    }

    /// See [`crate::Partitions::reschedule_key`].
    pub fn reschedule_key<I: Interrupt>(&self, key: &str, when: When, interrupt: &mut I) -> Result<String, I::Error> {
        let queue = self.inner()?;
        block_on(queue.reschedule_key(key, when), || interrupt.check())
    }

    /// See [`crate::Partitions::requeue`].
    pub fn requeue<I: Interrupt>(&self, ids: &[String], interrupt: &mut I) -> Result<Vec<Requeued>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.requeue(ids), || interrupt.check())
    }

    /// See [`crate::Partitions::requeue_all`].
    pub fn requeue_all<I: Interrupt>(&self, interrupt: &mut I) -> Result<u64, I::Error> {
        let queue = self.inner()?;
        block_on(queue.requeue_all(), || interrupt.check())
    }

    /// See [`crate::Partitions::purge`].
    pub fn purge<I: Interrupt>(&self, state: State, interrupt: &mut I) -> Result<u64, I::Error> {
        let queue = self.inner()?;
        block_on(queue.purge(state), || interrupt.check())
    }

    /// See [`crate::Partitions::pause`].
    pub fn pause<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.pause(), || interrupt.check())
    }

    /// See [`crate::Partitions::resume`].
    pub fn resume<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.resume(), || interrupt.check())
    }

    /// See [`crate::Partitions::promote`].
    pub fn promote<I: Interrupt>(&self, interrupt: &mut I) -> Result<u64, I::Error> {
        let queue = self.inner()?;
        block_on(queue.promote(), || interrupt.check())
    }

    /// See [`crate::Partitions::reclaim`].
    pub fn reclaim<I: Interrupt>(&self, interrupt: &mut I) -> Result<u64, I::Error> {
        let queue = self.inner()?;
        block_on(queue.reclaim(), || interrupt.check())
    }

    /// See [`crate::Partitions::keep_failed`].
    pub fn keep_failed<I: Interrupt>(&self, max: u64, age: Duration, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.keep_failed(max, age), || interrupt.check())
    }

    /// See [`crate::Partitions::set_limits`].
    pub fn set_limits<I: Interrupt>(&self, limits: &Limits, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.set_limits(limits), || interrupt.check())
    }

    /// See [`crate::Partitions::limits`].
    pub fn limits<I: Interrupt>(&self, interrupt: &mut I) -> Result<Limits, I::Error> {
        let queue = self.inner()?;
        block_on(queue.limits(), || interrupt.check())
    }

    /// See [`crate::Partitions::counts`].
    pub fn counts<I: Interrupt>(&self, interrupt: &mut I) -> Result<Counts, I::Error> {
        let queue = self.inner()?;
        block_on(queue.counts(), || interrupt.check())
    }

    /// See [`crate::Partitions::peek`].
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

    /// See [`crate::Partitions::workers`].
    pub fn workers<I: Interrupt>(&self, interrupt: &mut I) -> Result<Vec<WorkerInfo>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.workers(), || interrupt.check())
    }

    /// See [`crate::Partitions::wait_result`].
    pub fn wait_result<I: Interrupt>(
        &self,
        id: &str,
        timeout: Option<Duration>,
        interrupt: &mut I,
    ) -> Result<Data, I::Error> {
        let queue = self.inner()?;
        block_on(queue.wait_result(id, timeout), || interrupt.check())
    }

    /// See [`crate::Partitions::find`].
    pub fn find<I: Interrupt>(&self, id: &str, interrupt: &mut I) -> Result<Option<Found>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.find(id), || interrupt.check())
    }

    /// See [`crate::Partitions::find_key`].
    pub fn find_key<I: Interrupt>(&self, key: &str, interrupt: &mut I) -> Result<Option<Found>, I::Error> {
        let queue = self.inner()?;
        block_on(queue.find_key(key), || interrupt.check())
    }

    /// See [`crate::Partitions::audit`].
    pub fn audit<I: Interrupt>(&self, options: AuditOptions, interrupt: &mut I) -> Result<AuditReport, I::Error> {
        let queue = self.inner()?;
        block_on(queue.audit(options), || interrupt.check())
    }

    /// See [`crate::Partitions::set_clock`].
    pub fn set_clock<I: Interrupt>(&self, now: Millis, interrupt: &mut I) -> Result<(), I::Error> {
        let queue = self.inner()?;
        block_on(queue.set_clock(now), || interrupt.check())
    }
}
