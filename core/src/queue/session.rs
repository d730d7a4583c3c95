//! Numbers a client's calls, so that a call sent twice is executed once (`lua/lib/call/once.lua` keeps the other half).
//!
//! Each call in flight has a slot of its own; a slot's next call has a higher number and so confirms that the answer of the
//! one before was received. The server keeps one answer a slot: as many as this client ever had calls in flight.
//!
//! A call that ended without an answer may still arrive. The next call to the same queue says so, by slot and number, and the
//! server executes what was given up no more: a newer call always wins, whichever slot it uses.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::script::{MemoryRenewal, Numbering};
use crate::value::error::{Error, ErrorKind};

/// The server forgets a client's answers so long after they were last renewed.
const REMEMBERED: Duration = Duration::from_secs(1200);
/// A client renews them this often.
const RENEW_EVERY: Duration = Duration::from_secs(300);
/// For so long after that, a server which does not remember the client has lost its data. (Or its clock was set forward; so much less than
/// it remembers, that a small step changes nothing.)
const KNOWN: Duration = Duration::from_secs(600);
/// With more queues than this, those that need no memory are forgotten.
const MANY_QUEUES: usize = 64;

/// Who we are to the server, and which slots are free.
#[derive(Debug)]
pub(crate) struct Session {
    client: String,
    slots: Mutex<Slots>,
}

#[derive(Debug)]
struct Slots {
    free: Vec<usize>,
    used: usize,
    next_number: u64,
    queues: HashMap<String, OfQueue>,
    forget_at: usize,
}

#[derive(Debug, Default)]
struct OfQueue {
    renewed: Option<Instant>,
    /// The first number behind the answer with which the server began to remember this client.
    known_from: u64,
    /// Calls that ended without an answer, of each slot the last: a copy may still come.
    given_up: BTreeMap<usize, u64>,
    last_given_up: Option<Instant>,
}

/// The slot and number of one call, given back when dropped.
#[derive(Debug)]
pub(crate) struct CallNumber<'a> {
    session: &'a Session,
    queue: &'a str,
    pub(crate) slot: usize,
    pub(crate) number: u64,
    pub(crate) renewal: MemoryRenewal,
    /// Must the server remember this client?
    is_known: AtomicBool,
    answered: AtomicBool,
}

impl Session {
    /// A session that no other has: 128 random bits. A forked child makes its own.
    pub(crate) fn new() -> Result<Self, Error> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("the system gives no random bytes: {error}")))?;
        let client = format!("{:032x}", u128::from_ne_bytes(random));
        let slots = Slots { free: Vec::new(), used: 0, next_number: 1, queues: HashMap::new(), forget_at: MANY_QUEUES };
        Ok(Self { client, slots: Mutex::new(slots) })
    }

    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// A number for a call to this queue. `renews` is run if the call has the server remember this client for longer: one does so before
    /// the first answer, and then every few minutes. No session may be asked there.
    pub(crate) fn next_call<'a>(&'a self, queue: &'a str, renews: impl FnOnce()) -> CallNumber<'a> {
        let mut slots = self.lock();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.used += 1;
            slots.used - 1
        });
        // Numbered under the lock, so that a slot's numbers rise.
        let number = slots.next_number;
        slots.next_number += 1;
        let (renewal, is_known) = match slots.queues.get(queue) {
            Some(known) if known.is_kept() => (MemoryRenewal::No, true),
            known => {
                renews();
                known.map_or((MemoryRenewal::Asked(Vec::new()), false), |known| known.renewal(slot))
            }
        };
        let is_known = AtomicBool::new(is_known);
        CallNumber { session: self, queue, slot, number, renewal, is_known, answered: AtomicBool::new(false) }
    }

    /// The next call to this queue renews.
    pub(crate) fn renew_next(&self, queue: &str) {
        if let Some(known) = self.lock().queues.get_mut(queue) {
            known.renewed = None;
        }
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn of_queue(&mut self, queue: &str) -> &mut OfQueue {
        if !self.queues.contains_key(queue) && self.queues.len() >= self.forget_at {
            self.queues.retain(|_, known| known.is_needed());
            self.forget_at = MANY_QUEUES.max(2 * self.queues.len());
        }
        self.queues.entry(queue.to_owned()).or_default()
    }
}

