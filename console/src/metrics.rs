//! `duly metrics`: what the server knows now of queues and workers, as `OpenMetrics` text.
//!
//! | file | duty |
//! |---|---|
//! | `families.rs` | the metrics: names, types, help, and what each shows of a queue |
//! | `text.rs` | writes them in the form of OpenMetrics |

mod families;
mod text;

use std::time::Duration;

use clap::Args;
use duly::{Client, Counts, Error, ErrorKind, Limits, NameRates, QueueInfo, WorkerInfo};
use futures_util::stream::{self, StreamExt as _};
use tokio::time::Instant;

use crate::each_queue::{AT_ONCE, Reads, is_of_a_node};
use crate::show::printable;
use crate::target::{Target, all, open};
use crate::{DONE, FAILED, Output, invalid};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What is not read by then is reported as unreadable: a scraper gives up after 10 s, unless it is told otherwise.
const WITHIN: Duration = Duration::from_secs(8);
/// How long the command waits for a server: what it says of an outage comes before that the time is over.
const PATIENCE: Duration = Duration::from_secs(7);
/// How many queues are read at once that were not read at the first time.
const AT_ONCE_AGAIN: usize = 64;
/// The most errors that the command writes.
const MOST_ERRORS: usize = 20;

/// Write metrics of queues and workers, for Prometheus
#[derive(Debug, Args)]
#[command(after_help = "\
The status is 1 if the server, or one of the queues, could not be read: duly_up and duly_queue_readable are 0 then, and the text is complete.

examples:
  duly metrics
  duly metrics orders mail > /var/lib/prometheus/node-exporter/duly.prom")]
pub(crate) struct Metrics {
    #[command(flatten)]
    target: Target,
    /// The queues [default: all that were used]
    queues: Vec<String>,
}

impl Metrics {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let client = self.target.builder().deadline(PATIENCE).fail_fast(true).build()?;
        let scrape = scrape(&client, &self.queues).await?;
        _ = output.out.write_all(scrape.text.as_bytes());
        for error in scrape.errors.iter().take(MOST_ERRORS) {
            output.complain(&error.to_string());
        }
        if let Some(more @ 1..) = scrape.errors.len().checked_sub(MOST_ERRORS) {
            output.complain(&format!("and {more} more queues cannot be read"));
        }
        Ok(if scrape.errors.is_empty() { DONE } else { FAILED })
    }
}

/// What a server knew at a moment.
#[derive(Debug)]
pub struct Scrape {
    /// `OpenMetrics` text of the type [`CONTENT_TYPE`]. It is complete whatever could not be read.
    pub text: String,
    /// Why the server, or single queues, could not be read.
    pub errors: Vec<Error>,
}

/// Reads the queues of these names, or all that were used. It takes 8 s at most, and for each queue, or each of its parts, four calls that only
/// read.
///
/// Errors: `InvalidArgument` if one of the names is none. What could not be read is in the [`Scrape`].
pub async fn scrape(client: &Client, names: &[String]) -> Result<Scrape, Error> {
    for name in names {
        client.queue(name)?;
    }
    let end = Instant::now() + WITHIN;
    let listed = match before(end, "queues", all(client)).await {
        Ok(listed) => chosen(listed, names),
        Err(error) => return Ok(Scrape { text: families::write(false, &[]), errors: vec![error] }),
    };
    let (queues, errors): (Vec<_>, Vec<_>) = read_all(client, listed, end).await.into_iter().unzip();
    Ok(Scrape { text: families::write(true, &queues), errors: errors.into_iter().flatten().collect() })
}

/// In a cluster those that come soon come first, whatever holds up others; for these is the time that is left.
async fn read_all(client: &Client, queues: Vec<(String, u16)>, end: Instant) -> Vec<(ReadQueue, Option<Error>)> {
    let mut all: Vec<Option<_>> = queues.iter().map(|_| None).collect();
    let first = queues.iter().cloned().enumerate().collect();
    for (index, read) in read_some(client, first, end, Reads::in_haste(client), AT_ONCE).await {
        all[index] = Some(read);
    }
    let is_outage = |read: &Option<(_, Option<Error>)>| {
        read.as_ref().and_then(|(_, error)| error.as_ref()).is_some_and(|error| is_of_a_node(client, error))
    };
    let again: Vec<_> = queues.into_iter().enumerate().filter(|(index, _)| is_outage(&all[*index])).collect();
    for (index, read) in read_some(client, again, end, Reads::new(client), AT_ONCE_AGAIN).await {
        // That there was no time left says less than what was said before.
        if read.1.is_none() || Instant::now() < end {
            all[index] = Some(read);
        }
    }
    all.into_iter().flatten().collect()
}

async fn read_some(
    client: &Client,
    queues: Vec<(usize, (String, u16))>,
    end: Instant,
    reads: Reads<'_>,
    at_once: usize,
) -> Vec<(usize, (ReadQueue, Option<Error>))> {
    let read = stream::iter(queues).map(async |(index, queue)| (index, read(client, &reads, queue, end).await));
    read.buffer_unordered(at_once).collect().await
}

/// A queue, as far as it could be read.
struct ReadQueue {
    /// As it is shown: others may have written any name under duly's keys.
    name: String,
    partitions: u16,
    content: Option<Content>,
}

struct Content {
    counts: Counts,
    limits: Limits,
    workers: Vec<WorkerInfo>,
    /// Since workers count them, by name.
    runs: Vec<NameRates>,
}

async fn read(
    client: &Client,
    reads: &Reads<'_>,
    (name, partitions): (String, u16),
    end: Instant,
) -> (ReadQueue, Option<Error>) {
    let content = async {
        let queue = open(client, &name, partitions).map_err(|error| {
            let message =
                format!("'{}' is on the list of queues, and duly accepts no such name: {error}", printable(&name));
            invalid(message)
        })?;
        let (counts, limits) = (queue.counts().await?, queue.limits().await?);
        let (workers, (_, runs)) = (queue.workers().await?, queue.run_totals().await?);
        Ok(Content { counts, limits, workers, runs })
    };
    let (content, error) = match before(end, "metrics", reads.read(Box::pin(content))).await {
        Ok(content) => (Some(content), None),
        Err(error) if error.queue().is_none() && error.kind() == ErrorKind::Timeout => {
            (None, Some(Error::new(ErrorKind::Timeout, format!("queue '{}': {error}", printable(&name)))))
        }
        Err(error) => (None, Some(error)),
    };
    (ReadQueue { name: printable(&name), partitions, content }, error)
}

async fn before<T>(
    end: Instant,
    operation: &'static str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let late = || {
        let message = format!("not all was read within {} s: name fewer queues in one call", WITHIN.as_secs());
        Error::new(ErrorKind::Timeout, message).during(operation)
    };
    tokio::time::timeout_at(end, call).await.unwrap_or_else(|_| Err(late()))
}

/// Name and partitions of the queues that have these names, or of all. A name that is not listed is that of a queue without jobs.
pub(crate) fn chosen(listed: Vec<QueueInfo>, names: &[String]) -> Vec<(String, u16)> {
    let listed = listed.into_iter().map(|queue| (queue.name, queue.partitions));
    let mut chosen: Vec<_> = listed.filter(|(name, _)| names.is_empty() || names.contains(name)).collect();
    for name in names {
        if chosen.iter().all(|(known, _)| known != name) {
            chosen.push((name.clone(), 0));
        }
    }
    chosen
}
