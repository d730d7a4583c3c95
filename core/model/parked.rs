//! Ready jobs that the limits of their names hold back.

use super::state::State;

/// How many turns the parked jobs of one name and level have: the first one is in the middle.
const TURNS: u64 = 1 << 42;

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

impl State {
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
    pub(super) fn put_back(&mut self, id: &str, level: u8, number: Option<u64>) {
        match number.filter(|&number| !self.parked_of(number, level).is_empty()) {
            Some(number) => {
                let turn = -self.next_turn();
                self.parked.insert(id.to_owned(), Parked { number, level, turn });
            }
            None => self.put_at_head(level, id),
        }
    }
}
