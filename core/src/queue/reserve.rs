//! Reserving from one queue or from several: leases for jobs that are ready.

use std::sync::Arc;
use std::time::Duration;

use crate::queue::client::Client;
use crate::queue::job::Job;
use crate::queue::lease::{DEFAULT_LEASE, check_lease};
use crate::queue::reserve_loop::{reserve_from_parts, reserve_what_is_ready};
use crate::queue::{MAX_BATCH, Queue, Whole};
use crate::value::error::Error;

/// The largest weight of a queue.
pub const MAX_WEIGHT: u32 = 1000;

/// Options of a reserve.
#[derive(Debug, Clone)]
pub struct ReserveOptions {
    max: usize,
    wait: Duration,
    lease: Duration,
}

impl Default for ReserveOptions {
    fn default() -> Self {
        Self { max: 1, wait: Duration::ZERO, lease: DEFAULT_LEASE }
    }
}

impl ReserveOptions {
    /// One job, without waiting, for [`DEFAULT_LEASE`].
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many jobs (1 to 1,000, default 1); fewer when their records make up 4 MiB.
    #[must_use]
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// How long to wait for a first job when there is none (default: not at all).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long the lease is (1 ms to 24 h, default 10 s). A worker that has neither settled nor extended it by then has
    /// lost the job.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    pub(crate) fn wait_time(&self) -> Duration {
        self.wait
    }

    pub(crate) fn lease_time(&self) -> Duration {
        self.lease
    }

    pub(crate) fn most(&self) -> usize {
        self.max
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.max == 0 || self.max > MAX_BATCH {
            return Err(Error::invalid(format!("a reserve takes 1 to {MAX_BATCH} jobs, not {}", self.max)));
        }
        check_lease(self.lease)
    }
}

impl Queue {
    /// Leases jobs that are ready, the smallest priority number and then the oldest first; also promotes due jobs and takes
    /// back the jobs of dead workers.
    ///
    /// The list is empty if there was no job until the wait was over, or if the queue is paused. A job whose record cannot
    /// be decoded goes to `failed` with the reason, and blocks no other job. The parts of a partitioned queue are asked in a new
    /// random order each time. Errors: `InvalidArgument`, and those of the connection; after `Timeout` the jobs that may have
    /// been leased come back when their lease ends.
    pub async fn reserve(&self, options: &ReserveOptions) -> Result<Vec<Job>, Error> {
        options.check().map_err(self.during("reserve"))?;
        match &self.whole {
            Whole::One(part) if options.wait.is_zero() => reserve_what_is_ready(part, options).await,
            _ => {
                let queues = [(self.each_part(), 1)];
                Box::pin(async move { reserve_from_parts(&queues, Selection::Strict, options).await }).await
            }
        }
    }
}

/// A queue to reserve from, among others.
#[derive(Debug, Clone)]
pub struct QueueWeight {
    /// The queue.
    pub queue: Queue,
    /// How often it comes first under [`Selection::Weighted`], in proportion to the others: 1 to 1,000.
    pub weight: u32,
}

impl QueueWeight {
    /// This queue with this weight.
    pub fn new(queue: Queue, weight: u32) -> Self {
        Self { queue, weight }
    }
}

/// Which of several queues goes first.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Selection {
    /// As they are listed: a later queue gets a turn only when the earlier ones are empty.
    #[default]
    Strict,
    /// A new random order each time, in which a queue of weight 3 comes before one of weight 1 three times out of four. None
    /// starves, and none is left out: the next queues fill up what the first has not.
    Weighted,
}

impl Client {
    /// Leases jobs that are ready in any of these queues, up to `max` together, and waits for all of them at once.
    ///
    /// A partitioned queue is asked part by part, in a new random order each time. One script call per queue or part that is looked
    /// at; while there is nothing to do, one blocked connection, in a cluster one per queue or part. If a queue cannot be read
    /// but another one returns jobs, the call returns the jobs, and the next call returns the error. Errors: those of [`Queue::reserve`]; `InvalidArgument` for no queue, a weight out of range, or
    /// another client's queue.
    ///
    /// ```no_run
    /// use duly::{QueueWeight, ReserveOptions, Selection};
    ///
    /// # async fn doc(client: duly::Client) -> Result<(), duly::Error> {
    /// let queues = [QueueWeight::new(client.queue("mail")?, 3), QueueWeight::new(client.queue("reports")?, 1)];
    /// let jobs = client.reserve_from(&queues, Selection::Weighted, &ReserveOptions::new().max(10)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve_from(
        &self,
        queues: &[QueueWeight],
        selection: Selection,
        options: &ReserveOptions,
    ) -> Result<Vec<Job>, Error> {
        let refused = |message: &'static str| Err(Error::invalid(message).during("reserve"));
        if queues.is_empty() {
            return refused("give at least one queue to reserve from");
        }
        if queues.iter().any(|one| one.weight == 0 || one.weight > MAX_WEIGHT) {
            return refused("the weight of a queue is 1 to 1000");
        }
        if queues.iter().any(|one| !Arc::ptr_eq(&one.queue.client().shared, &self.shared)) {
            return refused("all queues of one reserve must come from the client that reserves");
        }
        options.check().map_err(|error| error.during("reserve"))?;
        let queues: Vec<_> = queues.iter().map(|one| (one.queue.each_part(), one.weight)).collect();
        reserve_from_parts(&queues, selection, options).await
    }
}
