//! Numbers a client's calls, so that a call sent twice is executed once (`lua/lib/once.lua` keeps the other half).
//!
//! Each call in flight has a slot of its own; a slot's next call has a higher number and so confirms that the answer of the
//! one before was received. The server keeps one answer a slot: as many as this client ever had calls in flight.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

/// The server forgets a client's answers 20 minutes after they were last renewed; a client renews them this often.
const RENEW_EVERY: Duration = Duration::from_secs(300);

/// Who we are to the server, and which slots are free.
#[derive(Debug)]
pub(crate) struct Session {
    client: String,
    next_number: AtomicU64,
    free: Mutex<FreeSlots>,
    renewed: Mutex<HashMap<String, Instant>>,
}

#[derive(Debug, Default)]
struct FreeSlots {
    given_back: Vec<usize>,
    /// The last call of these got no answer: a copy of it may still come.
    doubtful: HashSet<usize>,
    used: usize,
}

/// The slot and number of one call, given back when dropped.
#[derive(Debug)]
pub(crate) struct CallNumber<'a> {
    session: &'a Session,
    pub(crate) slot: usize,
    pub(crate) number: u64,
    /// Renew the memory of this client's answers, and keep this one whatever it is.
    pub(crate) renew: bool,
    answered: Cell<bool>,
}

impl Session {
    /// A session that no other has: 128 random bits. A forked child makes its own.
    pub(crate) fn new() -> Result<Self, Error> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("the system gives no random bytes: {error}")))?;
        let client = format!("{:032x}", u128::from_ne_bytes(random));
        Ok(Self { client, next_number: AtomicU64::new(1), free: Mutex::default(), renewed: Mutex::default() })
    }

    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    pub(crate) fn next_call(&self, queue: &str) -> CallNumber<'_> {
        let mut free = lock(&self.free);
        let slot = free.given_back.pop().unwrap_or_else(|| {
            free.used += 1;
            free.used - 1
        });
        // Numbered under the lock, so that a slot's numbers rise.
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let doubtful = free.doubtful.remove(&slot);
        drop(free);
        let renew = doubtful || lock(&self.renewed).get(queue).is_none_or(|at| at.elapsed() > RENEW_EVERY);
        CallNumber { session: self, slot, number, renew, answered: Cell::new(false) }
    }

    /// The call has its answer.
    pub(crate) fn was_answered(call: &CallNumber<'_>) {
        call.answered.set(true);
    }

    /// The server has kept the answer of a call that asked to renew.
    pub(crate) fn was_kept(&self, queue: &str, call: &CallNumber<'_>) {
        if call.renew {
            lock(&self.renewed).insert(queue.to_owned(), Instant::now());
        }
    }
}

impl Drop for CallNumber<'_> {
    fn drop(&mut self) {
        let mut free = lock(&self.session.free);
        if !self.answered.get() {
            free.doubtful.insert(self.slot);
        }
        free.given_back.push(self.slot);
    }
}

/// Nothing that is done under these locks can panic, so a poisoned one is still whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_flight_have_slots_of_their_own_and_rising_numbers() {
        let session = Session::new().unwrap();
        let first = session.next_call("q");
        let second = session.next_call("q");
        assert_ne!(first.slot, second.slot);
        let (slot, number) = (first.slot, second.number);
        drop(first);
        let third = session.next_call("q");
        assert_eq!(third.slot, slot);
        assert!(third.number > number);
    }

    #[test]
    fn behind_a_call_without_an_answer_the_next_one_is_kept() {
        let session = Session::new().unwrap();
        let first = session.next_call("q");
        Session::was_answered(&first);
        session.was_kept("q", &first);
        drop(first);
        assert!(!session.next_call("q").renew, "dropped without an answer");
        let third = session.next_call("q");
        assert!(third.renew);
        Session::was_answered(&third);
        drop(third);
        assert!(!session.next_call("q").renew);
    }

    #[test]
    fn answers_are_renewed_until_one_was_kept() {
        let session = Session::new().unwrap();
        assert!(session.next_call("q").renew);
        let call = session.next_call("q");
        assert!(call.renew);
        session.was_kept("q", &call);
        assert!(!session.next_call("q").renew);
        assert!(session.next_call("other").renew);
    }
}
