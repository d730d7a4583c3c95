//! The PHP extension: each method converts, calls `duly::blocking`, and converts back.
//!
//! Loading it registers classes and does nothing else: no thread, no runtime, no connection before the first call. Rust calls
//! into PHP only where nothing of Rust is left to unwind: to encode data before a call, and between the slices of a wait.

#![cfg_attr(windows, feature(abi_vectorcall))]
// Parameter names are PHP's named arguments, which are camelCase.
#![allow(non_snake_case)]
// PHP calls with many named arguments; the engine's macros take parameters by value.
#![allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
// The classes are public to PHP; Rust sees one private crate, and `#[php_module]` makes an undocumented function.
#![allow(unreachable_pub, missing_docs)]

mod audit;
mod client;
mod convert;
mod error;
mod inspect;
mod interrupt;
mod job;
mod limits;
mod new_job;
mod operate;
mod push_many;
mod queue;
mod record;
mod registry;
mod retry;
mod select;
mod trace;
mod watch;
mod when;
mod worker;

use ext_php_rs::prelude::*;

/// What PHP asks for when it loads the extension.
#[php_module]
pub fn module(module: ModuleBuilder) -> ModuleBuilder {
    module
        .name("duly")
        .version(env!("CARGO_PKG_VERSION"))
        .startup_function(error::register_exceptions)
        .class::<client::Client>()
        .class::<queue::Queue>()
        .class::<queue::Partitions>()
        .class::<job::Job>()
        .class::<new_job::NewJob>()
        .class::<retry::RetryPolicy>()
        .class::<worker::WorkerEngine>()
        .class::<push_many::PushSummary>()
        .class::<inspect::Counts>()
        .class::<limits::Limits>()
        .class::<inspect::JobView>()
        .class::<inspect::Found>()
        .class::<inspect::Progress>()
        .class::<registry::WorkerInfo>()
        .class::<registry::RunningJob>()
        .class::<operate::Cancelled>()
        .class::<operate::Requeued>()
        .class::<audit::Finding>()
        .class::<audit::AuditReport>()
}
