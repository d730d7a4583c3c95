//! Push: one job, a batch, or any number of jobs.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::process::host;
use crate::queue::new_job::{NewJob, OnDuplicate, Prepared};
use crate::queue::{MAX_BATCH, Part, Queue};
use crate::script::{
    ByteStrings, Declared, Digits, Full, IfDuplicate, IfFull, JobKeys, Levels, Now, Push, PushReply, PushUnique, Stored,
};
use crate::value::durability::{Doubt, Durability, Unconfirmed};
use crate::value::error::{Error, ErrorKind};
use crate::value::time::Millis;

/// A batch ends earlier when its records are larger than this, so that the server reads no call of a gigabyte.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// A record above this is large: a hundred of them are more than one reserve may read. `LARGE` of the scripts.
const LARGE_RECORD: usize = 41_943;

/// The answer of a push for one job.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// The job is stored under this id.
    Created {
        /// Its id.
        id: String,
    },
    /// Another job had the id or key, and stays ([`OnDuplicate::Keep`]).
    Kept {
        /// The id of the job that was there.
        id: String,
    },
    /// The job is stored, and the job that had its id or key was cancelled ([`OnDuplicate::Replace`]).
    Replaced {
        /// Its id.
        id: String,
        /// The id of the job that was cancelled.
        replaced: String,
    },
    /// The job is not stored: another job has the id or key ([`OnDuplicate::Refuse`]). Only [`Queue::push_batch`] returns
    /// this; `push` returns an error.
    Duplicate {
        /// The id of the job that is there.
        id: String,
    },
}

impl Pushed {
    /// The id of the job that is in the queue now.
    pub fn id(&self) -> &str {
        match self {
            Self::Created { id } | Self::Kept { id } | Self::Replaced { id, .. } | Self::Duplicate { id } => id,
        }
    }
}

/// What became of one job.
type Outcome = Result<Pushed, Error>;

/// How a long push went.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushSummary {
    /// Jobs that are new in the queue.
    pub created: u64,
    /// Jobs that were not pushed, because another job has their id or key and was kept.
    pub kept: u64,
    /// Jobs that replaced another job.
    pub replaced: u64,
    /// Jobs that were refused because another has their id or key.
    pub duplicates: u64,
}

impl Queue {
    /// Pushes a job.
    ///
    /// Moves: nothing to `delayed`, or to `ready` when it is due now. Errors: `InvalidArgument`, `TooLarge` (nothing was
    /// sent); `Duplicate` with the id of the other job; `StorageFull`, `QueueFull` (nothing was stored); `NotDurable` (the job is stored,
    /// but not as safely as requested); `Timeout` (it may be stored); `Unreachable` (it is not stored).
    ///
    /// Concurrent pushes of many tasks through clones of one queue are sent together.
    pub async fn push(&self, job: NewJob) -> Result<Pushed, Error> {
        let (part, job) = self.assign(job).map_err(self.during("push"))?;
        self.each_part()[part].push(job).await
    }

    /// Pushes up to [`MAX_BATCH`] jobs, with one script call if they have the same `on_duplicate` and are smaller than 4 MiB
    /// together; returns one outcome for each job, in order. A partitioned queue takes a call for each part at least.
    ///
    /// All jobs for one part are checked before the first of them is sent. Errors as of [`Queue::push`], but a duplicate is an
    /// outcome. Of several calls none is made behind one that fails, but for `NotDurable`: the first jobs are pushed then, of a partitioned
    /// queue those of the first parts, and the error says how many.
    pub async fn push_batch(&self, jobs: Vec<NewJob>) -> Result<Vec<Pushed>, Error> {
        if jobs.len() > MAX_BATCH {
            return Err(self.during("push")(Error::new(
                ErrorKind::TooLarge,
                format!("a batch has at most {MAX_BATCH} jobs: use push_many, which cuts it up"),
            )));
        }
        let (pushed, count) = (AtomicUsize::new(0), jobs.len());
        let is_in_order = self.each_part().len() == 1;
        self.push_to_parts(jobs, &pushed).await.map_err(|error| match pushed.into_inner() {
            0 => error,
            pushed => error.partly_pushed(pushed, count, is_in_order),
        })
    }

