//! `schedules.lua`, `put_schedules.lua`, `due_schedules.lua` and `fire.lua`: jobs that come again and again.

use std::time::Duration;

use redis::Value;

use super::call::ByteStrings;
use super::declare::scripts;
use super::reply::{FromReply, array, bytes, lossy, next, number, refuse, text, unexpected, utf8};
use crate::value::error::Error;

scripts! {
    /// Reads schedules.
    ReadSchedules = "schedules",
    kind: Reads,
    keys: [Meta, Schedules, ScheduleState, ScheduleDue, ScheduleFires],
    arguments: { offset: usize, limit: usize, max_bytes: usize },
    items: (name: &'a str),
    reply: SchedulesReply;

    /// Puts, changes and removes schedules.
    PutSchedules = "put_schedules",
    kind: Numbered,
    keys: [Call, Meta, Jobs, Schedules, ScheduleState, ScheduleDue, ScheduleFires, Wake],
    items: (name: &'a str, expected: &'a str, definition: &'a [u8], state: &'a str, fires_at: &'a str),
    reply: Vec<bool>;

    /// Which schedules fire now, behind the first `offset` of them. `promise`: the moment for which the caller has promised to come back,
    /// 0 for none, 1 if it does not.
    DueSchedules = "due_schedules",
    kind: Plain,
    keys: [Meta, Schedules, ScheduleState, ScheduleDue],
    arguments: { promise: u64, offset: usize, most: usize, max_bytes: usize },
    reply: DueReply;

    /// Fires schedules.
    FireSchedules = "fire",
    kind: Plain in shapes,
    keys: [
        Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, ScheduleState,
        ScheduleDue, ScheduleFires, History, Ready
    ],
    items: (schedules: &'a ByteStrings),
    reply: FireReply;
}

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredSchedule {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) definition: Vec<u8>,
    pub(crate) fires: String,
}

/// Schedules that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchedulesReply {
    /// The server's time in ms.
    pub(crate) now: u64,
    /// How many schedules the queue has.
    pub(crate) total: u64,
    pub(crate) schedules: Vec<StoredSchedule>,
}

impl FromReply for SchedulesReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let now = time(next(&mut items, "the time")?)?;
        let total = u64::try_from(number(next(&mut items, "how many schedules there are")?)?).unwrap_or(0);
        let mut schedules = Vec::new();
        while let Some(name) = items.next() {
            schedules.push(StoredSchedule {
                name: lossy(name)?,
                state: lossy(next(&mut items, "a state")?)?,
                definition: bytes(next(&mut items, "a definition")?)?,
                fires: lossy(next(&mut items, "fires")?)?,
            });
        }
        Ok(Self { now, total, schedules })
    }
}

fn time(reply: Value) -> Result<u64, Error> {
    utf8(reply)?.parse().map_err(|_| unexpected("a time"))
}

/// The schedules that fire now; or when the next one does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueReply {
    /// The server's time in ms.
    pub(crate) now: u64,
    /// The moment for which the caller has promised to come back, 0 for no promise.
    pub(crate) promised: u64,
    /// How long until the next one fires.
    pub(crate) next_in: Option<Duration>,
    pub(crate) due: Vec<StoredSchedule>,
}

impl FromReply for DueReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let reply = match reply {
            Value::Array(items) => items,
            other => return Err(refuse(&utf8(other)?).err().unwrap_or_else(|| unexpected("a list"))),
        };
        let mut items = reply.into_iter();
        let now = time(next(&mut items, "the time")?)?;
        let promised = u64::try_from(number(next(&mut items, "a promise")?)?).unwrap_or(0);
        let next_in = u64::try_from(number(next(&mut items, "when the next schedule fires")?)?).ok();
        let mut due = Vec::new();
        while let Some(name) = items.next() {
            due.push(StoredSchedule {
                name: lossy(name)?,
                state: lossy(next(&mut items, "a state")?)?,
                definition: bytes(next(&mut items, "a definition")?)?,
                fires: String::new(),
            });
        }
        Ok(Self { now, promised, next_in: next_in.map(Duration::from_micros), due })
    }
}

/// What became of schedules that were due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FireReply {
    /// For each: the outcome of each slot, or nothing if another one has fired it.
    pub(crate) fired: Vec<Option<Vec<String>>>,
    /// The jobs that were replaced and for whose results somebody may wait.
    pub(crate) awaited: Vec<String>,
}

impl FromReply for FireReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let (mut fired, mut awaited) = (Vec::new(), Vec::new());
        for line in text(reply)?.split('\n') {
            // The name of a schedule, and so the id of its job, may have spaces.
            if let Some(id) = line.strip_prefix("awaited ") {
                awaited.push(id.to_owned());
                continue;
            }
            let mut words = line.split(' ');
            match (words.next(), words) {
                (Some("moved"), _) => fired.push(None),
                (Some("fired"), words) => fired.push(Some(words.map(str::to_owned).collect())),
                _ => return Err(unexpected("what became of a schedule")),
            }
        }
        Ok(Self { fired, awaited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_awaited_job_may_have_spaces() {
        let reply = b"fired replaced pushed\nmoved\nawaited the report@2026-09-21T14:15:00Z\nawaited b@1".to_vec();
        let FireReply { fired, awaited } = FireReply::decode(Value::BulkString(reply)).unwrap();
        assert_eq!(fired, [Some(vec!["replaced".to_owned(), "pushed".to_owned()]), None]);
        assert_eq!(awaited, ["the report@2026-09-21T14:15:00Z", "b@1"]);
    }
}
