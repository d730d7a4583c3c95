//! `duly.Queue`.

use duly::{AuditOptions, MAX_BATCH, ReserveOptions, State, When, blocking};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::audit::AuditReport;
use crate::convert::{self, Id, IdOfSeveral, Ids, Key, Repair, StateWord, Text};
use crate::error::{Failure, invalid};
use crate::inspect::{Counts, Found, JobView};
use crate::job::{Job, ReservedJob};
use crate::limits::{Limits, limits_of};
use crate::new_job::new_job;
use crate::operate::{Cancelled, Requeued};
use crate::push_many::LongPush;
use crate::registry::WorkerInfo;
use crate::select::{By, by};
use crate::waiting::wait;

/// A queue, or one in parts: both have the same verbs.
pub(crate) enum Whole<Q, P> {
    Queue(Q),
    Partitions(P),
}

/// The same call on either: `either!(&self.queue, |queue| queue.pause(signals))`.
macro_rules! either {
    ($whole:expr, |$queue:ident| $call:expr) => {
        match $whole {
            $crate::queue::Whole::Queue($queue) => $call,
            $crate::queue::Whole::Partitions($queue) => $call,
        }
    };
}
pub(crate) use either;

/// A queue. Created by `client.queue(name)`; safe to share between threads.
#[pyclass(frozen, subclass, module = "duly")]
pub(crate) struct Queue {
    pub(crate) queue: Whole<blocking::Queue, blocking::Partitions>,
}

impl Queue {
    pub(crate) fn new(queue: blocking::Queue) -> Self {
        Self { queue: Whole::Queue(queue) }
    }

    fn jobs(slf: &Bound<'_, Self>, jobs: Vec<blocking::Job>) -> PyResult<Vec<Py<Job>>> {
        let py = slf.py();
        let with_queue = |job: blocking::Job| {
            let queue = match slf.get().queue {
                Whole::Queue(_) => slf.clone().into_any().unbind(),
                Whole::Partitions(_) => Py::new(py, Self::new(job.queue().clone()))?.into_any(),
            };
            Job::new(py, job, queue)
        };
        jobs.into_iter().map(with_queue).collect()
    }
}

/// A queue that is split into parts, for when one cluster node cannot carry it. See `client.partitions`.
///
/// It has the methods of `Queue`. A job's part is chosen by its key, or else by its id. Priorities and order hold
/// within a part only. Operations on one job search every part if it is not where it should be; `counts` and operations
/// on all jobs make one call for each part. The `queue` of a job that came from it is the part.
#[pyclass(frozen, extends = Queue, module = "duly")]
pub(crate) struct Partitions {}

impl Partitions {
    pub(crate) fn new(py: Python<'_>, queue: blocking::Partitions) -> PyResult<Py<Self>> {
        let queue = Queue { queue: Whole::Partitions(queue) };
        Py::new(py, PyClassInitializer::from(queue).add_subclass(Self {}))
    }
}

#[pymethods]
impl Partitions {
    /// The parts. Each is a queue of its own.
    #[getter]
    fn parts(slf: &Bound<'_, Self>) -> Vec<Queue> {
        match &slf.as_super().get().queue {
            Whole::Queue(queue) => vec![Queue::new(queue.clone())],
            Whole::Partitions(queue) => queue.parts().iter().cloned().map(Queue::new).collect(),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        format!("<duly.Partitions {:?}, {} parts>", slf.as_super().get().name(), Self::parts(slf).len())
    }
}

#[pymethods]
impl Queue {
    #[getter]
    pub(crate) fn name(&self) -> &str {
        either!(&self.queue, |queue| queue.name())
    }

