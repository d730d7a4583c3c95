//! The sentinels know which server is the primary; it is asked of them again after every doubt.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::address::Address;
use super::ask_around;
use super::breaker::Breaker;
use super::link::{Dialer, Purpose, Request};
use super::patience::Patience;
use super::sentinel_watch;
use super::server::Server;
use super::single_flight::SingleFlight;
use super::topology::KnownServers;
use super::trouble::Trouble;
use crate::process::runtime::spawn_steady;
use crate::value::error::{Error, ErrorKind};

pub(super) struct Sentinels {
    addresses: Vec<Address>,
    master_name: String,
    /// The one that answered last is asked first; behind a vain round, the one that was not asked yet.
    first: AtomicUsize,
    primary: RwLock<Option<Arc<Server>>>,
    /// The newest one, also while it is in doubt.
    last: Mutex<Option<Arc<Server>>>,
    known: KnownServers,
    asking: SingleFlight,
    watch: Mutex<Option<AbortHandle>>,
    /// Counts the announcements of other primaries.
    news: AtomicU64,
    pub(super) breaker: Arc<Breaker>,
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get_mut().unwrap_or_else(PoisonError::into_inner) {
            watch.abort();
        }
    }
}

impl Sentinels {
    pub(super) fn new(addresses: Vec<Address>, master_name: String) -> Self {
        Self {
            addresses,
            master_name,
            first: AtomicUsize::new(0),
            primary: RwLock::default(),
            last: Mutex::default(),
            known: KnownServers::default(),
            asking: SingleFlight::default(),
            watch: Mutex::default(),
            news: AtomicU64::new(0),
            breaker: Arc::default(),
        }
    }

    /// Closes the connections to all servers that were ever the primary, and stops listening.
    pub(super) fn leave(&self) {
        if let Some(watch) = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take() {
            watch.abort();
        }
        self.known.all().iter().for_each(|server| server.leave());
    }

    pub(super) async fn find_primary(
        self: &Arc<Self>,
        dialer: &Arc<Dialer>,
        deadline: Instant,
    ) -> Result<Arc<Server>, Trouble> {
        let (sentinels, dialer) = (Arc::clone(self), Arc::clone(dialer));
        let ask = async move {
            let found = sentinels.ask(&dialer, deadline).await?;
            sentinels.keep_watch(&dialer);
            Ok(found)
        };
        let sentinels = Arc::clone(self);
        self.asking.run(deadline, move || sentinels.believed(), ask).await
    }

    /// A failover may be under way: the next call asks again. That the server it is sent to really is a primary is
    /// checked there (boot check), because a sentinel can be behind.
    pub(super) fn doubt(&self, server: &Arc<Server>) {
        let mut primary = self.primary.write().unwrap_or_else(PoisonError::into_inner);
        if primary.as_ref().is_some_and(|current| Arc::ptr_eq(current, server)) {
            *primary = None;
        }
    }

    /// This sentinel says that this is the primary. If it is another than before, nobody sends to the old one or waits there
    /// any longer; and if it is news, this sentinel is asked first: others may be behind, as it may be otherwise.
    pub(super) fn follow(&self, at: usize, primary: &Address, is_news: bool) {
        if is_news {
            self.first.store(at, Ordering::Relaxed);
            // The answer to a question asked just now may be of before.
            let _unchanged = self.primary.read().unwrap_or_else(PoisonError::into_inner);
            self.news.fetch_add(1, Ordering::Release);
        }
        if let Some(believed) = self.believed()
            && believed.address != *primary
        {
            self.doubt(&believed);
            believed.leave();
        }
    }

    pub(super) fn has_answered(&self) -> bool {
        !self.known.is_empty()
    }

    /// The primary as far as we know, if there is no doubt.
    pub(super) fn believed(&self) -> Option<Arc<Server>> {
        self.primary.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Arc::clone)
    }

    /// The sentinels, beginning with the one that answered last.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = (usize, &Address)> {
        let first = self.first.load(Ordering::Relaxed) % self.addresses.len().max(1);
        self.addresses.iter().enumerate().cycle().skip(first).take(self.addresses.len())
    }

    fn keep_watch(self: &Arc<Self>, dialer: &Arc<Dialer>) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.as_ref().is_none_or(AbortHandle::is_finished) {
            let watching = sentinel_watch::watch(Arc::downgrade(self), Arc::clone(dialer));
            // Without a thread it would hear of a failover at the next call only, and after that.
            *watch = spawn_steady(watching).ok();
        }
    }

    async fn ask(self: &Arc<Self>, dialer: &Arc<Dialer>, deadline: Instant) -> Result<Arc<Server>, Trouble> {
        loop {
            let known_news = self.news.load(Ordering::Acquire);
            let found = self.ask_in_turn(dialer, deadline).await?;
            let mut primary = self.primary.write().unwrap_or_else(PoisonError::into_inner);
            if self.news.load(Ordering::Acquire) == known_news {
                *primary = Some(Arc::clone(&found));
                let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(Arc::clone(&found));
                if last.is_some_and(|last| !Arc::ptr_eq(&last, &found)) {
                    found.takes_over();
                }
                return Ok(found);
            }
        }
    }

    async fn ask_in_turn(self: &Arc<Self>, dialer: &Arc<Dialer>, deadline: Instant) -> Result<Arc<Server>, Trouble> {
        let question = |(at, address): (usize, Address)| {
            let (sentinels, dialer) = (Arc::clone(self), Arc::clone(dialer));
            async move {
                let found = sentinels.ask_one(&address, &dialer, deadline).await?.ok_or_else(|| {
                    Trouble::no_connection(Error::new(
                        ErrorKind::Unreachable,
                        format!("the sentinel {address} knows no master named '{}'", sentinels.master_name),
                    ))
                })?;
                Ok((at, found))
            }
        };
        let candidates = self.in_turn().map(|(at, address)| (at, address.clone())).collect();
        let (at, found) = ask_around::first_answer(candidates, &self.first, question).await.map_err(|trouble| {
            trouble.unwrap_or_else(|| Trouble::refused(Error::invalid("the server's URL names no sentinel")))
        })?;
        self.first.store(at, Ordering::Relaxed);
        let server = self.known.at(found);
        // Who still waits on another one would not be woken.
        self.known.all().iter().filter(|other| !Arc::ptr_eq(other, &server)).for_each(|other| other.leave());
        Ok(server)
    }

    pub(super) async fn ask_one(
        &self,
        address: &Address,
        dialer: &Dialer,
        deadline: Instant,
    ) -> Result<Option<Address>, Trouble> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&self.master_name);
        let until = dialer.ready_before(deadline);
        let link = dialer.link(address, Purpose::AskSentinel, until).await.map_err(own_password)?;
        let answer = link.send(Request::Plain(&question), false, Patience::until(until)).await?;
        let Ok((host, port)) = redis::from_redis_value::<(String, u16)>(answer) else {
            return Ok(None);
        };
        Ok(Address::from_parts(&host, port, address))
    }
}

/// Sentinels have passwords of their own, which are easily taken for that of the server.
fn own_password(trouble: Trouble) -> Trouble {
    if trouble.error.kind() != ErrorKind::AuthenticationFailed {
        return trouble;
    }
    let said = trouble.error.adding(
        "this is a sentinel: its own password goes behind the URL, ?sentinel_password=..., with a user \
         ?sentinel_user=...&sentinel_password=...",
    );
    Trouble { error: Box::new(said), ..trouble }
}
