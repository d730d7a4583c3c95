//! The verbs of operators and producers for jobs that are in a queue.

mod actions;
mod audit;
mod done;
mod extent;
mod failure_groups;
mod history;
mod inspect;
mod limits;
mod matching;
mod queues;
mod rates;
mod registry;
mod search;
mod server;
mod wait_result;

pub use actions::{Action, MAX_ACTIONS};
pub use audit::{AuditOptions, AuditReport, Finding, Invariant};
pub use extent::Extent;
pub use failure_groups::{FailureGroup, FailureGroups, MAX_FAILURE_GROUPS};
pub use history::{DEFAULT_HISTORY_AGE, DEFAULT_HISTORY_JOBS, Happening, HistoryBounds, Trace, TraceEvent, TraceRun};
pub use inspect::{Counts, Found, JobView};
#[cfg(any(test, fuzzing))]
pub(crate) use limits::held_back;
pub use limits::{Limits, MAX_CONCURRENCY, MAX_LENGTH, MAX_LIMITED_NAMES, NameLimits};
pub use matching::Matching;
pub use queues::{MAX_QUEUES, QueueInfo, QueuePage};
pub use rates::{DEFAULT_RATES_WITHIN, NameRates, RateWindow, Rates, RunCounts, Spread};
pub(crate) use registry::MOST_RUNNING;
pub use registry::{RunningJob, WorkerInfo};
pub use search::{Filter, SearchPage};
pub use server::ServerView;

use std::collections::HashSet;
use std::time::Duration;

use self::done::Done;
use crate::format::record::Record;
use crate::process::host;
use crate::queue::{MAX_BATCH, Part, Queue};
use crate::script::{
    self, By, Cancel, CancelReply, Configure, Declared, Due, Find, Pause, Promote, Purge, Reclaim, Requeue,
    RequeueReply, Reschedule, RescheduleReply,
};
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::state::State;
use crate::value::time::{MAX_DELAY, Millis, When};

/// How many entries one call of the hand-started rounds moves.
const ROUND: usize = 500;

/// What a call has done to jobs, as its error says it.
const READY: &str = "made ready";
const REMOVED: &str = "removed";

/// The states in which jobs wait to be run.
const WAITING: [State; 2] = [State::Delayed, State::Ready];

/// A job that is no more, and the state it was in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// Its id.
    pub id: String,
    /// Where it was. From `Reserved`, a worker may still be running it; its ack will be refused.
    pub was: State,
}

/// The answer of `requeue` for one failed job.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requeued {
    /// It is ready again, with no failures counted.
    Ready,
    /// Its key belongs to another job now; it stays in `failed`.
    Duplicate {
        /// The job that holds the key.
        id: String,
    },
    /// There is no failed job with this id.
    Absent,
}

impl Queue {
    /// Removes a job in whatever state it is; `None` if there is no such job. O(log n), also in a queue of millions.
    pub async fn cancel(&self, id: &str) -> Result<Option<Cancelled>, Error> {
        self.cancel_by_id(id, &[]).await
    }

    /// Removes the live job that has this business key; `None` if no job has it.
    pub async fn cancel_key(&self, key: &str) -> Result<Option<Cancelled>, Error> {
        self.cancel_by_key(key, &[]).await
    }

