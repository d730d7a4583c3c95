//! The thread beside a worker's engine that gets PHP out of a handler that must end: a signal, which pcntl turns into an
//! exception at PHP's next tick, and when that does not help the end of the process. The same for other code of the program that
//! keeps PHP from the engine when the grace is over: hooks between two runs, loggers, destructors. It never calls PHP.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use duly::blocking::process::{self, StopOnSignal};
use duly::blocking::supervision::STOP_SIGNALS;
use duly::blocking::{Engine, Interrupt, Uninterrupted};
use duly::worker::WorkerEvent;
use ext_php_rs::zend::{ExecutorGlobals, SapiModule};

use crate::error::Fault;

/// Nobody else uses it, the system ignores it unless there is a handler, and it cuts sleeps short.
const SIGNAL: libc::c_int = libc::SIGURG;
/// A signal that came just before PHP had entered the handler is given again this soon.
const AGAIN: Duration = Duration::from_millis(50);
/// How soon the thread notices that its engine is gone.
const LOOK_UP: Duration = Duration::from_secs(1);
/// How often it checks for signals when the engine has ended, and PHP has not.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long the end of an engine waits for its last events; far more than that takes.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Events that nobody reads are dropped, the oldest first.
const MOST_EVENTS: usize = 1000;

/// How long the shutdown functions and destructors of a program may take whose worker is gone.
const LAST_STEPS: Duration = Duration::from_secs(5);

