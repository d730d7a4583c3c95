//! What is chosen, how rows are sorted, and what is asked: the screen without a terminal.

use duly::WorkerInfo;

use super::reading::Reading;
use super::row::{COLUMNS, Row};

/// A key that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Interrupt,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    SortNext,
    SortBefore,
    Other,
    Pause,
    Yes,
    /// Any other one: it says no.
    Else,
}

/// What a key makes the command do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Quit,
    Interrupt,
    SetPaused(Change),
}

/// A queue that is paused, or resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) partitions: u16,
    pub(super) is_pause: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Focus {
    #[default]
    Queues,
    Workers,
}

/// What the last line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    Said(String),
    Failed(String),
}

/// The server is away.
#[derive(Debug, Clone)]
pub(super) struct Outage {
    /// A time of day.
    pub(super) since: String,
    pub(super) error: String,
}

#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) rows: Vec<Row>,
    pub(super) workers: Vec<WorkerInfo>,
    /// When they were read; nothing until then.
    pub(super) read_at: Option<String>,
    /// An index of `COLUMNS`.
    pub(super) sorted_by: usize,
    pub(super) focus: Focus,
    chosen: Option<(String, u16)>,
    pub(super) chosen_worker: usize,
    pub(super) asked: Option<Change>,
    pub(super) notice: Option<Notice>,
    pub(super) outage: Option<Outage>,
    /// How many rows a page has, as they were drawn.
    pub(super) page: usize,
}

impl View {
    /// Shows what was read. `now`: the time of day.
    pub(super) fn show(&mut self, mut reading: Reading, now: String) {
        reading.compare_with(&self.rows);
        self.rows = reading.rows;
        self.workers = reading.workers;
        self.read_at = Some(now);
        self.outage = None;
        self.chosen_worker = self.chosen_worker.min(self.workers.len().saturating_sub(1));
        self.sort();
    }

    pub(super) fn is_away(&mut self, error: String, now: String) {
        let since = self.outage.take().map_or(now, |outage| outage.since);
        self.outage = Some(Outage { since, error });
    }

    fn sort(&mut self) {
        let column = &COLUMNS[self.sorted_by];
        self.rows.sort_by(|one, other| column.order(one, other));
    }

    /// The chosen row stays chosen wherever it goes. One that is gone gives way to the first.
    pub(super) fn chosen_row(&self) -> Option<usize> {
        let known = self.chosen.as_ref().and_then(|id| self.rows.iter().position(|row| row.id() == *id));
        known.or_else(|| (!self.rows.is_empty()).then_some(0))
    }

    pub(super) fn press(&mut self, key: Key) -> Act {
        if key == Key::Interrupt {
            return Act::Interrupt;
        }
        if let Some(change) = self.asked.take() {
            return if key == Key::Yes { Act::SetPaused(change) } else { Act::Nothing };
        }
        self.notice = None;
        match key {
            Key::Quit => return Act::Quit,
            Key::Pause => self.ask(),
            Key::SortNext => self.sort_by_next(1),
            Key::SortBefore => self.sort_by_next(COLUMNS.len() - 1),
            Key::Other => {
                self.focus = if self.focus == Focus::Queues { Focus::Workers } else { Focus::Queues };
            }
            key => self.go(key),
        }
        Act::Nothing
    }

    fn ask(&mut self) {
        let Some(row) = self.chosen_row().map(|index| &self.rows[index]) else { return };
        let Ok(numbers) = &row.numbers else { return };
        let (name, partitions) = row.id();
        // By the row that was seen, whatever is above it by then.
        self.chosen = Some(row.id());
        self.asked = Some(Change { name, partitions, is_pause: numbers.paused_parts == 0 });
    }

    fn sort_by_next(&mut self, step: usize) {
        loop {
            self.sorted_by = (self.sorted_by + step) % COLUMNS.len();
            if COLUMNS[self.sorted_by].sorts() {
                break;
            }
        }
        self.sort();
    }