    /// Like [`Queue::cancel`], but only a job in one of these states: in another one it is not touched.
    ///
    /// Errors: `NotFound` if it is in another state, which is in [`Error::job_state`]; `InvalidArgument` without a state.
    ///
    /// ```no_run
    /// # async fn doc(orders: duly::Queue) -> Result<(), duly::Error> {
    /// use duly::{ErrorKind, State};
    ///
    /// match orders.cancel_only("order-42", &[State::Delayed, State::Ready]).await {
    ///     Ok(Some(_)) => println!("it will not run"),
    ///     Ok(None) => println!("it has run, or was cancelled before"),
    ///     Err(error) if error.kind() == ErrorKind::NotFound => println!("too late: it is {:?}", error.job_state()),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel_only(&self, id: &str, states: &[State]) -> Result<Option<Cancelled>, Error> {
        self.some_state(states)?;
        self.cancel_by_id(id, states).await
    }

    /// The same of the live job that has this business key.
    pub async fn cancel_key_only(&self, key: &str, states: &[State]) -> Result<Option<Cancelled>, Error> {
        self.some_state(states)?;
        self.cancel_by_key(key, states).await
    }

    /// Without a state nothing could be cancelled: a mistake of the caller's.
    fn some_state(&self, states: &[State]) -> Result<(), Error> {
        if states.is_empty() {
            return Err(self.during("cancel")(Error::invalid("name the states in which the job may be cancelled")));
        }
        Ok(())
    }

    /// `only`: in these states, or in each if there is none.
    async fn cancel_by_id(&self, id: &str, only: &[State]) -> Result<Option<Cancelled>, Error> {
        name::check_id(id).map_err(self.during("cancel"))?;
        for part in self.parts_by_id(id) {
            if let Some(cancelled) = part.cancel(By::Id, id, only).await? {
                return Ok(Some(cancelled));
            }
        }
        Ok(None)
    }

    async fn cancel_by_key(&self, key: &str, only: &[State]) -> Result<Option<Cancelled>, Error> {
        name::check_key(key).map_err(self.during("cancel"))?;
        self.part_of(key).cancel(By::Key, key, only).await
    }

    /// Changes when a waiting job (delayed or ready) is due, and returns its id.
    ///
    /// Errors: `NotFound` if there is no such job, or if it is reserved or failed (the message says which).
    pub async fn reschedule(&self, id: &str, when: When) -> Result<String, Error> {
        name::check_id(id).map_err(self.during("reschedule"))?;
        for part in self.parts_by_id(id) {
            if let Some(id) = part.reschedule(By::Id, id, when, None).await? {
                return Ok(id);
            }
        }
        Err(self.during("reschedule")(no_such_job(By::Id, id)))
    }

    /// Like [`Queue::reschedule`], of the live job that holds this business key.
    pub async fn reschedule_key(&self, key: &str, when: When) -> Result<String, Error> {
        name::check_key(key).map_err(self.during("reschedule"))?;
        let moved = self.part_of(key).reschedule(By::Key, key, when, None).await?;
        moved.ok_or_else(|| self.during("reschedule")(no_such_job(By::Key, key)))
    }

    /// Runs failed jobs again, with their failures forgotten; returns one outcome for each id. At most 1,000 in each script
    /// call.
    pub async fn requeue(&self, ids: &[String]) -> Result<Vec<Requeued>, Error> {
        for id in ids {
            name::check_id(id).map_err(self.during("requeue"))?;
        }
        let done = Done::default();
        done.all(self.requeue_in_parts(ids, &done), READY).await
    }

    /// Runs a failed job again with other data, with its failures forgotten: its name, key and options stay.
    ///
    /// Errors: `InvalidArgument`; `TooLarge`; `Corrupt` if the record cannot be read, so it cannot be changed either.
    pub async fn requeue_with(&self, id: &str, data: Data) -> Result<Requeued, Error> {
        let in_requeue = |error: Error| self.during("requeue")(error).of_job(id);
        name::check_id(id).map_err(self.during("requeue"))?;
        data.check_size(self.client().shared.max_data_bytes).map_err(in_requeue)?;
        for part in self.parts_by_id(id) {
            if let Some(outcome) = part.requeue_with(id, &data).await.map_err(in_requeue)? {
                return Ok(outcome);
            }
        }
        Ok(Requeued::Absent)
    }

    async fn requeue_in_parts(&self, ids: &[String], done: &Done) -> Result<Vec<Requeued>, Error> {
        if let [part] = self.each_part() {
            return part.requeue(ids, done).await;
        }
        let likely = |id: &&String| Some(self.part_index(id));
        let mut outcomes = self
            .by_part(ids.iter().collect(), likely, Requeued::Absent, |part, ids| {
                Box::pin(async move { part.requeue(&ids, done).await })
            })
            .await?;
        for (id, outcome) in ids.iter().zip(&mut outcomes) {
            let mut others = self.parts_by_id(id).skip(1);
            while *outcome == Requeued::Absent
                && let Some(part) = others.next()
            {
                *outcome = part.requeue(&[id], done).await?.pop().unwrap_or(Requeued::Absent);
            }
        }
        Ok(outcomes)
    }

    /// Runs all jobs again that have failed by now, and returns how many. Jobs whose key belongs to another job now stay,
    /// and so do jobs that fail meanwhile: otherwise a handler that fails at once would keep this call running for ever.
    pub async fn requeue_all(&self) -> Result<u64, Error> {
        let done = Done::default();
        let steps = async {
            for part in self.each_part() {
                part.requeue_all(&done).await?;
            }
            Ok(done.jobs())
        };
        done.all(steps, READY).await
    }

    /// Removes all jobs in this state, in steps that never block the server for long, and returns how many. It removes at most
    /// as many as there are when it begins, so that it ends next to a busy producer; newer jobs may be among them.
    ///
    /// Purging `Reserved` takes the jobs from their workers as [`Queue::cancel`] does: the lease is lost, a worker interrupts the
    /// run when it learns that, and an ack is refused.
    pub async fn purge(&self, state: State) -> Result<u64, Error> {
        self.purge_states(&[state], "purge").await
    }

    /// Empties the queue: removes all jobs that wait, `Delayed` and then `Ready`, as [`Queue::purge`] does, and returns how many. None
    /// slips through that becomes ready meanwhile.
    ///
    /// Jobs that workers have stay: they run to their end, and what they come to counts (a retry waits in the queue again).
    /// [`Queue::purge`] of `Reserved` before this one takes those, too. Failed jobs stay for you to see.
    pub async fn clear(&self) -> Result<u64, Error> {
        self.purge_states(&WAITING, "clear").await
    }

    async fn purge_states(&self, states: &[State], operation: &'static str) -> Result<u64, Error> {
        let done = Done::default();
        let steps = async {
            for part in self.each_part() {
                for state in states {
                    part.purge(*state, operation, &done).await?;
                }
            }
            Ok(done.jobs())
        };
        done.all(steps, REMOVED).await
    }

    /// No more jobs are handed out until [`Queue::resume`]. Jobs still come in, and what runs may finish.
    pub async fn pause(&self) -> Result<(), Error> {
        self.set_paused("pause", "1").await
    }

    /// Hands out jobs again.
    pub async fn resume(&self) -> Result<(), Error> {
        self.set_paused("resume", "0").await
    }

    async fn set_paused(&self, operation: &'static str, pause: &'static str) -> Result<(), Error> {
        for (number, part) in self.each_part().iter().enumerate() {
            let ended = part.run(Pause { pause }.with([]).during(operation)).await;
            ended.map_err(|error| self.behind_parts(number, error))?;
        }
        Ok(())
    }

    /// Of a call for all parts that has failed at this one.
    fn behind_parts(&self, number: usize, error: Error) -> Error {
        match number {
            0 => error,
            _ => error.partly_done(&format!("it was done to {number} of {} parts before that", self.each_part().len())),
        }
    }

    /// Moves due jobs to ready by hand, and returns how many. Every reserve does this by itself.
    pub async fn promote(&self) -> Result<u64, Error> {
        let done = Done::default();
        let steps = async {
            for part in self.each_part() {
                part.promote(&done).await?;
            }
            Ok(done.jobs())
        };
        done.all(steps, READY).await
    }

    /// Takes back jobs whose lease has ended by hand, and returns how many. Every reserve does this by itself.
    pub async fn reclaim(&self) -> Result<u64, Error> {
        let done = Done::default();
        let steps = async {
            for part in self.each_part() {
                part.reclaim(&done).await?;
            }
            Ok(done.jobs())
        };
        done.all(steps, "taken back").await
    }

    /// How many failed jobs the queue keeps (default 10,000) and for how long (default 180 days). Whenever another job
    /// fails, up to 100 of the oldest beyond that are removed. Keep more than may fail at once: `on_failed` is not called for a job
    /// that was removed before a worker heard of it. Each part of a partitioned queue keeps its share of `max`, rounded up.
    pub async fn keep_failed(&self, max: u64, age: Duration) -> Result<(), Error> {
        let age = Millis::from_duration(age).map_err(self.during("keep_failed"))?;
        let share = max.div_ceil(self.each_part().len() as u64);
        for (number, part) in self.each_part().iter().enumerate() {
            let configure = Configure { failed_max: share, failed_age_ms: age.get() };
            let ended = part.run(configure.with([]).during("keep_failed")).await;
            ended.map_err(|error| self.behind_parts(number, error))?;
        }
        Ok(())
    }

    /// For tests: moves the clock of a client made with [`crate::ClientBuilder::manual_clock`], in milliseconds since 1970.
    pub async fn set_clock(&self, now: Millis) -> Result<(), Error> {
        if self.client().shared.clock != script::Clock::Manual {
            return Err(Error::invalid("only a client made with manual_clock has a clock to set").during("set_clock"));
        }
        for part in self.each_part() {
            part.command("set_clock", script::set_clock(&part.shared.keys, now)).await?;
        }
        Ok(())
    }
}

