//! A queue as it is shown: its numbers, its rates, and the columns of both.

use std::cmp::Ordering;

use duly::{Counts, Millis};
use tokio::time::Instant;

use crate::show::{number, or_dash, paused, printable, span};

/// What is shown of a queue's counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbers {
    pub(super) delayed: u64,
    pub(super) ready: u64,
    pub(super) reserved: u64,
    pub(super) failed: u64,
    oldest: Option<Millis>,
    overdue: Option<Millis>,
    /// How many of its parts are.
    pub(super) paused_parts: u16,
    is_held: bool,
    totals: Totals,
}

/// What became of jobs since the queue was first used.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    pushed: u64,
    done: u64,
    failed: u64,
}

impl Numbers {
    pub(super) fn of(counts: &Counts) -> Self {
        Self {
            delayed: counts.delayed,
            ready: counts.ready,
            reserved: counts.reserved,
            failed: counts.failed,
            oldest: counts.oldest_ready_age,
            overdue: counts.overdue,
            paused_parts: counts.paused_parts,
            is_held: counts.held.is_some(),
            totals: Totals {
                pushed: counts.total("pushed"),
                done: counts.total("acked"),
                failed: counts.total("failed"),
            },
        }
    }
}

/// Jobs in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) pushed: f64,
    pub(super) done: f64,
    pub(super) failed: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: String,
    /// 0 for a queue that has none.
    pub(super) partitions: u16,
    /// Or why they cannot be read.
    pub(super) numbers: Result<Numbers, String>,
    pub(super) workers: usize,
    /// Nothing until it was read twice.
    pub(super) rates: Option<Rates>,
    pub(super) at: Instant,
}

impl Row {
    /// Two queues may have one name.
    pub(super) fn id(&self) -> (String, u16) {
        (self.name.clone(), self.partitions)
    }

    /// Nothing if the queue was removed meanwhile: its totals begin anew.
    pub(super) fn since(&self, before: &Self) -> Option<Rates> {
        let (now, then) = (self.numbers.as_ref().ok()?.totals, before.numbers.as_ref().ok()?.totals);
        let seconds = self.at.checked_duration_since(before.at)?.as_secs_f64();
        let rate = |now: u64, then: u64| Some(number(now.checked_sub(then)?) / seconds.max(0.001));
        Some(Rates {
            pushed: rate(now.pushed, then.pushed)?,
            done: rate(now.done, then.done)?,
            failed: rate(now.failed, then.failed)?,
        })
    }

    fn of(&self, number_of: fn(&Numbers) -> u64) -> Option<u64> {
        self.numbers.as_ref().ok().map(number_of)
    }

    /// What holds its jobs up.
    fn state(&self) -> String {
        let numbers = match &self.numbers {
            Ok(numbers) => numbers,
            Err(error) => return error.clone(),
        };
        let waits = numbers.ready + numbers.reserved > 0 || numbers.overdue.is_some();
        let all = [(numbers.is_held, "held back"), (waits && self.workers == 0, "no worker")];
        let others = all.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| (*word).to_owned());
        paused(numbers.paused_parts, self.partitions).into_iter().chain(others).collect::<Vec<_>>().join(", ")
    }
}

/// A column of the table.
pub(super) struct Column {
    /// Of a number, it begins with a space.
    pub(super) heading: &'static str,
    pub(super) width: u16,
    /// Where there is no room, the greatest ones are left out first.
    rank: u8,
    shows: Shows,
}

/// What a column shows of a queue.
enum Shows {
    Name,
    Jobs(fn(&Row) -> Option<u64>),
    Span(fn(&Numbers) -> Option<Millis>),
    Rate(fn(&Rates) -> f64),
    State,
}

const fn column(heading: &'static str, width: u16, rank: u8, shows: Shows) -> Column {
    Column { heading, width, rank, shows }
}

pub(super) const COLUMNS: [Column; 12] = [
    column("QUEUE", 12, 0, Shows::Name),
    column(" READY", 9, 2, Shows::Jobs(|row| row.of(|numbers| numbers.ready))),
    column(" RESERVED", 9, 3, Shows::Jobs(|row| row.of(|numbers| numbers.reserved))),
    column(" DELAYED", 9, 4, Shows::Jobs(|row| row.of(|numbers| numbers.delayed))),
    column(" FAILED", 9, 5, Shows::Jobs(|row| row.of(|numbers| numbers.failed))),
    column(" OLDEST", 8, 8, Shows::Span(|numbers| numbers.oldest)),
    column(" OVERDUE", 8, 9, Shows::Span(|numbers| numbers.overdue)),
    column(" PUSHED/S", 9, 10, Shows::Rate(|rates| rates.pushed)),
    column(" DONE/S", 8, 7, Shows::Rate(|rates| rates.done)),
    column(" FAILED/S", 9, 11, Shows::Rate(|rates| rates.failed)),
    column(" WORKERS", 8, 6, Shows::Jobs(|row| row.numbers.as_ref().ok().map(|_| row.workers as u64))),
    column("STATE", 18, 1, Shows::State),
];

impl Column {
    pub(super) fn is_number(&self) -> bool {
        self.heading.starts_with(' ')
    }

