//! `duly.Topic`, and what is shared by the verbs of topics.

pub(crate) mod info;
mod methods;

use std::future::Future;
use std::sync::Arc;

use duly::{Error, MAX_PUBLISH, PullOptions, blocking};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::aio::AsyncMessage;
use crate::convert::{self, Ids, Text};
use crate::error::{Failure, invalid};
use crate::message::Message;
use crate::waiting::wait;

/// A topic: messages that every subscription gets, each at its own pace.
///
/// Created by `client.topic(name)`; safe to share between threads. A message stays until all subscriptions have read
/// it, within the bounds of the topic. A subscription that has not read what goes beyond them is cut off: its members
/// get CutOffError until they subscribe again.
#[pyclass(frozen, module = "duly")]
#[derive(Clone)]
pub(crate) struct Topic {
    topic: blocking::Topic,
}

impl Topic {
    const CLASS: &str = "duly.Topic";

    pub(crate) fn call<T: Send, F: Future<Output = Result<T, Error>>>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<duly::Topic>) -> F + Send,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        wait(py, |signals| self.topic.wait_for(call, signals)).and_then(|given| finish(py, given))
    }
}

/// The answer of a publish.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Published {
    ids: Vec<String>,
    cut_off: Vec<String>,
}

impl From<duly::Published> for Published {
    fn from(published: duly::Published) -> Self {
        Self { ids: published.ids, cut_off: published.cut_off }
    }
}

#[pymethods]
impl Published {
    /// The id of the last message, which is the only one of `publish`.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.ids.last().map(String::as_str)
    }

    fn __repr__(&self) -> String {
        format!("<duly.Published: {} messages>", self.ids.len())
    }
}

pub(crate) fn pull_options(
    max: Option<&Bound<'_, PyAny>>,
    wait: Option<&Bound<'_, PyAny>>,
    lease: Option<&Bound<'_, PyAny>>,
) -> Result<PullOptions, Failure> {
    let mut options = PullOptions::new();
    if let Some(max) = max {
        options = options.max(convert::whole("max", max, 1..=MAX_PUBLISH as u64)?);
    }
    if let Some(wait) = wait {
        options = options.wait(convert::duration("wait", wait)?);
    }
    if let Some(lease) = lease {
        options = options.lease(convert::lease(lease)?);
    }
    Ok(options)
}

/// The id of a message of this topic: another topic may have one of the same id.
pub(crate) fn id_of(topic: &str, message: &Bound<'_, PyAny>) -> PyResult<String> {
    let given = match (message.cast::<Message>(), message.cast::<AsyncMessage>()) {
        (Ok(message), _) => Some((message.get().topic(), message.get().id())),
        (_, Ok(message)) => Some((message.get().topic(), message.get().id())),
        _ => None,
    };
    if let Some((of, id)) = given {
        let other = || invalid(format!("the message {id} is of the topic '{of}', not of '{topic}'"));
        return if of == topic { Ok(id.to_owned()) } else { Err(Failure::from(other()).into()) };
    }
    if !message.is_instance_of::<PyString>() {
        return Err(convert::of_wrong_type("messages", "messages or their ids", message));
    }
    message.extract::<Text<Ids>>().map(Text::into_string)
}
