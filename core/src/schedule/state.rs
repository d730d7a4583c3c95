//! The state of a schedule, as it is stored beside its definition and as its readers see it.

use super::definition::Schedule;
use crate::value::error::Error;
use crate::value::recurrence::written;
use crate::value::time::Millis;

/// `<revision>;<next slot>;<paused>;<slots that fired>;<last slot>;<made>;<changed>;<owner>`, with nothing where there is no slot. The
/// scripts compare the first two; times are milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Another one after each change but that of a fire.
    pub(super) revision: u64,
    pub(super) next: Option<Millis>,
    pub(super) is_paused: bool,
    pub(super) fired: u64,
    pub(super) last: Option<Millis>,
    pub(super) made_at: Millis,
    pub(super) changed_at: Millis,
    pub(super) owner: String,
}

impl State {
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut fields = text.splitn(8, ';');
        let mut field = || fields.next();
        let slot = |text: &str| -> Option<Option<Millis>> {
            if text.is_empty() { Some(None) } else { text.parse().ok().map(|ms| Some(Millis::new(ms))) }
        };
        let state = Self {
            revision: field()?.parse().ok()?,
            next: slot(field()?)?,
            is_paused: field()? == "1",
            fired: field()?.parse().ok()?,
            last: slot(field()?)?,
            made_at: Millis::new(field()?.parse().ok()?),
            changed_at: Millis::new(field()?.parse().ok()?),
            owner: field()?.to_owned(),
        };
        // Numbers that this program writes otherwise: no call would find the state that it expects.
        text.starts_with(&state.expected()).then_some(state)
    }

    pub(super) fn written(&self) -> String {
        let slot = |slot: Option<Millis>| slot.map(|slot| slot.get().to_string()).unwrap_or_default();
        let Self { revision, next, is_paused, fired, last, made_at, changed_at, owner } = self;
        let (next, last, paused) = (slot(*next), slot(*last), u8::from(*is_paused));
        format!("{revision};{next};{paused};{fired};{last};{};{};{owner}", made_at.get(), changed_at.get())
    }

    /// What a script that changes the schedule compares with what is stored.
    pub(super) fn expected(&self) -> String {
        format!("{};{};", self.revision, self.next.map(|slot| slot.get().to_string()).unwrap_or_default())
    }
}

/// A slot that fired.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// The slot.
    pub slot: Millis,
    /// When it fired, by the server's clock.
    pub at: Millis,
    /// Its outcome.
    pub outcome: FireOutcome,
    /// The id of its job, `<name>@<slot>`.
    pub job_id: String,
}

/// The outcome of a slot.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FireOutcome {
    /// Its job was pushed.
    Pushed,
    /// An earlier job was still in the queue, so none was pushed.
    Skipped,
    /// An earlier job was cancelled, and its own pushed.
    Replaced,
}

impl FireOutcome {
    /// `pushed`, `skipped` or `replaced`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Skipped => "skipped",
            Self::Replaced => "replaced",
        }
    }
}

/// `<slot>;<when>;<outcome>` a line, the oldest first.
pub(super) fn fires(name: &str, text: &str) -> Vec<Fire> {
    let read = |line: &str| {
        let mut fields = line.split(';');
        let mut ms = || fields.next()?.parse().ok().map(Millis::new);
        let (slot, at) = (ms()?, ms()?);
        let outcome = match fields.next()? {
            "skipped" => FireOutcome::Skipped,
            "replaced" => FireOutcome::Replaced,
            _ => FireOutcome::Pushed,
        };
        Some(Fire { slot, at, outcome, job_id: format!("{name}@{}", written(slot)) })
    };
    text.lines().filter_map(read).collect()
}

/// A schedule as it is stored.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// The definition; an error if this version cannot read it, which then leaves it alone.
    pub schedule: Result<Schedule, Error>,
    /// Its owner, if [`sync`](super::Schedules::sync) put it.
    pub owner: Option<String>,
    /// Is it paused?
    pub is_paused: bool,
    /// The next slot; none if it is paused or over.
    pub next: Option<Millis>,
    /// The last slot that was due.
    pub last: Option<Millis>,
    /// How many slots fired.
    pub fired: u64,
    /// When it was put.
    pub made_at: Millis,
    /// When it was changed, paused or resumed.
    pub changed_at: Millis,
    /// The last twenty slots that fired, the oldest first; only of [`get`](super::Schedules::get).
    pub fires: Vec<Fire>,
}

impl ScheduleView {
    /// The next slots: none if it is paused or over, and no more than its count leaves.
    pub fn next_slots(&self, most: usize) -> Vec<Millis> {
        let (Some(next), Ok(schedule)) = (self.next, &self.schedule) else { return Vec::new() };
        let left = schedule.count.map_or(u64::MAX, |count| count.saturating_sub(self.fired));
        let most = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut slots: Vec<Millis> = (most > 0).then_some(next).into_iter().collect();
        slots.extend(schedule.next_slots(next, most.saturating_sub(1)));
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_as_it_was_written() {
        let ms = |ms| Some(Millis::new(ms));
        let full = State {
            revision: 7,
            next: ms(9),
            is_paused: true,
            fired: 3,
            last: ms(8),
            made_at: Millis::new(1),
            changed_at: Millis::new(2),
            owner: "shop;eu".to_owned(),
        };
        for state in [State::default(), full.clone()] {
            assert_eq!(State::read(&state.written()), Some(state));
        }
        assert_eq!(full.written(), "7;9;1;3;8;1;2;shop;eu");
        assert!(full.written().starts_with(&full.expected()));
        // The largest numbers, as somebody else may have written them.
        let mut largest = State { revision: u64::MAX, fired: u64::MAX, ..full };
        largest.revise(Millis::new(5));
        assert_eq!(State::read(&largest.written()), Some(largest));
        for foreign in [
            "01;2;0;0;;1;1;",
            "+1;2;0;0;;1;1;",
            "1;02;0;0;;1;1;",
            "",
            "1",
            "x;;0;0;;1;1;",
            "1;x;0;0;;1;1;",
            "1;2;0;0;;1;1",
        ] {
            assert_eq!(State::read(foreign), None, "{foreign}");
        }
    }
}
