//! How often a time was how long: counts in buckets whose bounds are powers of the fourth root of two, from 1 us to 12 days.
//!
//! The layout is the one of `HdrHistogram` and of Prometheus' native histograms (schema 2): a bucket is 19 % wide, so its middle is at
//! most 9.1 % off.

use std::fmt::Write as _;
use std::time::Duration;

/// In a number between 1 and 2, in 2^32 parts: where the second, third and fourth bucket of each doubling begin.
const QUARTERS: [u64; 3] = [5_107_605_668, 6_074_001_000, 7_223_245_206];
/// The last bucket; all that is longer counts there.
const LAST: usize = 160;

/// Counts of times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// By bucket, up to the last one that has any.
    counts: Vec<u64>,
}

impl Histogram {
    /// Counts a time.
    pub(crate) fn add(&mut self, time: Duration) {
        let bucket = bucket_of(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        self.add_to(bucket, 1);
    }

    fn add_to(&mut self, bucket: usize, count: u64) {
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(count);
    }

    /// Counts all of the other's.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (bucket, &count) in other.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            self.add_to(bucket, count);
        }
    }

    /// How many times were counted.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// The time that this part of all, 0 to 1, were not longer than, at most 9.1 % off: the middle of its bucket. None if nothing was
    /// counted.
    pub(crate) fn quantile(&self, part: f64) -> Option<Duration> {
        let all = self.count();
        if all == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, clippy::cast_possible_truncation)]
        let rank = ((all as f64 * part).ceil() as u64).clamp(1, all);
        let mut seen = 0_u64;
        let is_reached = |count: &u64| {
            seen = seen.saturating_add(*count);
            seen >= rank
        };
        self.counts.iter().position(is_reached).map(middle)
    }

    /// For each bound, how many times were not longer than it, as Prometheus counts: a bucket counts if its middle does.
    pub(crate) fn up_to(&self, bound: Duration) -> u64 {
        let counted = self.counts.iter().enumerate().filter(|&(bucket, _)| middle(bucket) <= bound);
        counted.fold(0, |sum, (_, &count)| sum.saturating_add(count))
    }

    /// `<bucket>:<count>` of those that have any, with commas between them.
    pub(crate) fn write(&self, out: &mut String) {
        let mut comma = "";
        for (bucket, count) in self.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            let _ = write!(out, "{comma}{bucket}:{count}");
            comma = ",";
        }
    }

    /// Reads what was written; buckets may come in any order, and more than once. None if it is something else.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut histogram = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (bucket, count) = pair.split_once(':')?;
            histogram.add_to(bucket.parse::<usize>().ok()?.min(LAST), count.parse().ok()?);
        }
        Some(histogram)
    }
}

/// The bucket of so many microseconds.
fn bucket_of(us: u64) -> usize {
    let us = us.max(1);
    let doublings = us.ilog2();
    // The number between 1 and 2 that is left, in 2^32 parts.
    let left = if doublings <= 32 { us << (32 - doublings) } else { us >> (doublings - 32) };
    let quarter = QUARTERS.iter().filter(|&&begin| left >= begin).count();
    (doublings as usize * 4 + quarter).min(LAST)
}

/// The middle of a bucket, as a ratio.
fn middle(bucket: usize) -> Duration {
    #[expect(clippy::cast_precision_loss)] // at most LAST
    let us = ((bucket as f64 + 0.5) / 4.0).exp2();
    Duration::from_secs_f64(us / 1e6)
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        for &us in times {
            histogram.add(Duration::from_micros(us));
        }
        histogram
    }

    proptest! {
        #[test]
        fn any_time_is_at_most_a_tenth_off(us in 1..900_000_000_000_u64) {
            let told = of(&[us]).quantile(0.5).unwrap().as_secs_f64() * 1e6;
            prop_assert!((told / us as f64 - 1.0).abs() < 0.1 || us < 2, "{us} us: {told}");
        }

        #[test]
        fn any_quantile_is_at_most_a_tenth_off(mut times in prop::collection::vec(2..900_000_000_000_u64, 1..200)) {
            let histogram = of(&times);
            times.sort_unstable();
            for part in [0.5, 0.95, 0.99] {
                let exact = times[((times.len() as f64 * part).ceil() as usize).max(1) - 1] as f64;
                let told = histogram.quantile(part).unwrap().as_secs_f64() * 1e6;
                prop_assert!((told / exact - 1.0).abs() < 0.1, "p{part}: {told} instead of {exact}");
            }
        }

        #[test]
        fn any_histogram_is_read_as_it_was_written(times in prop::collection::vec(any::<u64>(), 0..50)) {
            let histogram = of(&times);
            let mut text = String::new();
            histogram.write(&mut text);
            prop_assert_eq!(Histogram::read(&text).unwrap(), histogram);
        }

        #[test]
        fn any_text_of_a_stranger_is_read_or_refused(text in "[0-9:,x-]{0,40}") {
            let _ = Histogram::read(&text);
        }
    }

    #[test]
    fn what_was_added_twice_counts_twice() {
        let mut histogram = of(&[5, 1_000_000]);
        histogram.add_all(&of(&[5, 7]));
        assert_eq!(histogram, of(&[5, 5, 7, 1_000_000]));
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.up_to(Duration::from_millis(1)), 3);
        assert_eq!(Histogram::read("9:1,9:1"), Histogram::read("9:2"));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
