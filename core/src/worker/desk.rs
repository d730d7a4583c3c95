//! What the fetch loop and the executors share: jobs that wait for a handler, jobs that run, and outcomes to be told.
//!
//! One lock, held for some dozen nanoseconds at a time; nothing waits under it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::event::{Interruption, WorkerEvent};
use super::executor::{Ended, ExecutorShared};
use super::prefetch::Prefetch;
use super::{WorkerReport, WorkerSettings};
use crate::consume::{Job, Settlement, add_outcome};
use crate::error::Error;
use crate::queue::MAX_BATCH;
use crate::retry::{Next, Outcome};
use crate::script::{Outcomes, Verb};
use crate::time::Millis;

/// Outcomes wait at most this long for a fetch to ride along with, and only while there is other work.
const RIDE_WITHIN: Duration = Duration::from_millis(5);
/// Jobs that waited this long while all executors are busy are given back.
const HOARDED_AFTER: Duration = Duration::from_millis(500);
/// Outcomes that leave whether or not a fetch is due.
const OUTCOMES_A_CALL: usize = MAX_BATCH / 2;
/// How many jobs or outcomes are worth a call while another one is under way.
const WORTH_A_SECOND_CALL: usize = 50;
/// Events that nobody reads are dropped, the oldest first.
const MOST_EVENTS: usize = 1000;

pub(super) struct Desk {
    state: Mutex<State>,
    /// Wakes the fetch loop.
    for_fetcher: Notify,
    /// One a queue: wakes who renews its leases, because one of them may be over.
    for_renewal: Vec<Notify>,
    lease: Duration,
    job_there: Condvar,
    job_there_async: Notify,
    event_there: Condvar,
    event_there_async: Notify,
    over: Notify,
}

struct State {
    phase: Phase,
    concurrency: usize,
    grace: Duration,
    /// How many runs may still be started.
    runs_left: u64,
    held: Vec<Option<Held>>,
    free: Vec<usize>,
    /// Places in `held` of the jobs that wait for an executor, in the order in which they are to start.
    fetched: VecDeque<usize>,
    running: usize,
    last_end: Option<Instant>,
    /// Calls under way, and how many jobs they may bring.
    calls: usize,
    asked: usize,
    lanes: Vec<VecDeque<Batch>>,
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
    next_run: u64,
    waiting_threads: usize,
    waiting_tasks: usize,
    events: VecDeque<WorkerEvent>,
    /// How many of the loop's calls and waits get no answer, and since when one does not.
    in_trouble: usize,
    trouble_since: Option<Instant>,
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
    Over,
}

/// A job whose lease is ours.
struct Held {
    job: Arc<Job>,
    lane: usize,
    fetched_at: Instant,
    /// Before this moment its lease cannot be over, whatever happened to this process or the network.
    sure_until: Instant,
    run: Option<Running>,
}

struct Running {
    number: u64,
    executor: Arc<ExecutorShared>,
    /// Its outcome is settled already; what the handler says no longer counts.
    interrupted: bool,
}

/// Outcomes of one queue for one script call.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) outcomes: Outcomes,
    /// When the call that takes it along began: the leases that it brings begin then or later.
    pub(super) asked_at: Option<Instant>,
    /// What the outcomes behind the acks are, in order.
    others: Vec<Told>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Failed,
    Released,
}

/// One run for an executor.
#[derive(Debug)]
pub struct Run {
    /// The job.
    pub job: Arc<Job>,
    /// Counts the runs of this worker.
    pub number: u64,
    place: usize,
    started: Instant,
}

/// What the fetch loop does next.
pub(super) enum Step {
    Call { want: Want },
    Sleep { until: Option<Instant>, want: Want },
    Over,
}

/// How many jobs to ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    /// With those that wait here for an executor.
    pub(super) jobs: usize,
    /// Those that an executor takes at once.
    pub(super) free: usize,
}

/// What `Desk::next` gives.
pub(super) enum Taken {
    Run(Run),
    /// There is none just now.
    None,
    /// There will be none.
    Over,
}