/// What the thread shares with the worker.
pub struct Watchdog {
    php: libc::pthread_t,
    grace: Duration,
    patience: Duration,
    /// The number of the run that PHP is busy with; 0 for none.
    running: AtomicU64,
    /// Counts the signs of life: PHP calls the engine, or waits in such a call.
    signs: AtomicU64,
    ended: AtomicBool,
    /// The worker has begun its own last words: behind them `must_end` counts.
    is_leaving: AtomicBool,
    /// What PHP says of itself, in its memory.
    flags: AtomicPtr<u8>,
    /// There will be no more events.
    has_heard_all: AtomicBool,
    has_events: AtomicBool,
    events: Mutex<VecDeque<WorkerEvent>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watchdog {
    /// Starts the thread. To be called by the thread that runs the handlers.
    pub fn start(engine: &Arc<Engine>, grace: Duration, patience: Duration) -> Result<Arc<Self>, Fault> {
        let watchdog = Arc::new(Self {
            // SAFETY: always succeeds.
            php: unsafe { libc::pthread_self() },
            grace,
            patience,
            running: AtomicU64::new(0),
            signs: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            flags: AtomicPtr::new((&raw const ExecutorGlobals::get().flags).cast_mut()),
            has_heard_all: AtomicBool::new(false),
            has_events: AtomicBool::new(false),
            events: Mutex::default(),
            thread: Mutex::default(),
        });
        // The thread may start late: what comes from now on counts.
        let (of_thread, engine) = (Arc::clone(&watchdog), Arc::downgrade(engine));
        let on_signal = StopOnSignal::since(process::came());
        let thread = process::start_watchdog(move || of_thread.run(&engine, &on_signal))?;
        *watchdog.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(watchdog)
    }

    /// Waits until the thread of an engine that has ended has kept the last events.
    pub fn hear_all(&self) {
        let until = Instant::now() + LAST_WORDS;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy = || self.running.load(Ordering::Acquire) != 0; // with a run that PHP has not ended
        let hears = || !self.has_heard_all.load(Ordering::Acquire);
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && hears()
            && !is_busy()
            && Instant::now() < until
        {
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
            for signal in STOP_SIGNALS.into_iter().chain([SIGNAL]) {
                libc::sigaddset(&raw mut signals, signal);
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const signals, std::ptr::null_mut());
        }
    }

    /// PHP is busy with this run from now on. It may have been interrupted before, which is to be asked behind this.
    pub fn running(&self, run: u64) {
        self.running.store(run, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// PHP calls the engine, or waits in such a call.
    pub fn sign_of_life(&self) {
        self.signs.fetch_add(1, Ordering::Relaxed);
    }

    /// PHP ends, and the worker says its last words.
    pub fn leaves(&self) {
        self.is_leaving.store(true, Ordering::Release);
    }

    /// Does PHP end, and is busy with the program's own shutdown functions?
    fn is_in_shutdown(&self) -> bool {
        const EG_FLAGS_IN_SHUTDOWN: u8 = 1;
        // SAFETY: the flags live as long as PHP's thread, which ends the watchdog before it ends; one byte is read whole.
        let flags = unsafe { self.flags.load(Ordering::Relaxed).read_volatile() };
        flags & EG_FLAGS_IN_SHUTDOWN != 0 && !self.is_leaving.load(Ordering::Acquire)
    }

    /// The worker is gone, and the program may go on as long as it likes.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.thread().unpark();
        }
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
        let mut silence = Silence::default();
        self.hear(engine, on_signal, &mut silence);
        self.has_heard_all.store(true, Ordering::Release);
        // PHP may be in a hook, or at its last words.
        while !self.ended.load(Ordering::Acquire)
            && let Some(engine) = engine.upgrade()
        {
            Checks { watchdog: self, engine: &engine, on_signal, silence: &mut silence }.look();
            drop(engine);
            std::thread::park_timeout(CHECK_EVERY);
        }
    }

    /// Until the engine has ended.
    fn hear(&self, engine: &Weak<Engine>, on_signal: &StopOnSignal, silence: &mut Silence) {
        let mut has_ended = false;
        while let Some(engine) = engine.upgrade() {
            let mut checks = Checks { watchdog: self, engine: &engine, on_signal, silence };
            let Ok(event) = engine.event(LOOK_UP, &mut checks) else {
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
        fence(Ordering::SeqCst);
        while self.running.load(Ordering::Acquire) == run && !self.ended.load(Ordering::Acquire) {
            if Instant::now() >= until {
                process::end_stuck(engine);
            }
            self.signal();
            std::thread::sleep(AGAIN);
        }
    }

    fn signal(&self) {
        // SAFETY: the thread of PHP ends the watchdog before it ends.
        unsafe { libc::pthread_kill(self.php, SIGNAL) };
    }
}

/// Since when PHP gives no sign of life though the grace is over.
#[derive(Default)]
struct Silence {
    since: Option<Instant>,
    signs: u64,
    /// Since when the engine has ended: behind its last run, without a signal.
    over: Option<Instant>,
    /// Since when PHP ends.
    leaving: Option<Instant>,
}

/// What the thread does while it waits: stops the engine at each signal, and ends a process that has heard one and does not end.
struct Checks<'a> {
    watchdog: &'a Watchdog,
    engine: &'a Engine,
    on_signal: &'a StopOnSignal,
    silence: &'a mut Silence,
}

impl Checks<'_> {
    fn look(&mut self) {
        self.on_signal.check(self.engine);
        let now = Instant::now();
        let is_over = self.on_signal.grace_ends(self.watchdog.grace).is_some_and(|at| at <= now)
            || self.engine.is_over() && now - *self.silence.over.get_or_insert(now) >= self.watchdog.grace;
        if self.watchdog.ended.load(Ordering::Acquire) {
            return;
        }
        if self.watchdog.is_in_shutdown()
            && is_of_one_program()
            && now - *self.silence.leaving.get_or_insert(now) >= LAST_STEPS
        {
            process::end_left(Some(self.engine));
        }
        if !is_over {
            return;
        }
        let signs = self.watchdog.signs.load(Ordering::Relaxed);
        let Some(since) = self.silence.since.filter(|_| signs == self.silence.signs) else {
            (self.silence.since, self.silence.signs) = (Some(now), signs);
            return;
        };
        if now - since >= self.watchdog.patience {
            process::end_stuck(self.engine);
        }
        self.watchdog.signal();
    }
}

impl Interrupt for Checks<'_> {
    type Error = duly::Error;

    fn check(&mut self) -> Result<(), duly::Error> {
        self.look();
        Ok(())
    }
}

/// Is this a process of PHP's command line? That of a web server has other requests, and lives on.
fn is_of_one_program() -> bool {
    let name = SapiModule::get().name;
    // SAFETY: PHP's own name, which ends with a NUL byte and lives as long as PHP.
    !name.is_null() && matches!(unsafe { CStr::from_ptr(name) }.to_bytes(), b"cli" | b"phpdbg")
}

/// This process is to end, whatever the program's shutdown functions and destructors do. Without a thread for that it may take longer.
pub fn must_end() {
    if !is_of_one_program() {
        return;
    }
    let end = || {
        std::thread::sleep(LAST_STEPS);
        process::end_left(None)
    };
    let thread = std::thread::Builder::new().name("duly-last-steps".to_owned());
    let _ = process::without_signals(|| thread.spawn(end));
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
