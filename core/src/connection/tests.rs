//! Behaviour of connections against real servers. Every test starts its own and owns its ports.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod arrangement;
mod fail_fast;
mod fixture;
mod outage;
mod refusal;
mod secure;
mod url_properties;
mod url_table;
mod wait;
mod wrong_kind;
