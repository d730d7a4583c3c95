//! Connections: from a URL to an answered call, whatever happens on the way.
//!
//! Own code and not the crate's `ConnectionManager` or cluster client, because those never leave a demoted primary or
//! a half-open socket, resend by themselves, and answer an unknown script by loading it on every server. Ours is
//! simple because a queue is one slot: one shared link per server, a map from slot to server, and one loop with one
//! deadline.
//!
//! | file | duty |
//! |---|---|
//! | `url.rs`, `settings.rs`, `secret.rs` | what the user says: the URL, the settings, the password |
//! | `topology.rs` | which server is asked about a queue |
//! | `sentinel.rs`, `sentinel_watch.rs` | asks the sentinels for the primary, and hears from them of a new one |
//! | `cluster.rs` | the cluster's map: which server owns which slot |
//! | `ask_around.rs`, `single_flight.rs` | asks several servers the same question; one asks for all that want to know |
//! | `address.rs`, `stream.rs`, `tls.rs` | where a server listens, the socket to it, TLS |
//! | `boot_check.rs`, `wrong_kind.rs` | the checks of a new connection; a server that is not what the URL says |
//! | `link.rs` | one connection, ready for calls |
//! | `server.rs`, `spares.rs` | the shared link of a server, and those for calls that need one alone |
//! | `resend.rs` | sends a call until it is answered, refused or out of time |
//! | `classify.rs`, `trouble.rs` | what an error of the server means, and what a failed attempt does |
//! | `backoff.rs`, `patience.rs` | the pauses between attempts; how long an answer is waited for |
//! | `breaker.rs` | the circuit breaker of web requests |
//! | `outages.rs` | notes of outages, for whose sake a reserve spares leases |
//! | `durability.rs` | the confirmations of replicas and the disk |
//! | `wake.rs`, `wake_line.rs` | waits for wake-ups, and the connection that does nothing else |

mod address;
mod ask_around;
mod backoff;
mod boot_check;
mod breaker;
mod classify;
mod cluster;
mod durability;
mod link;
mod outages;
mod patience;
mod resend;
mod secret;
mod sentinel;
mod sentinel_watch;
mod server;
mod settings;
mod single_flight;
mod spares;
mod stream;
mod tls;
mod topology;
mod trouble;
mod url;
mod wake;
mod wake_line;
mod wrong_kind;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use redis::{Cmd, Value};

pub(crate) use backoff::Backoff;
#[cfg(any(test, fuzzing))]
pub(crate) use cluster::reads_map;
pub(crate) use durability::Durability;
pub(crate) use patience::at_the_slowest;
pub(crate) use secret::Secret;
pub(crate) use settings::Settings;
pub(crate) use wake::{Enough, WaitedBy, Woken};

use self::link::{Dialer, Request};
use self::outages::Outages;
use self::resend::Shared;
use self::topology::Topology;
use self::url::Layout;
use self::wake::HasWaited;
use self::wake_line::Waited;
use crate::script::Call;
use crate::value::error::Error;

/// The way to the servers of one client. Clones share everything; dropping the last one closes the connections.
///
/// Belongs to the tokio runtime of its first call: after a fork, or on another runtime, make a new one.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

impl Connection {
    /// Reads the settings and the certificate files. Nothing is sent: the first call connects.
    ///
    /// Errors: `InvalidArgument`.
    pub(crate) fn new(settings: Settings) -> Result<Self, Error> {
        Self::sharing(settings, Arc::default())
    }

    /// The same; whether the server has ever answered is shared with other connections of these settings.
    pub(crate) fn sharing(mut settings: Settings, has_worked: Arc<AtomicBool>) -> Result<Self, Error> {
        let target = settings.resolve()?;
        settings.cap_timeouts();
        let tls = tls::Tls::new(&target)?;
        Ok(Self(Arc::new(Shared {
            dialer: Arc::new(Dialer {
                settings,
                tls,
                credentials: target.credentials,
                sentinel_credentials: target.sentinel_credentials,
                db: target.db,
                in_cluster: matches!(target.layout, Layout::Cluster { .. }),
                allow_eviction: target.allow_eviction,
            }),
            topology: Topology::new(target.layout),
            has_worked,
            has_waited: HasWaited::default(),
            lost_waits: AtomicU32::new(0),
            outages: Outages::default(),
        })))
    }

