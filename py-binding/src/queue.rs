//! `duly.Queue`.

use std::sync::Mutex;

use duly::{AuditOptions, MAX_BATCH, Pushed, ReserveOptions, State, When, blocking};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

use crate::audit::AuditReport;
use crate::convert;
use crate::error::{Failure, invalid};
use crate::inspect::{Counts, Found, JobView};
use crate::job::{Job, ReservedJob};
use crate::new_job::{NewJob, Options};
use crate::operate::{Cancelled, Requeued};
use crate::retry::RetryPolicy;
use crate::waiting::wait;

/// One queue of a client.
#[pyclass(frozen, module = "duly")]
pub(crate) struct Queue {
    queue: blocking::Queue,
}

impl Queue {
    pub(crate) fn new(queue: blocking::Queue) -> Self {
        Self { queue }
    }

    fn jobs(slf: &Bound<'_, Self>, jobs: Vec<blocking::Job>) -> PyResult<Vec<Py<Job>>> {
        jobs.into_iter().map(|job| Job::new(slf.py(), job, slf.clone().into_any().unbind())).collect()
    }
}

#[pymethods]
impl Queue {
    #[getter]
    fn name(&self) -> &str {
        self.queue.name()
    }

    /// Puts a job in and gives its id.
    #[pyo3(signature = (
        data=None, *, name=None, delay=None, at=None, id=None, key=None, priority=None, max_retries=None, retry=None,
        timeout=None, headers=None, on_duplicate="refuse", raw=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn push(
        &self,
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
        delay: Option<&Bound<'_, PyAny>>,
        at: Option<&Bound<'_, PyAny>>,
        id: Option<&str>,
        key: Option<&str>,
        priority: Option<&Bound<'_, PyAny>>,
        max_retries: Option<&Bound<'_, PyAny>>,
        retry: Option<&Bound<'_, RetryPolicy>>,
        timeout: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        on_duplicate: &str,
        raw: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let options = Options {
            data,
            name,
            delay,
            at,
            id,
            key,
            priority,
            max_retries,
            retry,
            timeout,
            headers,
            on_duplicate,
            raw,
        };
        let job = options.job().map_err(|failure| in_call(failure, "push", self.name()))?;
        wait(py, |signals| self.queue.push(job, signals)).map(|pushed| pushed.id().to_owned())
    }

    /// Puts any number of jobs in, a thousand with each call to the server.
    #[pyo3(signature = (jobs, *, ids=false))]
    fn push_many(&self, py: Python<'_>, jobs: &Bound<'_, PyAny>, ids: bool) -> PyResult<PushSummary> {
        let fault = Mutex::new(None);
        let mut pushed_ids = ids.then(Vec::new);
        let batches = Batches { jobs: jobs.try_iter()?.unbind(), ready: Vec::new().into_iter(), fault: &fault };
        let note = |pushed: &[Pushed]| {
            if let Some(ids) = &mut pushed_ids {
                ids.extend(pushed.iter().map(|pushed| pushed.id().to_owned()));
            }
        };
        let summary = wait(py, |signals| self.queue.push_many(batches, note, signals));
        let fault = fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        match fault {
            Some(fault) => Err(PyErr::from(in_call(fault, "push_many", self.name()))),
            None => summary.map(|summary| PushSummary::new(&summary, pushed_ids)),
        }
    }

    /// Leases one job, or gives None when there is none until `wait` is over.
    #[pyo3(signature = (*, wait=None, lease=None))]
    fn reserve(
        slf: &Bound<'_, Self>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Py<Job>>> {
        reserve(slf, &reserve_options(1, wait, lease)?).map(|mut jobs| jobs.pop())
    }

