//! duly runs work later, exactly when it is due.

mod connection;
mod data;
mod embedded;
mod envelope;
mod error;
mod finite;
mod id;
mod json;
mod keys;
pub mod name;
mod record;
mod retry;
mod script;
mod seconds;
mod time;

pub use connection::Durability;
pub use data::{DEFAULT_MAX_DATA_BYTES, Data};
pub use envelope::{Envelope, FORMAT_VERSION, MAX_ERROR_BYTES, UnknownField, cut_error};
pub use error::{Error, ErrorKind};
pub use id::{IdGenerator, JobId};
pub use name::{DEFAULT_PRIORITY, MAX_PRIORITY};
pub use record::{CameBack, Record};
pub use retry::{DEFAULT_MAX_RETRIES, Decision, Next, Outcome, RetryPolicy, decide};
pub use seconds::Seconds;
pub use time::{MAX_DELAY, Millis, When};
