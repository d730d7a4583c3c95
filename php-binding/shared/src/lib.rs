//! What the extensions `duly` and `duly_console` share: arguments, values, classes, errors as exceptions, calls of PHP code.
//!
//! | file | duty |
//! |---|---|
//! | `call.rs` | calls of PHP code, whose fatal errors are long jumps |
//! | `class.rs` | registers classes with an object of Rust behind them |
//! | `convert.rs` | PHP values to JSON and back; arguments |
//! | `error.rs` | errors as exceptions |
//! | `kept.rs` | by what clients are kept |
//! | `method.rs` | what stands between PHP and every method |
//! | `waiting.rs` | signal handlers of PHP run while a call waits |

// A Rust test would have to link PHP.
#![cfg(not(test))]
#![cfg_attr(windows, feature(abi_vectorcall))]
// For two crates of the house, and nobody else.
#![allow(missing_docs)]

pub mod call;
pub mod class;
pub mod convert;
pub mod error;
pub mod kept;
pub mod method;
pub mod waiting;