    /// Can rows be sorted by it?
    pub(super) fn sorts(&self) -> bool {
        !matches!(self.shows, Shows::State)
    }

    pub(super) fn cell(&self, row: &Row) -> String {
        match self.shows {
            Shows::Name => printable(&row.name),
            Shows::Jobs(of) => or_dash(of(row).map(|count| count.to_string())),
            Shows::Span(of) => or_dash(row.numbers.as_ref().ok().and_then(of).map(span)),
            Shows::Rate(of) => or_dash(row.rates.as_ref().map(|rates| written(of(rates)))),
            Shows::State => row.state(),
        }
    }

    fn value(&self, row: &Row) -> Option<f64> {
        match self.shows {
            Shows::Jobs(of) => of(row).map(number),
            Shows::Span(of) => row.numbers.as_ref().ok().and_then(of).map(Millis::as_seconds),
            Shows::Rate(of) => row.rates.as_ref().map(of),
            Shows::Name | Shows::State => None,
        }
    }

    /// The greatest number first, then by name.
    pub(super) fn order(&self, one: &Row, other: &Row) -> Ordering {
        let value = |row| self.value(row).unwrap_or(-1.0);
        value(other).total_cmp(&value(one)).then_with(|| one.id().cmp(&other.id()))
    }
}

/// The columns that a terminal of this width has room for.
pub(super) fn fitting(width: u16) -> Vec<&'static Column> {
    const GAP: u16 = 1;
    let mut columns: Vec<_> = COLUMNS.iter().collect();
    let is_too_wide =
        |columns: &[&Column]| columns.iter().map(|column| column.width + GAP).sum::<u16>() > width.saturating_add(GAP);
    while columns.len() > 1 && is_too_wide(&columns) {
        let last = columns.iter().map(|column| column.rank).max();
        columns.retain(|column| Some(column.rank) != last);
    }
    columns
}

/// Small rates have a digit behind the point.
pub(super) fn written(rate: f64) -> String {
    if rate > 0.0 && rate < 9.95 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;

    pub(in super::super) fn row(name: &str, ready: u64) -> Row {
        let numbers = Numbers { ready, ..Numbers::default() };
        Row { name: name.to_owned(), partitions: 0, numbers: Ok(numbers), workers: 1, rates: None, at: Instant::now() }
    }

    fn with_totals(pushed: u64, done: u64, at: Instant) -> Row {
        let totals = Totals { pushed, done, failed: 0 };
        Row { numbers: Ok(Numbers { totals, ..Numbers::default() }), at, ..row("q", 0) }
    }

    #[test]
    fn rates_are_what_changed_in_the_time_between() {
        let then = Instant::now();
        let (before, now) = (with_totals(10, 5, then), with_totals(30, 6, then + Duration::from_secs(4)));
        assert_eq!(now.since(&before), Some(Rates { pushed: 5.0, done: 0.25, failed: 0.0 }));
        assert_eq!(before.since(&now), None, "the queue was removed meanwhile");
        let unreadable = Row { numbers: Err("no".to_owned()), ..row("q", 0) };
        assert_eq!(now.since(&unreadable), None);
        assert_eq!([0.0, 0.25, 9.94, 12.4, 1234.5].map(written), ["0", "0.2", "9.9", "12", "1234"]);
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns() {
        let headings = |width| fitting(width).iter().map(|column| column.heading.trim()).collect::<Vec<_>>();
        assert_eq!(headings(200).len(), COLUMNS.len());
        let narrow = ["QUEUE", "READY", "RESERVED", "DELAYED", "FAILED", "WORKERS", "STATE"];
        assert_eq!(headings(80), narrow);
        assert_eq!(headings(1), ["QUEUE"]);
    }

    #[test]
    fn what_holds_jobs_up_is_said() {
        let mut waits = row("q", 1);
        assert_eq!(waits.state(), "");
        waits.workers = 0;
        assert_eq!(waits.state(), "no worker");
        waits.numbers = Ok(Numbers { ready: 1, paused_parts: 1, is_held: true, ..Numbers::default() });
        assert_eq!(waits.state(), "paused, held back, no worker");
        waits.partitions = 4;
        assert_eq!(waits.state(), "paused in 1 of 4 partitions, held back, no worker");
        waits.numbers = Err("foreign".to_owned());
        let cells: Vec<_> = COLUMNS.iter().map(|column| column.cell(&waits)).collect();
        assert_eq!((cells[0].as_str(), cells[1].as_str(), cells[11].as_str()), ("q", "-", "foreign"));
    }

    #[test]
    fn the_greatest_is_first() {
        let mut rows = vec![row("b", 1), row("a", 1), Row { numbers: Err(String::new()), ..row("d", 9) }, row("c", 7)];
        let names = |rows: &[Row]| rows.iter().map(|row| row.name.clone()).collect::<String>();
        rows.sort_by(|one, other| COLUMNS[0].order(one, other));
        assert_eq!(names(&rows), "abcd");
        rows.sort_by(|one, other| COLUMNS[1].order(one, other));
        assert_eq!(names(&rows), "cabd");
    }
}
