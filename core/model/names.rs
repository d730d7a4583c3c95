//! Limits of job names.

use std::collections::BTreeMap;

use super::limits::Limits;
use super::rate::{self, Rate};
use super::state::State;

/// The places of a name's order in which jobs are parked: they begin in the middle.
const TURNS: u64 = 1 << 42;
/// The most numbers that names can have.
const MOST_NUMBERS: u64 = 200;
/// How many of the jobs that run when a limit is set are counted.
const MOST_COUNTED: usize = 1000;

/// The limits of a name; none: they were taken away, but not all of its jobs are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameLimit {
    pub(super) number: u64,
    pub(super) limits: Limits,
    pub(super) name: String,
}

/// As a name has them: without a rate its zeros are left out.
pub(super) fn text(limits: Limits) -> String {
    match limits {
        Limits { concurrency, jobs: 0, .. } => concurrency.to_string(),
        Limits { concurrency, jobs, per_us } => format!("{concurrency}:{jobs}:{per_us}"),
    }
}

/// What a queue knows of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Names {
    Known(Vec<NameLimit>),
    /// `meta` was lost with them.
    Lost,
}

impl Names {
    pub(super) fn text(&self) -> String {
        let line = |limit: &NameLimit| format!("{};{};{}", limit.number, text(limit.limits), limit.name);
        match self {
            Self::Known(limits) => limits.iter().map(line).collect::<Vec<_>>().join("\n"),
            Self::Lost => "?".to_owned(),
        }
    }
}

/// A ready job that its name's limit keeps out of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parked {
    pub(super) number: u64,
    pub(super) level: u8,
    pub(super) turn: i64,
}

impl Parked {
    pub(super) fn score(self) -> u64 {
        let first = (self.number * 10 + u64::from(self.level)) * TURNS;
        (first + TURNS / 2).checked_add_signed(self.turn).unwrap()
    }
}

/// How many more jobs of each number may run.
pub(super) type Rooms = BTreeMap<u64, u64>;

impl State {
    /// The limits as a call finds them.
    pub(super) fn names(&self) -> Option<Names> {
        let is_lost = self.meta.levels.is_none() && !self.records.is_empty();
        self.meta.names.clone().or_else(|| is_lost.then_some(Names::Lost))
    }

    pub(super) fn known_names(&self) -> &[NameLimit] {
        match &self.meta.names {
            Some(Names::Known(limits)) => limits,
            _ => &[],
        }
    }

    /// The number of the job's name, if that has one.
    pub(super) fn number_of(&self, id: &str) -> Option<u64> {
        let name = self.records.get(id)?.name.as_ref()?;
        self.known_names().iter().find(|limit| &limit.name == name).map(|limit| limit.number)
    }

    /// Limits that were taken away give no places.
    pub(super) fn take_place(&mut self, id: &str) {
        let number = self.number_of(id);
        let mut limits = self.known_names().iter();
        if let Some(limit) = limits.find(|limit| Some(limit.number) == number && !limit.limits.is_none()) {
            let number = limit.number;
            self.places.insert(id.to_owned(), number);
        }
    }

    pub(super) fn places_of(&self, number: u64) -> u64 {
        self.places.values().filter(|&&place| place == number).count() as u64
    }

    pub(super) fn rooms(&self) -> Rooms {
        let starts = |limit: &NameLimit| self.name_rate(limit).map_or(u64::MAX, Rate::starts);
        let room = |limit: &NameLimit| self.places_left(limit).min(starts(limit));
        self.known_names().iter().map(|limit| (limit.number, room(limit))).collect()
    }

    fn places_left(&self, limit: &NameLimit) -> u64 {
        match limit.limits.concurrency {
            0 => u64::MAX,
            most => most.saturating_sub(self.places_of(limit.number)),
        }
    }

    fn name_rate(&self, limit: &NameLimit) -> Option<Rate> {
        limit.limits.rate(self.meta.name_rates.get(&limit.number).copied(), self.now_us())
    }

    /// The first microsecond at which the rate of a name lets a parked job start that has a place.
    pub(super) fn next_start_us(&self) -> Option<u64> {
        let is_parked = |limit: &NameLimit| self.parked.values().any(|parked| parked.number == limit.number);
        let waiting = self.known_names().iter().filter(|limit| self.places_left(limit) > 0 && is_parked(limit));
        let rates = waiting.filter_map(|limit| self.name_rate(limit));
        rates.filter(|rate| rate.starts() == 0).map(Rate::opens_us).min()
    }

    pub(super) fn name_rate_text(&self, number: u64) -> String {
        self.meta.name_rates.get(&number).map(|&at| rate::text(at)).unwrap_or_default()
    }

    /// So many jobs of each name start now.
    pub(super) fn charge_names(&mut self, ids: &[String]) {
        for limit in self.known_names().to_vec() {
            let started = ids.iter().filter(|id| self.number_of(id) == Some(limit.number)).count() as u64;
            if let Some(rate) = self.name_rate(&limit).filter(|_| started > 0) {
                self.meta.name_rates.insert(limit.number, rate.seen_after(started));
            }
        }
    }

