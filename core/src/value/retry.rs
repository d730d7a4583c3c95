//! The decision about a job after a run: done, again after a while, or failed. Pure: nothing here reads a clock or Redis.

use serde::{Deserialize, Serialize};

use crate::value::error::Error;
use crate::value::time::{MAX_DELAY, Millis};

/// How many retries a job gets by default: 5, which makes 6 runs.
pub const DEFAULT_MAX_RETRIES: u32 = 5;
/// The step of the default policy: 5, 10, 15, 20, 25 seconds.
pub(crate) const DEFAULT_STEP: Millis = Millis::from_secs(5);
/// The most delays that a list may hold.
pub(crate) const MAX_LISTED_DELAYS: usize = 100;
/// So many failures are waited for as the policy says, however short that is.
const QUICK_RETRIES: u32 = 10;
/// After more failures a wait is no shorter: a job that always fails must not keep its workers busy for ever.
const LEAST_PAUSE: Millis = Millis::from_secs(1);

/// How long to wait before each retry. Spans are written as seconds on the wire: `{"linear":{"step":5}}`.
///
/// Whatever the policy says, from the 11th failure on a wait is 1 second at least.
///
/// ```
/// use duly::{Decision, Millis, RetryPolicy, decide};
///
/// let policy = RetryPolicy::default();
/// assert_eq!(decide(&policy, 1, 5, 0), Decision::RetryAfter(Millis::from_secs(5)));
/// assert_eq!(decide(&policy, 5, 5, 0), Decision::RetryAfter(Millis::from_secs(25)));
/// assert_eq!(decide(&policy, 6, 5, 0), Decision::Failed);
/// assert_eq!(serde_json::to_string(&policy).unwrap(), r#"{"linear":{"step":5}}"#);
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryPolicy {
    /// `step` after the first failure, twice that after the second, and so on.
    Linear {
        /// The wait after the first failure, and how much longer each further one is.
        step: Millis,
    },
    /// The same wait after every failure.
    Fixed {
        /// The wait.
        delay: Millis,
    },
    /// `base`, then `factor` times longer after every further failure, up to `cap`.
    Exponential {
        /// The wait after the first failure.
        base: Millis,
        /// How many times longer each further wait is, 1 to 1000; 2 if left out.
        #[serde(default = "two", skip_serializing_if = "is_two")]
        factor: f64,
        /// The longest wait.
        cap: Millis,
        /// Full jitter: the wait is drawn evenly from zero up to the computed one, so that jobs which failed together
        /// do not come back together (Brooker, "Exponential Backoff And Jitter", AWS 2015).
        #[serde(default, skip_serializing_if = "is_false")]
        jitter: bool,
    },
    /// An explicit list; the last one repeats.
    List {
        /// The waits after the first, second, ... failure: 1 to 100 of them.
        delays: Vec<Millis>,
    },
}

fn two() -> f64 {
    2.0
}

