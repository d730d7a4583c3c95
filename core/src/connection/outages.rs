//! A client's notes of outages, for the sake of leases: those that end while the server is away are, most of them, of workers that
//! live and could not renew them. For some seconds after an outage a `reserve` spares them, and workers that live settle or renew.
//!
//! By slot, because in a cluster one server may be away while the others are not, and another one may come in its place. What is noted at
//! one slot holds for all that are the same server's then.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::trouble::Away;

/// How long after an outage leases are spared. A worker that tries again is back within three seconds: an attempt lasts two at the
/// most, if the call is not a large one, and the pause before it 0.75.
const SPARED_FOR: Duration = Duration::from_secs(5);
/// So many outages in a row, each begun while leases were spared for the one before. Then a reserve must reclaim first: a line that
/// breaks every few seconds must not keep the jobs of dead workers for ever.
const MOST_IN_A_ROW: u32 = 4;
/// With more slots than this, those that spare nothing are forgotten.
const MANY_SLOTS: usize = 64;

#[derive(Default)]
pub(super) struct Outages {
    /// Is anything known? Says under the lock of `of_slots` whether that is empty, so that calls do without the lock.
    some: AtomicBool,
    of_slots: Mutex<HashMap<u16, Outage>>,
}

#[derive(Clone, Copy)]
struct Outage {
    /// No call was answered since.
    is_on: bool,
    /// The server refuses what writes: only the answer to a call that has written is the end.
    refuses_writes: bool,
    /// Once it is over: until when leases are spared.
    until: Instant,
    in_a_row: u32,
    /// Leases were spared, and none reclaimed since.
    has_spared: bool,
}

impl Outage {
    fn spares(self, now: Instant) -> bool {
        self.in_a_row <= MOST_IN_A_ROW && (self.is_on || now < self.until)
    }
}

