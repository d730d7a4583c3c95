//! The checks of queues: what waits, what failed, and who works.

use std::time::Duration;

use duly::{Client, Counts, Error, Millis, Queue};
use futures_util::stream::{self, StreamExt};

use super::finding::Finding;
use super::finding::Level::{Note, Problem, Warning};
use super::server::{advice_for, bytes};
use crate::each_queue::{AT_ONCE, Reads};
use crate::show::{self, argument, printable, span};
use crate::target::{all, open};

/// Of how many queues the memory is measured: those with the most jobs.
const MEASURED: usize = 5;
/// So many failed jobs are many.
const MANY_FAILED: u64 = 1000;

/// A queue, as its checks see it.
struct Looked {
    /// As it is shown.
    name: String,
    partitions: u16,
    queue: Queue,
    counts: Counts,
    workers: usize,
}

impl Looked {
    fn is_paused_in_part(&self) -> bool {
        (1..self.partitions).contains(&self.counts.paused_parts)
    }
}

/// Looks at all queues that were used, or at the first `most` of them. `longest`: jobs are late if they wait for so long.
pub(super) async fn examine(client: &Client, longest: Duration, most: usize) -> Vec<Finding> {
    let mut listed = match all(client).await {
        Ok(listed) => listed,
        Err(error) => {
            let advice = advice_for(&error, "see that the user may run ZRANGEBYLEX and read the keys of the prefix");
            return vec![Finding::new(
                Problem,
                "queues",
                format!("the list of queues cannot be read: {error}"),
                advice,
            )];
        }
    };
    let unchecked = listed.len().saturating_sub(most);
    listed.truncate(most);
    let count = listed.len();
    let reads = Reads::new(client);
    let looked = stream::iter(listed)
        .map(async |info| (printable(&info.name), reads.read(look(client, &info.name, info.partitions)).await));
    let looked: Vec<_> = looked.buffered(AT_ONCE).collect().await;
    let (mut queues, mut findings) = (Vec::new(), Vec::new());
    for (name, looked) in looked {
        match looked {
            Ok(looked) => queues.push(looked),
            Err(error) => findings.push(unreadable(&error).about(&name)),
        }
    }
    for queue in &queues {
        let checks = [late(queue, longest), failed(queue), paused(queue)];
        findings.extend(checks.into_iter().flatten().map(|finding| finding.about(&queue.name)));
    }
    if findings.is_empty() {
        findings
            .push(Finding::ok("queues", format!("no job is late, none has failed, none is paused; queues: {count}")));
    }
    findings.extend(largest(queues).await);
    if unchecked > 0 {
        let what = format!("only the first {most} by name were checked; others: {unchecked}");
        findings.push(Finding::new(Note, "queues", what, "run `duly doctor`, which checks all"));
    }
    findings
}

async fn look(client: &Client, name: &str, partitions: u16) -> Result<Looked, Error> {
    let queue = open(client, name, partitions)?;
    let (counts, workers) = (queue.counts().await?, queue.workers().await?.len());
    Ok(Looked { name: printable(name), partitions, queue, counts, workers })
}

fn unreadable(error: &Error) -> Finding {
    let advice =
        advice_for(error, "do what the message says; if no queue was meant, take the name off the list of queues");
    Finding::new(Problem, "queue", format!("it cannot be read: {error}"), advice)
}

fn late(looked: &Looked, longest: Duration) -> Option<Finding> {
    let Counts { oldest_ready_age, overdue, held, .. } = &looked.counts;
    let longest = Millis::from_duration(longest).ok()?;
    let late = (*oldest_ready_age).max(*overdue).filter(|late| *late >= longest)?;
    // That is what was asked for, unless a pause or a resume has failed on its way.
    if looked.counts.paused && !looked.is_paused_in_part() {
        return None;
    }
    // A retry or a requeue does not count anew.
    let (name, what) = (argument(&looked.name), format!("jobs wait that were due {} ago", span(late)));
    Some(match (looked.workers, held) {
        (0, _) => {
            let what = format!("{what}, and nobody works on the queue");
            let advice = format!("start a worker; `duly workers {name}` shows those that are alive");
            Finding::new(Problem, "no worker", what, advice)
        }
        (_, Some(held)) => {
            let advice = format!("raise the limit if that is not meant: `duly limits {name}`");
            Finding::new(Note, "late", format!("{what}: {held}"), advice)
        }
        (workers, None) => {
            let what = format!("{what}, with {workers} workers");
            let advice = format!("start more workers, or see what they run: `duly workers {name}`");
            Finding::new(Warning, "late", what, advice)
        }
    })
}

fn failed(looked: &Looked) -> Option<Finding> {
    let failed = looked.counts.failed;
    let trimmed = looked.counts.total("trimmed");
    let name = argument(&looked.name);
    let advice = format!(
        "`duly failed {name}` shows why; `duly requeue --all {name}` runs them again, `duly purge {name} failed` removes them"
    );
    match (failed, trimmed) {
        (0, _) => None,
        (_, 1..) => {
            let what = format!(
                "{failed} jobs have failed for good, and {trimmed} older ones were removed since the queue was first used, by its bounds"
            );
            let level = if failed >= MANY_FAILED { Warning } else { Note };
            Some(Finding::new(level, "failed", what, advice))
        }
        (MANY_FAILED.., _) => {
            let what = format!(
                "{failed} jobs have failed for good; beyond the bound of the queue (10000 if none was set) the oldest are removed"
            );
            Some(Finding::new(Warning, "failed", what, advice))
        }
        _ => Some(Finding::new(Note, "failed", format!("jobs that have failed for good: {failed}"), advice)),
    }
}

fn paused(looked: &Looked) -> Option<Finding> {
    let paused = show::paused(looked.counts.paused_parts, looked.partitions)?;
    let what = format!("it is {paused}; jobs that wait: {}", looked.counts.ready + looked.counts.delayed);
    let name = argument(&looked.name);
    let advice = format!("`duly resume {name}` hands out its jobs again");
    if !looked.is_paused_in_part() {
        return Some(Finding::new(Note, "paused", what, advice));
    }
    let advice = format!("{advice}; `duly pause {name}` pauses the other partitions too");
    Some(Finding::new(Warning, "paused", what, advice))
}

/// What the queues with the most jobs take.
async fn largest(mut queues: Vec<Looked>) -> Vec<Finding> {
    let jobs = |looked: &Looked| {
        let Counts { delayed, ready, reserved, failed, .. } = looked.counts;
        delayed + ready + reserved + failed
    };
    queues.retain(|looked| jobs(looked) > 0);
    queues.sort_by_key(|looked| std::cmp::Reverse(jobs(looked)));
    let mut findings = Vec::new();
    for looked in queues.iter().take(MEASURED) {
        let finding = match looked.queue.memory().await {
            Ok(used) => Finding::ok("queue memory", format!("{} jobs take about {}", jobs(looked), bytes(used))),
            Err(error) => {
                let what = format!("its memory could not be measured: {error}");
                let advice = advice_for(&error, "run this as a user who may use MEMORY USAGE");
                Finding::new(Note, "queue memory", what, advice)
            }
        };
        findings.push(finding.about(&looked.name));
    }
    findings
}
