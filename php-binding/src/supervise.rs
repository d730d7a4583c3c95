//! `Duly\Supervision`: what `Duly\Supervisor` asks about its worker processes.

use std::collections::BTreeMap;

use duly::blocking::process::{self, AfterExit, Exit, span};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;

/// What a supervisor of worker processes decides. Internal.
#[php_class]
#[php(name = "Duly\\Supervision")]
#[php(flags = ClassFlags::Final)]
pub struct Supervision;

#[php_impl]
impl Supervision {
    /// What to do about a process that has ended, with this exit code or by a signal, whose number is negative: `code` if all are
    /// to stop, else `after` how many seconds another one takes its place; and how many have died young there in a row. `beganAfter`: for
    /// how many seconds the supervisor had run when it began; `oneEndedWell`: another process has run its jobs before, and ended as it should.
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // they have names
    pub fn after_exit(
        status: i32,
        isFatal: bool,
        wasReady: bool,
        lived: f64,
        youngDeaths: u32,
        beganAfter: f64,
        oneEndedWell: bool,
        isStopping: bool,
    ) -> PhpResult<BTreeMap<&'static str, Zval>> {
        let exit = Exit {
            status,
            is_fatal: isFatal,
            was_ready: wasReady,
            lived: span(lived),
            young_deaths: youngDeaths,
            began_after: span(beganAfter),
            one_ended_well: oneEndedWell,
        };
        let (code, after, young_deaths) = match process::after_exit(&exit, isStopping) {
            AfterExit::Stop { code } => (Some(code), 0.0, youngDeaths),
            AfterExit::Replace { after, young_deaths } => (None, after.as_secs_f64(), young_deaths),
        };
        Ok(BTreeMap::from([
            ("code", code.into_zval(false)?),
            ("after", after.into_zval(false)?),
            ("youngDeaths", young_deaths.into_zval(false)?),
        ]))
    }

    /// How many seconds until another attempt if the system gives no process.
    pub fn after_no_process() -> f64 {
        process::after_no_process().as_secs_f64()
    }

    /// How many seconds until processes are killed that were asked to end so long ago, and again so long ago.
    pub fn time_left(grace: f64, asked: f64, askedAgain: Option<f64>) -> f64 {
        process::time_left(span(grace), span(asked), askedAgain.map(span)).as_secs_f64()
    }
}
