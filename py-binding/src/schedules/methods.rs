//! The methods of the schedules of a queue, compiled twice: for `duly.Schedules` and for `duly.aio.Schedules`.
//!
//! The parent module says which class `Schedules` is here; the `call` of its queue waits in the one, and starts in the other.

use std::sync::Arc;

use duly::{Millis, PutSchedule};
use pyo3::prelude::*;

use super::Schedules;
use crate::convert;
use crate::error::OrRaise as _;
use crate::queue::{object, page};
use crate::schedule::{Schedule, ScheduleView, SyncReport, how_many};
use crate::schedules::{list_of, text};

#[pymethods]
impl Schedules {
    /// The name of the queue.
    #[getter]
    fn name(&self) -> &str {
        self.queue.name()
    }

    /// Store a schedule under this name, in place of the one that has it.
    ///
    /// Nothing fires at once: the first slot is the first one in the future. A schedule that is the same keeps its next
    /// slot.
    ///
    /// Args:
    ///     name: 1 to 96 bytes. The ids of its jobs are `<name>@<slot>`.
    ///     schedule: what to push, and when.
    ///
    /// Raises:
    ///     InvalidArgumentError: an argument is wrong, or there is no slot in the future.
    ///     TooLargeError: the data of the job is too large.
    fn put(&self, py: Python<'_>, name: &Bound<'_, PyAny>, schedule: &Bound<'_, Schedule>) -> PyResult<Py<PyAny>> {
        let (name, schedule) = (text(name)?, schedule.get().schedule.clone());
        let put = |queue: Arc<duly::Queue>| async move { queue.schedules().put(&name, &schedule).await };
        self.queue.call(py, put, |py, put| object(py, PutSchedule::as_str(put)))
    }

    /// Remove a schedule; return whether there was one. Jobs that it has pushed stay.
    fn remove(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let name = text(name)?;
        let remove = |queue: Arc<duly::Queue>| async move { queue.schedules().remove(&name).await };
        self.queue.call(py, remove, object)
    }

    /// Return a schedule with its last twenty fires, or None.
    fn get(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let name = text(name)?;
        let get = |queue: Arc<duly::Queue>| async move { queue.schedules().get(&name).await };
        self.queue.call(py, get, |py, view| object(py, view.map(ScheduleView::from)))
    }

    /// Return a page of the schedules in the order in which they fire; those paused or over come last.
    #[pyo3(signature = (offset=None, limit=None), text_signature = "($self, offset=0, limit=100)")]
    fn list(
        &self,
        py: Python<'_>,
        offset: Option<&Bound<'_, PyAny>>,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (offset, limit) = page(offset, limit)?;
        let list = move |queue: Arc<duly::Queue>| async move { queue.schedules().list(offset, limit).await };
        self.queue.call(py, list, |py, views| object(py, views.into_iter().map(ScheduleView::from).collect::<Vec<_>>()))
    }

    /// Fire no more until `resume`; return whether there is a schedule of this name.
    fn pause(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let name = text(name)?;
        let pause = |queue: Arc<duly::Queue>| async move { queue.schedules().pause(&name).await };
        self.queue.call(py, pause, object)
    }

    /// Fire again from the first slot in the future on; return whether there is a schedule of this name.
    fn resume(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let name = text(name)?;
        let resume = |queue: Arc<duly::Queue>| async move { queue.schedules().resume(&name).await };
        self.queue.call(py, resume, object)
    }

    /// Push a job of the schedule now and return its id. That moves none of its slots.
    ///
    /// Raises:
    ///     NotFoundError: there is no schedule of this name.
    ///     DuplicateError: an earlier job is still in the queue, and the schedule's overlap is "skip".
    fn run_now(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let name = text(name)?;
        let run = |queue: Arc<duly::Queue>| async move { queue.schedules().run_now(&name).await };
        self.queue.call(py, run, object)
    }

    /// Return the next slots of a schedule, at most 100, in unix seconds; none if it is paused or over.
    ///
    /// Raises:
    ///     NotFoundError: there is no schedule of this name.
    #[pyo3(signature = (name, count=None), text_signature = "($self, name, count=5)")]
    fn next(&self, py: Python<'_>, name: &Bound<'_, PyAny>, count: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let (name, count) = (text(name)?, how_many(count, duly::Schedules::MOST_SLOTS)?);
        let next = move |queue: Arc<duly::Queue>| async move { queue.schedules().next(&name, count).await };
        self.queue.call(py, next, |py, slots| object(py, slots.into_iter().map(Millis::as_seconds).collect::<Vec<_>>()))
    }

    /// Make the schedules of an owner those of this mapping.
    ///
    /// New and changed ones are put, and those of the owner that are not in the mapping are removed. Schedules of other
    /// owners, and those made by `put`, are left alone. Unchanged ones keep their next slots, so this may run at each
    /// start of each process.
    ///
    /// Args:
    ///     owner: whose schedules, such as the name of the program: 1 to 128 bytes.
    ///     schedules: the schedules by name.
    ///
    /// Raises:
    ///     InvalidArgumentError: a schedule is wrong, or its name belongs to somebody else. Nothing was changed.
    fn sync(&self, py: Python<'_>, owner: &Bound<'_, PyAny>, schedules: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let owner = convert::text("owner", owner).or_raise()?;
        let list = list_of(schedules)?;
        let sync = |queue: Arc<duly::Queue>| async move { queue.schedules().sync(&owner, &list).await };
        self.queue.call(py, sync, |py, report| object(py, SyncReport::from(report)))
    }

    /// Fire what is due, and return how many slots pushed a job.
    ///
    /// Workers do this by themselves. It is for programs that reserve by hand, and for tests.
    fn fire_due(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let fire = |queue: Arc<duly::Queue>| async move { queue.schedules().fire_due().await };
        self.queue.call(py, fire, object)
    }

    fn __repr__(&self) -> String {
        format!("<schedules of {:?}>", self.queue.name())
    }
}