#[expect(
    clippy::float_cmp,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes references; only 2 itself is left out"
)]
fn is_two(factor: &f64) -> bool {
    *factor == 2.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Default for RetryPolicy {
    /// 5 seconds times the number of failures.
    fn default() -> Self {
        Self::Linear { step: DEFAULT_STEP }
    }
}

impl RetryPolicy {
    /// Refuses what makes no sense, as [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): a wait of
    /// more than 100 years, a factor outside 1 to 1000, a cap below the base, an empty or very long list.
    pub fn check(&self) -> Result<(), Error> {
        let longest = match self {
            Self::Linear { step: span } | Self::Fixed { delay: span } => Some(span),
            Self::Exponential { base, factor, cap, .. } => {
                if !(1.0..=1000.0).contains(factor) {
                    return Err(Error::invalid("the factor of an exponential retry policy must be 1 to 1000"));
                }
                if base > cap {
                    return Err(Error::invalid("the cap of an exponential retry policy must not be below its base"));
                }
                Some(cap)
            }
            Self::List { delays } => {
                if !(1..=MAX_LISTED_DELAYS).contains(&delays.len()) {
                    return Err(Error::invalid("a list of retry delays must have 1 to 100 entries"));
                }
                delays.iter().max()
            }
        };
        if longest.is_some_and(|&span| span > MAX_DELAY) {
            return Err(Error::invalid("a retry delay must be at most 3153600000 seconds (100 years)"));
        }
        Ok(())
    }

    /// The wait after this many failures (1 or more; 0 counts as 1), never more than 100 years.
    ///
    /// The same `seed` gives the same jitter.
    pub fn delay(&self, failures: u32, seed: u64) -> Millis {
        let failures = failures.max(1);
        let span = match self {
            Self::Linear { step } => Millis::new(step.get().saturating_mul(u64::from(failures))),
            Self::Fixed { delay } => *delay,
            Self::Exponential { base, factor, cap, jitter } => {
                let longest = grown(*base, *factor, *cap, failures);
                if *jitter { drawn(longest, seed) } else { longest }
            }
            Self::List { delays } => {
                let index = usize::try_from(failures - 1).unwrap_or(usize::MAX);
                delays.get(index).or(delays.last()).copied().unwrap_or(DEFAULT_STEP)
            }
        };
        span.clamp(least_pause(failures), MAX_DELAY)
    }
}

/// The shortest wait after so many failures.
fn least_pause(failures: u32) -> Millis {
    if failures > QUICK_RETRIES { LEAST_PAUSE } else { Millis::ZERO }
}

/// `base * factor^(failures - 1)`, and at most `cap`. A power by squaring: 32 steps at most, whatever a record says, and only
/// products, so that every platform computes the same.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "spans of at most 100 years are exact, and a float cast saturates"
)]
fn grown(base: Millis, factor: f64, cap: Millis, failures: u32) -> Millis {
    // What others wrote may hold any factor; `max` gives 1 for what is no number.
    let (mut growth, mut square, mut exponent) = (1.0, factor.max(1.0), failures - 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            growth *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    let ms = base.get() as f64 * growth;
    // Not a number: nothing, however often it is multiplied.
    if ms.is_nan() { Millis::ZERO.min(cap) } else { Millis::new(ms.ceil() as u64).min(cap) }
}

/// Evenly from 0 to `longest`, both included. The finalizer of splitmix64 (Steele, Lea, Flood 2014) spreads the seed.
fn drawn(longest: Millis, seed: u64) -> Millis {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    Millis::new(((u128::from(z) * (u128::from(longest.get()) + 1)) >> 64) as u64)
}

/// The policy's decision about a failed run.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Run it again after this long.
    RetryAfter(Millis),
    /// No retries are left: the job goes to `failed`.
    Failed,
}

/// Decides about a job after a failed run. `failures` counts this one too; `max_retries` retries are allowed, so a job runs at
/// most `max_retries + 1` times. Pure: the same arguments give the same answer.
pub fn decide(policy: &RetryPolicy, failures: u32, max_retries: u32, seed: u64) -> Decision {
    if failures > max_retries { Decision::Failed } else { Decision::RetryAfter(policy.delay(failures, seed)) }
}

/// How a run ended, as the handler (or the worker, for a panic or a crash) says it.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It worked; the job leaves the queue.
    Done,
    /// It failed and wants another run.
    Retry {
        /// When; `None` leaves it to the policy.
        after: Option<Millis>,
        /// Does this failure count? If not, the job's failures stay as they are and it cannot run out of retries.
        counted: bool,
    },
    /// It did not really run (the worker stops, a resource is taken): back to the queue.
    Release {
        /// When it may be reserved again; zero is at once.
        after: Millis,
        /// Does this run count as an attempt? If so, the job has one failure more and waits behind those that are ready, as a retry does;
        /// but it never goes to `failed`, whatever retries are left.
        counted: bool,
    },
    /// It failed and further runs are pointless: to `failed` now, whatever retries are left.
    FailNow,
}