    /// Each reserve writes down what is too late.
    pub(super) fn forget_other_name_rates(&mut self) {
        for limit in self.known_names().to_vec() {
            let seen = self.meta.name_rates.get(&limit.number).copied();
            let rate = self.name_rate(&limit);
            if let Some(corrected) = rate.zip(seen).and_then(|(rate, seen)| rate.corrected(seen)) {
                self.meta.name_rates.insert(limit.number, corrected);
            }
        }
    }

    /// The parked jobs of a name and level, the next one first.
    pub(super) fn parked_of(&self, number: u64, level: u8) -> Vec<String> {
        let mine = self.parked.iter().filter(|(_, parked)| (parked.number, parked.level) == (number, level));
        let mut mine: Vec<_> = mine.map(|(id, parked)| (parked.turn, id.clone())).collect();
        mine.sort();
        mine.into_iter().map(|(_, id)| id).collect()
    }

    pub(super) fn all_parked(&self) -> Vec<String> {
        let mut all: Vec<_> = self.parked.iter().map(|(id, parked)| (parked.score(), id.clone())).collect();
        all.sort();
        all.into_iter().map(|(_, id)| id).collect()
    }

    pub(super) fn is_some_takeable(&self) -> bool {
        let rooms = self.rooms();
        self.parked.values().any(|parked| rooms.get(&parked.number).is_some_and(|&room| room > 0))
    }

    fn next_turn(&mut self) -> i64 {
        let turn = self.meta.parked.unwrap_or(0) + 1;
        self.meta.parked = Some(turn);
        i64::try_from(turn).unwrap()
    }

    /// Behind the others of its name and level.
    pub(super) fn park(&mut self, id: &str, number: u64, level: u8) {
        let turn = self.next_turn();
        self.parked.insert(id.to_owned(), Parked { number, level, turn });
    }

    /// A job that comes back is older than what waits: to the head of its list, or before those of its name that are parked.
    pub(super) fn put_back(&mut self, id: &str, level: u8, place: Option<u64>) {
        match place.filter(|&number| !self.parked_of(number, level).is_empty()) {
            Some(number) => {
                let turn = -self.next_turn();
                self.parked.insert(id.to_owned(), Parked { number, level, turn });
            }
            None => self.put_at_head(level, id),
        }
    }

    /// What is left of limits without those that were taken away and have no job any more.
    fn live(&self, names: Names) -> Option<Names> {
        let parked: Vec<u64> = self.parked.values().map(|parked| parked.number).collect();
        let is_used = |number: u64| self.places_of(number) > 0 || parked.contains(&number);
        let live: Vec<_> = match names {
            Names::Known(limits) => {
                limits.into_iter().filter(|limit| !limit.limits.is_none() || is_used(limit.number)).collect()
            }
            Names::Lost => (1..=MOST_NUMBERS)
                .filter(|&number| is_used(number))
                .map(|number| NameLimit { number, limits: Limits::default(), name: String::new() })
                .collect(),
        };
        (!live.is_empty()).then_some(Names::Known(live))
    }

    fn write_names(&mut self, names: Option<Names>) {
        if names.is_none() {
            self.meta.parked = None;
        }
        self.meta.names = names;
    }

    /// Each reserve forgets the limits that are over.
    pub(super) fn forget_names(&mut self) {
        let Some(names) = self.names() else { return };
        let live = self.live(names);
        if live != self.meta.names {
            self.write_names(live);
        }
    }

    /// Sets limits of names; says whether there were numbers enough.
    pub(super) fn limit_names(&mut self, wanted: &[(String, Limits)], note: impl FnOnce(&mut Self)) -> bool {
        let found = self.names();
        if found.is_none() && wanted.is_empty() {
            note(self);
            return true;
        }
        let mut limits = match found.and_then(|names| self.live(names)) {
            Some(Names::Known(limits)) => limits,
            _ => Vec::new(),
        };
        let limits_of = |name: &String| wanted.iter().find(|(wanted, _)| wanted == name).map(|(_, limits)| *limits);
        let mut is_new = false;
        for limit in &mut limits {
            let limits = limits_of(&limit.name).unwrap_or_default();
            is_new |= limit.limits.is_none() && !limits.is_none();
            limit.limits = limits;
        }
        for (name, of_name) in wanted {
            if limits.iter().all(|limit| &limit.name != name) {
                let number = (1..=limits.len() as u64 + 1)
                    .find(|number| limits.iter().all(|limit| limit.number != *number))
                    .unwrap();
                limits.push(NameLimit { number, limits: *of_name, name: name.clone() });
                is_new = true;
            }
        }
        if limits.iter().any(|limit| limit.number > MOST_NUMBERS) {
            return false;
        }
        let live = self.live(Names::Known(limits));
        note(self);
        self.write_names(live);
        // What a rate has seen goes with it.
        let rated =
            |number: &u64, limits: &[NameLimit]| limits.iter().any(|l| l.number == *number && l.limits.jobs > 0);
        let limits = self.known_names().to_vec();
        self.meta.name_rates.retain(|number, _| rated(number, &limits));
        if is_new {
            let mut reserved: Vec<_> = self.leases.iter().map(|(id, lease)| (lease.ends, id.clone())).collect();
            reserved.sort();
            for (_, id) in reserved.into_iter().take(MOST_COUNTED) {
                self.take_place(&id);
            }
        }
        true
    }
}
