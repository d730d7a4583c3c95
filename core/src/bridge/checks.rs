//! What must hold of any entry of another queue: for tests and fuzz targets. A check panics where it does not.

use std::time::Duration;

use once_cell::race::OnceBox;

use super::old_queue::{Lane, OldQueue, OldState, ScoreUnit};
use super::package::{Fate, Format, Moved};
use crate::queue::decode;
use crate::script::Target;
use crate::value::error::Error;
use crate::value::name;
use crate::value::time::Millis;

const ID: &str = "a1";
/// What is due or over by the second clock is neither by the first.
const CLOCKS: [Millis; 2] = [Millis::new(1_000_000_000_000), Millis::new(2_000_000_000_000)];
/// The largest number that scripts count with.
const MOST: u64 = 1 << 53;

fn all() -> Result<Vec<OldQueue>, Error> {
    let queues = ["orders"];
    Ok(vec![
        OldQueue::thinkphp("orders")?,
        OldQueue::workerman("", &queues)?,
        OldQueue::think_queue(&queues)?,
        OldQueue::laravel("app_", &queues)?,
        OldQueue::celery("", &queues, Duration::from_secs(3600))?,
        OldQueue::gmq(&queues, 3, 3)?,
        OldQueue::list("l", true, "orders")?.name("mail")?,
        OldQueue::sorted_set("z", ScoreUnit::Nanos, "orders")?,
    ])
}

/// Reads it as an entry of each queue, in each state, with this score. `seen` hears what was made of it.
pub(crate) fn check_entry(entry: &[u8], score: f64, mut seen: impl FnMut(&'static str)) {
    static ALL: OnceBox<Vec<OldQueue>> = OnceBox::new();
    let all = ALL.get_or_init(|| Box::new(all().unwrap_or_default()));
    assert!(!all.is_empty());
    for old in all {
        for state in [OldState::Ready, OldState::Delayed, OldState::Reserved, OldState::Failed] {
            if let Some(lane) = old.lanes.iter().find(|lane| lane.state == state) {
                seen(check_in(old, lane, entry, score));
            }
        }
    }
}

fn check_in(old: &OldQueue, lane: &Lane, entry: &[u8], score: f64) -> &'static str {
    match CLOCKS.map(|now| Fate::read(old, lane, entry.to_vec(), Some(score), ID, now)) {
        [Fate::Moves(moved), Fate::Moves(later)] => {
            // These two say in which part of its batch it is, whenever that is read.
            assert_eq!((&moved.queue, moved.may_fail), (&later.queue, later.may_fail), "{old:?}");
            check_moved(old, entry, &moved);
            check_moved(old, entry, &later);
            if moved.fault.is_some() { "a fault" } else { old.kind }
        }
        [Fate::Stays(reason), Fate::Stays(later)] => {
            assert_eq!(reason, later);
            "it stays"
        }
        both => panic!("the clock decides whether it moves: {both:?}"),
    }
}

fn check_moved(old: &OldQueue, entry: &[u8], moved: &Moved) {
    name::check_queue(&moved.queue).unwrap_or_else(|error| panic!("{error}: {moved:?}"));
    assert!(moved.may_fail || moved.target != Target::Failed, "{moved:?}");
    if let Target::Due(at) = moved.target {
        assert!(at < MOST, "{moved:?}");
    }
    let (envelope, _) = match decode(ID, &moved.record, &moved.came_back) {
        Ok(read) => read,
        Err(_) if moved.fault.is_some() => {
            assert_eq!((&*moved.record, moved.target), (entry, Target::Failed));
            return;
        }
        Err(error) => panic!("{error}: {moved:?}"),
    };
    if moved.record == entry {
        return;
    }
    envelope.check().unwrap_or_else(|error| panic!("{error}: {envelope:?}"));
    let (data, is_text) =
        (&envelope.data, envelope.data.deserialize::<String>().is_ok_and(|text| text.as_bytes() == entry));
    match old.format {
        Format::Payload => assert_eq!(data.as_bytes(), entry),
        Format::Data => assert!(is_text || data.as_bytes() == entry, "{envelope:?}"),
        _ => {}
    }
}
