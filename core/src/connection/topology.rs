//! Which of several servers is asked about a queue: always the same one, the one that the sentinels name, or the owner of its slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::address::Address;
use super::breaker::Breaker;
use super::cluster::Cluster;
use super::link::Dialer;
use super::sentinel::Sentinels;
use super::server::Server;
use super::trouble::Trouble;
use super::url::Layout;

pub(super) enum Topology {
    Single(Arc<Server>),
    Sentinel(Arc<Sentinels>),
    Cluster(Arc<Cluster>),
}

impl Topology {
    pub(super) fn new(layout: Layout) -> Self {
        match layout {
            Layout::Single(address) => Self::Single(Server::new(address)),
            Layout::Sentinel { sentinels, master_name } => {
                Self::Sentinel(Arc::new(Sentinels::new(sentinels, master_name)))
            }
            Layout::Cluster { seeds } => Self::Cluster(Arc::new(Cluster::new(seeds))),
        }
    }

    /// The server to send to. Asks sentinels or the cluster only when it is not known (any more).
    pub(super) async fn server_for(
        &self,
        slot: u16,
        dialer: &Arc<Dialer>,
        deadline: Instant,
    ) -> Result<Arc<Server>, Trouble> {
        let known = match self {
            Self::Single(server) => Some(Arc::clone(server)),
            Self::Sentinel(sentinels) => sentinels.believed(),
            Self::Cluster(cluster) => cluster.believed_owner(slot),
        };
        match known {
            Some(server) => Ok(server),
            // On the heap: rare, and large for a future that is moved about on every call.
            None => Box::pin(self.find(slot, dialer, deadline)).await,
        }
    }

    async fn find(&self, slot: u16, dialer: &Arc<Dialer>, deadline: Instant) -> Result<Arc<Server>, Trouble> {
        match self {
            Self::Single(server) => Ok(Arc::clone(server)),
            Self::Sentinel(sentinels) => sentinels.find_primary(dialer, deadline).await,
            Self::Cluster(cluster) => cluster.find_owner(slot, dialer, deadline).await,
        }
    }

    /// This server failed, or is the wrong one: look again before the next attempt.
    pub(super) fn doubt(&self, server: &Arc<Server>, has_lost_cluster: bool) {
        match self {
            // Its name is resolved again at each dial, which is how a failover behind DNS is followed.
            Self::Single(_) => {}
            Self::Sentinel(sentinels) => sentinels.doubt(server),
            Self::Cluster(cluster) => cluster.doubt(server, has_lost_cluster),
        }
    }

    /// What is known of outages where this slot's queue is: of its server, or of all that sentinels watch over.
    pub(super) fn breaker(&self, slot: u16) -> Arc<Breaker> {
        match self {
            Self::Single(server) => Arc::clone(&server.breaker),
            Self::Sentinel(sentinels) => Arc::clone(&sentinels.breaker),
            Self::Cluster(cluster) => cluster.breaker(slot),
        }
    }

    /// Closes all connections, calls under way aside.
    pub(super) fn leave(&self) {
        match self {
            Self::Single(server) => server.leave(),
            Self::Sentinel(sentinels) => sentinels.leave(),
            Self::Cluster(cluster) => cluster.leave(),
        }
    }

    pub(super) fn as_cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// Have sentinels or cluster answered at least once? Then the URL is right, and what fails now may heal.
    pub(super) fn has_been_found(&self) -> bool {
        match self {
            Self::Single(_) => true,
            Self::Sentinel(sentinels) => sentinels.has_answered(),
            Self::Cluster(cluster) => cluster.has_answered(),
        }
    }

    pub(super) fn is_single(&self) -> bool {
        matches!(self, Self::Single(_))
    }
}

/// The servers seen, so that one that comes back keeps its connections.
#[derive(Default)]
pub(super) struct KnownServers(Mutex<HashMap<Address, Arc<Server>>>);

impl KnownServers {
    pub(super) fn at(&self, address: Address) -> Arc<Server> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(servers.entry(address.clone()).or_insert_with(|| Server::new(address)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Forgets the others, and wakes those that still wait there.
    pub(super) fn retain(&self, keep: impl Fn(&Server) -> bool) {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, server| {
            let kept = keep(server);
            if !kept {
                server.leave();
            }
            kept
        });
    }

    pub(super) fn all(&self) -> Vec<Arc<Server>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
    }
}
