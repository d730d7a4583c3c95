//! `duly bench`: what a server does with jobs, asked from here.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::Args;
use duly::{Client, Data, Error, ErrorKind, NewJob, Queue, ReserveOptions};
use serde::Serialize;

use crate::rates::short;
use crate::show::Shown;
use crate::signals::{End, Ends};
use crate::target::Target;
use crate::{DONE, Output, when};

/// How many jobs a call has where it has many.
const BATCH: usize = 100;

/// No more bytes of data, and of what is kept beside each job, are in the server at once.
const MOST_BYTES: usize = 100_000_000;

/// About what a job takes beside its data.
const BYTES_BESIDE: usize = 400;

/// How many delayed jobs are waited for.
const DELAYED: u32 = 50;

/// How long the first of them waits: all are pushed by then, in one call.
const BEFORE_DELAYED: Duration = Duration::from_millis(500);

/// By then all have come.
const LONGEST_LATE: Duration = Duration::from_secs(5);

/// How long a signal waits for the removal of the queue.
const LONGEST_REMOVAL: Duration = Duration::from_secs(5);

/// Measure what a server does with jobs: calls one by one and in batches, and how exactly delayed jobs come
#[derive(Debug, Args)]
#[command(after_help = "\
One connection, and each call waits for the answer to the one before: so the first figures are mostly the way to the server and back.
Workers and programs of several connections do more. It uses a queue of its own, which it removes at the end, also after Ctrl-C.

examples:
  duly bench --quick
  duly bench --each 10s --data-bytes 2000 --json")]
pub(crate) struct Bench {
    #[command(flatten)]
    target: Target,
    /// How long each of the figures is measured
    #[arg(long, value_name = "SPAN", value_parser = when::span, default_value = "3s")]
    each: Duration,
    /// As --each 500ms
    #[arg(long, conflicts_with = "each")]
    quick: bool,
    /// How many bytes of data a job has
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    data_bytes: u32,
    #[command(flatten)]
    shown: Shown,
}

/// What was measured of one kind of call.
#[derive(Debug, Serialize)]
struct Figure {
    /// In words.
    what: &'static str,
    /// How many jobs, or calls that are about none.
    count: usize,
    /// Of these; nothing where the time says it.
    per_second: Option<f64>,
    /// How long a call took; of delayed jobs, how late they came.
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
}

impl Bench {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let each = if self.quick { Duration::from_millis(500) } else { self.each };
        let client = self.target.client()?;
        let name = format!("duly-bench-{:08x}", random()?);
        let queue = client.queue(&name)?;
        let mut ends = Ends::hear()?;
        // Whoever ends the program by force knows what is left.
        _ = writeln!(output.err, "duly: it measures in the queue {name}, which is removed at the end");
        let mut measure =
            Measure { client, queue: queue.clone(), each, data: data(self.data_bytes)?, figures: Vec::new() };
        let (ended, end) = tokio::select! {
            ended = measure.all() => (ended, None),
            end = ends.come() => (Ok(()), Some(end)),
        };
        let figures = measure.figures;
        let removed = tokio::time::timeout(LONGEST_REMOVAL, remove(&queue)).await;
        let is_removed = matches!(removed, Ok(Ok(())));
        if !is_removed {
            output.complain(&format!(
                "the queue {name} may be left: `duly counts {name}` says with how many jobs, `duly delete {name} --jobs N` removes it"
            ));
        }
        ended?;
        if self.shown.json {
            output.json(&figures)?;
        } else {
            let headings = ["WHAT", " COUNT", " PER SECOND", " p50", " p99", " MAX"];
            output.table(&headings, figures.iter().map(Figure::row).collect());
        }
        Ok(end.map_or(if is_removed { DONE } else { crate::FAILED }, End::status_before_the_end))
    }
}

impl Figure {
    fn of(what: &'static str, count: usize, took: Duration, mut calls: Vec<Duration>) -> Self {
        calls.sort_unstable();
        let at = |percent: usize| {
            let index = (calls.len() * percent / 100).min(calls.len().saturating_sub(1));
            calls.get(index).map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
        };
        let per_second = crate::show::number(count as u64) / took.as_secs_f64().max(1e-9);
        Self { what, count, per_second: Some(per_second), p50_us: at(50), p99_us: at(99), max_us: at(100) }
    }

    fn row(&self) -> Vec<String> {
        let times = [self.p50_us, self.p99_us, self.max_us].map(|us| short(Duration::from_micros(us)));
        let mut row = vec![self.what.to_owned(), self.count.to_string()];
        row.push(self.per_second.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}")));
        row.extend(times);
        row
    }
}

struct Measure {
    client: Client,
    queue: Queue,
    each: Duration,
    data: Data,
    figures: Vec<Figure>,
}

