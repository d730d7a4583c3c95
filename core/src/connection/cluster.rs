//! The cluster's map: which server owns which slot. A queue is one slot, so this is all the routing there is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redis::Value;
use tokio::time::Instant;

use super::address::Address;
use super::link::{Dialer, Patience, Purpose, Request};
use super::server::Server;
use super::single_flight::SingleFlight;
use super::topology::KnownServers;
use super::trouble::Trouble;
use crate::error::{Error, ErrorKind};

const SLOTS: usize = 16_384;

pub(super) struct Cluster {
    seeds: Vec<Address>,
    known: KnownServers,
    owners: RwLock<Vec<Option<Arc<Server>>>>,
    stale: AtomicBool,
    asking: SingleFlight,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Address>) -> Self {
        Self {
            seeds,
            known: KnownServers::default(),
            owners: RwLock::new(Vec::new()),
            stale: AtomicBool::new(true),
            asking: SingleFlight::default(),
        }
    }

    pub(super) async fn find_owner(
        self: &Arc<Self>,
        slot: u16,
        dialer: &Arc<Dialer>,
        deadline: Instant,
    ) -> Result<Arc<Server>, Trouble> {
        let (cluster, dialer) = (Arc::clone(self), Arc::clone(dialer));
        let ask = async move {
            cluster.ask(&dialer, deadline).await?;
            cluster.believed_owner(slot).ok_or_else(|| {
                Trouble::not_now(Error::new(ErrorKind::Busy, format!("no server of the cluster owns slot {slot}")))
            })
        };
        let cluster = Arc::clone(self);
        self.asking.run(deadline, move || cluster.believed_owner(slot), ask).await
    }

    /// A server failed: its slots may have a new owner.
    pub(super) fn doubt(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// MOVED: from now on this server owns the slot. Other slots that moved with it will say so themselves.
    pub(super) fn moved(&self, slot: u16, to: Address) {
        let server = self.known.at(to);
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get_mut(usize::from(slot)) {
            *owner = Some(server);
        }
    }

    pub(super) fn server_at(&self, address: Address) -> Arc<Server> {
        self.known.at(address)
    }

    pub(super) fn has_answered(&self) -> bool {
        !self.known.is_empty()
    }

    /// The owner as far as we know, if there is no doubt.
    pub(super) fn believed_owner(&self, slot: u16) -> Option<Arc<Server>> {
        if self.stale.load(Ordering::Acquire) {
            return None;
        }
        self.owners.read().unwrap_or_else(PoisonError::into_inner).get(usize::from(slot))?.as_ref().map(Arc::clone)
    }

    /// Asks any server for the map: first those with an open link, then those seen before, then the URL's.
    async fn ask(&self, dialer: &Dialer, deadline: Instant) -> Result<(), Trouble> {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let known = self.known.all();
        for server in &known {
            if let Some(link) = server.open_link() {
                let until = dialer.ready_before(deadline);
                if let Ok(answer) = link.send(Request::Plain(&question), false, Patience::until(until)).await
                    && self.take_map(&answer, &server.address)
                {
                    return Ok(());
                }
            }
        }
        let mut last_trouble = None;
        let mut tried = Vec::new();
        for address in known.iter().map(|server| &server.address).chain(&self.seeds) {
            if tried.contains(&address) {
                continue;
            }
            tried.push(address);
            match ask_one(address, &question, dialer, deadline).await {
                Ok(answer) if self.take_map(&answer, address) => return Ok(()),
                Ok(_) => {
                    last_trouble = Some(Trouble::not_now(Error::new(
                        ErrorKind::Busy,
                        format!("the cluster behind {address} has no slots yet"),
                    )));
                }
                Err(trouble) => last_trouble = Some(Trouble { may_have_run: false, ..trouble }),
            }
        }
        Err(last_trouble
            .unwrap_or_else(|| Trouble::refused(Error::invalid("the server's URL names no server of the cluster"))))
    }

    /// Reads `[[first, last, [host, port, ...], replicas ...], ...]`; false when it names no owner at all.
    fn take_map(&self, answer: &Value, said_by: &Address) -> bool {
        let Value::Array(ranges) = answer else { return false };
        let mut owners = vec![None; SLOTS];
        let mut any = false;
        for range in ranges {
            let Value::Array(parts) = range else { continue };
            let [Value::Int(first), Value::Int(last), Value::Array(node), ..] = parts.as_slice() else { continue };
            let (Ok(first), Ok(last)) = (usize::try_from(*first), usize::try_from(*last)) else { continue };
            let (host, port) = match node.as_slice() {
                [Value::BulkString(host), Value::Int(port), ..] => (String::from_utf8_lossy(host), *port),
                // Redis 7 gives nil when the server does not know how it is called from outside.
                [Value::Nil, Value::Int(port), ..] => ("".into(), *port),
                _ => continue,
            };
            let Some(address) = u16::try_from(port).ok().and_then(|port| Address::from_parts(&host, port, said_by))
            else {
                continue;
            };
            let server = self.known.at(address);
            for owner in owners.iter_mut().take(last + 1).skip(first) {
                *owner = Some(Arc::clone(&server));
                any = true;
            }
        }
        if any {
            *self.owners.write().unwrap_or_else(PoisonError::into_inner) = owners;
            self.stale.store(false, Ordering::Release);
        }
        any
    }
}

async fn ask_one(
    address: &Address,
    question: &redis::Cmd,
    dialer: &Dialer,
    deadline: Instant,
) -> Result<Value, Trouble> {
    let until = dialer.ready_before(deadline);
    let link = dialer.link(address, Purpose::AskCluster, until).await?;
    link.send(Request::Plain(question), false, Patience::until(until)).await
}
