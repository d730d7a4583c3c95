//! When something recurs, as instants: by a cron pattern in a time zone, or at an interval from an anchor. Pure: it knows no clock.

mod cron;
mod zone;

use std::str::FromStr;

use self::cron::Pattern;
use crate::value::error::Error;
use crate::value::time::{MAX_DELAY, Millis};

/// When something recurs. Two of them are equal if they are written in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recurrence {
    /// A cron pattern in a time zone.
    Cron(Box<Pattern>),
    /// Every so many milliseconds, counted from the anchor in both directions.
    Every { every: Millis, anchor: Millis },
}

/// The shortest interval: jobs that come faster are a stream, and no schedule.
const SHORTEST: Millis = Millis::new(100);

impl Recurrence {
    /// Five or six fields, or a word such as `@daily`, in this zone. Errors: `InvalidArgument`.
    pub(crate) fn cron(pattern: &str, zone: &str) -> Result<Self, Error> {
        let pattern = Pattern::new(pattern, zone)?;
        pattern.check_steps()?;
        Ok(Self::Cron(Box::new(pattern)))
    }

    /// As it was stored: what an earlier version accepted goes on. Errors: `InvalidArgument`.
    pub(crate) fn stored_cron(pattern: &str, zone: &str) -> Result<Self, Error> {
        Pattern::new(pattern, zone).map(|pattern| Self::Cron(Box::new(pattern)))
    }

    /// Errors: `InvalidArgument` for an interval that is not 0.1 s to 100 years.
    pub(crate) fn every(every: Millis, anchor: Millis) -> Result<Self, Error> {
        if every < SHORTEST || every > MAX_DELAY {
            return Err(Error::invalid(format!(
                "the interval of a schedule is 0.1 s to 3153600000 s (100 years), not {every} s"
            )));
        }
        Ok(Self::Every { every, anchor })
    }

    /// The first slot behind this moment; none if there never is one.
    pub(crate) fn next_after(&self, moment: Millis) -> Option<Millis> {
        match self {
            Self::Cron(pattern) => pattern.next_after(moment),
            Self::Every { every, anchor } => {
                let (every, anchor, moment) =
                    (i128::from(every.get()), i128::from(anchor.get()), i128::from(moment.get()));
                let next = moment + every - (moment - anchor).rem_euclid(every);
                u64::try_from(next).ok().map(Millis::new)
            }
        }
    }

    /// The pattern and its zone.
    pub(crate) fn pattern(&self) -> Option<(&str, &str)> {
        match self {
            Self::Cron(pattern) => Some((pattern.text(), pattern.zone())),
            Self::Every { .. } => None,
        }
    }

    /// The interval and its anchor.
    pub(crate) fn interval(&self) -> Option<(Millis, Millis)> {
        match self {
            Self::Cron(_) => None,
            Self::Every { every, anchor } => Some((*every, *anchor)),
        }
    }
}

/// Decides which slots fire later if no worker was there.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// The newest of them fires.
    #[default]
    Latest,
    /// The newest of them fires, if it is not older than the schedule's grace.
    Skip,
    /// The newest of them fire, at most so many (1 to 100), oldest first.
    All(u32),
}

impl FromStr for CatchUp {
    type Err = Error;

    /// `latest`, `skip`, or a number from 1 to 100. Errors: `InvalidArgument`.
    fn from_str(word: &str) -> Result<Self, Error> {
        match (word, word.parse()) {
            ("latest", _) => Ok(Self::Latest),
            ("skip", _) => Ok(Self::Skip),
            (_, Ok(most)) if (1..=MOST_CAUGHT_UP).contains(&most) => Ok(Self::All(most)),
            _ => Err(Error::invalid(format!("catch_up is 'latest', 'skip', or a number from 1 to {MOST_CAUGHT_UP}"))),
        }
    }
}

impl std::fmt::Display for CatchUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Skip => f.write_str("skip"),
            Self::All(most) => most.fmt(f),
        }
    }
}

/// The most missed slots that fire.
const MOST_CAUGHT_UP: u32 = 100;

/// A moment as it is in the id of a job: `2026-11-23T03:00:00Z`.
pub(crate) fn written(moment: Millis) -> String {
    zone::timestamp(moment).map_or_else(|| moment.get().to_string(), |at| at.to_string())
}

/// How long behind its slot a schedule fires: less than `most`, the same for each program that asks, and spread evenly over names and
/// slots (FNV-1a, with the last step of `MurmurHash3`).
pub(crate) fn jitter(name: &str, slot: Millis, most: Millis) -> Millis {
    if most == Millis::ZERO {
        return Millis::ZERO;
    }
    let bytes = name.bytes().chain(slot.get().to_be_bytes());
    let mut hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    Millis::new((hash ^ (hash >> 33)) % most.get())
}

#[cfg(test)]
mod tests;
