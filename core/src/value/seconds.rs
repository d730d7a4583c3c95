//! A number of seconds as somebody wrote it, kept digit for digit.

use std::fmt;

use crate::value::json;
use crate::value::time::Millis;

/// A JSON number of seconds with its exact digits: `15`, `15.0` and `1.50` stay what they are.
///
/// ```
/// use duly::{Millis, Seconds};
///
/// assert_eq!(Seconds::from(Millis::new(1500)).to_string(), "1.5");
/// assert_eq!(Seconds::from(Millis::new(1500)).to_millis(), Millis::new(1500));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seconds(Digits);

/// Nearly every delay is a number of milliseconds and needs no text of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Digits {
    Short(Millis),
    Text(Box<str>),
}

impl Seconds {
    /// No time at all: `0`.
    pub const ZERO: Self = Self(Digits::Short(Millis::ZERO));

    /// A JSON number, kept as it is; or any other text that means a number, as PHP's numeric strings do, in its
    /// shortest JSON form. None if it means no finite number.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        if json::is_number(text) {
            let short =
                text.parse().ok().filter(|&seconds: &f64| (0.0..1e12).contains(&seconds)).map(Millis::rounded_up);
            return Some(match short {
                Some(ms) if ms.to_string() == text => Self(Digits::Short(ms)),
                _ => Self(Digits::Text(text.into())),
            });
        }
        let number: f64 = text.trim().parse().ok()?;
        number.is_finite().then(|| Self::from_text(&number.to_string())).flatten()
    }

    /// The nearest float. A number too large for one is infinite.
    pub fn as_f64(&self) -> f64 {
        match &self.0 {
            Digits::Short(ms) => ms.as_seconds(),
            Digits::Text(text) => text.parse().unwrap_or(0.0),
        }
    }

    /// Rounded up to whole milliseconds; less than nothing is zero, too much is the largest number there is.
    pub fn to_millis(&self) -> Millis {
        match &self.0 {
            Digits::Short(ms) => *ms,
            Digits::Text(_) => Millis::rounded_up(self.as_f64()),
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl Default for Seconds {
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<Millis> for Seconds {
    fn from(span: Millis) -> Self {
        Self(Digits::Short(span))
    }
}

/// The exact digits.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Digits::Short(ms) => ms.fmt(f),
            Digits::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stay() {
        for text in [
            "0",
            "-0",
            "0.0",
            "15",
            "15.0",
            "1.5",
            "1.50",
            "1e3",
            "-3",
            "1e400",
            "0.30000000000000004",
            "99999999999999999999",
        ] {
            assert_eq!(Seconds::from_text(text).unwrap().to_string(), text);
        }
        assert_eq!(Seconds::from_text("1.5"), Some(Seconds::from(Millis::new(1500))));
    }

    #[test]
    fn numeric_strings_become_numbers() {
        for (text, number) in [(" 15", "15"), ("+1.5", "1.5"), ("007", "7"), (".5", "0.5"), ("5.", "5")] {
            assert_eq!(Seconds::from_text(text).unwrap().to_string(), number);
        }
        for text in ["", "soon", "NaN", "inf", "0x10", "1 2", "+1e400"] {
            assert_eq!(Seconds::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn nonsense_is_clamped() {
        let millis = |text| Seconds::from_text(text).unwrap().to_millis();
        assert_eq!(millis("-3"), Millis::ZERO);
        assert_eq!(millis("1e400"), Millis::new(u64::MAX));
        assert_eq!(millis("0.0001"), Millis::new(1));
    }
}
