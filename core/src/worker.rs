//! Workers: fetch jobs, run their handlers, renew leases meanwhile, and say what became of them.
//!
//! The [`Engine`] does all of it but run handlers, on a native thread of its own, and is the same in every language. The
//! [`Worker`] runs handlers in Rust, as tasks.
//!
//! | file | duty |
//! |---|---|
//! | `engine.rs` | the handle, and the thread |
//! | `fetch.rs`, `fetch/` | the loop that calls the server |
//! | `desk.rs`, `desk/` | what the loop and the executors share |
//! | `executor.rs` | runs one handler at a time |
//! | `consumer.rs` | gives jobs to an owner that pulls them |
//! | `run_outcome.rs` | what is to become of a job, noted until its run has ended |
//! | `run_words.rs` | what the log says of a run that has ended |
//! | `prefetch.rs`, `appetite.rs` | how many jobs to fetch ahead, and how many bytes of them at once |
//! | `wakes.rs` | waits for wake-ups, beside the loop |
//! | `outlasts.rs` | which errors of a call a worker outlasts |
//! | `renew.rs` | leases |
//! | `beat.rs` | reports to the queues that the worker is alive |
//! | `sync_schedules.rs` | stores the schedules that it was given, at its start |
//! | `fire_schedules.rs` | fires schedules |
//! | `timer.rs` | ends what takes too long |
//! | `event.rs` | events: what the engine reports to its owner |
//! | `run.rs`, `run_log.rs`, `builder.rs`, `handler.rs`, `failure.rs`, `panic.rs`, `middleware.rs`, `span.rs` | the worker of Rust programs |

mod appetite;
mod beat;
mod builder;
mod consumer;
mod desk;
mod engine;
mod event;
mod executor;
mod failure;
mod fetch;
mod fire_schedules;
mod handler;
mod middleware;
mod outlasts;
mod panic;
mod prefetch;
mod renew;
mod run;
mod run_log;
mod run_outcome;
mod run_words;
mod span;
mod sync_schedules;
mod timer;
mod wakes;

use std::time::Duration;

pub use builder::WorkerBuilder;
pub use consumer::{Consumer, Delivery};
pub use desk::Run;
pub use engine::Engine;
pub use event::{AboutJob, BesideJobs, EventLevel, FailedJob, Interruption, WorkerEvent};
pub use executor::{Ended, Executor, NextRun};
pub use failure::{Failure, LogErrors};
pub use handler::{Context, Job};
pub use middleware::Middleware;
pub use run::Worker;
pub(crate) use run_outcome::RunOutcome;
#[doc(hidden)] // for the skins
pub use run_words::{outcome_of, words_of};

use self::prefetch::MOST_AHEAD;

use crate::process::supervise::LONGEST_GRACE;
use crate::queue::{Client, DEFAULT_LEASE, MAX_WEIGHT, Selection, check_lease};
use crate::schedule::OwnSchedules;
use crate::value::error::Error;
use crate::value::name;
use crate::value::time::Millis;

/// How long running handlers may go on after a stop unless the worker says otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// The most handlers of one worker that run at once.
pub const MAX_CONCURRENCY: usize = 10_000;
/// Shorter leases could not be renewed in time.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The settings of a worker of any language.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The queues and their weights, 1 to 1,000 (which matter under [`Selection::Weighted`] only). Of a partitioned queue the
    /// parts are given: `orders/0`, `orders/1`, ...
    pub queues: Vec<(String, u32)>,
    /// Which queue goes first (default: strictly as they are listed).
    pub selection: Selection,
    /// How many jobs run at once, 1 to 10,000 (default 1).
    pub concurrency: usize,
    /// How long a lease is, 100 ms to 24 h (default 10 s), and so how soon others notice that this worker died. Renewed
    /// while a handler runs.
    pub lease: Duration,
    /// How long running handlers may go on after a stop, 24 h at most (default 30 s).
    pub grace: Duration,
    /// Stop by itself after so many runs were started (default: never), for a process that is replaced now and then. The last ones may
    /// take as long as they need: the grace begins when the worker is asked to stop. Hooks for jobs that failed elsewhere, and runs that
    /// were interrupted, have the grace behind the last of the others.
    pub max_jobs: Option<u64>,
    /// The most jobs that wait in the process besides those that run, up to 1,000: 0 for none (default: as many as run within 50 ms, by
    /// what was learned from the runs so far).
    pub prefetch: Option<usize>,
    /// The longest run of a job that has no `timeout` of its own (default: as long as it likes).
    pub timeout: Option<Duration>,
    /// The worker's name in [`Queue::workers`](crate::Queue::workers): 1 to 128 bytes without control characters (default: no name).
    pub name: Option<String>,
    /// Its owner calls the hooks of [`WorkerEvent::Failed`] in the thread that runs its jobs, one at a time, and so between two of
    /// them (default: no). Then it claims failed jobs only while it runs none, and [`NextRun::None`] may mean that there are events
    /// to read.
    pub hooks_between_runs: bool,
    /// Stored when it starts, each as by [`Schedules::sync`](crate::Schedules::sync): before its first job if the server can, else beside
    /// its jobs as soon as it can (default: none).
    pub schedules: Vec<OwnSchedules>,
    /// The language in which its handlers are written (default: `rust`).
    pub language: &'static str,
}

