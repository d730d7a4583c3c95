//! What runs came to: how many ended how, how long their jobs had waited, and how long they took.

use std::fmt::Write as _;
use std::time::Duration;

use crate::value::histogram::Histogram;
use crate::value::retry::Next;

/// Counts of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Runs after which the job was done.
    pub(crate) done: u64,
    /// Runs after which it went to `failed`.
    pub(crate) failed: u64,
    /// Runs that failed and are tried again.
    pub(crate) retried: u64,
    /// Runs after which it was given back without a failure.
    pub(crate) released: u64,
    /// The sum of all waits, and of all runs, in microseconds.
    pub(crate) wait_us: u64,
    pub(crate) run_us: u64,
    pub(crate) wait: Histogram,
    pub(crate) run: Histogram,
}

impl Tally {
    /// A run that has ended. `waited`: how long its job had been due when it began, if that is known.
    pub(crate) fn count(&mut self, came_to: Next, waited: Option<Duration>, took: Duration) {
        let of_its_kind = match came_to {
            Next::Ack => &mut self.done,
            Next::Failed { .. } => &mut self.failed,
            Next::RetryAfter { .. } => &mut self.retried,
            Next::ReleaseAfter(_) => &mut self.released,
        };
        *of_its_kind += 1;
        self.run.add(took);
        self.run_us = self.run_us.saturating_add(us(took));
        if let Some(waited) = waited {
            self.wait.add(waited);
            self.wait_us = self.wait_us.saturating_add(us(waited));
        }
    }

    /// Counts all of the other's.
    pub(crate) fn add_all(&mut self, other: &Self) {
        let sums = [
            (&mut self.done, other.done),
            (&mut self.failed, other.failed),
            (&mut self.retried, other.retried),
            (&mut self.released, other.released),
            (&mut self.wait_us, other.wait_us),
            (&mut self.run_us, other.run_us),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.wait.add_all(&other.wait);
        self.run.add_all(&other.run);
    }

    /// `<done> <failed> <retried> <released> <us of waits> <us of runs>;<waits>;<runs>`, as the server keeps it.
    pub(crate) fn encode(&self) -> String {
        let Self { done, failed, retried, released, wait_us, run_us, wait, run } = self;
        let mut text = String::with_capacity(128);
        let _ = write!(text, "{done} {failed} {retried} {released} {wait_us} {run_us};");
        wait.write(&mut text);
        text.push(';');
        run.write(&mut text);
        text
    }

    /// Reads what was encoded; None if it is something else.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let mut sums = parts.next()?.split(' ').map(str::parse);
        let mut sum = || sums.next()?.ok();
        let (done, failed, retried, released, wait_us, run_us) = (sum()?, sum()?, sum()?, sum()?, sum()?, sum()?);
        let (wait, run) = (Histogram::read(parts.next()?)?, Histogram::read(parts.next()?)?);
        Some(Self { done, failed, retried, released, wait_us, run_us, wait, run })
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::time::Millis;

    #[test]
    fn it_is_read_as_it_was_written_and_adds_up() {
        let (second, ms) = (Duration::from_secs(1), Duration::from_millis(1));
        let mut tally = Tally::default();
        tally.count(Next::Ack, Some(second), ms);
        tally.count(Next::Failed { attempts: 6 }, None, 2 * ms);
        tally.count(Next::RetryAfter { after: Millis::ZERO, attempts: 1 }, None, ms);
        tally.count(Next::ReleaseAfter(Millis::ZERO), None, ms);
        assert_eq!(tally.encode(), "1 1 1 1 1000000 5000;79:1;39:3,43:1");
        assert_eq!(Tally::decode(&tally.encode()).as_ref(), Some(&tally));
        let mut twice = tally.clone();
        twice.add_all(&tally);
        assert_eq!(twice.encode(), "2 2 2 2 2000000 10000;79:2;39:6,43:2");
        for other in ["", "1 1 1;;", "1 1 1 1 1 1", "1 1 1 1 1 1;;x", "-1 0 0 0 0 0;;"] {
            assert_eq!(Tally::decode(other), None, "{other}");
        }
    }
}