    /// Closes all connections, calls under way aside.
    pub(crate) fn close(&self) {
        self.0.topology.leave();
    }

    /// Sends the call until it is answered or the deadline is over.
    ///
    /// Errors: `Unreachable` when nothing was ever sent, `Timeout` when an attempt may have been executed, else what
    /// the server said.
    pub(crate) async fn run(&self, operation: &'static str, call: &Call<'_>) -> Result<Value, Error> {
        let sent = self.0.send(call.slot, Request::script(call)).await;
        sent.map_err(|error| error.during(operation).in_queue(call.queue))
    }

    /// Like [`Connection::run`], and then waits on the same connection until replicas or the disk have it. (On
    /// another connection `WAIT` would confirm nothing: it answers for the writes of its own connection.)
    ///
    /// Errors, besides those of `run`: `NotDurable` (the job is in), `Unsupported` (nothing was pushed).
    pub(crate) async fn run_durably(
        &self,
        operation: &'static str,
        call: &Call<'_>,
        durability: Durability,
    ) -> Result<Value, Error> {
        let sent = self.0.send(call.slot, Request::Durable { call, durability, again: false }).await;
        sent.map_err(|error| error.during(operation).in_queue(call.queue))
    }

    /// Waits until one of these lists has an element, and takes it, or until `wait` is over, or it is `enough`.
    ///
    /// Runs on a connection of its own, and its timer is ours: the server looks at its own only every 100 ms. A wait
    /// that ends without an element is called back from the server, so it takes nothing that comes later; a future
    /// that is dropped closes its connection and gives back what had already come. Keep it and poll on, or say that it is
    /// enough, rather than drop it and wait again: that saves the connection.
    ///
    /// More than one list only where [`Connection::waits_together`] says so. Errors: those of `run`, with `wait` as the deadline.
    pub(crate) async fn wait_for_wakes(
        &self,
        operation: &'static str,
        slot: u16,
        wake_keys: &[&[u8]],
        wait: Duration,
        enough: Option<&Enough>,
    ) -> Result<Woken, Error> {
        let waited = self.0.wait_for(slot, Waited::Take(wake_keys), wait, enough).await;
        waited.map_err(|error| error.during(operation))
    }

    /// The same for one list.
    #[cfg(test)]
    pub(crate) async fn wait_for_wake(&self, slot: u16, wake_key: &[u8], wait: Duration) -> Result<Woken, Error> {
        self.wait_for_wakes("reserve", slot, &[wake_key], wait, None).await
    }

    /// May one wait be for lists of several queues? Not in a cluster, where they are in several slots.
    pub(crate) fn waits_together(&self) -> bool {
        self.0.topology.as_cluster().is_none()
    }

    /// Did a wait fail only because it is not possible just now? Then time alone ends it, and the next call says what is wrong.
    pub(crate) fn waits_again(&self, by: WaitedBy, error: &Error) -> bool {
        self.0.waits_again(by, error)
    }

    /// Waits for a list whose element stays where it is, so that everybody who waits sees it.
    pub(crate) async fn wait_for_element(&self, slot: u16, key: &[u8], wait: Duration) -> Result<Woken, Error> {
        self.0.wait_for(slot, Waited::See(key), wait, None).await.map_err(|error| error.during("wait_result"))
    }

    /// Waits for an entry in any of these streams, behind the one that has the number at the same index; all who wait see it. Several
    /// streams, and `enough`: as for [`Connection::wait_for_wakes`].
    pub(crate) async fn wait_for_news(
        &self,
        operation: &'static str,
        slot: u16,
        streams: &[&[u8]],
        after: &[u64],
        wait: Duration,
        enough: Option<&Enough>,
    ) -> Result<Woken, Error> {
        let waited = self.0.wait_for(slot, Waited::News { streams, after }, wait, enough).await;
        waited.map_err(|error| error.during(operation))
    }

    /// Sends a plain command. It may be sent more than once, so it must be one that only reads.
    pub(crate) async fn command(&self, operation: &'static str, slot: u16, cmd: Cmd) -> Result<Value, Error> {
        self.0.send(slot, Request::Plain(&cmd)).await.map_err(|error| error.during(operation))
    }
}