    /// Leases up to `max` jobs.
    #[pyo3(signature = (max, *, wait=None, lease=None))]
    fn reserve_many(
        slf: &Bound<'_, Self>,
        max: &Bound<'_, PyAny>,
        wait: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<Job>>> {
        let max = convert::whole("max", max, MAX_BATCH).map_err(Failure::from)?;
        reserve(slf, &reserve_options(max, wait, lease)?)
    }

    /// Acks many jobs; True where the lease was still held.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the list")]
    fn ack_many(&self, py: Python<'_>, jobs: Vec<Bound<'_, ReservedJob>>) -> PyResult<Vec<bool>> {
        let held: PyResult<Vec<_>> = jobs.iter().map(|job| job.get().blocking().cloned()).collect();
        let held = held?;
        let acked = wait(py, |signals| self.queue.ack_all(&held, signals))?;
        for (job, acked) in jobs.iter().zip(&acked) {
            if *acked {
                job.get().note_settled();
            }
        }
        Ok(acked)
    }

    /// Removes a job in whatever state it is.
    #[pyo3(signature = (id=None, *, key=None))]
    fn cancel(&self, py: Python<'_>, id: Option<&str>, key: Option<&str>) -> PyResult<Option<Cancelled>> {
        let cancelled = match by(id, key)? {
            By::Id(id) => wait(py, |signals| self.queue.cancel(id, signals)),
            By::Key(key) => wait(py, |signals| self.queue.cancel_key(key, signals)),
        };
        cancelled.map(|cancelled| cancelled.map(Cancelled::from))
    }

    /// Gives a waiting job another due time.
    #[pyo3(signature = (id=None, *, key=None, delay=None, at=None))]
    fn reschedule(
        &self,
        py: Python<'_>,
        id: Option<&str>,
        key: Option<&str>,
        delay: Option<&Bound<'_, PyAny>>,
        at: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let when = when(delay, at)?;
        match by(id, key)? {
            By::Id(id) => wait(py, |signals| self.queue.reschedule(id, when, signals)),
            By::Key(key) => wait(py, |signals| self.queue.reschedule_key(key, when, signals)),
        }
    }

    /// Sends failed jobs round again, with their failures forgotten.
    #[pyo3(signature = (*ids))]
    fn requeue(&self, py: Python<'_>, ids: &Bound<'_, PyTuple>) -> PyResult<Vec<Requeued>> {
        let ids: Vec<String> = ids.extract()?;
        let outcomes = wait(py, |signals| self.queue.requeue(&ids, signals))?;
        Ok(ids.into_iter().zip(outcomes).map(|(id, outcome)| Requeued::new(id, outcome)).collect())
    }

    /// Sends all failed jobs round again.
    fn requeue_all(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| self.queue.requeue_all(signals))
    }

    /// Removes all jobs of a state.
    fn purge(&self, py: Python<'_>, state: &str) -> PyResult<u64> {
        let state = parse_state(state)?;
        wait(py, |signals| self.queue.purge(state, signals))
    }

    /// No more jobs are handed out until `resume`.
    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| self.queue.pause(signals))
    }

    /// Hands out jobs again.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, |signals| self.queue.resume(signals))
    }

    /// Moves due jobs to ready by hand.
    fn promote(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| self.queue.promote(signals))
    }

    /// Takes back leases that are over by hand.
    fn reclaim(&self, py: Python<'_>) -> PyResult<u64> {
        wait(py, |signals| self.queue.reclaim(signals))
    }

    /// How many failed jobs the queue keeps, and for how long.
    fn keep_failed(&self, py: Python<'_>, max: &Bound<'_, PyAny>, age: &Bound<'_, PyAny>) -> PyResult<()> {
        let max = convert::whole("max", max, u64::MAX).map_err(Failure::from)?;
        let age = convert::duration("age", age)?;
        wait(py, |signals| self.queue.keep_failed(max, age, signals))
    }

    /// How many jobs are in each state, and what comes next.
    fn counts(&self, py: Python<'_>) -> PyResult<Counts> {
        wait(py, |signals| self.queue.counts(signals)).and_then(|counts| Counts::new(py, counts))
    }

    /// Jobs of a state, without touching them.
    #[pyo3(signature = (state, *, offset=0, limit=100))]
    fn peek(&self, py: Python<'_>, state: &str, offset: usize, limit: usize) -> PyResult<Vec<JobView>> {
        let state = parse_state(state)?;
        let jobs = wait(py, |signals| self.queue.peek(state, offset, limit, signals))?;
        Ok(jobs.into_iter().map(JobView::new).collect())
    }

    /// Where a job is and why it is not running, or None.
    #[pyo3(signature = (id=None, *, key=None))]
    fn find(&self, py: Python<'_>, id: Option<&str>, key: Option<&str>) -> PyResult<Option<Py<Found>>> {
        let found = match by(id, key)? {
            By::Id(id) => wait(py, |signals| self.queue.find(id, signals)),
            By::Key(key) => wait(py, |signals| self.queue.find_key(key, signals)),
        };
        found?.map(|found| Found::new(py, found)).transpose()
    }

    /// Checks the queue's invariants while it is in use, and mends what is broken if asked to.
    #[pyo3(signature = (*, repair=false))]
    fn audit(&self, py: Python<'_>, repair: bool) -> PyResult<AuditReport> {
        let options = AuditOptions::new().repair(repair);
        wait(py, |signals| self.queue.audit(options, signals)).and_then(|report| AuditReport::new(py, report))
    }

    /// For tests: moves the clock of a client made with `manual_clock=True`.
    fn set_clock(&self, py: Python<'_>, now: &Bound<'_, PyAny>) -> PyResult<()> {
        let now = convert::moment("now", now)?;
        wait(py, |signals| self.queue.set_clock(now, signals))
    }

    fn __repr__(&self) -> String {
        format!("<duly.Queue {:?}>", self.name())
    }
}

