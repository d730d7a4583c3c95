//! Long runs; `make soak` starts them, `cargo test` does not.

#![allow(clippy::unwrap_used)] // a test that unwraps fails with the line it is on

#[path = "../support/all.rs"]
mod support;

mod a_million_jobs;
mod everything_at_once;
mod many_failed;
mod many_findings;

/// How many, or which seed, a run was asked for.
fn number_from(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}
