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

/// The list of queues of late. A queue that is not on it has no partitions.
#[derive(Default)]
pub(super) struct Listed(Mutex<Option<(Instant, Queues)>>);

/// Or why there are none.
type Queues = Result<Vec<QueueInfo>, Error>;

impl Listed {
    /// `partitions`: as they were given, 0 for a queue that has none.
    ///
    /// Errors: two queues have this name, or another number than the list has is given.
    pub(super) async fn open(&self, client: &Client, name: &str, partitions: Option<u16>) -> Result<Queue, Refusal> {
        duly::name::check_queue(name)?;
        let listed = match (self.of_name(client, name).await, partitions) {
            // Who may not read the list must know.
            (Err(error), Some(_)) if error.kind() == ErrorKind::PermissionDenied => Vec::new(),
            (listed, _) => listed?,
        };
        let partitions = match (partitions, &listed[..]) {
            (Some(given), []) => given,
            (Some(given), listed) if listed.contains(&given) => given,
            (Some(given), _) => return Err(other_number(given, &listed)),
            (None, []) => 0,
            (None, [one]) => *one,
            (None, _) => return Err(two_queues(&listed)),
        };
        Ok(open(client, name, partitions)?)
    }

    async fn of_name(&self, client: &Client, name: &str) -> Result<Vec<u16>, Error> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        let is_known = last.as_ref().is_some_and(|(at, queues)| match queues {
            Ok(_) => *at + FRESH > asked,
            // Whoever waited for it has the same error, and does not ask a server that is away once more.
            Err(_) => *at > asked,
        });
        if !is_known {
            let queues = all(client).await;
            *last = Some((Instant::now(), queues));
        }
        let Some((_, queues)) = &*last else { return Ok(Vec::new()) };
        let queues = queues.as_ref().map_err(Error::clone)?.iter();
        Ok(queues.filter(|queue| queue.name == name).map(|queue| queue.partitions).collect())
    }

    /// What is known is over.
    async fn forget(&self) {
        *self.0.lock().await = None;
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