impl OfQueue {
    /// What the next call says if it renews, and whether the server must remember this client. What was given up in its own slot is superseded by its
    /// number.
    fn renewal(&self, slot: usize) -> (MemoryRenewal, bool) {
        let others = self.given_up.iter().filter(|(other, _)| **other != slot).map(|(&s, &n)| (s, n)).collect();
        (MemoryRenewal::Asked(others), self.renewed.is_some_and(|at| at.elapsed() <= KNOWN))
    }

    /// Does the server know all that it should?
    fn is_kept(&self) -> bool {
        self.given_up.is_empty() && self.is_renewed()
    }

    fn is_renewed(&self) -> bool {
        self.renewed.is_some_and(|at| at.elapsed() <= RENEW_EVERY)
    }

    /// A copy that comes later than the server's memory lasts is not ours to stop.
    fn is_needed(&self) -> bool {
        self.is_renewed() || self.last_given_up.is_some_and(|at| at.elapsed() <= REMEMBERED)
    }
}

impl CallNumber<'_> {
    /// As the scripts take it.
    pub(crate) fn numbering(&self) -> Numbering<'_> {
        let Self { session, slot, number, renewal, is_known, .. } = self;
        Numbering {
            client: session.client(),
            slot: *slot,
            number: *number,
            renewal,
            is_known: is_known.load(Ordering::Relaxed),
        }
    }

    /// The server does not remember this client, as it should: the call says so from now on. True for the first call that
    /// hears of it.
    pub(crate) fn was_forgotten(&self) -> bool {
        self.is_known.store(false, Ordering::Relaxed);
        let mut slots = self.session.lock();
        let known = slots.of_queue(self.queue);
        // One that was made before the server began to remember again is late with its news.
        self.number >= known.known_from && known.renewed.take().is_some()
    }

    /// The server has executed the call, and keeps its answer if it asked for that.
    pub(crate) fn was_answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
        let MemoryRenewal::Asked(closed) = &self.renewal else { return };
        let mut slots = self.session.lock();
        let next_number = slots.next_number;
        let known = slots.of_queue(self.queue);
        if known.renewed.is_none() {
            known.known_from = next_number;
        }
        known.renewed = Some(Instant::now());
        // A later call in one of these slots may have been given up meanwhile.
        known.given_up.retain(|slot, number| {
            let is_over = closed.contains(&(*slot, *number)) || (*slot == self.slot && *number < self.number);
            !is_over
        });
        if known.given_up.is_empty() {
            known.last_given_up = None;
        }
    }
}

