//! Reads queues and workers. However many there are, the server has time for others.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::{Client, Error, WorkerInfo};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::Instant;

use super::row::{Numbers, Row};
use crate::each_queue::{Reads, is_of_one_queue};
use crate::metrics::chosen;
use crate::show::printable;
use crate::target::{all, open};

/// How many queues are read at once.
const AT_ONCE: usize = 8;
/// How many calls are made in a second at the most, on average.
const MOST_CALLS_PER_S: u32 = 500;
/// For each part of a queue: its counts and its workers.
const CALLS_OF_A_PART: u32 = 2;

/// What the server knew at a moment.
pub(super) struct Reading {
    pub(super) rows: Vec<Row>,
    /// Each one once, with the jobs that it runs of all these queues.
    pub(super) workers: Vec<WorkerInfo>,
    /// How many calls it took.
    calls: u32,
}

impl Reading {
    /// Gives each queue its rates since the reading before.
    pub(super) fn compare_with(&mut self, before: &[Row]) {
        let before: BTreeMap<_, _> = before.iter().map(|row| (row.id(), row)).collect();
        for row in &mut self.rows {
            row.rates = before.get(&row.id()).and_then(|before| row.since(before));
        }
    }

    /// How long to wait for the next one.
    pub(super) fn pause(&self, interval: Duration) -> Duration {
        interval.max(Duration::from_secs(1) * self.calls / MOST_CALLS_PER_S)
    }
}

/// Reads the queues of these names, or all that were used. A queue that alone cannot be read says why.
///
/// Errors: those of a server that does not answer.
pub(super) async fn read(client: &Client, names: &[String]) -> Result<Reading, Error> {
    let listed = chosen(all(client).await?, names);
    let parts: u32 = listed.iter().map(|(_, partitions)| u32::from(*partitions).max(1)).sum();
    let reads = Reads::new(client);
    let each = stream::iter(listed).map(|(name, partitions)| of_queue(client, &reads, name, partitions));
    let read: Vec<_> = each.buffered(AT_ONCE).try_collect().await?;
    let (rows, of_queues): (Vec<_>, Vec<_>) = read.into_iter().unzip();
    Ok(Reading { rows, workers: together(of_queues), calls: 1 + CALLS_OF_A_PART * parts })
}

async fn of_queue(
    client: &Client,
    reads: &Reads<'_>,
    name: String,
    partitions: u16,
) -> Result<(Row, Vec<WorkerInfo>), Error> {
    let content = async {
        let queue = open(client, &name, partitions)?;
        Ok::<_, Error>((Numbers::of(&queue.counts().await?), queue.workers().await?))
    };
    let (numbers, workers) = match reads.read(content).await {
        Ok((numbers, workers)) => (Ok(numbers), workers),
        Err(error) if is_of_one_queue(client, &error) => (Err(printable(&error.to_string())), Vec::new()),
        Err(error) => return Err(error),
    };
    let row = Row { name, partitions, numbers, workers: workers.len(), rates: None, at: Instant::now() };
    Ok((row, workers))
}

/// A worker of several queues is there once. By host and process.
fn together(of_queues: Vec<Vec<WorkerInfo>>) -> Vec<WorkerInfo> {
    let mut known: BTreeMap<String, WorkerInfo> = BTreeMap::new();
    for mut worker in of_queues.into_iter().flatten() {
        let running = std::mem::take(&mut worker.running);
        known.entry(worker.id.clone()).or_insert(worker).running.extend(running);
    }
    let mut all: Vec<_> = known.into_values().collect();
    all.sort_by(|one, other| (&one.host, one.pid).cmp(&(&other.host, other.pid)));
    all
}

#[cfg(test)]
mod tests {
    use duly::RunningJob;

    use super::*;

    #[test]
    fn many_queues_are_read_less_often() {
        let pause = |calls| Reading { rows: Vec::new(), workers: Vec::new(), calls }.pause(Duration::from_secs(2));
        assert_eq!([1, 1000, 2001].map(|calls| pause(calls).as_millis()), [2000, 2000, 4002]);
    }

    #[test]
    fn a_worker_of_two_queues_is_one() {
        let worker = |id: &str, host: &str| {
            let mut worker = WorkerInfo::default();
            (worker.id, worker.host) = (id.to_owned(), host.to_owned());
            worker.running.push(RunningJob::default());
            worker
        };
        let all = together(vec![vec![worker("1", "b"), worker("2", "a")], vec![worker("1", "b")]]);
        let seen: Vec<_> = all.iter().map(|worker| (worker.host.as_str(), worker.running.len())).collect();
        assert_eq!(seen, [("a", 1), ("b", 2)]);
    }
}
