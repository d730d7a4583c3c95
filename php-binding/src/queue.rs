//! `Duly\Queue`.

use std::time::Duration;

use duly::blocking::{self, Interrupt};
use duly::{Cancelled, Counts, Envelope, Found, JobView, Millis, Pushed, Requeued, ReserveOptions, State};
use ext_php_rs::boxed::ZBox;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};
use ext_php_rs::zend::ExecutorGlobals;

use crate::convert;
use crate::error::Fault;
use crate::interrupt::Signals;
use crate::job::Job;
use crate::new_job::{NewJob, Options};
use crate::retry::RetryPolicy;
use crate::when::{span, when};

/// A queue of a client.
#[php_class]
#[php(name = "Duly\\Queue")]
#[php(flags = ClassFlags::Final)]
pub struct Queue {
    pub queue: blocking::Queue,
}

type Table = ZBox<ZendHashTable>;

fn count(name: &str, number: i64) -> Result<usize, Fault> {
    usize::try_from(number).map_err(|_| Fault::invalid(format!("{name} must not be negative")))
}

/// What `reserve`, `reserveMany` and `Client::reserveFrom` have in common.
pub fn reserve_options(max: usize, wait: Option<&Zval>, lease: Option<&Zval>) -> Result<ReserveOptions, Fault> {
    let wait = span("wait", wait, Duration::ZERO)?;
    let lease = span("lease", lease, duly::DEFAULT_LEASE)?;
    Ok(ReserveOptions::new().max(max).wait(wait).lease(lease))
}

impl Queue {
    fn reserve_jobs(&self, max: usize, wait: Option<&Zval>, lease: Option<&Zval>) -> Result<Vec<Job>, Fault> {
        let options = reserve_options(max, wait, lease)?;
        let jobs = self.queue.reserve(&options, &mut Signals)?;
        Ok(jobs.into_iter().map(Job::new).collect())
    }

    /// Takes jobs from an iterable a batch at a time, so that a generator of millions needs no memory.
    fn push_all(&self, jobs: &Zval, collect: bool) -> Result<Table, Fault> {
        // Not by reference: a generator expression must do.
        let mut jobs = jobs.shallow_clone();
        let mut iterable =
            jobs.iterable().ok_or_else(|| Fault::invalid("jobs must be an iterable of Duly\\NewJob or arrays"))?;
        let mut items = iterable.iter().ok_or_else(|| Fault::invalid("jobs cannot be iterated"))?;
        let (mut created, mut kept, mut replaced, mut duplicates) = (0_i64, 0_i64, 0_i64, 0_i64);
        let mut ids = ZendHashTable::new();
        loop {
            let mut batch = Vec::new();
            for (_, item) in items.by_ref().take(duly::MAX_BATCH) {
                batch.push(NewJob::from_item(&item)?);
            }
            if ExecutorGlobals::has_exception() {
                return Err(Fault::Thrown);
            }
            if batch.is_empty() {
                break;
            }
            for pushed in self.queue.push_batch(batch, &mut Signals)? {
                match &pushed {
                    Pushed::Created { .. } => created += 1,
                    Pushed::Kept { .. } => kept += 1,
                    Pushed::Replaced { .. } => replaced += 1,
                    _ => duplicates += 1,
                }
                if collect {
                    ids.push(pushed.id()).map_err(internal)?;
                }
            }
            Signals.check()?;
        }
        let mut summary = ZendHashTable::new();
        for (name, number) in [("created", created), ("kept", kept), ("replaced", replaced), ("duplicates", duplicates)]
        {
            summary.insert(name, number).map_err(internal)?;
        }
        if collect {
            summary.insert("ids", ids).map_err(internal)?;
        }
        Ok(summary)
    }

    fn state(name: &str) -> Result<State, Fault> {
        Ok(State::parse(name)?)
    }
}

/// The engine could not build an array: out of memory.
fn internal(error: ext_php_rs::error::Error) -> Fault {
    Fault::invalid(format!("PHP could not build the answer: {error}"))
}

#[php_impl]
impl Queue {
    /// The queue's name.
    #[php(getter)]
    pub fn get_name(&self) -> String {
        self.queue.name().to_owned()
    }

    /// Puts a job in and gives its id (of the job that stays, with `onDuplicate: 'keep'`). `delay` is seconds, `at` unix seconds
    /// or a `DateTimeInterface`; `rawJson` is data that is JSON already, with null as `data`.
    #[php(optional = name)]
    pub fn push(
        &self,
        data: &Zval,
        name: Option<String>,
        delay: Option<&Zval>,
        at: Option<&Zval>,
        id: Option<String>,
        key: Option<String>,
        priority: Option<i64>,
        maxRetries: Option<i64>,
        retry: Option<&RetryPolicy>,
        timeout: Option<&Zval>,
        headers: Option<&ZendHashTable>,
        onDuplicate: Option<String>,
        rawJson: Option<&Zval>,
    ) -> PhpResult<String> {
        let options = Options {
            data,
            name,
            delay,
            at,
            id,
            key,
            priority,
            maxRetries,
            retry,
            timeout,
            headers,
            onDuplicate,
            rawJson,
        };
        let pushed = self.queue.push(options.into_job()?, &mut Signals)?;
        Ok(pushed.id().to_owned())
    }

