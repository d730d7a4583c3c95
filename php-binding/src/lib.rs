//! The PHP extension: each method converts, calls `duly::blocking`, and converts back.
//!
//! Loading it registers classes and does nothing else: no thread, no runtime, no connection before the first call. Rust calls
//! into PHP only where nothing of Rust is left to unwind: to encode data before a call, and between the slices of a wait.
//!
//! `shared` has what the second extension needs too; that is `console`, with the command `duly` and the page.

// Its tests are in php-tests. `cargo test --lib` would compile it once more for none, even with `test = false`.
#![cfg(not(test))]
#![cfg_attr(windows, feature(abi_vectorcall))]
// Parameter names are PHP's named arguments, which are camelCase.
#![allow(non_snake_case)]
// PHP calls with many named arguments; the engine's macros take parameters by value.
#![allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
// The classes are public to PHP; Rust sees one private crate, and `#[php_module]` makes an undocumented function.
#![allow(unreachable_pub, missing_docs)]

mod audit;
mod client;
mod consumer;
mod history;
mod inspect;
mod iterate;
mod job;
mod limits;
mod lock;
mod message;
mod new_job;
mod operate;
mod push_many;
mod queue;
mod rates;
mod record;
mod registry;
mod retry;
mod schedule;
mod schedules;
mod search;
mod select;
mod settings;
mod supervise;
mod telemetry;
mod topic;
mod words;
mod worker;

use std::panic::catch_unwind;

use duly_php_shared::method::Methods;
use duly_php_shared::{call, class, convert, error, waiting};
use ext_php_rs::prelude::*;

/// What PHP asks for when it loads the extension.
#[php_module]
pub fn module(module: ModuleBuilder) -> ModuleBuilder {
    module.name("duly").version(env!("CARGO_PKG_VERSION")).startup_function(start_up).info_function(settings::show)
}

extern "C" fn start_up(_type: i32, module: i32) -> i32 {
    settings::register(module);
    let registered = catch_unwind(|| error::register_exceptions().and_then(|()| register_classes()));
    i32::from(!matches!(registered, Ok(Ok(()))))
}

fn register_classes() -> ext_php_rs::error::Result<()> {
    let mut methods = Methods::default();
    macro_rules! register {
        ($($class:ty),* $(,)?) => {
            $(class::register::<$class>(&mut methods)?;)*
        };
    }
    register!(
        client::Client,
        consumer::Consumer,
        queue::Queue,
        job::Job,
        new_job::NewJob,
        retry::RetryPolicy,
        schedule::Schedule,
        schedule::Fire,
        schedule::ScheduleView,
        schedule::SyncReport,
        schedules::Schedules,
        worker::WorkerEngine,
        supervise::Supervision,
        push_many::PushSummary,
        inspect::Counts,
        inspect::Progress,
        inspect::JobView,
        search::SearchPage,
        inspect::Found,
        limits::Limits,
        lock::Lock,
        topic::Topic,
        message::Published,
        message::Message,
        topic::TopicInfo,
        topic::Subscription,
        topic::Member,
        topic::CutOff,
        registry::RunningJob,
        registry::WorkerInfo,
        history::TraceEvent,
        history::TraceRun,
        history::Trace,
        rates::Spread,
        rates::RunCounts,
        rates::NameRates,
        rates::RateWindow,
        rates::Rates,
        operate::Cancelled,
        operate::Requeued,
        operate::QueueInfo,
        operate::QueuePage,
        operate::ListedTopic,
        operate::TopicPage,
        audit::Finding,
        audit::AuditReport,
    );
    methods.set();
    words::register();
    worker::watched::watch();
    Ok(())
}
