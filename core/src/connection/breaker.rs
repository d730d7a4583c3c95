//! A circuit breaker: once a call has waited for its whole deadline in vain, the next ones fail at once, and one at a time
//! tries whether the server is back. (Michael Nygard, "Release It!", 2007.)
//!
//! It is for web requests, which must not each wait for an outage anew. Workers have none: they go on trying.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::value::error::{Error, ErrorKind};

/// The pause between two probes, from the end of one to the beginning of the next.
const REST: Duration = Duration::from_secs(1);
/// A probe of a server that does not even refuse takes the whole deadline of its caller: then the pause is so many times as
/// long, so that no process spends most of its time with probes, but no longer than this.
const REST_FOR_PROBE: u32 = 2;
const LONGEST_REST: Duration = Duration::from_secs(10);
/// So often a probe tries. More would only wait; fewer might end with the connection that broke when the server went away, or
/// with a primary that is none any more.
const ATTEMPTS_OF_PROBE: u32 = 3;

/// One server, or all that sentinels watch over, as the calls of one client know it.
pub(super) struct Breaker {
    made_at: Instant,
    /// When a call was answered last, in milliseconds since `made_at`, and one more; 0 for never.
    answered_at: AtomicU64,
    /// Says under the lock of `state` whether there is one.
    is_open: AtomicBool,
    state: Mutex<Option<Open>>,
}

/// The server does not answer.
struct Open {
    since: Instant,
    next_probe: Instant,
    is_probing: bool,
    error: Error,
}

/// The permission to make one call. Dropped without a word, it lets another call probe.
pub(super) struct Pass<'a> {
    breaker: &'a Breaker,
    began: Instant,
    is_probe: bool,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            made_at: Instant::now(),
            answered_at: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }
}

impl Breaker {
    /// Errors: `Unreachable` at once, while the server is away and it is not time for a probe.
    pub(super) fn admit(&self, began: Instant) -> Result<Pass<'_>, Error> {
        let mut is_probe = false;
        if self.is_open.load(Ordering::SeqCst)
            && let Some(open) = self.lock().as_mut()
        {
            if open.is_probing || began < open.next_probe {
                return Err(open.refusal(began));
            }
            open.is_probing = true;
            is_probe = true;
        }
        Ok(Pass { breaker: self, began, is_probe })
    }

    fn ms(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made_at).as_millis())
            .map_or(u64::MAX, |ms| ms.saturating_add(1))
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn refusal(&self, now: Instant) -> Error {
        let away = now.saturating_duration_since(self.since).as_secs_f64();
        let next = if self.is_probing {
            "another call probes just now".to_owned()
        } else {
            format!("next probe in {:.1} s", self.next_probe.saturating_duration_since(now).as_secs_f64())
        };
        Error::new(
            ErrorKind::Unreachable,
            format!(
                "the server has not answered for {away:.1} s, so this call was not sent (circuit breaker open, {next}): \
                 try again later, or set fail_fast to false"
            ),
        )
        .caused_by(self.error.clone())
    }
}

