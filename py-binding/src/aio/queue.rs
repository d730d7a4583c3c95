//! `duly.aio.Queue`.

#![expect(clippy::redundant_closure, reason = "the lifetime of `object` is bound early; the closure's is not")]

use std::sync::Arc;

use duly::blocking::LongPush;
use duly::runtime::PerProcess;
use duly::{AuditOptions, Error, ErrorKind, ReserveOptions};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::client::Shared;
use super::future::start;
use super::job::AsyncJob;
use super::reserved::Reserved;
use crate::audit::AuditReport;
use crate::convert::{self, Id, Ids, Key, Repair, StateWord, Text};
use crate::error::{Failure, OrRaise as _};
use crate::inspect::{Counts, Found, JobView};
use crate::limits::{Limits, limits_of};
use crate::new_job::new_job;
use crate::operate::{Cancelled, Requeued};
use crate::push_many::{PushSummary, new_jobs, push_durability};
use crate::queue::{Whole, either, in_call, page, parse_state, reserve_options, reserved_jobs, texts, when};
use crate::registry::WorkerInfo;
use crate::select::{By, by};

/// What this queue is, so that each process can make it.
#[derive(Clone)]
enum Kind {
    Queue,
    Partitions(u16),
    Part { of: String, count: u16 },
}

/// A queue of this process.
type Made = Whole<duly::Queue, duly::Partitions>;

/// The asyncio version of `Queue`: each method returns a `Call`.
#[pyclass(frozen, subclass, module = "duly._core")]
pub(crate) struct AsyncQueue {
    shared: Shared,
    name: String,
    kind: Kind,
    made: PerProcess<Made>,
}

impl AsyncQueue {
    pub(super) fn new(shared: Shared, name: String) -> PyResult<Self> {
        Self::of_kind(shared, name, Kind::Queue)
    }

    fn of_kind(shared: Shared, name: String, kind: Kind) -> PyResult<Self> {
        let queue = Self { shared, name, kind, made: PerProcess::new() };
        queue.whole()?; // refuses a wrong name
        Ok(queue)
    }

    /// One queue for all calls, so that those of many tasks travel together.
    fn whole(&self) -> PyResult<Arc<Made>> {
        let make = || {
            let client = self.shared.client()?;
            Ok(match &self.kind {
                Kind::Queue => Whole::Queue(client.queue(&self.name)?),
                Kind::Partitions(count) => Whole::Partitions(client.partitioned_queue(&self.name, *count)?),
                Kind::Part { of, count } => {
                    let whole = client.partitioned_queue(of, *count)?;
                    let part = whole.parts().find(|part| part.name() == self.name).cloned();
                    Whole::Queue(part.ok_or_else(|| Error::new(ErrorKind::Internal, "no such partition"))?)
                }
            })
        };
        self.made.get(make).or_raise()
    }

    /// One of our parts.
    fn part(&self, name: &str, count: u16) -> PyResult<Self> {
        Self::of_kind(self.shared.clone(), name.to_owned(), Kind::Part { of: self.name.clone(), count })
    }

    fn reserve_up_to<'py>(
        slf: &Bound<'py, Self>,
        options: ReserveOptions,
        finish: impl FnOnce(Python<'_>, Vec<Py<AsyncJob>>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (of, whole) = (slf.clone().unbind(), slf.get().whole()?);
        let reserve = async move { either!(&*whole, |queue| queue.reserve(&options).await).map(Reserved::new) };
        start(slf.py(), reserve, move |py, reserved| finish(py, jobs(py, reserved.claim(), &of)?))
    }
}

/// The asyncio version of `Partitions`.
#[pyclass(frozen, extends = AsyncQueue, module = "duly._core")]
pub(crate) struct AsyncPartitions {}

impl AsyncPartitions {
    pub(super) fn new(py: Python<'_>, shared: Shared, name: String, count: u16) -> PyResult<Py<Self>> {
        let queue = AsyncQueue::of_kind(shared, name, Kind::Partitions(count))?;
        Py::new(py, PyClassInitializer::from(queue).add_subclass(Self {}))
    }
}

