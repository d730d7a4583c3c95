//! The signals that end a command, which it hears of to end well.

use std::cell::{Cell, UnsafeCell};
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use duly::{Error, ErrorKind};
use libc::c_int;
use tokio::signal::unix::{Signal, SignalKind, signal};

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

    fn kind(self) -> SignalKind {
        match self {
            Self::Interrupted => SignalKind::interrupt(),
            Self::Terminated => SignalKind::terminate(),
            Self::HungUp => SignalKind::hangup(),
        }
    }

    /// Gives it to the program, which had set a handler for it, now that the command does not hear of it any more.
    pub(crate) fn pass_on(self) {
        let Some(handled) = HANDLED.iter().find(|handled| handled.end == self) else { return };
        let locked = Locked::wait();
        let now = now(handled.number());
        // Other commands have heard of it; and what is ended by it was not to be ended.
        let is_of_program = now.sa_sigaction != libc::SIG_DFL && !handled.is_ours(&locked, &now);
        drop(locked);
        if is_of_program {
            // SAFETY: it only sends a signal.
            unsafe { libc::kill(libc::getpid(), handled.number()) };
        }
    }
}

/// Hears of the signals that end a command until this is dropped. What the language has set for them is not called meanwhile:
/// PHP's own handlers end the process. One that is ignored stays ignored, as `nohup` has SIGHUP, and some shells have SIGINT of what
/// runs in the background.
pub(crate) struct Ends(Vec<Heard>);

impl Ends {
    pub(crate) fn hear() -> Result<Self, Error> {
        Self::of(|action| action != libc::SIG_IGN)
    }

    /// Only of those for which the program has a handler, which would be called when the command has ended. The others end the process.
    pub(crate) fn hear_for_program() -> Result<Self, Error> {
        Self::of(|action| action != libc::SIG_IGN && action != libc::SIG_DFL)
    }

    fn of(wanted: fn(libc::sighandler_t) -> bool) -> Result<Self, Error> {
        let heard = HANDLED.iter().map(|handled| Heard::of(handled, wanted));
        let heard = heard.filter_map(Result::transpose).collect::<std::io::Result<_>>();
        heard.map(Self).map_err(|error| Error::new(ErrorKind::Internal, format!("signals cannot be heard of: {error}")))
    }

    /// Ready at the first of them.
    pub(crate) async fn come(&mut self) -> End {
        let come = self.0.iter_mut().map(|heard| {
            Box::pin(async move {
                heard.signal.recv().await;
                heard.handled.end
            })
        });
        let come: Vec<_> = come.collect();
        if come.is_empty() {
            return pending().await;
        }
        futures_util::future::select_all(come).await.0
    }
}

/// One signal in this process, whose commands may overlap.
///
/// A process that is forked while a command runs has a copy, and nobody who hears of the signal there: [`forked`] puts all right, whatever
/// was going on in other threads. So there is no mutex, which could be locked there for ever.
struct Handled {
    end: End,
    /// How many commands hear of it.
    commands: AtomicUsize,
    /// When a forked process sets `before` again.
    restored: AtomicU8,
    actions: UnsafeCell<Actions>,
}

struct Actions {
    /// Tokio has set its handler, which it does once.
    is_known: bool,
    /// That handler. Nothing if others in this process use tokio's: then nothing is to be set.
    ours: Option<libc::sigaction>,
    /// What was set before, and is again when the last command has ended.
    before: libc::sigaction,
}

/// Nothing of ours is set.
const NEVER: u8 = 0;
/// It is just being set.
const ALWAYS: u8 = 1;
/// It was set, and perhaps somebody has set another one since.
const IF_OURS: u8 = 2;

// SAFETY: the actions are read and written only under the lock, or in a process that has one thread yet.
unsafe impl Sync for Handled {}

static HANDLED: [Handled; 3] =
    [Handled::new(End::Interrupted), Handled::new(End::Terminated), Handled::new(End::HungUp)];

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
    signal: Signal,
    handled: &'static Handled,
}

impl Heard {
    /// Nothing if its action is not the wanted one.
    fn of(handled: &'static Handled, wanted: fn(libc::sighandler_t) -> bool) -> std::io::Result<Option<Self>> {
        let locked = Locked::wait();
        hear_of_forks()?;
        let current = now(handled.number());
        if !wanted(current.sa_sigaction) {
            return Ok(None);
        }
        let signal = if handled.actions(&locked).is_known {
            signal(handled.end.kind())
        } else {
            handled.first(current, &locked)
        }?;
        handled.begin(&locked);
        Ok(Some(Self { signal, handled }))
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.handled.end(&Locked::wait());
    }
}

