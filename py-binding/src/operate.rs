//! What operators' verbs give: `duly.Cancelled`, `duly.Requeued`, `duly.QueuePage`, `duly.QueueInfo`, `duly.TopicPage` and `duly.ListedTopic`.

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

/// A queue that was used.
#[pyclass(frozen, get_all, module = "duly")]
#[derive(Clone)]
pub(crate) struct QueueInfo {
    name: String,
    partitions: u16,
    last_used: f64,
}

impl From<duly::QueueInfo> for QueueInfo {
    fn from(info: duly::QueueInfo) -> Self {
        Self { name: info.name, partitions: info.partitions, last_used: info.last_used.as_seconds() }
    }
}

#[pymethods]
impl QueueInfo {
    fn __repr__(&self) -> String {
        let parts = if self.partitions == 0 { String::new() } else { format!(" in {} parts", self.partitions) };
        format!("<duly.QueueInfo {:?}{parts}>", self.name)
    }
}

/// A page of queues, by name.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct QueuePage {
    queues: Vec<QueueInfo>,
    cursor: Option<String>,
}

impl From<duly::QueuePage> for QueuePage {
    fn from(page: duly::QueuePage) -> Self {
        Self { queues: page.queues.into_iter().map(QueueInfo::from).collect(), cursor: page.cursor }
    }
}

#[pymethods]
impl QueuePage {
    fn __repr__(&self) -> String {
        let more = if self.cursor.is_some() { ", and more" } else { "" };
        format!("<duly.QueuePage of {}{more}>", self.queues.len())
    }
}

/// A topic that was used.
#[pyclass(frozen, get_all, module = "duly")]
#[derive(Clone)]
pub(crate) struct ListedTopic {
    name: String,
    last_used: f64,
}

impl From<duly::ListedTopic> for ListedTopic {
    fn from(topic: duly::ListedTopic) -> Self {
        Self { name: topic.name, last_used: topic.last_used.as_seconds() }
    }
}

#[pymethods]
impl ListedTopic {
    fn __repr__(&self) -> String {
        format!("<duly.ListedTopic {:?}>", self.name)
    }
}

/// A page of topics, by name.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct TopicPage {
    topics: Vec<ListedTopic>,
    cursor: Option<String>,
}

impl From<duly::TopicPage> for TopicPage {
    fn from(page: duly::TopicPage) -> Self {
        Self { topics: page.topics.into_iter().map(ListedTopic::from).collect(), cursor: page.cursor }
    }
}

#[pymethods]
impl TopicPage {
    fn __repr__(&self) -> String {
        let more = if self.cursor.is_some() { ", and more" } else { "" };
        format!("<duly.TopicPage of {}{more}>", self.topics.len())
    }
}
