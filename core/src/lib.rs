//! duly runs work later, exactly when it is due.

mod error;
mod keys;
mod script;

pub use error::{Error, ErrorKind};
