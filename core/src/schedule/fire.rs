//! Fires the schedules that are due.

use std::time::Duration;

use super::definition::Schedule;
use super::plan::{Plan, plan};
use super::state::State;
use super::verbs::{BATCH, MOST_BYTES, fires_at};
use crate::queue::{MAX_RESERVE_BYTES, Part};
use crate::script::{ByteStrings, Declared, DueReply, DueSchedules, FireReply, FireSchedules, StoredSchedule};
use crate::value::error::Error;
use crate::value::time::Millis;

/// The most jobs of one call.
const MOST_JOBS: usize = 1000;

/// After so many looks in which others were first, what is due is theirs.
const MOST_IN_VAIN: u32 = 3;

/// What a caller gives as its promise that makes none; 0 is that of one which has made none yet.
const NO_PROMISE: u64 = 1;

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
    /// A schedule was as it was read. Else all that was due has been fired by others meanwhile; if that goes on, it cannot be fired here.
    pub(crate) has_fired: bool,
}

impl Part {
    /// Fires what is due, one batch. `promise`: the moment for which the caller has promised to come back.
    pub(crate) async fn fire_some_due(&self, promise: u64) -> Result<Looked, Error> {
        let (mut offset, mut looked) = (0, Looked::default());
        loop {
            let due = DueSchedules { promise, offset, most: BATCH, max_bytes: MAX_RESERVE_BYTES };
            let reply = self.run(due.with([]).during("fire")).await?;
            if reply.due.is_empty() {
                return Ok(Looked { promised: reply.promised, next_in: reply.next_in, ..Looked::default() });
            }
            if self.fire(&reply, &mut looked).await? {
                return Ok(Looked { is_unfinished: true, ..looked });
            }
            // None of them can be read here: a newer version fires them, or somebody puts them again. They hold up no others.
            offset += reply.due.len();
        }
    }

    /// Fires these, with as many calls as their bounds need; each is sent before the next one is made. Says whether there was any to fire.
    async fn fire(&self, reply: &DueReply, looked: &mut Looked) -> Result<bool, Error> {
        let (mut batch, mut is_any) = (Batch::default(), false);
        for stored in &reply.due {
            let Some(mut due) = Due::of(stored, Millis::new(reply.now)) else { continue };
            self.note_level_of(&due.schedule);
            is_any = true;
            while !due.add_to(&mut batch) {
                // Where another one was first, the next look finds what it has left.
                if !self.send(&mut batch, looked).await? {
                    break;
                }
            }
        }
        self.send(&mut batch, looked).await?;
        Ok(is_any)
    }

    /// Says whether the last schedule of the call was as it was read.
    async fn send(&self, batch: &mut Batch, looked: &mut Looked) -> Result<bool, Error> {
        let Batch { call, jobs } = std::mem::take(batch);
        if jobs == 0 {
            return Ok(true);
        }
        let FireReply { fired, awaited } = self.run(FireSchedules {}.with([&call]).during("fire")).await?;
        looked.has_fired |= fired.iter().any(Option::is_some);
        let outcomes = fired.iter().flatten().flatten();
        looked.pushed += outcomes.filter(|outcome| *outcome != "skipped").count() as u64;
        if !awaited.is_empty() {
            Box::pin(self.wake_waiters("fire", &awaited)).await;
        }
        Ok(fired.last().is_some_and(Option::is_some))
    }

    pub(super) async fn fire_all_due(&self) -> Result<u64, Error> {
        let (mut pushed, mut in_vain) = (0, 0);
        loop {
            let looked = self.fire_some_due(NO_PROMISE).await?;
            pushed += looked.pushed;
            in_vain = if looked.has_fired { 0 } else { in_vain + 1 };
            if !looked.is_unfinished || in_vain == MOST_IN_VAIN {
                return Ok(pushed);
            }
        }
    }
}

/// What a call takes of schedules.
#[derive(Default)]
pub(super) struct Batch {
    call: ByteStrings,
    /// A schedule that fires no slot counts as one.
    jobs: usize,
}

impl Batch {
    /// One job goes into an empty call, however large it is.
    fn has_room(&self, jobs: usize, bytes: usize) -> bool {
        self.jobs + jobs == 0 || self.jobs + jobs < MOST_JOBS && self.call.total_bytes() + bytes <= MOST_BYTES
    }
}

/// A schedule that is due, and what is still to be done with it.
pub(super) struct Due<'a> {
    name: &'a str,
    schedule: Schedule,
    /// As the next call finds it.
    state: State,
    plan: Plan,
    now: Millis,
}

impl<'a> Due<'a> {
    pub(super) fn of(stored: &'a StoredSchedule, now: Millis) -> Option<Self> {
        let (schedule, state) = (Schedule::read(&stored.definition).ok()?, State::read(&stored.state)?);
        let left = schedule.count.map(|count| count.saturating_sub(state.fired));
        let plan = plan(&schedule, &stored.name, state.next?, left, now)?;
        Some(Self { name: &stored.name, schedule, state, plan, now })
    }

    /// Adds what the script takes of it. False if there are slots that do not fit: a later call has them, and finds the first of them as
    /// the schedule's next slot, as does whoever looks if this program ends before.
    pub(super) fn add_to(&mut self, batch: &mut Batch) -> bool {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while let Some(&slot) = self.plan.fires.get(jobs.len()) {
            let (id, record) = self.schedule.job_of(self.name, slot, self.now);
            bytes += record.len();
            if !batch.has_room(jobs.len(), bytes) {
                break;
            }
            jobs.push((slot, id, record));
        }
        let left = self.plan.fires.split_off(jobs.len());
        self.plan.fires = left;
        let (last, next) = match (jobs.last(), self.plan.fires.first()) {
            (_, None) => (self.plan.last, self.plan.next),
            (Some((last, ..)), Some(next)) => (*last, Some(*next)),
            (None, Some(_)) => return false,
        };
        let fired = self.state.fired.saturating_add(jobs.len() as u64);
        let after = State { next, fired, last: Some(last), ..self.state.clone() };
        batch.jobs += jobs.len().max(1);
        let call = &mut batch.call;
        call.push(self.name.as_bytes());
        call.push(self.state.expected().as_bytes());
        call.push(after.written().as_bytes());
        call.push(fires_at(&self.schedule, self.name, next).as_bytes());
        call.push(self.schedule.overlap.as_str().as_bytes());
        call.push_display(jobs.len());
        for (slot, id, record) in jobs {
            call.push_display(slot.get());
            call.push(id.as_bytes());
            call.push(&record);
        }
        self.state = after;
        self.plan.fires.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::queue::NewJob;
    use crate::schedule::definition::Schedule;

    #[test]
    fn numbers_that_somebody_else_has_written_stop_no_worker() {
        let schedule = Schedule::every(Duration::from_secs(60), NewJob::new(&1).unwrap()).unwrap();
        let schedule = schedule.jitter(Duration::from_secs(10));
        let now = Millis::new(u64::MAX);
        let state = State { next: Some(Millis::new(u64::MAX)), fired: u64::MAX, ..State::default() };
        let stored = StoredSchedule {
            name: "nightly".to_owned(),
            definition: schedule.written(),
            state: state.written(),
            fires: String::new(),
        };
        let mut due = Due::of(&stored, now).unwrap();
        assert!(due.add_to(&mut Batch::default()));
    }
}