impl Outages {
    /// Is anything known? If not, a call needs neither the clock nor the lock.
    pub(super) fn any(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    /// At which slot is noted what holds for this one: the same server's may be noted at another one, and what is over less matters.
    pub(super) fn noted_at(&self, slot: u16, now: Instant, is_together: impl Fn(u16) -> bool) -> u16 {
        let slots = self.lock();
        let noted = slots.iter().filter(|&(&noted, _)| noted == slot || is_together(noted));
        let best = noted.max_by_key(|&(&noted, outage)| (outage.spares(now), noted == slot, Reverse(noted)));
        best.map_or(slot, |(&noted, _)| noted)
    }

    /// An attempt got no answer, or the server does nothing for now, or nothing that writes.
    pub(super) fn failed(&self, slot: u16, away: Away, now: Instant) {
        let mut slots = self.lock();
        let outage = begun(&mut slots, slot, now);
        if !outage.is_on {
            let follows = if now < outage.until { outage.in_a_row + 1 } else { MOST_IN_A_ROW + 1 };
            outage.in_a_row = if outage.has_spared { follows } else { 1 };
            outage.is_on = true;
        }
        outage.refuses_writes |= away == Away::ForWrites;
        self.some.store(true, Ordering::Release);
    }

    /// A new connection has found a server that has just started again. An outage that is known already is this one.
    pub(super) fn was_away(&self, slot: u16, now: Instant) {
        begun(&mut self.lock(), slot, now);
        self.some.store(true, Ordering::Release);
    }

    /// A call was answered. `spared`: of a reserve, whether it spared leases; `has_written`: surely.
    pub(super) fn answered(&self, slot: u16, spared: Option<bool>, has_written: bool, now: Instant) {
        if !self.any() {
            return;
        }
        let mut slots = self.lock();
        let Some(outage) = slots.get_mut(&slot) else { return };
        if outage.is_on && (has_written || !outage.refuses_writes) {
            (outage.is_on, outage.refuses_writes) = (false, false);
            outage.until = now + SPARED_FOR;
        }
        // One that began to reclaim before this outage was known is no reason to forget it.
        let is_past = !outage.spares(now) && (spared == Some(false) || !outage.has_spared);
        if is_past {
            slots.remove(&slot);
            self.some.store(!slots.is_empty(), Ordering::Release);
        }
    }

    /// Is a reserve that is sent now to spare leases that are over?
    pub(super) fn spares(&self, slot: u16, now: Instant) -> bool {
        if !self.any() {
            return false;
        }
        let mut slots = self.lock();
        let Some(outage) = slots.get_mut(&slot).filter(|outage| outage.spares(now)) else { return false };
        outage.has_spared = true;
        true
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Outage>> {
        self.of_slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is noted at this slot, from now on if nothing was.
fn begun(slots: &mut HashMap<u16, Outage>, slot: u16, now: Instant) -> &mut Outage {
    if slots.len() >= MANY_SLOTS && !slots.contains_key(&slot) {
        slots.retain(|_, outage| outage.spares(now));
    }
    let begins = Outage { is_on: true, refuses_writes: false, until: now, in_a_row: 1, has_spared: false };
    slots.entry(slot).or_insert(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A reserve that is answered.
    fn reserve(outages: &Outages, now: Instant) -> bool {
        let spares = outages.spares(0, now);
        outages.answered(0, Some(spares), false, now);
        spares
    }

    #[test]
    fn leases_are_spared_from_an_outage_until_some_seconds_after_its_end() {
        let (outages, start) = (Outages::default(), Instant::now());
        assert!(!reserve(&outages, start));
        outages.failed(0, Away::ForAll, start);
        outages.failed(0, Away::ForAll, start + 20 * SECOND);
        assert!(outages.spares(0, start + 30 * SECOND), "the attempt that is the first to be answered");
        assert!(!outages.spares(1, start + 30 * SECOND), "another slot");
        outages.answered(1, None, false, start + 30 * SECOND);
        outages.answered(0, None, false, start + 30 * SECOND);
        assert!(reserve(&outages, start + 34 * SECOND));
        outages.answered(0, Some(false), false, start + 34 * SECOND);
        assert!(reserve(&outages, start + 34 * SECOND), "one that was on its way before is no end of it");
        assert!(!reserve(&outages, start + 35 * SECOND));
        assert!(!outages.any(), "nothing is left of it");
    }

    #[test]
    fn who_reads_from_a_server_that_refuses_writes_does_not_take_that_for_the_end() {
        let (outages, start) = (Outages::default(), Instant::now());
        for seconds in 0..60 {
            let now = start + seconds * SECOND;
            outages.failed(0, if seconds % 2 == 0 { Away::ForWrites } else { Away::ForAll }, now);
            outages.answered(0, Some(false), false, now);
            outages.answered(0, None, false, now);
            assert!(outages.spares(0, now + SECOND / 2), "{seconds}");
        }
        let end = start + 60 * SECOND;
        outages.answered(0, Some(true), true, end);
        assert!(outages.spares(0, end + 4 * SECOND));
        assert!(!reserve(&outages, end + 5 * SECOND));
    }

    #[test]
    fn a_client_that_does_not_reserve_forgets_an_outage() {
        let (outages, start) = (Outages::default(), Instant::now());
        outages.failed(0, Away::ForAll, start);
        outages.answered(0, None, false, start);
        assert!(outages.any());
        outages.answered(0, None, false, start + SPARED_FOR);
        assert!(!outages.any());
    }

    #[test]
    fn a_line_that_breaks_while_leases_are_spared_keeps_nobody_from_reclaiming_for_ever() {
        let (outages, start) = (Outages::default(), Instant::now());
        let spared: Vec<_> = (0..40)
            .map(|half_seconds| {
                let now = start + half_seconds * SECOND * 2;
                outages.failed(0, Away::ForAll, now);
                reserve(&outages, now + SECOND)
            })
            .collect();
        let reclaimed = spared.iter().filter(|spared| !**spared).count();
        assert_eq!(reclaimed, 8, "each fifth: {spared:?}");
    }

    #[test]
    fn who_reserves_once_a_minute_over_a_line_that_breaks_meanwhile_reclaims_every_other_time() {
        let (outages, start) = (Outages::default(), Instant::now());
        for minute in 0..6 {
            let now = start + minute * 60 * SECOND;
            // The first attempt finds the line dead.
            let _ = outages.spares(0, now);
            outages.failed(0, Away::ForAll, now);
            assert_eq!(reserve(&outages, now + SECOND), minute % 2 == 0, "{minute}");
        }
    }

    #[test]
    fn an_outage_while_nothing_was_reserved_since_the_last_one_counts_like_the_first() {
        let (outages, start) = (Outages::default(), Instant::now());
        outages.failed(0, Away::ForAll, start);
        outages.answered(0, None, false, start + SECOND);
        outages.failed(0, Away::ForAll, start + 3 * SECOND);
        outages.failed(0, Away::ForAll, start + 3600 * SECOND);
        assert!(reserve(&outages, start + 3601 * SECOND));
    }

    #[test]
    fn what_is_noted_of_a_server_holds_for_a_slot_with_an_outage_of_its_own_that_is_over() {
        let (outages, start) = (Outages::default(), Instant::now());
        let noted_at = |slot, now| outages.noted_at(slot, now, |noted| [7, 8, 9].contains(&noted));
        assert_eq!(noted_at(8, start), 8);
        for slot in [7, 9, 1] {
            outages.failed(slot, Away::ForAll, start);
            outages.answered(slot, None, false, start);
        }
        assert_eq!([7, 8, 9].map(|slot| noted_at(slot, start)), [7, 7, 9]);
        let later = start + SPARED_FOR;
        assert_eq!([7, 8, 9].map(|slot| noted_at(slot, later)), [7, 7, 9]);
        outages.failed(9, Away::ForAll, later);
        assert_eq!([7, 8, 9].map(|slot| noted_at(slot, later)), [9, 9, 9]);
    }

    #[test]
    fn many_calls_that_find_a_server_just_back_count_as_one_outage() {
        let (outages, start) = (Outages::default(), Instant::now());
        for _ in 0..20 {
            outages.was_away(0, start);
            assert!(reserve(&outages, start));
        }
        assert!(reserve(&outages, start + 4 * SECOND));
        assert!(!reserve(&outages, start + 5 * SECOND));
    }

    #[test]
    fn slots_that_spare_nothing_are_forgotten() {
        let (outages, start) = (Outages::default(), Instant::now());
        for slot in 0..200 {
            let now = start + u32::from(slot) * SPARED_FOR;
            outages.failed(slot, Away::ForAll, now);
            outages.answered(slot, None, false, now);
        }
        assert!(outages.lock().len() <= MANY_SLOTS);
    }
}
