//! How many jobs a question is about, so that its answer acts on no more.

use super::done::Done;
use super::{READY, REMOVED};
use crate::queue::Queue;
use crate::value::error::Error;
use crate::value::state::State;

/// How many jobs of a queue were in one state, and when: in each of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    state: State,
    /// By the server's clock.
    at: Vec<i64>,
    jobs: Vec<u64>,
}

impl Extent {
    /// In all parts together.
    pub fn jobs(&self) -> u64 {
        self.jobs.iter().fold(0, |sum, jobs| sum.saturating_add(*jobs))
    }

    /// For a form that asks; [`Extent::parse`] reads it.
    pub fn to_text(&self) -> String {
        let parts: Vec<_> = self.at.iter().zip(&self.jobs).map(|(at, jobs)| format!("{at}:{jobs}")).collect();
        parts.join(",")
    }

    /// Nothing if it is none.
    pub fn parse(state: State, text: &str) -> Option<Self> {
        let mut extent = Self { state, at: Vec::new(), jobs: Vec::new() };
        for part in text.split(',') {
            let (at, jobs) = part.split_once(':')?;
            extent.at.push(at.parse().ok()?);
            extent.jobs.push(jobs.parse().ok()?);
        }
        Some(extent)
    }

    fn check(&self, queue: &Queue, operation: &'static str) -> Result<(), Error> {
        if self.jobs.len() == queue.each_part().len() {
            return Ok(());
        }
        Err(queue.during(operation)(Error::invalid("the question was about another number of partitions")))
    }
}

impl Queue {
    /// How many jobs are in this state now.
    #[doc(hidden)] // for the command
    pub async fn extent(&self, state: State) -> Result<Extent, Error> {
        let mut extent = Extent { state, at: Vec::new(), jobs: Vec::new() };
        for part in self.each_part() {
            let counts = part.counts_now("counts").await?;
            let jobs = match state {
                State::Delayed => counts.delayed,
                State::Ready => counts.ready,
                State::Reserved => counts.reserved,
                State::Failed => counts.failed,
            };
            extent.at.push(match state {
                State::Failed => part.latest_failure(counts.now, "counts").await?,
                _ => counts.now,
            });
            extent.jobs.push(u64::try_from(jobs).unwrap_or(0));
        }
        Ok(extent)
    }

    /// As [`Queue::purge`], of so many jobs at the most: the first ones to fail, to be due, to run, or to lose their leases. Of failed jobs
    /// only those that had failed then; jobs in another state may have come since.
    #[doc(hidden)] // for the command
    pub async fn purge_extent(&self, extent: &Extent) -> Result<u64, Error> {
        extent.check(self, "purge")?;
        let done = Done::default();
        let steps = async {
            for (part, (at, jobs)) in self.each_part().iter().zip(extent.at.iter().zip(&extent.jobs)) {
                // The score of a failed job is when it failed; that of another one says nothing of when it came.
                let latest = (extent.state == State::Failed).then_some(*at);
                part.purge_some(extent.state, *jobs, latest, "purge", &done).await?;
            }
            Ok(done.jobs())
        };
        done.all(steps, REMOVED).await
    }

    /// As [`Queue::requeue_all`], of so many jobs at the most, and of those only that had failed then.
    #[doc(hidden)] // for the command
    pub async fn requeue_extent(&self, extent: &Extent) -> Result<u64, Error> {
        extent.check(self, "requeue_all")?;
        let done = Done::default();
        let steps = async {
            for (part, (at, jobs)) in self.each_part().iter().zip(extent.at.iter().zip(&extent.jobs)) {
                part.requeue_some(*jobs, *at, &done).await?;
            }
            Ok(done.jobs())
        };
        done.all(steps, READY).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_holds_it() {
        let extent = Extent { state: State::Failed, at: vec![5, 7], jobs: vec![3, 0] };
        assert_eq!((extent.jobs(), extent.to_text()), (3, "5:3,7:0".to_owned()));
        assert_eq!(Extent::parse(State::Failed, "5:3,7:0"), Some(extent));
        for wrong in ["", "5", "5:3,", "5:-3", "a:b"] {
            assert_eq!(Extent::parse(State::Failed, wrong), None, "{wrong}");
        }
    }
}
