//! `duly.Message`.

mod methods;

use pyo3::prelude::*;

use crate::topic::Topic;

/// A message that was pulled. Until it is acked within its lease it is pulled again.
#[pyclass(frozen, module = "duly")]
pub(crate) struct Message {
    message: duly::Message,
    topic: Topic,
}

impl Message {
    const CLASS: &str = "duly.Message";
}
