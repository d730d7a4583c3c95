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
/// PHP's own handlers end the process.
pub(crate) struct Ends {
    interrupted: Heard,
    terminated: Heard,
    /// Nothing where it is ignored, as `nohup` has it.
    hung_up: Option<Heard>,
}

impl Ends {
    pub(crate) fn hear() -> Result<Self, Error> {
        let hear = |kind| {
            Heard::of(kind)
                .map_err(|error| Error::new(ErrorKind::Internal, format!("signals cannot be heard of: {error}")))
        };
        let is_ignored = now(libc::SIGHUP).sa_sigaction == libc::SIG_IGN;
        let hung_up = if is_ignored { None } else { Some(hear(SignalKind::hangup())?) };
        let (interrupted, terminated) = (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
        Ok(Self { interrupted, terminated, hung_up })
    }

    /// Ready at the first of them.
    pub(crate) async fn come(&mut self) -> End {
        let hung_up = async {
            match &mut self.hung_up {
                Some(heard) => _ = heard.signal.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupted.signal.recv() => End::Interrupted,
            _ = self.terminated.signal.recv() => End::Terminated,
            () = hung_up => End::Terminated,
        }
    }
}

/// The handlers of tokio, which sets each of them once in a process.
static OURS: Mutex<Vec<(c_int, libc::sigaction)>> = Mutex::new(Vec::new());

/// One signal.
struct Heard {
    signal: Signal,
    number: c_int,
    /// What was set for it, and is again when this is dropped.
    before: libc::sigaction,
}

impl Heard {
    fn of(kind: SignalKind) -> std::io::Result<Self> {
        let number = kind.as_raw_value();
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        // Tokio's handler calls the one that was there before it: there is to be none.
        let before = set(number, &default());
        let signal = signal(kind).inspect_err(|_| _ = set(number, &before))?;
        match ours.iter().find(|(known, _)| *known == number) {
            Some((_, handler)) => _ = set(number, handler),
            None => match now(number) {
                // Others in this process have set it, and what was there before calls it.
                handler if handler.sa_sigaction == libc::SIG_DFL => _ = set(number, &before),
                handler => ours.push((number, handler)),
            },
        }
        Ok(Self { signal, number, before })
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        set(self.number, &self.before);
    }
}

fn default() -> libc::sigaction {
    // SAFETY: all zeros is a valid action: that of the system, with no flags and an empty mask.
    unsafe { std::mem::zeroed() }
}

/// Gives what was set before.
fn set(signal: c_int, action: &libc::sigaction) -> libc::sigaction {
    let mut before = default();
    // SAFETY: both live until the call returns. The action is that of the system, or was set for this signal before.
    unsafe { libc::sigaction(signal, &raw const *action, &raw mut before) };
    before
}

fn now(signal: c_int) -> libc::sigaction {
    let mut action = default();
    // SAFETY: the action lives until the call returns.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action
}