impl Part {
    async fn cancel(&self, by: By, value: &str, only: &[State]) -> Result<Option<Cancelled>, Error> {
        let only = only.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(" ");
        let cancel = Cancel { by, only: only.clone() };
        let mut replies = self.run(cancel.with([value])).await?;
        match replies.pop() {
            // One job is never left for later.
            None | Some(CancelReply::Absent | CancelReply::Later) => Ok(None),
            Some(CancelReply::Removed { was, id, is_awaited }) => {
                let was = State::parse(&was).map_err(self.during("cancel"))?;
                if is_awaited {
                    self.wake_waiters("cancel", std::slice::from_ref(&id)).await;
                }
                Ok(Some(Cancelled { id, was }))
            }
            Some(CancelReply::Kept { state, id }) => {
                let state = State::parse(&state).map_err(self.during("cancel"))?;
                let only = only.replace(' ', " or ");
                let message = format!("the job is {}, and was to be cancelled only if {only}", state.as_str());
                Err(self.during("cancel")(Error::new(ErrorKind::NotFound, message).of_job(&id).in_state(state)))
            }
        }
    }

    /// The id; `None` if there is no such job. `only`: a job in this state.
    async fn reschedule(&self, by: By, value: &str, when: When, only: Option<State>) -> Result<Option<String>, Error> {
        let too_far = match when {
            When::Now => false,
            When::After(delay) => delay > MAX_DELAY,
            When::At(at) => at.saturating_sub(host::now()) > MAX_DELAY,
        };
        if too_far {
            let message = "a due time must be at most 3153600000 seconds (100 years) away";
            return Err(self.during("reschedule")(Error::invalid(message)));
        }
        let due = match when {
            When::Now => Due::Now,
            When::After(delay) => Due::After(delay.get()),
            When::At(at) => Due::At(at.get()),
        };
        match self.run(Reschedule { by, only: only.map_or("", State::as_str) }.with([(value, due)])).await? {
            RescheduleReply::Moved(id) => Ok(Some(id)),
            RescheduleReply::Absent => Ok(None),
            RescheduleReply::InState(state, id) => {
                let message = format!(
                    "the job is {state}, and only a delayed or ready one can be rescheduled: requeue a failed one, wait for a reserved one"
                );
                let state = State::parse(&state).map_err(self.during("reschedule"))?;
                let error = Error::new(ErrorKind::NotFound, message).of_job(&id).in_state(state);
                Err(self.during("reschedule")(error))
            }
        }
    }

