//! `duly._core.Supervision`: what `duly.supervisor` asks about its worker processes.

use duly::blocking::process::{self, AfterExit, Exit, span};
use pyo3::prelude::*;

/// The decisions of a supervisor of worker processes.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct Supervision {}

#[pymethods]
impl Supervision {
    /// Return what to do about a process that has ended: the supervisor's exit status if all stop, else None.
    ///
    /// Then follow the seconds until another one takes its place, and how many have died young there in a row. `status`
    /// is its exit status, or the negative number of a signal. `is_fatal`: every other process would meet that error.
    /// `was_ready`: it had said that it begins to work. `began_after`: for how many seconds the supervisor had run when
    /// this one began.
    /// `one_ended_well`: another process has run its jobs before, and ended as it should.
    #[staticmethod]
    #[pyo3(signature = (status, *, is_fatal, was_ready, lived, young_deaths, began_after, one_ended_well, is_stopping))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // they have names
    fn after_exit(
        status: i32,
        is_fatal: bool,
        was_ready: bool,
        lived: f64,
        young_deaths: u32,
        began_after: f64,
        one_ended_well: bool,
        is_stopping: bool,
    ) -> (Option<i32>, f64, u32) {
        let (lived, began_after) = (span(lived), span(began_after));
        let exit = Exit { status, is_fatal, was_ready, lived, young_deaths, began_after, one_ended_well };
        match process::after_exit(&exit, is_stopping) {
            AfterExit::Stop { code } => (Some(code), 0.0, young_deaths),
            AfterExit::Replace { after, young_deaths } => (None, after.as_secs_f64(), young_deaths),
        }
    }

    /// Return the seconds until another attempt if the system gives no process.
    #[staticmethod]
    fn after_no_process() -> f64 {
        process::after_no_process().as_secs_f64()
    }

    /// Return the seconds that a handler may go on after it was interrupted, before its process ends.
    #[staticmethod]
    fn patience() -> f64 {
        process::PATIENCE.as_secs_f64()
    }

    /// Return the seconds until processes are killed that were asked to end so long ago, and again so long ago.
    #[staticmethod]
    fn time_left(grace: f64, asked: f64, asked_again: Option<f64>) -> f64 {
        process::time_left(span(grace), span(asked), asked_again.map(span)).as_secs_f64()
    }
}
