//! What a waiting call does ten times a second: lets PHP's signal handlers run.

use std::sync::atomic::{AtomicBool, Ordering};

use duly::blocking::{self, Interrupt};
use ext_php_rs::types::ZendCallable;
use ext_php_rs::zend::ExecutorGlobals;

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

/// Jobs that were leased just now. PHP runs the handlers of signals that came meanwhile right behind the method, if
/// `pcntl_async_signals` is on: if one throws, nobody has the jobs, and they go back.
pub fn unless_interrupted(jobs: Vec<blocking::Job>) -> Result<Vec<blocking::Job>, Fault> {
    if !jobs.is_empty()
        && is_interrupted()
        && let Err(fault) = dispatch()
    {
        blocking::Job::give_back(&jobs);
        return Err(fault);
    }
    Ok(jobs)
}

/// Will the engine look for signals at its next step? A flag in memory: this costs nothing.
fn is_interrupted() -> bool {
    let flag = &raw const ExecutorGlobals::get().vm_interrupt;
    // SAFETY: an atomic flag of one byte in every version of PHP, in globals that stay where they are.
    unsafe { (*flag.cast::<AtomicBool>()).load(Ordering::Acquire) }
}

/// Lets pcntl run the handlers of signals that came. A handler may throw, which ends the wait with its exception; it may call
/// `exit`, which ends the request once the wait's own frames are gone.
fn dispatch() -> Result<(), Fault> {
    // Without pcntl there are no handlers.
    let Ok(pcntl) = ZendCallable::try_from_name("pcntl_signal_dispatch") else { return Ok(()) };
    // Whether it worked shows in the pending exception.
    guarded(|| drop(pcntl.try_call(Vec::new())))
}
