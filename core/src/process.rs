//! The machine and its process: host, runtime, forks, timers.

pub(crate) mod alarm;
pub(crate) mod host;
pub mod runtime;
pub(crate) mod supervise;
