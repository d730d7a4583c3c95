//! Lists queues, counts their jobs, pauses and deletes them; and knows how many partitions a queue has.

use std::time::{Duration, Instant};

use duly::{Client, Error, ErrorKind, MAX_QUEUES, Millis, Queue, QueueInfo};
use serde_json::json;
use tokio::sync::Mutex;

use super::Call;
use super::reply::{Refusal, Reply};
use crate::target::{all, open};

/// How old the list of queues may be by which a queue is opened.
const FRESH: Duration = Duration::from_secs(2);

/// The list of queues of late. A queue that is not on it has no partitions, if it was read since the request began.
#[derive(Default)]
pub(super) struct Listed(Mutex<Last>);

/// What the list said when it was read last.
#[derive(Default)]
struct Last {
    /// Names, and how many partitions they have.
    queues: Vec<(String, u16)>,
    /// When the last read began; or when it ended, and why it has failed.
    read: Option<(Instant, Result<(), Error>)>,
}

impl Listed {
    /// `partitions`: as they were given, 0 for a queue that has none.
    ///
    /// Errors: two queues have this name, or another number than the list has is given.
    pub(super) async fn open(&self, client: &Client, name: &str, partitions: Option<u16>) -> Result<Queue, Refusal> {
        match &self.meant(client, name, partitions).await?[..] {
            [one] => Ok(open(client, name, *one)?),
            several => Err(two_queues(several)),
        }
    }

    /// The queue, or the two that have this name, if no number is given.
    pub(super) async fn open_all(
        &self,
        client: &Client,
        name: &str,
        partitions: Option<u16>,
    ) -> Result<Vec<Queue>, Refusal> {
        let meant = self.meant(client, name, partitions).await?;
        Ok(meant.into_iter().map(|partitions| open(client, name, partitions)).collect::<Result<_, _>>()?)
    }

    /// How many partitions it has; two numbers if two queues have this name and none is given.
    async fn meant(&self, client: &Client, name: &str, partitions: Option<u16>) -> Result<Vec<u16>, Refusal> {
        duly::name::check_queue(name)?;
        let listed = match (self.of_name(client, name, partitions).await, partitions) {
            // Who may not read the list must know.
            (Err(error), Some(_)) if error.kind() == ErrorKind::PermissionDenied => Vec::new(),
            (listed, _) => listed?,
        };
        match (partitions, &listed[..]) {
            (Some(given), []) => Ok(vec![given]),
            (Some(given), listed) if listed.contains(&given) => Ok(vec![given]),
            (Some(given), _) => Err(other_number(given, &listed)),
            (None, []) => Ok(vec![0]),
            (None, _) => Ok(listed),
        }
    }

    /// Errors: those of the list, if no list that could be read has the queue.
    async fn of_name(&self, client: &Client, name: &str, partitions: Option<u16>) -> Result<Vec<u16>, Error> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        if !last.serves(name, partitions, asked) {
            last.read_anew(client).await;
        }
        match &last.read {
            Some((_, Err(error))) if !last.has(name, partitions) => Err(error.clone()),
            _ => Ok(last.of_name(name)),
        }
    }

    /// What is known is over.
    async fn forget(&self) {
        *self.0.lock().await = Last::default();
    }
}

impl Last {
    fn of_name(&self, name: &str) -> Vec<u16> {
        self.queues.iter().filter(|(known, _)| known == name).map(|(_, partitions)| *partitions).collect()
    }

    fn has(&self, name: &str, partitions: Option<u16>) -> bool {
        self.of_name(name).into_iter().any(|known| partitions.is_none_or(|given| given == known))
    }

    /// Is it recent enough for a request that was made then? What is not on it may have come since.
    fn serves(&self, name: &str, partitions: Option<u16>, asked: Instant) -> bool {
        let Some((at, read)) = &self.read else { return false };
        let is_since = match read {
            Ok(()) => *at >= asked,
            // Whoever waited for it has the same error, and does not ask a server that is away once more.
            Err(_) => *at > asked,
        };
        is_since || (*at + FRESH > asked && self.has(name, partitions))
    }

