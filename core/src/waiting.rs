//! How a waiter spends its time when there is no job: until the next one is due if it promised to come back for it, else
//! until a wake-up, and never longer than a second, because wake-ups are hints that can get lost.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Every waiter looks again after this long at the latest, whatever it was told, and up to `SPREAD_MS` earlier, so that
/// waiters do not look all at once.
const LOOK_AGAIN_MS: u64 = 1200;
const SPREAD_MS: u64 = 400;

/// The state of one wait.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    until: Instant,
    /// The server time at which we promised to come back; 0 for no promise.
    promise: u64,
    over: bool,
}

impl Waiting {
    pub(crate) fn new(now: Instant, wait: Duration) -> Self {
        // Waits of years are cut to one, which no caller will tell apart.
        let until = now + wait.min(Duration::from_secs(365 * 24 * 3600));
        Self { until, promise: 0, over: wait.is_zero() }
    }

    pub(crate) fn left(&self) -> Duration {
        if self.over { Duration::ZERO } else { self.until.saturating_duration_since(Instant::now()) }
    }

    pub(crate) fn promise(&self) -> u64 {
        self.promise
    }

    /// The same for one last look, which gives up the promise.
    pub(crate) fn ended(&self) -> Self {
        Self { over: true, ..*self }
    }

    /// The server no longer counts on us.
    pub(crate) fn forget_promise(&mut self) {
        self.promise = 0;
    }

    /// How long to wait before looking again; nothing when the wait is over. The last look is made without promising
    /// anything, so that a promise still open goes to another waiter.
    pub(crate) fn pause(&mut self, next_in: Option<Duration>, promised: u64, paused: bool) -> Option<Duration> {
        if self.over {
            return None;
        }
        self.promise = promised;
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.over = true;
            return Some(Duration::ZERO);
        }
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        let look_again = Duration::from_millis(LOOK_AGAIN_MS - u64::from(nanos / 1000) % SPREAD_MS);
        let pause = match next_in {
            // Ours to take: no other waiter comes back for it.
            Some(next_in) if promised > 0 && !paused => next_in.min(look_again),
            _ => look_again,
        };
        Some(pause.min(left))
    }
}
