//! The signals that end a command, which it hears of to end well.

use std::cell::{Cell, UnsafeCell};
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use duly::{Error, ErrorKind};
use libc::c_int;
use tokio::time::sleep;

use crate::{DONE, INTERRUPTED};

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP: a terminal that goes away sends it, or the end of an `ssh`.
    HungUp,
}

impl End {
    /// The exit status of a command that runs until it is ended.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Interrupted => INTERRUPTED,
            Self::Terminated | Self::HungUp => DONE,
        }
    }

    /// The exit status of one that is ended before it has done all: that of a process which the signal ends, as a shell says it.
    pub(crate) fn status_before_the_end(self) -> u8 {
        match self {
            Self::Interrupted => INTERRUPTED,
            Self::Terminated => 143,
            Self::HungUp => 129,
        }
    }

    const fn number(self) -> c_int {
        match self {
            Self::Interrupted => libc::SIGINT,
            Self::Terminated => libc::SIGTERM,
            Self::HungUp => libc::SIGHUP,
        }
    }

    /// Gives it to the program, which had set a handler for it, now that the command does not hear of it any more: once, however many
    /// commands have heard of it.
    pub(crate) fn pass_on(self) {
        for handled in HANDLED.iter().filter(|handled| handled.end == self) {
            let is_due = handled.pass_on(&Locked::wait());
            handled.send_if(is_due);
        }
    }
}

/// Hears of the signals that end a command until this is dropped. What the language has set for them is not called meanwhile:
/// PHP's own handlers end the process. One that is ignored stays ignored, as `nohup` has SIGHUP, and some shells have SIGINT of what
/// runs in the background.
pub(crate) struct Ends {
    heard: Vec<Heard>,
    /// Those that came and that the command did not see go to the program.
    are_passed_on: bool,
}

impl Ends {
    pub(crate) fn hear() -> Result<Self, Error> {
        Self::of(|action| action != libc::SIG_IGN, false)
    }

    /// Only of those for which the program has a handler, which would be called when the command has ended. The others end the process.
    pub(crate) fn hear_for_program() -> Result<Self, Error> {
        Self::of(|action| action != libc::SIG_IGN && action != libc::SIG_DFL, true)
    }

    fn of(wanted: fn(libc::sighandler_t) -> bool, are_passed_on: bool) -> Result<Self, Error> {
        hear_of_forks()
            .map_err(|error| Error::new(ErrorKind::Internal, format!("signals cannot be heard of: {error}")))?;
        let heard = HANDLED.iter().filter_map(|handled| handled.begin(&Locked::wait(), wanted)).collect();
        Ok(Self { heard, are_passed_on })
    }

    /// Ready at the first of them.
    pub(crate) async fn come(&mut self) -> End {
        loop {
            if let Some(heard) = self.heard.iter_mut().find(|heard| heard.has_come()) {
                heard.seen = heard.handled.came.load(Ordering::Acquire);
                return heard.handled.end;
            }
            if self.heard.is_empty() {
                return pending().await;
            }
            sleep(LOOK).await;
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for heard in &self.heard {
            let is_due = heard.end(&Locked::wait(), self.are_passed_on);
            heard.handled.send_if(is_due);
        }
    }
}

/// How often a command checks for signals. The handler only counts them. To wake a runtime it would write to a pipe, and a forked process
/// shares that pipe: it could read what was written for its parent.
const LOOK: Duration = Duration::from_millis(50);

/// One signal in this process, whose commands may overlap.
///
/// A process that is forked while a command runs has a copy, and nobody who hears of the signal there: [`forked`] puts all right, whatever
/// was going on in other threads. So there is no mutex, which could be locked there for ever.
struct Handled {
    end: End,
    /// How often it came.
    came: AtomicUsize,
    /// How often it had come when the program was given it the last time.
    passed: AtomicUsize,
    /// A command that has ended could not give it to the program, because others still ran: the last of them does.
    is_owed: AtomicBool,
    /// How many commands hear of it.
    commands: AtomicUsize,
    /// `before` is whole. Perhaps somebody has set another one since.
    is_kept: AtomicBool,
    /// What was set before, and is again when the last command has ended.
    before: UnsafeCell<libc::sigaction>,
}

// SAFETY: `before` is read and written only under the lock, or in a process that has one thread yet.
unsafe impl Sync for Handled {}

static HANDLED: [Handled; 3] =
    [Handled::new(End::Interrupted), Handled::new(End::Terminated), Handled::new(End::HungUp)];

/// The handler.
extern "C" fn note(number: c_int) {
    for handled in &HANDLED {
        if handled.end.number() == number {
            handled.came.fetch_add(1, Ordering::Release);
        }
    }
}

/// The lock of them all. It is held for a few calls of the system.
static LOCK: AtomicBool = AtomicBool::new(false);

struct Locked;

impl Locked {
    fn wait() -> Self {
        while LOCK.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        Self
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCK.store(false, Ordering::Release);
    }
}

/// A signal that a command hears of.
struct Heard {
    handled: &'static Handled,
    /// How often it had come when the command looked.
    seen: usize,
}

impl Heard {
    fn has_come(&self) -> bool {
        self.handled.came.load(Ordering::Acquire) != self.seen
    }

