//! A queue, with the verbs of producers and workers. Those of operators are in `operate`. Each verb is a method of [`Queue`], which
//! chooses the parts that it is about; what one part does is beside it, as a method of `Part`.
//!
//! | file | duty |
//! |---|---|
//! | `client.rs`, `client/` | the client: its settings, its connections and its queues |
//! | `session.rs` | numbers a client's calls, so that a call sent twice is executed once |
//! | `event.rs` | events of a client that no call's answer reports |
//! | `known_queues.rs` | the queues that a client has used lately, and what it knows of them |
//! | `registration.rs` | puts a queue on the list of queues |
//! | `other_connections.rs` | connections for renewals, which must not wait behind a large call |
//! | `part.rs` | one part of a queue: how a call is made of it |
//! | `partitions.rs` | queues with several parts: which one a job is in |
//! | `combine.rs` | sends the calls of many tasks as one |
//! | `new_job.rs`, `push.rs` | a job before it is pushed, and push |
//! | `telemetry.rs` | the trace context that a push puts into the headers |
//! | `reserve.rs`, `reserve_loop.rs`, `reserve_call.rs` | reserve: its options, the loop over all parts, one call to one part |
//! | `waiting.rs` | how long a reserve waits before it looks again |
//! | `unclaimed.rs` | gives back jobs whose caller is gone |
//! | `job.rs` | a reserved job, with the verbs of its holder |
//! | `lease.rs`, `renewal.rs` | how long a lease lasts, extend; and the renewal of one in the background |
//! | `progress.rs` | how far a run has come |
//! | `settle.rs` | ack, fail and release, of one job or of many |
//! | `wake_waiters.rs` | wakes those who wait for a result that will not come |
//! | `unheard.rs` | failed jobs whose hooks were not called yet |
//! | `held_pulls.rs` | what a client keeps of its pulls from many topics |

mod client;
mod combine;
mod event;
mod held_pulls;
mod job;
mod known_queues;
mod lease;
mod new_job;
mod other_connections;
mod part;
mod partitions;
mod progress;
mod push;
mod registration;
mod renewal;
mod reserve;
mod reserve_call;
mod reserve_loop;
mod session;
mod settle;
#[cfg(feature = "opentelemetry")]
mod telemetry;
mod unclaimed;
mod unheard;
mod waiting;
mod wake_waiters;

pub(crate) use client::client_closed;
pub use client::{Client, ClientBuilder, DEFAULT_PREFIX, Stop};
pub use event::ClientEvent;
pub(crate) use event::Listener;
pub(crate) use held_pulls::{HeldPulls, KeptFailure, KeptMessage, LatePull, Pulled};
pub use job::Job;
pub(crate) use job::TOKENS_A_MS;
pub(crate) use lease::check_lease;
pub use lease::{DEFAULT_LEASE, MAX_LEASE, lease_from_seconds};
pub use new_job::{NewJob, OnDuplicate};
pub(crate) use other_connections::OtherConnections;
pub(crate) use part::Part;
pub use partitions::MAX_PARTITIONS;
pub(crate) use partitions::check_queue_or_part;
pub use progress::{MAX_PROGRESS_TEXT_BYTES, Progress};
pub(crate) use push::batches;
pub use push::{PushSummary, Pushed};
pub(crate) use registration::{listed_name, unlisted_name};
pub use renewal::Renewal;
pub use reserve::{MAX_WEIGHT, QueueWeight, ReserveOptions, Selection};
pub(crate) use reserve_call::{MAX_RESERVE_BYTES, ReserveCall, UNDECODABLE, Unread, decode};
pub(crate) use reserve_loop::weighted_order;
#[cfg(test)]
pub(crate) use session::{CallNumber, Session};
pub use settle::Settlement;
pub(crate) use settle::{Decided, NOT_KEPT, add_expired};
#[cfg(feature = "opentelemetry")]
pub(crate) use telemetry::parent;
pub(crate) use unheard::{Claim, Standing};
pub(crate) use waiting::Trust;

use std::sync::Arc;

use crate::value::error::Error;

/// The most jobs that one script call takes.
pub const MAX_BATCH: usize = 1000;

/// One queue of a client, partitioned or not. Cheap to clone.
///
/// A queue is partitioned ([`Client::partitioned_queue`]) when one server node cannot carry it: each part has its own hash tag, so
/// that a cluster spreads them over its nodes. A job's part is chosen by its key, or else by its id (CRC-16 modulo the number of
/// parts), so all clients must use the same number; to change it, drain the queue first. The costs: priorities and order hold
/// within a part only. A reserve may check every part before it finds a job, and an idle worker has a blocked connection for each.
/// Counts and operations on all jobs make one call for each part, one after the other, so their sum is no snapshot. A job that is
/// not where it should be is searched in all parts. A job with a key and an id of your own is found by its id with one call for
/// each part, and such an id is unique within a part only.
#[derive(Clone)]
pub struct Queue {
    whole: Whole,
}

#[derive(Clone)]
enum Whole {
    One(Part),
    Partitioned(Arc<Partitioned>),
}

struct Partitioned {
    name: String,
    parts: Vec<Part>,
}

impl Queue {
    /// The queue's name.
    pub fn name(&self) -> &str {
        match &self.whole {
            Whole::One(part) => part.name(),
            Whole::Partitioned(queue) => &queue.name,
        }
    }

    /// The parts of a partitioned queue, each a queue of its own: `orders/0`, `orders/1`, ...; empty if it is not partitioned.
    pub fn parts(&self) -> Vec<Self> {
        match &self.whole {
            Whole::One(_) => Vec::new(),
            Whole::Partitioned(queue) => queue.parts.iter().cloned().map(Self::from).collect(),
        }
    }

    pub(crate) fn each_part(&self) -> &[Part] {
        match &self.whole {
            Whole::One(part) => std::slice::from_ref(part),
            Whole::Partitioned(queue) => &queue.parts,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.each_part()[0].client
    }

    /// Says of an error what was done, and to which queue.
    pub(crate) fn during(&self, operation: &'static str) -> impl Fn(Error) -> Error {
        move |error| error.during(operation).in_queue(self.name())
    }
}

impl From<Part> for Queue {
    fn from(part: Part) -> Self {
        Self { whole: Whole::One(part) }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("name", &self.name()).finish_non_exhaustive()
    }
}
