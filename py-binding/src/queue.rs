//! `duly.Queue`, and what is shared by the verbs of queues.

mod methods;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use duly::{Error, MAX_BATCH, ReserveOptions, State, When, blocking};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::convert::{self, IdOfSeveral, Only, Text};
use crate::error::{Failure, invalid};
use crate::job::{Job, ReservedJob};
use crate::schedules::Schedules;
use crate::waiting::{unless_interrupted, wait};

/// A queue. Created by `client.queue(name)` or `client.partitions(name, count)`; safe to share between threads.
///
/// A queue is partitioned when one cluster node cannot carry it. A job's part is chosen by its key, or else by its
/// id. Priorities and order hold within a part only. Operations on one job search every part if it is not where it
/// should be; `counts` and operations on all jobs make one call for each part. The `queue` of a job from a
/// partitioned queue is the part.
#[pyclass(frozen, module = "duly")]
pub(crate) struct Queue {
    pub(crate) queue: blocking::Queue,
}

impl Queue {
    const CLASS: &str = "duly.Queue";

    pub(crate) fn new(queue: blocking::Queue) -> Self {
        Self { queue }
    }

    /// Waits for a call on the queue. `finish` converts what it gives.
    pub(crate) fn call<T: Send, F: Future<Output = Result<T, Error>>>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<duly::Queue>) -> F + Send,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        wait(py, |signals| self.queue.wait_for(call, signals)).and_then(|given| finish(py, given))
    }

    fn reserve_up_to(
        slf: &Bound<'_, Self>,
        options: &ReserveOptions,
        renew: Option<Duration>,
        finish: impl FnOnce(Python<'_>, Vec<Py<Job>>) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (py, queue) = (slf.py(), &slf.get().queue);
        let with_queue = |job: blocking::Job| {
            let of_part = || Py::new(py, Self::new(job.queue().clone()));
            let queue = if queue.parts().is_empty() { slf.clone().unbind() } else { of_part()? };
            match renew {
                Some(lease) => Job::renewed(py, job, lease, queue.into_any()),
                None => Job::new(py, job, queue.into_any()),
            }
        };
        let jobs = wait(py, |signals| queue.reserve(options, signals))?;
        let jobs = jobs.into_iter().map(with_queue).collect::<PyResult<Vec<_>>>()?;
        if !jobs.is_empty() {
            unless_interrupted(py, || of_callers(py, &jobs))?;
        }
        finish(py, jobs)
    }
}

/// Those that are not there yet for anybody but the caller.
pub(crate) fn of_callers(py: Python<'_>, jobs: &[Py<Job>]) -> PyResult<Vec<blocking::Job>> {
    jobs.iter().map(|job| job.bind(py).as_super().get().blocking().cloned()).collect()
}

pub(crate) fn object<T: for<'py> IntoPyObject<'py>>(py: Python<'_>, value: T) -> PyResult<Py<PyAny>> {
    value.into_py_any(py)
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
    let wrong = || convert::of_wrong_type("jobs", "a list of reserved jobs", given);
    let jobs = convert::items(given).ok_or_else(wrong)?;
    jobs.map(|job| job?.cast_into().map_err(|_| wrong())).collect()
}

pub(crate) fn parse_state(state: &str) -> Result<State, Failure> {
    State::parse(state).map_err(Failure::from)
}

/// One state, or several.
pub(crate) fn states(given: &Bound<'_, PyAny>) -> PyResult<Vec<State>> {
    let parsed = |word: &Bound<'_, PyAny>| Ok(parse_state(&word.extract::<Text<Only>>()?)?);
    if given.is_instance_of::<PyString>() {
        return Ok(vec![parsed(given)?]);
    }
    let several = given.try_iter().map_err(|_| convert::of_wrong_type("only", "a state or a list of states", given))?;
    several.map(|word| parsed(&word?)).collect()
}

/// An argument was refused: says in which call.
pub(crate) fn in_call(failure: Failure, operation: &'static str, queue: &str) -> Failure {
    match failure {
        Failure::Duly(error) => Failure::Duly(error.during(operation).in_queue(queue)),
        python @ Failure::Python(_) => python,
    }
}