impl WorkerSettings {
    /// The defaults, for these queues.
    pub fn new(queues: Vec<(String, u32)>) -> Self {
        Self {
            queues,
            selection: Selection::default(),
            concurrency: 1,
            lease: DEFAULT_LEASE,
            grace: DEFAULT_GRACE,
            max_jobs: None,
            prefetch: None,
            timeout: None,
            name: None,
            hooks_between_runs: false,
            schedules: Vec::new(),
            language: "rust",
        }
    }

    /// Errors: `InvalidArgument`.
    pub(crate) fn check(&self, client: &Client) -> Result<(), Error> {
        if self.queues.is_empty() {
            return Err(Error::invalid("a worker needs at least one queue"));
        }
        for (index, (name, weight)) in self.queues.iter().enumerate() {
            client.queue_or_part(name)?;
            if !(1..=MAX_WEIGHT).contains(weight) {
                return Err(Error::invalid(format!("the weight of a queue is 1 to {MAX_WEIGHT}, not {weight}")));
            }
            if self.queues[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::invalid(format!("the queue '{name}' is given twice: once is enough")));
            }
        }
        if !(1..=MAX_CONCURRENCY).contains(&self.concurrency) {
            return Err(Error::invalid(format!("concurrency is 1 to {MAX_CONCURRENCY}, not {}", self.concurrency)));
        }
        if self.grace > LONGEST_GRACE {
            return Err(Error::invalid("a worker's grace is at most 24 h"));
        }
        if self.max_jobs == Some(0) {
            return Err(Error::invalid("max_jobs is 1 or more, or nothing for no limit"));
        }
        if let Some(prefetch) = self.prefetch.filter(|&prefetch| prefetch > MOST_AHEAD) {
            return Err(Error::invalid(format!("prefetch is 0 to {MOST_AHEAD} jobs, not {prefetch}")));
        }
        if let Some(timeout) = self.timeout
            && Millis::from_duration(timeout)? == Millis::ZERO
        {
            return Err(Error::invalid("a timeout must be longer than 0: leave it out for none"));
        }
        if self.lease < SHORTEST_LEASE {
            return Err(Error::invalid("a worker's lease is at least 100 ms, to be renewed in time"));
        }
        if let Some(name) = &self.name {
            name::check_worker(name)?;
        }
        for OwnSchedules { queue, owner, list } in &self.schedules {
            client.queue(queue)?.schedules().check_list(owner, list)?;
            let is_served = |wanted: &dyn Fn(&str) -> bool| self.queues.iter().any(|(name, _)| wanted(name));
            let part = format!("{queue}/");
            if !list.is_empty() && !is_served(&|name| name == queue) && is_served(&|name| name.starts_with(&part)) {
                return Err(Error::invalid(format!(
                    "this worker serves parts of the queue '{queue}', and the schedules that it brings would go into the queue without \
                     parts, where no worker fires them: give the worker no schedules and no owner, and call `sync` of the \
                     schedules of the partitioned queue in the deployment"
                )));
            }
        }
        check_lease(self.lease)
    }
}

/// The work of a worker, in numbers.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Jobs that are done.
    pub acked: u64,
    /// Runs that failed, whether the job is retried or not.
    pub failed: u64,
    /// Jobs given back: not started before the stop, not finished within the grace, or by their handlers' will.
    pub released: u64,
    /// Jobs whose lease was over before they were settled.
    pub lost: u64,
    /// Jobs that expired before a run of them began, and are dropped.
    pub expired: u64,
}