#[pymethods]
impl AsyncPartitions {
    /// The parts. Each is a queue of its own.
    #[getter]
    fn parts(slf: &Bound<'_, Self>) -> PyResult<Vec<AsyncQueue>> {
        let queue = slf.as_super().get();
        match (&*queue.whole()?, &queue.kind) {
            (Whole::Partitions(whole), Kind::Partitions(count)) => {
                whole.parts().map(|part| queue.part(part.name(), *count)).collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<duly.aio.Partitions {:?}, {} parts>", slf.as_super().get().name, Self::parts(slf)?.len()))
    }
}

/// One call on the queue: `call!(self, py, |queue| queue.pause(), |py, value| ...)`.
macro_rules! call {
    ($self:ident, $py:ident, |$queue:ident| $call:expr, $finish:expr) => {{
        let whole = $self.whole()?;
        start($py, async move { either!(&*whole, |$queue| $call.await) }, $finish)
    }};
}

fn object<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Py<PyAny>>
where
    PyErr: From<T::Error>,
{
    value.into_bound_py_any(py).map(Bound::unbind)
}

fn jobs(py: Python<'_>, jobs: Vec<duly::Job>, queue: &Py<AsyncQueue>) -> PyResult<Vec<Py<AsyncJob>>> {
    let with_queue = |job: duly::Job| {
        let of = match queue.get().kind {
            Kind::Partitions(count) => Py::new(py, queue.get().part(job.queue().name(), count)?)?,
            _ => queue.clone_ref(py),
        };
        AsyncJob::new(py, job, of.into_any())
    };
    jobs.into_iter().map(with_queue).collect()
}

#[pymethods]
impl AsyncQueue {
    #[getter]
    fn name(&self) -> &str {
        &self.name
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
    fn push<'py>(
        &self,
        py: Python<'py>,
        data: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let job = new_job(py, "push", data, options).map_err(|failure| in_call(failure, "push", &self.name))?;
        call!(self, py, |queue| queue.push(job), |py, pushed| object(py, pushed.id()))
    }

    /// What `push_many` in `_push_many.py` calls when it has read its iterable.
    #[pyo3(signature = (jobs, *, ids, durability))]
    fn _push_all<'py>(
        &self,
        py: Python<'py>,
        jobs: &Bound<'py, PyList>,
        #[pyo3(from_py_with = convert::is_set::<Ids>)] ids: bool,
        durability: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut so_far = LongPush::new(ids);
        let durability = push_durability(durability, &self.name)?;
        let jobs = new_jobs(jobs, durability, &so_far).map_err(|fault| in_call(fault, "push_many", &self.name))?;
        let whole = self.whole()?;
        let push = async move {
            let note = |pushed: &[duly::Pushed]| so_far.add(pushed);
            either!(&*whole, |queue| queue.push_many(jobs, note).await)?;
            Ok::<_, Error>(so_far)
        };
        start(py, push, |py, push| object(py, PushSummary::of(&push)))
    }

    /// Lease the next job; return None if there is none.
    ///
    /// Args:
    ///     wait: how long to wait for a job, in seconds or as a timedelta. Default: 0.
    ///     lease: how long the job is yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
    ///         10 s.
    #[pyo3(signature = (*, wait=None, lease=None))]
    fn reserve<'py>(
        slf: &Bound<'py, Self>,
        wait: Option<&Bound<'py, PyAny>>,
        lease: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::reserve_up_to(slf, reserve_options(None, wait, lease)?, |py, mut jobs| object(py, jobs.pop()))
    }

