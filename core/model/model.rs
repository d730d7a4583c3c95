//! A second queue, in plain Rust: what the scripts must do, said without Lua and without Redis.
//!
//! `state.rs` holds what a queue is, `step_*.rs` what each script does to it, written from the contracts above the scripts
//! and not from their code. `differential.rs` sends the same random commands to this model and to the real scripts on a real
//! server and compares every reply and, after every step, every key. `invariants.rs` says what must be true of both.
//! `tools/mutants.py` takes each guard out of the scripts, and a test must notice.

mod bridge;
mod command;
mod differential;
mod dump;
mod expiring;
mod foreign;
mod forgotten;
mod generate;
mod histories;
mod invariants;
mod lengths;
mod limits;
mod locks;
mod options;
mod orders;
mod parked;
mod queues;
mod rate;
mod rates;
mod real_clock;
mod regressions;
mod requeues;
mod routing_properties;
mod schedules;
mod search;
mod server;
mod stale;
mod state;
mod step_operate;
mod step_push;
mod step_reserve;
mod step_settle;
mod topics;
mod unheard;
mod upgrade;
mod world;
