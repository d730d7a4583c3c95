//! Fires the schedules that are due.

use std::time::Duration;

use super::definition::Schedule;
use super::plan::plan;
use super::state::State;
use super::verbs::{BATCH, fires_at};
use crate::queue::{MAX_RESERVE_BYTES, Part};
use crate::script::{ByteStrings, Declared, DueReply, DueSchedules, FireReply, FireSchedules};
use crate::value::error::Error;
use crate::value::time::Millis;

/// The most jobs of one call, and about the most bytes.
const MOST_JOBS: usize = 1000;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The promise of a caller that does not come back.
const NEVER: u64 = 1;

/// What a look at the schedules of a queue found, and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// How many slots pushed a job.
    pub(crate) pushed: u64,
    /// The moment for which this caller has promised to come back, in ms of the server's clock; 0 for no promise.
    pub(crate) promised: u64,
    /// How long until the next one fires; nothing if there is none.
    pub(crate) next_in: Option<Duration>,
    /// There is more to do at once.
    pub(crate) is_unfinished: bool,
}

impl Part {
    /// Fires what is due, one batch. `promise`: the moment for which the caller has promised to come back.
    pub(crate) async fn fire_some_due(&self, promise: u64) -> Result<Looked, Error> {
        let mut offset = 0;
        let items = loop {
            let due = DueSchedules { promise, offset, most: BATCH, max_bytes: MAX_RESERVE_BYTES };
            let reply = self.run(due.with([]).during("fire")).await?;
            if reply.due.is_empty() {
                return Ok(Looked { promised: reply.promised, next_in: reply.next_in, ..Looked::default() });
            }
            let items = self.fires_of(&reply);
            if !items.is_empty() {
                break items;
            }
            // None of them can be read here: a newer version fires them, or somebody puts them again. They hold up no others.
            offset += reply.due.len();
        };
        let mut looked = Looked { is_unfinished: true, ..Looked::default() };
        for call in items {
            let FireReply { fired, awaited } = self.run(FireSchedules {}.with([&call]).during("fire")).await?;
            let outcomes = fired.iter().flatten().flatten();
            looked.pushed += outcomes.filter(|outcome| *outcome != "skipped").count() as u64;
            if !awaited.is_empty() {
                Box::pin(self.wake_waiters("fire", &awaited)).await;
            }
        }
        Ok(looked)
    }

    pub(super) async fn fire_all_due(&self) -> Result<u64, Error> {
        let mut pushed = 0;
        loop {
            let looked = self.fire_some_due(NEVER).await?;
            pushed += looked.pushed;
            if !looked.is_unfinished {
                return Ok(pushed);
            }
        }
    }

    /// What the script takes, in as many calls as its bounds need.
    fn fires_of(&self, reply: &DueReply) -> Vec<ByteStrings> {
        let now = Millis::new(reply.now);
        let (mut calls, mut call, mut jobs, mut bytes) = (Vec::new(), ByteStrings::default(), 0, 0);
        for stored in &reply.due {
            let (Ok(schedule), Some(state)) = (Schedule::read(&stored.definition), State::read(&stored.state)) else {
                continue;
            };
            let Some(slot) = state.next else { continue };
            let left = schedule.count.map(|count| count.saturating_sub(state.fired));
            let Some(plan) = plan(&schedule, &stored.name, slot, left, now) else { continue };
            self.note_level_of(&schedule);
            let fired = state.fired + plan.fires.len() as u64;
            let next = State { next: plan.next, fired, last: Some(plan.last), ..state.clone() };
            if jobs > 0 && (jobs + plan.fires.len() > MOST_JOBS || bytes > MOST_BYTES) {
                calls.push(std::mem::take(&mut call));
                (jobs, bytes) = (0, 0);
            }
            call.push(stored.name.as_bytes());
            call.push(state.expected().as_bytes());
            call.push(next.written().as_bytes());
            call.push(fires_at(&schedule, &stored.name, plan.next).as_bytes());
            call.push(schedule.overlap.as_str().as_bytes());
            call.push_display(plan.fires.len());
            for slot in plan.fires {
                let (id, record) = schedule.job_of(&stored.name, slot, now);
                call.push_display(slot.get());
                call.push(id.as_bytes());
                call.push(&record);
                (jobs, bytes) = (jobs + 1, bytes + record.len());
            }
            // One without a slot to fire counts too.
            jobs += 1;
        }
        if jobs > 0 {
            calls.push(call);
        }
        calls
    }
}