    /// Push a job and return its id.
    ///
    /// Args:
    ///     data: what the handler gets: None, bool, int of at most 64 bits, finite float, str, list, tuple, or dict
    ///         whose keys are str; as JSON at most the client's `max_data_bytes` (1 MiB). Default: None.
    ///     name: selects the handler that runs the job, 1 to 128 bytes. Default: the handler of jobs without a name.
    ///     delay: how long until the job is due, in seconds or as a timedelta, 0 to 100 years. Default: 0.
    ///     at: when the job is due, instead of `delay`: a datetime with a time zone, or unix seconds. A time in the
    ///         past means now.
    ///     id: an id of your own, 1 to 128 bytes. Default: a new one of 16 characters.
    ///     key: a business key such as "close:42", 1 to 256 bytes, to find or cancel the job by. Only one job of the
    ///         queue has it at a time, until that job is done, cancelled or failed for good. Default: none.
    ///     priority: 0 to 9, where 0 goes first. Default: 5.
    ///     max_retries: how often the job may run again after a failure, 0 to 4,294,967,295. Default: 5.
    ///     retry: how long to wait before each retry. Default: `RetryPolicy.linear(5)`, so 5, 10, 15, ... seconds.
    ///     timeout: the longest run, in seconds or as a timedelta, 0.001 s to 100 years. A longer run is interrupted
    ///         and counts as a failure. Default: none.
    ///     headers: strings that travel with the job, such as a trace: at most 64, names of 1 to 128 bytes, values of
    ///         at most 4,096. Default: none, or the trace of the current span if the program uses OpenTelemetry.
    ///     result_ttl: how long the handler's return value is kept for `wait_result`, in seconds or as a timedelta,
    ///         0.001 s to 100 years. Default: it is not kept.
    ///     on_duplicate: what to do if another job has this id or key: "refuse" raises DuplicateError, "keep" leaves
    ///         that job and returns its id, "replace" cancels it in whatever state it is. Default: "refuse".
    ///     durability: when the push returns: "none" (the server has the job in memory), "wait:2" (two replicas have
    ///         it), "fsync" (the server's disk has it). Default: the client's.
    ///     raw: the data as bytes of JSON, instead of `data`.
    ///
    /// Raises:
    ///     InvalidArgumentError: an argument is wrong; for data the message names the path. Nothing was sent.
    ///     TooLargeError: the data is too large. Nothing was sent.
    ///     DuplicateError: another job has this id or key; its id is in `job_id`.
    ///     StorageFullError: the server has no room. Nothing was stored.
    ///     NotDurableError: the job is stored, but not as safely as `durability` asks.
    ///     DulyTimeoutError: no answer came in time; the job may be stored.
    ///     UnreachableError: the server cannot be reached; the job is not stored.
    #[pyo3(
        signature = (data=None, **options),
        text_signature = "($self, data=None, *, name=None, delay=None, at=None, id=None, key=None, priority=None, \
            max_retries=None, retry=None, timeout=None, headers=None, result_ttl=None, \
            on_duplicate='refuse', durability=None, raw=None)"
    )]
    fn push(
        &self,
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let job = new_job(py, "push", data, options).map_err(|failure| in_call(failure, "push", self.name()))?;
        wait(py, |signals| either!(&self.queue, |queue| queue.push(job, signals))).map(|pushed| pushed.id().to_owned())
    }

    /// What `push_many` in `_push_many.py` pushes its batches with.
    #[pyo3(signature = (*, ids, durability))]
    fn _long_push(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = convert::is_set::<Ids>)] ids: bool,
        durability: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<LongPush> {
        LongPush::new(slf, ids, durability)
    }

    /// Lease the next job; return None if there is none.
    ///
    /// Args:
    ///     wait: how long to wait for a job, in seconds or as a timedelta. Default: 0.
    ///     lease: how long the job is yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
    ///         10 s.
    #[pyo3(signature = (*, wait=None, lease=None))]
    fn reserve(
        slf: &Bound<'_, Self>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Py<Job>>> {
        reserve(slf, &reserve_options(None, wait, lease)?).map(|mut jobs| jobs.pop())
    }

    /// Lease several jobs; return an empty list if there are none.
    ///
    /// Args:
    ///     max: the most jobs to return, 1 to 1,000.
    ///     wait: how long to wait for the first job, in seconds or as a timedelta. Default: 0.
    ///     lease: how long the jobs are yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
    ///         10 s.
    #[pyo3(signature = (max, *, wait=None, lease=None))]
    fn reserve_many(
        slf: &Bound<'_, Self>,
        max: &Bound<'_, PyAny>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<Job>>> {
        reserve(slf, &reserve_options(Some(max), wait, lease)?)
    }

    /// Ack many jobs with few calls; True for each job whose lease was still held.
    fn ack_many(&self, py: Python<'_>, jobs: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let held: PyResult<Vec<_>> = reserved_jobs(jobs)?.iter().map(|job| job.get().blocking().cloned()).collect();
        let held = held?;
        wait(py, |signals| either!(&self.queue, |queue| queue.ack_all(&held, signals)))
    }

    /// Remove a job by its id or its key, in whatever state it is; return None if there is no such job.
    #[pyo3(signature = (id=None, *, key=None))]
    fn cancel(&self, py: Python<'_>, id: Option<Text<Id>>, key: Option<Text<Key>>) -> PyResult<Option<Cancelled>> {
        let cancelled = match by(id, key)? {
            By::Id(id) => wait(py, |signals| either!(&self.queue, |queue| queue.cancel(&id, signals))),
            By::Key(key) => wait(py, |signals| either!(&self.queue, |queue| queue.cancel_key(&key, signals))),
        };
        cancelled.map(|cancelled| cancelled.map(Cancelled::from))
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
    ) -> PyResult<String> {
        let when = when(delay, at)?;
        match by(id, key)? {
            By::Id(id) => wait(py, |signals| either!(&self.queue, |queue| queue.reschedule(&id, when, signals))),
            By::Key(key) => wait(py, |signals| either!(&self.queue, |queue| queue.reschedule_key(&key, when, signals))),
        }
    }

    /// Run these failed jobs again, with their failures forgotten.
    #[pyo3(signature = (*ids))]
    fn requeue(&self, py: Python<'_>, ids: &Bound<'_, PyTuple>) -> PyResult<Vec<Requeued>> {
        let ids = texts(ids)?;
        let outcomes = wait(py, |signals| either!(&self.queue, |queue| queue.requeue(&ids, signals)))?;
        Ok(ids.into_iter().zip(outcomes).map(|(id, outcome)| Requeued::new(id, outcome)).collect())
    }

    /// Run all failed jobs again, with their failures forgotten; return how many.
    fn requeue_all(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| either!(&self.queue, |queue| queue.requeue_all(signals)))
    }

    /// Remove all jobs that are "delayed", "ready" or "failed"; return how many.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn purge(&self, py: Python<'_>, state: Text<StateWord>) -> PyResult<u64> {
        let state = parse_state(&state)?;
        wait(py, |signals| either!(&self.queue, |queue| queue.purge(state, signals)))
    }

    /// Hand out no more jobs until `resume`. Pushing goes on, and running jobs may finish.
    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| either!(&self.queue, |queue| queue.pause(signals)))
    }

    /// Hand out jobs again.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| either!(&self.queue, |queue| queue.resume(signals)))
    }

    /// Move due jobs to ready by hand; return how many. Every reserve does this by itself.
    fn promote(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| either!(&self.queue, |queue| queue.promote(signals)))
    }

    /// Take back jobs whose lease has ended by hand; return how many. Every reserve does this by itself.
    fn reclaim(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| either!(&self.queue, |queue| queue.reclaim(signals)))
    }

    /// Set how many failed jobs the queue keeps (default 10,000) and for how long (seconds or timedelta; 180 days).
    ///
    /// Whenever another job fails, up to 100 of the oldest beyond that are removed.
    fn keep_failed(&self, py: Python<'_>, max: &Bound<'_, PyAny>, age: &Bound<'_, PyAny>) -> PyResult<()> {
        let max = convert::whole("max", max, 0..=convert::MAX_COUNT).map_err(Failure::from)?;
        let age = convert::duration("age", age)?;
        wait(py, |signals| either!(&self.queue, |queue| queue.keep_failed(max, age, signals)))
    }

    /// Limit how many jobs run at once, and how many start in a period, over all workers together.
    ///
    /// The limits apply from the next reserve on; running jobs are not stopped. Jobs that are held back keep their
    /// order. The new limits replace all earlier ones: `set_limits()` removes them.
    ///
    /// Args:
    ///     concurrency: the most jobs at once, 1 to 1,000,000. Default: no limit.
    ///     rate: `(jobs, seconds)`: how many jobs (1 to 1,000,000) may start in how long (0.001 s to 24 h). After a
    ///         pause that many may start at once. Default: no limit.
    ///     names: limits of single job names, at most 100, such as `{"mail.send": {"concurrency": 5, "rate": (100,
    ///         60)}}`. They do not hold back jobs of other names. Default: none.
    #[pyo3(signature = (*, concurrency=None, rate=None, names=None))]
    fn set_limits(
        &self,
        py: Python<'_>,
        concurrency: Option<&Bound<'_, PyAny>>,
        rate: Option<&Bound<'_, PyAny>>,
        names: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let limits = limits_of(concurrency, rate, names)?;
        wait(py, |signals| either!(&self.queue, |queue| queue.set_limits(&limits, signals)))
    }

    /// Return the limits that are set.
    fn limits(&self, py: Python<'_>) -> PyResult<Limits> {
        wait(py, |signals| either!(&self.queue, |queue| queue.limits(signals))).map(Limits::from)
    }

    /// Count the jobs in each state, and say what comes next.
    fn counts(&self, py: Python<'_>) -> PyResult<Counts> {
        wait(py, |signals| either!(&self.queue, |queue| queue.counts(signals)))
            .and_then(|counts| Counts::new(py, counts))
    }

    /// Return a page of the jobs in a state, without changing them.
    ///
    /// Args:
    ///     state: "delayed", "ready", "reserved" or "failed".
    ///     offset: how many jobs to skip. Default: 0.
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
    ) -> PyResult<Vec<JobView>> {
        let (state, (offset, limit)) = (parse_state(&state)?, page(offset, limit)?);
        let jobs = wait(py, |signals| either!(&self.queue, |queue| queue.peek(state, offset, limit, signals)))?;
        Ok(jobs.into_iter().map(JobView::new).collect())
    }

    /// Return where a job is and why it is not running; None if there is no such job.
    #[pyo3(signature = (id=None, *, key=None))]
    fn find(&self, py: Python<'_>, id: Option<Text<Id>>, key: Option<Text<Key>>) -> PyResult<Option<Py<Found>>> {
        let found = match by(id, key)? {
            By::Id(id) => wait(py, |signals| either!(&self.queue, |queue| queue.find(&id, signals))),
            By::Key(key) => wait(py, |signals| either!(&self.queue, |queue| queue.find_key(&key, signals))),
        };
        found?.map(|found| Found::new(py, found)).transpose()
    }

    /// Return the workers that are alive: host, start time, and what each runs.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<WorkerInfo>> {
        let workers = wait(py, |signals| either!(&self.queue, |queue| queue.workers(signals)))?;
        Ok(workers.into_iter().map(WorkerInfo::from).collect())
    }

    /// Wait until the job is done and return its result.
    ///
    /// Args:
    ///     id: the job's id.
    ///     timeout: how long to wait, in seconds or as a timedelta. Default: as long as it takes.
    ///
    /// Raises:
    ///     JobFailedError: the job has failed for good.
    ///     NoResultError: there will be no result: the job was cancelled, purged or pushed without `result_ttl`, or its
    ///         result has expired.
    ///     DulyTimeoutError: the job is not done yet.
    #[pyo3(signature = (id, *, timeout=None))]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn wait_result<'py>(
        &self,
        py: Python<'py>,
        id: Text<Id>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let timeout = timeout.map(|timeout| convert::duration("timeout", timeout)).transpose()?;
        let result = wait(py, |signals| either!(&self.queue, |queue| queue.wait_result(&id, timeout, signals)))?;
        convert::to_python(py, &result)
    }

    /// Check the queue's invariants while it is in use, and repair what is broken if `repair=True`.
    #[pyo3(signature = (*, repair=false))]
    fn audit(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = convert::is_set::<Repair>)] repair: bool,
    ) -> PyResult<AuditReport> {
        let options = AuditOptions::new().repair(repair);
        wait(py, |signals| either!(&self.queue, |queue| queue.audit(options, signals)))
            .and_then(|report| AuditReport::new(py, report))
    }

    /// For tests: set the clock of a client created with `manual_clock=True`.
    fn set_clock(&self, py: Python<'_>, now: &Bound<'_, PyAny>) -> PyResult<()> {
        let now = convert::moment("now", now)?;
        wait(py, |signals| either!(&self.queue, |queue| queue.set_clock(now, signals)))
    }

    fn __repr__(&self) -> String {
        format!("<duly.Queue {:?}>", self.name())
    }
}

