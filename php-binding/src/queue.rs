//! `Duly\Queue`.

use std::time::Duration;

use duly::{AuditOptions, ReserveOptions, blocking};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::audit::AuditReport;
use crate::convert::{self, Text, given, lease_span, millis, moment, span, span_or_interval, texts, when, whole};
use crate::error::Fault;
use crate::history::Trace;
use crate::inspect::{Counts, Found, JobView};
use crate::job::Job;
use crate::limits::{Limits, limits_of};
use crate::new_job::Options;
use crate::operate::{Cancelled, Requeued};
use crate::push_many::{PushSummary, push_many};
use crate::rates::Rates;
use crate::record::signed;
use crate::registry::WorkerInfo;
use crate::retry::RetryPolicy;
use crate::schedules::Schedules;
use crate::search::{SearchPage, Which};
use crate::select::{By, by};
use crate::waiting::{Signals, unless_interrupted};
use crate::words;

/// A queue of a client, partitioned or not.
#[php_class]
#[php(name = "Duly\\Queue")]
#[php(flags = ClassFlags::Final)]
pub struct Queue {
    queue: blocking::Queue,
}

impl Queue {
    pub fn new(queue: blocking::Queue) -> Self {
        Self { queue }
    }

    fn lease(&self, options: &ReserveOptions) -> Result<Vec<blocking::Job>, Fault> {
        unless_interrupted(self.queue.reserve(options, &mut Signals)?)
    }
}

#[php_impl]
impl Queue {
    /// The queue's name.
    #[php(getter)]
    pub fn name(&self) -> String {
        self.queue.name().to_owned()
    }

    /// The parts of a partitioned queue, each a queue of its own; empty if it is not partitioned.
    #[php(getter)]
    pub fn parts(&self) -> Vec<Queue> {
        self.queue.parts().iter().cloned().map(Queue::new).collect()
    }

    /// Its schedules: jobs that come again and again.
    #[php(getter)]
    pub fn schedules(&self) -> Schedules {
        Schedules::new(self.queue.clone())
    }

