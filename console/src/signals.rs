//! The signals that end a command, which it hears of to end well.

use std::future::pending;
use std::sync::{Mutex, PoisonError};

use duly::{Error, ErrorKind};
use libc::c_int;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{DONE, INTERRUPTED};

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM, or SIGHUP: a terminal that goes away sends it, or the end of an `ssh`.
    Terminated,
}

impl End {
    /// The exit status of a command that runs until it is ended.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Interrupted => INTERRUPTED,
            Self::Terminated => DONE,
        }
    }
}

/// Hears of the signals that end a command until this is dropped. What the language has set for them is not called meanwhile:
/// PHP's own handlers end the process. One that is ignored stays ignored, as `nohup` has SIGHUP, and some shells have SIGINT of what
/// runs in the background.
pub(crate) struct Ends {
    interrupted: Option<Heard>,
    terminated: Option<Heard>,
    hung_up: Option<Heard>,
}

impl Ends {
    pub(crate) fn hear() -> Result<Self, Error> {
        let hear = |kind| {
            Heard::of(kind)
                .map_err(|error| Error::new(ErrorKind::Internal, format!("signals cannot be heard of: {error}")))
        };
        let (interrupted, terminated) = (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
        Ok(Self { interrupted, terminated, hung_up: hear(SignalKind::hangup())? })
    }

    /// Ready at the first of them.
    pub(crate) async fn come(&mut self) -> End {
        tokio::select! {
            () = came(&mut self.interrupted) => End::Interrupted,
            () = came(&mut self.terminated) => End::Terminated,
            () = came(&mut self.hung_up) => End::Terminated,
        }
    }
}

async fn came(heard: &mut Option<Heard>) {
    match heard {
        Some(heard) => _ = heard.signal.recv().await,
        None => pending().await,
    }
}

/// One signal in this process, whose commands may overlap.
struct Handled {
    number: c_int,
    /// Tokio's handler, which it sets once. Nothing if others in this process use tokio's: then nothing is to be set.
    ours: Option<libc::sigaction>,
    /// What was set before, and is again when the last command has ended.
    before: libc::sigaction,
    /// How many commands hear of it.
    commands: usize,
}

static HANDLED: Mutex<Vec<Handled>> = Mutex::new(Vec::new());

/// A signal that a command hears of.
struct Heard {
    signal: Signal,
    number: c_int,
}

impl Heard {
    /// Nothing if it is ignored.
    fn of(kind: SignalKind) -> std::io::Result<Option<Self>> {
        let number = kind.as_raw_value();
        let mut all = HANDLED.lock().unwrap_or_else(PoisonError::into_inner);
        let current = now(number);
        if current.sa_sigaction == libc::SIG_IGN {
            return Ok(None);
        }
        if let Some(handled) = all.iter_mut().find(|handled| handled.number == number) {
            let signal = signal(kind)?;
            handled.begin(current);
            return Ok(Some(Self { signal, number }));
        }
        let (signal, handled) = first(kind, current)?;
        all.push(handled);
        Ok(Some(Self { signal, number }))
    }
}

/// The first time in this process.
fn first(kind: SignalKind, before: libc::sigaction) -> std::io::Result<(Signal, Handled)> {
    let number = kind.as_raw_value();
    // Tokio's handler calls the one that was there before it: there is to be none.
    set(number, &default());
    let signal = signal(kind).inspect_err(|_| set(number, &before))?;
    let handler = now(number);
    // Others in this process have let tokio set it, and what was there before calls it.
    let is_set_before = handler.sa_sigaction == libc::SIG_DFL;
    if is_set_before {
        set(number, &before);
    }
    let ours = (!is_set_before).then_some(handler);
    Ok((signal, Handled { number, ours, before, commands: 1 }))
}

impl Handled {
    /// Another command hears of it, beside those that do.
    fn begin(&mut self, current: libc::sigaction) {
        self.commands += 1;
        if let Some(ours) = self.ours.filter(|ours| ours.sa_sigaction != current.sa_sigaction) {
            self.before = current;
            set(self.number, &ours);
        }
    }

    fn end(&mut self) {
        self.commands -= 1;
        let is_ours = self.ours.is_some_and(|ours| ours.sa_sigaction == now(self.number).sa_sigaction);
        // Somebody else may have set another one meanwhile, such as a worker.
        if self.commands == 0 && is_ours {
            set(self.number, &self.before);
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let mut all = HANDLED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handled) = all.iter_mut().find(|handled| handled.number == self.number) {
            handled.end();
        }
    }
}

fn default() -> libc::sigaction {
    // SAFETY: all zeros is a valid action: that of the system, with no flags and an empty mask.
    unsafe { std::mem::zeroed() }
}

fn set(signal: c_int, action: &libc::sigaction) {
    // SAFETY: it lives until the call returns. The action is that of the system, or was set for this signal before.
    unsafe { libc::sigaction(signal, &raw const *action, std::ptr::null_mut()) };
}

fn now(signal: c_int) -> libc::sigaction {
    let mut action = default();
    // SAFETY: the action lives until the call returns.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action
}
