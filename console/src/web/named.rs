//! A queue as pages name it.

use duly::{Client, Error, Queue};
use hyper::StatusCode;

use super::request::{Fields, link};
use super::view::{Failure, Page};
use super::words::Words;
use crate::target::{all, open};

/// A name, and how many partitions belong to it.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) partitions: u16,
    /// As in an address; empty if there are none.
    pub(crate) parts: String,
}

impl Named {
    pub(crate) fn new(name: &str, partitions: u16) -> Self {
        let parts = if partitions == 0 { String::new() } else { partitions.to_string() };
        Self { name: name.to_owned(), partitions, parts }
    }

    pub(crate) fn open(&self, client: &Client) -> Result<Queue, Error> {
        open(client, &self.name, self.partitions)
    }

    /// The address of a page about it, with further fields.
    pub(crate) fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        link(path, &[&self.fields()[..], more].concat())
    }

    pub(crate) fn fields(&self) -> [(&str, &str); 2] {
        [("queue", &self.name), ("parts", &self.parts)]
    }

    pub(crate) fn job(&self, id: &str) -> String {
        self.link("/job", &[("id", id)])
    }

    /// The queue of a request. One with partitions is named with their number, as the list of queues says it; without a number it is the
    /// queue that has none, if there is one.
    pub(crate) async fn asked(client: &Client, fields: &Fields, words: &Words) -> Result<Self, Failure> {
        let name = fields.get("queue");
        let wanted = fields.given("parts").map(|parts| parts.parse::<u16>().unwrap_or(u16::MAX));
        let listed = all(client).await?;
        let of_name = || listed.iter().filter(|queue| queue.name == name).map(|queue| queue.partitions);
        let found = match wanted {
            Some(wanted) => of_name().find(|partitions| *partitions == wanted),
            None => of_name().min(),
        };
        let missing = || Page::refusal(StatusCode::NOT_FOUND, words.no_queue, words.no_queue_more);
        Ok(Self::new(name, found.ok_or_else(missing)?))
    }
}
