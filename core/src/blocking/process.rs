//! What a skin's worker needs of its process: signals as they come, and its end.
//!
//! Python and PHP see a signal only when they run their own code again, which during a call of C code or a query is its end.
//! What they have set for a signal is called as before.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Engine, Uninterrupted};
use crate::process::host;
pub use crate::process::id::id;
pub use crate::process::runtime::without_signals;
use crate::process::supervise::{self, STUCK};
pub use crate::process::supervise::{AfterExit, Exit, after_no_process, time_left};

/// Ends the connections of clients that this thread has dropped: else they end with its next call.
pub fn end_what_is_gone() {
    crate::process::runtime::end_what_is_gone();
}

/// Signals that a worker may ask for have smaller numbers.
const MOST: usize = 32;

/// How many came in this process since the first worker asked for them.
static CAME: AtomicU64 = AtomicU64::new(0);
/// What was set for each before.
static BEFORE: [AtomicUsize; MOST] = [const { AtomicUsize::new(libc::SIG_DFL) }; MOST];

/// How long the last outcomes may take to reach the server.
const FAREWELL: Duration = Duration::from_secs(3);

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// How many came so far.
pub fn came() -> u64 {
    CAME.load(Ordering::Acquire)
}

/// Counts this signal from now on, until another handler is set for it; false where the language has set none.
pub fn listen(signal: i64) -> bool {
    let Some((signal, before)) = i32::try_from(signal).ok().zip(usize::try_from(signal).ok()) else { return false };
    let Some(before) = BEFORE.get(before) else { return false };
    // SAFETY: all zeros is a valid action, the calls fill or read it, and it lives until they return. The handler is set with
    // the flags of the one that it calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let is_set = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
        let ours = caught as Handler as usize;
        if !is_set || [libc::SIG_DFL, libc::SIG_IGN, ours].contains(&action.sa_sigaction) {
            return false;
        }
        before.store(action.sa_sigaction, Ordering::Release);
        action.sa_sigaction = ours;
        action.sa_flags |= libc::SA_SIGINFO;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// Has this signal end the process at once and as if all was done, whatever it is busy with, until another handler is set.
pub fn leave_at(signal: i64) {
    extern "C" fn leave(_: libc::c_int) {
        // SAFETY: may be called by a signal handler.
        unsafe { libc::_exit(0) }
    }
    if let Ok(signal) = i32::try_from(signal) {
        let leave = leave as extern "C" fn(libc::c_int);
        // SAFETY: the handler does nothing but to end the process.
        unsafe { libc::signal(signal, leave as libc::sighandler_t) };
    }
}

/// Stops a worker's engine once for each signal, whoever checks first.
pub struct StopOnSignal {
    /// In a child that was forked from it the lock may be held for ever.
    pid: u32,
    handled: Mutex<u64>,
}

impl StopOnSignal {
    /// For the signals behind the first so many.
    pub fn since(came: u64) -> Self {
        Self { pid: id(), handled: Mutex::new(came) }
    }

    /// To be called often.
    pub fn check(&self, engine: &Engine) {
        if self.pid != id() {
            return;
        }
        let mut handled = self.handled.lock().unwrap_or_else(PoisonError::into_inner);
        let came = came();
        // The second ends the grace, and more say nothing new.
        for _ in 0..came.saturating_sub(*handled).min(2) {
            engine.stop();
        }
        *handled = came;
    }
}

/// Ends a process whose handler cannot be interrupted: reports what is known, and gives back what was fetched.
pub fn end_stuck(engine: &Engine) -> ! {
    let jobs: Vec<String> = engine.overdue().iter().map(|job| format!(" {job};")).collect();
    engine.stop();
    engine.stop();
    let _ = engine.ended(FAREWELL, &mut Uninterrupted);
    // Nobody may read it any more: no reason to panic.
    let jobs = jobs.concat();
    let _ = writeln!(io::stderr(), "duly:{jobs} the handler does not end: this process does, with exit code {STUCK}");
    // SAFETY: runs nothing of the language, which is busy.
    unsafe { libc::_exit(STUCK) }
}

/// A span that a language gives in seconds: nothing if it is negative, and the longest one if it is too long.
pub fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(if seconds > 0.0 { Duration::MAX } else { Duration::ZERO })
}

/// What a supervisor does about a worker process that has ended.
pub fn after_exit(exit: &Exit, is_stopping: bool) -> AfterExit {
    supervise::after_exit(exit, is_stopping, host::random_fraction())
}

/// The exit code of the process of a worker that has stopped, after these signals. `is_stuck`: a handler did not end.
pub fn exit_code(engine: &Engine, is_stuck: bool, signals: &[i32]) -> i32 {
    supervise::exit_code(engine.was_cut_short(), is_stuck, signals)
}

/// Touches nothing but atomics, as is right for a signal handler.
extern "C" fn caught(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CAME.fetch_add(1, Ordering::AcqRel);
    let before = usize::try_from(signal).ok().and_then(|signal| BEFORE.get(signal));
    if let Some(before) = before.map(|before| before.load(Ordering::Acquire))
        && ![libc::SIG_DFL, libc::SIG_IGN].contains(&before)
    {
        // SAFETY: it was set as a handler of this signal; one that takes only the number ignores the rest.
        let before = unsafe { std::mem::transmute::<usize, Handler>(before) };
        before(signal, info, context);
    }
}
