//! `Duly\Supervision`: what `Duly\Supervisor` asks about its worker processes.

use duly::Millis;
use duly::blocking::process;
use duly::blocking::supervision::{self, SupervisorSettings};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;

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

    /// A slot whose process is to be started now; null if there is none.
    pub fn start(&self) -> Option<i64> {
        self.0.start().and_then(|slot| slot.try_into().ok())
    }

    /// The system gives no process for this slot.
    pub fn not_started(&self, slot: u32) {
        self.0.not_started(slot as usize);
    }

    /// The process of this slot says that it is ready, with its grace. True for the first one of all.
    pub fn ready(&self, slot: u32, grace: f64) -> bool {
        self.0.ready(slot as usize, process::span(grace))
    }

    /// The process of this slot says why it ends: `fatal` or `refused`.
    pub fn ends(&self, slot: u32, why: &str) {
        self.0.ends(slot as usize, why);
    }

    /// The process of this slot has ended, with this exit code or by a signal, whose number is negative. Gives what that means, and the
    /// seconds until another one starts in its slot.
    pub fn ended(&self, slot: u32, status: i32) -> PhpResult<Vec<Zval>> {
        let then = self.0.ended(slot as usize, status);
        let after = if let supervision::OnExit::Replace(after) = then { after.as_secs_f64() } else { 0.0 };
        Ok(vec![then.as_str().into_zval(false)?, after.into_zval(false)?])
    }

    /// The supervisor got this signal. Gives what that means.
    pub fn signal(&self, signal: i32) -> &'static str {
        self.0.signal(signal).as_str()
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

    /// How many seconds the jobs that run may go on after a signal.
    pub fn grace(&self) -> f64 {
        self.0.grace().as_secs_f64()
    }
}
