//! `duly.Queue`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use duly::{AuditOptions, Durability, MAX_BATCH, ReserveOptions, State, When, blocking};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::audit::AuditReport;
use crate::convert::{self, Id, IdOfSeveral, Ids, Key, Repair, StateWord, Text};
use crate::error::{Failure, invalid};
use crate::inspect::{Counts, Found, JobView};
use crate::job::{Job, ReservedJob};
use crate::limits::{Limits, limits_of};
use crate::new_job::{NewJob, new_job};
use crate::operate::{Cancelled, Requeued};
use crate::registry::WorkerInfo;
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

/// One queue of a client. Made by `client.queue(name)`; safe to share among threads.
#[pyclass(frozen, subclass, module = "duly")]
pub(crate) struct Queue {
    queue: Whole<blocking::Queue, blocking::Partitions>,
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

/// A queue that is split over several, because one node of a cluster cannot carry it; made by `client.partitions`.
///
/// Its verbs are those of `Queue`. A job's part follows from its key, or else from its id. Priorities and the order of
/// age hold within a part only; a job that is not there is looked for in every part; `counts` and the verbs for all
/// jobs make a call a part. The `queue` of a job that came from it is the part.
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
    fn name(&self) -> &str {
        either!(&self.queue, |queue| queue.name())
    }

    /// Put a job in and give its id.
    ///
    /// Args:
    ///     data: what the handler gets: None, bool, int of at most 64 bits, finite float, str, list, tuple, or dict
    ///         whose keys are str; as JSON at most the client's `max_data_bytes` (1 MiB). Default: None.
    ///     name: which handler runs it, 1 to 128 bytes. Default: the handler of jobs without a name.
    ///     delay: how long it waits before it is due, in seconds or as a timedelta, 0 to 100 years. Default: 0.
    ///     at: when it is due, instead of `delay`: a datetime with a time zone, or unix seconds. A moment that is over
    ///         means now.
    ///     id: an id of your own, 1 to 128 bytes. Default: a new one of 16 characters.
    ///     key: a name in your business, such as "close:42", 1 to 256 bytes. Only one job of the queue has it at a
    ///         time, until it is done, cancelled or failed for good. Default: none.
    ///     priority: 0 to 9, and 0 goes first. Default: 5.
    ///     max_retries: how often it runs again after failures, 0 to 4,294,967,295. Default: 5.
    ///     retry: how long it waits before each retry. Default: `RetryPolicy.linear(5)`, so 5, 10, 15, ... seconds.
    ///     timeout: the longest run, in seconds or as a timedelta, 0.001 s to 100 years. A run that takes longer is
    ///         interrupted and has failed. Default: none.
    ///     headers: texts that go with it, such as a trace: at most 64, names of 1 to 128 bytes, values of at most
    ///         4,096. Default: none, or the trace of the current span in a program that uses OpenTelemetry.
    ///     result_ttl: how long what the handler returns is kept for `wait_result`, in seconds or as a timedelta,
    ///         0.001 s to 100 years. Default: it is not kept.
    ///     on_duplicate: what to do when another job has the id or key: "refuse" raises DuplicateError, "keep" leaves
    ///         that job and gives its id, "replace" cancels it in whatever state it is. Default: "refuse".
    ///     durability: how sure the push must be before it returns: "none" (the server has it in memory), "wait:2"
    ///         (two replicas have it), "fsync" (the server's disk has it). Default: the client's.
    ///     raw: the bytes of a JSON text, instead of `data`.
    ///
    /// Raises:
    ///     InvalidArgumentError: an argument is refused; of data the message names the path. Nothing was sent.
    ///     TooLargeError: the data is too large. Nothing was sent.
    ///     DuplicateError: another job has this id or key; its id is in `job_id`.
    ///     StorageFullError: the server has no room. Nothing was stored.
    ///     NotDurableError: it is in, but not as safe as `durability` asks for.
    ///     DulyTimeoutError: no answer came in time; it may be in.
    ///     UnreachableError: the server cannot be reached; it is not in.
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

