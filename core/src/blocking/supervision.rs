//! The supervisor of a skin's worker processes: the state machine of `process::supervise` with a clock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::process::supervise::Supervised;
pub use crate::process::supervise::{
    LogLevel, LogLine, MAX_PROCESSES, RELOAD_SIGNALS, STOP_SIGNALS, SupervisorSettings,
};
use crate::process::{host, standard};
use crate::value::error::Error;

/// What a supervisor of worker processes does next; it starts them and sends the signals itself.
///
/// A process slot has one process at a time; when that ends, the next one starts in the same slot.
#[derive(Debug)]
pub struct Supervision {
    began: Instant,
    supervised: Mutex<Supervised>,
}

impl Supervision {
    /// Begins without a process: ask [`start`](Self::start).
    ///
    /// Errors: `InvalidArgument` for a number of processes or a grace that is out of range.
    pub fn new(settings: SupervisorSettings) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self { began: Instant::now(), supervised: Mutex::new(Supervised::new(settings)) })
    }

    /// A slot whose process is to be started now. To be asked until there is none. If there is one, standard streams that the program has
    /// closed are opened on `/dev/null`.
    pub fn start(&self) -> Option<usize> {
        let slot = self.lock().start(self.now());
        if slot.is_some() {
            // What the process prints must not be taken for what it says to its supervisor.
            standard::occupy();
        }
        slot
    }

    /// The process of this slot has started; `id` is the system's.
    pub fn started(&self, slot: usize, id: u32) {
        self.lock().started(slot, id);
    }

    /// The system gives no process for this slot, and says why, or nothing.
    pub fn not_started(&self, slot: usize, why: &str) {
        self.lock().not_started(slot, why, self.now());
    }

    /// The process of this slot says that it is ready for jobs, with its grace. True for the first one of all.
    pub fn ready(&self, slot: usize, grace: Duration) -> bool {
        self.lock().ready(slot, grace, self.now())
    }

    /// The process of this slot says why it ends: `fatal` (an error that waiting does not cure) or `refused` (the program's code gives no
    /// worker).
    pub fn ends(&self, slot: usize, why: &str) {
        self.lock().ends(slot, why);
    }

    /// The process of this slot has ended, with this exit code or by a signal, whose number is negative.
    pub fn ended(&self, slot: usize, status: i32) {
        self.lock().ended(slot, status, self.now(), host::random_fraction());
    }

    /// The supervisor got this signal.
    pub fn signal(&self, signal: i32) {
        self.lock().signal(signal, self.now());
    }

    /// The program's code has changed: all processes start again.
    pub fn code_changed(&self) {
        self.lock().code_changed(self.now());
    }

    /// What is to be sent now: slots, and the numbers of signals to their processes.
    pub fn signals(&self) -> Vec<(usize, i32)> {
        self.lock().signals(self.now())
    }

    /// What is to be logged: all since the last call of this.
    pub fn lines(&self) -> Vec<LogLine> {
        self.lock().lines()
    }

    /// How long until something is to be done that no signal and no process tells; `None` if there is nothing.
    pub fn wait(&self) -> Option<Duration> {
        self.lock().wait(self.now())
    }

    /// The code with which the supervisor ends, when it does.
    pub fn exit_code(&self) -> Option<i32> {
        self.lock().exit_code()
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Supervised> {
        self.supervised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
