//! `Queue.push_many`, and what it gives: `duly.PushSummary`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duly::{Durability, Error, blocking};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::aio::AsyncQueue;
use crate::convert::{self, Ids};
use crate::error::{Failure, invalid};
use crate::new_job::NewJob;
use crate::queue::{Queue, in_call, object};
use crate::waiting::wait;

/// A long push, a batch at a time. The iterable is Python's own affair: it may call duly, wait for long, or be left at the
/// exit of the process, so it is not read from here.
#[pyclass(frozen, module = "duly._core", name = "_LongPush")]
pub(crate) struct LongPush {
    queue: Py<Queue>,
    durability: Option<Durability>,
    so_far: Mutex<blocking::LongPush>,
}

#[pymethods]
impl LongPush {
    #[new]
    #[pyo3(signature = (queue, *, ids, durability))]
    fn new(
        queue: &Bound<'_, Queue>,
        #[pyo3(from_py_with = convert::is_set::<Ids>)] ids: bool,
        durability: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let durability = push_durability(durability, queue.get().name())?;
        let so_far = Mutex::new(blocking::LongPush::new(ids));
        Ok(Self { queue: queue.clone().unbind(), durability, so_far })
    }

    /// Pushes a list of new jobs.
    fn push(&self, py: Python<'_>, jobs: &Bound<'_, PyList>) -> PyResult<()> {
        let queue = self.queue.get();
        let jobs = new_jobs(jobs, self.durability, &self.lock())
            .map_err(|failure| in_call(failure, "push_many", queue.name()))?;
        let before = self.lock().total();
        let pushed = wait(py, |signals| queue.queue.push_some(jobs, before, signals))?;
        self.lock().add(&pushed);
        Ok(())
    }

    /// How many jobs are pushed, in words; nothing if none are.
    fn said_before(&self) -> Option<String> {
        self.lock().said_before(self.queue.get().name())
    }

    /// What became of all of them.
    fn summary(&self) -> PushSummary {
        PushSummary::of(&self.lock())
    }
}

impl LongPush {
    fn lock(&self) -> MutexGuard<'_, blocking::LongPush> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `push_many` of an asyncio queue calls when it has read its iterable.
#[pyfunction]
#[pyo3(signature = (queue, jobs, *, ids, durability))]
pub(crate) fn _push_all<'py>(
    queue: &Bound<'py, AsyncQueue>,
    jobs: &Bound<'py, PyList>,
    #[pyo3(from_py_with = convert::is_set::<Ids>)] ids: bool,
    durability: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let (name, mut so_far) = (queue.get().name(), blocking::LongPush::new(ids));
    let durability = push_durability(durability, name)?;
    let jobs = new_jobs(jobs, durability, &so_far).map_err(|fault| in_call(fault, "push_many", name))?;
    let push = |queue: Arc<duly::Queue>| async move {
        queue.push_many(jobs, |pushed| so_far.add(pushed)).await?;
        Ok::<_, Error>(so_far)
    };
    queue.get().call(queue.py(), push, |py, push| object(py, PushSummary::of(&push)))
}

/// What is asked for all jobs of a call that do not say it themselves.
fn push_durability(given: Option<&Bound<'_, PyAny>>, queue: &str) -> Result<Option<Durability>, Failure> {
    given.map(convert::durability).transpose().map_err(|error| in_call(error.into(), "push_many", queue))
}

/// The jobs of a list of `NewJob`.
fn new_jobs(
    jobs: &Bound<'_, PyList>,
    durability: Option<Durability>,
    so_far: &blocking::LongPush,
) -> Result<Vec<duly::NewJob>, Failure> {
    let new_job = |(index, job): (usize, Bound<'_, PyAny>)| {
        let refused = || invalid(format!("push_many takes duly.NewJob(data, ...), not {}", convert::type_name(&job)));
        let job = job.cast::<NewJob>().map_err(|_| so_far.refused(index, refused()))?;
        Ok(job.get().job().durability_unless_given(durability))
    };
    jobs.iter().enumerate().map(new_job).collect()
}

/// The result of `push_many`.
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
    fn of(push: &blocking::LongPush) -> Self {
        let duly::PushSummary { created, kept, replaced, duplicates, .. } = *push.summary();
        Self { created, kept, replaced, duplicates, ids: push.ids().map(<[_]>::to_vec) }
    }
}

#[pymethods]
impl PushSummary {
    fn __repr__(&self) -> String {
        let Self { created, kept, replaced, duplicates, .. } = self;
        format!("<duly.PushSummary: {created} created, {kept} kept, {replaced} replaced, {duplicates} duplicates>")
    }
}
