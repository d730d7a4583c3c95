//! The methods of a message, compiled twice: for `duly.Message` and for `duly.aio.Message`.
//!
//! The parent module says which classes `Message` and `Topic` are here; the `call` of the topic waits in the one, and starts in the
//! other.

use std::sync::Arc;

use duly::blocking;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Message, Topic};
use crate::convert;
use crate::error::OrRaise as _;
use crate::queue::object;

impl Message {
    pub(crate) fn of(client: &blocking::Client, message: duly::Message) -> PyResult<Self> {
        let topic = client.topic(message.topic()).or_raise()?;
        Ok(Self::new(message, Topic::new(topic)))
    }

    pub(crate) fn new(message: duly::Message, topic: Topic) -> Self {
        Self { message, topic }
    }
}

#[pymethods]
impl Message {
    /// When it was published in ms, and its number in the topic: `1790000000000-42`.
    #[getter]
    pub(crate) fn id(&self) -> &str {
        &self.message.id
    }

    /// The name of its topic.
    #[getter]
    pub(crate) fn topic(&self) -> &str {
        self.message.topic()
    }

    /// The published data, decoded.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_python(py, &self.message.data)
    }

    /// The published data, byte for byte.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.message.data.as_bytes())
    }

    /// When it was published, in unix seconds by the server's clock.
    #[getter]
    fn published_at(&self) -> f64 {
        self.message.published_at.as_seconds()
    }

    /// How often it was pulled, this time counted.
    #[getter]
    fn deliveries(&self) -> u64 {
        self.message.deliveries
    }

    /// Note that it was read; return whether it was not acked before. `Topic.ack` takes many at once.
    fn ack(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (member, id) = (self.message.member().to_owned(), self.message.id.clone());
        let ack = |topic: Arc<duly::Topic>| async move { topic.ack(&member, &[id]).await };
        self.topic.call(py, ack, |py, acked| object(py, acked > 0))
    }

    fn __repr__(&self) -> String {
        format!("<{} {:?} of {:?}>", Self::CLASS, self.id(), self.topic())
    }
}
