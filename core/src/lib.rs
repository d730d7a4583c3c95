//! duly runs work later, exactly when it is due.

mod audit;
pub mod blocking;
mod client;
mod combine;
mod connection;
mod consume;
mod data;
mod embedded;
mod envelope;
mod error;
mod finite;
mod id;
mod inspect;
mod json;
mod keys;
mod lease_keeper;
#[cfg(test)]
mod model;
pub mod name;
mod new_job;
mod operate;
mod partitions;
mod queue;
mod record;
mod retry;
#[doc(hidden)]
pub mod runtime;
mod script;
mod seconds;
mod session;
mod several;
mod time;
mod waiting;
mod worker;

pub use audit::{AuditOptions, AuditReport, Finding, Invariant};
pub use client::{Client, ClientBuilder, DEFAULT_PREFIX};
pub use connection::Durability;
pub use consume::{DEFAULT_LEASE, Job, MAX_LEASE, ReserveOptions, Settlement};
pub use data::{DEFAULT_MAX_DATA_BYTES, Data};
pub use envelope::{Envelope, FORMAT_VERSION, MAX_ERROR_BYTES, UnknownField, cut_error};
pub use error::{Error, ErrorKind};
pub use id::{IdGenerator, JobId};
pub use inspect::{Counts, Found, JobView, State};
pub use name::{DEFAULT_PRIORITY, MAX_PRIORITY};
pub use new_job::{NewJob, OnDuplicate};
pub use operate::{Cancelled, Requeued};
pub use partitions::{MAX_PARTITIONS, Partitions};
pub use queue::{MAX_BATCH, PushSummary, Pushed, Queue};
pub use record::{CameBack, Record};
pub use retry::{DEFAULT_MAX_RETRIES, Decision, Next, Outcome, RetryPolicy, decide};
pub use seconds::Seconds;
pub use several::{MAX_WEIGHT, QueueWeight, Selection};
pub use time::{MAX_DELAY, Millis, When};
pub use worker::{DEFAULT_GRACE, Worker, WorkerBuilder, WorkerReport};