impl Drop for CallNumber<'_> {
    fn drop(&mut self) {
        let mut slots = self.session.lock();
        if !self.answered.load(Ordering::Relaxed) {
            let known = slots.of_queue(self.queue);
            known.given_up.insert(self.slot, self.number);
            known.last_given_up = Some(Instant::now());
        }
        slots.free.push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_forgotten_hears_of_it_once() {
        let session = session();
        assert!(!session.next_call("new", || {}).numbering().is_known);
        let (first, second, late) =
            (session.next_call("q", || {}), session.next_call("q", || {}), session.next_call("q", || {}));
        assert!(first.numbering().is_known);
        assert!(first.was_forgotten());
        assert!(!first.numbering().is_known, "it says so when it is sent again");
        assert!(!second.was_forgotten());
        assert!(!session.next_call("q", || {}).numbering().is_known);
        answered(session.next_call("other", || {}));
        answered(session.next_call("q", || {}));
        let next = session.next_call("q", || {});
        assert!(next.numbering().is_known);
        assert!(!late.was_forgotten(), "that was said");
        assert!(session.next_call("q", || {}).numbering().is_known, "and since then the server remembers");
        assert!(next.was_forgotten());
    }

    fn asked(call: &CallNumber<'_>) -> Option<Vec<(usize, u64)>> {
        match &call.renewal {
            MemoryRenewal::No => None,
            MemoryRenewal::Asked(closed) => Some(closed.clone()),
        }
    }

    fn answered(call: CallNumber<'_>) {
        call.was_answered();
        drop(call);
    }

    /// One whose calls renew nothing at first.
    fn session() -> Session {
        let session = Session::new().unwrap();
        answered(session.next_call("q", || {}));
        answered(session.next_call("other", || {}));
        session
    }

    #[test]
    fn calls_in_flight_have_slots_of_their_own_and_rising_numbers() {
        let session = Session::new().unwrap();
        let first = session.next_call("q", || {});
        let second = session.next_call("q", || {});
        assert_ne!(first.slot, second.slot);
        let (slot, number) = (first.slot, second.number);
        drop(first);
        let third = session.next_call("q", || {});
        assert_eq!(third.slot, slot);
        assert!(third.number > number);
    }

    #[test]
    fn answers_are_renewed_until_one_was_kept() {
        let session = Session::new().unwrap();
        let (first, second) = (session.next_call("q", || {}), session.next_call("q", || {}));
        assert!(asked(&first).is_some() && asked(&second).is_some());
        answered(first);
        answered(second);
        assert_eq!(asked(&session.next_call("q", || {})), None);
        assert!(asked(&session.next_call("other", || {})).is_some());
    }

    #[test]
    fn the_next_call_to_the_queue_says_what_was_given_up_until_one_is_answered() {
        let session = session();
        let (busy, first) = (session.next_call("q", || {}), session.next_call("q", || {}));
        let lost = (first.slot, first.number);
        drop(first);
        answered(busy);
        // The slot that was given back last is the other one.
        let second = session.next_call("q", || {});
        assert_ne!(second.slot, lost.0);
        assert_eq!(asked(&second), Some(vec![lost]));
        // Not answered yet, so one that begins meanwhile says so too; in the slot itself its number does.
        let third = session.next_call("q", || {});
        assert_eq!((third.slot, asked(&third)), (lost.0, Some(Vec::new())));
        let fourth = session.next_call("q", || {});
        assert_eq!(asked(&fourth), Some(vec![lost]));
        answered(second);
        assert_eq!(asked(&session.next_call("q", || {})), None);
        drop(fourth);
        assert!(asked(&session.next_call("q", || {})).is_some());
    }

    #[test]
    fn a_call_given_up_is_remembered_for_its_queue_whatever_goes_to_another() {
        let session = session();
        let first = session.next_call("q", || {});
        let lost = (first.slot, first.number);
        drop(first);
        let other = session.next_call("other", || {});
        assert_eq!((other.slot, asked(&other)), (lost.0, None));
        let next = session.next_call("q", || {});
        assert_eq!(asked(&next), Some(vec![lost]));
        answered(other);
        answered(next);
        assert_eq!(asked(&session.next_call("q", || {})), None);
    }

    #[test]
    fn a_call_given_up_in_the_slot_meanwhile_is_not_forgotten() {
        let session = session();
        let (a, b) = (session.next_call("q", || {}), session.next_call("q", || {}));
        let slot = b.slot;
        drop(b);
        let again = session.next_call("q", || {});
        assert_eq!(again.slot, slot);
        let closing = session.next_call("q", || {});
        assert_eq!(asked(&closing).map(|closed| closed.len()), Some(1));
        let lost = (again.slot, again.number);
        drop(again);
        answered(closing);
        answered(a);
        let next = session.next_call("q", || {});
        assert!(next.slot == slot || asked(&next) == Some(vec![lost]), "{next:?}");
        assert!(asked(&next).is_some());
    }

    #[test]
    fn queues_that_need_no_memory_are_forgotten() {
        let session = Session::new().unwrap();
        drop(session.next_call("lost", || {}));
        for queue in 0..10 * MANY_QUEUES {
            answered(session.next_call(&format!("q{queue}"), || {}));
            let long_ago = Instant::now().checked_sub(2 * RENEW_EVERY);
            for (name, known) in &mut session.lock().queues {
                if name != "lost" {
                    known.renewed = long_ago;
                }
            }
        }
        assert!(session.lock().queues.len() <= MANY_QUEUES);
        assert!(session.lock().queues.contains_key("lost"));
    }
}
