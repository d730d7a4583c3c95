//! `duly.aio.Message`.

#[path = "../message/methods.rs"]
#[expect(clippy::duplicate_mod, reason = "both classes have the same methods, and a class of PyO3 has no parameter")]
mod methods;

use pyo3::prelude::*;

use self::AsyncMessage as Message; // for the methods
use super::topic::AsyncTopic as Topic;

/// The asyncio version of `Message`.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct AsyncMessage {
    message: duly::Message,
    topic: Topic,
}

impl AsyncMessage {
    const CLASS: &str = "duly.aio.Message";
}