fn reserve(slf: &Bound<'_, Queue>, options: &ReserveOptions) -> PyResult<Vec<Py<Job>>> {
    let queue = &slf.get().queue;
    let jobs = wait(slf.py(), |signals| queue.reserve(options, signals))?;
    Queue::jobs(slf, jobs)
}

pub(crate) fn reserve_options(
    max: usize,
    wait: Option<&Bound<'_, PyAny>>,
    lease: Option<&Bound<'_, PyAny>>,
) -> Result<ReserveOptions, Failure> {
    let mut options = ReserveOptions::new().max(max);
    if let Some(wait) = wait {
        options = options.wait(convert::duration("wait", wait)?);
    }
    if let Some(lease) = lease {
        options = options.lease(convert::duration("lease", lease)?);
    }
    Ok(options)
}

/// How a job is named: by its id, or by its key.
pub(crate) enum By<T> {
    Id(T),
    Key(T),
}

impl By<&str> {
    pub(crate) fn to_owned(&self) -> By<String> {
        match self {
            Self::Id(id) => By::Id((*id).to_owned()),
            Self::Key(key) => By::Key((*key).to_owned()),
        }
    }
}

impl By<String> {
    pub(crate) fn as_ref(&self) -> By<&str> {
        match self {
            Self::Id(id) => By::Id(id),
            Self::Key(key) => By::Key(key),
        }
    }
}

pub(crate) fn by<'a>(id: Option<&'a str>, key: Option<&'a str>) -> Result<By<&'a str>, Failure> {
    match (id, key) {
        (Some(id), None) => Ok(By::Id(id)),
        (None, Some(key)) => Ok(By::Key(key)),
        _ => Err(invalid("name the job by its id or by key=, one of the two").into()),
    }
}

pub(crate) fn when(delay: Option<&Bound<'_, PyAny>>, at: Option<&Bound<'_, PyAny>>) -> Result<When, Failure> {
    convert::delay(delay, at)?.ok_or_else(|| invalid("say when: give delay or at").into())
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

/// The jobs of a Python iterable, fetched a batch at a time so that the GIL is taken once a batch.
struct Batches<'a> {
    jobs: Py<PyIterator>,
    ready: std::vec::IntoIter<duly::NewJob>,
    /// What the iterable raised; the jobs of its batch are not pushed.
    fault: &'a Mutex<Option<Failure>>,
}

impl Iterator for Batches<'_> {
    type Item = duly::NewJob;

    fn next(&mut self) -> Option<duly::NewJob> {
        if let Some(job) = self.ready.next() {
            return Some(job);
        }
        match self.fetch() {
            Ok(batch) => self.ready = batch.into_iter(),
            Err(failure) => {
                *self.fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(failure);
                return None;
            }
        }
        self.ready.next()
    }
}

impl Batches<'_> {
    fn fetch(&self) -> Result<Vec<duly::NewJob>, Failure> {
        Python::attach(|py| new_jobs(&mut self.jobs.bind(py).clone(), MAX_BATCH))
    }
}

/// The next jobs of an iterator, at most so many.
pub(crate) fn new_jobs(jobs: &mut Bound<'_, PyIterator>, at_most: usize) -> Result<Vec<duly::NewJob>, Failure> {
    let mut batch = Vec::new();
    for job in jobs.take(at_most) {
        let job = job?;
        let new_job = job.cast::<NewJob>().map_err(|_| {
            invalid(format!("push_many takes duly.NewJob(data, ...), not {}", convert::type_name(&job)))
        })?;
        batch.push(new_job.get().job());
    }
    Ok(batch)
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
