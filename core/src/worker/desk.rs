//! The desk, which the fetch loop and the executors share: jobs that wait for a handler, jobs that run, and outcomes to be sent.
//!
//! One lock, held for some dozen nanoseconds at a time; nothing waits under it.
//!
//! | file | duty |
//! |---|---|
//! | `runs.rs` | executors take runs and say how they ended |
//! | `calls.rs` | the fetch loop asks when to call, and delivers what came |
//! | `outcomes.rs` | outcomes that wait for a call |
//! | `starts.rs` | jobs of which the server must know before they start |
//! | `expiry.rs` | jobs that expire while they wait for an executor |
//! | `leases.rs` | what is renewed, and until when a lease is surely ours |
//! | `lanes.rs` | what is kept of each queue; one that gets no answer holds up no other |
//! | `timeouts.rs` | runs that must end before their handlers do |
//! | `hoarded.rs` | jobs that were fetched ahead, and go back |
//! | `pulls.rs` | an owner that takes runs when it likes, and may stop asking: a consumer |
//! | `stop.rs` | the stop, its grace and its farewell |
//! | `unheard.rs` | jobs that failed while no hook was there to be called |
//! | `slow_hooks.rs` | how many of these are claimed, and how long they may wait for their hooks |
//! | `between_runs.rs` | the same for an owner that calls hooks between its runs: PHP |
//! | `next_schedule.rs` | what the loop that fires schedules needs |
//! | `tallies.rs` | what runs came to, for the next beat |
//! | `events.rs` | the events of it all |
//! | `orders.rs` | a test of it all, under every order |

mod between_runs;
mod calls;
mod events;
mod expiry;
mod hoarded;
mod lanes;
mod leases;
mod next_schedule;
#[cfg(test)]
mod orders;
mod outcomes;
mod pulls;
mod runs;
mod slow_hooks;
mod starts;
mod stop;
mod tallies;
mod timeouts;
mod unheard;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub(super) use calls::{Step, Want};
pub(super) use events::{Beside, Outage};
pub(super) use outcomes::Batch;
pub use runs::Run;
pub(super) use runs::Taken;
pub(super) use tallies::Tallies;

use self::between_runs::BetweenRuns;
use self::events::{Events, Trouble};
use self::lanes::Lanes;
use self::pulls::Pulls;
use self::slow_hooks::Hooks;
use self::starts::{Start, Starts};
use self::stop::Farewell;
use self::unheard::Claimed;
use super::executor::ExecutorShared;
use super::prefetch::Prefetch;
use super::{WorkerReport, WorkerSettings};
use crate::queue::{Decided, Job};
use crate::value::error::Error;
use crate::value::retry::Next;

pub(super) struct Desk {
    state: Mutex<State>,
    lease: Duration,
    grace: Duration,
    /// Of a run whose job has none.
    timeout: Option<Duration>,
    /// The error with which it ends, if that is no stop.
    failure: OnceLock<Error>,
    /// Wakes the fetch loop.
    for_fetcher: Notify,
    /// Wakes the timer, because something must end before it rings.
    for_timer: Notify,
    for_queues: Vec<ForQueue>,
    for_job: Waiters,
    for_event: Waiters,
    /// Wakes those who wait for the end of the fetch loop, or of all.
    over: Notify,
    /// Wakes who waits for the last hooks.
    claim_settled: Notify,
}

/// Wakes those who wait for the same.
#[derive(Default)]
struct Waiters {
    threads: Condvar,
    tasks: Notify,
}

/// Wakes those who work for one queue.
#[derive(Default)]
struct ForQueue {
    /// Who renews its leases, because one of them may be over.
    renewal: Notify,
    /// The loop that reports that this worker is alive.
    news: Notify,
    /// The loop that fires schedules.
    schedules: Schedules,
}

/// What the loop that fires the schedules of a queue is to know.
#[derive(Default)]
struct Schedules {
    changed: Notify,
    /// When the next one fires, as far as the last beat said so.
    next_at: Mutex<Option<Instant>>,
}

struct State {
    phase: Phase,
    concurrency: usize,
    jobs: Jobs,
    runs: Runs,
    waiting: WaitingExecutors,
    lanes: Lanes,
    fetcher: FetchLoop,
    prefetch: Prefetch,
    events: Events,
    /// Jobs that failed unheard, and that this worker is to report.
    claimed: Vec<Claimed>,
    hooks: Hooks,
    /// If its owner calls the hooks of failed jobs between its runs.
    between_runs: Option<BetweenRuns>,
    /// If its owner pulls.
    pulls: Option<Pulls>,
    farewell: Farewell,
    trouble: Trouble,
    report: WorkerReport,
}

/// The jobs whose leases are ours.
#[derive(Default)]
struct Jobs {
    leased: Vec<Option<Leased>>,
    /// Unused indexes of `leased`.
    free: Vec<usize>,
    /// Indexes into `leased` of the jobs that wait for an executor, in the order in which they are to start.
    fetched: VecDeque<usize>,
    /// When the first of them expires, or sooner.
    next_expiry: Option<Instant>,
    starts: Starts,
}

