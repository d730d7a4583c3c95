//! How long to wait before the next attempt.

use std::time::Duration;

use crate::process::host;

const SHORTEST: Duration = Duration::from_millis(50);
/// So that who waits for a server goes on within a second of its return.
const LONGEST: Duration = Duration::from_millis(750);

/// The one policy by which anything is tried again: connections, calls, waits, and the loops of workers around them. A server
/// that says no at once would else be asked tens of thousands of times a second.
///
/// Waits grow from 50 ms to 750 ms with full jitter: after an outage the clients of one server must not come back
/// together. (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.)
#[derive(Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Goes on where others have failed so often.
    pub(super) fn after(attempts: u32) -> Self {
        Self { attempts }
    }

    pub(super) fn next(&mut self) -> Duration {
        let ceiling = SHORTEST.saturating_mul(1 << self.attempts.min(10)).min(LONGEST);
        self.attempts = self.attempts.saturating_add(1);
        ceiling.mul_f64(host::random_fraction())
    }

    pub(crate) async fn rest(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}