    /// What `push_many` in `_bulk.py` pushes its batches with.
    #[pyo3(signature = (*, ids, durability))]
    fn _bulk(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = convert::is_set::<Ids>)] ids: bool,
        durability: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bulk> {
        let durability = push_durability(durability, "push_many", slf.get().name())?;
        let so_far = (duly::PushSummary::default(), ids.then(Vec::new));
        Ok(Bulk { queue: slf.clone().unbind(), durability, so_far: Mutex::new(so_far) })
    }

    /// Lease one job for `lease` (default 10 s); None if there is none until `wait` (default 0) is over.
    #[pyo3(signature = (*, wait=None, lease=None))]
    fn reserve(
        slf: &Bound<'_, Self>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Py<Job>>> {
        reserve(slf, &reserve_options(None, wait, lease)?).map(|mut jobs| jobs.pop())
    }

    /// Lease up to `max` jobs (1 to 1,000); an empty list if there is none until `wait` is over.
    #[pyo3(signature = (max, *, wait=None, lease=None))]
    fn reserve_many(
        slf: &Bound<'_, Self>,
        max: &Bound<'_, PyAny>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<Job>>> {
        reserve(slf, &reserve_options(Some(max), wait, lease)?)
    }

    /// Ack many jobs with few calls; True where the lease was still held.
    fn ack_many(&self, py: Python<'_>, jobs: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let held: PyResult<Vec<_>> = reserved_jobs(jobs)?.iter().map(|job| job.get().blocking().cloned()).collect();
        let held = held?;
        wait(py, |signals| either!(&self.queue, |queue| queue.ack_all(&held, signals)))
    }

    /// Remove a job in whatever state it is; None if there is no such job.
    #[pyo3(signature = (id=None, *, key=None))]
    fn cancel(&self, py: Python<'_>, id: Option<Text<Id>>, key: Option<Text<Key>>) -> PyResult<Option<Cancelled>> {
        let cancelled = match by(id, key)? {
            By::Id(id) => wait(py, |signals| either!(&self.queue, |queue| queue.cancel(&id, signals))),
            By::Key(key) => wait(py, |signals| either!(&self.queue, |queue| queue.cancel_key(&key, signals))),
        };
        cancelled.map(|cancelled| cancelled.map(Cancelled::from))
    }

    /// Give a delayed or ready job another due time; gives its id. Raises NotFoundError.
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

    /// Send failed jobs round again, with their failures forgotten.
    #[pyo3(signature = (*ids))]
    fn requeue(&self, py: Python<'_>, ids: &Bound<'_, PyTuple>) -> PyResult<Vec<Requeued>> {
        let ids = texts(ids)?;
        let outcomes = wait(py, |signals| either!(&self.queue, |queue| queue.requeue(&ids, signals)))?;
        Ok(ids.into_iter().zip(outcomes).map(|(id, outcome)| Requeued::new(id, outcome)).collect())
    }

    /// Send all failed jobs round again; gives how many.
    fn requeue_all(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| either!(&self.queue, |queue| queue.requeue_all(signals)))
    }

    /// Remove all jobs that are delayed, ready or failed; gives how many.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn purge(&self, py: Python<'_>, state: Text<StateWord>) -> PyResult<u64> {
        let state = parse_state(&state)?;
        wait(py, |signals| either!(&self.queue, |queue| queue.purge(state, signals)))
    }

    /// Hand out no more jobs until `resume`. Jobs still come in, and what runs may finish.
    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| either!(&self.queue, |queue| queue.pause(signals)))
    }

    /// Hand out jobs again.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| either!(&self.queue, |queue| queue.resume(signals)))
    }

    /// Move due jobs to ready by hand; gives how many. Every reserve does it by itself.
    fn promote(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| either!(&self.queue, |queue| queue.promote(signals)))
    }

    /// Take back leases that are over by hand; gives how many. Every reserve does it by itself.
    fn reclaim(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| either!(&self.queue, |queue| queue.reclaim(signals)))
    }

    /// Set how many failed jobs the queue keeps (default 10,000) and for how long (seconds or timedelta; 180 days).
    ///
    /// The oldest go first, at most 100 whenever another job fails.
    fn keep_failed(&self, py: Python<'_>, max: &Bound<'_, PyAny>, age: &Bound<'_, PyAny>) -> PyResult<()> {
        let max = convert::whole("max", max, 0..=convert::MAX_COUNT).map_err(Failure::from)?;
        let age = convert::duration("age", age)?;
        wait(py, |signals| either!(&self.queue, |queue| queue.keep_failed(max, age, signals)))
    }

    /// Limit how many jobs run at once, and how many start in so many seconds, in all workers together.
    ///
    /// The next reserve keeps to it; what runs is let run. A job that a limit holds back stays in its place. What was
    /// set before is replaced: `set_limits()` takes all away. A rate lets as many jobs start at once after a rest.
    ///
    /// `names={"mail.send": {"concurrency": 5, "rate": (100, 60)}}` limits jobs of one name, by one of the two or both:
    /// those of other names pass by.
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

    /// Give the limits that are set.
    fn limits(&self, py: Python<'_>) -> PyResult<Limits> {
        wait(py, |signals| either!(&self.queue, |queue| queue.limits(signals))).map(Limits::from)
    }

    /// Count the jobs in each state, and say what comes next.
    fn counts(&self, py: Python<'_>) -> PyResult<Counts> {
        wait(py, |signals| either!(&self.queue, |queue| queue.counts(signals)))
            .and_then(|counts| Counts::new(py, counts))
    }

    /// Look at up to `limit` jobs (1 to 1,000) of a state without touching them.
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

    /// Say where a job is and why it is not running; None if there is no such job.
    #[pyo3(signature = (id=None, *, key=None))]
    fn find(&self, py: Python<'_>, id: Option<Text<Id>>, key: Option<Text<Key>>) -> PyResult<Option<Py<Found>>> {
        let found = match by(id, key)? {
            By::Id(id) => wait(py, |signals| either!(&self.queue, |queue| queue.find(&id, signals))),
            By::Key(key) => wait(py, |signals| either!(&self.queue, |queue| queue.find_key(&key, signals))),
        };
        found?.map(|found| Found::new(py, found)).transpose()
    }

    /// Give the workers that are alive: where, since when, and what each runs.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<WorkerInfo>> {
        let workers = wait(py, |signals| either!(&self.queue, |queue| queue.workers(signals)))?;
        Ok(workers.into_iter().map(WorkerInfo::from).collect())
    }

    /// Give what the job returned, as soon as it is done; without a timeout wait as long as that takes.
    ///
    /// Raises:
    ///     JobFailedError: it has failed for good.
    ///     NoResultError: there is none and there will be none: cancelled, pushed without `result_ttl`, kept no longer.
    ///     DulyTimeoutError: it is not done yet.
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

    /// Check the queue's invariants while it is in use, and mend what is broken if asked to.
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

    /// For tests: move the clock of a client made with `manual_clock=True`.
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

