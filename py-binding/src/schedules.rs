//! `duly.Schedules`: the schedules of a queue.

mod methods;

use duly::blocking;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert;
use crate::error::{Failure, OrRaise as _, invalid};
use crate::queue::Queue;
use crate::schedule::Schedule;

/// The schedules of a queue. Workers of the queue fire them; while none is alive, nothing fires.
#[pyclass(frozen, module = "duly")]
pub(crate) struct Schedules {
    queue: Queue,
}

impl Schedules {
    pub(crate) fn new(queue: blocking::Queue) -> Self {
        Self { queue: Queue::new(queue) }
    }
}

/// What `sync` takes: a dict of names and schedules.
pub(crate) fn list_of(given: &Bound<'_, PyAny>) -> Result<Vec<(String, duly::Schedule)>, Failure> {
    let refused = || invalid("schedules is a dict of names and schedules, such as {'nightly': duly.Schedule(...)}");
    let given = given.cast::<PyDict>().map_err(|_| refused())?;
    let mut list = Vec::with_capacity(given.len());
    for (name, schedule) in given.iter() {
        let name = convert::text("the name of a schedule", &name)?;
        list.push((name, schedule.cast::<Schedule>().map_err(|_| refused())?.get().schedule.clone()));
    }
    Ok(list)
}

pub(crate) fn text(name: &Bound<'_, PyAny>) -> PyResult<String> {
    convert::text("name", name).or_raise()
}
