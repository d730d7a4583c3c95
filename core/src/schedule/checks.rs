//! What must hold of any schedule that is stored: for tests and fuzz targets. A check panics where it does not.

use super::definition::Schedule;
use super::fire::{Batch, Due};
use super::state::{State, fires};
use super::verbs::fires_at;
use crate::script::StoredSchedule;
use crate::value::error::ErrorKind;
use crate::value::time::Millis;

const NAME: &str = "nightly";

/// `seen` hears what it was.
pub(crate) fn check_stored(state: &str, definition: &[u8], now: Millis, mut seen: impl FnMut(&'static str)) {
    fires(NAME, state);
    if let Some(state) = State::read(state) {
        seen("a state");
        assert_eq!(State::read(&state.written()).as_ref(), Some(&state));
        let mut revised = state.clone();
        revised.revise(now);
        assert!(revised.revision != state.revision, "{state:?}");
        assert!(State::read(&revised.written()).is_some_and(|read| read == revised), "{revised:?}");
    }
    let schedule = match Schedule::read(definition) {
        Ok(schedule) => schedule,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::FormatTooNew), "{error:?}");
            return seen("it was refused");
        }
    };
    seen("a schedule");
    let written = schedule.written();
    let again = Schedule::read(&written).unwrap_or_else(|error| panic!("{error}: {schedule:?}"));
    assert_eq!((again.written(), again.next_after(now)), (written, schedule.next_after(now)));
    if let Some(slot) = schedule.next_after(now) {
        seen("a slot");
        assert!(slot > now && schedule.spans(slot), "{slot}");
        let at = schedule.fires_at(NAME, slot);
        assert!(at >= slot && schedule.next_after(slot).is_none_or(|next| at < next), "{at}");
    }
    // A change keeps the slot that is stored, whatever that is.
    fires_at(&schedule, NAME, State::read(state).and_then(|state| state.next));
    let stored = StoredSchedule {
        name: NAME.to_owned(),
        definition: definition.to_vec(),
        state: state.to_owned(),
        fires: String::new(),
    };
    let Some(mut due) = Due::of(&stored, now) else { return };
    seen("it is due");
    let mut calls = 0;
    while !due.add_to(&mut Batch::default()) {
        calls += 1;
        assert!(calls < 1000, "it never ends");
    }
}