    /// Lease several jobs; return an empty list if there are none.
    ///
    /// Args:
    ///     max: the most jobs to return, 1 to 1,000.
    ///     wait: how long to wait for the first job, in seconds or as a timedelta. Default: 0.
    ///     lease: how long the jobs are yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
    ///         10 s.
    #[pyo3(signature = (max, *, wait=None, lease=None))]
    fn reserve_many<'py>(
        slf: &Bound<'py, Self>,
        max: &Bound<'py, PyAny>,
        wait: Option<&Bound<'py, PyAny>>,
        lease: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::reserve_up_to(slf, reserve_options(Some(max), wait, lease)?, |py, jobs| object(py, jobs))
    }

    /// Ack many jobs with few calls; True for each job whose lease was still held.
    fn ack_many<'py>(&self, py: Python<'py>, jobs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let held: Vec<duly::Job> = reserved_jobs(jobs)?.iter().map(|job| job.get().job().clone()).collect();
        call!(self, py, |queue| queue.ack_all(&held), |py, acked| object(py, acked))
    }

    /// Remove a job by its id or its key, in whatever state it is; return None if there is no such job.
    #[pyo3(signature = (id=None, *, key=None))]
    fn cancel<'py>(
        &self,
        py: Python<'py>,
        id: Option<Text<Id>>,
        key: Option<Text<Key>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (whole, job) = (self.whole()?, by(id, key)?);
        let cancel = async move {
            match &job {
                By::Id(id) => either!(&*whole, |queue| queue.cancel(id).await),
                By::Key(key) => either!(&*whole, |queue| queue.cancel_key(key).await),
            }
        };
        start(py, cancel, |py, cancelled| object(py, cancelled.map(Cancelled::from)))
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
    fn reschedule<'py>(
        &self,
        py: Python<'py>,
        id: Option<Text<Id>>,
        key: Option<Text<Key>>,
        delay: Option<&Bound<'py, PyAny>>,
        at: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (whole, job, when) = (self.whole()?, by(id, key)?, when(delay, at)?);
        let reschedule = async move {
            match &job {
                By::Id(id) => either!(&*whole, |queue| queue.reschedule(id, when).await),
                By::Key(key) => either!(&*whole, |queue| queue.reschedule_key(key, when).await),
            }
        };
        start(py, reschedule, |py, id| object(py, id))
    }

    /// Run these failed jobs again, with their failures forgotten.
    #[pyo3(signature = (*ids))]
    fn requeue<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (whole, ids) = (self.whole()?, texts(ids)?);
        let requeue = async move {
            let outcomes = either!(&*whole, |queue| queue.requeue(&ids).await)?;
            Ok::<_, Error>(ids.into_iter().zip(outcomes).collect::<Vec<_>>())
        };
        start(py, requeue, |py, outcomes| {
            let outcomes: Vec<_> = outcomes.into_iter().map(|(id, outcome)| Requeued::new(id, outcome)).collect();
            object(py, outcomes)
        })
    }

    /// Run all failed jobs again, with their failures forgotten; return how many.
    fn requeue_all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.requeue_all(), |py, count| object(py, count))
    }

    /// Remove all jobs that are "delayed", "ready" or "failed"; return how many.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the text")]
    fn purge<'py>(&self, py: Python<'py>, state: Text<StateWord>) -> PyResult<Bound<'py, PyAny>> {
        let state = parse_state(&state)?;
        call!(self, py, |queue| queue.purge(state), |py, count| object(py, count))
    }

    /// Hand out no more jobs until `resume`. Pushing goes on, and running jobs may finish.
    fn pause<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.pause(), |py, ()| Ok(py.None()))
    }

    /// Hand out jobs again.
    fn resume<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.resume(), |py, ()| Ok(py.None()))
    }

    /// Move due jobs to ready by hand; return how many. Every reserve does this by itself.
    fn promote<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.promote(), |py, count| object(py, count))
    }

    /// Take back jobs whose lease has ended by hand; return how many. Every reserve does this by itself.
    fn reclaim<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.reclaim(), |py, count| object(py, count))
    }

    /// Set how many failed jobs the queue keeps (default 10,000) and for how long (seconds or timedelta; 180 days).
    ///
    /// Whenever another job fails, up to 100 of the oldest beyond that are removed.
    fn keep_failed<'py>(
        &self,
        py: Python<'py>,
        max: &Bound<'py, PyAny>,
        age: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let max = convert::whole("max", max, 0..=convert::MAX_COUNT).map_err(Failure::from)?;
        let age = convert::duration("age", age)?;
        call!(self, py, |queue| queue.keep_failed(max, age), |py, ()| Ok(py.None()))
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
    fn set_limits<'py>(
        &self,
        py: Python<'py>,
        concurrency: Option<&Bound<'py, PyAny>>,
        rate: Option<&Bound<'py, PyAny>>,
        names: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limits = limits_of(concurrency, rate, names)?;
        call!(self, py, |queue| queue.set_limits(&limits), |py, ()| Ok(py.None()))
    }

    /// Return the limits that are set.
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.limits(), |py, limits| object(py, Limits::from(limits)))
    }

    /// Count the jobs in each state, and say what comes next.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.counts(), |py, counts| object(py, Counts::new(py, counts)?))
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
    fn peek<'py>(
        &self,
        py: Python<'py>,
        state: Text<StateWord>,
        offset: Option<&Bound<'py, PyAny>>,
        limit: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (state, (offset, limit)) = (parse_state(&state)?, page(offset, limit)?);
        call!(self, py, |queue| queue.peek(state, offset, limit), |py, jobs| {
            object(py, jobs.into_iter().map(JobView::new).collect::<Vec<_>>())
        })
    }

    /// Return where a job is and why it is not running; None if there is no such job.
    #[pyo3(signature = (id=None, *, key=None))]
    fn find<'py>(&self, py: Python<'py>, id: Option<Text<Id>>, key: Option<Text<Key>>) -> PyResult<Bound<'py, PyAny>> {
        let (whole, job) = (self.whole()?, by(id, key)?);
        let find = async move {
            match &job {
                By::Id(id) => either!(&*whole, |queue| queue.find(id).await),
                By::Key(key) => either!(&*whole, |queue| queue.find_key(key).await),
            }
        };
        start(py, find, |py, found| object(py, found.map(|found| Found::new(py, found)).transpose()?))
    }

    /// Return the workers that are alive: host, start time, and what each runs.
    fn workers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.workers(), |py, workers| {
            object(py, workers.into_iter().map(WorkerInfo::from).collect::<Vec<_>>())
        })
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
    fn wait_result<'py>(
        &self,
        py: Python<'py>,
        id: Text<Id>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let timeout = timeout.map(|timeout| convert::duration("timeout", timeout)).transpose()?;
        call!(self, py, |queue| queue.wait_result(&id, timeout), |py, result| {
            Ok(convert::to_python(py, &result)?.unbind())
        })
    }

    /// Check the queue's invariants while it is in use, and repair what is broken if `repair=True`.
    #[pyo3(signature = (*, repair=false))]
    fn audit<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = convert::is_set::<Repair>)] repair: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = AuditOptions::new().repair(repair);
        call!(self, py, |queue| queue.audit(options), |py, report| object(py, AuditReport::new(py, report)?))
    }

    /// For tests: set the clock of a client created with `manual_clock=True`.
    fn set_clock<'py>(&self, py: Python<'py>, now: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let now = convert::moment("now", now)?;
        call!(self, py, |queue| queue.set_clock(now), |py, ()| Ok(py.None()))
    }

    fn __repr__(&self) -> String {
        format!("<duly.aio.Queue {:?}>", self.name)
    }
}
