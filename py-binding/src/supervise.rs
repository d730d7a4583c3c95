//! `duly._core.Supervision`: what `duly.supervisor` asks about its worker processes; and what a worker or supervisor does first.

use duly::blocking::process;
use duly::blocking::supervision::{
    self, LogLevel, LogLine, MAX_PROCESSES, RELOAD_SIGNALS, STOP_SIGNALS, SupervisorSettings,
};
use pyo3::prelude::*;

use crate::convert;
use crate::error::Failure;

/// What a supervisor of worker processes does next; it starts them and sends the signals itself.
///
/// A process slot has one process at a time; when that ends, the next one starts in the same slot.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct Supervision(supervision::Supervision);

#[pymethods]
impl Supervision {
    /// Begin without a process, in a supervisor that has loaded the app itself.
    ///
    /// `has_terminal`: it was started in a terminal, which sends SIGHUP when it goes away. `await_changes`: processes
    /// start again when a file has changed.
    #[new]
    #[pyo3(signature = (processes, *, grace, has_terminal, await_changes))]
    fn new(
        processes: &Bound<'_, PyAny>,
        grace: &Bound<'_, PyAny>,
        has_terminal: bool,
        await_changes: bool,
    ) -> Result<Self, Failure> {
        let mut settings = SupervisorSettings::default();
        settings.processes = convert::whole("processes", processes, 1..=MAX_PROCESSES as u64)?;
        settings.grace = convert::duration("grace", grace)?;
        settings.has_terminal = has_terminal;
        settings.has_loaded = true;
        settings.await_changes = await_changes;
        Ok(Self(supervision::Supervision::new(settings)?))
    }

    /// Return the seconds that a handler may go on after it was interrupted, before its process ends.
    #[staticmethod]
    fn patience() -> f64 {
        process::PATIENCE.as_secs_f64()
    }

    /// Return the signals that stop a worker.
    #[staticmethod]
    fn stop_signals() -> Vec<i32> {
        STOP_SIGNALS.to_vec()
    }

    /// Return the signals at which a supervisor replaces its processes one after the other.
    #[staticmethod]
    fn reload_signals() -> Vec<i32> {
        RELOAD_SIGNALS.to_vec()
    }

    /// Return a slot whose process is to be started now; None if there is none.
    fn start(&self) -> Option<usize> {
        self.0.start()
    }

    /// Note that the process of this slot has started, with this id.
    fn started(&self, slot: usize, pid: u32) {
        self.0.started(slot, pid);
    }

    /// Note that the system gives no process for this slot, and why.
    fn not_started(&self, slot: usize, why: &str) {
        self.0.not_started(slot, why);
    }

    /// Note that the process of this slot is ready for jobs; return True for the first one of all.
    fn ready(&self, slot: usize) -> bool {
        self.0.ready(slot, std::time::Duration::ZERO)
    }

    /// Note why the process of this slot ends: `fatal` or `refused`.
    fn ends(&self, slot: usize, why: &str) {
        self.0.ends(slot, why);
    }

    /// Note how the process of this slot has ended: its exit status, or the negative number of a signal.
    fn ended(&self, slot: usize, status: i32) {
        self.0.ended(slot, status);
    }

    /// Note a signal to the supervisor.
    fn signal(&self, number: i32) {
        self.0.signal(number);
    }

    /// Return what is to be logged: all since the last call of this, each with its level in `logging`.
    fn lines(&self) -> Vec<(u8, String)> {
        let of = |LogLine { level, text }| match level {
            LogLevel::Debug => (10, text),
            LogLevel::Info => (20, text),
            LogLevel::Warning => (30, text),
            LogLevel::Error => (40, text),
        };
        self.0.lines().into_iter().map(of).collect()
    }

    /// Note that a file has changed: all processes start again.
    fn code_changed(&self) {
        self.0.code_changed();
    }

    /// Return what is to be sent now: slots, and the numbers of signals to their processes.
    fn signals(&self) -> Vec<(usize, i32)> {
        self.0.signals()
    }

    /// Return the seconds until something is to be done without a signal or a word; None if there is nothing.
    fn wait(&self) -> Option<f64> {
        self.0.wait().map(|wait| wait.as_secs_f64())
    }

    /// Return the exit status of the supervisor, when it ends.
    fn exit_code(&self) -> Option<i32> {
        self.0.exit_code()
    }
}

/// See [`duly::occupy_standard_streams`].
#[pyfunction]
pub(crate) fn _occupy_standard_streams() {
    duly::occupy_standard_streams();
}
