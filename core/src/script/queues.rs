//! The scripts in `lua/queues`: the list of queues, and a queue as a whole.

use redis::Value;

use super::declare::scripts;
use super::reply::{FromReply, array, next, number, text, two_numbers, unexpected, utf8};
use crate::value::error::Error;
use crate::value::time::Millis;

scripts! {
    /// Puts a queue on the list, or notes that it is used again. `name` ends with `/` if it is partitioned.
    Register = "queues/register",
    kind: Plain,
    keys: [Queues, QueuesUsed],
    arguments: { name: String, partitions: usize },
    reply: ();

    /// A page of the list.
    ListQueues = "queues/list",
    kind: Reads,
    keys: [Queues, QueuesUsed],
    arguments: { after: String, most: usize },
    reply: ListReply;

    /// Takes a queue off the list.
    Unregister = "queues/unregister",
    kind: Plain,
    keys: [Queues, QueuesUsed],
    arguments: { name: String, used: String },
    reply: u64;

    /// How much is in a queue.
    Contents = "queues/contents",
    kind: Reads,
    keys: [Jobs, Departing, Schedules],
    reply: ContentsReply;

    /// Removes all of a queue.
    Delete = "queues/delete",
    kind: Numbered in shapes,
    keys: [
        Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, Rates,
        Workers, WorkerInfos, Unheard, Departing, Schedules, ScheduleState, ScheduleDue, ScheduleFires, History, Ready,
    ],
    arguments: { expected: u64 },
    reply: DeleteReply;
}

/// A page of the list of queues.
#[derive(Debug)]
pub(crate) struct ListReply {
    pub(crate) now: Millis,
    pub(crate) queues: Vec<ListedQueue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedQueue {
    pub(crate) name: String,
    /// What the list says of it, as `unregister` takes it.
    pub(crate) used: String,
    pub(crate) last_used: Millis,
    pub(crate) partitions: u64,
}

impl FromReply for ListReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let now = u64::try_from(number(next(&mut items, "the time")?)?).map_err(|_| unexpected("the time"))?;
        let mut queues = Vec::with_capacity(items.len() / 2);
        while let Some(name) = items.next() {
            let (name, used) = (utf8(name)?, utf8(next(&mut items, "when a queue was used")?)?);
            let (last_used, partitions) = two_numbers(&used)?;
            queues.push(ListedQueue { name, used, last_used: Millis::new(last_used), partitions });
        }
        Ok(Self { now: Millis::new(now), queues })
    }
}

/// How much is in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ContentsReply {
    pub(crate) jobs: u64,
    pub(crate) schedules: u64,
}

impl FromReply for ContentsReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let (jobs, schedules) = two_numbers(&text(reply)?)?;
        Ok(Self { jobs, schedules })
    }
}

/// Was a queue removed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeleteReply {
    Deleted,
    /// No: this is in it.
    Kept(ContentsReply),
}

impl FromReply for DeleteReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        if text == "deleted" {
            return Ok(Self::Deleted);
        }
        let (jobs, schedules) = two_numbers(&text)?;
        Ok(Self::Kept(ContentsReply { jobs, schedules }))
    }
}