    /// Puts a job in and gives its id (of the job that stays, with `onDuplicate: 'keep'`). `delay` is seconds, `at` unix
    /// seconds or a `DateTimeInterface`; `raw` is data that is JSON already, in place of `data`.
    #[php(optional = data)]
    pub fn push(
        &self,
        data: Option<&Zval>,
        name: Option<Text>,
        delay: Option<&Zval>,
        at: Option<&Zval>,
        id: Option<Text>,
        key: Option<Text>,
        priority: Option<i64>,
        maxRetries: Option<i64>,
        retry: Option<&RetryPolicy>,
        timeout: Option<&Zval>,
        headers: Option<&ZendHashTable>,
        resultTtl: Option<&Zval>,
        onDuplicate: Option<&Zval>,
        raw: Option<&Zval>,
        durability: Option<Text>,
        expires: Option<&Zval>,
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
            resultTtl,
            onDuplicate,
            raw,
            durability,
            expires,
        };
        let job = options.into_job().map_err(|fault| fault.in_call("push", self.queue.name()))?;
        Ok(self.queue.push(job, &mut Signals)?.id().to_owned())
    }

    /// Puts any number of jobs in, 1,000 at a time; each a `Duly\\NewJob` or an array of its arguments by name.
    #[php(defaults(ids = false))]
    pub fn push_many(&self, jobs: &Zval, ids: bool, durability: Option<Text>) -> PhpResult<PushSummary> {
        let push = |batch, before| self.queue.push_some(batch, before, &mut Signals);
        let summary = push_many(jobs, ids, durability, push);
        Ok(summary.map_err(|fault| fault.in_call("push_many", self.queue.name()))?)
    }

    /// Leases the next job, or gives null when there is none until `wait` seconds are over.
    #[php(optional = wait)]
    #[php(defaults(renew = false))]
    pub fn reserve(&self, wait: Option<&Zval>, lease: Option<&Zval>, renew: bool) -> PhpResult<Option<Job>> {
        let (options, lease) = reserve_options(1, wait, lease)?;
        let Some(job) = self.lease(&options)?.pop() else { return Ok(None) };
        Ok(Some(if renew { Job::renewed(job, lease)? } else { Job::leased(job, lease) }))
    }

    /// Leases up to `max` jobs (1 to 1,000).
    #[php(optional = wait)]
    pub fn reserve_many(&self, max: i64, wait: Option<&Zval>, lease: Option<&Zval>) -> PhpResult<Vec<Job>> {
        let (options, lease) = reserve_options(max, wait, lease)?;
        Ok(self.lease(&options)?.into_iter().map(|job| Job::leased(job, lease)).collect())
    }

    /// Acks jobs; one bool each, false where the lease was lost.
    pub fn ack_many(&self, jobs: &ZendHashTable) -> PhpResult<Vec<bool>> {
        Ok(Job::ack_all(&self.queue, &Job::list(jobs)?)?)
    }

    /// Removes a job in whatever state it is, or `only` in these states; gives null if there is no such job.
    #[php(optional = id)]
    pub fn cancel(&self, id: Option<Text>, key: Option<Text>, only: Option<&Zval>) -> PhpResult<Option<Cancelled>> {
        let only = given(only).map(|only| words::states("only", only)).transpose()?;
        let cancelled = match (by(id, key)?, only) {
            (By::Id(id), None) => self.queue.cancel(&id, &mut Signals)?,
            (By::Id(id), Some(only)) => self.queue.cancel_only(&id, &only, &mut Signals)?,
            (By::Key(key), None) => self.queue.cancel_key(&key, &mut Signals)?,
            (By::Key(key), Some(only)) => self.queue.cancel_key_only(&key, &only, &mut Signals)?,
        };
        Ok(cancelled.map(Cancelled::from))
    }

    /// Gives a waiting job another due time; gives its id.
    #[php(optional = id)]
    pub fn reschedule(
        &self,
        id: Option<Text>,
        key: Option<Text>,
        delay: Option<&Zval>,
        at: Option<&Zval>,
    ) -> PhpResult<String> {
        let when = when(delay, at)?.ok_or_else(|| Fault::invalid("say when: give delay or at"))?;
        Ok(match by(id, key)? {
            By::Id(id) => self.queue.reschedule(&id, when, &mut Signals)?,
            By::Key(key) => self.queue.reschedule_key(&key, when, &mut Signals)?,
        })
    }

    /// Sends failed jobs round again, with their failures forgotten.
    pub fn requeue(&self, ids: &[&Zval]) -> PhpResult<Vec<Requeued>> {
        let ids = texts("id", ids)?;
        let outcomes = self.queue.requeue(&ids, &mut Signals)?;
        Ok(ids.into_iter().zip(outcomes).map(|(id, outcome)| Requeued::new(id, outcome)).collect())
    }

    /// Sends all failed jobs round again; gives how many.
    pub fn requeue_all(&self) -> PhpResult<i64> {
        Ok(signed(self.queue.requeue_all(&mut Signals)?))
    }

    /// Removes all jobs in a state; gives how many.
    pub fn purge(&self, state: &Zval) -> PhpResult<i64> {
        Ok(signed(self.queue.purge(words::state(state)?, &mut Signals)?))
    }

    /// Removes all jobs that are `delayed` or `ready`; gives how many.
    pub fn clear(&self) -> PhpResult<i64> {
        Ok(signed(self.queue.clear(&mut Signals)?))
    }

    /// Removes the queue with all that it has.
    #[php(defaults(jobs = 0))]
    pub fn delete(&self, jobs: i64) -> PhpResult<()> {
        Ok(self.queue.delete(whole("jobs", jobs, i64::MAX)?, &mut Signals)?)
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
        let age = millis("age", age)?.to_duration();
        Ok(self.queue.keep_failed(whole("max", max, i64::MAX)?, age, &mut Signals)?)
    }

    /// Limits how many jobs run at once and how many start in so many seconds, in all workers together.
    pub fn set_limits(
        &self,
        concurrency: Option<i64>,
        rate: Option<&ZendHashTable>,
        names: Option<&ZendHashTable>,
        maxLength: Option<i64>,
    ) -> PhpResult<()> {
        Ok(self.queue.set_limits(&limits_of(concurrency, rate, names, maxLength)?, &mut Signals)?)
    }

    /// The limits that are set.
    pub fn limits(&self) -> PhpResult<Limits> {
        Ok(self.queue.limits(&mut Signals)?.into())
    }

    /// How many jobs are in each state, and what comes next.
    pub fn counts(&self) -> PhpResult<Counts> {
        Ok(self.queue.counts(&mut Signals)?.into())
    }

    /// One page of the jobs in a state.
    #[php(defaults(offset = 0, limit = 100))]
    pub fn peek(&self, state: &Zval, offset: i64, limit: i64) -> PhpResult<Vec<JobView>> {
        let (offset, limit) = (whole("offset", offset, i64::MAX)?, whole("limit", limit, i64::MAX)?);
        let page = self.queue.peek(words::state(state)?, offset, limit, &mut Signals)?;
        Ok(page.into_iter().map(JobView::new).collect())
    }

    /// One page of the jobs in a state that match a filter.
    #[php(optional = name)]
    #[php(defaults(limit = 100))]
    pub fn search(
        &self,
        state: &Zval,
        name: Option<Text>,
        keyPrefix: Option<Text>,
        error: Option<Text>,
        priority: Option<i64>,
        olderThan: Option<&Zval>,
        since: Option<&Zval>,
        until: Option<&Zval>,
        limit: i64,
        cursor: Option<Text>,
    ) -> PhpResult<SearchPage> {
        let filter = Which { name, keyPrefix, error, priority, olderThan, since, until }.into_filter()?;
        let (limit, cursor) = (whole("limit", limit, i64::MAX)?, convert::utf8("cursor", cursor)?);
        Ok(self.queue.search(words::state(state)?, &filter, cursor.as_deref(), limit, &mut Signals)?.into())
    }

    /// Where a job is and why it is not running, or null if there is no such job.
    #[php(optional = id)]
    pub fn find(&self, id: Option<Text>, key: Option<Text>) -> PhpResult<Option<Found>> {
        let found = match by(id, key)? {
            By::Id(id) => self.queue.find(&id, &mut Signals)?,
            By::Key(key) => self.queue.find_key(&key, &mut Signals)?,
        };
        Ok(found.map(Found::new))
    }

    /// The workers that are alive: where, since when, and what each runs.
    pub fn workers(&self) -> PhpResult<Vec<WorkerInfo>> {
        Ok(self.queue.workers(&mut Signals)?.into_iter().map(WorkerInfo::from).collect())
    }

    /// What the runs of the last so many seconds came to, of an hour unless said otherwise.
    #[php(optional = within)]
    pub fn rates(&self, within: Option<&Zval>) -> PhpResult<Rates> {
        let within = given(within).map(|within| span_or_interval("within", within)).transpose()?;
        Ok(self.queue.rates(within.unwrap_or(duly::DEFAULT_RATES_WITHIN), &mut Signals)?.into())
    }

    /// Keeps a history of about so many jobs, for so many seconds.
    #[php(optional = jobs)]
    pub fn keep_history(&self, jobs: Option<i64>, age: Option<&Zval>) -> PhpResult<()> {
        let jobs = jobs.map(|jobs| whole("jobs", jobs, 1_000_000)).transpose()?;
        let age = given(age).map(|age| span_or_interval("age", age)).transpose()?;
        let (jobs, age) = (jobs.unwrap_or(duly::DEFAULT_HISTORY_JOBS), age.unwrap_or(duly::DEFAULT_HISTORY_AGE));
        Ok(self.queue.keep_history(jobs, age, &mut Signals)?)
    }

    /// The life of a job, or null if nothing is known of it.
    pub fn trace(&self, id: Text) -> PhpResult<Option<Trace>> {
        Ok(self.queue.trace(&id.utf8("id")?, &mut Signals)?.map(Trace::from))
    }

    /// What the job gave, when it is done: at once, or as soon as it is; without a timeout (seconds) as long as that takes.
    /// Decoded as `Job::data` decodes.
    #[php(optional = timeout)]
    #[php(defaults(assoc = true))]
    pub fn wait_result(&self, id: Text, timeout: Option<&Zval>, assoc: bool) -> PhpResult<Zval> {
        let timeout = given(timeout).map(|timeout| millis("timeout", timeout)).transpose()?;
        let timeout = timeout.map(duly::Millis::to_duration);
        let result = self.queue.wait_result(&id.utf8("id")?, timeout, &mut Signals)?;
        Ok(convert::decode(result.as_str(), assoc)?)
    }

    /// Checks the queue's invariants while it is in use, and mends what is broken if asked to.
    #[php(defaults(repair = false))]
    pub fn audit(&self, repair: bool) -> PhpResult<AuditReport> {
        Ok(self.queue.audit(AuditOptions::new().repair(repair), &mut Signals)?.into())
    }

    /// For tests, with a client made with `manualClock: true`: sets the clock to these unix seconds.
    pub fn set_clock(&self, now: &Zval) -> PhpResult<()> {
        Ok(self.queue.set_clock(moment("now", now)?, &mut Signals)?)
    }
}

/// What `reserve`, `reserveMany` and `Client::reserveFrom` have in common; and the lease.
pub fn reserve_options(
    max: i64,
    wait: Option<&Zval>,
    lease: Option<&Zval>,
) -> Result<(ReserveOptions, Duration), Fault> {
    let wait = span("wait", wait, Duration::ZERO)?;
    let lease = lease_span(lease)?;
    let largest = i64::try_from(duly::MAX_BATCH).unwrap_or(i64::MAX);
    Ok((ReserveOptions::new().max(whole("max", max, largest)?).wait(wait).lease(lease), lease))
}
