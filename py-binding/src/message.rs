//! `duly.Message` and its asyncio twin.

use std::sync::Arc;

use duly::blocking;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert;
use crate::error::OrRaise as _;
use crate::queue::object;
use crate::topic::{AsyncTopic, Topic};

/// What both messages have.
macro_rules! message {
    ($class:ident) => {
        #[pymethods]
        impl $class {
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
    };
}

/// A message that was pulled. Until it is acked within its lease it is pulled again.
#[pyclass(frozen, module = "duly")]
pub(crate) struct Message {
    message: duly::Message,
    topic: Topic,
}

/// The asyncio version of `Message`.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct AsyncMessage {
    message: duly::Message,
    topic: AsyncTopic,
}

impl Message {
    const CLASS: &str = "duly.Message";

    pub(crate) fn of(client: &blocking::Client, message: duly::Message) -> PyResult<Self> {
        let topic = client.topic(message.topic()).or_raise()?;
        Ok(Self::new(message, Topic::new(topic)))
    }

    pub(crate) fn new(message: duly::Message, topic: Topic) -> Self {
        Self { message, topic }
    }
}

impl AsyncMessage {
    const CLASS: &str = "duly.aio.Message";

    pub(crate) fn of(client: &blocking::Client, message: duly::Message) -> PyResult<Self> {
        let topic = client.topic(message.topic()).or_raise()?;
        Ok(Self::new(message, AsyncTopic::new(topic)))
    }

    pub(crate) fn new(message: duly::Message, topic: AsyncTopic) -> Self {
        Self { message, topic }
    }
}

message! { Message }
message! { AsyncMessage }
