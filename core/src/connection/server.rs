//! One server: its shared link for verbs, and its spare ones for calls that need a connection to themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::address::Address;
use super::breaker::Breaker;
use super::link::{Dialer, Link, Purpose};
use super::single_flight::SingleFlight;
use super::spares::Spares;
use super::trouble::Trouble;
use super::wake_line::{Waited, WakeLine};

/// One server and the connections to it.
pub(super) struct Server {
    pub(super) address: Address,
    pub(super) breaker: Arc<Breaker>,
    link: RwLock<Option<Arc<Link>>>,
    /// It has come in the place of another one, and was not called since.
    has_taken_over: AtomicBool,
    dialing: SingleFlight,
    spare_links: Spares<Link>,
    idle_lines: Spares<WakeLine>,
    /// Wakes those that wait here: perhaps nobody else does any more.
    pub(super) left: Arc<Notify>,
}

impl Server {
    pub(super) fn new(address: Address) -> Arc<Self> {
        Arc::new(Self {
            address,
            breaker: Arc::default(),
            link: RwLock::default(),
            has_taken_over: AtomicBool::new(false),
            dialing: SingleFlight::default(),
            spare_links: Spares::default(),
            idle_lines: Spares::default(),
            left: Arc::default(),
        })
    }

    /// The shared link if it is up.
    pub(super) fn open_link(&self) -> Option<Arc<Link>> {
        let link = self.link.read().unwrap_or_else(PoisonError::into_inner);
        link.as_ref().filter(|link| !link.has_ended()).map(Arc::clone)
    }

    /// It has come in the place of another one, which may have been away before that.
    pub(super) fn takes_over(&self) {
        self.has_taken_over.store(true, Ordering::Release);
    }

    /// May it have been away, or the one before it, and no call have noticed that? Not if the shared link is up. Said once of each time
    /// that it takes over.
    pub(super) fn may_have_been_away(&self) -> bool {
        let link = self.link.read().unwrap_or_else(PoisonError::into_inner);
        self.has_taken_over.swap(false, Ordering::AcqRel) || link.as_ref().is_some_and(|link| link.has_ended())
    }

    /// The shared link, dialed if need be; of many callers only one dials.
    pub(super) async fn shared_link(
        self: &Arc<Self>,
        dialer: &Arc<Dialer>,
        deadline: Instant,
    ) -> Result<Arc<Link>, Trouble> {
        if let Some(link) = self.open_link() {
            return Ok(link);
        }
        // On the heap: dialing is rare and its future large, and this one is moved about on every call.
        Box::pin(self.dial_shared(dialer, deadline)).await
    }

    async fn dial_shared(self: &Arc<Self>, dialer: &Arc<Dialer>, deadline: Instant) -> Result<Arc<Link>, Trouble> {
        let (server, dialer) = (Arc::clone(self), Arc::clone(dialer));
        let dial = async move {
            let link = Arc::new(dialer.link(&server.address, Purpose::Verbs, deadline).await?);
            *server.link.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&link));
            Ok(link)
        };
        let server = Arc::clone(self);
        self.dialing.run(deadline, move || server.open_link(), dial).await
    }

    /// Forgets this link, unless another caller has already put a newer one in its place. The other connections are likely
    /// broken too, and one that only waits would not notice before somebody closes it.
    pub(super) fn discard(&self, broken: &Arc<Link>) {
        let mut link = self.link.write().unwrap_or_else(PoisonError::into_inner);
        if link.as_ref().is_some_and(|current| Arc::ptr_eq(current, broken)) {
            *link = None;
            drop(link);
            self.leave_lines();
        }
    }

    /// A link that nobody else uses; give it back with [`Server::keep_spare`] if it is still good.
    pub(super) async fn spare_link(&self, dialer: &Dialer, deadline: Instant) -> Result<Link, Trouble> {
        self.spare_links.retain(|link| !link.has_ended());
        match self.spare_links.take(|_| false) {
            Some(link) => Ok(link),
            None => Box::pin(dialer.link(&self.address, Purpose::Verbs, deadline)).await,
        }
    }

    pub(super) fn keep_spare(&self, link: Link) {
        self.spare_links.keep(link);
    }

    /// After one spare link broke, the others are likely broken too.
    pub(super) fn drop_spares(&self) {
        self.spare_links.clear();
    }

    /// Closes the connections, calls under way aside.
    pub(super) fn leave(&self) {
        *self.link.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.leave_lines();
    }

    fn leave_lines(&self) {
        self.drop_spares();
        self.idle_lines.clear();
        self.left.notify_waiters();
    }

    /// An idle line, best one that waited for the same.
    pub(super) fn take_line(&self, waited: Waited<'_>) -> Option<WakeLine> {
        self.idle_lines.take(|line| line.owes(waited))
    }

    pub(super) fn keep_line(&self, line: WakeLine) {
        self.idle_lines.keep(line);
    }
}
