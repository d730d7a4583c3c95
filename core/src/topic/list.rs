//! The list of topics: as that of queues, by the same scripts under another name.

use futures_util::future::join_all;
use serde::Serialize;

use super::TopicInfo;
use crate::queue::{Client, Part};
use crate::script::{Declared, ListQueues, ListReply, ListedQueue, Unregister};
use crate::value::error::Error;
use crate::value::time::Millis;

/// The most topics of one page.
pub const MAX_TOPICS: usize = 1000;
/// A topic that has nothing is forgotten when it was not used for so long: 30 days.
const FORGOTTEN_AFTER_MS: u64 = 30 * 24 * 3600 * 1000;
/// How many topics one call looks into, to see whether they can be forgotten.
const MOST_LOOKED_INTO: usize = 100;

/// A topic that was used.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedTopic {
    /// Its name.
    pub name: String,
    /// When a client has last published or subscribed, by the server's clock, as far as is noted: each client notes it at its first use and
    /// then every few minutes.
    pub last_used: Millis,
}

/// A page of the topics of a server, by name.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TopicPage {
    /// The topics, fewer than were asked for if some of them were forgotten just now.
    pub topics: Vec<ListedTopic>,
    /// Where the next page begins; `None` behind the last one.
    pub cursor: Option<String>,
}

impl Client {
    /// The topics that were used under this client's prefix, by name. One is listed with the first message or subscription that a client
    /// makes; older versions of duly list none.
    ///
    /// `limit`: 1 to 1,000. `cursor`: that of the page before; `None` for the first page. A topic without messages and subscriptions that
    /// was not used for 30 days is forgotten by this call, 100 at most.
    ///
    /// Errors: `InvalidArgument`.
    pub async fn topics(&self, limit: usize, cursor: Option<&str>) -> Result<TopicPage, Error> {
        if limit == 0 || limit > MAX_TOPICS {
            return Err(Error::invalid(format!("limit must be 1 to {MAX_TOPICS}, not {limit}")).during("topics"));
        }
        Part::listed(self).await;
        let list = Part::list_of_topics(self.clone());
        let page = ListQueues { after: cursor.unwrap_or_default().to_owned(), most: limit };
        let listed = list.run(page.with([]).during("topics")).await.map_err(Error::of_all_queues)?;
        let ListReply { now, queues: mut topics } = listed;
        let cursor = (topics.len() == limit).then(|| topics.last().map(|last| last.name.clone())).flatten();
        let is_old = |topic: &&ListedQueue| now.saturating_sub(topic.last_used).get() > FORGOTTEN_AFTER_MS;
        let old: Vec<_> = topics.iter().filter(is_old).take(MOST_LOOKED_INTO).cloned().collect();
        let forgotten = join_all(old.iter().map(|topic| self.forget_if_unused(&list, topic))).await;
        for (topic, _) in old.iter().zip(forgotten).filter(|(_, is_forgotten)| *is_forgotten) {
            topics.retain(|listed| listed.name != topic.name);
        }
        let listed = |topic: ListedQueue| ListedTopic { name: topic.name, last_used: topic.last_used };
        Ok(TopicPage { topics: topics.into_iter().map(listed).collect(), cursor })
    }

    /// Takes a topic off the list if there is nothing in it. Where nobody can say, it stays: the others are listed.
    async fn forget_if_unused(&self, list: &Part, listed: &ListedQueue) -> bool {
        // A name that is none was put there by somebody else.
        let Ok(topic) = self.topic(&listed.name) else { return false };
        if !topic.info().await.is_ok_and(|info| info.is_unused()) {
            return false;
        }
        let unregister = Unregister { name: listed.name.clone(), used: listed.used.clone() };
        list.run(unregister.with([]).during("topics")).await.unwrap_or(0) > 0
    }
}

impl TopicInfo {
    /// Is there neither a message nor anybody who reads? So it is if the topic never was.
    pub fn is_unused(&self) -> bool {
        self.messages == 0 && self.subscriptions.is_empty() && self.cut_off.is_empty()
    }
}
