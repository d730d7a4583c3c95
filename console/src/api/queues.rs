//! Lists queues, counts their jobs, pauses and deletes them; and knows how many partitions a queue has.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duly::{Client, Error, ErrorKind, MAX_QUEUES, Millis, Queue, QueueInfo};
use serde_json::json;

use super::Call;
use super::reply::{Refusal, Reply};
use crate::target::open;

/// How old may be what the list of queues says of a queue that is opened.
const FRESH: Duration = Duration::from_secs(2);
/// So many names are kept at the most.
const MOST_NAMES: usize = 10_000;

/// What the list of queues said of late of those that are on it. Of others nothing is kept: they may come at any time.
#[derive(Default)]
pub(super) struct Listed(Mutex<HashMap<String, Known>>);

#[derive(Clone)]
struct Known {
    /// One number, or two if two queues have this name.
    partitions: Vec<u16>,
    /// When it was asked for.
    asked: Instant,
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

    /// Errors: those of the list, if it could not be read and did not have the queue before.
    async fn of_name(&self, client: &Client, name: &str, given: Option<u16>) -> Result<Vec<u16>, Error> {
        let known = self.names().get(name).filter(|known| known.has(given)).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.asked.elapsed() < FRESH) {
            return Ok(known.partitions.clone());
        }
        let asked = Instant::now();
        let (partitions, asked) = match (client.partitions_of(name).await, known) {
            (Ok(partitions), _) => (partitions, asked),
            // Nor is a server that is away asked for each request.
            (Err(_), Some(known)) => (known.partitions, Instant::now()),
            (Err(error), None) => return Err(not_begun(error)),
        };
        let mut names = self.names();
        if partitions.is_empty() {
            names.remove(name);
        } else {
            if names.len() >= MOST_NAMES {
                names.clear();
            }
            names.insert(name.to_owned(), Known { partitions: partitions.clone(), asked });
        }
        Ok(partitions)
    }

    /// What is known of it is over.
    fn forget(&self, name: &str) {
        self.names().remove(name);
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Has one of them so many, if a number is given?
    fn has(&self, given: Option<u16>) -> bool {
        given.is_none_or(|given| self.partitions.contains(&given))
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
        self.api.listed.forget(&self.queue);
        Reply::ok(&json!({ "jobs": jobs }))
    }
}