    /// Puts any number of jobs in, 1,000 at a time; each a `Duly\\NewJob` or an array of its arguments by name. Gives
    /// `created`, `kept`, `replaced`, `duplicates` and, if asked, `ids`.
    #[php(defaults(ids = false))]
    pub fn push_many(&self, jobs: &Zval, ids: bool) -> PhpResult<Table> {
        Ok(self.push_all(jobs, ids)?)
    }

    /// Leases the next job, or gives null when there is none until `wait` seconds are over.
    #[php(optional = wait)]
    pub fn reserve(&self, wait: Option<&Zval>, lease: Option<&Zval>) -> PhpResult<Option<Job>> {
        Ok(self.reserve_jobs(1, wait, lease)?.pop())
    }

    /// Leases up to `max` jobs (1 to 1,000).
    #[php(optional = wait)]
    pub fn reserve_many(&self, max: i64, wait: Option<&Zval>, lease: Option<&Zval>) -> PhpResult<Vec<Job>> {
        Ok(self.reserve_jobs(count("max", max)?, wait, lease)?)
    }

    /// Acks jobs; one bool each, false where the lease was lost.
    pub fn ack_many(&self, jobs: &ZendHashTable) -> PhpResult<Vec<bool>> {
        let jobs: Vec<&Job> = convert::values(jobs)
            .map(Zval::extract::<&Job>)
            .collect::<Option<_>>()
            .ok_or_else(|| Fault::invalid("jobs must be a list of Duly\\Job"))?;
        let reserved: Vec<blocking::Job> = jobs.iter().map(|job| job.job.clone()).collect();
        let acked = self.queue.ack_all(&reserved, &mut Signals)?;
        for (job, &acked) in jobs.iter().zip(&acked) {
            job.settled.set(job.settled.get() || acked);
        }
        Ok(acked)
    }

    /// Removes the job with this id in whatever state it is. Gives its `id` and what it `was`, or null if there is no
    /// such job.
    pub fn cancel(&self, id: String) -> PhpResult<Option<Table>> {
        Ok(cancelled_table(self.queue.cancel(&id, &mut Signals)?)?)
    }

    /// Removes the live job that holds this business key. Gives what `cancel` does.
    pub fn cancel_key(&self, key: String) -> PhpResult<Option<Table>> {
        Ok(cancelled_table(self.queue.cancel_key(&key, &mut Signals)?)?)
    }

    /// Gives a waiting job another due time; gives its id.
    #[php(optional = delay)]
    pub fn reschedule(&self, id: String, delay: Option<&Zval>, at: Option<&Zval>) -> PhpResult<String> {
        Ok(self.queue.reschedule(&id, when(delay, at)?, &mut Signals)?)
    }

    /// Like `reschedule`, of the live job that holds this business key.
    #[php(optional = delay)]
    pub fn reschedule_key(&self, key: String, delay: Option<&Zval>, at: Option<&Zval>) -> PhpResult<String> {
        Ok(self.queue.reschedule_key(&key, when(delay, at)?, &mut Signals)?)
    }

    /// Sends failed jobs round again. One word an id: `ready`, `duplicate` (its key belongs to another job now) or `absent`.
    pub fn requeue(&self, ids: &ZendHashTable) -> PhpResult<Vec<String>> {
        let requeued = self.queue.requeue(&convert::strings("ids", ids)?, &mut Signals)?;
        let word = |outcome| match outcome {
            Requeued::Ready => "ready".to_owned(),
            Requeued::Duplicate { .. } => "duplicate".to_owned(),
            _ => "absent".to_owned(),
        };
        Ok(requeued.into_iter().map(word).collect())
    }

    /// Sends all failed jobs round again; gives how many.
    pub fn requeue_all(&self) -> PhpResult<i64> {
        Ok(signed(self.queue.requeue_all(&mut Signals)?))
    }

    /// Removes all jobs that are `delayed`, `ready` or `failed`; gives how many.
    pub fn purge(&self, state: String) -> PhpResult<i64> {
        Ok(signed(self.queue.purge(Self::state(&state)?, &mut Signals)?))
    }

    /// Hands out no more jobs until `resume`.
    pub fn pause(&self) -> PhpResult<()> {
        Ok(self.queue.pause(&mut Signals)?)
    }

    /// Hands out jobs again.
    pub fn resume(&self) -> PhpResult<()> {
        Ok(self.queue.resume(&mut Signals)?)
    }

    /// Moves due jobs to ready by hand; gives how many.
    pub fn promote(&self) -> PhpResult<i64> {
        Ok(signed(self.queue.promote(&mut Signals)?))
    }

    /// Takes back leases that are over by hand; gives how many.
    pub fn reclaim(&self) -> PhpResult<i64> {
        Ok(signed(self.queue.reclaim(&mut Signals)?))
    }