    /// `pushed`: how many jobs have their outcome, also if the call fails.
    async fn push_to_parts(&self, jobs: Vec<NewJob>, pushed: &AtomicUsize) -> Result<Vec<Pushed>, Error> {
        if let [part] = self.each_part() {
            return part.push_batch(jobs, pushed, &Unconfirmed::default()).await;
        }
        let assigned: Vec<_> =
            jobs.into_iter().map(|job| self.assign(job)).collect::<Result<_, _>>().map_err(self.during("push"))?;
        let part_of = |(part, _): &(usize, NewJob)| Some(*part);
        let (none, doubt) = (Pushed::Created { id: String::new() }, &Doubt::default());
        let unconfirmed = &Unconfirmed::default();
        let outcomes = self.by_part(assigned, part_of, none.clone(), |part, jobs| {
            let (count, none) = (jobs.len(), none.clone());
            Box::pin(async move {
                match part.push_batch(jobs.into_iter().map(|(_, job)| job).collect(), pushed, unconfirmed).await {
                    Err(error) if error.kind() == ErrorKind::NotDurable => {
                        doubt.set(error);
                        Ok(vec![none; count])
                    }
                    outcomes => outcomes,
                }
            })
        });
        let outcomes = outcomes.await?;
        doubt.take().map_or(Ok(outcomes), |doubt| Err(*doubt))
    }

    /// Pushes any number of jobs in batches; `progress` gets each batch's outcomes. Holds one batch in memory.
    ///
    /// If a batch fails, those before it are pushed; the error says how many jobs, and how many of that batch if it took several calls.
    pub async fn push_many<I>(&self, jobs: I, mut progress: impl FnMut(&[Pushed])) -> Result<PushSummary, Error>
    where
        I: IntoIterator<Item = NewJob>,
    {
        let mut summary = PushSummary::default();
        for batch in batches(jobs) {
            let outcomes = self.push_batch(batch).await.map_err(|error| error.after_jobs(summary.total()))?;
            summary.add(&outcomes);
            progress(&outcomes);
        }
        Ok(summary)
    }
}

impl Part {
    pub(crate) async fn push(&self, job: NewJob) -> Result<Pushed, Error> {
        // On the heap: rare, and this future is moved about on every push.
        let job = if job.asks_for_time() { Box::pin(self.with_expiry(job)).await? } else { job };
        let prepared = self.prepare(job, host::now()).map_err(self.during("push"))?;
        let queue = self.clone();
        let send = move |jobs: Vec<Prepared>| {
            let queue = queue.clone();
            // Of several callers: where not all of them fit, those that came first.
            async move { Ok(queue.push_of_several(&jobs).await) }
        };
        // Pushes that wait for a disk must not hold up those that do not.
        let plain = self.asked_durability(&prepared) == Durability::None;
        let company = if plain { &self.shared.pushes } else { &self.shared.durable_pushes };
        match company.call(prepared, send).await?? {
            Pushed::Duplicate { id } => {
                let why =
                    "another job has this id or key; choose on_duplicate keep or replace, or cancel that job first";
                Err(self.during("push")(Error::new(ErrorKind::Duplicate, why)).of_job(&id))
            }
            pushed => Ok(pushed),
        }
    }

