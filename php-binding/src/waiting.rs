//! What a waiting call does ten times a second: lets PHP's signal handlers run.

use duly::blocking::Interrupt;
use ext_php_rs::types::ZendCallable;

use crate::call::guarded;
use crate::error::Fault;

/// Runs pending pcntl handlers between the slices of a wait.
pub struct Signals;

impl Interrupt for Signals {
    type Error = Fault;

    fn check(&mut self) -> Result<(), Fault> {
        dispatch()
    }
}

/// Lets pcntl run the handlers of signals that came. A handler may throw, which ends the wait with its exception; it may call
/// `exit`, which ends the request once the wait's own frames are gone.
fn dispatch() -> Result<(), Fault> {
    // Without pcntl there are no handlers.
    let Ok(pcntl) = ZendCallable::try_from_name("pcntl_signal_dispatch") else { return Ok(()) };
    // Whether it worked shows in the pending exception.
    guarded(|| drop(pcntl.try_call(Vec::new())))
}
