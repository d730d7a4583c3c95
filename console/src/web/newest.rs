//! Failed jobs from the newest on, of all partitions together.

use duly::{Error, JobView, Queue, State};
use futures_util::future::try_join_all;

/// So many of a queue with partitions are merged at the most: to show one of them, all that failed after it are read.
const MOST_MERGED: usize = 1000;

/// How many of so many failed jobs can be shown.
pub(crate) fn reach(partitions: u16, count: u64) -> u64 {
    if partitions < 2 { count } else { count.min(MOST_MERGED as u64) }
}

/// `count`: how many have failed. Beyond its reach there are none.
pub(crate) async fn newest(queue: &Queue, offset: usize, most: usize, count: u64) -> Result<Vec<JobView>, Error> {
    let parts = queue.parts();
    if parts.len() > 1 {
        return merged(parts, offset, most).await;
    }
    let left = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(offset);
    if left == 0 {
        return Ok(Vec::new());
    }
    let mut jobs = queue.peek(State::Failed, left.saturating_sub(most), left.min(most)).await?;
    jobs.reverse();
    Ok(jobs)
}

async fn merged(parts: Vec<Queue>, offset: usize, most: usize) -> Result<Vec<JobView>, Error> {
    let wanted = offset.saturating_add(most).min(MOST_MERGED);
    if wanted <= offset {
        return Ok(Vec::new());
    }
    // No more than are shown if all parts have as many: the records of others are read in vain.
    let at_once = wanted.div_ceil(parts.len());
    let mut tails = try_join_all(parts.into_iter().map(|part| Tail::of(part, at_once))).await?;
    let mut jobs = Vec::new();
    for index in 0..wanted {
        let Some(tail) = tails.iter_mut().max_by_key(|tail| tail.jobs.last().map(|job| job.at)) else { break };
        let Some(job) = tail.jobs.pop() else { break };
        tail.read(at_once).await?;
        if index >= offset {
            jobs.push(job);
        }
    }
    Ok(jobs)
}

/// The failed jobs of a partition, the newest at the end.
struct Tail {
    part: Queue,
    /// So many of the oldest are not read yet.
    left: usize,
    /// What is read and not taken; empty only if nothing is left.
    jobs: Vec<JobView>,
}

impl Tail {
    async fn of(part: Queue, at_once: usize) -> Result<Self, Error> {
        let left = usize::try_from(part.counts().await?.failed).unwrap_or(usize::MAX);
        let mut tail = Self { part, left, jobs: Vec::new() };
        tail.read(at_once).await?;
        Ok(tail)
    }

    /// Reads on if all that was read is taken.
    async fn read(&mut self, at_once: usize) -> Result<(), Error> {
        // Jobs that were there may be gone by now.
        while self.jobs.is_empty() && self.left > 0 {
            let most = self.left.min(at_once);
            self.left -= most;
            self.jobs = self.part.peek(State::Failed, self.left, most).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_partitions_only_the_newest_can_be_shown() {
        assert_eq!([reach(0, 5000), reach(1, 5000), reach(2, 5000), reach(256, 7)], [5000, 5000, 1000, 7]);
    }
}
