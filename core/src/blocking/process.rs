//! The process of a skin's worker: signals as they come, and its end.
//!
//! Python and PHP see a signal only when they run their own code again, which during a call of C code or a query is its end.
//! The handlers that they have set for a signal are called as before.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Engine, Uninterrupted};
pub use crate::process::id::id;
use crate::process::runtime::start_worker_thread;
pub use crate::process::runtime::without_signals;
pub use crate::process::supervise::PATIENCE;
use crate::process::supervise::{self, STUCK};
use crate::value::error::Error;
use crate::worker::AboutJob;

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
/// How long the last line may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

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
    handled: Mutex<Handled>,
}

/// The signals that were handled.
#[derive(Default)]
struct Handled {
    /// With those that came before.
    count: u64,
    first: Option<Instant>,
    second: Option<Instant>,
}

impl Handled {
    /// So many came so far. Gives how often the engine is to be stopped.
    fn note(&mut self, came: u64, now: Instant) -> u64 {
        let new = came.saturating_sub(self.count);
        self.count = self.count.max(came);
        let is_first = new > 0 && self.first.is_none();
        if is_first {
            self.first = Some(now);
        }
        if new > u64::from(is_first) {
            self.second.get_or_insert(now);
        }
        new.min(2) // the second ends the grace, and more say nothing new
    }

    fn grace_ends(&self, grace: Duration) -> Option<Instant> {
        let by_first = self.first?.checked_add(grace);
        by_first.into_iter().chain(self.second).min()
    }
}

impl StopOnSignal {
    /// For the signals behind the first so many.
    pub fn since(came: u64) -> Self {
        Self { pid: id(), handled: Mutex::new(Handled { count: came, ..Handled::default() }) }
    }

    /// To be called often.
    pub fn check(&self, engine: &Engine) {
        if self.pid != id() {
            return;
        }
        let mut handled = self.handled.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..handled.note(came(), Instant::now()) {
            engine.stop();
        }
    }

    /// When the grace ends that began with the first signal, if one came.
    pub fn grace_ends(&self, grace: Duration) -> Option<Instant> {
        self.handled.lock().unwrap_or_else(PoisonError::into_inner).grace_ends(grace)
    }
}

/// Starts the thread of a language that watches over a worker: it hears no signals.
///
/// Errors: `Internal` when the system gives no thread.
pub fn start_watchdog(watch: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    start_worker_thread("duly-watchdog", watch)
}

/// Ends a process with a handler, a hook or other code that cannot be interrupted: reports what is known, and gives back what was
/// fetched.
pub fn end_stuck(engine: &Engine) -> ! {
    let (handlers, decided) = (named(&engine.overdue()), named(&engine.decided()));
    let what = match (&*handlers, &*decided, &*named(&engine.in_hooks())) {
        ("", "", "") => "code beside the handlers does not end, such as a logger".to_owned(),
        ("", "", jobs) => format!("{jobs}; its on_failed hook does not end"),
        ("", jobs, _) => {
            format!("{jobs}; what becomes of it is decided, but a hook behind it or its handler does not end")
        }
        (jobs, ..) => format!("{jobs}; the handler does not end"),
    };
    engine.stop();
    engine.stop();
    let _ = engine.ended(FAREWELL, &mut Uninterrupted);
    leave(&what)
}

/// Ends a process that was to end by itself, but for code of the program that does not. What runs is left to the end of the leases:
/// that counts it.
pub fn end_left(engine: Option<&Engine>) -> ! {
    let jobs = engine.map_or_else(String::new, |engine| named(&engine.running()));
    let beginning = if jobs.is_empty() { jobs } else { jobs + "; " };
    leave(&format!("{beginning}a shutdown function or a destructor does not end"))
}

fn named(jobs: &[AboutJob]) -> String {
    jobs.iter().map(AboutJob::to_string).collect::<Vec<_>>().join("; ")
}

fn leave(why: &str) -> ! {
    last_words(format!("duly: {why}: this process does, with exit code {STUCK}\n"));
    // SAFETY: runs nothing of the language, which is busy.
    unsafe { libc::_exit(STUCK) }
}

/// Writes this to standard error, and waits for that no longer than a second: it may be a pipe that nobody reads.
pub fn last_words(text: String) {
    let (written, is_written) = mpsc::channel();
    let write = move || {
        // Nobody may read it any more: no reason to panic. Not by Rust's own handle, which another thread may hold.
        // SAFETY: the text lives until the call returns.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        let _ = written.send(());
    };
    if without_signals(|| std::thread::Builder::new().spawn(write)).is_ok() {
        let _ = is_written.recv_timeout(LAST_WORDS);
    }
}

/// A span that a language gives in seconds: nothing if it is negative, and the longest one if it is too long.
pub fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(if seconds > 0.0 { Duration::MAX } else { Duration::ZERO })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_handler_hangs_ends_by_itself_before_it_is_killed() {
        assert!(PATIENCE + FAREWELL + LAST_WORDS < supervise::MARGIN);
    }

    #[test]
    fn the_grace_begins_with_the_first_signal_and_ends_with_the_second() {
        let (start, grace) = (Instant::now(), Duration::from_secs(30));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut handled = Handled { count: 5, ..Handled::default() };
        assert_eq!((handled.note(5, at(0)), handled.grace_ends(grace)), (0, None));
        assert_eq!((handled.note(6, at(1)), handled.grace_ends(grace)), (1, Some(at(31))));
        assert_eq!((handled.note(6, at(2)), handled.grace_ends(grace)), (0, Some(at(31))));
        assert_eq!((handled.note(9, at(3)), handled.grace_ends(grace)), (2, Some(at(3))));
        assert_eq!((handled.note(10, at(4)), handled.grace_ends(grace)), (1, Some(at(3))));
        let mut both = Handled::default();
        assert_eq!((both.note(2, at(1)), both.grace_ends(grace)), (2, Some(at(1))));
        let mut late = Handled::default();
        assert_eq!((late.note(1, at(0)), late.note(2, at(40)), late.grace_ends(grace)), (1, 1, Some(at(30))));
        assert_eq!(late.grace_ends(Duration::MAX), Some(at(40)));
    }
}
