//! How many bytes of jobs a worker asks for in one call. Pure: nothing here reads a clock.
//!
//! The leases of a reply count from the moment at which the server sends it. Over a slow line the largest reply would bring jobs
//! whose leases are nearly over, and hold up the renewals behind it.

use std::time::Duration;

use crate::reserve::MAX_RESERVE_BYTES;

/// What is asked for first: a moment's work for every line that is fit for a queue.
const FIRST: usize = 256 * 1024;
/// Less is not asked for: smaller jobs than this come together even over the slowest line.
const LEAST: usize = 16 * 1024;
/// A reply that takes longer is too large.
const LONG: Duration = Duration::from_millis(500);

/// Learns from each reply.
#[derive(Debug)]
pub(super) struct Appetite {
    bytes: usize,
}

impl Default for Appetite {
    fn default() -> Self {
        Self { bytes: FIRST }
    }
}

impl Appetite {
    /// The most bytes to ask for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A reply with so many bytes of records took this long: less the next time, or more if it was a large part of what was
    /// asked for.
    pub(super) fn learn(&mut self, bytes: usize, took: Duration) {
        if took > LONG && bytes > LEAST {
            self.bytes = (bytes / 2).clamp(LEAST, self.bytes);
        } else if took < LONG / 2 && bytes >= self.bytes / 2 {
            self.bytes = (self.bytes * 2).min(MAX_RESERVE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for after so many replies, each as large as asked for, over a line of so many bytes a second.
    fn settled(bytes_a_second: u32) -> usize {
        let mut appetite = Appetite::default();
        for _ in 0..20 {
            let bytes = appetite.bytes();
            let took = u32::try_from(bytes).map(|bytes| Duration::from_secs(1) * bytes / bytes_a_second).unwrap();
            appetite.learn(bytes, took);
        }
        appetite.bytes()
    }

    #[test]
    fn a_quick_line_brings_the_most_that_a_call_may_bring() {
        assert_eq!(settled(100_000_000), MAX_RESERVE_BYTES);
    }

    #[test]
    fn a_slow_line_brings_what_it_can_carry_in_half_a_second() {
        for bytes_a_second in [150_000, 1_250_000] {
            let half_a_second = bytes_a_second as usize / 2;
            assert!(
                (half_a_second / 4..=half_a_second).contains(&settled(bytes_a_second)),
                "{}",
                settled(bytes_a_second)
            );
        }
    }

    #[test]
    fn a_slow_server_with_small_replies_is_no_slow_line() {
        let mut appetite = Appetite::default();
        appetite.learn(300, Duration::from_secs(3));
        assert_eq!(appetite.bytes(), FIRST);
    }
}
