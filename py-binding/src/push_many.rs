//! `Queue.push_many`, and what it gives: `duly.PushSummary`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use duly::{Durability, blocking};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::convert;
use crate::error::{Failure, invalid};
use crate::new_job::NewJob;
use crate::queue::{Queue, either, in_call};
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
    /// Pushes a list of new jobs.
    fn push(&self, py: Python<'_>, jobs: &Bound<'_, PyList>) -> PyResult<()> {
        let queue = self.queue.get();
        let jobs = new_jobs(jobs, self.durability, &self.lock())
            .map_err(|failure| in_call(failure, "push_many", queue.name()))?;
        let before = self.lock().total();
        let pushed = wait(py, |signals| either!(&queue.queue, |queue| queue.push_some(jobs, before, signals)))?;
        self.lock().add(&pushed);
        Ok(())
    }

    /// What became of all of them.
    fn summary(&self) -> PushSummary {
        PushSummary::of(&self.lock())
    }
}

impl LongPush {
    pub(crate) fn new(
        queue: &Bound<'_, Queue>,
        keep_ids: bool,
        durability: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let durability = push_durability(durability, queue.get().name())?;
        let so_far = Mutex::new(blocking::LongPush::new(keep_ids));
        Ok(Self { queue: queue.clone().unbind(), durability, so_far })
    }

    fn lock(&self) -> MutexGuard<'_, blocking::LongPush> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is asked for all jobs of a call that do not say it themselves.
pub(crate) fn push_durability(given: Option<&Bound<'_, PyAny>>, queue: &str) -> Result<Option<Durability>, Failure> {
    given.map(convert::durability).transpose().map_err(|error| in_call(error.into(), "push_many", queue))
}

/// The jobs of a list of `NewJob`.
pub(crate) fn new_jobs(
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
    pub(crate) fn of(push: &blocking::LongPush) -> Self {
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
