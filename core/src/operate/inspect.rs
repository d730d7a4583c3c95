//! Looking at a queue without touching it.

use std::collections::HashSet;

use crate::format::envelope::Envelope;
use crate::format::record::CameBack;
use crate::operate::limits;
use crate::queue::{MAX_BATCH, Part, Progress, Queue, decode};
use crate::script::{
    By, ByteStrings, Counts as CountsScript, CountsReply, Declared, Find, JobKeys, Peek, PeekedReply, ProgressOf,
};
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::id;
use crate::value::name;
use crate::value::state::State;
use crate::value::time::Millis;

/// The time in an id is believed from the first minute of 2026 on, before which duly made none, in milliseconds since 1970.
const FIRST_ID_AT: u64 = 1_767_225_600_000;

/// And no later than a day from now: clocks differ.
const MAX_AHEAD: u64 = 24 * 3600 * 1000;

/// How many jobs are where, and what comes next.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that wait for their due time.
    pub delayed: u64,
    /// Jobs that may be reserved now.
    pub ready: u64,
    /// Jobs that a worker has.
    pub reserved: u64,
    /// Jobs that failed for good.
    pub failed: u64,
    /// Is the queue paused? One with partitions is if some of them are: their jobs are not handed out.
    pub paused: bool,
    /// How many of its parts are paused; a queue without partitions is one part. A pause or resume that failed on its way has reached
    /// some of them only.
    pub paused_parts: u16,
    /// For how long the oldest ready job could have run, in milliseconds: since the end of the delay of its push. By the pushing host's
    /// clock, in whole seconds; retries and reschedules do not change it.
    pub oldest_ready_age: Option<Millis>,
    /// How long until the next delayed job is due; zero if it is overdue.
    pub next_due_in: Option<Millis>,
    /// For how long the first delayed job is due that no reserve has made ready, because no worker asks or the queue is paused; nothing
    /// while none is due. By the server's clock.
    pub overdue: Option<Millis>,
    /// How long until the next lease ends; zero if it is over.
    pub next_lease_end_in: Option<Millis>,
    /// Totals over the queue's life: `pushed`, `acked`, `retried`, `released`, `failed`, `reclaimed`, `cancelled`,
    /// `requeued`, `purged`, `trimmed`, `expired`. For information only.
    pub totals: Vec<(String, u64)>,
    /// Which limit holds jobs back just now, as a sentence: that of the queue, or those of names; nothing while none does.
    pub held: Option<String>,
}

impl Counts {
    /// The total of this name, such as `pushed`; 0 if nothing was counted.
    pub fn total(&self, name: &str) -> u64 {
        self.totals.iter().find(|(known, _)| known == name).map_or(0, |(_, total)| *total)
    }

    /// How many jobs are in this state.
    pub fn of(&self, state: State) -> u64 {
        match state {
            State::Delayed => self.delayed,
            State::Ready => self.ready,
            State::Reserved => self.reserved,
            State::Failed => self.failed,
        }
    }

    /// Both together, for parts of one queue.
    pub(crate) fn add(&mut self, other: Self) {
        let sooner = |one: Option<Millis>, other: Option<Millis>| one.into_iter().chain(other).min();
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.reserved += other.reserved;
        self.failed += other.failed;
        // Jobs of the part that is paused would wait, and nobody would learn why.
        self.paused |= other.paused;
        self.paused_parts = self.paused_parts.saturating_add(other.paused_parts);
        self.held = self.held.take().and(other.held);
        self.oldest_ready_age = self.oldest_ready_age.max(other.oldest_ready_age);
        self.next_due_in = sooner(self.next_due_in, other.next_due_in);
        self.overdue = self.overdue.max(other.overdue);
        self.next_lease_end_in = sooner(self.next_lease_end_in, other.next_lease_end_in);
        for (name, total) in other.totals {
            match self.totals.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += total,
                None => self.totals.push((name, total)),
            }
        }
    }
}

