//! What the fetch loop and the executors share: jobs that wait for a handler, jobs that run, and outcomes to be sent.
//!
//! One lock, held for some dozen nanoseconds at a time; nothing waits under it.
//!
//! | file | duty |
//! |---|---|
//! | `runs.rs` | executors take runs and say how they ended |
//! | `calls.rs` | the fetch loop asks when to call, and delivers what came |
//! | `outcomes.rs` | outcomes that wait for a call |
//! | `starts.rs` | jobs of which the server must know before they start |
//! | `leases.rs` | what is renewed, and until when a lease is surely ours |
//! | `silence.rs` | queues that get no answer, and hold up no other |
//! | `ending.rs` | timeouts, jobs given back, the stop |
//! | `unheard.rs` | jobs that failed while no hook was there to be called |
//! | `events.rs` | the events of it all |

mod calls;
mod ending;
mod events;
mod leases;
mod outcomes;
mod runs;
mod silence;
mod starts;
mod unheard;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub(super) use calls::{Step, Want};
pub(super) use events::Outage;
pub(super) use outcomes::Batch;
pub use runs::Run;
pub(super) use runs::Taken;
use unheard::Claimed;

use self::silence::Lane;
use self::starts::{Start, Starts};
use super::event::WorkerEvent;
use super::executor::ExecutorShared;
use super::prefetch::Prefetch;
use super::{WorkerReport, WorkerSettings};
use crate::queue::Job;

pub(super) struct Desk {
    state: Mutex<State>,
    /// Wakes the fetch loop.
    for_fetcher: Notify,
    /// Wakes the timer, because something must end before it rings.
    for_timer: Notify,
    /// One a queue: wakes who renews its leases, because one of them may be over.
    for_renewal: Vec<Notify>,
    /// One a queue: wakes the loop that reports that this worker is alive.
    news: Vec<Notify>,
    lease: Duration,
    job_there: Condvar,
    job_there_async: Notify,
    event_there: Condvar,
    event_there_async: Notify,
    /// Wakes those who wait for the end of the fetch loop, or of all.
    over: Notify,
    /// Wakes who waits for the last hooks.
    claim_settled: Notify,
}

struct State {
    phase: Phase,
    stop_is_reported: bool,
    concurrency: usize,
    grace: Duration,
    /// How many runs may still be started.
    runs_left: u64,
    leased: Vec<Option<Leased>>,
    free: Vec<usize>,
    /// Indexes into `leased` of the jobs that wait for an executor, in the order in which they are to start.
    fetched: VecDeque<usize>,
    starts: Starts,
    running: usize,
    last_end: Option<Instant>,
    /// Calls under way, and how many jobs they may bring.
    calls: usize,
    asked: usize,
    lanes: Vec<Lane>,
    /// How many of them are silent.
    silent: usize,
    outcomes: usize,
    oldest_outcome: Option<Instant>,
    /// The fetch loop is on its way to the server, or was woken: it looks here before it sleeps.
    fetcher_is_awake: bool,
    /// When the fetch loop looks here by itself.
    fetcher_wakes_at: Option<Instant>,
    /// A queue may have more jobs than were fetched.
    may_have_more: bool,
    prefetch: Prefetch,
    timeouts: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    /// When the timer rings.
    timer_rings_at: Option<Instant>,
    next_run: u64,
    waiting_threads: usize,
    waiting_tasks: usize,
    events: VecDeque<(Instant, WorkerEvent)>,
    /// Jobs that failed unheard, and that this worker is to report.
    claimed: Vec<Claimed>,
    /// How many of the loop's calls and waits get no answer, and since when one does not.
    in_trouble: usize,
    trouble_since: Option<Instant>,
    recovered_at: Option<Instant>,
    report: WorkerReport,
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
    start: Start,
    run: Option<Running>,
}

struct Running {
    number: u64,
    started: Instant,
    executor: Arc<ExecutorShared>,
    /// Since when its outcome is settled already; what the handler says no longer counts.
    interrupted: Option<Instant>,
}

impl Desk {
    pub(super) fn new(settings: &WorkerSettings) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Working,
                stop_is_reported: false,
                concurrency: settings.concurrency,
                grace: settings.grace,
                runs_left: settings.max_jobs.unwrap_or(u64::MAX),
                leased: Vec::new(),
                free: Vec::new(),
                fetched: VecDeque::new(),
                starts: Starts::default(),
                running: 0,
                last_end: None,
                calls: 0,
                asked: 0,
                lanes: settings.queues.iter().map(|_| Lane::new()).collect(),
                silent: 0,
                outcomes: 0,
                oldest_outcome: None,
                fetcher_is_awake: true,
                fetcher_wakes_at: None,
                may_have_more: true,
                prefetch: Prefetch::default(),
                timeouts: BinaryHeap::new(),
                timer_rings_at: None,
                next_run: 0,
                waiting_threads: 0,
                waiting_tasks: 0,
                events: VecDeque::new(),
                claimed: Vec::new(),
                in_trouble: 0,
                trouble_since: None,
                recovered_at: None,
                report: WorkerReport::default(),
            }),
            for_fetcher: Notify::new(),
            for_timer: Notify::new(),
            for_renewal: settings.queues.iter().map(|_| Notify::new()).collect(),
            news: settings.queues.iter().map(|_| Notify::new()).collect(),
            lease: settings.lease,
            job_there: Condvar::new(),
            job_there_async: Notify::new(),
            event_there: Condvar::new(),
            event_there_async: Notify::new(),
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
}

impl State {
    fn add(&mut self, leased: Leased) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.leased.push(None);
            self.leased.len() - 1
        });
        self.starts.waits(leased.start);
        self.leased[index] = Some(leased);
        self.fetched.push_back(index);
    }

    /// The same of one that waits.
    fn release_waiting(&mut self, index: usize) -> Option<Leased> {
        let leased = self.take_out(index)?;
        self.starts.waits_no_more(leased.start);
        Some(leased)
    }

    fn take_out(&mut self, index: usize) -> Option<Leased> {
        let leased = self.leased.get_mut(index)?.take()?;
        self.free.push(index);
        Some(leased)
    }
}

impl Leased {
    fn is_interrupted(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.interrupted.is_some())
    }
}
