//! The verbs of users for schedules.

use super::definition::{Overlap, Schedule};
use super::state::{ScheduleView, State, fires};
use crate::process::host;
use crate::queue::{MAX_RESERVE_BYTES, OnDuplicate, Part, Queue};
use crate::script::{Declared, Levels, PutSchedules, ReadSchedules, SchedulesReply, StoredSchedule};
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::time::Millis;

/// How many one call reads or changes.
pub(super) const BATCH: usize = 100;
/// About the most bytes of definitions or jobs that go with one call.
pub(super) const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How often a change is tried that others get ahead of.
const TRIES: usize = 50;

/// The answer of `put` for one schedule.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutSchedule {
    /// It is new. Its first slot is in the future.
    Created,
    /// It was another one. Its next slot is computed anew, unless its pattern or interval is the same.
    Changed,
    /// It was the same, and keeps its next slot.
    Unchanged,
}

impl PutSchedule {
    /// `created`, `changed` or `unchanged`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}

/// The schedules of a queue. Cheap to clone.
///
/// Workers of the queue fire them; while none is alive, nothing fires, and [`CatchUp`](crate::CatchUp) says what becomes of the
/// slots that were missed. A job's id is `<name>@<slot>`, the slot in UTC. In a partitioned queue a schedule and its jobs are in
/// the part that is chosen by its name.
#[derive(Debug, Clone)]
pub struct Schedules {
    pub(super) queue: Queue,
}

/// A change of one schedule: nothing if there is nothing to do.
pub(super) struct Change {
    pub(super) name: String,
    pub(super) expected: String,
    /// Nothing removes it.
    pub(super) definition: Vec<u8>,
    pub(super) state: String,
    pub(super) fires_at: String,
}

impl Change {
    pub(super) fn remove(name: &str, state: &State) -> Self {
        let (definition, name) = (Vec::new(), name.to_owned());
        Self { name, expected: state.expected(), definition, state: String::new(), fires_at: String::new() }
    }

    /// `before`: what is stored, if anything is.
    pub(super) fn put(name: &str, before: Option<&State>, schedule: &Schedule, state: &State) -> Self {
        Self {
            name: name.to_owned(),
            expected: before.map(State::expected).unwrap_or_default(),
            definition: schedule.written(),
            state: state.written(),
            fires_at: fires_at(schedule, name, state.next),
        }
    }
}

/// The score of a schedule.
pub(super) fn fires_at(schedule: &Schedule, name: &str, slot: Option<Millis>) -> String {
    slot.map_or_else(|| "+inf".to_owned(), |slot| schedule.fires_at(name, slot).get().to_string())
}

/// What is stored of a schedule, and when that was read.
pub(super) struct Read {
    pub(super) now: Millis,
    pub(super) stored: Option<StoredSchedule>,
}

impl Read {
    pub(super) fn state(&self, name: &str) -> Result<Option<State>, Error> {
        let Some(stored) = &self.stored else { return Ok(None) };
        let foreign = || {
            let message =
                format!("the state of the schedule '{name}' is not duly's: delete its field in `schedule_state`");
            Error::new(ErrorKind::Corrupt, message)
        };
        State::read(&stored.state).map(Some).ok_or_else(foreign)
    }

    /// What `put` of this schedule would do.
    pub(super) fn put(
        &self,
        name: &str,
        schedule: &Schedule,
        owner: Option<&str>,
    ) -> Result<(PutSchedule, Option<Change>), Error> {
        let before = self.state(name)?;
        let is_same = self.stored.as_ref().is_some_and(|stored| stored.definition == schedule.written());
        let known = before.as_ref().map_or("", |state| &state.owner);
        let owner = owner.unwrap_or(known);
        if is_same && owner == known {
            return Ok((PutSchedule::Unchanged, None));
        }
        let mut state = before.clone().unwrap_or_else(|| State { made_at: self.now, ..State::default() });
        if !is_same {
            // Never a slot that has fired, also where the clock was set back.
            let from = state.last.map_or(self.now, |last| last.max(self.now));
            let is_over = schedule.count.is_some_and(|count| state.fired >= count);
            // One that comes at the same times keeps its slot: it may be past, and wait for its jitter.
            let was = self.stored.as_ref().and_then(|stored| Schedule::read(&stored.definition).ok());
            let kept = state
                .next
                .filter(|slot| was.is_some_and(|was| was.recurrence == schedule.recurrence) && schedule.spans(*slot));
            let next = kept.or_else(|| schedule.next_after(from)).filter(|_| !is_over);
            if next.is_none() && before.is_none() {
                let message = "the schedule has no slot in the future: change its pattern, until or count";
                return Err(Error::invalid(message));
            }
            state.next = next.filter(|_| !state.is_paused);
        }
        state.revise(self.now);
        owner.clone_into(&mut state.owner);
        let outcome = if before.is_some() { PutSchedule::Changed } else { PutSchedule::Created };
        Ok((outcome, Some(Change::put(name, before.as_ref(), schedule, &state))))
    }
}

impl State {
    pub(super) fn revise(&mut self, now: Millis) {
        // A schedule that is removed and put again has another one, too.
        self.revision = self.revision.wrapping_add(1).max(now.get());
        self.changed_at = now;
    }
}

impl Queue {
    /// Its schedules: jobs that come again and again.
    pub fn schedules(&self) -> Schedules {
        Schedules { queue: self.clone() }
    }
}

impl Schedules {
    /// Stores a schedule under this name (1 to 96 bytes), in place of the one that has it. The first slot is the first one in the
    /// future, so nothing fires at once. One that is the same keeps its next slot.
    ///
    /// Errors: `InvalidArgument`, also if there is no slot in the future; `TooLarge`; `StorageFull`.
    pub async fn put(&self, name: &str, schedule: &Schedule) -> Result<PutSchedule, Error> {
        let client = self.queue.client();
        schedule.check(name, client.shared.max_data_bytes).map_err(self.during("put_schedule"))?;
        self.check_key(schedule).map_err(self.during("put_schedule"))?;
        let part = self.part(name);
        part.change_schedule("put_schedule", name, |read| {
            let (outcome, change) = read.put(name, schedule, None)?;
            Ok((outcome, change))
        })
        .await
    }