    async fn requeue(&self, ids: &[impl AsRef<[u8]> + Sync], done: &Done) -> Result<Vec<Requeued>, Error> {
        let mut outcomes = Vec::with_capacity(ids.len());
        while outcomes.len() < ids.len() {
            let rest = &ids[outcomes.len()..];
            let batch = &rest[..rest.len().min(MAX_BATCH)];
            let replies = self.run(Requeue::as_they_are().with(batch.iter().map(AsRef::as_ref))).await?;
            let known = outcomes.len();
            outcomes.extend(replies.into_iter().map_while(|reply| match reply {
                RequeueReply::Requeued => Some(Requeued::Ready),
                RequeueReply::Duplicate(id) => Some(Requeued::Duplicate { id }),
                RequeueReply::Absent => Some(Requeued::Absent),
                RequeueReply::Later => None,
            }));
            done.add(outcomes[known..].iter().filter(|outcome| **outcome == Requeued::Ready).count() as u64);
        }
        Ok(outcomes)
    }

    /// Nothing if there is no such failed job in this part.
    async fn requeue_with(&self, id: &str, data: &Data) -> Result<Option<Requeued>, Error> {
        let found = self.run(Find { by: By::Id }.with([id]).during("requeue")).await?;
        let Some(found) = found.filter(|found| found.state == State::Failed.as_str()) else { return Ok(None) };
        let mut envelope = Record::decode(id, &found.job.record, None)?;
        envelope.data = data.clone();
        let requeue = Requeue { known_record: found.job.record, new_record: Record::encode(&envelope) };
        Ok(match self.run(requeue.with([id.as_bytes()])).await?.pop() {
            Some(RequeueReply::Requeued) => Some(Requeued::Ready),
            Some(RequeueReply::Duplicate(id)) => Some(Requeued::Duplicate { id }),
            _ => None,
        })
    }