    async fn read_anew(&mut self, client: &Client) {
        let began = Instant::now();
        self.read = Some(match all(client).await {
            Ok(queues) => {
                self.queues = queues.into_iter().map(|queue| (queue.name, queue.partitions)).collect();
                (began, Ok(()))
            }
            Err(error) => (Instant::now(), Err(not_begun(error))),
        });
    }
}

/// A list that does not come has changed nothing, whatever was to be done behind it.
fn not_begun(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Timeout => {
            Error::new(ErrorKind::Unreachable, "the list of queues did not come in time: nothing was done, try again")
        }
        _ => error,
    }
}

fn numbers(listed: &[u16]) -> String {
    listed.iter().map(|count| format!("`partitions={count}`")).collect::<Vec<_>>().join(" or ")
}

fn other_number(given: u16, listed: &[u16]) -> Refusal {
    Refusal::invalid(format!("the queue has not {given} partitions: say {}, or leave it out", numbers(listed)))
}

fn two_queues(listed: &[u16]) -> Refusal {
    Refusal::invalid(format!("two queues have this name: say {} in the query", numbers(listed)))
}

impl Call<'_> {
    pub(super) async fn queues(&self) -> Result<Reply, Refusal> {
        self.query.only(&["limit", "cursor"])?;
        let limit = self.query.whole("limit")?.unwrap_or(MAX_QUEUES);
        let page = self.api.client.queues(limit, self.query.text("cursor")).await?;
        let said = |queue: &QueueInfo| {
            let last_used = queue.last_used.as_seconds();
            json!({ "name": queue.name, "partitions": queue.partitions, "last_used": last_used })
        };
        let queues: Vec<_> = page.queues.iter().map(said).collect();
        Reply::ok(&json!({ "queues": queues, "cursor": page.cursor }))
    }

    pub(super) async fn counts(&self) -> Result<Reply, Refusal> {
        self.query.only(&["partitions"])?;
        let counts = self.queue().await?.counts().await?;
        let mut said = crate::queues::value_of(&self.queue, &counts);
        said["overdue"] = json!(counts.overdue.map(Millis::as_seconds));
        Reply::ok(&said)
    }

    pub(super) async fn set_paused(&self, pauses: bool) -> Result<Reply, Refusal> {
        self.query.only(&["partitions"])?;
        let queue = self.queue().await?;
        if pauses {
            queue.pause().await?;
        } else {
            queue.resume().await?;
        }
        Reply::ok(&json!({ "paused": pauses }))
    }

    pub(super) async fn delete(&self) -> Result<Reply, Refusal> {
        self.query.only(&["partitions", "jobs"])?;
        let jobs = self.query.whole("jobs")?.unwrap_or(0);
        self.queue().await?.delete(jobs).await?;
        self.api.listed.forget().await;
        Reply::ok(&json!({ "jobs": jobs }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_serves_for_what_is_on_it_and_for_who_asked_before_it_was_read() {
        let long_before = Instant::now();
        let (before, asked, after) = (long_before + FRESH / 2, long_before + FRESH, long_before + FRESH * 2);
        let of = |at, read| Last { queues: vec![("clicks".to_owned(), 4)], read: Some((at, read)) };
        let serves = |last: &Last| {
            [("clicks", None), ("clicks", Some(4)), ("clicks", Some(0)), ("new", None)]
                .map(|(name, partitions)| last.serves(name, partitions, asked))
        };
        let away = || Err(Error::new(ErrorKind::Unreachable, "away"));
        assert_eq!(serves(&Last::default()), [false; 4]);
        for read in [Ok(()), away()] {
            assert_eq!(serves(&of(before, read.clone())), [true, true, false, false], "{read:?}");
            assert_eq!(serves(&of(long_before, read.clone())), [false; 4], "{read:?}");
            assert_eq!(serves(&of(after, read)), [true; 4]);
        }
    }
}
