//! The engine of a worker: fetches jobs, renews their leases, and reports to the server what became of them, on a native thread of
//! its own, whatever the handlers do. Languages only run handlers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;

use super::beat::{self, Presence};
use super::desk::Desk;
use super::event::{AboutJob, FailedJob, WorkerEvent};
use super::executor::{Executor, ExecutorShared};
use super::fetch::Fetcher;
use super::sync_schedules::AtStart;
use super::{WorkerReport, WorkerSettings, fire_schedules, renew, timer};
use crate::process::id::id;
use crate::process::runtime::start_worker_thread;
use crate::process::standard;
use crate::queue::Client;
use crate::value::error::{Error, ErrorKind};
use crate::value::time::LONGEST_WAIT;

/// A running engine. Dropping it abandons what runs: the leases end by themselves.
///
/// It belongs to the process that started it: in a forked child it does nothing.
pub struct Engine {
    pub(super) desk: Arc<Desk>,
    settings: WorkerSettings,
    pid: u32,
    next_executor: AtomicU64,
    stop_requested: AtomicBool,
    thread: Mutex<Thread>,
}

enum Thread {
    Running(JoinHandle<Result<(), Error>>),
    /// Kept, because more than one may ask.
    Ended(Result<(), Error>),
}

/// When the thread ends, also by an error or a panic, nobody may wait for more.
struct Over(Arc<Desk>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.has_ended();
    }
}

impl Engine {
    /// Starts the thread, which makes connections of its own with the client's settings.
    ///
    /// Errors: `InvalidArgument` for settings out of range, `Internal` when the system gives no thread.
    pub fn start(client: &Client, settings: WorkerSettings) -> Result<Self, Error> {
        Self::of(client, Desk::new(&settings), settings)
    }

    /// The same for an owner that pulls.
    pub(super) fn for_consumer(client: &Client, settings: WorkerSettings) -> Result<Self, Error> {
        Self::of(client, Desk::new(&settings).pulled(), settings)
    }

