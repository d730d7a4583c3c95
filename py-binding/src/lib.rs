//! The Python skin of duly, the native module `duly._core`: a method body is convert, call [`duly::blocking`], convert.
//!
//! Importing it starts no thread and opens no connection: the first call of a client connects.

// Its tests are in python-tests. `cargo test --lib` would compile it once more for none, even with `test = false`.
#![cfg(not(test))]
#![allow(clippy::doc_markdown)] // what Python's `help()` shows, copied from the stub by tools/docstrings.py

mod aio;
mod audit;
mod client;
mod console;
mod consumer;
mod convert;
mod error;
mod history;
mod inspect;
mod interpreter;
mod job;
mod limits;
mod lock;
mod message;
mod new_job;
mod operate;
mod page;
mod push_many;
mod queue;
mod rates;
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
mod waiting;
mod web;
mod worker;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    interpreter::refuse_another(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("_MAX_BATCH", duly::MAX_BATCH)?;
    module.add_class::<client::Client>()?;
    module.add_class::<queue::Queue>()?;
    module.add_class::<push_many::PushSummary>()?;
    module.add_class::<push_many::LongPush>()?;
    module.add_class::<new_job::NewJob>()?;
    module.add_class::<job::ReservedJob>()?;
    module.add_class::<job::Job>()?;
    module.add_class::<inspect::Counts>()?;
    module.add_class::<limits::Limits>()?;
    module.add_class::<lock::Lock>()?;
    module.add_class::<lock::AsyncLock>()?;
    module.add_class::<topic::Topic>()?;
    module.add_class::<aio::AsyncTopic>()?;
    module.add_class::<message::Message>()?;
    module.add_class::<aio::AsyncMessage>()?;
    module.add_class::<topic::Published>()?;
    module.add_class::<topic::info::TopicInfo>()?;
    module.add_class::<topic::info::Subscription>()?;
    module.add_class::<topic::info::SubscriptionMember>()?;
    module.add_class::<topic::info::CutOff>()?;
    module.add_class::<inspect::JobView>()?;
    module.add_class::<search::SearchPage>()?;
    module.add_class::<inspect::Found>()?;
    module.add_class::<inspect::Progress>()?;
    module.add_class::<registry::WorkerInfo>()?;
    module.add_class::<registry::RunningJob>()?;
    module.add_class::<history::Trace>()?;
    module.add_class::<history::TraceEvent>()?;
    module.add_class::<history::TraceRun>()?;
    module.add_class::<rates::Rates>()?;
    module.add_class::<rates::RateWindow>()?;
    module.add_class::<rates::NameRates>()?;
    module.add_class::<rates::RunCounts>()?;
    module.add_class::<rates::Spread>()?;
    module.add_class::<operate::Cancelled>()?;
    module.add_class::<operate::Requeued>()?;
    module.add_class::<operate::QueueInfo>()?;
    module.add_class::<operate::QueuePage>()?;
    module.add_class::<operate::ListedTopic>()?;
    module.add_class::<operate::TopicPage>()?;
    module.add_class::<audit::AuditReport>()?;
    module.add_class::<audit::Finding>()?;
    module.add_class::<retry::RetryPolicy>()?;
    module.add_class::<schedule::Schedule>()?;
    module.add_class::<schedules::Schedules>()?;
    module.add_class::<aio::AsyncSchedules>()?;
    module.add_class::<schedule::ScheduleView>()?;
    module.add_class::<schedule::Fire>()?;
    module.add_class::<schedule::SyncReport>()?;
    module.add_class::<worker::WorkerEngine>()?;
    module.add_class::<consumer::PullEngine>()?;
    module.add_class::<worker::Executor>()?;
    module.add_class::<worker::WorkerEvent>()?;
    module.add_class::<worker::WorkerReport>()?;
    module.add_class::<page::WebEngine>()?;
    module.add_class::<supervise::Supervision>()?;
    module.add_class::<aio::AsyncClient>()?;
    module.add_class::<aio::AsyncQueue>()?;
    module.add_class::<aio::AsyncJob>()?;
    module.add_function(wrap_pyfunction!(push_many::_push_all, module)?)?;
    module.add_function(wrap_pyfunction!(console::_console, module)?)?;
    module.add_function(wrap_pyfunction!(supervise::_occupy_standard_streams, module)?)?;
    module.add_function(wrap_pyfunction!(web::serves_requests, module)?)?;
    module.add_function(wrap_pyfunction!(aio::_async_sibling, module)?)?;
    module.add_function(wrap_pyfunction!(aio::_give_back, module)?)?;
    module.add_function(wrap_pyfunction!(lock::_give_up, module)?)?;
    // Without `__all__` in the module, which would list what users take from `duly` and `duly.aio`.
    module.delattr("__all__")?;
    let note_exit = wrap_pyfunction!(waiting::note_exit, module)?;
    module.py().import("atexit")?.call_method1("register", (note_exit,))?;
    Ok(())
}
