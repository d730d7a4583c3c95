//! Limits of job names.

use std::collections::BTreeMap;

use super::state::State;

/// The places of a name's order in which jobs are parked: they begin in the middle.
const TURNS: u64 = 1 << 42;
/// The most numbers that names can have.
const MOST_NUMBERS: u64 = 200;
/// How many of the jobs that run when a limit is set are counted.
const MOST_COUNTED: usize = 1000;

/// At most so many jobs of this name at once; `most` 0: the limit was taken away, but not all of its jobs are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameLimit {
    pub(super) number: u64,
    pub(super) most: u64,
    pub(super) name: String,
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
        let line = |limit: &NameLimit| format!("{};{};{}", limit.number, limit.most, limit.name);
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
        if let Some(limit) = limits.find(|limit| Some(limit.number) == number && limit.most > 0) {
            let number = limit.number;
            self.places.insert(id.to_owned(), number);
        }
    }

    pub(super) fn places_of(&self, number: u64) -> u64 {
        self.places.values().filter(|&&place| place == number).count() as u64
    }

    pub(super) fn rooms(&self) -> Rooms {
        let room = |limit: &NameLimit| match limit.most {
            0 => u64::MAX,
            most => most.saturating_sub(self.places_of(limit.number)),
        };
        self.known_names().iter().map(|limit| (limit.number, room(limit))).collect()
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
                limits.into_iter().filter(|limit| limit.most > 0 || is_used(limit.number)).collect()
            }
            Names::Lost => (1..=MOST_NUMBERS)
                .filter(|&number| is_used(number))
                .map(|number| NameLimit { number, most: 0, name: String::new() })
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
    pub(super) fn limit_names(&mut self, wanted: &[(String, u64)], note: impl FnOnce(&mut Self)) -> bool {
        let found = self.names();
        if found.is_none() && wanted.is_empty() {
            note(self);
            return true;
        }
        let mut limits = match found.and_then(|names| self.live(names)) {
            Some(Names::Known(limits)) => limits,
            _ => Vec::new(),
        };
        let most_of = |name: &String| wanted.iter().find(|(wanted, _)| wanted == name).map(|(_, most)| *most);
        let mut is_new = false;
        for limit in &mut limits {
            let most = most_of(&limit.name).unwrap_or(0);
            is_new |= limit.most == 0 && most > 0;
            limit.most = most;
        }
        for (name, most) in wanted {
            if limits.iter().all(|limit| &limit.name != name) {
                let number = (1..=limits.len() as u64 + 1)
                    .find(|number| limits.iter().all(|limit| limit.number != *number))
                    .unwrap();
                limits.push(NameLimit { number, most: *most, name: name.clone() });
                is_new = true;
            }
        }
        if limits.iter().any(|limit| limit.number > MOST_NUMBERS) {
            return false;
        }
        let live = self.live(Names::Known(limits));
        note(self);
        self.write_names(live);
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