    fn go(&mut self, key: Key) {
        let (at, count) = match self.focus {
            Focus::Queues => (self.chosen_row().unwrap_or(0), self.rows.len()),
            Focus::Workers => (self.chosen_worker, self.workers.len()),
        };
        let at = match key {
            Key::Up => at.saturating_sub(1),
            Key::Down => at + 1,
            Key::PageUp => at.saturating_sub(self.page.max(1)),
            Key::PageDown => at + self.page.max(1),
            Key::First => 0,
            Key::Last => usize::MAX,
            _ => return,
        };
        let at = at.min(count.saturating_sub(1));
        match self.focus {
            Focus::Queues => self.chosen = self.rows.get(at).map(Row::id),
            Focus::Workers => self.chosen_worker = at,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::row::tests::row;
    use super::*;

    pub(in super::super) fn view(queues: &[(&str, u64)]) -> View {
        let rows = queues.iter().map(|(name, ready)| row(name, *ready)).collect();
        View { rows, page: 2, read_at: Some("08:00:00".to_owned()), ..View::default() }
    }

    fn chosen(view: &View) -> &str {
        view.chosen_row().map_or("", |index| &view.rows[index].name)
    }

    #[test]
    fn the_chosen_queue_stays_chosen_wherever_it_goes() {
        let mut view = view(&[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(chosen(&view), "a");
        view.press(Key::Down);
        assert_eq!(chosen(&view), "b");
        view.press(Key::SortNext);
        assert_eq!((view.rows[0].name.as_str(), chosen(&view)), ("c", "b"));
        view.press(Key::Last);
        assert_eq!(chosen(&view), "a");
        view.press(Key::Down);
        assert_eq!(chosen(&view), "a", "there is nothing below it");
        view.press(Key::PageUp);
        assert_eq!(chosen(&view), "c");
        view.rows.remove(0);
        assert_eq!(chosen(&view), "b", "it is gone");
        view.rows.clear();
        view.press(Key::Down);
        assert_eq!(chosen(&view), "");
    }

    #[test]
    fn a_queue_is_paused_after_a_yes_and_nothing_else() {
        let mut view = view(&[("a", 1), ("b", 2)]);
        assert_eq!(view.press(Key::Yes), Act::Nothing);
        for no in [Key::Else, Key::Quit, Key::Pause, Key::Down] {
            view.press(Key::Pause);
            assert_eq!(view.asked.as_ref().map(|change| change.name.as_str()), Some("a"));
            assert_eq!((view.press(no), view.asked.is_none()), (Act::Nothing, true), "{no:?}");
        }
        view.press(Key::Pause);
        // Another queue takes its line meanwhile.
        view.rows.insert(0, row("0", 0));
        let change = Change { name: "a".to_owned(), partitions: 0, is_pause: true };
        assert_eq!(view.press(Key::Yes), Act::SetPaused(change));
        view.press(Key::Pause);
        assert_eq!(view.press(Key::Interrupt), Act::Interrupt);
    }

    #[test]
    fn all_columns_with_an_order_come_round() {
        let mut view = view(&[("a", 1)]);
        let mut seen = Vec::new();
        for _ in 1..COLUMNS.len() {
            seen.push(COLUMNS[view.sorted_by].heading);
            view.press(Key::SortNext);
        }
        assert_eq!((view.sorted_by, seen.len(), seen.contains(&"STATE")), (0, 11, false));
        view.press(Key::SortBefore);
        assert_eq!(COLUMNS[view.sorted_by].heading, " WORKERS");
    }

    #[test]
    fn an_outage_lasts_from_its_first_error() {
        let mut view = view(&[]);
        view.is_away("one".to_owned(), "08:00:01".to_owned());
        view.is_away("two".to_owned(), "08:00:05".to_owned());
        let outage = view.outage.as_ref().unwrap();
        assert_eq!((outage.since.as_str(), outage.error.as_str()), ("08:00:01", "two"));
    }
}
