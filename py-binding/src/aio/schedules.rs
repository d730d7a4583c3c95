//! `duly.aio.Schedules`.

#[path = "../schedules/methods.rs"]
#[expect(clippy::duplicate_mod, reason = "both classes have the same methods, and a class of PyO3 has no parameter")]
mod methods;

use duly::blocking;
use pyo3::prelude::*;

use self::AsyncSchedules as Schedules; // for the methods
use super::queue::AsyncQueue;

/// The asyncio version of `Schedules`: each method returns a `Call`.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct AsyncSchedules {
    queue: AsyncQueue,
}

impl AsyncSchedules {
    pub(super) fn new(queue: blocking::Queue) -> Self {
        Self { queue: AsyncQueue::new(queue) }
    }
}
