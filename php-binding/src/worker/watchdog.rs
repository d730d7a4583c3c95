//! The thread beside a worker's engine that gets PHP out of a handler that must end: a signal, which pcntl turns into an
//! exception at PHP's next tick, and when that does not help the end of the process. It never calls PHP.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use duly::ErrorKind;
use duly::blocking::process::{self, StopOnSignal};
use duly::blocking::{Engine, Interrupt, Uninterrupted};
use duly::worker::WorkerEvent;

use crate::error::Fault;

/// Nobody else uses it, the system ignores it unless there is a handler, and it cuts sleeps short.
const SIGNAL: libc::c_int = libc::SIGURG;
/// A signal that came just before PHP had entered the handler is given again this soon.
const AGAIN: Duration = Duration::from_millis(50);
/// How soon the thread notices that its engine is gone.
const LOOK_UP: Duration = Duration::from_secs(1);
/// How long the end of an engine waits for its last events; far more than that takes.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Events that nobody reads are dropped, the oldest first.
const MOST_EVENTS: usize = 1000;

/// What the thread shares with the worker.
pub struct Watchdog {
    php: libc::pthread_t,
    patience: Duration,
    /// The number of the run that PHP is busy with; 0 for none.
    running: AtomicU64,
    ended: AtomicBool,
    has_events: AtomicBool,
    events: Mutex<VecDeque<WorkerEvent>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watchdog {
    /// Starts the thread. To be called by the thread that runs the handlers.
    pub fn start(engine: &Arc<Engine>, patience: Duration) -> Result<Arc<Self>, Fault> {
        let watchdog = Arc::new(Self {
            // SAFETY: always succeeds.
            php: unsafe { libc::pthread_self() },
            patience,
            running: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            has_events: AtomicBool::new(false),
            events: Mutex::default(),
            thread: Mutex::default(),
        });
        // The thread may start late: what comes from now on counts.
        let (of_thread, engine) = (Arc::clone(&watchdog), Arc::downgrade(engine));
        let on_signal = StopOnSignal::since(process::came());
        let thread = std::thread::Builder::new().name("duly-watchdog".to_owned());
        let thread =
            process::without_signals(|| thread.spawn(move || of_thread.run(&engine, &on_signal))).map_err(|error| {
                duly::Error::new(ErrorKind::Internal, format!("the system gives no thread to the worker: {error}"))
            })?;
        *watchdog.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(watchdog)
    }

    /// Waits until the thread of an engine that has ended has kept the last events.
    pub fn hear_all(&self) {
        let until = Instant::now() + LAST_WORDS;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy = || self.running.load(Ordering::Acquire) != 0; // with a run that PHP has not ended
        while thread.as_ref().is_some_and(|thread| !thread.is_finished()) && !is_busy() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A handler may have blocked the worker's signals, which would be deaf from then on. To be called by PHP's thread.
    pub fn let_signals_through(&self) {
        if self.patience.is_zero() {
            return; // PHP has no pcntl, and so nothing to hear them with
        }
        // SAFETY: the calls fill or read the set, which lives until they return.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, SIGNAL] {
                libc::sigaddset(&raw mut signals, signal);
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const signals, std::ptr::null_mut());
        }
    }

    /// PHP is busy with this run from now on.
    pub fn running(&self, run: u64) {
        self.running.store(run, Ordering::Release);
    }

    /// The worker is gone.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub fn has_events(&self) -> bool {
        self.has_events.load(Ordering::Acquire)
    }

    pub fn take_events(&self) -> VecDeque<WorkerEvent> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_events.store(false, Ordering::Release);
        std::mem::take(&mut *events)
    }

    fn run(&self, engine: &Weak<Engine>, on_signal: &StopOnSignal) {
        let mut has_ended = false;
        while let Some(engine) = engine.upgrade() {
            let Ok(event) = engine.event(LOOK_UP, &mut SignalCheck { engine: &engine, on_signal }) else {
                return;
            };
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            let Some(event) = event else {
                if has_ended {
                    return;
                }
                // Between the wait and this look the last event may have come.
                has_ended = !matches!(engine.ended(Duration::ZERO, &mut Uninterrupted), Ok(None));
                continue;
            };
            let run = match &event {
                WorkerEvent::Interrupted { run, .. } => Some(*run),
                _ => None,
            };
            self.keep(event, &engine);
            if let Some(run) = run {
                self.interrupt(run, &engine);
            }
        }
    }

    fn keep(&self, event: WorkerEvent, engine: &Engine) {
        if matches!(event, WorkerEvent::Stopping { .. }) {
            return; // PHP would say it when its only job has ended
        }
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() == MOST_EVENTS
            && let Some(event) = events.pop_front()
        {
            engine.leave_unread(&event);
        }
        events.push_back(event);
        self.has_events.store(true, Ordering::Release);
    }

    /// Until the run has ended.
    fn interrupt(&self, run: u64, engine: &Engine) {
        let until = Instant::now() + self.patience;
        while self.running.load(Ordering::Acquire) == run && !self.ended.load(Ordering::Acquire) {
            if Instant::now() >= until {
                process::end_stuck(engine);
            }
            // SAFETY: the thread of PHP ends the watchdog before it ends.
            unsafe { libc::pthread_kill(self.php, SIGNAL) };
            std::thread::sleep(AGAIN);
        }
    }
}

/// Stops the engine at each signal, while the thread waits for events.
struct SignalCheck<'a> {
    engine: &'a Engine,
    on_signal: &'a StopOnSignal,
}

impl Interrupt for SignalCheck<'_> {
    type Error = duly::Error;

    fn check(&mut self) -> Result<(), duly::Error> {
        self.on_signal.check(self.engine);
        Ok(())
    }
}

pub fn blocks_alarm() -> bool {
    // SAFETY: the calls fill and read the set, which lives until they return.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked);
        libc::sigismember(&raw const blocked, libc::SIGALRM) == 1
    }
}

/// No alarm is set, none waits, and the next one gets through.
pub fn clear_alarm() {
    // SAFETY: the calls touch nothing but the set, which lives until they return.
    unsafe {
        libc::alarm(0);
        // To ignore a signal takes one back that waits. What is set for it stays.
        let mut set: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGALRM, std::ptr::null(), &raw mut set);
        libc::signal(libc::SIGALRM, libc::SIG_IGN);
        libc::sigaction(libc::SIGALRM, &raw const set, std::ptr::null_mut());
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const signals, std::ptr::null_mut());
    }
}

/// Has this process get SIGTERM when its parent, which had this id, is gone.
#[cfg(target_os = "linux")]
pub fn follow_parent(parent: i64) -> bool {
    // SAFETY: neither call touches memory of ours.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
            return false;
        }
        // It may have gone before.
        if i64::from(libc::getppid()) != parent {
            libc::raise(libc::SIGTERM);
        }
    }
    true
}

/// Only Linux can.
#[cfg(not(target_os = "linux"))]
pub fn follow_parent(_parent: i64) -> bool {
    false
}
