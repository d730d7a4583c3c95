//! duly runs work later, exactly when it is due.

#[allow(dead_code, reason = "the connection layer attaches to it; drop this line when it does")]
mod embedded;
mod error;
mod script;

pub use error::{Error, ErrorKind};