/// The next state of the job.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The job is done and leaves the queue.
    Ack,
    /// The job waits this long and runs again; `attempts` is its new count of failures.
    RetryAfter {
        /// The wait.
        after: Millis,
        /// Failures so far, this one included if it counts.
        attempts: u32,
    },
    /// The job goes to `failed`; `attempts` is its new count of failures.
    Failed {
        /// Failures so far, this one included.
        attempts: u32,
    },
    /// The job goes back to the queue after this long; nothing is counted.
    ReleaseAfter(Millis),
}

impl RetryPolicy {
    /// The cap of an exponential policy that names none: an hour.
    pub const DEFAULT_CAP: Millis = Millis::from_secs(3600);
}

impl Outcome {
    /// An ordinary failure: counted, and the policy decides.
    pub const FAILURE: Self = Self::Retry { after: None, counted: true };

    /// Back to the queue at once, as if it had not been reserved.
    pub const GIVEN_BACK: Self = Self::Release { after: Millis::ZERO, counted: false };

    /// A failure as a handler or a hook wants it: with a retry after this long, or when the policy says; counted or not; or
    /// without any retry.
    ///
    /// Errors: `InvalidArgument` for a final failure with a retry, or that is not to count.
    pub fn failure(after: Option<Millis>, counted: bool, is_final: bool) -> Result<Self, Error> {
        match (is_final, after, counted) {
            (false, after, counted) => Ok(Self::Retry { after, counted }),
            (true, None, true) => Ok(Self::FailNow),
            (true, ..) => {
                Err(Error::invalid("a final failure has no retry and counts: leave out retry_after and counted"))
            }
        }
    }

    /// Decides about a job that had `attempts` failures before this run. Pure: the same arguments give the same
    /// answer.
    ///
    /// ```
    /// use duly::{Millis, Next, Outcome, RetryPolicy};
    ///
    /// let policy = RetryPolicy::default();
    /// let second = Outcome::FAILURE.next(&policy, 1, 5, 0);
    /// assert_eq!(second, Next::RetryAfter { after: Millis::from_secs(10), attempts: 2 });
    /// assert_eq!(Outcome::FAILURE.next(&policy, 5, 5, 0), Next::Failed { attempts: 6 });
    /// ```
    pub fn next(self, policy: &RetryPolicy, attempts: u32, max_retries: u32, seed: u64) -> Next {
        let counted_up = attempts.saturating_add(1);
        match self {
            Self::Done => Next::Ack,
            Self::Release { after, counted: false } => Next::ReleaseAfter(after.min(MAX_DELAY)),
            Self::Release { after, counted: true } => {
                Next::RetryAfter { after: after.clamp(least_pause(counted_up), MAX_DELAY), attempts: counted_up }
            }
            Self::FailNow => Next::Failed { attempts: counted_up },
            Self::Retry { after, counted: false } => {
                let after = after.unwrap_or_else(|| policy.delay(counted_up, seed)).min(MAX_DELAY);
                Next::RetryAfter { after, attempts }
            }
            Self::Retry { after, counted: true } => match decide(policy, counted_up, max_retries, seed) {
                Decision::Failed => Next::Failed { attempts: counted_up },
                Decision::RetryAfter(by_policy) => {
                    let after = after.unwrap_or(by_policy).clamp(least_pause(counted_up), MAX_DELAY);
                    Next::RetryAfter { after, attempts: counted_up }
                }
            },
        }
    }
}

impl Next {
    /// Was it the job's last run?
    pub fn is_last(self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    /// How long it waits until it runs again; nothing if it does not.
    pub fn wait(self) -> Option<Millis> {
        match self {
            Self::RetryAfter { after, .. } | Self::ReleaseAfter(after) => Some(after),
            Self::Ack | Self::Failed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
