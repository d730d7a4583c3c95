//! Code is the truth: the schedules of an owner become those of a list.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::Schedule;
use super::state::State;
use super::verbs::{BATCH, Change, MOST_BYTES, PutSchedule, Read, Schedules};
use crate::queue::Part;
use crate::value::error::Error;
use crate::value::name;
use crate::value::time::Millis;

/// How often a sync begins anew when others change the same schedules.
const TRIES: usize = 20;

/// The changes that [`Schedules::sync`] made.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// The names of new schedules.
    pub created: Vec<String>,
    /// Those that were others; their next slots are computed anew.
    pub changed: Vec<String>,
    /// Those that keep their next slots.
    pub unchanged: Vec<String>,
    /// Those of the owner that are not in the list.
    pub removed: Vec<String>,
}

/// The schedules that a worker stores when it starts: those of an owner in a queue become these, see [`Schedules::sync`].
#[derive(Debug, Clone)]
pub struct OwnSchedules {
    /// The queue's name.
    pub queue: String,
    /// Whose schedules: 1 to 128 bytes, a name that no other program has.
    pub owner: String,
    /// All of them, by name.
    pub list: Vec<(String, Schedule)>,
}

impl Schedules {
    /// Makes the schedules of this owner (1 to 128 bytes) those of the list: puts what is new or another one, and removes what is not
    /// in the list. Those of other owners, and those that [`put`](Self::put) made, are left alone.
    ///
    /// It may run in each process at each start: what is unchanged keeps its next slot, and nothing fires at once. While programs of
    /// two versions run, the last that syncs is right. Errors: `InvalidArgument`, before anything is changed, also for a name that is
    /// in the list twice or belongs to somebody else.
    pub async fn sync(&self, owner: &str, list: &[(String, Schedule)]) -> Result<SyncReport, Error> {
        let during = self.during("sync_schedules");
        let by_part = self.check_list(owner, list).map_err(&during)?;
        let mut report = SyncReport::default();
        for (part, wanted) in self.queue.each_part().iter().zip(&by_part) {
            part.sync_schedules(owner, wanted, &mut report).await.map_err(&during)?;
        }
        Ok(report)
    }

    /// What `sync` would refuse without a word to the server; gives the list as it is for each part.
    pub(crate) fn check_list<'a>(
        &self,
        owner: &str,
        list: &'a [(String, Schedule)],
    ) -> Result<Vec<BTreeMap<&'a str, &'a Schedule>>, Error> {
        name::check_owner(owner)?;
        let mut wanted: Vec<BTreeMap<&str, &Schedule>> = vec![BTreeMap::new(); self.queue.each_part().len()];
        for (name, schedule) in list {
            let checked = schedule.check(name, self.queue.client().shared.max_data_bytes);
            checked.and_then(|()| self.check_key(schedule)).map_err(|error| of_schedule(name, error))?;
            if wanted[self.queue.part_index(name)].insert(name, schedule).is_some() {
                return Err(Error::invalid(format!("the schedule '{name}' is in the list twice")));
            }
        }
        Ok(wanted)
    }
}

/// How many of these go with one call.
fn batch_length(changes: &[(Option<PutSchedule>, Change)]) -> usize {
    let mut bytes = 0;
    let fits = changes.iter().take(BATCH).take_while(|(_, change)| {
        bytes += change.definition.len();
        bytes <= MOST_BYTES
    });
    fits.count().max(1)
}

fn of_schedule(name: &str, error: Error) -> Error {
    error.adding(&format!("so it is with the schedule '{name}'"))
}

impl Part {
    async fn sync_schedules(
        &self,
        owner: &str,
        wanted: &BTreeMap<&str, &Schedule>,
        report: &mut SyncReport,
    ) -> Result<(), Error> {
        // What was done is done, and the next round finds it unchanged.
        let mut done = BTreeSet::new();
        for _ in 0..TRIES {
            let (changes, unchanged) = self.sync_changes(owner, wanted).await?;
            if changes.is_empty() {
                report.unchanged.extend(unchanged.into_iter().filter(|name| !done.contains(name)));
                return Ok(());
            }
            let mut rest = changes.as_slice();
            while !rest.is_empty() {
                let batch;
                (batch, rest) = rest.split_at(batch_length(rest));
                let made = self.put_schedules("sync_schedules", batch.iter().map(|(_, change)| change)).await?;
                for ((outcome, change), _) in batch.iter().zip(made).filter(|(_, made)| *made) {
                    let names = match outcome {
                        Some(PutSchedule::Created) => &mut report.created,
                        Some(_) => &mut report.changed,
                        None => &mut report.removed,
                    };
                    done.insert(change.name.clone());
                    names.push(change.name.clone());
                }
            }
        }
        let message =
            format!("the schedules of '{owner}' change all the time: do two programs with other lists sync them?");
        Err(Error::new(crate::value::error::ErrorKind::Timeout, message))
    }

    /// What is to be done, the removals last, and what stays as it is.
    #[allow(clippy::type_complexity)] // named where it is used
    async fn sync_changes(
        &self,
        owner: &str,
        wanted: &BTreeMap<&str, &Schedule>,
    ) -> Result<(Vec<(Option<PutSchedule>, Change)>, Vec<String>), Error> {
        let (mut stored, mut now) = (BTreeMap::new(), Millis::ZERO);
        // Their order changes when they fire, so pages may miss some: then once more.
        for _ in 0..TRIES {
            let (mut offset, mut total) = (0, 0);
            loop {
                let page = self.schedule_page("sync_schedules", offset, BATCH).await?;
                (now, total) = (now.max(Millis::new(page.now)), page.total.max(total));
                if page.schedules.is_empty() {
                    break;
                }
                offset += page.schedules.len();
                stored.extend(page.schedules.into_iter().map(|one| (one.name.clone(), one)));
            }
            if stored.len() as u64 >= total {
                break;
            }
        }
        let missing: Vec<&str> = wanted.keys().copied().filter(|name| !stored.contains_key(*name)).collect();
        for names in missing.chunks(BATCH) {
            let reply = self.read_schedules("sync_schedules", names).await?;
            stored.extend(reply.schedules.into_iter().map(|one| (one.name.clone(), one)));
        }
        let (mut changes, mut unchanged) = (Vec::new(), Vec::new());
        for (&name, schedule) in wanted {
            let read = Read { now, stored: stored.get(name).cloned() };
            if let Some(state) = read.state(name)?.filter(|state| state.owner != owner) {
                let holder = if state.owner.is_empty() {
                    "was put by hand".to_owned()
                } else {
                    format!("belongs to '{}'", state.owner)
                };
                return Err(Error::invalid(format!(
                    "the schedule '{name}' {holder}: remove it first, or choose another name"
                )));
            }
            match read.put(name, schedule, Some(owner)).map_err(|error| of_schedule(name, error))? {
                (outcome, Some(change)) => changes.push((Some(outcome), change)),
                (_, None) => unchanged.push(name.to_owned()),
            }
        }
        for (name, one) in &stored {
            let state =
                State::read(&one.state).filter(|state| state.owner == owner && !wanted.contains_key(name.as_str()));
            changes.extend(state.map(|state| (None, Change::remove(name, &state))));
        }
        Ok((changes, unchanged))
    }
}