impl Desk {
    pub(super) fn new(settings: &WorkerSettings) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Working,
                concurrency: settings.concurrency,
                grace: settings.grace,
                runs_left: settings.max_jobs.unwrap_or(u64::MAX),
                held: Vec::new(),
                free: Vec::new(),
                fetched: VecDeque::new(),
                running: 0,
                last_end: None,
                calls: 0,
                asked: 0,
                lanes: settings.queues.iter().map(|_| VecDeque::new()).collect(),
                outcomes: 0,
                oldest_outcome: None,
                fetcher_is_awake: true,
                fetcher_wakes_at: None,
                may_have_more: true,
                prefetch: Prefetch::default(),
                timeouts: BinaryHeap::new(),
                next_run: 0,
                waiting_threads: 0,
                waiting_tasks: 0,
                events: VecDeque::new(),
                in_trouble: 0,
                trouble_since: None,
                report: WorkerReport::default(),
            }),
            for_fetcher: Notify::new(),
            for_renewal: settings.queues.iter().map(|_| Notify::new()).collect(),
            lease: settings.lease,
            job_there: Condvar::new(),
            job_there_async: Notify::new(),
            event_there: Condvar::new(),
            event_there_async: Notify::new(),
            over: Notify::new(),
        }
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- executors ----

    /// The next run; a task that finds none is counted as waiting under the same lock, so that no job comes in between.
    fn take_or_wait(&self, executor: &Arc<ExecutorShared>) -> Taken {
        let mut state = self.lock();
        let taken = state.take(executor);
        match taken {
            Taken::Run(_) => self.refill(state),
            Taken::None => state.waiting_tasks += 1,
            Taken::Over => {}
        }
        taken
    }

    /// Wakes the fetch loop if what an executor took leaves too little, and all if it was the last run.
    fn refill(&self, mut state: MutexGuard<'_, State>) {
        let wake = state.wake_to_refill();
        let was_last = state.runs_left == 0;
        drop(state);
        if was_last {
            self.tell_executors();
        }
        if wake {
            self.for_fetcher.notify_one();
        }
    }

    /// The next run, waited for by a thread.
    pub(super) fn take_within(&self, executor: &Arc<ExecutorShared>, wait: Duration) -> Taken {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            match state.take(executor) {
                Taken::None => {}
                taken => {
                    self.refill(state);
                    return taken;
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Taken::None;
            }
            state.waiting_threads += 1;
            state = self.job_there.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting_threads -= 1;
        }
    }

    /// The next run, waited for by a task.
    pub(super) async fn take_async(&self, executor: &Arc<ExecutorShared>) -> Option<Run> {
        loop {
            // Registered before the look, so that what comes in between is not missed.
            let mut there = std::pin::pin!(self.job_there_async.notified());
            there.as_mut().enable();
            match self.take_or_wait(executor) {
                Taken::Run(run) => return Some(run),
                Taken::Over => return None,
                Taken::None => {}
            }
            there.await;
            self.lock().waiting_tasks -= 1;
        }
    }

    /// Notes what became of a run, for the next call. An outcome that makes no sense is noted as a plain failure, and
    /// given as the error.
    pub(super) fn finish(&self, run: &Run, ended: Ended) -> Result<Option<Next>, Error> {
        let now = Instant::now();
        let mut state = self.lock();
        state.prefetch.learn(now - run.started);
        let Some(held) = state.release_place(run.place) else { return Ok(None) };
        state.running -= 1;
        state.last_end = Some(now);
        let interrupted = held.run.is_none_or(|run| run.interrupted);
        let told = match ended {
            _ if interrupted => Ok(None),
            Ended::SettledByHandler => Ok(None),
            Ended::Outcome { outcome, error, rewritten } => {
                let settlement =
                    Settlement { job: &held.job, outcome, error: &error, rewritten: rewritten.map(|changed| *changed) };
                match state.note(held.lane, &settlement) {
                    Ok(next) => Ok(Some(next)),
                    Err(refused) => {
                        let failure =
                            Settlement { job: &held.job, outcome: Outcome::FAILURE, error: &error, rewritten: None };
                        let _ = state.note(held.lane, &failure);
                        Err(refused)
                    }
                }
            }
        };
        // A run without an outcome of its own leaves a free executor behind: the fetch loop may be asleep for want of one.
        let wake = if matches!(told, Ok(None)) { state.wake_if(true) } else { state.wake_for_outcome() };
        drop(state);
        if wake {
            self.for_fetcher.notify_one();
        }
        told
    }

    // ---- the fetch loop ----

    /// What to do now. `due`: may a queue have jobs that were not looked at?
    pub(super) fn has_free_executor(&self) -> bool {
        self.lock().wanted().free > 0
    }

    pub(super) fn next_step(&self, due: bool) -> Step {
        let mut state = self.lock();
        let now = Instant::now();
        state.end_overdue(now, self);
        if let Phase::Stopping { until, .. } = state.phase
            && (state.running == 0 || now >= until)
        {
            state.interrupt_all(self);
            if state.outcomes == 0 && state.calls == 0 {
                state.phase = Phase::Over;
                drop(state);
                self.over.notify_waiters();
                self.tell_executors();
                return Step::Over;
            }
        }
        if state.phase == Phase::Over {
            return Step::Over;
        }
        state.may_have_more = due;
        state.give_back_hoarded(now, self);
        let want = state.want();
        let ride_over = state.oldest_outcome.is_some_and(|oldest| now >= oldest + RIDE_WITHIN);
        // Beside a call that is under way only what is worth one of its own.
        let least = if state.calls == 0 { 1 } else { WORTH_A_SECOND_CALL };
        let leave_now = state.outcomes >= least && (state.fetched.is_empty() || state.outcomes >= OUTCOMES_A_CALL);
        if leave_now || (ride_over && state.outcomes > 0) || (due && want >= least && state.is_low()) {
            let concurrency = state.concurrency;
            state.prefetch.grow(concurrency);
            state.fetcher_is_awake = true;
            return Step::Call { want: state.wanted() };
        }
        let until = [
            state.oldest_outcome.map(|oldest| oldest + RIDE_WITHIN),
            state.timeouts.peek().map(|Reverse((at, ..))| *at),
            // Over and not given back: no executor is missing, a renewal is.
            state.hoarded_at().map(|at| if at > now { at } else { now + HOARDED_AFTER }),
            match state.phase {
                Phase::Stopping { until, .. } if state.running > 0 && now < until => Some(until),
                _ => None,
            },
        ];
        let until = until.into_iter().flatten().min();
        state.fetcher_is_awake = false;
        state.fetcher_wakes_at = until;
        Step::Sleep { until, want: state.wanted() }
    }

    /// Waits until an executor or a stop wants something of the fetch loop.
    pub(super) async fn called(&self) {
        self.for_fetcher.notified().await;
    }

    /// The fetch loop woke by itself.
    pub(super) fn awake(&self) {
        self.lock().fetcher_is_awake = true;
    }

    /// A call to this queue that may bring `want` jobs: gives the outcomes for it.
    pub(super) fn begin_call(&self, lane: usize, want: usize) -> Batch {
        let mut state = self.lock();
        state.calls += 1;
        state.asked += want;
        let mut batch = state.lanes[lane].pop_front().unwrap_or_default();
        batch.asked_at = Some(Instant::now());
        state.outcomes -= batch.outcomes.len();
        if state.outcomes == 0 {
            state.oldest_outcome = None;
        }
        batch
    }

    /// It was answered, or given up.
    pub(super) fn end_call(&self, want: usize) {
        let mut state = self.lock();
        state.calls -= 1;
        state.asked -= want;
    }

    pub(super) fn has_outcomes(&self, lane: usize) -> bool {
        !self.lock().lanes[lane].is_empty()
    }

    /// The answer to a batch of outcomes: one flag each, acks first.
    pub(super) fn told(&self, queue: &str, batch: &Batch, flags: &[bool]) {
        let mut state = self.lock();
        let acks = batch.outcomes.ack_count();
        for (place, &settled) in flags.iter().enumerate() {
            if !settled {
                state.report.lost += 1;
                let id = batch.outcomes.id_at(place);
                state.tell(WorkerEvent::LeaseLost { queue: queue.to_owned(), id }, self);
            } else if place < acks {
                state.report.acked += 1;
            } else if batch.others.get(place - acks) == Some(&Told::Failed) {
                state.report.failed += 1;
            } else {
                state.report.released += 1;
            }
        }
    }

    /// Jobs that were fetched; given back at once if the worker stops meanwhile. Records that cannot be decoded are told
    /// as failed: (id, token, reason).
    pub(super) fn deliver(&self, lane: usize, of: &Batch, jobs: Vec<Job>, undecodable: &[(String, u64, String)]) {
        let now = Instant::now();
        let sure_until = of.asked_at.unwrap_or(now) + self.lease;
        let mut state = self.lock();
        for (id, token, reason) in undecodable {
            let batch = state.open_batch(lane);
            batch.outcomes.other(Verb::Failed, id, *token, None, 0, reason, None);
            batch.others.push(Told::Failed);
            state.count_outcome(now);
        }
        let count = jobs.len();
        for job in jobs {
            if state.phase == Phase::Working {
                state.hold(Held { job: Arc::new(job), lane, fetched_at: now, sure_until, run: None });
            } else {
                let _ = state.note(lane, &give_back(&job));
            }
        }
        self.wake_executors(state, count);
        if sure_until <= now {
            self.for_renewal[lane].notify_one();
        }
    }

    fn wake_executors(&self, state: MutexGuard<'_, State>, count: usize) {
        let threads = state.waiting_threads.min(count);
        let tasks = state.waiting_tasks.min(count);
        drop(state);
        for _ in 0..threads {
            self.job_there.notify_one();
        }
        for _ in 0..tasks {
            self.job_there_async.notify_one();
        }
    }

    // ---- leases ----

    /// The leases of a queue that are to be renewed: (id, token) of what waits and what runs.
    pub(super) fn leases(&self, lane: usize) -> Vec<(String, u64)> {
        let state = self.lock();
        let ours = state.held.iter().flatten().filter(|held| held.lane == lane && !held.is_interrupted());
        ours.map(|held| (held.job.id().to_owned(), held.job.token())).collect()
    }

    /// Ready when a lease of this queue should be renewed before its turn.
    pub(super) async fn needs_renewal(&self, lane: usize) {
        self.for_renewal[lane].notified().await;
    }

    /// The answer to a renewal that was asked for at this moment: these leases of a queue were kept, or lost.
    pub(super) fn renewed(&self, lane: usize, leases: &[(String, u64)], kept: &[bool], asked_at: Instant) {
        let now = Instant::now();
        let sure_until = asked_at + self.lease;
        let answers: HashMap<_, _> =
            leases.iter().zip(kept).map(|((id, token), kept)| (&**id, (*token, *kept))).collect();
        let mut state = self.lock();
        let (mut sure_again, mut lost) = (0, 0);
        for place in 0..state.held.len() {
            let Some(held) = state.held[place].as_mut().filter(|held| held.lane == lane) else { continue };
            match answers.get(held.job.id()) {
                Some(&(token, true)) if token == held.job.token() => {
                    sure_again += usize::from(held.sure_until <= now);
                    held.sure_until = sure_until;
                }
                Some(&(token, false)) if token == held.job.token() => {
                    lost += 1;
                    state.interrupt(place, Interruption::LeaseLost, self);
                }
                _ => {}
            }
        }
        // Executors may be free by now because what waited for them was lost.
        if lost > 0 && state.wake_to_refill() {
            self.for_fetcher.notify_one();
        }
        self.wake_executors(state, sure_again);
        if sure_again > 0 && sure_until <= now {
            self.for_renewal[lane].notify_one();
        }
    }

    // ---- stop ----

    /// Starts nothing more, gives back what waits, and lets what runs end within the grace.
    pub(super) fn stop(&self, grace: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        let until = now + grace;
        match &mut state.phase {
            Phase::Over => return,
            Phase::Stopping { until: earlier, .. } => *earlier = until.min(*earlier),
            phase @ Phase::Working => *phase = Phase::Stopping { since: now, until },
        }
        state.give_back_fetched();
        drop(state);
        self.tell_executors();
        self.for_fetcher.notify_one();
    }

    /// Is over at once: what was not told yet is left to the end of the leases.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.interrupt_all(self);
        state.phase = Phase::Over;
        drop(state);
        self.over.notify_waiters();
        self.tell_executors();
        self.for_fetcher.notify_one();
    }

    /// Is a call with these outcomes not worth trying any longer? When the worker stops and no handler runs, outcomes are
    /// tried to be told for the farewell; if there are none either, nobody waits for a server that does not answer.
    pub(super) fn is_hopeless(&self, batch: &Batch, farewell: Duration) -> bool {
        let state = self.lock();
        match state.phase {
            Phase::Working => false,
            Phase::Stopping { since, until } => {
                let nothing_to_tell = state.running == 0 && state.outcomes + batch.outcomes.len() == 0;
                let last_run = state.last_end.map_or(since, |end| end.max(since));
                let from = if state.running == 0 { last_run.min(until) } else { until };
                (nothing_to_tell && state.in_trouble > 0) || Instant::now() > from + farewell
            }
            Phase::Over => true,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().phase != Phase::Working
    }

    /// Ready when the worker has said all it had to say.
    pub(super) async fn until_over(&self) {
        loop {
            let mut over = std::pin::pin!(self.over.notified());
            over.as_mut().enable();
            if self.lock().phase == Phase::Over {
                return;
            }
            over.await;
        }
    }

    /// The same for a thread; false when the time is over before.
    pub(super) fn over_within(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        while state.phase != Phase::Over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.event_there.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub(super) fn report(&self) -> WorkerReport {
        self.lock().report
    }

    fn tell_executors(&self) {
        self.job_there.notify_all();
        self.job_there_async.notify_waiters();
        self.event_there.notify_all();
    }

    // ---- events ----

    /// A call or a wait gets no answer, until the given value is dropped. Told once, however many of them there are.
    pub(super) fn trouble(self: &Arc<Self>, error: &Error) -> Trouble {
        let mut state = self.lock();
        state.in_trouble += 1;
        if state.trouble_since.is_none() {
            state.trouble_since = Some(Instant::now());
            state.tell(WorkerEvent::Trouble { error: error.clone() }, self);
        }
        Trouble(Arc::clone(self))
    }

    /// The next event, waited for by a task.
    pub(super) async fn event(&self) -> WorkerEvent {
        loop {
            let there = self.event_there_async.notified();
            if let Some(event) = self.lock().events.pop_front() {
                return event;
            }
            there.await;
        }
    }

    /// The next event, waited for by a thread; none when the time is over, or when the worker is.
    pub(super) fn event_within(&self, wait: Duration) -> Option<WorkerEvent> {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                return Some(event);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.phase == Phase::Over {
                return None;
            }
            state = self.event_there.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Something gets no answer.
pub(super) struct Trouble(Arc<Desk>);

impl Drop for Trouble {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.in_trouble -= 1;
        if state.in_trouble == 0
            && state.phase != Phase::Over
            && let Some(since) = state.trouble_since.take()
        {
            state.tell(WorkerEvent::Recovered { after: since.elapsed() }, &self.0);
        }
    }
}

impl State {
    fn take(&mut self, executor: &Arc<ExecutorShared>) -> Taken {
        if self.phase != Phase::Working {
            return Taken::Over;
        }
        let started = Instant::now();
        let Some(place) = self.next_sure(started) else { return Taken::None };
        self.next_run += 1;
        let number = self.next_run;
        let Some(held) = self.held[place].as_mut() else { return Taken::None };
        held.run = Some(Running { number, executor: Arc::clone(executor), interrupted: false });
        let job = Arc::clone(&held.job);
        if let Some(until) = job.envelope.timeout.and_then(|timeout| started.checked_add(timeout.to_duration())) {
            self.timeouts.push(Reverse((until, place, number)));
            self.forget_old_timeouts();
        }
        self.running += 1;
        self.runs_left -= 1;
        if self.runs_left == 0 {
            self.phase = Phase::Stopping { since: started, until: started + self.grace };
            self.give_back_fetched();
        }
        Taken::Run(Run { job, number, place, started })
    }

    /// The first job whose lease is surely ours. While this process was frozen, or no renewal came through, another worker may
    /// have run and acked what waited here: that waits on, until a renewal says whether it is ours.
    fn next_sure(&mut self, now: Instant) -> Option<usize> {
        let is_sure = |place: &usize| self.held[*place].as_ref().is_some_and(|held| held.sure_until > now);
        let at = self.fetched.iter().position(is_sure)?;
        self.fetched.remove(at)
    }

    fn hold(&mut self, held: Held) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        });
        self.held[place] = Some(held);
        self.fetched.push_back(place);
    }

    fn release_place(&mut self, place: usize) -> Option<Held> {
        let held = self.held.get_mut(place)?.take()?;
        self.free.push(place);
        Some(held)
    }

    /// Notes an outcome for the next call to its queue.
    fn note(&mut self, lane: usize, settlement: &Settlement<'_>) -> Result<Next, Error> {
        let batch = self.open_batch(lane);
        let next = add_outcome(&mut batch.outcomes, settlement)?;
        match next {
            Next::Ack => {}
            Next::ReleaseAfter(_) => batch.others.push(Told::Released),
            Next::RetryAfter { .. } | Next::Failed { .. } => batch.others.push(Told::Failed),
        }
        self.count_outcome(Instant::now());
        Ok(next)
    }

    fn open_batch(&mut self, lane: usize) -> &mut Batch {
        let batches = &mut self.lanes[lane];
        if batches.back().is_none_or(|batch| batch.outcomes.len() >= OUTCOMES_A_CALL) {
            batches.push_back(Batch::default());
        }
        let last = batches.len() - 1;
        &mut batches[last]
    }

    fn count_outcome(&mut self, now: Instant) {
        self.outcomes += 1;
        self.oldest_outcome.get_or_insert(now);
    }

    /// How many jobs to ask for.
    fn want(&self) -> usize {
        if self.phase != Phase::Working {
            return 0;
        }
        let here = self.fetched.len() + self.asked;
        let room = (self.concurrency + self.prefetch.ahead()).saturating_sub(self.running + here);
        room.min(usize::try_from(self.runs_left).unwrap_or(usize::MAX).saturating_sub(here))
    }

    fn wanted(&self) -> Want {
        let jobs = self.want();
        Want { jobs, free: jobs.min(self.concurrency.saturating_sub(self.running + self.fetched.len() + self.asked)) }
    }

    /// Do so few jobs wait that more should be fetched?
    fn is_low(&self) -> bool {
        2 * (self.fetched.len() + self.asked) <= self.prefetch.ahead()
    }

    fn wake_to_refill(&mut self) -> bool {
        let timer_too_late = self
            .timeouts
            .peek()
            .is_some_and(|Reverse((at, ..))| self.fetcher_wakes_at.is_none_or(|wakes_at| *at < wakes_at));
        let stopping = self.phase != Phase::Working;
        self.wake_if(stopping || timer_too_late || (self.may_have_more && self.is_low() && self.want() > 0))
    }

    fn wake_for_outcome(&mut self) -> bool {
        let stopping = self.phase != Phase::Working;
        let no_timer = self
            .oldest_outcome
            .is_some_and(|oldest| self.fetcher_wakes_at.is_none_or(|wakes_at| wakes_at > oldest + RIDE_WITHIN));
        // Also without an outcome (interrupted, or settled by the handler): an executor that was busy is free now.
        self.wake_if(stopping || self.fetched.is_empty() || no_timer)
    }

    fn wake_if(&mut self, needed: bool) -> bool {
        let wake = needed && !self.fetcher_is_awake;
        self.fetcher_is_awake |= wake;
        wake
    }

    // ---- what must end ----

    /// Ends the runs whose timeout is over: each counts as a failure, and its job is settled now.
    fn end_overdue(&mut self, now: Instant, desk: &Desk) {
        while let Some(&Reverse((at, place, number))) = self.timeouts.peek() {
            let is_current = |held: &Held| held.run.as_ref().is_some_and(|run| run.number == number);
            if self.held[place].as_ref().is_some_and(is_current) {
                if at > now {
                    return;
                }
                self.interrupt(place, Interruption::TimedOut, desk);
            }
            self.timeouts.pop();
        }
    }

    /// Most runs end long before their timeout: what is left of them must not pile up.
    fn forget_old_timeouts(&mut self) {
        if self.timeouts.len() > 100 + 4 * self.held.len() {
            let held = &self.held;
            self.timeouts.retain(|Reverse((_, place, number))| {
                held[*place].as_ref().and_then(|held| held.run.as_ref()).is_some_and(|run| run.number == *number)
            });
        }
    }

    fn interrupt(&mut self, place: usize, why: Interruption, desk: &Desk) {
        let Some(held) = self.held[place].as_mut() else { return };
        let (job, lane) = (Arc::clone(&held.job), held.lane);
        let Some(run) = &mut held.run else {
            // It waits for an executor: only a lost lease ends that.
            self.fetched.retain(|&waiting| waiting != place);
            self.release_place(place);
            return;
        };
        if std::mem::replace(&mut run.interrupted, true) {
            return;
        }
        run.executor.interrupt(run.number, why);
        let (executor, number) = (run.executor.tag, run.number);
        match why {
            Interruption::TimedOut => {
                let timeout = job.envelope.timeout.unwrap_or(Millis::ZERO);
                let error = format!("ran longer than its timeout of {timeout} s");
                let failure = Settlement { job: &job, outcome: Outcome::FAILURE, error: &error, rewritten: None };
                let _ = self.note(lane, &failure);
            }
            Interruption::Stopped => {
                let _ = self.note(lane, &give_back(&job));
            }
            Interruption::LeaseLost => self.report.lost += 1,
        }
        let (queue, id) = (job.queue().name().to_owned(), job.id().to_owned());
        self.tell(WorkerEvent::Interrupted { queue, id, executor, run: number, why }, desk);
    }

    fn interrupt_all(&mut self, desk: &Desk) {
        for place in 0..self.held.len() {
            if self.held[place].as_ref().is_some_and(|held| held.run.is_some()) {
                self.interrupt(place, Interruption::Stopped, desk);
            }
        }
    }

    fn hoarded_at(&self) -> Option<Instant> {
        let oldest = self.held[*self.fetched.front()?].as_ref()?;
        Some(oldest.fetched_at + HOARDED_AFTER)
    }

    /// Jobs that were fetched ahead because others like them were short go back when these turn out to be long.
    fn give_back_hoarded(&mut self, now: Instant, desk: &Desk) {
        if self.running < self.concurrency || self.hoarded_at().is_none_or(|at| at > now) {
            return;
        }
        let mut by_lane = vec![0; self.lanes.len()];
        for &place in &self.fetched {
            if let Some(held) = &self.held[place] {
                by_lane[held.lane] += 1;
            }
        }
        let names: Vec<_> = self.fetched.iter().filter_map(|&place| self.held[place].as_ref()).collect();
        let mut queues = vec![String::new(); self.lanes.len()];
        for held in names {
            held.job.queue().name().clone_into(&mut queues[held.lane]);
        }
        self.give_back_fetched();
        self.prefetch.forget();
        for (queue, jobs) in queues.into_iter().zip(by_lane).filter(|(_, jobs)| *jobs > 0) {
            self.tell(WorkerEvent::GivenBack { queue, jobs }, desk);
        }
    }

    fn give_back_fetched(&mut self) {
        for place in std::mem::take(&mut self.fetched) {
            if let Some(held) = self.release_place(place) {
                let _ = self.note(held.lane, &give_back(&held.job));
            }
        }
    }

    fn tell(&mut self, event: WorkerEvent, desk: &Desk) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
        desk.event_there.notify_all();
        desk.event_there_async.notify_one();
    }
}

impl Held {
    fn is_interrupted(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.interrupted)
    }
}

fn give_back(job: &Job) -> Settlement<'_> {
    Settlement { job, outcome: Outcome::Release { after: Millis::ZERO }, error: "", rewritten: None }
}
