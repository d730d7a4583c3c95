//! The machine and its process: host, runtime, forks, timers.

pub(crate) mod alarm;
pub(crate) mod host;
pub(crate) mod id;
pub mod runtime;
pub(crate) mod sign;
pub(crate) mod standard;
pub(crate) mod supervise;
