//! `duly.aio.Topic`.

#[path = "../topic/methods.rs"]
#[expect(clippy::duplicate_mod, reason = "both classes have the same methods, and a class of PyO3 has no parameter")]
mod methods;

use std::future::Future;
use std::sync::Arc;

use duly::{Error, blocking};
use pyo3::prelude::*;

use self::AsyncTopic as Topic; // for the methods
use super::future::start;
use super::message::AsyncMessage as Message;
use crate::error::OrRaise as _;

/// The asyncio version of `Topic`: each method returns a `Call`.
#[pyclass(frozen, module = "duly._core")]
#[derive(Clone)]
pub(crate) struct AsyncTopic {
    topic: blocking::Topic,
}

impl AsyncTopic {
    const CLASS: &str = "duly.aio.Topic";

    pub(crate) fn call<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<duly::Topic>) -> F,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        start(py, call(self.topic.inner().or_raise()?), finish).map(Bound::unbind)
    }
}
