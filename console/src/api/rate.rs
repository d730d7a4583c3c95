//! So many requests of a token in so much time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use duly::Rate;

/// A token bucket, as its next free moment: after a rest, as many requests as the rate has may come at once.
pub(super) struct Bucket {
    each: Duration,
    per: Duration,
    free_at: Mutex<Option<Instant>>,
}

impl Bucket {
    pub(super) fn new(rate: Rate) -> Self {
        Self { each: rate.per / rate.jobs.max(1), per: rate.per, free_at: Mutex::default() }
    }

    /// Errors: how long until the next one may come.
    pub(super) fn take(&self, now: Instant) -> Result<(), Duration> {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let next = free_at.map_or(now, |at| at.max(now)) + self.each;
        let ahead = next.duration_since(now);
        if ahead > self.per {
            return Err(ahead.saturating_sub(self.per));
        }
        *free_at = Some(next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_then_one_after_the_other() {
        let second = Duration::from_secs(1);
        let bucket = Bucket::new(Rate { jobs: 4, per: second });
        let begin = Instant::now();
        for _ in 0..4 {
            bucket.take(begin).unwrap();
        }
        assert_eq!(bucket.take(begin), Err(second / 4));
        assert_eq!(bucket.take(begin + second / 8), Err(second / 8));
        bucket.take(begin + second / 4).unwrap();
        assert_eq!(bucket.take(begin + second / 4), Err(second / 4));
        for _ in 0..4 {
            bucket.take(begin + second * 10).unwrap();
        }
        assert!(bucket.take(begin + second * 10).is_err());
    }
}