impl Pass<'_> {
    /// How often the call may try within its deadline.
    pub(super) fn attempts(&self) -> u32 {
        if self.is_probe { ATTEMPTS_OF_PROBE } else { u32::MAX }
    }

    pub(super) fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// The server said something: it is there.
    pub(super) fn answered(self, now: Instant) {
        // One order for this and the look: whoever opens the breaker at this moment sees the answer, or is seen here.
        self.breaker.answered_at.store(self.breaker.ms(now), Ordering::SeqCst);
        if self.breaker.is_open.load(Ordering::SeqCst) {
            let mut state = self.breaker.lock();
            state.take();
            self.breaker.is_open.store(false, Ordering::SeqCst);
        }
    }

    /// The whole deadline went by without an answer.
    pub(super) fn failed(mut self, error: &Error, now: Instant) {
        let took = now.saturating_duration_since(self.began);
        let next_probe = now + if self.is_probe { (took * REST_FOR_PROBE).clamp(REST, LONGEST_REST) } else { REST };
        let mut state = self.breaker.lock();
        // Said before it is asked whether there was an answer: an answer that comes now closes it again.
        self.breaker.is_open.store(true, Ordering::SeqCst);
        if !self.is_probe && self.breaker.answered_at.load(Ordering::SeqCst) > self.breaker.ms(self.began) {
            // Others were answered meanwhile: this call alone was too much.
            self.breaker.is_open.store(state.is_some(), Ordering::SeqCst);
            return;
        }
        match state.as_mut() {
            // Calls that began before the outage was known end behind one another; the first one's probe counts.
            Some(_) if !self.is_probe => {}
            Some(open) => {
                open.next_probe = next_probe;
                open.is_probing = false;
                open.error = error.clone();
            }
            None => {
                *state = Some(Open { since: self.began, next_probe, is_probing: false, error: error.clone() });
            }
        }
        drop(state);
        self.is_probe = false;
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe
            && let Some(open) = self.breaker.lock().as_mut()
        {
            open.is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Error {
        Error::new(ErrorKind::Timeout, "no answer")
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn behind_an_outage_calls_fail_at_once_and_one_at_a_time_probes() {
        let breaker = Breaker::default();
        let start = Instant::now();
        breaker.admit(start).unwrap().failed(&away(), start + 2 * SECOND);

        let refused = breaker.admit(start + 2 * SECOND).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Unreachable);
        let said = refused.to_string();
        assert!(said.contains("not answered for 2.0 s") && said.contains("next probe in 1.0 s"), "{said}");
        assert!(said.contains("(last: no answer)"), "{said}");

        let probe = breaker.admit(start + 3 * SECOND).unwrap();
        assert!(probe.is_probe() && probe.attempts() == ATTEMPTS_OF_PROBE);
        let beside = breaker.admit(start + 4 * SECOND).err().unwrap().to_string();
        assert!(beside.contains("another call probes"), "half open: {beside}");
        probe.failed(&away(), start + 5 * SECOND);
        assert!(breaker.admit(start + 8 * SECOND).is_err(), "a long probe is followed by a longer pause");

        drop(breaker.admit(start + 9 * SECOND).unwrap());
        let next = breaker.admit(start + 9 * SECOND).unwrap();
        assert!(next.is_probe(), "a probe that was given up lets another go");
        next.answered(start + 9 * SECOND);
        assert!(!breaker.admit(start + 9 * SECOND).unwrap().is_probe(), "closed");
    }

    #[test]
    fn a_call_that_alone_takes_too_long_is_no_outage() {
        let breaker = Breaker::default();
        let start = Instant::now();
        let slow = breaker.admit(start).unwrap();
        breaker.admit(start).unwrap().answered(start + SECOND);
        slow.failed(&away(), start + 2 * SECOND);
        assert!(!breaker.admit(start + 2 * SECOND).unwrap().is_probe());
    }

    #[test]
    fn calls_of_before_an_outage_do_not_put_off_the_probe() {
        let breaker = Breaker::default();
        let start = Instant::now();
        let (first, second) = (breaker.admit(start).unwrap(), breaker.admit(start).unwrap());
        first.failed(&away(), start + 2 * SECOND);
        second.failed(&away(), start + 3 * SECOND);
        assert!(breaker.admit(start + 3 * SECOND).unwrap().is_probe());
    }

    #[test]
    fn an_answer_and_a_failure_at_the_same_moment_leave_nothing_half_open() {
        for turn in 0..20_000 {
            let breaker = Breaker::default();
            let start = Instant::now();
            breaker.admit(start).unwrap().failed(&away(), start);
            let probe = breaker.admit(start + SECOND).unwrap();
            let both = std::sync::Barrier::new(2);
            let late = Pass { breaker: &breaker, began: start + SECOND, is_probe: false };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    both.wait();
                    probe.answered(start + 3 * SECOND);
                });
                both.wait();
                late.failed(&away(), start + 3 * SECOND);
            });
            assert!(!breaker.is_open.load(Ordering::SeqCst) && breaker.lock().is_none(), "turn {turn}");
        }
    }
}