impl Handled {
    const fn new(end: End) -> Self {
        let actions = UnsafeCell::new(Actions { is_known: false, ours: None, before: DEFAULT });
        Self { end, commands: AtomicUsize::new(0), restored: AtomicU8::new(NEVER), actions }
    }

    fn number(&self) -> c_int {
        self.end.kind().as_raw_value()
    }

    #[expect(clippy::mut_from_ref, reason = "whoever has the lock is the only one")]
    fn actions<'a>(&'a self, _: &'a Locked) -> &'a mut Actions {
        // SAFETY: only one thread has the lock, and none keeps what this gives while it asks again.
        unsafe { &mut *self.actions.get() }
    }

    fn is_ours(&self, locked: &Locked, action: &libc::sigaction) -> bool {
        self.actions(locked).ours.is_some_and(|ours| ours.sa_sigaction == action.sa_sigaction)
    }

    /// The first time in this process.
    fn first(&self, before: libc::sigaction, locked: &Locked) -> std::io::Result<Signal> {
        self.actions(locked).before = before;
        self.restored.store(ALWAYS, Ordering::Release);
        // Tokio's handler calls the one that was there before it: there is to be none.
        set(self.number(), &DEFAULT);
        let signal = signal(self.end.kind());
        let handler = now(self.number());
        // Others in this process have let tokio set it, and what was there before calls it.
        let is_set_before = handler.sa_sigaction == libc::SIG_DFL;
        if signal.is_ok() {
            let actions = self.actions(locked);
            (actions.is_known, actions.ours) = (true, (!is_set_before).then_some(handler));
        }
        // Until `begin` sets it.
        set(self.number(), &before);
        self.restored.store(NEVER, Ordering::Release);
        signal
    }

    /// Another command hears of it, beside those that do.
    fn begin(&self, locked: &Locked) {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let current = now(self.number());
        let Some(ours) = self.actions(locked).ours.filter(|ours| ours.sa_sigaction != current.sa_sigaction) else {
            return;
        };
        self.restored.store(NEVER, Ordering::Release);
        self.actions(locked).before = current;
        self.restored.store(IF_OURS, Ordering::Release);
        set(self.number(), &ours);
    }

    fn end(&self, locked: &Locked) {
        // A process that was forked by what a command has called counts from 0.
        let was = self.commands.load(Ordering::Relaxed);
        self.commands.store(was.saturating_sub(1), Ordering::Relaxed);
        // Somebody else may have set another one meanwhile, such as a worker.
        if was == 1 && self.is_ours(locked, &now(self.number())) {
            set(self.number(), &self.actions(locked).before);
        }
    }
}

thread_local! {
    /// What this thread had blocked before it forked, and is again behind it.
    static BLOCKED: Cell<libc::sigset_t> = const { Cell::new(NONE) };
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
            libc::sigaddset(&raw mut signals, handled.number());
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, &raw mut blocked);
    }
    BLOCKED.set(blocked);
}

extern "C" fn has_forked() {
    let blocked = BLOCKED.get();
    // SAFETY: it lives until the call returns.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut()) };
}

/// In a process that was just forked, whose only thread runs this. Without it, the signals would end nothing there: nobody hears of them.
extern "C" fn forked() {
    for handled in &HANDLED {
        handled.commands.store(0, Ordering::Relaxed);
        // SAFETY: there is no other thread, and what is not whole yet is not read in the state that `restored` says.
        let actions = unsafe { &*handled.actions.get() };
        let is_to_be_set = match handled.restored.swap(NEVER, Ordering::Acquire) {
            NEVER => false,
            ALWAYS => true,
            _ => actions.ours.is_some_and(|ours| ours.sa_sigaction == now(handled.number()).sa_sigaction),
        };
        if is_to_be_set {
            set(handled.number(), &actions.before);
        }
    }
    LOCK.store(false, Ordering::Release);
    has_forked();
}

/// That of the system, with no flags and an empty mask.
// SAFETY: all zeros is a valid action.
const DEFAULT: libc::sigaction = unsafe { std::mem::zeroed() };

fn set(signal: c_int, action: &libc::sigaction) {
    // SAFETY: it lives until the call returns. The action is that of the system, or was set for this signal before.
    unsafe { libc::sigaction(signal, &raw const *action, std::ptr::null_mut()) };
}

fn now(signal: c_int) -> libc::sigaction {
    let mut action = DEFAULT;
    // SAFETY: the action lives until the call returns.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action
}
