//! The methods of a queue, compiled twice: for `duly.Queue`, where a `call` waits, and for `duly.aio.Queue`, where it starts.
//!
//! The parent module says which class `Queue` is here, and what `call`, `reserve_up_to` and `Schedules` are.

use std::sync::Arc;

use duly::{AuditOptions, Error, Settlement};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{Queue, Schedules};
use crate::audit::AuditReport;
use crate::convert::{self, Id, Key, Renew, Repair, StateWord, Text};
use crate::error::Failure;
use crate::history::Trace;
use crate::inspect::{Counts, Found, JobView};
use crate::job::extension;
use crate::limits::{Limits, limits_of};
use crate::new_job::new_job;
use crate::operate::{Cancelled, Requeued};
use crate::queue::{in_call, object, page, parse_state, reserve_options, reserved_jobs, states, texts, when};
use crate::rates::Rates;
use crate::registry::WorkerInfo;
use crate::search::{SearchPage, search_options};
use crate::select::{By, by};

#[pymethods]
impl Queue {
    #[getter]
    pub(crate) fn name(&self) -> &str {
        self.queue.name()
    }

    /// The parts of a partitioned queue, each a queue of its own; empty if it is not partitioned.
    #[getter]
    fn parts(&self) -> Vec<Self> {
        self.queue.parts().iter().cloned().map(Self::new).collect()
    }

    /// The schedules of the queue: jobs that come again and again.
    #[getter]
    fn schedules(&self) -> Schedules {
        Schedules::new(self.queue.clone())
    }