impl Measure {
    async fn all(&mut self) -> Result<(), Error> {
        // The first call connects, and the first ones of each kind bring their scripts.
        let (client, queue, data) = (self.client.clone(), self.queue.clone(), self.data.clone());
        queue.push(NewJob::from_data(data.clone())).await?;
        take(&queue, 1).await?;
        self.measure("round trip (PING)", usize::MAX, async || client.ping().await.map(|()| 1)).await?;
        let most = MOST_BYTES / (self.data.as_str().len() + BYTES_BESIDE);
        let push = async || queue.push(NewJob::from_data(data.clone())).await.map(|_| 1);
        let pushed = self.measure("push, one by one", most, push).await?;
        let taken = self.measure("reserve and ack, one by one", pushed, async || take(&queue, 1).await).await?;
        let batch = async || {
            let jobs = (0..BATCH).map(|_| NewJob::from_data(data.clone())).collect();
            queue.push_batch(jobs).await.map(|pushed| pushed.len())
        };
        let left = pushed.saturating_sub(taken);
        self.measure("push, 100 in a call", most.saturating_sub(left).max(BATCH), batch).await?;
        self.measure("reserve and ack, 100 in a call", usize::MAX, async || take(&queue, BATCH).await).await?;
        queue.clear().await?;
        self.delayed().await
    }

    /// Calls until the time is over, `most` jobs are done, or one has none; gives how many jobs.
    async fn measure(
        &mut self,
        what: &'static str,
        most: usize,
        mut call: impl AsyncFnMut() -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        let (start, mut count, mut calls) = (Instant::now(), 0, Vec::new());
        while start.elapsed() < self.each && count < most {
            let begun = Instant::now();
            match call().await? {
                0 => break,
                jobs => count += jobs,
            }
            calls.push(begun.elapsed());
        }
        self.figures.push(Figure::of(what, count, start.elapsed(), calls));
        Ok(count)
    }

    /// How late delayed jobs come, to a reserve that waits for them; with the way to the server and back.
    async fn delayed(&mut self) -> Result<(), Error> {
        let delays: Vec<Duration> = (1..=DELAYED).map(|number| BEFORE_DELAYED + self.each * number / DELAYED).collect();
        // Without the data: all go in one call then, which takes no longer than others.
        let jobs = delays.iter().map(|delay| Ok(NewJob::new(&())?.delay(*delay))).collect::<Result<_, Error>>()?;
        let (start, mut late) = (Instant::now(), Vec::new());
        let pushed = self.queue.push_batch(jobs).await?;
        let mut dues: HashMap<_, _> =
            pushed.iter().zip(&delays).map(|(pushed, delay)| (pushed.id().to_owned(), start + *delay)).collect();
        let longest = BEFORE_DELAYED + self.each + LONGEST_LATE;
        while !dues.is_empty() && start.elapsed() < longest {
            let jobs = self.queue.reserve(&ReserveOptions::new().wait(LONGEST_LATE).max(BATCH)).await?;
            let now = Instant::now();
            late.extend(
                jobs.iter().filter_map(|job| dues.remove(job.id())).map(|due| now.saturating_duration_since(due)),
            );
            self.queue.ack_all(&jobs).await?;
        }
        let figure = Figure::of("delayed jobs: how late", late.len(), start.elapsed(), late);
        self.figures.push(Figure { per_second: None, ..figure });
        Ok(())
    }
}

/// Gives how many were there.
async fn take(queue: &Queue, most: usize) -> Result<usize, Error> {
    let jobs = queue.reserve(&ReserveOptions::new().max(most)).await?;
    queue.ack_all(&jobs).await?;
    Ok(jobs.len())
}

/// With what the figure that was ended has left there.
async fn remove(queue: &Queue) -> Result<(), Error> {
    queue.clear().await?;
    let left = queue.counts().await?;
    queue.delete(left.delayed + left.ready + left.reserved + left.failed).await
}

/// A text of so many bytes with its quotes.
fn data(bytes: u32) -> Result<Data, Error> {
    let text = "x".repeat(usize::try_from(bytes).unwrap_or(0).saturating_sub(2));
    Data::from_json(format!("\"{text}\""), duly::DEFAULT_MAX_DATA_BYTES)
}

fn random() -> Result<u32, Error> {
    getrandom::u32()
        .map_err(|error| Error::new(ErrorKind::Internal, format!("the system gives no random number: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_the_middle_and_the_worst_of_its_calls() {
        let calls = (1..=200).rev().map(Duration::from_micros).collect();
        let figure = Figure::of("x", 200, Duration::from_secs(2), calls);
        assert_eq!((figure.p50_us, figure.p99_us, figure.max_us), (101, 199, 200));
        assert_eq!(figure.row()[1..], ["200", "100", "101us", "199us", "200us"]);
        let none = Figure::of("x", 0, Duration::from_secs(1), Vec::new());
        assert_eq!((none.p50_us, none.max_us), (0, 0));
    }
}