    /// Jobs that failed from then on and until then, the first to fail first.
    async fn failed_page(&self, from: i64, by: i64, count: usize) -> Result<Vec<(Vec<u8>, i64)>, Error> {
        let look = script::failed_page(&self.shared.keys, from, by, count);
        let page = self.command("requeue_all", look).await.and_then(script::with_times);
        page.map_err(self.during("requeue_all"))
    }

    async fn requeue_all(&self, done: &Done) -> Result<(), Error> {
        let start = self.counts_now("requeue_all").await?;
        let by = self.latest_failure(start.now, "requeue_all").await?;
        self.requeue_some(u64::try_from(start.failed).unwrap_or(0), by, done).await
    }

    /// By when all that are in `failed` have failed: now, or later where the clock was set back since.
    async fn latest_failure(&self, now: i64, operation: &'static str) -> Result<i64, Error> {
        let look = script::last_of(&self.shared.keys, script::Key::Failed);
        let reply = self.command(operation, look).await.map_err(self.during(operation))?;
        // What is no time is another program's.
        let last = script::with_times(reply).ok().and_then(|all| all.last().map(|&(_, at)| at));
        Ok(last.map_or(now, |last| last.max(now)))
    }

    /// At most so many jobs that had failed by then.
    async fn requeue_some(&self, most: u64, by: i64, done: &Done) -> Result<(), Error> {
        let mut left = usize::try_from(most).unwrap_or(usize::MAX);
        // Where the page before ended, and the jobs of that moment that were tried and stay there.
        let (mut from, mut tried) = (i64::MIN, HashSet::new());
        while left > 0 {
            let page = self.failed_page(from, by, left.min(ROUND) + tried.len()).await?;
            let new = page.into_iter().filter(|(id, _)| !tried.contains(id));
            let new: Vec<_> = new.take(left.min(ROUND)).collect();
            let Some(&(_, last)) = new.last() else { break };
            left -= new.len();
            let outcomes = self.requeue(&new.iter().map(|(id, _)| id).collect::<Vec<_>>(), done).await?;
            if last > from {
                tried.clear();
                from = last;
            }
            let stayed = new.into_iter().zip(outcomes).filter(|(_, outcome)| *outcome != Requeued::Ready);
            tried.extend(stayed.map(|(job, _)| job).filter(|&(_, at)| at == last).map(|(id, _)| id));
        }
        Ok(())
    }

    async fn purge(&self, state: State, operation: &'static str, done: &Done) -> Result<(), Error> {
        let there = self.counts_for(operation).await?.of(state);
        self.purge_some(state, there, None, operation, done).await
    }

    /// At most so many jobs; of failed ones those that had failed by `latest`, if it is given.
    async fn purge_some(
        &self,
        state: State,
        most: u64,
        latest: Option<i64>,
        operation: &'static str,
        done: &Done,
    ) -> Result<(), Error> {
        let mut left = most;
        let latest = latest.map_or_else(|| "+inf".to_owned(), |latest| latest.to_string());
        while left > 0 {
            let cap = ROUND.min(usize::try_from(left).unwrap_or(ROUND));
            let purge = Purge { state: state.as_str(), cap, latest: latest.clone() };
            let purged = self.run(purge.with([]).during(operation)).await?;
            done.add(purged.removed);
            left = left.saturating_sub(purged.removed);
            if !purged.awaited.is_empty() {
                self.wake_waiters(operation, &purged.awaited).await;
            }
            if purged.seen == 0 {
                break;
            }
        }
        Ok(())
    }

    async fn promote(&self, done: &Done) -> Result<(), Error> {
        loop {
            let moved = self.run(Promote { promote_cap: ROUND }.with([])).await?;
            done.add(moved);
            if moved < ROUND as u64 {
                return Ok(());
            }
        }
    }

    async fn reclaim(&self, done: &Done) -> Result<(), Error> {
        loop {
            let now = self.run(Reclaim { reclaim_cap: ROUND }.with([])).await?;
            if !now.awaited.is_empty() {
                self.wake_waiters("reclaim", &now.awaited).await;
            }
            done.add(now.taken);
            if now.taken < ROUND as u64 && !now.is_unfinished {
                return Ok(());
            }
        }
    }
}

pub(crate) fn no_such_job(by: By, value: &str) -> Error {
    match by {
        By::Id => Error::new(ErrorKind::NotFound, "there is no such job: it was acked, cancelled or never pushed")
            .of_job(value),
        By::Key => Error::new(ErrorKind::NotFound, format!("no live job has the key '{value}'")),
    }
}
