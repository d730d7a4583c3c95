use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::NewJob;

fn every(seconds: u64) -> Schedule {
    Schedule::every(Duration::from_secs(seconds), NewJob::new(&1).unwrap()).unwrap()
}

fn secs(seconds: &[u64]) -> Vec<Millis> {
    seconds.iter().copied().map(Millis::from_secs).collect()
}

/// In seconds: what fires, and what is next.
fn planned(schedule: &Schedule, slot: u64, left: Option<u64>, now: u64) -> Option<(Vec<Millis>, Option<Millis>)> {
    plan(schedule, "n", Millis::from_secs(slot), left, Millis::from_secs(now)).map(|plan| (plan.fires, plan.next))
}

#[test]
fn a_slot_fires_when_it_is_there_and_not_before() {
    let minute = every(60);
    assert_eq!(planned(&minute, 120, None, 119), None);
    assert_eq!(planned(&minute, 120, None, 120), Some((secs(&[120]), Some(Millis::from_secs(180)))));
}

#[test]
fn of_missed_slots_the_newest_fires_or_none_or_some() {
    let next = Some(Millis::from_secs(660));
    assert_eq!(planned(&every(60), 120, None, 630), Some((secs(&[600]), next)));
    let skip = every(60).catch_up(CatchUp::Skip).grace(Duration::from_secs(20));
    assert_eq!(planned(&skip, 120, None, 630), Some((vec![], next)));
    assert_eq!(planned(&skip, 120, None, 620), Some((secs(&[600]), next)));
    let all = every(60).catch_up(CatchUp::All(3));
    assert_eq!(planned(&all, 120, None, 630), Some((secs(&[480, 540, 600]), next)));
    assert_eq!(planned(&all, 540, None, 630), Some((secs(&[540, 600]), next)));
}

#[test]
fn a_count_ends_it() {
    let all = every(60).catch_up(CatchUp::All(100)).count(9);
    assert_eq!(planned(&all, 120, Some(2), 630), Some((secs(&[540, 600]), None)));
    assert_eq!(planned(&all, 120, Some(1), 120), Some((secs(&[120]), None)));
    assert_eq!(planned(&all, 120, Some(2), 120), Some((secs(&[120]), Some(Millis::from_secs(180)))));
}

#[test]
fn nothing_fires_behind_the_end() {
    let ends = every(60).until(Millis::from_secs(300));
    assert_eq!(planned(&ends, 240, None, 900), Some((secs(&[300]), None)));
    assert_eq!(every(60).start(Millis::from_secs(300)).next_after(Millis::ZERO), Some(Millis::from_secs(300)));
}

#[test]
fn a_year_of_missed_seconds_is_looked_at_in_no_time() {
    let year = 365 * 24 * 3600;
    let second = every(1).catch_up(CatchUp::All(100));
    let (fires, next) = planned(&second, 1, None, year).unwrap();
    assert_eq!((fires.len(), fires[99], next), (100, Millis::from_secs(year), Some(Millis::from_secs(year + 1))));
    let pattern = Schedule::cron("* * 3 * * *", NewJob::new(&1).unwrap()).unwrap();
    let (fires, _) = planned(&pattern, 3 * 3600, None, year).unwrap();
    assert_eq!(fires, secs(&[year - 20 * 3600 - 1]));
}

#[test]
fn a_schedule_that_ended_long_ago_is_looked_at_in_no_time() {
    let ended = Schedule::every(Duration::from_millis(100), NewJob::new(&1).unwrap()).unwrap();
    let ended = ended.until(Millis::from_secs(300_000_000));
    assert_eq!(planned(&ended, 1, None, 2_000_000_000), Some((secs(&[300_000_000]), None)));
}

/// Another version, with other time zones, has stored it.
#[test]
fn the_slot_that_is_stored_fires_though_it_is_none_here() {
    assert_eq!(planned(&every(60), 90, None, 100), Some((secs(&[90]), Some(Millis::from_secs(120)))));
}

proptest! {
    /// Whoever looks, and when: each slot fires once if nothing is missed for longer than is caught up.
    #[test]
    fn each_slot_fires_once_whenever_workers_look(
        every_s in 1_u64..100, jitter_s in 0_u64..200, steps in prop::collection::vec(1_u64..400, 1..60),
    ) {
        let schedule = every(every_s).jitter(Duration::from_secs(jitter_s)).catch_up(CatchUp::All(100));
        let (mut fired, mut slot, mut now) = (Vec::new(), schedule.next_after(Millis::ZERO).unwrap(), 0);
        for step in steps {
            now += step.min(every_s * 90);
            if let Some(plan) = plan(&schedule, "n", slot, None, Millis::from_secs(now)) {
                fired.extend(plan.fires);
                slot = plan.next.unwrap();
            }
            prop_assert!(schedule.fires_at("n", slot) > Millis::from_secs(now));
        }
        let expected: Vec<_> = (1..=fired.len() as u64).map(|number| Millis::from_secs(number * every_s)).collect();
        prop_assert_eq!(fired, expected);
    }
}

/// All its slots lie at the beginning of the time that is looked back: each second of a January.
#[test]
fn slots_of_long_ago_are_found_without_a_look_at_all_that_are_there() {
    let schedule = Schedule::cron("* * * * 1 *", NewJob::new(&1).unwrap()).unwrap().catch_up(CatchUp::All(3));
    let (first, last) = (1_577_836_800, 1_580_515_199);
    let steps = std::cell::Cell::new(0);
    let is_due = |_: Millis| {
        steps.set(steps.get() + 1);
        true
    };
    let (from, until) = (Some(Millis::from_secs(first)), Millis::from_secs(first + 300 * 86400));
    let slots: Vec<Millis> = newest_until(&schedule, &is_due, from, until, 3).into();
    assert_eq!(slots, secs(&[last - 2, last - 1, last]));
    assert!(steps.get() < 40 * MOST_STEPS, "{}", steps.get());
}

proptest! {
    #[test]
    fn any_look_finds_the_newest_that_are_due(seconds in 1_u64..5, count in 1_u64..6000, most in 1_usize..2500, now in 0_u64..30_000) {
        let schedule = every(seconds);
        let until = Millis::from_secs(now);
        let is_due = |slot: Millis| slot.get() <= seconds * count * 1000;
        let all = (1..).map(|at| Millis::from_secs(at * seconds)).take_while(|&slot| slot <= until && is_due(slot));
        let all: Vec<Millis> = all.collect();
        let found = newest_until(&schedule, &is_due, Some(Millis::from_secs(seconds)), until, most);
        prop_assert_eq!(found, &all[all.len().saturating_sub(most)..]);
    }
}