    /// Push a job and return its id.
    ///
    /// Args:
    ///     data: what the handler gets: None, bool, int of at most 64 bits, finite float, str, list, tuple, or dict
    ///         whose keys are str; as JSON at most the client's `max_data_bytes` (1 MiB). Default: None.
    ///     name: selects the handler that runs the job, 1 to 128 bytes. Default: the handler of jobs without a name.
    ///     delay: how long until the job is due, in seconds or as a timedelta, 0 to 100 years. Default: 0.
    ///     at: when the job is due, instead of `delay`: a datetime with a time zone, or unix seconds. A time in the
    ///         past means now. Default: none.
    ///     id: an id of your own, 1 to 128 bytes. If the jobs of a partitioned queue have keys, it is unique only
    ///         within its part. Default: a new one of 16 characters.
    ///     key: a business key such as "close:42", 1 to 256 bytes, to find or cancel the job by. Only one job of the
    ///         queue has it at a time, until that job is done, cancelled or failed for good. Default: none.
    ///     priority: 0 to 9, where 0 goes first. Default: 5.
    ///     max_retries: how often the job may run again after a failure, 0 to 4,294,967,295. Default: 5.
    ///     retry: how long to wait before each retry. Default: `RetryPolicy.linear(5)`, so 5, 10, 15, ... seconds.
    ///     timeout: the longest run, in seconds or as a timedelta, 0.001 s to 100 years. A longer run is interrupted
    ///         and counts as a failure. Default: none.
    ///     headers: strings that travel with the job, such as a trace: at most 64, names of 1 to 128 bytes, values of
    ///         at most 4,096 bytes. Default: none, or the trace of the current span if the program uses OpenTelemetry.
    ///     expires: drops the job if no run of it has started by then: a span from now, in seconds or as a timedelta,
    ///         or a datetime with a time zone; later than the job is due. The push asks the server for its time.
    ///         Default: never.
    ///     result_ttl: how long the handler's return value is kept for `wait_result`, in seconds or as a timedelta,
    ///         0.001 s to 100 years. Default: it is not kept.
    ///     on_duplicate: what to do if another job has this id or key: "refuse" raises DuplicateError, "keep" leaves
    ///         that job and returns its id, "replace" cancels it in whatever state it is. Default: "refuse".
    ///     durability: when the push returns: "none" (the server has the job in memory), "wait:<n>" (so many
    ///         replicas have it, 1 to 4,294,967,295), "fsync" (the server's disk has it). Default: the client's.
    ///     raw: the data as bytes of JSON, kept byte for byte, instead of `data`. Default: none.
    ///
    /// Raises:
    ///     InvalidArgumentError: an argument is wrong; for data the message names the path. Nothing was sent.
    ///     TooLargeError: the data is too large. Nothing was sent.
    ///     DuplicateError: another job has this id or key; its id is in `job_id`.
    ///     StorageFullError: the server has no room. Nothing was stored.
    ///     QueueFullError: the queue has as many jobs as its limits let it take. Nothing was stored.
    ///     NotDurableError: the job is stored, but not as safely as `durability` asks.
    ///     DulyTimeoutError: no answer came in time; the job may be stored.
    ///     UnreachableError: the server cannot be reached; the job is not stored.
    #[pyo3(
        signature = (data=None, **options),
        text_signature = "($self, data=None, *, name=None, delay=None, at=None, id=None, key=None, priority=None, \
            max_retries=None, retry=None, timeout=None, headers=None, expires=None, result_ttl=None, \
            on_duplicate='refuse', durability=None, raw=None)"
    )]
    fn push(
        &self,
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let job = new_job(py, "push", data, options).map_err(|failure| in_call(failure, "push", self.name()))?;
        self.call(py, |queue| async move { queue.push(job).await }, |py, pushed| object(py, pushed.id()))
    }

    /// Lease the next job; return None if there is none.
    ///
    /// Args:
    ///     wait: how long to wait for a job, in seconds or as a timedelta, a year at most. Default: 0.
    ///     lease: how long the job is yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
    ///         10 s.
    ///     renew: renew the lease natively, three times a lease, also while Python is busy: until the job is settled or
    ///         garbage collected, or its `timeout` is over. Default: False.
    #[pyo3(signature = (*, wait=None, lease=None, renew=false))]
    fn reserve(
        slf: &Bound<'_, Self>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = convert::is_set::<Renew>)] renew: bool,
    ) -> PyResult<Py<PyAny>> {
        let renew = renew.then(|| extension(lease)).transpose()?;
        Self::reserve_up_to(slf, &reserve_options(None, wait, lease)?, renew, |py, mut jobs| object(py, jobs.pop()))
    }

    /// Lease several jobs; return an empty list if there are none.
    ///
    /// Args:
    ///     max: the most jobs to return, 1 to 1,000; fewer when their records make up 4 MiB.
    ///     wait: how long to wait for the first job, in seconds or as a timedelta, a year at most. Default: 0.
    ///     lease: how long the jobs are yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
    ///         10 s.
    #[pyo3(signature = (max, *, wait=None, lease=None))]
    fn reserve_many(
        slf: &Bound<'_, Self>,
        max: &Bound<'_, PyAny>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        Self::reserve_up_to(slf, &reserve_options(Some(max), wait, lease)?, None, object)
    }

    /// Ack many jobs with few calls; True for each job whose lease was still held.
    fn ack_many(&self, py: Python<'_>, jobs: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let jobs: Vec<_> = reserved_jobs(jobs)?.iter().map(|job| job.get().shared()).collect();
        let ack = |queue: Arc<duly::Queue>| async move {
            let done: Vec<_> = jobs.iter().map(|job| Settlement::done(job)).collect();
            queue.settle_all(&done).await
        };
        self.call(py, ack, object)
    }

    /// Remove a job by its id or its key, in whatever state it is; return None if there is no such job.
    ///
    /// Args:
    ///     id: the job's id. Give this or `key`.
    ///     key: the job's key.
    ///     only: a state, or a list of states. A job in another state is not touched. Default: any state.
    ///
    /// Raises:
    ///     NotFoundError: the job is in a state that is not in `only`: `job_state` of the error says in which.
    #[pyo3(signature = (id=None, *, key=None, only=None))]
    fn cancel(
        &self,
        py: Python<'_>,
        id: Option<Text<Id>>,
        key: Option<Text<Key>>,
        only: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (job, only) = (by(id, key)?, only.map(states).transpose()?);
        let cancel = |queue: Arc<duly::Queue>| async move {
            match (&job, only) {
                (By::Id(id), None) => queue.cancel(id).await,
                (By::Id(id), Some(only)) => queue.cancel_only(id, &only).await,
                (By::Key(key), None) => queue.cancel_key(key).await,
                (By::Key(key), Some(only)) => queue.cancel_key_only(key, &only).await,
            }
        };
        self.call(py, cancel, |py, cancelled| object(py, cancelled.map(Cancelled::from)))
    }

    /// Change when a delayed or ready job is due, by its id or its key, and return its id.
    ///
    /// Args:
    ///     id: the job's id. Give this or `key`.
    ///     key: the job's key.
    ///     delay: how long from now until it is due, in seconds or as a timedelta, 0 to 100 years. Give this or `at`.
    ///     at: when it is due: a datetime with a time zone, or unix seconds. A time in the past means now.
    ///
    /// Raises:
    ///     NotFoundError: there is no such job, or it is not waiting.
    #[pyo3(signature = (id=None, *, key=None, delay=None, at=None))]
    fn reschedule(
        &self,
        py: Python<'_>,
        id: Option<Text<Id>>,
        key: Option<Text<Key>>,
        delay: Option<&Bound<'_, PyAny>>,
        at: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (when, job) = (when(delay, at)?, by(id, key)?);
        let reschedule = |queue: Arc<duly::Queue>| async move {
            match &job {
                By::Id(id) => queue.reschedule(id, when).await,
                By::Key(key) => queue.reschedule_key(key, when).await,
            }
        };
        self.call(py, reschedule, object)
    }

    /// Run these failed jobs again, with their failures forgotten.
    #[pyo3(signature = (*ids))]
    fn requeue(&self, py: Python<'_>, ids: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let ids = texts(ids)?;
        let requeue = |queue: Arc<duly::Queue>| async move {
            let outcomes = queue.requeue(&ids).await?;
            Ok::<_, Error>(ids.into_iter().zip(outcomes).collect::<Vec<_>>())
        };
        self.call(py, requeue, |py, outcomes| {
            let outcomes: Vec<_> = outcomes.into_iter().map(|(id, outcome)| Requeued::new(id, outcome)).collect();
            object(py, outcomes)
        })
    }

    /// Run all failed jobs again, with their failures forgotten; return how many.
    fn requeue_all(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |queue| async move { queue.requeue_all().await }, object)
    }

    /// Remove all jobs in a state, as many as there are now; return how many.
    ///
    /// Args:
    ///     state: "delayed", "ready", "reserved" or "failed". Purging "reserved" takes the jobs from their workers, as
    ///         `cancel` does: runs are interrupted, and acks refused.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn purge(&self, py: Python<'_>, state: Text<StateWord>) -> PyResult<Py<PyAny>> {
        let state = parse_state(&state)?;
        self.call(py, |queue| async move { queue.purge(state).await }, object)
    }

    /// Empty the queue: remove all jobs that are delayed or ready; return how many.
    ///
    /// Jobs that workers have stay, and run to their end; `purge("reserved")` before this takes those, too. Failed jobs
    /// stay.
    fn clear(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |queue| async move { queue.clear().await }, object)
    }

    /// Remove the queue with all that it has: its jobs in all states, its limits, its totals.
    ///
    /// Raises InvalidArgumentError, and removes nothing, if the queue has other jobs than so many, or schedules. Jobs
    /// that workers run meanwhile end without effect. A client that goes on using the queue makes it anew, and lists
    /// it again within some minutes.
    ///
    /// Args:
    ///     jobs: the number of the jobs in all states together, as a confirmation. Default: 0, only an empty queue.
    #[pyo3(signature = (jobs=None), text_signature = "($self, jobs=0)")]
    fn delete(&self, py: Python<'_>, jobs: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let jobs = jobs.map(|jobs| convert::whole::<u64>("jobs", jobs, 0..=u64::MAX));
        let jobs = jobs.transpose().map_err(Failure::from)?.unwrap_or(0);
        self.call(py, move |queue| async move { queue.delete(jobs).await }, |py, ()| Ok(py.None()))
    }

    /// Hand out no more jobs until `resume`. Pushing goes on, and running jobs may finish.
    fn pause(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |queue| async move { queue.pause().await }, |py, ()| Ok(py.None()))
    }

    /// Hand out jobs again.
    fn resume(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |queue| async move { queue.resume().await }, |py, ()| Ok(py.None()))
    }

    /// Move due jobs to ready by hand; return how many. Every reserve does this by itself.
    fn promote(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |queue| async move { queue.promote().await }, object)
    }

    /// Take back jobs whose lease has ended by hand; return how many. Every reserve does this by itself.
    fn reclaim(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |queue| async move { queue.reclaim().await }, object)
    }

    /// Set how many failed jobs the queue keeps, and for how long.
    ///
    /// Whenever another job fails, up to 100 of the oldest beyond that are removed. Keep more than may fail at once:
    /// `on_failed` is not called for a job that was removed before a worker heard of it.
    ///
    /// Args:
    ///     max: the most jobs to keep, 0 to 2^53 - 1. Until it is set: 10,000.
    ///     age: how long to keep them, in seconds or as a timedelta, 0 to 100 years. Until it is set: 180 days.
    fn keep_failed(&self, py: Python<'_>, max: &Bound<'_, PyAny>, age: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let max = convert::whole("max", max, 0..=convert::MAX_COUNT).map_err(Failure::from)?;
        let age = convert::duration("age", age)?;
        self.call(py, |queue| async move { queue.keep_failed(max, age).await }, |py, ()| Ok(py.None()))
    }

    /// Limit how many jobs run at once, and how many start in a period, over all workers together.
    ///
    /// The limits apply from the next reserve on; running jobs are not stopped. Jobs that are held back keep their
    /// order. The new limits replace all earlier ones: `set_limits()` removes them. Each part of a partitioned queue
    /// keeps to its share, rounded down, so a limit is as many jobs at least as the queue has parts.
    ///
    /// Args:
    ///     concurrency: the most jobs at once, 1 to 1,000,000. Default: no limit.
    ///     rate: `(jobs, seconds)`: how many jobs (1 to 1,000,000) may start in how long (0.001 s to 24 h). After a
    ///         pause that many may start at once, and as many in the period behind it. Default: no limit.
    ///     names: limits of single job names, at most 100, such as `{"mail.send": {"concurrency": 5, "rate": (100,
    ///         60)}}`. They do not hold back jobs of other names. Default: none.
    ///     max_length: how many jobs the queue takes, 1 to 1,000,000,000. A push of more raises QueueFullError, and
    ///         nothing of its call is stored. Failed jobs do not count. Jobs that come back from a worker, are requeued
    ///         or come over a bridge are never refused; a schedule skips a slot. Default: no limit.
    #[pyo3(signature = (*, concurrency=None, rate=None, names=None, max_length=None))]
    fn set_limits(
        &self,
        py: Python<'_>,
        concurrency: Option<&Bound<'_, PyAny>>,
        rate: Option<&Bound<'_, PyAny>>,
        names: Option<&Bound<'_, PyAny>>,
        max_length: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let limits = limits_of(concurrency, rate, names, max_length)?;
        self.call(py, |queue| async move { queue.set_limits(&limits).await }, |py, ()| Ok(py.None()))
    }

    /// Return the limits that are set.
    fn limits(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |queue| async move { queue.limits().await }, |py, limits| object(py, Limits::from(limits)))
    }

    /// Count the jobs in each state, and say what comes next.
    fn counts(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.call(py, |queue| async move { queue.counts().await }, |py, counts| object(py, Counts::new(py, counts)?))
    }

    /// Return a page of the jobs in a state, without changing them.
    ///
    /// Args:
    ///     state: "delayed", "ready", "reserved" or "failed".
    ///     offset: how many jobs to skip, 0 to 4,294,967,295. Default: 0.
    ///     limit: the most jobs to return, 1 to 1,000. Default: 100.
    #[pyo3(
        signature = (state, *, offset=None, limit=None),
        text_signature = "($self, state, *, offset=0, limit=100)"
    )]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn peek(
        &self,
        py: Python<'_>,
        state: Text<StateWord>,
        offset: Option<&Bound<'_, PyAny>>,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (state, (offset, limit)) = (parse_state(&state)?, page(offset, limit)?);
        let peek = |queue: Arc<duly::Queue>| async move { queue.peek(state, offset, limit).await };
        self.call(py, peek, |py, jobs| object(py, jobs.into_iter().map(JobView::new).collect::<Vec<_>>()))
    }

    /// Return a page of the jobs in a state that match a filter, without changing them.
    ///
    /// Of all that is given, each must hold. It checks 10,000 jobs at most, and reads about 8 MiB of records, those
    /// that do not match counted: so a page may be empty that is not the last one. `cursor` of the page says where to
    /// go on, and is None after the last one. A job that moves meanwhile may be in two pages, or in none;
    /// one that was moved away and back before may be in two.
    ///
    /// Args:
    ///     state: "delayed", "ready", "reserved" or "failed".
    ///     name: jobs of this name.
    ///     key_prefix: jobs whose key begins so, such as "close:".
    ///     error: jobs whose last failure has this in its text, in the same case.
    ///     priority: jobs of this priority, 0 to 9.
    ///     older_than: jobs that were pushed so long ago or longer, in seconds or as a timedelta.
    ///     since: jobs that are due, whose lease ends or that failed then or later: a datetime with a time zone, or
    ///         unix seconds. Not of ready jobs.
    ///     until: the same, before then.
    ///     limit: the most jobs to return, 1 to 1,000. Default: 100.
    ///     cursor: where to begin: what the page before has given. Default: at the beginning.
    #[pyo3(
        signature = (state, **options),
        text_signature = "($self, state, *, name=None, key_prefix=None, error=None, priority=None, older_than=None, since=None, until=None, limit=100, cursor=None)"
    )]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn search(
        &self,
        py: Python<'_>,
        state: Text<StateWord>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let (state, (filter, limit, cursor)) = (parse_state(&state)?, search_options(py, options)?);
        let search =
            |queue: Arc<duly::Queue>| async move { queue.search(state, &filter, cursor.as_deref(), limit).await };
        self.call(py, search, |py, page| object(py, SearchPage::new(py, page)?))
    }

    /// Return where a job is and why it is not running; None if there is no such job.
    #[pyo3(signature = (id=None, *, key=None))]
    fn find(&self, py: Python<'_>, id: Option<Text<Id>>, key: Option<Text<Key>>) -> PyResult<Py<PyAny>> {
        let job = by(id, key)?;
        let find = |queue: Arc<duly::Queue>| async move {
            match &job {
                By::Id(id) => queue.find(id).await,
                By::Key(key) => queue.find_key(key).await,
            }
        };
        self.call(py, find, |py, found| object(py, found.map(|found| Found::new(py, found)).transpose()?))
    }

    /// Return the workers that are alive: host, start time, and what each runs.
    fn workers(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let workers = |queue: Arc<duly::Queue>| async move { queue.workers().await };
        self.call(py, workers, |py, workers| object(py, workers.into_iter().map(WorkerInfo::from).collect::<Vec<_>>()))
    }

    /// Return what the runs of the last time came to: how many jobs are done, how long they wait and run.
    ///
    /// Workers count it, and report it up to 10 s later. By the minute up to 8 hours, else by ten minutes.
    ///
    /// Args:
    ///     within: how far back, in seconds or as a timedelta, more than 0 and at most 3 days. Default: an hour.
    #[pyo3(signature = (within=None))]
    fn rates(&self, py: Python<'_>, within: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let within =
            within.map(|within| convert::duration("within", within)).transpose()?.unwrap_or(duly::DEFAULT_RATES_WITHIN);
        let rates = |queue: Arc<duly::Queue>| async move { queue.rates(within).await };
        self.call(py, rates, |py, rates| object(py, Rates::new(py, &rates)?))
    }

    /// Keep a history of the queue: what happened to its last jobs, for `trace`.
    ///
    /// An event takes 20 bytes on the server in a batch, about 60 and the host's name in a call of its own, and a job
    /// has three to five. The server works a tenth longer for batches of a hundred, a quarter for single calls. Each
    /// part of a partitioned queue keeps its share. Off until this is called.
    ///
    /// Args:
    ///     jobs: of about how many jobs, 0 to 1,000,000; 0 switches the history off, and what was kept goes. Default:
    ///         1,000.
    ///     age: for how long, in seconds or as a timedelta, 0.001 s to 100 years. Default: 24 h.
    #[pyo3(signature = (jobs=None, age=None))]
    fn keep_history(
        &self,
        py: Python<'_>,
        jobs: Option<&Bound<'_, PyAny>>,
        age: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let jobs = jobs.map(|jobs| convert::whole("jobs", jobs, 0..=convert::MAX_COUNT)).transpose();
        let jobs = jobs.map_err(Failure::from)?.unwrap_or(duly::DEFAULT_HISTORY_JOBS);
        let age = age.map(|age| convert::duration("age", age)).transpose()?.unwrap_or(duly::DEFAULT_HISTORY_AGE);
        self.call(py, |queue| async move { queue.keep_history(jobs, age).await }, |py, ()| Ok(py.None()))
    }

    /// Return the life of a job: when and by whom it was pushed, each of its runs, and what became of it.
    ///
    /// Also of a job that is gone, as long as the history keeps it (`keep_history`). Without a history what the stored
    /// job tells. None if nothing is known of it.
    fn trace(&self, py: Python<'_>, id: Text<Id>) -> PyResult<Py<PyAny>> {
        let trace = |queue: Arc<duly::Queue>| async move { queue.trace(&id).await };
        self.call(py, trace, |py, trace| object(py, trace.map(|trace| Trace::new(py, trace)).transpose()?))
    }

    /// Wait until the job is done and return its result.
    ///
    /// Args:
    ///     id: the job's id.
    ///     timeout: how long to wait, in seconds or as a timedelta, a year at most. Default: as long as it takes.
    ///
    /// Raises:
    ///     JobFailedError: the job has failed for good.
    ///     NoResultError: there will be no result: the job was cancelled, purged or pushed without `result_ttl`, or its
    ///         result has expired.
    ///     DulyTimeoutError: the job is not done yet.
    #[pyo3(signature = (id, *, timeout=None))]
    fn wait_result(&self, py: Python<'_>, id: Text<Id>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let timeout = timeout.map(|timeout| convert::duration("timeout", timeout)).transpose()?;
        let wait = |queue: Arc<duly::Queue>| async move { queue.wait_result(&id, timeout).await };
        self.call(py, wait, |py, result| Ok(convert::to_python(py, &result)?.unbind()))
    }

    /// Check the queue's invariants while it is in use, and repair what is broken if `repair=True`.
    #[pyo3(signature = (*, repair=false))]
    fn audit(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = convert::is_set::<Repair>)] repair: bool,
    ) -> PyResult<Py<PyAny>> {
        let options = AuditOptions::new().repair(repair);
        let audit = |queue: Arc<duly::Queue>| async move { queue.audit(options).await };
        self.call(py, audit, |py, report| object(py, AuditReport::new(py, report)?))
    }

    /// For tests: set the clock of a client created with `manual_clock=True`.
    fn set_clock(&self, py: Python<'_>, now: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let now = convert::moment("now", now)?;
        self.call(py, |queue| async move { queue.set_clock(now).await }, |py, ()| Ok(py.None()))
    }

    fn __repr__(&self) -> String {
        let (name, class) = (self.name(), Self::CLASS);
        match self.queue.parts().len() {
            0 => format!("<{class} {name:?}>"),
            parts => format!("<{class} {name:?}, {parts} parts>"),
        }
    }
}
