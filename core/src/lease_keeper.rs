//! Renews the leases of running jobs from a thread of its own, whatever the interpreter does meanwhile.
//!
//! A handler may keep Python's GIL or PHP's only thread busy for longer than a lease. This thread has its own runtime and
//! its own connection and needs neither of them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::client::{Client, ClientBuilder};
use crate::consume::{Job, check_lease};
use crate::error::{Error, ErrorKind};
use crate::queue::Queue;
use crate::runtime::PerProcess;
use crate::time::Millis;

/// Extends the leases of the jobs that it holds every third of a lease, until they are let go or their timeout is over.
///
/// The thread starts with the first job and ends with this value. After a fork the child's keeper is empty and starts anew.
///
/// ```no_run
/// use std::time::Duration;
/// use duly::blocking::{Client, LeaseKeeper, Uninterrupted};
///
/// let lease = Duration::from_secs(10);
/// let builder = duly::Client::builder().url("redis://127.0.0.1:6379");
/// let queue = Client::new(builder.clone())?.queue("orders")?;
/// let keeper = LeaseKeeper::new(builder, lease)?;
/// for job in queue.reserve(&duly::ReserveOptions::new().lease(lease), &mut Uninterrupted)? {
///     keeper.hold(job.reserved())?;
///     // ... work for as long as it takes ...
///     keeper.let_go(job.reserved());
///     job.ack(&mut Uninterrupted)?;
/// }
/// # Ok::<(), duly::Error>(())
/// ```
pub struct LeaseKeeper {
    builder: ClientBuilder,
    lease: Duration,
    running: PerProcess<Running>,
}

/// The thread's end of this process; dropping it ends the thread.
struct Running {
    shared: Arc<Shared>,
}

struct Shared {
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    jobs: HashMap<Lease, HeldJob>,
    lost: Vec<String>,
    ended: bool,
}

/// One lease: queue, job, token.
type Lease = (String, String, u64);

struct HeldJob {
    job: Job,
    /// When its timeout is over; from then on nobody renews it.
    until: Option<Instant>,
}

impl LeaseKeeper {
    /// A keeper that sets leases to this long with each renewal. Nothing is sent, and no thread runs yet.
    ///
    /// Errors: `InvalidArgument`.
    pub fn new(builder: ClientBuilder, lease: Duration) -> Result<Self, Error> {
        check_lease(lease)?;
        // A renewal that hangs on must not outlive the lease: the next one is a better try.
        let builder = builder.deadline(lease / 2);
        Ok(Self { builder, lease, running: PerProcess::new() })
    }

    /// Renews this job's lease from now on.
    ///
    /// Errors: those of making a client, and `Internal` if the system gives no thread.
    pub fn hold(&self, job: &Job) -> Result<(), Error> {
        let running = self.running.get(|| Running::start(self.builder.clone(), self.lease))?;
        let until =
            job.envelope.timeout.map(Millis::to_duration).and_then(|timeout| Instant::now().checked_add(timeout));
        let mut held = running.shared.lock();
        let was_empty = held.jobs.is_empty();
        held.jobs.insert(lease_of(job), HeldJob { job: job.clone(), until });
        drop(held);
        if was_empty {
            running.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Renews this job's lease no more.
    pub fn let_go(&self, job: &Job) {
        if let Ok(running) = self.running.get(|| Err(Error::new(ErrorKind::Internal, "nothing is held"))) {
            running.shared.lock().jobs.remove(&lease_of(job));
        }
    }

    /// The ids of jobs whose lease turned out to be lost since the last call: cancelled, or taken by another worker.
    pub fn lost(&self) -> Vec<String> {
        match self.running.get(|| Err(Error::new(ErrorKind::Internal, "nothing is held"))) {
            Ok(running) => std::mem::take(&mut running.shared.lock().lost),
            Err(_) => Vec::new(),
        }
    }
}

impl std::fmt::Debug for LeaseKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseKeeper").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl Running {
    fn start(builder: ClientBuilder, lease: Duration) -> Result<Self, Error> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Internal, "the system gives no thread to renew leases").caused_by(error)
        };
        let shared = Arc::new(Shared { held: Mutex::default(), changed: Condvar::new() });
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let client = builder.build()?;
        let for_thread = Arc::clone(&shared);
        let renew = move || {
            // Connects now, so that the first renewal of a short lease need not. If it fails, the renewal tries again.
            drop(runtime.block_on(client.ping()));
            while let Some(jobs) = for_thread.next_round(lease / 3) {
                let lost = runtime.block_on(renew(&client, &jobs, lease));
                for_thread.note_lost(&lost);
            }
        };
        std::thread::Builder::new().name("duly-leases".to_owned()).spawn(renew).map_err(failed)?;
        Ok(Self { shared })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until it is time to renew, and gives the jobs; nothing when the keeper has ended.
    fn next_round(&self, every: Duration) -> Option<Vec<Job>> {
        let mut held = self.lock();
        // Without a job there is nothing to wake up for.
        while held.jobs.is_empty() && !held.ended {
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        let round = Instant::now() + every;
        while !held.ended {
            let left = round.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let now = Instant::now();
                held.jobs.retain(|_, held| held.until.is_none_or(|until| now < until));
                return Some(held.jobs.values().map(|held| held.job.clone()).collect());
            }
            held = self.changed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn note_lost(&self, lost: &[Job]) {
        let mut held = self.lock();
        for job in lost {
            // A job that was let go meanwhile was settled: its lease is not lost.
            if held.jobs.remove(&lease_of(job)).is_some() {
                held.lost.push(job.id().to_owned());
            }
        }
    }
}

/// Renews each queue's leases with one call; gives those that are no longer ours. An error is nobody's loss: the next round
/// comes before the lease is over.
async fn renew(client: &Client, jobs: &[Job], lease: Duration) -> Vec<Job> {
    let mut by_queue: HashMap<&str, Vec<Job>> = HashMap::new();
    for job in jobs {
        by_queue.entry(job.queue().name()).or_default().push(job.clone());
    }
    let mut lost = Vec::new();
    for (name, jobs) in by_queue {
        // The name was checked when the job was reserved; a part of a queue has one that nobody else may give.
        let queue = Queue::new(client.clone(), name.to_owned());
        if let Ok(held) = queue.extend_all(&jobs, lease).await {
            lost.extend(jobs.into_iter().zip(held).filter(|(_, held)| !held).map(|(job, _)| job));
        }
    }
    lost
}

fn lease_of(job: &Job) -> Lease {
    (job.queue().name().to_owned(), job.id().to_owned(), job.token())
}
