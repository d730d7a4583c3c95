//! The worker loop on a server that works: its handlers, leases, hooks, log and traces.

#![allow(clippy::unwrap_used)] // a test that unwraps fails with the line it is on

#[path = "../support/all.rs"]
mod support;

mod charges;
mod consumer;
mod expiry;
mod failure_hook;
mod leases;
mod lock;
mod log;
mod processes;
mod rates;
mod renewal;
mod run;
mod schedules;
mod settles;
#[cfg(feature = "opentelemetry")]
mod traces;
mod unheard;
mod wakes;

use std::sync::OnceLock;

use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Subscriber};

/// What this thread's spans and events go to.
fn listen(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    // As long as there is one subscriber only, `tracing` asks the thread that comes first to an event whether anybody
    // listens there, and a thread of another test would say no for all. With a second one it asks every subscriber.
    static STAYS: OnceLock<Dispatch> = OnceLock::new();
    STAYS.get_or_init(|| Dispatch::new(tracing_subscriber::registry()));
    tracing::subscriber::set_default(subscriber)
}
