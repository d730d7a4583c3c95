//! What operators' verbs give: `duly.Cancelled` and `duly.Requeued`.

use pyo3::prelude::*;

/// A job that was removed, and the state it was in.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Cancelled {
    id: String,
    was: &'static str,
}

impl From<duly::Cancelled> for Cancelled {
    fn from(cancelled: duly::Cancelled) -> Self {
        Self { id: cancelled.id, was: cancelled.was.as_str() }
    }
}

#[pymethods]
impl Cancelled {
    fn __repr__(&self) -> String {
        format!("<duly.Cancelled {:?}, was {}>", self.id, self.was)
    }
}

/// The answer of `requeue` for one failed job.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Requeued {
    id: String,
    outcome: &'static str,
    /// The job that holds the key now, of a duplicate.
    holder: Option<String>,
}

impl Requeued {
    pub(crate) fn new(id: String, requeued: duly::Requeued) -> Self {
        let (outcome, holder) = match requeued {
            duly::Requeued::Ready => ("ready", None),
            duly::Requeued::Duplicate { id } => ("duplicate", Some(id)),
            _ => ("absent", None),
        };
        Self { id, outcome, holder }
    }
}

#[pymethods]
impl Requeued {
    fn __repr__(&self) -> String {
        format!("<duly.Requeued {:?}, {}>", self.id, self.outcome)
    }
}