    /// Removes a schedule; false if there is none of this name. Jobs that it has pushed stay.
    pub async fn remove(&self, name: &str) -> Result<bool, Error> {
        name::check_schedule(name).map_err(self.during("remove_schedule"))?;
        let remove = |read: &Read| {
            let state = read.stored.as_ref().map(|stored| State::read(&stored.state).unwrap_or_default());
            Ok((state.is_some(), state.map(|state| Change::remove(name, &state))))
        };
        self.part(name).change_schedule("remove_schedule", name, remove).await
    }

    /// Fires no more until it is resumed; false if there is none of this name.
    pub async fn pause(&self, name: &str) -> Result<bool, Error> {
        self.set_paused("pause_schedule", name, true).await
    }

    /// Fires again from the first slot in the future on; false if there is none of this name.
    pub async fn resume(&self, name: &str) -> Result<bool, Error> {
        self.set_paused("resume_schedule", name, false).await
    }

    async fn set_paused(&self, operation: &'static str, name: &str, is_paused: bool) -> Result<bool, Error> {
        name::check_schedule(name).map_err(self.during(operation))?;
        let set = |read: &Read| {
            let (Some(before), Some(stored)) = (read.state(name)?, &read.stored) else { return Ok((false, None)) };
            if before.is_paused == is_paused {
                return Ok((true, None));
            }
            let schedule = Schedule::read(&stored.definition)?;
            let mut state = State { is_paused, next: None, ..before.clone() };
            let is_over = schedule.count.is_some_and(|count| state.fired >= count);
            if !is_paused && !is_over {
                state.next = schedule.next_after(state.last.map_or(read.now, |last| last.max(read.now)));
            }
            state.revise(read.now);
            Ok((true, Some(Change::put(name, Some(&before), &schedule, &state))))
        };
        self.part(name).change_schedule(operation, name, set).await
    }

    /// The schedule of this name with its last twenty fires.
    pub async fn get(&self, name: &str) -> Result<Option<ScheduleView>, Error> {
        name::check_schedule(name).map_err(self.during("get_schedule"))?;
        let read = self.part(name).read_schedule("get_schedule", name).await?;
        Ok(read.stored.map(view))
    }

    /// A page of the schedules in the order in which they fire; those that are paused or over come last. Of a partitioned queue the
    /// parts follow one another.
    pub async fn list(&self, offset: usize, limit: usize) -> Result<Vec<ScheduleView>, Error> {
        let (mut skip, mut views) = (offset, Vec::new());
        for part in self.queue.each_part() {
            while views.len() < limit {
                let page = part.schedule_page("list_schedules", skip, (limit - views.len()).min(BATCH)).await?;
                let total = usize::try_from(page.total).unwrap_or(usize::MAX);
                if page.schedules.is_empty() {
                    skip = skip.saturating_sub(total);
                    break;
                }
                skip += page.schedules.len();
                views.extend(page.schedules.into_iter().map(view));
            }
        }
        Ok(views)
    }

    /// Pushes a job of this schedule now and gives its id, `<name>@<an id of duly's>`. That moves none of its slots, and is none of its
    /// fires.
    ///
    /// Errors: `NotFound`; `Duplicate` if an earlier job is still in the queue and its overlap is `Skip`.
    pub async fn run_now(&self, name: &str) -> Result<String, Error> {
        name::check_schedule(name).map_err(self.during("run_schedule"))?;
        let part = self.part(name);
        let read = part.read_schedule("run_schedule", name).await?;
        let stored = read.stored.ok_or_else(|| self.during("run_schedule")(no_such_schedule(name)))?;
        let schedule = Schedule::read(&stored.definition).map_err(self.during("run_schedule"))?;
        let id = format!("{name}@{}", part.client.shared.ids.next(host::now())?.as_str());
        let job = schedule.job_now(name, id).map_err(self.during("run_schedule"))?;
        let job = match schedule.overlap {
            Overlap::Replace => job.on_duplicate(OnDuplicate::Replace),
            _ => job,
        };
        part.push(job).await.map(|pushed| pushed.id().to_owned()).map_err(|error| error.during("run_schedule"))
    }

