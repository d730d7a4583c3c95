//! A lock that is asked for.

use std::time::{Duration, Instant};

use super::held::Lock;
use super::owner::Owner;
use crate::connection::WaitedBy;
use crate::process::host;
use crate::script::{self, Declared, Digits, Key, LockReply};
use crate::value::error::{Error, ErrorKind};
use crate::value::time::{LONGEST_WAIT, Millis, whole_ms};

/// A waiter looks again after this long at the latest: a wake-up is a hint that can get lost.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// All who wait for a lock whose holder has died look within so long after its end.
const SPREAD: Duration = Duration::from_millis(20);
/// So often an answer may come too late to be of use.
const MOST_LATE: u32 = 3;

/// A call without an answer may have taken the lock, or take it yet: so it is given up when this is dropped in doubt.
pub(super) struct Asked {
    owner: Owner,
    ttl: Duration,
    is_in_doubt: bool,
}

impl Asked {
    pub(super) fn of(owner: Owner, ttl: Duration) -> Self {
        Self { owner, ttl, is_in_doubt: false }
    }

    /// If another one holds it when the wait is over, the server's time of then.
    pub(super) async fn take(mut self, wait: Duration) -> Result<Result<Lock, Millis>, Error> {
        let began = Instant::now();
        let until = began + wait.min(LONGEST_WAIT);
        let (mut waited, mut late) = (Duration::ZERO, 0);
        loop {
            let asked_at = Instant::now();
            match self.ask().await? {
                LockReply::Taken { token, now } if asked_at.elapsed() < self.ttl / 2 => {
                    let lock = Lock::begin(&self.owner, token, self.ttl, asked_at, waited, now)?;
                    self.is_in_doubt = false;
                    return Ok(Ok(lock));
                }
                LockReply::Held { now, .. } if Instant::now() >= until => return Ok(Err(now)),
                LockReply::Held { left, .. } => {
                    self.wait(left, until).await?;
                    waited = began.elapsed();
                    // What is left of the call before is not to take it for the next one.
                    self.owner = self.owner.renewed()?;
                }
                // It was taken, but its time is soon over; or that came to pass meanwhile.
                LockReply::Taken { .. } | LockReply::GivenUp if late == MOST_LATE => {
                    let message = "the server's answers take as long as the lock is to live: use a longer ttl";
                    return Err(Error::new(ErrorKind::Timeout, message));
                }
                LockReply::Taken { .. } => late += 1,
                LockReply::GivenUp => {
                    late += 1;
                    self.owner = self.owner.renewed()?;
                }
            }
        }
    }

    /// Takes it for its time to live, and nobody renews it; nothing if another one has it.
    pub(super) async fn claim(mut self) -> Result<Option<Owner>, Error> {
        let reply = self.ask().await?;
        self.is_in_doubt = false;
        Ok(matches!(reply, LockReply::Taken { .. }).then(|| self.owner.clone()))
    }

    async fn ask(&mut self) -> Result<LockReply, Error> {
        let was_in_doubt = std::mem::replace(&mut self.is_in_doubt, true);
        let ask = script::Lock { owner: self.owner.id.clone(), ttl_ms: whole_ms(self.ttl), again: Digits(0) };
        let reply = self.owner.part.run(ask.with([])).await;
        self.is_in_doubt = match &reply {
            Ok(reply) => matches!(reply, LockReply::Taken { .. }),
            // Of which nothing was executed; but an answer before it may have come too late.
            Err(error) => was_in_doubt || error.kind() != ErrorKind::Unreachable,
        };
        reply
    }

    /// Until it may be free. Where waiting is not possible just now, time alone ends it, and the call that follows says what is wrong.
    async fn wait(&self, left: Millis, until: Instant) -> Result<(), Error> {
        let part = &self.owner.part;
        let free = left.to_duration() + SPREAD.mul_f64(host::random_fraction());
        let pause = until.saturating_duration_since(Instant::now()).min(free).min(LOOK_AGAIN);
        let (slot, wake) = (part.shared.keys.slot(), part.shared.keys.spell(Key::LockWake));
        match part.client.wait_for_wakes("lock", slot, &[wake.as_bytes()], pause, None).await {
            Err(error) if part.client.waits_again(WaitedBy::Taking, &error) => tokio::time::sleep(pause).await,
            woken => _ = woken?,
        }
        Ok(())
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.is_in_doubt {
            self.owner.clone().leave(self.ttl);
        }
    }
}