    /// How many failed jobs the queue keeps, and for how many seconds.
    pub fn keep_failed(&self, max: i64, age: &Zval) -> PhpResult<()> {
        let age = span("age", Some(age), Duration::ZERO)?;
        Ok(self.queue.keep_failed(count("max", max)? as u64, age, &mut Signals)?)
    }

    /// How many jobs are where: `delayed`, `ready`, `reserved`, `failed`, `paused`, `oldestReadyAge`, `nextDueIn`,
    /// `nextLeaseEndIn` (seconds or null) and `totals`.
    pub fn counts(&self) -> PhpResult<Table> {
        Ok(counts_table(&self.queue.counts(&mut Signals)?)?)
    }

    /// One page of the jobs in a state, each an array.
    #[php(defaults(offset = 0, limit = 100))]
    pub fn peek(&self, state: String, offset: i64, limit: i64) -> PhpResult<Vec<Table>> {
        let (offset, limit) = (count("offset", offset)?, count("limit", limit)?);
        let page = self.queue.peek(Self::state(&state)?, offset, limit, &mut Signals)?;
        Ok(page.iter().map(|job| view_table(job).map_err(internal)).collect::<Result<_, _>>()?)
    }

    /// Where the job with this id is, as an array, or null.
    pub fn find(&self, id: String) -> PhpResult<Option<Table>> {
        Ok(self.queue.find(&id, &mut Signals)?.map(|found| found_table(&found).map_err(internal)).transpose()?)
    }

    /// Where the live job that holds this business key is, as an array, or null.
    pub fn find_key(&self, key: String) -> PhpResult<Option<Table>> {
        Ok(self.queue.find_key(&key, &mut Signals)?.map(|found| found_table(&found).map_err(internal)).transpose()?)
    }

    /// For tests, with a client made with `manualClock: true`: sets the clock to these unix seconds.
    pub fn set_clock(&self, now: &Zval) -> PhpResult<()> {
        let now = Millis::from_unix_seconds(convert::seconds("now", now)?).map_err(Fault::from)?;
        Ok(self.queue.set_clock(now, &mut Signals)?)
    }
}

fn cancelled_table(cancelled: Option<Cancelled>) -> Result<Option<Table>, Fault> {
    let Some(cancelled) = cancelled else { return Ok(None) };
    let mut table = ZendHashTable::new();
    let mut fill = || -> ext_php_rs::error::Result<()> {
        table.insert("id", cancelled.id.as_str())?;
        table.insert("was", cancelled.was.as_str())
    };
    fill().map_err(internal)?;
    Ok(Some(table))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn counts_table(counts: &Counts) -> Result<Table, Fault> {
    let mut table = ZendHashTable::new();
    let mut fill = || -> ext_php_rs::error::Result<()> {
        table.insert("delayed", signed(counts.delayed))?;
        table.insert("ready", signed(counts.ready))?;
        table.insert("reserved", signed(counts.reserved))?;
        table.insert("failed", signed(counts.failed))?;
        table.insert("paused", counts.paused)?;
        table.insert("oldestReadyAge", counts.oldest_ready_age.map(Millis::as_seconds))?;
        table.insert("nextDueIn", counts.next_due_in.map(Millis::as_seconds))?;
        table.insert("nextLeaseEndIn", counts.next_lease_end_in.map(Millis::as_seconds))?;
        let mut totals = ZendHashTable::new();
        for (name, total) in &counts.totals {
            totals.insert(name.as_str(), signed(*total))?;
        }
        table.insert("totals", totals)
    };
    fill().map_err(internal)?;
    Ok(table)
}

fn view_table(job: &JobView) -> ext_php_rs::error::Result<Table> {
    let envelope = &job.envelope;
    let mut table = ZendHashTable::new();
    table.insert("id", envelope.id.as_str())?;
    table.insert("state", job.state.as_str())?;
    table.insert("at", job.at.map(Millis::as_seconds))?;
    table.insert("name", envelope.name.clone())?;
    table.insert("key", envelope.key.clone())?;
    table.insert("raw", envelope.data.as_str())?;
    table.insert("attempts", i64::from(envelope.attempts))?;
    table.insert("maxRetries", i64::from(envelope.max_attempts))?;
    table.insert("timeout", envelope.timeout.map(Millis::as_seconds))?;
    table.insert("headers", headers_table(envelope)?)?;
    table.insert("returns", i64::from(job.returns))?;
    table.insert("error", envelope.error.as_str())?;
    table.insert("priority", i64::from(envelope.priority))?;
    table.insert("pushedAt", i64::try_from(envelope.time).unwrap_or(0))?;
    table.insert("undecodable", job.undecodable.clone())?;
    Ok(table)
}

/// The headers as name => value.
pub fn headers_table(envelope: &Envelope) -> ext_php_rs::error::Result<Table> {
    let mut headers = ZendHashTable::new();
    for (name, value) in &envelope.headers {
        headers.insert(name.as_str(), value.as_str())?;
    }
    Ok(headers)
}

fn found_table(found: &Found) -> ext_php_rs::error::Result<Table> {
    let mut table = view_table(&found.job)?;
    table.insert("token", found.token.map(signed))?;
    table.insert("why", found.why.as_str())?;
    Ok(table)
}
