//! Connections that nobody uses just now, kept for the next one who needs one alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// So many are kept however long nobody needs them.
const ALWAYS: usize = 4;
/// Those beyond go when nobody has needed them for so long. A waiter that waits again and again comes back within a second or so.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// How often it is looked for such.
const SWEEP: Duration = Duration::from_secs(1);

/// The connections of one kind to one server, as many as were in use lately.
pub(super) struct Spares<T>(Arc<Mutex<Kept<T>>>);

struct Kept<T> {
    /// With the moment at which each came back, the latest one last.
    idle: Vec<(T, Instant)>,
    has_sweeper: bool,
}

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Kept { idle: Vec::new(), has_sweeper: false })))
    }
}

impl<T: Send + 'static> Spares<T> {
    /// The one that fits best, else the one that came back last: so those that are too many grow old.
    pub(super) fn take(&self, mut fits: impl FnMut(&T) -> bool) -> Option<T> {
        let mut kept = lock(&self.0);
        let at =
            kept.idle.iter().position(|(connection, _)| fits(connection)).or_else(|| kept.idle.len().checked_sub(1))?;
        Some(kept.idle.remove(at).0)
    }

    /// Keeps it for the next one. Within a runtime: a task closes those that nobody needs.
    pub(super) fn keep(&self, connection: T) {
        let mut kept = lock(&self.0);
        kept.idle.push((connection, Instant::now()));
        if kept.idle.len() > ALWAYS && !kept.has_sweeper {
            kept.has_sweeper = true;
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }

    /// Forgets those that are no good.
    pub(super) fn retain(&self, mut is_good: impl FnMut(&T) -> bool) {
        lock(&self.0).idle.retain(|(connection, _)| is_good(connection));
    }

    pub(super) fn clear(&self) {
        let idle = std::mem::take(&mut lock(&self.0).idle);
        drop(idle); // behind the lock: closing takes system calls
    }
}

async fn sweep<T>(kept: Weak<Mutex<Kept<T>>>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(kept) = kept.upgrade() else { return };
        let mut kept = lock(&kept);
        let spare = kept.idle.len().saturating_sub(ALWAYS);
        let now = Instant::now();
        let old = kept.idle.iter().take(spare).take_while(|(_, since)| now - *since >= KEPT_FOR).count();
        let gone: Vec<_> = kept.idle.drain(..old).collect();
        let is_done = kept.idle.len() <= ALWAYS;
        kept.has_sweeper = !is_done;
        drop(kept);
        drop(gone);
        if is_done {
            return;
        }
    }
}

fn lock<T>(kept: &Mutex<Kept<T>>) -> MutexGuard<'_, Kept<T>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