    /// The command has ended. Is what came, and it did not see, to be sent to the program? What comes behind this, that hears of itself.
    fn end(&self, locked: &Locked, is_passed_on: bool) -> bool {
        let is_last = self.handled.end(locked);
        let is_owed = is_last && self.handled.is_owed.load(Ordering::Relaxed);
        (is_owed || is_passed_on && self.has_come()) && self.handled.pass_on(locked)
    }
}

impl Handled {
    const fn new(end: End) -> Self {
        Self {
            end,
            came: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
            is_owed: AtomicBool::new(false),
            commands: AtomicUsize::new(0),
            is_kept: AtomicBool::new(false),
            before: UnsafeCell::new(DEFAULT),
        }
    }

    /// Another command hears of it, beside those that do; nothing if its action is not the wanted one.
    fn begin(&'static self, _: &Locked, wanted: fn(libc::sighandler_t) -> bool) -> Option<Heard> {
        let current = now(self.end.number());
        if !wanted(current.sa_sigaction) {
            return None;
        }
        let seen = self.came.load(Ordering::Acquire);
        self.commands.fetch_add(1, Ordering::Relaxed);
        if !is_ours(&current) {
            self.keep(current);
            let replaced = set(self.end.number(), &ours());
            // The program may have set another one this moment.
            if !is_ours(&replaced) {
                self.keep(replaced);
            }
        }
        Some(Heard { handled: self, seen })
    }

    /// By who has the lock.
    fn keep(&self, action: libc::sigaction) {
        self.is_kept.store(false, Ordering::Release);
        // SAFETY: only one thread has the lock, and a forked process does not read what is not kept.
        unsafe { *self.before.get() = action };
        self.is_kept.store(true, Ordering::Release);
    }

    /// A command that heard of it hears of it no more. Was it the last one?
    fn end(&self, _: &Locked) -> bool {
        // A process that was forked by what a command has called counts from 0.
        let was = self.commands.load(Ordering::Relaxed);
        self.commands.store(was.saturating_sub(1), Ordering::Relaxed);
        if was == 1 {
            self.restore();
        }
        was == 1
    }

    /// Is it to be sent to the program now? Not twice; not while a command hears of it, but then when the last one ends; and not if it
    /// would end what was not to be ended.
    fn pass_on(&self, _: &Locked) -> bool {
        let (came, action) = (self.came.load(Ordering::Acquire), now(self.end.number()));
        let is_new = came != self.passed.load(Ordering::Relaxed);
        self.is_owed.store(is_new && is_ours(&action), Ordering::Relaxed);
        if !is_new || is_ours(&action) {
            return false;
        }
        self.passed.store(came, Ordering::Relaxed);
        action.sa_sigaction != libc::SIG_DFL
    }

    /// Without the lock: a handler may do anything.
    fn send_if(&self, is_due: bool) {
        if is_due {
            // SAFETY: it only sends a signal.
            unsafe { libc::kill(libc::getpid(), self.end.number()) };
        }
    }