fn reserve(slf: &Bound<'_, Queue>, options: &ReserveOptions) -> PyResult<Vec<Py<Job>>> {
    let queue = &slf.get().queue;
    let jobs = wait(slf.py(), |signals| either!(queue, |queue| queue.reserve(options, signals)))?;
    Queue::jobs(slf, jobs)
}

pub(crate) fn reserve_options(
    max: Option<&Bound<'_, PyAny>>,
    wait: Option<&Bound<'_, PyAny>>,
    lease: Option<&Bound<'_, PyAny>>,
) -> Result<ReserveOptions, Failure> {
    let mut options = ReserveOptions::new();
    if let Some(max) = max {
        options = options.max(convert::whole("max", max, 1..=MAX_BATCH as u64)?);
    }
    if let Some(wait) = wait {
        options = options.wait(convert::duration("wait", wait)?);
    }
    if let Some(lease) = lease {
        options = options.lease(convert::lease(lease)?);
    }
    Ok(options)
}

pub(crate) fn when(delay: Option<&Bound<'_, PyAny>>, at: Option<&Bound<'_, PyAny>>) -> Result<When, Failure> {
    convert::delay(delay, at)?.ok_or_else(|| invalid("say when: give delay or at").into())
}

/// Where a page begins, and how long it is.
pub(crate) fn page(
    offset: Option<&Bound<'_, PyAny>>,
    limit: Option<&Bound<'_, PyAny>>,
) -> Result<(usize, usize), Failure> {
    let offset = offset.map_or(Ok(0), |offset| convert::whole("offset", offset, 0..=u32::MAX.into()))?;
    let limit = limit.map_or(Ok(100), |limit| convert::whole("limit", limit, 1..=MAX_BATCH as u64))?;
    Ok((offset, limit))
}

pub(crate) fn texts(given: &Bound<'_, PyTuple>) -> PyResult<Vec<String>> {
    given.iter().map(|text| text.extract::<Text<IdOfSeveral>>().map(Text::into_string)).collect()
}

/// A sequence of jobs that were reserved.
pub(crate) fn reserved_jobs<'py>(given: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, ReservedJob>>> {
    given.extract().map_err(|_| convert::of_wrong_type("jobs", "a list of reserved jobs", given))
}

pub(crate) fn parse_state(state: &str) -> Result<State, Failure> {
    State::parse(state).map_err(Failure::from)
}

/// An argument was refused: says in which call.
pub(crate) fn in_call(failure: Failure, operation: &'static str, queue: &str) -> Failure {
    match failure {
        Failure::Duly(error) => Failure::Duly(error.during(operation).in_queue(queue)),
        python @ Failure::Python(_) => python,
    }
}