/// A job as [`Queue::peek`](crate::Queue::peek) shows it.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct JobView {
    /// The complete package.
    pub envelope: Envelope,
    /// Where it is.
    pub state: State,
    /// Due time, end of the lease, or time of failure, by the server's clock; nothing for a ready job.
    pub at: Option<Millis>,
    /// How often it came back from a worker.
    pub returns: u32,
    /// Why the record could not be decoded, if so; the envelope's data is then `null`, and its bytes are the [`JobView::package`].
    pub undecodable: Option<String>,
    record: Option<Vec<u8>>,
    /// How far its run has come, if it is reserved and its handler has reported that
    /// ([`Job::progress`](crate::Job::progress)).
    pub progress: Option<Progress>,
}

/// Where one job is and why it is not running.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct Found {
    /// The job.
    pub job: JobView,
    /// The token of its lease, when it is reserved.
    pub token: Option<u64>,
    /// The server's time of this answer.
    pub now: Millis,
    /// One sentence: why it waits, or which worker has it.
    pub why: String,
}

impl Queue {
    /// How many jobs are in each state, and what comes next. A partitioned queue gives the sums; it is paused if some part is,
    /// and held by a limit only if every part is.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let (first, others) = self.first_and_others();
        let mut all = first.counts().await?;
        for part in others {
            all.add(part.counts().await?);
        }
        Ok(all)
    }

    /// One page of the jobs in a state: the next due, the next to be reserved, the next lease to end, the first to have
    /// failed come first; among the ready ones those that a limit of their name holds back come last. At most 1,000 jobs. Where ready
    /// jobs were cancelled, 2,000 entries that no longer count are passed by in a call, and beyond 2,000 entries `offset` counts
    /// them, too. A partitioned queue is shown part after
    /// part.
    pub async fn peek(&self, state: State, offset: usize, limit: usize) -> Result<Vec<JobView>, Error> {
        if limit == 0 || limit > MAX_BATCH {
            return Err(self.during("peek")(Error::invalid(format!("a page has 1 to {MAX_BATCH} jobs"))));
        }
        if let [part] = self.each_part() {
            return part.peek(state, offset, limit).await;
        }
        let mut page = Vec::new();
        let mut skip = offset;
        for part in self.each_part() {
            let count = usize::try_from(part.counts().await?.of(state)).unwrap_or(usize::MAX);
            if skip >= count {
                skip -= count;
                continue;
            }
            page.extend(part.peek(state, skip, limit - page.len()).await?);
            skip = 0;
            if page.len() >= limit {
                break;
            }
        }
        Ok(page)
    }

    /// Where the job with this id is and why it is not running; `None` if there is no such job.
    pub async fn find(&self, id: &str) -> Result<Option<Found>, Error> {
        name::check_id(id).map_err(self.during("find"))?;
        for part in self.parts_by_id(id) {
            if let Some(found) = part.find(By::Id, id).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Where the live job that has this business key is; `None` if no job has it.
    pub async fn find_key(&self, key: &str) -> Result<Option<Found>, Error> {
        name::check_key(key).map_err(self.during("find"))?;
        self.part_of(key).find(By::Key, key).await
    }
}

impl Part {
    pub(crate) async fn counts(&self) -> Result<Counts, Error> {
        self.counts_for("counts").await
    }

    pub(crate) async fn counts_for(&self, operation: &'static str) -> Result<Counts, Error> {
        let reply = self.counts_now(operation).await?;
        let until = |at: i64| Millis::new(u64::try_from(at.saturating_sub(reply.now)).unwrap_or(0));
        let since = |at: i64| Millis::new(u64::try_from(reply.now.saturating_sub(at)).unwrap_or(0));
        let now = u64::try_from(reply.now).unwrap_or(0);
        let oldest = reply.heads.iter().filter_map(|(id, record)| first_due(id, record, now)).min();
        Ok(Counts {
            delayed: count(reply.delayed),
            ready: count(reply.ready),
            reserved: count(reply.reserved),
            failed: count(reply.failed),
            paused: reply.paused,
            paused_parts: u16::from(reply.paused),
            oldest_ready_age: oldest.map(|due| Millis::new(now.saturating_sub(due))),
            next_due_in: reply.next_due.map(until),
            overdue: reply.next_due.filter(|due| *due <= reply.now).map(since),
            next_lease_end_in: reply.next_lease_end.map(until),
            held: limits::held_back(&reply.limits, reply.now),
            totals: reply.stats.into_iter().map(|(name, total)| (name, count(total))).collect(),
        })
    }

    pub(crate) async fn counts_now(&self, operation: &'static str) -> Result<CountsReply, Error> {
        self.run(CountsScript {}.with([]).during(operation)).await
    }

    pub(crate) async fn peek(&self, state: State, offset: usize, limit: usize) -> Result<Vec<JobView>, Error> {
        let mut jobs: Vec<JobView> = Vec::new();
        let (mut seen, mut cursor) = (0, Vec::new());
        while seen < limit {
            let offset = offset.saturating_add(seen);
            let rest = Peek { state: state.as_str(), offset, limit: limit - seen, cursor: cursor.clone() };
            let page = self.run(rest.with([])).await?;
            jobs.extend(page.jobs.iter().map(|job| JobView::new(state, job)));
            if state == State::Ready {
                keep_last(&mut jobs);
            }
            // A call reads so many bytes of records, and passes by so many entries, at the most.
            seen = match (page.next, page.ends_at) {
                (Some(next), _) => {
                    cursor = next;
                    jobs.len()
                }
                (None, Some(looked_at)) => seen.saturating_add(looked_at),
                (None, None) => limit,
            };
        }
        self.add_progress("peek", &mut jobs).await?;
        Ok(jobs)
    }

    pub(crate) async fn find(&self, by: By, value: &str) -> Result<Option<Found>, Error> {
        let Some(found) = self.run(Find { by }.with([value])).await? else { return Ok(None) };
        let state = State::parse(&found.state)
            .map_err(|_| self.during("find")(Error::new(ErrorKind::Protocol, "an unknown state")))?;
        let now = Millis::new(u64::try_from(found.now).unwrap_or(0));
        let mut job = JobView::new(state, &found.job);
        self.add_progress("find", std::slice::from_mut(&mut job)).await?;
        let is_paused = found.paused.then(|| "the queue is paused".to_owned());
        let held = is_paused.or_else(|| limits::held_back(&found.limits, found.now));
        let why = why(&job, now, held);
        Ok(Some(Found { job, token: found.token, now, why }))
    }

    /// Adds to jobs that run how far they have come.
    async fn add_progress(&self, operation: &'static str, jobs: &mut [JobView]) -> Result<(), Error> {
        let mut running: Vec<_> = jobs.iter_mut().filter(|job| job.state == State::Reserved).collect();
        if running.is_empty() {
            return Ok(());
        }
        let mut ids = ByteStrings::default();
        for job in &running {
            ids.push(job.envelope.id.as_bytes());
        }
        let look = ProgressOf { progress_count: JobKeys(ids.clone()) };
        let notes = self.run(look.with(ids.iter()).during(operation)).await?;
        for (job, note) in running.iter_mut().zip(notes) {
            job.progress = Progress::read(&note);
        }
        Ok(())
    }
}

impl JobView {
    pub(crate) fn new(state: State, job: &PeekedReply) -> Self {
        let at = job.score.and_then(|at| u64::try_from(at).ok()).map(Millis::new);
        match decode(&job.id, &job.record, &job.came_back) {
            Ok((envelope, returns)) => {
                Self { envelope, state, at, returns, undecodable: None, record: None, progress: None }
            }
            Err(error) => Self {
                envelope: undecodable(&job.id, &job.came_back),
                state,
                at,
                returns: 0,
                undecodable: Some(error.to_string()),
                record: Some(job.record.clone()),
                progress: None,
            },
        }
    }

    /// The complete JSON package, as an export or an older consumer reads it; what is stored, byte for byte, if that could not
    /// be decoded.
    pub fn package(&self) -> Vec<u8> {
        self.record.clone().unwrap_or_else(|| self.envelope.encode_complete())
    }
}

/// When it was due first, in ms since 1970. Of a job that does not say when it was pushed, or cannot be read, its id may: if that is no
/// time at which duly can have made it, such as that of `0000000000000042`, it is no id of duly's.
fn first_due(id: &str, record: &[u8], now: u64) -> Option<u64> {
    let made_at = id::made_at(id);
    let is_believable = |at: &Millis| (FIRST_ID_AT..=now.saturating_add(MAX_AHEAD)).contains(&at.get());
    let by_id = made_at.filter(is_believable);
    // A record without a time has that of its id.
    let is_its_own = |time: u64| time > 0 && (by_id.is_some() || made_at.is_none_or(|at| at.whole_seconds() != time));
    let timed = decode(id, record, b"").ok().filter(|(job, _)| is_its_own(job.time));
    let due = timed.map(|(job, _)| job.time.saturating_mul(1000).saturating_add(job.delay.to_millis().get()));
    due.or_else(|| by_id.map(Millis::get))
}

/// Of a job that comes more than once, the entries before the last one no longer count.
fn keep_last(jobs: &mut Vec<JobView>) {
    let mut known = HashSet::new();
    let is_last: Vec<bool> = jobs.iter().rev().map(|job| known.insert(job.envelope.id.clone())).collect();
    let mut is_last = is_last.into_iter().rev();
    jobs.retain(|_| is_last.next().unwrap_or(true));
}

/// What can still be said of a job whose record cannot be decoded.
fn undecodable(id: &str, came_back: &[u8]) -> Envelope {
    let mut envelope = Envelope::new(id, Data::trusted("null"));
    if let Ok(came_back) = CameBack::decode(came_back) {
        envelope.attempts = came_back.attempts;
        envelope.error = came_back.error;
    }
    envelope
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn why(job: &JobView, now: Millis, held: Option<String>) -> String {
    let at = job.at.unwrap_or(Millis::ZERO);
    let held = held.map_or(String::new(), |held| format!("; {held}"));
    let is_waiting = matches!(job.state, State::Delayed | State::Ready);
    let has_begun = job.returns > 0 || job.envelope.attempts > 0;
    let expires = job.envelope.expires.filter(|_| is_waiting && !has_begun);
    let held = match expires {
        Some(expires) if expires <= now => {
            return format!("expired {} s ago: the next worker that comes to it drops it", now.saturating_sub(expires));
        }
        Some(expires) if expires <= at => {
            format!("{held}; it expires before that, in {} s, and is dropped then", expires.saturating_sub(now))
        }
        Some(expires) => {
            format!("{held}; it expires in {} s, and is dropped unless it has started", expires.saturating_sub(now))
        }
        None => held,
    };
    match job.state {
        State::Delayed if at > now => {
            let cause = if job.envelope.attempts > 0 { "waits to be retried" } else { "waits for its due time" };
            format!("{cause}, in {} s{held}", at.saturating_sub(now))
        }
        State::Delayed => {
            format!("is due since {} s and goes to a worker at the next reserve{held}", now.saturating_sub(at))
        }
        State::Ready => format!("is ready and waits for a worker{held}"),
        State::Reserved if at > now => {
            format!("a worker has it; its lease ends in {} s unless it is extended", at.saturating_sub(now))
        }
        State::Reserved => {
            format!("its lease is over since {} s; the next reserve takes it back{held}", now.saturating_sub(at))
        }
        State::Failed => format!(
            "failed {} s ago after {} failures: requeue or cancel it",
            now.saturating_sub(at),
            job.envelope.attempts
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::id::IdGenerator;

    #[test]
    fn the_age_of_a_job_does_not_depend_on_how_long_it_was_delayed() {
        const DAY: u64 = 24 * 3600 * 1000;
        let made_at = Millis::new(FIRST_ID_AT + 5 * DAY);
        let id = IdGenerator::new().next(made_at).unwrap().as_str().to_owned();
        for delay in [0, 10, 399, 401, 4000] {
            let record = format!("{{\"delay\":{},\"data\":1}}", delay * DAY / 1000);
            let due = made_at.get() + delay * DAY;
            for now in [due, due + 500 * DAY, made_at.get() - DAY / 2] {
                assert_eq!(first_due(&id, record.as_bytes(), now), Some(due), "{delay} days, at {now}");
            }
        }
        assert_eq!(first_due(&id, b"{\"data\":1}", made_at.get() - 2 * DAY), None, "no clock is so far ahead");
    }
}
