//! How many bytes of jobs a worker asks for in one call, and how many of outcomes it sends in one. Pure: nothing here reads a clock.
//!
//! The leases of a reply count from the moment at which the server sends it. Over a slow line the largest reply would bring jobs
//! whose leases are nearly over, and hold up the renewals behind it. So would the largest call that sends outcomes. Where one job
//! alone takes so long, the leases that are asked for next are longer by as much.

use std::time::Duration;

use crate::queue::MAX_RESERVE_BYTES;

/// What is asked for first: a moment's work for every line that is fit for a queue.
const FIRST: usize = 256 * 1024;
/// Less is not asked for: smaller jobs than this come together even over the slowest line.
const LEAST: usize = 16 * 1024;
/// What a call carries of outcomes at first: results are small as a rule.
const FIRST_UPLOAD: usize = 64 * 1024;
/// A call that takes longer is too large.
pub(super) const LONG: Duration = Duration::from_millis(500);
/// One that is as large as asked for and takes no longer lets the next one be larger: as large as the first, or the largest.
const RATHER_SHORT: Duration = Duration::from_millis(375);
const SHORT: Duration = Duration::from_millis(250);
/// Leases are no longer than this for the sake of a slow line: others wait as much longer for a worker that died.
const MOST_LATE: Duration = Duration::from_secs(120);

/// Learns from each reply.
#[derive(Debug)]
pub(super) struct Appetite {
    bytes: usize,
    late_by: Duration,
}

impl Default for Appetite {
    fn default() -> Self {
        Self { bytes: FIRST, late_by: Duration::ZERO }
    }
}

impl Appetite {
    /// For what is sent.
    pub(super) fn for_uploads() -> Self {
        Self { bytes: FIRST_UPLOAD, late_by: Duration::ZERO }
    }

    /// The most bytes to ask for, or to send.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How much longer than usual a lease must be for jobs to arrive in time.
    pub(super) fn lateness(&self) -> Duration {
        self.late_by
    }

    /// Of the time that a call took, the part of its reply, or of what it sent, of so many bytes, where `beside` it so many went the
    /// other way. Those are small as a rule, and then all of it says something of the other ones.
    pub(super) fn part(took: Duration, bytes: usize, beside: usize) -> Duration {
        if beside <= LEAST {
            return took;
        }
        #[allow(clippy::cast_precision_loss)] // a part of a time needs no more
        took.mul_f64(bytes as f64 / (bytes + beside) as f64)
    }

    /// A reply or a call with so many bytes of records took this long: less the next time, or more if it was a large part of
    /// what might be. One that took long and brought nothing may have been cut off again and again until the leases were over.
    pub(super) fn learn(&mut self, bytes: usize, took: Duration, lease: Duration) {
        if bytes == 0 {
            if took > LONG {
                self.bytes = LEAST;
            }
            return;
        }
        self.learn_lateness(took, lease);
        if took > LONG && bytes > LEAST {
            self.bytes = (bytes / 2).clamp(LEAST, self.bytes);
        } else if bytes >= self.bytes / 2 && took < if self.bytes < FIRST { RATHER_SHORT } else { SHORT } {
            self.bytes = (self.bytes * 2).min(MAX_RESERVE_BYTES);
        }
    }

    /// A call whose size says nothing took this long.
    pub(super) fn learn_lateness(&mut self, took: Duration, lease: Duration) {
        self.late_by = if took > lease / 2 { took.min(MOST_LATE) } else { Duration::ZERO };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    /// What is asked for after so many replies, each as large as asked for, over a line of so many bytes a second.
    fn settled(bytes_a_second: u32) -> usize {
        let mut appetite = Appetite::default();
        for _ in 0..20 {
            let bytes = appetite.bytes();
            let took = u32::try_from(bytes).map(|bytes| Duration::from_secs(1) * bytes / bytes_a_second).unwrap();
            appetite.learn(bytes, took, LEASE);
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
        appetite.learn(300, Duration::from_secs(3), LEASE);
        assert_eq!(appetite.bytes(), FIRST);
    }

    #[test]
    fn what_went_the_other_way_in_the_same_call_is_not_counted() {
        let took = Duration::from_secs(8);
        assert_eq!(Appetite::part(took, 0, 400_000), Duration::ZERO, "all of it was the result");
        assert_eq!(Appetite::part(took, 100_000, 300_000), took / 4);
        assert_eq!(Appetite::part(took, 0, 100), took, "it may have been cut off");
        assert_eq!(Appetite::part(took, 300, LEAST), took);
    }

    #[test]
    fn behind_a_reply_that_never_came_little_is_asked_for_and_soon_more() {
        let mut appetite = Appetite::default();
        appetite.learn(0, Duration::from_millis(3), LEASE);
        assert_eq!(appetite.bytes(), FIRST, "there were none");
        appetite.learn(0, LEASE, LEASE);
        assert_eq!(appetite.bytes(), LEAST);
        for _ in 0..10 {
            // The other side of the earth.
            appetite.learn(appetite.bytes(), Duration::from_millis(300), LEASE);
        }
        assert_eq!(appetite.bytes(), FIRST);
    }

    #[test]
    fn leases_are_longer_while_jobs_arrive_when_theirs_are_nearly_over() {
        let mut appetite = Appetite::default();
        appetite.learn(1_000_000, 2 * LEASE, LEASE);
        assert_eq!(appetite.lateness(), 2 * LEASE);
        appetite.learn(1_000_000, 1000 * LEASE, LEASE);
        assert_eq!(appetite.lateness(), MOST_LATE);
        appetite.learn(0, LEASE, LEASE);
        assert_eq!(appetite.lateness(), MOST_LATE, "nothing was learned");
        appetite.learn(1000, LEASE / 10, LEASE);
        assert_eq!(appetite.lateness(), Duration::ZERO);
    }
}
