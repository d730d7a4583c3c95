//! A lock that is held.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::of_lock;
use super::owner::Owner;
use crate::process::id::id;
use crate::process::runtime::background;
use crate::script::{Declared, LockFlag, RenewLock};
use crate::value::error::{Error, ErrorKind};
use crate::value::time::{Millis, whole_ms};

/// A lock that is held, and renewed until it is [released](Self::release) or dropped.
///
/// Dropped, it is given up in the background; a process that ends before leaves it to the time to live. In a process that was forked
/// meanwhile it is not held: it is the parent's.
#[must_use = "a lock is given up when it is dropped"]
pub struct Lock {
    shared: Arc<LockShared>,
    waited: Duration,
    /// By the server's clock.
    taken_at: Millis,
}

struct LockShared {
    owner: Owner,
    token: u64,
    ttl: Duration,
    pid: u32,
    state: Mutex<State>,
    /// Wakes who waits for its end.
    ended: Notify,
}

#[derive(Clone, Copy)]
struct State {
    /// Before this moment nobody else has it, by the server's word.
    sure_until: Instant,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Lost,
    /// The call that releases it is on its way.
    Releasing,
    Released,
    /// It is to be given up in the background.
    Dropped,
}

impl Lock {
    /// Taken by a call that was made then.
    pub(super) fn begin(
        owner: &Owner,
        token: u64,
        ttl: Duration,
        asked_at: Instant,
        waited: Duration,
        taken_at: Millis,
    ) -> Result<Self, Error> {
        let state = Mutex::new(State { sure_until: asked_at + ttl, end: None });
        let shared = Arc::new(LockShared { owner: owner.clone(), token, ttl, pid: id(), state, ended: Notify::new() });
        background()?.spawn(Arc::clone(&shared).renew(asked_at));
        Ok(Self { shared, waited, taken_at })
    }

    /// It was waited for since then, or longer.
    pub(super) fn waited_since(mut self, since: Option<Millis>) -> Self {
        let waited = since.map_or(Duration::ZERO, |since| self.taken_at.saturating_sub(since).to_duration());
        self.waited = self.waited.max(waited);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// The fencing token: greater than that of each earlier holder of this lock. What the lock protects can refuse a smaller one.
    pub fn token(&self) -> u64 {
        self.shared.token
    }

    /// How long it was waited for: by this call; or by a job, since that first met it taken.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Is it ours, by what the server has said? False as soon as it may have ended there, also while the server does not answer.
    pub fn is_held(&self) -> bool {
        self.shared.pid == id() && self.shared.is_sure()
    }

    /// Ready when it is no longer held.
    pub async fn lost(&self) {
        let shared = &self.shared;
        while self.is_held() {
            let mut ended = std::pin::pin!(shared.ended.notified());
            ended.as_mut().enable();
            let state = *shared.lock();
            if state.end.is_some() {
                return;
            }
            _ = tokio::time::timeout_at(state.sure_until.into(), ended).await;
        }
    }

    /// Gives it up, and wakes one who waits for it. Gives whether it was held until now: if not, another one may have had it meanwhile.
    ///
    /// Errors: those of any call. It is then given up in the background, as it is if this future is dropped, also before it was polled.
    pub fn release(&self) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        // From here on, and not from the first poll: a task that is cancelled before never polls.
        let is_ours = self.shared.pid == id() && self.shared.end(End::Releasing);
        let releasing = is_ours.then(|| HandedOver(Arc::clone(&self.shared)));
        async move {
            let Some(HandedOver(shared)) = &releasing else { return Ok(false) };
            let given_up = shared.owner.give_up().await.map_err(|error| of_lock(error, shared.name()))?;
            shared.conclude(End::Released);
            Ok(given_up)
        }
    }

    /// Begins a block that it protects.
    ///
    /// Errors: `LeaseLost` if it is not held any more.
    #[doc(hidden)] // for the skins
    pub fn enter(&self) -> Result<(), Error> {
        if self.is_held() {
            return Ok(());
        }
        let message = "it was released or lost before, or is that of the process that forked this one: take it anew";
        Err(of_lock(Error::new(ErrorKind::LeaseLost, message), self.name()))
    }

    /// Releases it at the end of a block that it protects. That the server does not answer is no error: it is given up in the background.
    ///
    /// Errors: `LeaseLost` if it was lost before, and was not released in the block.
    #[doc(hidden)] // for the skins
    pub fn leave(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let is_over = self.shared.pid != id() || matches!(self.shared.lock().end, Some(End::Released | End::Releasing));
        let (shared, was_held) = (Arc::clone(&self.shared), self.is_held());
        let release = (!is_over).then(|| self.release());
        async move {
            let Some(release) = release else { return Ok(()) };
            match release.await {
                Ok(true) => Ok(()),
                Err(_) if was_held => Ok(()),
                Ok(false) | Err(_) => Err(of_lock(
                    Error::new(
                        ErrorKind::LeaseLost,
                        "it was lost before the block ended, and another one may have held it meanwhile: check what the block has \
                         done, or use a longer ttl",
                    ),
                    shared.name(),
                )),
            }
        }
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").field("name", &self.name()).field("token", &self.token()).finish_non_exhaustive()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.shared.pid == id() {
            self.shared.end(End::Dropped);
        } else {
            // In a child any mutex may be held for ever, by a thread of its parent: nothing of that is touched.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

/// A release that ends without an answer goes on in the background.
struct HandedOver(Arc<LockShared>);

impl Drop for HandedOver {
    fn drop(&mut self) {
        self.0.conclude(End::Dropped);
    }
}

impl LockShared {
    fn name(&self) -> &str {
        self.owner.part.name()
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_sure(&self) -> bool {
        let state = self.lock();
        state.end.is_none() && Instant::now() < state.sure_until
    }

    /// False if it has ended before.
    fn end(&self, end: End) -> bool {
        let mut state = self.lock();
        let is_new = state.end.is_none();
        state.end.get_or_insert(end);
        drop(state);
        self.ended.notify_waiters();
        is_new
    }

    /// What became of its release; the first word counts.
    fn conclude(&self, end: End) {
        let mut state = self.lock();
        if state.end == Some(End::Releasing) {
            state.end = Some(end);
        }
        drop(state);
        self.ended.notify_waiters();
    }

    /// Until its end; gives it up then, unless that was done.
    async fn renew(self: Arc<Self>, asked_at: Instant) {
        let every = self.ttl / 3;
        // From when it was asked for: a slow answer leaves less time.
        let mut next = asked_at + every;
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            let State { sure_until, end } = *self.lock();
            match end {
                None => {}
                Some(End::Releasing) => {
                    ended.await;
                    continue;
                }
                Some(End::Released) => return,
                // Who has lost it by silence may be its holder yet, by what the server knows.
                Some(End::Dropped | End::Lost) => return self.owner.give_up_beside(self.ttl).await,
            }
            let renewed = async {
                tokio::time::sleep_until(next.into()).await;
                next = Instant::now();
                let renew = RenewLock { owner: self.owner.id.clone(), ttl_ms: whole_ms(self.ttl) };
                // Whatever goes wrong, as long as the lock is surely ours.
                self.owner.beside.run(renew.with([]).keep_trying(&|_| true)).await
            };
            let is_renewed = tokio::select! {
                renewed = renewed => matches!(renewed, Ok(LockFlag(true))),
                () = tokio::time::sleep_until(sure_until.into()) => false,
                () = ended => continue,
            };
            if is_renewed {
                // It was asked for then.
                self.lock().sure_until = next + self.ttl;
                next += every;
            } else {
                self.end(End::Lost);
            }
        }
    }
}
