//! What a waiting call of the worker does ten times a second.

use duly::blocking::Interrupt;
use duly::{Error, ErrorKind};

use super::watchdog::Watchdog;
use crate::error::Fault;
use crate::waiting::Signals;

/// Gives a sign of life, and lets PHP's handlers of signals run, which may keep it from the next one.
pub(super) struct Waits<'a>(pub(super) &'a Watchdog);

impl Interrupt for Waits<'_> {
    type Error = Fault;

    fn check(&mut self) -> Result<(), Fault> {
        self.0.sign_of_life();
        Signals.check()
    }
}

/// Ends a wait early when something happened.
pub(super) struct UntilEvent<'a>(pub(super) &'a Watchdog);

impl Interrupt for UntilEvent<'_> {
    type Error = Fault;

    fn check(&mut self) -> Result<(), Fault> {
        Waits(self.0).check()?;
        if self.0.has_events() {
            return Err(Error::new(ErrorKind::Interrupted, "something happened").into());
        }
        Ok(())
    }
}
