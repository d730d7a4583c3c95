//! `duly.aio.Queue`.

#![expect(clippy::redundant_closure, reason = "the lifetime of `object` is bound early; the closure's is not")]

use duly::{Error, MAX_BATCH};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::client::Shared;
use super::future::start;
use super::job::AsyncJob;
use crate::convert;
use crate::error::{Failure, OrRaise as _};
use crate::inspect::{Counts, Found, JobView};
use crate::job::ReservedJob;
use crate::new_job::Options;
use crate::operate::{Cancelled, Requeued};
use crate::queue::{By, PushSummary, by, in_call, new_jobs, parse_state, reserve_options, when};
use crate::retry::RetryPolicy;

/// The asyncio twin of `duly.Queue`.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct AsyncQueue {
    shared: Shared,
    name: String,
}

impl AsyncQueue {
    pub(super) fn new(shared: Shared, name: String) -> Self {
        Self { shared, name }
    }

    fn queue(&self) -> PyResult<duly::Queue> {
        self.shared.client().and_then(|client| client.queue(&self.name)).or_raise()
    }
}

/// One call on the queue: `call!(self, py, |queue| queue.pause(), |py, value| ...)`.
macro_rules! call {
    ($self:ident, $py:ident, |$queue:ident| $call:expr, $finish:expr) => {{
        let $queue = $self.queue()?;
        start($py, async move { $call.await }, $finish)
    }};
}

fn object<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Py<PyAny>>
where
    PyErr: From<T::Error>,
{
    value.into_bound_py_any(py).map(Bound::unbind)
}

fn jobs(py: Python<'_>, jobs: Vec<duly::Job>, queue: &Py<AsyncQueue>) -> PyResult<Vec<Py<AsyncJob>>> {
    jobs.into_iter().map(|job| AsyncJob::new(py, job, queue.clone_ref(py).into_any())).collect()
}

