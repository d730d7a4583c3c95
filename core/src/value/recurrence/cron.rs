//! Cron patterns in a time zone.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;

use super::zone::{earliest_local, millis, moment_of, shortened, shown, timestamp, zone};
use crate::value::error::Error;
use crate::value::time::Millis;

/// Longer ones were not written by people.
const LONGEST: usize = 256;

/// What the parser says may repeat parts of the pattern.
const LONGEST_REASON: usize = 400;

/// The fields of a pattern with seconds, and the first and last of their values.
const FIELDS: [(&str, u32, u32); 6] = [
    ("seconds", 0, 59),
    ("minutes", 0, 59),
    ("hours", 0, 23),
    ("days of the month", 1, 31),
    ("months", 1, 12),
    ("weekdays", 0, 6),
];

/// A cron pattern in a time zone.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// As it is kept: upper case, one space between fields; or a word such as `@daily`.
    text: String,
    zone_name: String,
    cron: Cron,
    zone: TimeZone,
    is_fixed: bool,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.zone_name) == (&other.text, &other.zone_name)
    }
}

impl Eq for Pattern {}

impl Pattern {
    pub(super) fn new(pattern: &str, zone_name: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::invalid(format!(
                "'{}' is no cron pattern ({why}): give five fields (minute, hour, day, month, weekday), six with seconds in front, or a word such as '@daily'",
                shown(pattern)
            ))
        };
        if pattern.len() > LONGEST {
            return Err(wrong("it is too long"));
        }
        let fields: Vec<&str> = pattern.split_whitespace().collect();
        let joined = fields.join(" ");
        let text = match joined.to_ascii_lowercase() {
            // The parser has no such word, and neither have earlier versions.
            midnight if midnight == "@midnight" => "@daily".to_owned(),
            word if word.starts_with('@') => word,
            _ => joined.to_ascii_uppercase(),
        };
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(&text).map_err(|error| wrong(&shortened(&error.to_string(), LONGEST_REASON)))?;
        // The parser passes over an empty item, and who asked for the next time of a field without any would wait for minutes.
        let read = &cron.pattern;
        let has_empty_item = fields.iter().any(|field| field.split(',').any(str::is_empty));
        if has_empty_item
            || [&read.seconds, &read.minutes, &read.hours, &read.months].iter().any(|field| field.values().is_empty())
        {
            return Err(wrong("a field, or an item of a list, is empty"));
        }
        let (zone, zone_name) = zone(zone_name)?;
        let is_fixed = has_fixed_times(&text);
        Ok(Self { text, zone_name, cron, zone, is_fixed })
    }

    /// Errors: `InvalidArgument` for a step with which a field only ever has its first value: it is a slip, such as minutes of which
    /// there are more than an hour has. What was stored by earlier versions may have such a step.
    pub(super) fn check_steps(&self) -> Result<(), Error> {
        let fields: Vec<&str> = self.text.split(' ').filter(|field| !field.starts_with('@')).collect();
        let named = FIELDS.iter().skip(FIELDS.len().saturating_sub(fields.len()));
        for (field, (name, first, last)) in fields.iter().zip(named) {
            let steps = field.split(',').filter_map(|item| item.split_once('/')?.1.parse::<u32>().ok());
            if let Some(step) = steps.into_iter().find(|&step| step > last - first + 1) {
                return Err(Error::invalid(format!(
                    "'{}' is no cron pattern: a step of {step} is larger than the field of {name} ({first} to {last})",
                    shown(&self.text)
                )));
            }
        }
        Ok(())
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn zone(&self) -> &str {
        &self.zone_name
    }

    /// Fixed times run once on each day: those that a clock leaves out at the first moment behind, those that it shows twice at the
    /// first of both. All others follow the clock, as Vixie cron has it.
    pub(super) fn next_after(&self, moment: Millis) -> Option<Millis> {
        let at = timestamp(moment)?;
        if !self.is_fixed {
            let next = self.cron.find_next_occurrence(&at.to_zoned(self.zone.clone()), false).ok()?;
            return millis(next.timestamp());
        }
        let mut local = earliest_local(&self.zone, at)?;
        loop {
            local = self.cron.find_next_occurrence(&local, false).ok()?;
            let next = moment_of(&self.zone, local)?;
            if next > at {
                return millis(next);
            }
        }
    }
}

/// Does it name times of the day, and no steps, ranges or all of a field?
fn has_fixed_times(text: &str) -> bool {
    if text.starts_with('@') {
        return ["@yearly", "@annually", "@monthly", "@weekly", "@daily"].contains(&text);
    }
    let fields: Vec<&str> = text.split(' ').collect();
    let of_day = fields.len().saturating_sub(3);
    fields.iter().take(of_day).all(|field| field.bytes().all(|byte| byte.is_ascii_digit() || byte == b','))
}
