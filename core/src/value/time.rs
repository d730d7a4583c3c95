//! Time as the core counts it: whole milliseconds, made from seconds at the edges and never rounded to earlier.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::error::Error;

/// The longest delay, timeout or pause that is accepted: 100 years of 365 days, in milliseconds.
pub const MAX_DELAY: Millis = Millis(100 * 365 * 24 * 60 * 60 * 1000);

/// The last moment a job may be set for: the end of the year 9999, in milliseconds since 1970.
const LAST_MOMENT_S: f64 = 253_402_300_800.0;

/// Whole milliseconds: either a span of time or, where the text says *unix*, the time since 1970-01-01 UTC.
///
/// On the wire and in every language's API it is written as seconds (`1500` ms is `1.5`). Seconds are rounded **up**
/// to the next millisecond, so nothing ever starts early.
///
/// ```
/// use duly::Millis;
///
/// assert_eq!(Millis::from_seconds(1.5)?, Millis::new(1500));
/// assert_eq!(Millis::from_seconds(0.000_1)?, Millis::new(1));
/// assert!(Millis::from_seconds(-1.0).is_err());
/// assert_eq!(Millis::new(1500).to_string(), "1.5");
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(u64);

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// This many milliseconds.
    pub const fn new(ms: u64) -> Self {
        Self(ms)
    }

    /// This many whole seconds; saturates at the largest number of milliseconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// A span given in seconds, rounded up to the next whole millisecond.
    ///
    /// Range: `0.0` to 100 years. Negative numbers, NaN, infinities and longer spans are
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn from_seconds(seconds: f64) -> Result<Self, Error> {
        if seconds.is_nan() || seconds < 0.0 {
            return Err(Error::invalid("seconds must be 0 or more, not negative and not NaN"));
        }
        let ms = Self::rounded_up(seconds);
        if !seconds.is_finite() || ms > MAX_DELAY {
            return Err(Error::invalid("seconds must be finite and at most 3153600000 (100 years)"));
        }
        Ok(ms)
    }

    /// A moment given in seconds since 1970-01-01 UTC, rounded up to the next whole millisecond.
    ///
    /// Range: `0.0` to the end of the year 9999; a moment that is over means now. Everything else is
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn from_unix_seconds(seconds: f64) -> Result<Self, Error> {
        if (0.0..=LAST_MOMENT_S).contains(&seconds) {
            Ok(Self::rounded_up(seconds))
        } else {
            Err(Error::invalid("a moment must be in unix seconds, from 0 (1970) to 253402300800 (the end of 9999)"))
        }
    }

    /// A span of time, rounded up to the next whole millisecond.
    ///
    /// More than 100 years is [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn from_duration(span: Duration) -> Result<Self, Error> {
        match u64::try_from(span.as_nanos().div_ceil(1_000_000)) {
            Ok(ms) if ms <= MAX_DELAY.0 => Ok(Self(ms)),
            _ => Err(Error::invalid("a duration must be at most 3153600000 seconds (100 years)")),
        }
    }

    /// The number of milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The same time in seconds. Exact to the millisecond for any time before the year 280000.
    #[expect(clippy::cast_precision_loss, reason = "times stay far below 2^53 milliseconds")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// The whole seconds in it, rounded down.
    pub const fn whole_seconds(self) -> u64 {
        self.0 / 1000
    }

    /// The same span as the standard library's type.
    pub const fn to_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The sum, or the largest value if the sum is larger.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The smallest m with m/1000 >= seconds. A plain `(seconds * 1000).ceil()` would make 71 ms of 0.07 s, because
    /// the product is 70.00000000000001.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates, as wanted")]
    pub(crate) fn rounded_up(seconds: f64) -> Self {
        let nearest = Self((seconds * 1000.0).round() as u64);
        if nearest.as_seconds() >= seconds { nearest } else { Self(nearest.0.saturating_add(1)) }
    }
}

/// Seconds as a plain decimal number without needless digits: `0`, `5`, `1.5`, `0.001`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.0 / 1000, self.0 % 1000);
        if ms == 0 {
            return write!(f, "{seconds}");
        }
        let digits = format!("{ms:03}");
        write!(f, "{seconds}.{}", digits.trim_end_matches('0'))
    }
}

/// As seconds: an integer where it is one, else a decimal fraction.
impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1000) {
            serializer.serialize_u64(self.0 / 1000)
        } else {
            serializer.serialize_f64(self.as_seconds())
        }
    }
}

/// From a number of seconds, 0 to 100 years.
impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_seconds(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// When a job may start.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum When {
    /// As soon as a worker is free.
    #[default]
    Now,
    /// This long after the server received the push, by the server's clock.
    After(Millis),
    /// At this unix time, by the server's clock. A time that is over means now.
    At(Millis),
}

impl When {
    /// After this many seconds, rounded up to whole milliseconds; 0 is [`When::Now`]. Errors as
    /// [`Millis::from_seconds`].
    pub fn after_seconds(seconds: f64) -> Result<Self, Error> {
        Ok(match Millis::from_seconds(seconds)? {
            Millis::ZERO => Self::Now,
            span => Self::After(span),
        })
    }

    /// At this unix time in seconds, rounded up to whole milliseconds. Errors as [`Millis::from_unix_seconds`].
    pub fn at_unix_seconds(seconds: f64) -> Result<Self, Error> {
        Millis::from_unix_seconds(seconds).map(Self::At)
    }
}

/// The longest wait that is counted; nobody will tell it from a longer one, and a moment that far away can be reckoned with.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The milliseconds of a span as the scripts take them.
pub(crate) fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;

    #[test]
    fn seconds_round_up_and_never_by_a_float_error() {
        for (seconds, ms) in
            [(0.0, 0), (-0.0, 0), (1e-9, 1), (0.07, 70), (0.57, 570), (1.005, 1005), (5.0, 5000), (1.000_1, 1001)]
        {
            assert_eq!(Millis::from_seconds(seconds).unwrap().get(), ms, "{seconds}");
        }
        for ms in (0..3_000_000).step_by(7).chain([1_790_000_000_123, MAX_DELAY.get()]) {
            let seconds: f64 = Millis::new(ms).to_string().parse().unwrap();
            assert_eq!(Millis::rounded_up(seconds).get(), ms);
        }
    }

    #[test]
    fn impossible_delays_are_refused() {
        for seconds in [-0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3_153_600_000.001, 1e300] {
            assert_eq!(Millis::from_seconds(seconds).unwrap_err().kind(), ErrorKind::InvalidArgument, "{seconds}");
        }
        assert!(Millis::from_seconds(3_153_600_000.0).is_ok());
        assert!(Millis::from_duration(Duration::MAX).is_err());
        assert_eq!(Millis::from_duration(Duration::from_nanos(1)).unwrap(), Millis::new(1));
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 253_402_300_801.0] {
            assert!(When::at_unix_seconds(seconds).is_err(), "{seconds}");
        }
    }

    #[test]
    fn a_delay_of_zero_is_now() {
        assert_eq!(When::after_seconds(0.0).unwrap(), When::Now);
        assert_eq!(When::after_seconds(0.000_4).unwrap(), When::After(Millis::new(1)));
    }

    #[test]
    fn seconds_are_written_short() {
        for (ms, text) in [(0, "0"), (5000, "5"), (1500, "1.5"), (1, "0.001"), (60_010, "60.01")] {
            assert_eq!(Millis::new(ms).to_string(), text);
            assert_eq!(serde_json::to_string(&Millis::new(ms)).unwrap(), text);
        }
    }
}