#[pymethods]
impl AsyncQueue {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Puts a job in and gives its id.
    #[pyo3(signature = (
        data=None, *, name=None, delay=None, at=None, id=None, key=None, priority=None, max_retries=None, retry=None,
        timeout=None, headers=None, on_duplicate="refuse", raw=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn push<'py>(
        &self,
        py: Python<'py>,
        data: Option<&Bound<'py, PyAny>>,
        name: Option<&str>,
        delay: Option<&Bound<'py, PyAny>>,
        at: Option<&Bound<'py, PyAny>>,
        id: Option<&str>,
        key: Option<&str>,
        priority: Option<&Bound<'py, PyAny>>,
        max_retries: Option<&Bound<'py, PyAny>>,
        retry: Option<&Bound<'py, RetryPolicy>>,
        timeout: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        on_duplicate: &str,
        raw: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
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
        let job = options.job().map_err(|failure| in_call(failure, "push", &self.name))?;
        call!(self, py, |queue| queue.push(job), |py, pushed| object(py, pushed.id()))
    }

    /// Puts any number of jobs in, a thousand with each call to the server. Reads the iterable before it sends anything.
    #[pyo3(signature = (jobs, *, ids=false))]
    fn push_many<'py>(&self, py: Python<'py>, jobs: &Bound<'py, PyAny>, ids: bool) -> PyResult<Bound<'py, PyAny>> {
        let jobs =
            new_jobs(&mut jobs.try_iter()?, usize::MAX).map_err(|fault| in_call(fault, "push_many", &self.name))?;
        let queue = self.queue()?;
        let push = async move {
            let mut pushed_ids = ids.then(Vec::new);
            let note = |pushed: &[duly::Pushed]| {
                if let Some(ids) = &mut pushed_ids {
                    ids.extend(pushed.iter().map(|pushed| pushed.id().to_owned()));
                }
            };
            let summary = queue.push_many(jobs, note).await?;
            Ok::<_, Error>((summary, pushed_ids))
        };
        start(py, push, |py, (summary, ids)| object(py, PushSummary::new(&summary, ids)))
    }

    /// Leases one job, or gives None when there is none until `wait` is over.
    #[pyo3(signature = (*, wait=None, lease=None))]
    fn reserve<'py>(
        slf: &Bound<'py, Self>,
        wait: Option<&Bound<'py, PyAny>>,
        lease: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (options, of, queue) = (reserve_options(1, wait, lease)?, slf.clone().unbind(), slf.get().queue()?);
        start(slf.py(), async move { queue.reserve(&options).await }, move |py, reserved| {
            object(py, jobs(py, reserved, &of)?.pop())
        })
    }

    /// Leases up to `max` jobs.
    #[pyo3(signature = (max, *, wait=None, lease=None))]
    fn reserve_many<'py>(
        slf: &Bound<'py, Self>,
        max: &Bound<'py, PyAny>,
        wait: Option<&Bound<'py, PyAny>>,
        lease: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let max = convert::whole("max", max, MAX_BATCH).map_err(Failure::from)?;
        let (options, of, queue) = (reserve_options(max, wait, lease)?, slf.clone().unbind(), slf.get().queue()?);
        start(slf.py(), async move { queue.reserve(&options).await }, move |py, reserved| {
            object(py, jobs(py, reserved, &of)?)
        })
    }

    /// Acks many jobs; True where the lease was still held.
    fn ack_many<'py>(&self, py: Python<'py>, jobs: Vec<Bound<'py, ReservedJob>>) -> PyResult<Bound<'py, PyAny>> {
        let held: Vec<duly::Job> = jobs.iter().map(|job| job.get().job().clone()).collect();
        let jobs: Vec<Py<ReservedJob>> = jobs.into_iter().map(Bound::unbind).collect();
        call!(self, py, |queue| queue.ack_all(&held), move |py, acked| {
            jobs.iter().zip(&acked).filter(|(_, acked)| **acked).for_each(|(job, _)| job.get().note_settled());
            object(py, acked)
        })
    }

    /// Removes a job in whatever state it is.
    #[pyo3(signature = (id=None, *, key=None))]
    fn cancel<'py>(&self, py: Python<'py>, id: Option<&str>, key: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        let (queue, job) = (self.queue()?, by(id, key)?.to_owned());
        let cancel = async move {
            match job.as_ref() {
                By::Id(id) => queue.cancel(id).await,
                By::Key(key) => queue.cancel_key(key).await,
            }
        };
        start(py, cancel, |py, cancelled| object(py, cancelled.map(Cancelled::from)))
    }

    /// Gives a waiting job another due time.
    #[pyo3(signature = (id=None, *, key=None, delay=None, at=None))]
    fn reschedule<'py>(
        &self,
        py: Python<'py>,
        id: Option<&str>,
        key: Option<&str>,
        delay: Option<&Bound<'py, PyAny>>,
        at: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (queue, job, when) = (self.queue()?, by(id, key)?.to_owned(), when(delay, at)?);
        let reschedule = async move {
            match job.as_ref() {
                By::Id(id) => queue.reschedule(id, when).await,
                By::Key(key) => queue.reschedule_key(key, when).await,
            }
        };
        start(py, reschedule, |py, id| object(py, id))
    }

    /// Sends failed jobs round again, with their failures forgotten.
    #[pyo3(signature = (*ids))]
    fn requeue<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (queue, ids) = (self.queue()?, ids.extract::<Vec<String>>()?);
        let requeue = async move {
            let outcomes = queue.requeue(&ids).await?;
            Ok::<_, Error>(ids.into_iter().zip(outcomes).collect::<Vec<_>>())
        };
        start(py, requeue, |py, outcomes| {
            let outcomes: Vec<_> = outcomes.into_iter().map(|(id, outcome)| Requeued::new(id, outcome)).collect();
            object(py, outcomes)
        })
    }

    /// Sends all failed jobs round again.
    fn requeue_all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.requeue_all(), |py, count| object(py, count))
    }

    /// Removes all jobs of a state.
    fn purge<'py>(&self, py: Python<'py>, state: &str) -> PyResult<Bound<'py, PyAny>> {
        let state = parse_state(state)?;
        call!(self, py, |queue| queue.purge(state), |py, count| object(py, count))
    }

    /// No more jobs are handed out until `resume`.
    fn pause<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.pause(), |py, ()| Ok(py.None()))
    }

    /// Hands out jobs again.
    fn resume<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.resume(), |py, ()| Ok(py.None()))
    }

    /// Moves due jobs to ready by hand.
    fn promote<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.promote(), |py, count| object(py, count))
    }

    /// Takes back leases that are over by hand.
    fn reclaim<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.reclaim(), |py, count| object(py, count))
    }

    /// How many failed jobs the queue keeps, and for how long.
    fn keep_failed<'py>(
        &self,
        py: Python<'py>,
        max: &Bound<'py, PyAny>,
        age: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let max = convert::whole("max", max, u64::MAX).map_err(Failure::from)?;
        let age = convert::duration("age", age)?;
        call!(self, py, |queue| queue.keep_failed(max, age), |py, ()| Ok(py.None()))
    }

    /// How many jobs are in each state, and what comes next.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        call!(self, py, |queue| queue.counts(), |py, counts| object(py, Counts::new(py, counts)?))
    }

    /// Jobs of a state, without touching them.
    #[pyo3(signature = (state, *, offset=0, limit=100))]
    fn peek<'py>(&self, py: Python<'py>, state: &str, offset: usize, limit: usize) -> PyResult<Bound<'py, PyAny>> {
        let state = parse_state(state)?;
        call!(self, py, |queue| queue.peek(state, offset, limit), |py, jobs| {
            object(py, jobs.into_iter().map(JobView::new).collect::<Vec<_>>())
        })
    }

    /// Where a job is and why it is not running, or None.
    #[pyo3(signature = (id=None, *, key=None))]
    fn find<'py>(&self, py: Python<'py>, id: Option<&str>, key: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        let (queue, job) = (self.queue()?, by(id, key)?.to_owned());
        let find = async move {
            match job.as_ref() {
                By::Id(id) => queue.find(id).await,
                By::Key(key) => queue.find_key(key).await,
            }
        };
        start(py, find, |py, found| object(py, found.map(|found| Found::new(py, found)).transpose()?))
    }

    fn __repr__(&self) -> String {
        format!("<duly.aio.Queue {:?}>", self.name)
    }
}
