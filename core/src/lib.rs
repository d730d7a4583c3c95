//! duly runs work later, exactly when it is due.

#[allow(dead_code, unused_imports, reason = "its callers, queue and consumer, come with their own commits")]
mod connection;
mod error;
mod script;

pub use connection::Durability;
pub use error::{Error, ErrorKind};
