//! What operators' verbs give: `Duly\Cancelled`, `Duly\Requeued`, `Duly\QueuePage`, `Duly\QueueInfo`, `Duly\TopicPage` and `Duly\ListedTopic`.

use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;

use crate::record::record;

record! {
    /// A job that is no more, and the state it was in.
    Cancelled = "Duly\\Cancelled" {
        /// The job's id.
        id: String,
        /// `delayed`, `ready`, `reserved` or `failed`.
        was: String,
    }
}

impl From<duly::Cancelled> for Cancelled {
    fn from(cancelled: duly::Cancelled) -> Self {
        Self { id: cancelled.id, was: cancelled.was.as_str().to_owned() }
    }
}

record! {
    /// What became of a failed job that was to go round again.
    Requeued = "Duly\\Requeued" {
        /// The job's id.
        id: String,
        /// `ready`, `duplicate` or `absent`.
        outcome: String,
        /// The job that holds the key now, of a duplicate.
        holder: Option<String>,
    }
}

impl Requeued {
    pub fn new(id: String, requeued: duly::Requeued) -> Self {
        let (outcome, holder) = match requeued {
            duly::Requeued::Ready => ("ready", None),
            duly::Requeued::Duplicate { id } => ("duplicate", Some(id)),
            _ => ("absent", None),
        };
        Self { id, outcome: outcome.to_owned(), holder }
    }
}

record! {
    /// A queue that was used.
    QueueInfo = "Duly\\QueueInfo" {
        /// Its name.
        name: String,
        /// In how many parts it is; 0 if it is not partitioned.
        partitions: i64,
        /// When it was last used, in unix seconds by the server's clock; noted at a client's first use and then every few minutes.
        last_used: f64,
    }
}

impl From<duly::QueueInfo> for QueueInfo {
    fn from(info: duly::QueueInfo) -> Self {
        Self { name: info.name, partitions: info.partitions.into(), last_used: info.last_used.as_seconds() }
    }
}

record! {
    /// A page of queues, by name.
    QueuePage = "Duly\\QueuePage" {
        /// The queues.
        queues: Vec<QueueInfo>,
        /// Where the next page begins; null after the last one.
        cursor: Option<String>,
    }
}

impl From<duly::QueuePage> for QueuePage {
    fn from(page: duly::QueuePage) -> Self {
        Self { queues: page.queues.into_iter().map(QueueInfo::from).collect(), cursor: page.cursor }
    }
}

record! {
    /// A topic that was used.
    ListedTopic = "Duly\\ListedTopic" {
        /// Its name.
        name: String,
        /// When a client has last published or subscribed, in unix seconds by the server's clock; noted at a client's first use and then every
        /// few minutes.
        last_used: f64,
    }
}

impl From<duly::ListedTopic> for ListedTopic {
    fn from(topic: duly::ListedTopic) -> Self {
        Self { name: topic.name, last_used: topic.last_used.as_seconds() }
    }
}

record! {
    /// A page of topics, by name.
    TopicPage = "Duly\\TopicPage" {
        /// The topics.
        topics: Vec<ListedTopic>,
        /// Where the next page begins; null after the last one.
        cursor: Option<String>,
    }
}

impl From<duly::TopicPage> for TopicPage {
    fn from(page: duly::TopicPage) -> Self {
        Self { topics: page.topics.into_iter().map(ListedTopic::from).collect(), cursor: page.cursor }
    }
}
