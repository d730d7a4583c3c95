//! Long runs; `make soak` starts them, `cargo test` does not.

#![allow(clippy::unwrap_used)] // a test that unwraps fails with the line it is on

#[path = "../support/mod.rs"]
mod support;

mod everything_at_once;