    /// All jobs are checked before the first is sent. Behind a call that fails none is made: what is pushed is the beginning. Adds to
    /// `pushed` how many jobs that is. `unconfirmed`: see [`push_run`](Self::push_run).
    async fn push_batch(
        &self,
        mut jobs: Vec<NewJob>,
        pushed: &AtomicUsize,
        unconfirmed: &Unconfirmed,
    ) -> Result<Vec<Pushed>, Error> {
        if jobs.iter().any(NewJob::asks_for_time) {
            let now = Box::pin(self.server_time()).await?;
            for (index, job) in jobs.iter_mut().enumerate() {
                job.settle_expiry(now).map_err(|error| self.during("push")(error.at_index(index)))?;
            }
        }
        let now = host::now();
        let prepare = |(index, job)| self.prepare(job, now).map_err(|error| error.at_index(index));
        let prepared = jobs.into_iter().enumerate().map(prepare).collect::<Result<Vec<_>, _>>();
        let prepared = prepared.map_err(self.during("push"))?;
        let (mut outcomes, mut ended) = (Vec::with_capacity(prepared.len()), None);
        for run in runs(&prepared) {
            let before = outcomes.len();
            if let Err(error) = self.push_run(run, IfFull::Refuse, unconfirmed, &mut outcomes).await {
                outcomes.push(Err(error));
            }
            ended = outcomes[before..].iter().position(|outcome| !is_pushed(outcome)).map(|at| before + at);
            if ended.is_some() {
                break;
            }
        }
        pushed.fetch_add(ended.unwrap_or(outcomes.len()), Ordering::Relaxed);
        // What has ended the batch, rather than that jobs before it are not as safe as was asked for.
        if let Some(at) = ended {
            outcomes.swap(0, at);
        }
        outcomes.into_iter().collect()
    }

    async fn with_expiry(&self, mut job: NewJob) -> Result<NewJob, Error> {
        job.settle_expiry(self.server_time().await?).map_err(self.during("push"))?;
        Ok(job)
    }

    async fn server_time(&self) -> Result<Millis, Error> {
        self.run(Now {}.with([]).during("push")).await.map(Millis::new)
    }

    fn prepare(&self, job: NewJob, now: Millis) -> Result<Prepared, Error> {
        let client = &self.client.shared;
        let made_id = client.ids.next(now)?;
        job.prepare(made_id.as_str(), now, client.max_data_bytes)
    }

    /// Jobs of several callers; one outcome a job. A call that is refused does not keep the next from being tried. Behind one that has waited
    /// in vain none is made: each would wait as long.
    async fn push_of_several(&self, jobs: &[Prepared]) -> Vec<Outcome> {
        let (mut outcomes, unconfirmed) = (Vec::with_capacity(jobs.len()), Unconfirmed::default());
        for run in runs(jobs) {
            let before = outcomes.len();
            if let Err(error) = self.push_run(run, IfFull::Fill, &unconfirmed, &mut outcomes).await {
                outcomes.extend(run.iter().map(|_| Err(error.clone())));
            }
            // Of a run in which nothing went well, as each waits with the others.
            let in_vain =
                outcomes.get(before).and_then(|outcome| outcome.as_ref().err()).filter(|error| has_waited(error));
            let Some(in_vain) = in_vain.cloned() else { continue };
            let not_sent = || Error::new(ErrorKind::Unreachable, "not sent, because the push before it had no success");
            let others = jobs.len() - outcomes.len();
            outcomes.extend((0..others).map(|_| Err(self.during("push")(not_sent()).caused_by(in_vain.clone()))));
            break;
        }
        outcomes
    }