    fn of(client: &Client, desk: Desk, settings: WorkerSettings) -> Result<Self, Error> {
        settings.check(client)?;
        let desk = Arc::new(desk);
        let fetcher = Fetcher::new(client, &settings, Arc::clone(&desk))?;
        standard::occupy();
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| {
            Error::new(ErrorKind::Internal, "the system gives no event queue: are there too many open files?")
                .caused_by(error)
        })?;
        let of_thread = Arc::clone(&desk);
        let lease = settings.lease;
        let at_start = AtStart::new(fetcher.client(), settings.schedules.clone())?;
        let presence = Arc::new(Presence::new(fetcher.queues(), fetcher.queues_of_jobs(), &settings)?);
        let run = move || {
            let (lanes, desk) = (fetcher.queues(), of_thread);
            let _over = Over(Arc::clone(&desk));
            runtime.block_on(async {
                let mut shown = presence.show(&desk);
                let mut fired = fire_schedules::watch(&lanes, &desk);
                let jobs = async {
                    at_start.was_tried().await;
                    fetcher.run().await
                };
                let ended = tokio::select! {
                    ended = jobs => ended,
                    never = at_start.store(&desk) => match never {},
                    never = renew::leases(&desk, lanes, lease) => match never {},
                    never = beat::never_ends(&mut shown) => match never {},
                    never = timer::watch(&desk) => match never {},
                    never = beat::never_ends(&mut fired) => match never {},
                };
                if ended.is_ok() {
                    beat::all_left(fired).await;
                    beat::all_left(shown).await;
                }
                ended.and_then(|()| desk.failure().map_or(Ok(()), Err))
            })
        };
        let thread = start_worker_thread("duly-worker", run)?;
        Ok(Self {
            desk,
            settings,
            pid: id(),
            next_executor: AtomicU64::new(0),
            stop_requested: AtomicBool::new(false),
            thread: Mutex::new(Thread::Running(thread)),
        })
    }

    /// A new executor. The engine serves any number; `concurrency` jobs at most run or are about to.
    pub fn executor(&self) -> Executor {
        let tag = self.next_executor.fetch_add(1, Ordering::Relaxed);
        Executor { desk: Arc::clone(&self.desk), shared: Arc::new(ExecutorShared::new(tag)) }
    }

    /// Starts nothing more, gives back what waits, and lets what runs end within the settings' grace; a second call ends the
    /// grace now. Returns at once.
    pub fn stop(&self) {
        if self.pid != id() {
            return; // its locks may be held for ever
        }
        if self.stop_requested.swap(true, Ordering::Relaxed) {
            self.desk.stop_now();
        } else {
            self.desk.stop(self.settings.grace);
        }
    }

    /// The same as the process ends by itself: a request to stop before or behind it asks for nothing more.
    pub fn stop_to_exit(&self) {
        if self.pid == id() && !self.stop_requested.load(Ordering::Relaxed) {
            self.desk.stop(self.settings.grace);
        }
    }

    /// The same with a grace of this long, whose end no second call brings forward but a shorter one.
    pub(super) fn stop_within(&self, grace: Duration) {
        self.stop_requested.store(true, Ordering::Relaxed);
        self.desk.stop(grace);
    }

    /// Starts nothing more, and ends when what runs has ended, which may take as long as it needs, until somebody asks for a stop: as behind
    /// the last of `max_jobs`. Returns at once.
    pub fn retire(&self) {
        if self.pid == id() {
            self.desk.stop(LONGEST_WAIT);
        }
    }

    /// Was it asked to stop?
    pub fn is_stopping(&self) -> bool {
        self.desk.is_stopping()
    }

    /// Has it said all it had to say?
    pub(crate) fn is_over(&self) -> bool {
        self.desk.ended_within(Duration::ZERO)
    }

    /// Waits until the engine has ended after a stop, or by an error that waiting does not cure.
    ///
    /// Errors: `AuthenticationFailed`, `PermissionDenied`, `FormatTooNew`, `Corrupt`, ...
    pub async fn ended(&self) -> Result<WorkerReport, Error> {
        self.desk.until_ended().await;
        // It takes its runtime down yet, which is no reason to hold up the caller's thread.
        while self.is_thread_running() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.join()
    }

    fn is_thread_running(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*thread, Thread::Running(thread) if !thread.is_finished())
    }

    /// The same for a thread; nothing when it has not ended within the wait.
    pub fn ended_within(&self, wait: Duration) -> Option<Result<WorkerReport, Error>> {
        self.desk.ended_within(wait).then(|| self.join())
    }

    /// What it did so far.
    pub fn report(&self) -> WorkerReport {
        self.desk.report()
    }

    /// Did a job go back because its grace ended? That is for the exit code of its process.
    pub fn was_cut_short(&self) -> bool {
        self.desk.was_cut_short()
    }

    /// For how long nobody has read the oldest event.
    pub fn unread_for(&self) -> Duration {
        self.desk.unread_for()
    }

    /// For how long a run goes on that was interrupted, the first of them; nothing if there is none.
    pub fn overdue_for(&self) -> Duration {
        self.desk.overdue_for()
    }

    /// The jobs of runs that go on though they were interrupted, and whose outcome that has decided.
    pub fn overdue(&self) -> Vec<AboutJob> {
        self.desk.overdue()
    }

    /// The same of runs whose outcome had been decided before: their hooks go on, or the handler that has said it.
    pub fn decided(&self) -> Vec<AboutJob> {
        self.desk.decided()
    }

    /// The jobs of all runs that have not ended.
    pub fn running(&self) -> Vec<AboutJob> {
        self.desk.all_running()
    }

    /// The jobs whose hooks are called just now: see [`Self::may_call_hooks`].
    pub fn in_hooks(&self) -> Vec<AboutJob> {
        self.desk.in_hooks()
    }

    /// The next event, waited for by this thread; none within the wait, or when the engine has ended.
    pub fn event_within(&self, wait: Duration) -> Option<WorkerEvent> {
        self.desk.event_within(wait)
    }

    /// The same for a task, which never gets one when there is none.
    pub async fn event(&self) -> WorkerEvent {
        self.desk.event().await
    }

    /// Are the hooks of a job that [`WorkerEvent::Failed`] reported still to be called here? To be asked just before that. An engine
    /// that ends gives back the jobs whose hooks nobody has begun to call: then other workers call them. If its owner calls hooks
    /// between its runs, one that stops gives them back at once, and lets the one that is called end within the grace.
    pub fn may_call_hooks(&self, failed: &FailedJob) -> bool {
        self.desk.begins_hooks(failed)
    }

    /// The hooks have run for a job that [`WorkerEvent::Failed`] reported: nobody else hears of it any more. False if another worker
    /// does, because the engine had ended before.
    pub fn heard(&self, failed: &FailedJob) -> bool {
        self.desk.heard(failed)
    }

    /// The owner does not go on with the hooks that it has begun to call ([`Self::may_call_hooks`]): another worker is to call them.
    pub fn leave_hooks(&self, failed: &FailedJob) {
        self.desk.leave_hooks(failed);
    }

    /// Nobody will read this event, which was taken: if it reported a failed job, another worker is to call the hooks.
    pub fn leave_unread(&self, event: &WorkerEvent) {
        self.desk.leave_unread(event);
    }

    fn join(&self) -> Result<WorkerReport, Error> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = match std::mem::replace(&mut *thread, Thread::Ended(Ok(()))) {
            Thread::Ended(ended) => ended,
            Thread::Running(thread) => thread.join().unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Internal, "a defect in duly's worker, please report it: it panicked"))
            }),
        };
        *thread = Thread::Ended(ended.clone());
        ended.map(|()| self.desk.report())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.pid != id() {
            // The thread was the parent's.
            let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::replace(thread, Thread::Ended(Ok(()))));
            return;
        }
        // The thread ends by itself; waiting for it here could hold up a runtime.
        if self.stop_requested.load(Ordering::Relaxed) {
            // It gives back what it has; nobody is left who could run it.
            self.desk.stop(Duration::ZERO);
        } else {
            self.desk.abandon();
        }
    }
}