    /// The most slots that [`next`](Self::next) gives.
    #[doc(hidden)] // for the skins
    pub const MOST_SLOTS: u32 = 100;

    /// The next slots of a schedule; none if it is paused or over. Errors: `NotFound`.
    pub async fn next(&self, name: &str, most: usize) -> Result<Vec<Millis>, Error> {
        let view = self.get(name).await?.ok_or_else(|| self.during("next_slots")(no_such_schedule(name)))?;
        view.schedule.as_ref().map_err(Clone::clone).map_err(self.during("next_slots"))?;
        Ok(view.next_slots(most.min(BATCH)))
    }

    /// Fires what is due, and gives how many slots pushed a job. Workers do it by themselves; it is for programs that reserve by hand,
    /// and for tests.
    pub async fn fire_due(&self) -> Result<u64, Error> {
        let mut pushed = 0;
        for part in self.queue.each_part() {
            pushed += part.fire_all_due().await?;
        }
        Ok(pushed)
    }

    /// The part in which the schedule of this name is.
    pub(super) fn part(&self, name: &str) -> &Part {
        self.queue.part_of(name)
    }

    /// A job with a key is in the part that the key chooses, and the jobs of a schedule are in its own part.
    pub(super) fn check_key(&self, schedule: &Schedule) -> Result<(), Error> {
        if self.queue.each_part().len() > 1 && schedule.template().key.is_some() {
            let message = "in a partitioned queue the jobs of a schedule have no key but its name: leave out the key";
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    pub(super) fn during(&self, operation: &'static str) -> impl Fn(Error) -> Error {
        self.queue.during(operation)
    }
}

pub(super) fn no_such_schedule(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no schedule '{name}': put it first"))
}

/// As users see it.
pub(super) fn view(stored: StoredSchedule) -> ScheduleView {
    let state = State::read(&stored.state).unwrap_or_default();
    ScheduleView {
        schedule: Schedule::read(&stored.definition),
        owner: Some(state.owner).filter(|owner| !owner.is_empty()),
        is_paused: state.is_paused,
        next: state.next,
        last: state.last,
        fired: state.fired,
        made_at: state.made_at,
        changed_at: state.changed_at,
        fires: fires(&stored.name, &stored.fires),
        name: stored.name,
    }
}

impl Part {
    pub(super) async fn schedule_page(
        &self,
        operation: &'static str,
        offset: usize,
        limit: usize,
    ) -> Result<SchedulesReply, Error> {
        let read = ReadSchedules { offset, limit, max_bytes: MAX_RESERVE_BYTES };
        self.run(read.with([]).during(operation)).await
    }

    pub(super) async fn read_schedules(
        &self,
        operation: &'static str,
        names: &[&str],
    ) -> Result<SchedulesReply, Error> {
        let read = ReadSchedules { offset: 0, limit: 0, max_bytes: MAX_RESERVE_BYTES };
        self.run(read.with(names.iter().copied()).during(operation)).await
    }

    async fn read_schedule(&self, operation: &'static str, name: &str) -> Result<Read, Error> {
        let mut reply = self.read_schedules(operation, &[name]).await?;
        Ok(Read { now: Millis::new(reply.now), stored: reply.schedules.pop() })
    }

    /// Makes these changes with one call; for each, whether it was made.
    pub(super) async fn put_schedules<'c>(
        &self,
        operation: &'static str,
        changes: impl Iterator<Item = &'c Change> + Clone + Sync,
    ) -> Result<Vec<bool>, Error> {
        let items = changes.map(|change| {
            let Change { name, expected, definition, state, fires_at } = change;
            (name.as_str(), expected.as_str(), definition.as_slice(), state.as_str(), fires_at.as_str())
        });
        self.run(PutSchedules {}.with(items).during(operation)).await
    }

    /// Reads a schedule, decides, and makes the change; again if somebody else was first.
    async fn change_schedule<T>(
        &self,
        operation: &'static str,
        name: &str,
        decide: impl Fn(&Read) -> Result<(T, Option<Change>), Error>,
    ) -> Result<T, Error> {
        for _ in 0..TRIES {
            let read = self.read_schedule(operation, name).await?;
            let (outcome, change) = decide(&read).map_err(self.during(operation))?;
            let Some(change) = change else { return Ok(outcome) };
            if self.put_schedules(operation, std::iter::once(&change)).await? == [true] {
                return Ok(outcome);
            }
        }
        let message = format!("the schedule '{name}' changes all the time: is it put by several programs at once?");
        Err(self.during(operation)(Error::new(ErrorKind::Timeout, message)))
    }

    /// The level that the jobs of a schedule have is in use from now on.
    pub(super) fn note_level_of(&self, schedule: &Schedule) {
        self.note_levels(Levels::one(schedule.template().priority));
    }
}