    /// One script call: jobs that one call can take together. Two at the most: where not all of them fit, with [`IfFull::Fill`] one more
    /// stores the first ones. Adds one outcome a job, or none with an error. `unconfirmed`: of the calls before, with which this one is made.
    async fn push_run(
        &self,
        run: &[Prepared],
        if_full: IfFull,
        unconfirmed: &Unconfirmed,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), Error> {
        let first = &run[0];
        for level in run.iter().map(|job| job.level) {
            self.note_levels(Levels::one(level));
        }
        let alike = run
            .iter()
            .all(|job| !job.unique && job.came_back.is_empty() && job.level == first.level && job.due == first.due)
            && run.iter().all(|job| job.record.len() <= LARGE_RECORD);
        if alike {
            let push = Push { level: Digits(first.level.into()), due: first.due };
            let items = run.iter().map(|job| (job.id.as_bytes(), &*job.record));
            let wait = Wait::of(self, first, unconfirmed);
            match self.run(push.with(items).durably_or(wait.durability, &wait.doubt)).await? {
                Stored::All => {
                    let doubt = wait.ended(unconfirmed);
                    let created = |job: &Prepared| Pushed::Created { id: job.id.clone() };
                    outcomes.extend(run.iter().map(|job| confirmed(created(job), doubt.as_deref())));
                }
                Stored::None(full) if if_full == IfFull::Fill && full.room > 0 => {
                    // On the heap: rare, and this future is moved about on every push.
                    Box::pin(self.push_first(run, full, unconfirmed, outcomes)).await;
                }
                Stored::None(full) => return Err(self.during("push")(full.error())),
            }
            return Ok(());
        }
        self.push_unique(run, if_full, unconfirmed, outcomes).await
    }

    fn asked_durability(&self, job: &Prepared) -> Durability {
        job.durability.unwrap_or(self.client.shared.durability)
    }

    /// The first jobs of a call of which not all fit, and of them those that still do: others push too.
    async fn push_first(&self, run: &[Prepared], full: Full, unconfirmed: &Unconfirmed, outcomes: &mut Vec<Outcome>) {
        let (first, others) = run.split_at(full.room.min(run.len()));
        if let Err(error) = self.push_unique(first, IfFull::Fill, unconfirmed, outcomes).await {
            outcomes.extend(first.iter().map(|_| Err(error.clone())));
        }
        outcomes.extend(others.iter().map(|_| Err(self.during("push")(full.error()))));
    }

    async fn push_unique(
        &self,
        run: &[Prepared],
        if_full: IfFull,
        unconfirmed: &Unconfirmed,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), Error> {
        let first = &run[0];
        let unique = run.iter().find(|job| job.unique).unwrap_or(first);
        let if_duplicate = match unique.on_duplicate {
            OnDuplicate::Refuse => IfDuplicate::Refuse,
            OnDuplicate::Keep => IfDuplicate::Keep,
            OnDuplicate::Replace => IfDuplicate::Replace,
        };
        let items = run.iter().map(|job| (job.id.as_bytes(), &*job.record, job.due, &*job.came_back));
        // An id that duly has made never was another job's, so it has no earlier result.
        let mut ids = ByteStrings::default();
        if run.iter().any(|job| job.has_own_id) {
            for job in run {
                ids.push(job.id.as_bytes());
            }
        }
        let wait = Wait::of(self, first, unconfirmed);
        let push = PushUnique { if_duplicate, if_full, result_count: JobKeys(ids) }
            .with(items)
            .during("push")
            .durably_or(wait.durability, &wait.doubt);
        let reply = self.run(push).await?;
        let doubt = wait.ended(unconfirmed);
        if !reply.awaited.is_empty() {
            Box::pin(self.wake_waiters("push", &reply.awaited)).await;
        }
        let pushed = |(reply, job)| {
            let pushed = Pushed::from_reply(reply, job).map_err(self.during("push"))?;
            confirmed(pushed, doubt.as_deref())
        };
        outcomes.extend(reply.jobs.into_iter().zip(run).map(pushed));
        Ok(())
    }
}

/// For what a call waits that pushes jobs.
struct Wait {
    asked: Durability,
    /// None where a call before this one has waited for as much in vain.
    durability: Durability,
    doubt: Doubt,
}

impl Wait {
    /// `first`: one of the jobs, which all ask for the same.
    fn of(part: &Part, first: &Prepared, unconfirmed: &Unconfirmed) -> Self {
        let (asked, doubt) = (part.asked_durability(first), Doubt::default());
        let durability = if unconfirmed.why(asked).is_some() { Durability::None } else { asked };
        Self { asked, durability, doubt }
    }