    /// Unless somebody else has set another one meanwhile, such as a worker. By who has the lock, or is the only thread.
    fn restore(&self) {
        if is_ours(&now(self.end.number())) {
            // SAFETY: nobody writes it meanwhile.
            set(self.end.number(), unsafe { &*self.before.get() });
        }
    }
}

fn ours() -> libc::sigaction {
    let handler: extern "C" fn(c_int) = note;
    libc::sigaction { sa_sigaction: handler as libc::sighandler_t, sa_flags: libc::SA_RESTART, ..DEFAULT }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == ours().sa_sigaction
}

thread_local! {
    /// What this thread had blocked before it forked, and is again behind it. Two first commands at once may ask the system twice.
    static BLOCKED: Cell<Option<libc::sigset_t>> = const { Cell::new(None) };
}

// SAFETY: all zeros is a valid set of signals.
const NONE: libc::sigset_t = unsafe { std::mem::zeroed() };

/// Asks the system once to call [`forked`], and to keep the signals back that come before it: what is forked is known to others before
/// its first instruction.
fn hear_of_forks() -> std::io::Result<()> {
    static IS_ASKED: AtomicBool = AtomicBool::new(false);
    if IS_ASKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the functions may be called in a child of a process with threads: they only read and set numbers, actions and masks.
    match unsafe { libc::pthread_atfork(Some(forks), Some(has_forked), Some(forked)) } {
        0 => {
            IS_ASKED.store(true, Ordering::Relaxed);
            Ok(())
        }
        code => Err(std::io::Error::from_raw_os_error(code)),
    }
}

extern "C" fn forks() {
    let (mut signals, mut blocked) = (NONE, NONE);
    // SAFETY: both live until the calls return.
    unsafe {
        for handled in &HANDLED {
            libc::sigaddset(&raw mut signals, handled.end.number());
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, &raw mut blocked);
    }
    BLOCKED.set(BLOCKED.get().or(Some(blocked)));
}

extern "C" fn has_forked() {
    if let Some(blocked) = BLOCKED.take() {
        // SAFETY: it lives until the call returns.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut()) };
    }
}

/// In a process that was just forked, whose only thread runs this. Without it, the signals would end nothing there: nobody hears of them.
extern "C" fn forked() {
    for handled in &HANDLED {
        handled.commands.store(0, Ordering::Relaxed);
        // What has come is the other process's.
        handled.passed.store(handled.came.load(Ordering::Acquire), Ordering::Relaxed);
        handled.is_owed.store(false, Ordering::Relaxed);
        if handled.is_kept.swap(false, Ordering::Acquire) {
            handled.restore();
        }
    }
    LOCK.store(false, Ordering::Release);
    has_forked();
}

/// That of the system, with no flags and an empty mask.
// SAFETY: all zeros is a valid action.
const DEFAULT: libc::sigaction = unsafe { std::mem::zeroed() };

/// Gives the action of before.
fn set(signal: c_int, action: &libc::sigaction) -> libc::sigaction {
    let mut before = DEFAULT;
    // SAFETY: both live until the call returns. The action is that of the system, or was set for this signal before.
    unsafe { libc::sigaction(signal, &raw const *action, &raw mut before) };
    before
}

fn now(signal: c_int) -> libc::sigaction {
    let mut action = DEFAULT;
    // SAFETY: the action lives until the call returns.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;

    /// The tests share what is set for a signal.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// A program that has a handler for the end of its terminal.
    struct Program {
        before: libc::sigaction,
        _others: MutexGuard<'static, ()>,
    }

    extern "C" fn handle(_: c_int) {}

    impl Program {
        fn new() -> Self {
            let others = ONE_AT_A_TIME.lock().unwrap();
            let before = now(libc::SIGHUP);
            let handler: extern "C" fn(c_int) = handle;
            set(libc::SIGHUP, &libc::sigaction { sa_sigaction: handler as libc::sighandler_t, ..DEFAULT });
            Self { before, _others: others }
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            set(libc::SIGHUP, &self.before);
        }
    }

    fn handled() -> &'static Handled {
        HANDLED.iter().find(|handled| handled.end == End::HungUp).unwrap()
    }

    fn begin() -> Heard {
        handled().begin(&Locked::wait(), |_| true).unwrap()
    }

    /// It has come when this returns.
    fn hang_up() {
        // SAFETY: it only sends a signal, to this thread.
        unsafe { libc::raise(libc::SIGHUP) };
    }

    fn end(heard: &Heard) -> bool {
        heard.end(&Locked::wait(), true)
    }

    #[test]
    fn what_one_command_has_heard_while_another_began_goes_to_the_program_with_the_last() {
        let _program = Program::new();
        let mut first = begin();
        hang_up();
        assert!(first.has_come());
        first.seen = handled().came.load(Ordering::Acquire);
        let second = begin();
        assert!(!end(&first) && !handled().pass_on(&Locked::wait()));
        assert!(end(&second), "it is lost");
        assert!(!handled().pass_on(&Locked::wait()));
    }

    #[test]
    fn what_two_commands_have_heard_goes_to_the_program_once() {
        let _program = Program::new();
        let (mut first, mut second) = (begin(), begin());
        hang_up();
        for heard in [&mut first, &mut second] {
            assert!(heard.has_come());
            heard.seen = handled().came.load(Ordering::Acquire);
        }
        assert!(!end(&first) && !end(&second));
        assert!(handled().pass_on(&Locked::wait()));
        assert!(!handled().pass_on(&Locked::wait()), "it comes twice");
        // The next one is new, and comes before they have ended.
        let (first, second) = (begin(), begin());
        hang_up();
        assert!(!end(&first) && end(&second));
    }

    #[test]
    fn a_signal_that_would_end_the_program_is_not_sent_to_it() {
        let _program = Program::new();
        set(libc::SIGHUP, &DEFAULT);
        let heard = begin();
        hang_up();
        assert!(!end(&heard));
    }

    #[test]
    fn signals_are_let_through_again_behind_a_fork_of_which_the_system_told_twice() {
        let blocks_hangups = || {
            let mut blocked = NONE;
            // SAFETY: the set lives until the calls return.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked);
                libc::sigismember(&raw const blocked, libc::SIGHUP) == 1
            }
        };
        assert!(!blocks_hangups());
        forks();
        forks();
        assert!(blocks_hangups());
        has_forked();
        has_forked();
        assert!(!blocks_hangups());
    }
}
