//! `Duly\Supervision`: what `Duly\Supervisor` asks about its worker processes.

use duly::Millis;
use duly::blocking::process;
use duly::blocking::supervision::{self, LogLevel, RELOAD_SIGNALS, STOP_SIGNALS, SupervisorSettings};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;

use crate::convert::named;
use crate::error::Fault;

/// What a supervisor of worker processes does next. Internal.
#[php_class]
#[php(name = "Duly\\Supervision")]
#[php(flags = ClassFlags::Final)]
pub struct Supervision(supervision::Supervision);

#[php_impl]
impl Supervision {
    /// For so many processes; `hasTerminal`: started in a terminal, which sends SIGHUP when it goes away.
    pub fn __construct(processes: i64, grace: f64, hasTerminal: bool) -> PhpResult<Self> {
        let begin = || -> Result<Self, Fault> {
            let mut settings = SupervisorSettings::default();
            settings.processes = usize::try_from(processes).unwrap_or_default();
            settings.grace = Millis::from_seconds(grace).map_err(|error| named("grace", &error))?.to_duration();
            settings.has_terminal = hasTerminal;
            Ok(Self(supervision::Supervision::new(settings)?))
        };
        Ok(begin()?)
    }

    /// How many seconds a handler may go on after it was interrupted, before its process ends.
    pub fn patience() -> f64 {
        process::PATIENCE.as_secs_f64()
    }

    /// The signals that stop a worker.
    pub fn stop_signals() -> Vec<i32> {
        STOP_SIGNALS.to_vec()
    }

    /// The signals at which a supervisor replaces its processes one after the other.
    pub fn reload_signals() -> Vec<i32> {
        RELOAD_SIGNALS.to_vec()
    }

    /// A slot whose process is to be started now; null if there is none.
    pub fn start(&self) -> Option<i64> {
        self.0.start().and_then(|slot| slot.try_into().ok())
    }

    /// The process of this slot has started, with this id.
    pub fn started(&self, slot: u32, pid: u32) {
        self.0.started(slot as usize, pid);
    }

    /// The system gives no process for this slot.
    pub fn not_started(&self, slot: u32) {
        self.0.not_started(slot as usize, "");
    }

    /// The process of this slot says that it is ready, with its grace. True for the first one of all.
    pub fn ready(&self, slot: u32, grace: f64) -> bool {
        self.0.ready(slot as usize, process::span(grace))
    }

    /// The process of this slot says why it ends: `fatal` or `refused`.
    pub fn ends(&self, slot: u32, why: &str) {
        self.0.ends(slot as usize, why);
    }

    /// The process of this slot has ended, with this exit code or by a signal, whose number is negative.
    pub fn ended(&self, slot: u32, status: i32) {
        self.0.ended(slot as usize, status);
    }

    /// The supervisor got this signal.
    pub fn signal(&self, signal: i32) {
        self.0.signal(signal);
    }

    /// What is to be logged: all since the last call of this.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.0.lines().into_iter().filter(|line| line.level != LogLevel::Debug);
        lines.map(|line| line.text).collect()
    }

    /// What is to be sent now: pairs of a slot and the number of a signal to its process.
    pub fn signals(&self) -> Vec<Vec<i64>> {
        let pair = |(slot, signal): (usize, i32)| vec![i64::try_from(slot).unwrap_or(-1), signal.into()];
        self.0.signals().into_iter().map(pair).collect()
    }

    /// The code with which the supervisor ends, when it does.
    pub fn exit_code(&self) -> Option<i32> {
        self.0.exit_code()
    }
}
