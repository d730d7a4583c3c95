//! What a queue does, on a server that works.

#![allow(clippy::unwrap_used)] // a test that unwraps fails with the line it is on

#[path = "../support/all.rs"]
mod support;

mod actions;
mod all_jobs;
mod audit;
mod bad_input;
mod bridge;
mod bridge_back;
mod bridge_celery;
mod bridge_purpose;
mod cluster;
mod connections;
mod expiry;
mod held;
mod history;
mod import;
mod limits;
mod lock;
mod partitions;
mod php_words;
mod queue_handles;
mod queues;
mod reference_systems;
mod registry;
mod release;
mod requeue_with;
mod reserve;
mod results;
mod schedules;
mod set_back;
mod several;
mod stale;
mod story;
mod topic;
mod topic_lost_calls;
mod topic_many;
mod topics_listed;
mod vectors;
