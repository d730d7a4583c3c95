//! A queue as pages name it.

use duly::{Client, Error, Queue};
use hyper::StatusCode;

use super::request::{Fields, link};
use super::view::{Failure, Page};
use super::words::{Words, fill};
use crate::target::{all, open};

/// A name, and how many partitions belong to it. Two queues may have one name, and either may be deleted while a page of it is open: so
/// each link and each form says the number, also that there are none.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) partitions: u16,
    /// As in an address; 0 if there are none.
    pub(crate) parts: String,
}

impl Named {
    pub(crate) fn new(name: &str, partitions: u16) -> Self {
        Self { name: name.to_owned(), partitions, parts: partitions.to_string() }
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
        self.link("job", &[("id", id)])
    }

    /// The queue of a request, and no other one of its name.
    ///
    /// Errors: a page that says that it is not there.
    pub(crate) async fn asked(client: &Client, fields: &Fields, words: &Words) -> Result<Self, Failure> {
        Self::asked_or(client, fields, words, words.no_queue_more).await
    }

    /// The same. `gone`: what it means that no such queue is there.
    pub(crate) async fn asked_or(
        client: &Client,
        fields: &Fields,
        words: &Words,
        gone: &'static str,
    ) -> Result<Self, Failure> {
        let name = fields.get("queue");
        let wanted = fields.given("parts").and_then(|parts| parts.parse().ok());
        let there = of_name(client, name).await?;
        match wanted.filter(|wanted| there.contains(wanted)) {
            Some(partitions) => Ok(Self::new(name, partitions)),
            None => Err(missing(wanted, &there, words, gone).into()),
        }
    }

    /// That of an address without a number, which somebody has typed: the queue without partitions, if there is one.
    pub(crate) async fn typed(client: &Client, name: &str) -> Result<Option<Self>, Error> {
        Ok(of_name(client, name).await?.into_iter().min().map(|partitions| Self::new(name, partitions)))
    }
}

/// How many partitions the queues of this name have.
async fn of_name(client: &Client, name: &str) -> Result<Vec<u16>, Error> {
    let listed = all(client).await?;
    Ok(listed.into_iter().filter(|queue| queue.name == name).map(|queue| queue.partitions).collect())
}

fn missing(wanted: Option<u16>, there: &[u16], words: &Words, gone: &str) -> Page {
    // A number that has changed is no other queue: it still is there.
    let is_there = there.iter().any(|partitions| (*partitions == 0) == (wanted == Some(0)));
    let others = there.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let others = fill(words.no_queue_of_parts, &[&others]);
    let more = match (there.is_empty(), is_there) {
        (true, _) => gone.to_owned(),
        (false, true) => others,
        (false, false) if gone == words.no_queue_more => others,
        (false, false) => format!("{gone} {others}"),
    };
    Page::refusal(StatusCode::NOT_FOUND, words.no_queue, &more)
}