    /// Why the jobs of the call, which is made, are not known to be as safe as was asked for.
    fn ended(self, unconfirmed: &Unconfirmed) -> Option<Box<Error>> {
        if self.asked == Durability::None {
            return None;
        }
        if let Some(error) = self.doubt.take() {
            unconfirmed.note(self.asked, error);
        }
        unconfirmed.why(self.asked)
    }
}

/// Has the call been tried for a whole deadline?
fn has_waited(error: &Error) -> bool {
    use ErrorKind::{AuthenticationFailed, Busy, ReadOnly, Timeout, Unreachable};
    matches!(error.kind(), Timeout | Unreachable | ReadOnly | Busy | AuthenticationFailed)
}

/// Is it in, or is another job with its id or key?
fn is_pushed(outcome: &Outcome) -> bool {
    outcome.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::NotDurable)
}

/// The outcome of a job of a call that may not have been confirmed: what is in has that error, also if it was there before.
fn confirmed(pushed: Pushed, doubt: Option<&Error>) -> Outcome {
    match (doubt, &pushed) {
        (Some(doubt), Pushed::Created { id } | Pushed::Replaced { id, .. } | Pushed::Kept { id }) => {
            Err(doubt.clone().of_job(id))
        }
        _ => Ok(pushed),
    }
}

impl PushSummary {
    pub(crate) fn add(&mut self, outcomes: &[Pushed]) {
        for outcome in outcomes {
            match outcome {
                Pushed::Created { .. } => self.created += 1,
                Pushed::Kept { .. } => self.kept += 1,
                Pushed::Replaced { .. } => self.replaced += 1,
                Pushed::Duplicate { .. } => self.duplicates += 1,
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.created + self.kept + self.replaced + self.duplicates
    }
}

impl Pushed {
    fn from_reply(reply: PushReply, job: &Prepared) -> Outcome {
        let id = &job.id;
        Ok(match reply {
            // An id that duly has made is nobody else's: this very call was executed before, and the server has forgotten it.
            PushReply::Kept(holder) | PushReply::Duplicate(holder) | PushReply::Replaced(holder)
                if !job.has_own_id && holder == *id =>
            {
                Self::Created { id: holder }
            }
            PushReply::Created => Self::Created { id: id.to_owned() },
            PushReply::Kept(holder) => Self::Kept { id: holder },
            PushReply::Duplicate(holder) => Self::Duplicate { id: holder },
            PushReply::Replaced(replaced) => Self::Replaced { id: id.to_owned(), replaced },
            PushReply::Full(full) => return Err(full.error()),
        })
    }
}

/// So many jobs as one call takes, again and again.
pub(crate) fn batches(jobs: impl IntoIterator<Item = NewJob>) -> impl Iterator<Item = Vec<NewJob>> {
    let mut jobs = jobs.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<NewJob> = jobs.by_ref().take(MAX_BATCH).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// Cuts prepared jobs where a call must end: where duplicates are to be treated in another way, where another durability is
/// asked for, and at the size limit.
fn runs(jobs: &[Prepared]) -> impl Iterator<Item = &[Prepared]> {
    let mut rest = jobs;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let mut on_duplicate = None;
        let together = rest.iter().take_while(|job| {
            bytes += job.record.len();
            let same_way = (!job.unique || *on_duplicate.get_or_insert(job.on_duplicate) == job.on_duplicate)
                && job.durability == rest[0].durability;
            same_way && (bytes <= MAX_BATCH_BYTES || bytes == job.record.len())
        });
        let (run, others) = rest.split_at(together.count());
        rest = others;
        (!run.is_empty()).then_some(run)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn rust_and_lua_agree_on_what_a_large_record_is() {
        let line = format!("local LARGE = {}\n", super::LARGE_RECORD);
        assert!(include_str!("../../lua/lib/call/meta.lua").contains(&line));
    }
}
