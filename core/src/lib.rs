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

#[cfg(not(unix))]
compile_error!("duly does not build on Windows yet: use WSL");

pub mod blocking;
mod bridge;
#[cfg(any(test, fuzzing))]
#[path = "../model/checks.rs"]
mod checks;
mod connection;
mod embedded;
#[cfg(test)]
mod every_order;
mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)] // for core/fuzz
#[path = "../model/fuzzing.rs"]
pub mod fuzzing;
#[cfg(test)]
mod layers;
mod lock;
#[cfg(test)]
#[path = "../model/model.rs"]
mod model;
mod operate;
mod process;
#[cfg(test)]
#[path = "../model/properties.rs"]
mod properties;
mod queue;
mod schedule;
mod script;
mod topic;
mod value;
pub mod worker;

pub use bridge::{Bridge, BridgeReport, GivenBack, LaneReport, OldQueue, OldState, PushedCounts, ScoreUnit};
pub use format::envelope::{Envelope, FORMAT_VERSION, MAX_ERROR_BYTES, UnknownField, cut_error};
pub use format::record::{CameBack, Record};
#[doc(hidden)]
pub use lock::Claim;
pub use lock::{DEFAULT_LOCK_TTL, Lock, LockOptions, LockTaken};
#[doc(hidden)]
pub use operate::Extent;
pub use operate::{
    Action, AuditOptions, AuditReport, Cancelled, Counts, DEFAULT_HISTORY_AGE, DEFAULT_HISTORY_JOBS,
    DEFAULT_RATES_WITHIN, FailureGroup, FailureGroups, Filter, Finding, Found, Happening, HistoryBounds, Invariant,
    JobView, Limits, MAX_ACTIONS, MAX_CONCURRENCY, MAX_FAILURE_GROUPS, MAX_LENGTH, MAX_LIMITED_NAMES, MAX_QUEUES,
    Matching, NameLimits, NameRates, QueueInfo, QueuePage, RateWindow, Rates, Requeued, RunCounts, RunningJob,
    SearchPage, ServerView, Spread, Trace, TraceEvent, TraceRun, WorkerInfo,
};
#[doc(hidden)] // for the command
pub use process::host::name as host_name;
#[doc(hidden)]
pub use process::runtime;
#[doc(hidden)] // for the skins
pub use process::standard::occupy as occupy_standard_streams;
#[doc(hidden)]
pub use queue::Stop;
pub use queue::{
    Client, ClientBuilder, ClientEvent, DEFAULT_LEASE, DEFAULT_PREFIX, Job, MAX_BATCH, MAX_LEASE, MAX_PARTITIONS,
    MAX_PROGRESS_TEXT_BYTES, MAX_WEIGHT, NewJob, OnDuplicate, Progress, PushSummary, Pushed, Queue, QueueWeight,
    Renewal, ReserveOptions, Selection, Settlement, lease_from_seconds,
};
pub use schedule::{
    Fire, FireOutcome, Overlap, OwnSchedules, PutSchedule, Schedule, ScheduleView, Schedules, SyncReport,
};
pub use topic::{
    Bounds, CutOff, DEFAULT_BOUNDS, ListedTopic, MAX_PUBLISH, MAX_TOPICS, Member, Message, Published, PullOptions,
    SubscribeOptions, Subscription, Topic, TopicInfo, TopicPage,
};
pub use value::data::{DEFAULT_MAX_DATA_BYTES, Data};
pub use value::durability::Durability;
pub use value::error::{Error, ErrorKind};
pub use value::id::{IdGenerator, JobId};
pub use value::name;
pub use value::name::{DEFAULT_PRIORITY, MAX_PRIORITY};
pub use value::rate::{MAX_RATE_JOBS, MAX_RATE_PER, Rate};
pub use value::recurrence::CatchUp;
pub use value::retry::{DEFAULT_MAX_RETRIES, Decision, Next, Outcome, RetryPolicy, decide};
pub use value::seconds::Seconds;
pub use value::state::State;
pub use value::time::{MAX_DELAY, Millis, When};
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
    #[doc = include_str!("../../docs/consumer.md")]
    struct ConsumerPage;
    #[doc = include_str!("../../docs/locks.md")]
    struct Locks;
    #[doc = include_str!("../../docs/topics.md")]
    struct Topics;
    #[doc = include_str!("../../docs/schedules.md")]
    struct SchedulesPage;
    #[doc = include_str!("../../docs/bridge.md")]
    struct BridgePage;
}
