//! Which slots of a schedule fire now, and which one is next. Pure.

use std::collections::VecDeque;

use super::definition::Schedule;
use crate::value::recurrence::CatchUp;
use crate::value::time::Millis;

/// The first look back for missed slots; each further one looks back eight times as far.
const LOOK_BACK_MS: u64 = 60_000;

/// So many slots are looked at one after the other.
const MOST_STEPS: u32 = 1000;

/// What is to be done with a schedule that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The slots that fire, oldest first.
    pub(super) fires: Vec<Millis>,
    /// The newest slot that was looked at, whether it fires or not.
    pub(super) last: Millis,
    /// The next one; none if there never is one.
    pub(super) next: Option<Millis>,
}

/// `slot`: the one that was to come. `left`: how many may still fire. Nothing if it does not fire yet.
pub(super) fn plan(schedule: &Schedule, name: &str, slot: Millis, left: Option<u64>, now: Millis) -> Option<Plan> {
    let most = match schedule.catch_up {
        CatchUp::Latest | CatchUp::Skip => 1,
        CatchUp::All(most) => most as usize,
    };
    let most = left.map_or(most, |left| most.min(usize::try_from(left).unwrap_or(usize::MAX)));
    let due = newest(schedule, name, slot, now, most.max(1));
    let last = *due.back()?;
    let is_in_time =
        schedule.catch_up != CatchUp::Skip || now.saturating_sub(schedule.fires_at(name, last)) <= schedule.grace;
    let fires: Vec<Millis> = if is_in_time && most > 0 { due.into() } else { Vec::new() };
    let is_over = left.is_some_and(|left| fires.len() as u64 >= left);
    let next = if is_over { None } else { schedule.next_after(last) };
    Some(Plan { fires, last, next })
}

/// The newest slots that are due, at most so many and none before the first.
fn newest(schedule: &Schedule, name: &str, first: Millis, now: Millis, most: usize) -> VecDeque<Millis> {
    let end = schedule.until.map_or(now, |until| until.min(now));
    let mut back = LOOK_BACK_MS;
    loop {
        let from = end.get().saturating_sub(back).max(first.get());
        // What was stored counts, also where this program's time zones would not have it.
        let slot = if from == first.get() { Some(first) } else { schedule.next_after(Millis::new(from)) };
        let is_due = |slot: Millis| schedule.fires_at(name, slot) <= now;
        let slots = newest_until(schedule, &is_due, slot, now, most);
        if slots.len() == most || from == first.get() {
            return slots;
        }
        back = back.saturating_mul(8);
    }
}

/// The newest slots that are due, from this one until this moment, at most so many. If they are very many, the second half of the time is
/// looked at first: a pattern may have them all at its beginning, or at its end.
fn newest_until(
    schedule: &Schedule,
    is_due: &impl Fn(Millis) -> bool,
    mut slot: Option<Millis>,
    until: Millis,
    most: usize,
) -> VecDeque<Millis> {
    let mut slots = VecDeque::new();
    let mut steps = 0;
    while let Some(due) = slot.filter(|&slot| slot <= until && is_due(slot)) {
        if steps == MOST_STEPS {
            let middle = Millis::new(due.get() + (until.get() - due.get()) / 2);
            let mut newest = newest_until(schedule, is_due, schedule.next_after(middle), until, most);
            if newest.len() < most {
                slots.extend(newest_until(schedule, is_due, Some(due), middle, most - newest.len()));
            } else {
                slots.clear();
            }
            slots.append(&mut newest);
            slots.drain(..slots.len().saturating_sub(most));
            return slots;
        }
        if slots.len() == most {
            slots.pop_front();
        }
        slots.push_back(due);
        slot = schedule.next_after(due);
        steps += 1;
    }
    slots
}

#[cfg(test)]
mod tests;
