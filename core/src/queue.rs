//! A queue, with the verbs of producers and workers: `queue/push.rs`, `queue/reserve.rs`, `queue/settle.rs`, `queue/lease.rs`.
//! Those of operators are in `operate`.

mod client;
mod combine;
mod job;
mod known_queues;
mod lease;
mod new_job;
mod other_connections;
mod progress;
mod push;
mod reserve;
mod session;
mod settle;
mod several;
#[cfg(feature = "opentelemetry")]
mod telemetry;
mod unclaimed;
mod unheard;
mod waiting;
mod wake_waiters;

pub(crate) use client::client_closed;
pub use client::{Client, ClientBuilder, DEFAULT_PREFIX};
pub use job::Job;
pub(crate) use lease::check_lease;
pub use lease::{DEFAULT_LEASE, MAX_LEASE, lease_from_seconds};
pub use new_job::{NewJob, OnDuplicate};
pub(crate) use other_connections::OtherConnections;
pub use progress::{MAX_PROGRESS_TEXT_BYTES, Progress};
pub use push::{PushSummary, Pushed};
pub use reserve::ReserveOptions;
pub(crate) use reserve::{MAX_RESERVE_BYTES, ReserveCall, decode};
pub(crate) use session::CallNumber;
#[cfg(test)]
pub(crate) use session::Session;
pub use settle::Settlement;
pub(crate) use settle::{Decided, NOT_KEPT};
pub use several::{MAX_WEIGHT, QueueWeight, Selection};
pub(crate) use several::{reserve_several, weighted_order};
#[cfg(feature = "opentelemetry")]
pub(crate) use telemetry::parent;
pub(crate) use unheard::{Claim, Standing};
pub(crate) use waiting::Trust;

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, PoisonError};

use crate::connection::Backoff;
use crate::queue::combine::Combiner;
use crate::queue::new_job::Prepared;
use crate::queue::settle::OneOutcome;
use crate::queue::unclaimed::Granted;
use crate::script::{self, ByteStrings, Command, Declared, Key, Levels, QueueKeys, Reply, found_type, key_type, wake};
use crate::value::durability::Durability;
use crate::value::error::{Error, ErrorKind};
use crate::value::name;

/// The most jobs that one script call takes.
pub const MAX_BATCH: usize = 1000;
/// One queue of a client. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    pub(crate) client: Client,
    pub(crate) shared: Arc<QueueShared>,
}

pub(crate) struct QueueShared {
    pub(crate) name: String,
    pub(crate) keys: QueueKeys,
    /// The priority levels that the queue is known to use, as bits.
    levels: AtomicU16,
    pushes: Arc<Combiner<Prepared, Result<Pushed, Error>>>,
    durable_pushes: Arc<Combiner<Prepared, Result<Pushed, Error>>>,
    pub(crate) settles: Arc<Combiner<OneOutcome, bool>>,
    pub(crate) reserves: Arc<Combiner<ReserveOptions, Granted>>,
}

impl QueueShared {
    pub(crate) fn new(prefix: &str, name: String, levels: Levels) -> Arc<Self> {
        Arc::new(Self {
            keys: QueueKeys::new(prefix, &name),
            name,
            levels: AtomicU16::new(levels.bits()),
            pushes: Combiner::new(),
            durable_pushes: Combiner::new(),
            settles: Combiner::new(),
            reserves: Combiner::new(),
        })
    }
}

impl Queue {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        let make = || QueueShared::new(&client.shared.prefix, name.to_owned(), Levels::one(name::DEFAULT_PRIORITY));
        // Nothing that is done under the lock can panic, so a poisoned one is still whole.
        let shared = client.shared.queues.lock().unwrap_or_else(PoisonError::into_inner).get(name, make);
        Self { client, shared }
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The same queue with these levels' lists passed, whatever is known to be in use.
    pub(crate) fn with_levels(&self, levels: Levels) -> Self {
        let shared = QueueShared::new(&self.client.shared.prefix, self.shared.name.clone(), levels);
        Self { client: self.client.clone(), shared }
    }

    pub(crate) fn levels(&self) -> Levels {
        Levels::from_bits(self.shared.levels.load(Ordering::Relaxed))
    }

    fn note_levels(&self, levels: Levels) {
        self.shared.levels.fetch_or(levels.bits(), Ordering::Relaxed);
    }

