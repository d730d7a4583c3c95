//! What is left when a process dies, a call or its reply is lost, or the server refuses, forgets or is killed.

#![allow(clippy::unwrap_used)] // a test that unwraps fails with the line it is on

#[path = "../support/all.rs"]
mod support;

mod cancelled_reserve;
mod changed_settings;
mod crash;
mod dials;
mod flushed_server;
mod forks;
mod long_outage;
mod lost_replies;
mod pauses;
mod pauses_elsewhere;
mod schedules;
mod server_killed;
mod server_refusals;
mod slow_line;
mod torn_bridge;
mod torn_schedules;
mod torn_script;
mod torn_topics;
mod worker;