/// What runs, has run, and may run yet.
#[derive(Default)]
struct Runs {
    running: usize,
    /// How many may still be started.
    left: u64,
    last_number: u64,
    last_end: Option<Instant>,
    /// The grace ended before one of them.
    cut_short: bool,
    timeouts: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    /// When the timer rings.
    timer_rings_at: Option<Instant>,
}

/// How many executors wait for a job.
#[derive(Default)]
struct WaitingExecutors {
    threads: usize,
    tasks: usize,
}

/// What is known of the fetch loop.
struct FetchLoop {
    /// It is on its way to the server, or was woken: it looks here before it sleeps.
    is_awake: bool,
    /// When it looks here by itself.
    wakes_at: Option<Instant>,
    /// A queue may have more jobs than were fetched.
    may_have_more: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Working,
    /// Nothing new is started; what runs may end until then.
    Stopping {
        since: Instant,
        until: Instant,
    },
    /// The fetch loop has said all that it had to say.
    Over,
    /// So has the engine: there will be no event any more.
    Ended,
}

impl Phase {
    fn is_over(self) -> bool {
        matches!(self, Self::Over | Self::Ended)
    }
}

/// A job whose lease is ours.
struct Leased {
    job: Arc<Job>,
    lane: usize,
    fetched_at: Instant,
    /// Before this moment its lease cannot be over, whatever happened to this process or the network.
    sure_until: Instant,
    /// If no run of it has begun by then, it is dropped.
    expires_at: Option<Instant>,
    start: Start,
    run: Option<Running>,
}

struct Running {
    number: u64,
    started: Instant,
    /// When its timeout is over.
    ends_at: Option<Instant>,
    /// How many calls ask the server just now whether it may start; its time begins behind them.
    asking: u32,
    /// The server knows that it has started.
    is_noted: bool,
    executor: Arc<ExecutorShared>,
    /// What its handler or its failure comes to, while hooks are called before that is sent. A last failure also if the timeout is over
    /// meanwhile: another worker that heard of it would call the same hooks beside these.
    decided: Option<Box<Decided>>,
    /// Since when what the handler says no longer counts.
    interrupted: Option<Instant>,
    /// What was decided before.
    kept: Option<Next>,
}

impl Desk {
    pub(super) fn new(settings: &WorkerSettings) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Working,
                concurrency: settings.concurrency,
                jobs: Jobs::default(),
                runs: Runs { left: settings.max_jobs.unwrap_or(u64::MAX), ..Runs::default() },
                waiting: WaitingExecutors::default(),
                lanes: Lanes::new(settings.queues.len()),
                fetcher: FetchLoop { is_awake: true, wakes_at: None, may_have_more: true },
                prefetch: Prefetch::at_most(settings.prefetch),
                events: Events::default(),
                claimed: Vec::new(),
                hooks: Hooks::new(settings.queues.len()),
                between_runs: settings.hooks_between_runs.then(|| BetweenRuns::new(settings.queues.len())),
                pulls: None,
                farewell: Farewell::default(),
                trouble: Trouble::default(),
                report: WorkerReport::default(),
            }),
            lease: settings.lease,
            grace: settings.grace,
            timeout: settings.timeout,
            failure: OnceLock::new(),
            for_fetcher: Notify::new(),
            for_timer: Notify::new(),
            for_queues: settings.queues.iter().map(|_| ForQueue::default()).collect(),
            for_job: Waiters::default(),
            for_event: Waiters::default(),
            over: Notify::new(),
            claim_settled: Notify::new(),
        }
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn report(&self) -> WorkerReport {
        self.lock().report
    }

    /// Did the grace end before a run?
    pub(super) fn was_cut_short(&self) -> bool {
        self.lock().runs.cut_short
    }
}

impl Jobs {
    fn add(&mut self, leased: Leased) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.leased.push(None);
            self.leased.len() - 1
        });
        self.starts.waits(leased.start);
        self.expires_at(leased.expires_at);
        self.leased[index] = Some(leased);
        self.fetched.push_back(index);
    }

    fn take_out(&mut self, index: usize) -> Option<Leased> {
        let leased = self.leased.get_mut(index)?.take()?;
        self.free.push(index);
        Some(leased)
    }

    /// The same of one that waits.
    fn take_out_waiting(&mut self, index: usize) -> Option<Leased> {
        let leased = self.take_out(index)?;
        self.starts.waits_no_more(leased.start);
        Some(leased)
    }
}

impl Leased {
    /// Does it run, and may it take its time?
    fn goes_on(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.interrupted.is_none())
    }

    /// Was it interrupted, and its outcome noted? Then its lease is that of the outcome.
    fn is_interrupted(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.interrupted.is_some() && run.decided.is_none())
    }
}