    /// Runs a script that is executed once however often it is sent: numbers the call, and follows the queue's levels.
    pub(crate) async fn run_numbered<D: Declared>(
        &self,
        operation: &'static str,
        durability: Durability,
        declare: impl Fn(&CallNumber<'_>) -> D,
        items: impl Fn(&mut ByteStrings),
    ) -> Result<Reply, Error> {
        self.run_numbered_until(operation, durability, declare, items, &|_| false).await
    }

    /// The same, with the call made again under its number, behind a pause, after the errors of which `keep_trying` says so.
    pub(crate) async fn run_numbered_until<D: Declared>(
        &self,
        operation: &'static str,
        durability: Durability,
        declare: impl Fn(&CallNumber<'_>) -> D,
        items: impl Fn(&mut ByteStrings),
        keep_trying: &(dyn Fn(&Error) -> bool + Sync),
    ) -> Result<Reply, Error> {
        let session = &self.client.shared.session;
        let number = session.next_call(self.name());
        let reply = self.run_levels(operation, durability, &declare(&number), &items, keep_trying).await?;
        if !script::is_refusal(&reply) {
            number.was_answered();
        }
        Ok(reply)
    }

    /// Runs a script that is right when sent twice without a number.
    pub(crate) async fn run_plain<D: Declared>(
        &self,
        operation: &'static str,
        declared: D,
        items: impl Fn(&mut ByteStrings),
    ) -> Result<Reply, Error> {
        self.run_plain_until(operation, declared, items, &|_| false).await
    }

    /// The same, with the call made again, behind a pause, after the errors of which `keep_trying` says so.
    pub(crate) async fn run_plain_until<D: Declared>(
        &self,
        operation: &'static str,
        declared: D,
        items: impl Fn(&mut ByteStrings),
        keep_trying: &(dyn Fn(&Error) -> bool + Sync),
    ) -> Result<Reply, Error> {
        self.run_levels(operation, Durability::None, &declared, &items, keep_trying).await
    }

    async fn run_levels<D: Declared>(
        &self,
        operation: &'static str,
        durability: Durability,
        declared: &D,
        items: &impl Fn(&mut ByteStrings),
        keep_trying: &(dyn Fn(&Error) -> bool + Sync),
    ) -> Result<Reply, Error> {
        let client = &self.client.shared;
        let mut is_again = false;
        let mut backoff = Backoff::default();
        loop {
            let mut call = declared.call(
                client.clock,
                &self.shared.name,
                &self.shared.keys,
                client.session.client(),
                self.levels(),
                items,
            );
            call.is_again = is_again;
            let reply = match self.client.run(operation, &call, durability).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => return Err(self.name_foreign_key(error).await),
                Err(error) if keep_trying(&error) => {
                    is_again = true;
                    // On the heap: rare, and this future is moved about on every call.
                    Box::pin(backoff.rest()).await;
                    continue;
                }
                reply => reply?,
            };
            match script::wanted_levels(&reply) {
                // Levels only ever grow, so this ends after at most ten turns.
                Some(wanted) => self.note_levels(wanted),
                None => return Ok(reply),
            }
        }
    }

    /// Sends a plain command to the server that has the queue.
    pub(crate) async fn command(&self, operation: &'static str, command: Command) -> Result<Reply, Error> {
        self.client.command(operation, self.shared.keys.slot(), command).await
    }

    /// Passes on a wake-up, or the promise to come back, that this waiter has no use for.
    pub(crate) async fn wake_another(&self) -> Result<(), Error> {
        self.command("reserve", wake(&self.shared.keys)).await.map(|_| ())
    }

    /// The server says that a key has a wrong type but not which: looks.
    pub(crate) async fn name_foreign_key(&self, error: Error) -> Error {
        let keys = &self.shared.keys;
        let ready = Levels::ALL.iter().map(|level| (keys.spell_ready(level), Key::Ready));
        let call = (format!("{}:{}", keys.spell(Key::Call), self.client.shared.session.client()), Key::Call);
        let others = Key::FIXED.iter().map(|&key| (keys.spell(key), key));
        for (spelled, key) in others.chain(ready).chain([call]) {
            let Ok(reply) = self.command("check", key_type(&spelled)).await else { continue };
            let Some(found) = found_type(reply) else { continue };
            if found != key.redis_type() {
                return client::foreign_key(&spelled, Some(&found), key.redis_type())
                    .during(error.operation().unwrap_or("check"))
                    .in_queue(self.name());
            }
        }
        error
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
