//! duly is a job queue on Redis or Valkey that runs jobs exactly when they are due.
//!
//! This crate is the whole engine; the Python module and the PHP extension call it and behave the same. There is no daemon:
//! a reserve also promotes due jobs and takes back the jobs of dead workers.
//!
//! # Push, cancel, reserve, ack
//!
//! ```
//! use std::time::Duration;
//!
//! use duly::{Client, NewJob, ReserveOptions};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("embedded:{}", folder.path().display());
//! // redis://, rediss://, unix://, redis+sentinel://, redis+cluster://, or embedded: for a private server.
//! let orders = Client::connect(&url).await?.queue("orders")?;
//!
//! let close = |order: u32| NewJob::new(&serde_json::json!({ "order_id": order })).map(|job| job.name("order.close"));
//! orders.push(close(42)?.delay(Duration::from_millis(50)).key("close:42")).await?;
//! orders.push(close(43)?.delay(Duration::from_secs(1800)).key("close:43")).await?;
//! orders.cancel_key("close:43").await?; // paid in time
//!
//! for job in orders.reserve(&ReserveOptions::new().wait(Duration::from_secs(5))).await? {
//!     assert_eq!(job.envelope.data.as_str(), r#"{"order_id":42}"#);
//!     job.ack().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # When a run fails
//!
//! [`Job::fail`] applies the job's [`RetryPolicy`] and returns its decision. A job without retries left is kept in
//! [`State::Failed`], within limits ([`Queue::keep_failed`]).
//!
//! ```
//! use duly::{Client, Millis, NewJob, Next, ReserveOptions, RetryPolicy, State};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("embedded:{}", folder.path().display());
//! let orders = Client::connect(&url).await?.queue("orders")?;
//! let policy = RetryPolicy::Fixed { delay: Millis::ZERO };
//! orders.push(NewJob::new("to the bank")?.max_retries(1).retry(policy)).await?;
//!
//! let job = orders.reserve(&ReserveOptions::new()).await?.remove(0);
//! assert!(matches!(job.fail("no answer").await?, Next::RetryAfter { .. }));
//! let job = orders.reserve(&ReserveOptions::new()).await?.remove(0);
//! assert!(matches!(job.fail("still no answer").await?, Next::Failed { attempts: 2 }));
//!
//! assert_eq!(orders.peek(State::Failed, 0, 10).await?[0].envelope.error, "still no answer");
//! orders.requeue_all().await?; // ready again, with a clean count
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! There is one [`Error`], with a [`kind`](Error::kind) and [`is_transient`](Error::is_transient). Calls are retried over
//! lost connections, restarts and failovers until their deadline, and still executed once: [`ErrorKind::Unreachable`] means
//! that nothing was executed, [`ErrorKind::Timeout`] that it may have been.
//!
//! # Leases
//!
//! A reserved job belongs to its worker until its lease ends. Long work calls [`Job::extend`] in time; a worker that lost
//! the lease gets [`ErrorKind::LeaseLost`] and changes nothing. [`Job::token`] lets a database refuse late workers too. A
//! job may still run twice (at least once, not exactly once), so make handlers safe to repeat.
//!
//! # Without async
//!
//! [`blocking`] has the same methods for programs without an async runtime; it is safe after a fork.

mod alarm;
mod audit;
pub mod blocking;
mod client;
mod combine;
mod connection;
mod crc16;
mod data;
mod durability;
mod embedded;
mod envelope;
mod error;
#[cfg(test)]
mod every_order;
mod finite;
mod host;
mod id;
mod inspect;
mod job;
mod json;
mod keys;
mod known_queues;
mod lease;
mod limits;
#[cfg(test)]
mod model;
pub mod name;
mod name_limits;
mod new_job;
mod operate;
mod partitions;
mod progress;
#[cfg(test)]
mod properties;
mod queue;
mod rate;
mod record;
mod registry;
mod reserve;
mod results;
mod retry;
#[doc(hidden)]
pub mod runtime;
mod script;
mod seconds;
mod session;
mod settle;
mod several;
#[cfg(feature = "opentelemetry")]
mod telemetry;
mod time;
mod unclaimed;
mod unheard;
mod waiting;
pub mod worker;

pub use audit::{AuditOptions, AuditReport, Finding, Invariant};
pub use client::{Client, ClientBuilder, DEFAULT_PREFIX};
pub use data::{DEFAULT_MAX_DATA_BYTES, Data};
pub use durability::Durability;
pub use envelope::{Envelope, FORMAT_VERSION, MAX_ERROR_BYTES, UnknownField, cut_error};
pub use error::{Error, ErrorKind};
pub use id::{IdGenerator, JobId};
pub use inspect::{Counts, Found, JobView, State};
pub use job::Job;
pub use lease::{DEFAULT_LEASE, MAX_LEASE, lease_from_seconds};
pub use limits::{Limits, MAX_CONCURRENCY};
pub use name::{DEFAULT_PRIORITY, MAX_PRIORITY};
pub use name_limits::{MAX_LIMITED_NAMES, NameLimits};
pub use new_job::{NewJob, OnDuplicate};
pub use operate::{Cancelled, Requeued};
pub use partitions::{MAX_PARTITIONS, Partitions};
pub use progress::{MAX_PROGRESS_TEXT_BYTES, Progress};
pub use queue::{MAX_BATCH, PushSummary, Pushed, Queue};
pub use rate::{MAX_RATE_JOBS, MAX_RATE_PER, Rate};
pub use record::{CameBack, Record};
pub use registry::{RunningJob, WorkerInfo};
pub use reserve::ReserveOptions;
pub use retry::{DEFAULT_MAX_RETRIES, Decision, Next, Outcome, RetryPolicy, decide};
pub use seconds::Seconds;
pub use settle::Settlement;
pub use several::{MAX_WEIGHT, QueueWeight, Selection};
pub use time::{MAX_DELAY, Millis, When};
pub use worker::{DEFAULT_GRACE, Worker, WorkerBuilder, WorkerReport};

/// Rust examples of the documents, for `cargo test --doc`.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../README.zh-CN.md")]
    struct ReadmeInChinese;
    #[doc = include_str!("../../docs/rust.md")]
    struct RustPage;
    #[doc = include_str!("../../docs/workers.md")]
    struct Workers;
}
