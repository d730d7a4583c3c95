//! `duly queues`, `duly counts` and `duly delete`.

use clap::Args;
use duly::{Client, Counts as CountsOf, Error};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use crate::confirm::Yes;
use crate::each_queue::{AT_ONCE, Reads, is_of_one_queue};
use crate::show::{Shown, moment, or_dash, paused, span};
use crate::target::{One, Target, all, chosen, open};
use crate::{DONE, FAILED, Output};

/// Show all queues that were used, and what is in them
#[derive(Debug, Args)]
pub(crate) struct Queues {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    shown: Shown,
}

impl Queues {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let client = self.target.client_for_all_queues()?;
        let (mut rows, mut values, mut status) = (Vec::new(), Vec::new(), DONE);
        let queues = all(&client).await?;
        let names = queues.iter().map(|queue| (queue.name.clone(), queue.partitions)).collect();
        for (queue, counts) in queues.into_iter().zip(counts_of(&client, names, &mut output).await?) {
            let Some(counts) = counts else {
                status = FAILED;
                continue;
            };
            let partitions = Some(queue.partitions).filter(|count| *count > 0).map(|count| count.to_string());
            let numbers = [counts.delayed, counts.ready, counts.reserved, counts.failed].map(|count| count.to_string());
            let oldest = or_dash(counts.oldest_ready_age.map(span));
            let state = paused(counts.paused_parts, queue.partitions).unwrap_or_default();
            let mut row = vec![queue.name.clone()];
            row.extend(numbers);
            row.extend([oldest, or_dash(partitions), moment(queue.last_used)]);
            row.push(state);
            rows.push(row);
            let mut value = value_of(&queue.name, &counts);
            value["partitions"] = json!(queue.partitions);
            value["last_used"] = json!(queue.last_used.as_seconds());
            values.push(value);
        }
        if self.shown.json {
            output.json(&values)?;
        } else if rows.is_empty() && status == DONE {
            output.line("no queue was used under this prefix");
        } else {
            let headings = [
                "QUEUE",
                " DELAYED",
                " READY",
                " RESERVED",
                " FAILED",
                " OLDEST",
                " PARTITIONS",
                "LAST USED (UTC)",
                "",
            ];
            output.table(&headings, rows);
        }
        Ok(status)
    }
}

/// Show how many jobs of each queue are in each state
#[derive(Debug, Args)]
pub(crate) struct Counts {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    shown: Shown,
    /// The queues [default: all that were used]
    queues: Vec<String>,
    /// Number of their partitions, 0 if they have none [default: what the list of queues says]
    #[arg(long)]
    partitions: Option<u16>,
}

impl Counts {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let client = self.target.client_for_all_queues()?;
        let listed = all(&client).await;
        let mut queues = Vec::new();
        for name in &self.queues {
            let partitions = chosen(&client, name, self.partitions, listed.as_deref()).await?;
            open(&client, name, partitions)?; // a wrong name is a wrong command line
            queues.push((name.clone(), partitions));
        }
        if queues.is_empty() {
            queues = listed?.into_iter().map(|queue| (queue.name, queue.partitions)).collect();
        }
        let (mut values, mut status) = (Vec::new(), DONE);
        let counts = counts_of(&client, queues.clone(), &mut output).await?;
        for ((name, partitions), counts) in queues.into_iter().zip(counts) {
            let Some(counts) = counts else {
                status = FAILED;
                continue;
            };
            if self.shown.json {
                values.push(value_of(&name, &counts));
                continue;
            }
            let (delayed, ready) = (counts.delayed, counts.ready);
            let paused =
                paused(counts.paused_parts, partitions).map(|paused| format!("  {paused}")).unwrap_or_default();
            output.line(&format!(
                "{name}: delayed {delayed}  ready {ready}  reserved {}  failed {}{paused}",
                counts.reserved, counts.failed
            ));
        }
        if self.shown.json {
            output.json(&values)?;
        }
        Ok(status)
    }
}

/// Nothing for a queue that alone cannot be read. That is said; the others can be shown.
async fn counts_of(
    client: &Client,
    queues: Vec<(String, u16)>,
    output: &mut Output<'_>,
) -> Result<Vec<Option<CountsOf>>, Error> {
    let reads = Reads::new(client);
    let read = stream::iter(queues).map(async |(name, partitions)| {
        let counts = reads.read(async { open(client, &name, partitions)?.counts().await }).await;
        (name, counts)
    });
    let mut read = read.buffered(AT_ONCE);
    let mut all = Vec::new();
    while let Some((name, counts)) = read.next().await {
        match counts {
            Err(error) if is_of_one_queue(client, &error) => {
                output.complain(&match error.queue() {
                    Some(_) => error.to_string(),
                    None if error.kind().is_transient() => format!("counts on queue '{name}': {error}"),
                    None => format!("queue {name:?} of the list: {error}"),
                });
                all.push(None);
            }
            counts => all.push(Some(counts?)),
        }
    }
    Ok(all)
}

pub(crate) fn value_of(name: &str, counts: &CountsOf) -> Value {
    let seconds = |span: Option<duly::Millis>| span.map(duly::Millis::as_seconds);
    let totals: serde_json::Map<_, _> =
        counts.totals.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
    json!({
        "queue": name,
        "delayed": counts.delayed,
        "ready": counts.ready,
        "reserved": counts.reserved,
        "failed": counts.failed,
        "paused": counts.paused,
        "paused_parts": counts.paused_parts,
        "held": counts.held,
        "oldest_ready_age": seconds(counts.oldest_ready_age),
        "next_due_in": seconds(counts.next_due_in),
        "next_lease_end_in": seconds(counts.next_lease_end_in),
        "totals": totals,
    })
}

/// Remove a queue with all that is in it
#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    one: One,
    /// How many jobs it has; another number removes nothing
    #[arg(long, default_value_t = 0)]
    jobs: u64,
    #[command(flatten)]
    yes: Yes,
}

impl Delete {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let (queue, is_listed) = self.one.open_listed(&output).await?;
        let name = &self.one.queue;
        // One that was removed in part, or was not used for long, may have keys and be on no list. Where nobody may ask, it is removed.
        if !is_listed && queue.memory().await.is_ok_and(|bytes| bytes == 0) {
            output.complain(&format!(
                "there is no queue {name}, or it was removed before: `duly queues` shows those that there are"
            ));
            return Ok(FAILED);
        }
        let question = format!("Remove the queue {name} with its {} jobs and its limits?", self.jobs);
        if !self.yes.agrees(&question, &mut output).await? {
            return Ok(FAILED);
        }
        output.acting.begin(self.one.action("delete", &[("jobs", &self.jobs.to_string())]));
        queue.delete(self.jobs).await?;
        output.line(&format!("the queue {name} is removed"));
        Ok(DONE)
    }
}
