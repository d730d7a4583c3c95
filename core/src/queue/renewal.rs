//! The renewal of the lease of one reserved job, beside whatever its holder does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::lease::check_lease;
use super::{Job, Part};
use crate::process::id::id;
use crate::process::runtime::background;
use crate::value::error::Error;

/// Renews the lease of a reserved job in the background until it is dropped: see [`Job::renew`].
#[must_use = "the lease is renewed as long as this lives"]
#[derive(Debug)]
pub struct Renewal {
    task: AbortHandle,
    pid: u32,
}

impl Job {
    /// Renews its lease from now on, three times a lease of this length (1 ms to 24 h), on a thread of its own: until what this gives is
    /// dropped, the job is settled, its lease is lost, or its own `timeout` is over, counted from now. Then the lease ends by itself.
    ///
    /// Errors: `InvalidArgument` for a lease out of range, `Internal` when the system gives no thread.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use duly::{Queue, ReserveOptions};
    ///
    /// # async fn doc(queue: Queue) -> Result<(), duly::Error> {
    /// let lease = Duration::from_secs(10);
    /// for job in queue.reserve(&ReserveOptions::new().lease(lease)).await? {
    ///     let _renewal = job.renew(lease)?;
    ///     // However long it takes.
    ///     job.ack().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(&self, lease: Duration) -> Result<Renewal, Error> {
        Renewal::of(&Arc::new(self.clone()), self.part(), lease)
    }
}

impl Renewal {
    /// `part`: this process's own way to the queue.
    pub(crate) fn of(job: &Arc<Job>, part: &Part, lease: Duration) -> Result<Self, Error> {
        check_lease(lease).map_err(part.during("extend"))?;
        // Of the background: behind no large call, and in a runtime that always runs.
        let beside = part.client.shared.beside.queue(part)?;
        let task = background()?.spawn(renew(Arc::clone(job), beside, lease)).abort_handle();
        Ok(Self { task, pid: id() })
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        // In a forked child the task is the parent's.
        if self.pid == id() {
            self.task.abort();
        }
    }
}

async fn renew(job: Arc<Job>, part: Part, lease: Duration) {
    let held = [(job.id().to_owned(), job.token())];
    let begun = Instant::now();
    let until = job.envelope.timeout.and_then(|timeout| begun.checked_add(timeout.to_duration()));
    let renewals = async {
        let mut next = begun + lease / 3;
        loop {
            tokio::time::sleep_until(next.into()).await;
            if job.is_settled() || job.is_lost() {
                return;
            }
            next = Instant::now() + lease / 3;
            // An outage is not the end of a lease: whoever holds it when the server is back goes on. A job that is held was reserved,
            // so the server has let this client in before.
            match part.extend_leases_until(&held, lease, &Error::is_of_the_server).await {
                Ok(kept) if kept.first() == Some(&true) => {}
                Ok(_) if !job.is_being_settled() => return job.settling().lost(),
                _ => return,
            }
        }
    };
    match until {
        Some(until) => _ = tokio::time::timeout_at(until.into(), renewals).await,
        None => renewals.await,
    }
}