/// How a job is named: by its id, or by its key.
pub(crate) enum By {
    Id(Text<Id>),
    Key(Text<Key>),
}

pub(crate) fn by(id: Option<Text<Id>>, key: Option<Text<Key>>) -> Result<By, Failure> {
    match (id, key) {
        (Some(id), None) => Ok(By::Id(id)),
        (None, Some(key)) => Ok(By::Key(key)),
        _ => Err(invalid("name the job by its id or by key=, one of the two").into()),
    }
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

/// A long push, a batch at a time. The iterable is Python's own affair: it may call duly, wait for long, or be left at the
/// exit of the process, so it is not read from here.
#[pyclass(frozen, module = "duly._core", name = "_Bulk")]
pub(crate) struct Bulk {
    queue: Py<Queue>,
    durability: Option<Durability>,
    so_far: Mutex<(duly::PushSummary, Option<Vec<String>>)>,
}

#[pymethods]
impl Bulk {
    /// Pushes a list of new jobs.
    fn push(&self, py: Python<'_>, jobs: &Bound<'_, PyList>) -> PyResult<()> {
        let queue = self.queue.get();
        let jobs = new_jobs(jobs, self.durability).map_err(|failure| in_call(failure, "push_many", queue.name()))?;
        let mut summary = self.lock().0.clone();
        let pushed = wait(py, |signals| either!(&queue.queue, |queue| queue.push_some(jobs, &mut summary, signals)))?;
        let (so_far, ids) = &mut *self.lock();
        *so_far = summary;
        if let Some(ids) = ids {
            ids.extend(pushed.iter().map(|pushed| pushed.id().to_owned()));
        }
        Ok(())
    }

    /// What became of all of them.
    fn summary(&self) -> PushSummary {
        let (summary, ids) = &*self.lock();
        PushSummary::new(summary, ids.clone())
    }
}

impl Bulk {
    fn lock(&self) -> MutexGuard<'_, (duly::PushSummary, Option<Vec<String>>)> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is asked for all jobs of a call that do not say it themselves.
pub(crate) fn push_durability(
    given: Option<&Bound<'_, PyAny>>,
    call: &'static str,
    queue: &str,
) -> Result<Option<Durability>, Failure> {
    given.map(convert::durability).transpose().map_err(|error| in_call(error.into(), call, queue))
}

/// The jobs of a list of `NewJob`.
pub(crate) fn new_jobs(jobs: &Bound<'_, PyList>, durability: Option<Durability>) -> Result<Vec<duly::NewJob>, Failure> {
    let new_job = |job: Bound<'_, PyAny>| {
        let refused = || invalid(format!("push_many takes duly.NewJob(data, ...), not {}", convert::type_name(&job)));
        let job = job.cast::<NewJob>().map_err(|_| refused())?;
        Ok(job.get().job().durability_unless_given(durability))
    };
    jobs.iter().map(new_job).collect()
}

/// How a long push went.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct PushSummary {
    created: u64,
    kept: u64,
    replaced: u64,
    duplicates: u64,
    /// The id of the job that is in the queue now, for each; None unless asked for.
    ids: Option<Vec<String>>,
}

impl PushSummary {
    pub(crate) fn new(summary: &duly::PushSummary, ids: Option<Vec<String>>) -> Self {
        Self {
            created: summary.created,
            kept: summary.kept,
            replaced: summary.replaced,
            duplicates: summary.duplicates,
            ids,
        }
    }
}

#[pymethods]
impl PushSummary {
    fn __repr__(&self) -> String {
        let Self { created, kept, replaced, duplicates, .. } = self;
        format!("<duly.PushSummary: {created} created, {kept} kept, {replaced} replaced, {duplicates} duplicates>")
    }
}
