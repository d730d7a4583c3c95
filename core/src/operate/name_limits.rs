//! Limits of single job names: how many jobs of a name may run at once and start in a time, over all processes and languages.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::operate::limits::MAX_CONCURRENCY;
use crate::script::{CountsReply, FoundReply};
use crate::value::error::Error;
use crate::value::name;
use crate::value::rate::Rate;

/// The most names of a queue that may have limits.
pub const MAX_LIMITED_NAMES: usize = 100;

/// The limits of the jobs of one name.
///
/// ```
/// use std::time::Duration;
///
/// let of_name = duly::NameLimits::new().concurrency(5).rate(100, Duration::from_secs(60));
/// let limits = duly::Limits::new().name("mail.send", of_name);
/// assert_eq!(limits.names["mail.send"].concurrency, Some(5));
/// assert_eq!(limits.names["mail.send"].rate.unwrap().jobs, 100);
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameLimits {
    /// The most jobs of this name that are reserved at once, in all workers together.
    pub concurrency: Option<u32>,
    /// How many jobs of this name are reserved in a time, as [`Limits::rate`](crate::Limits) says it of a queue.
    pub rate: Option<Rate>,
}

impl NameLimits {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many jobs of the name reserved at once.
    #[must_use]
    pub fn concurrency(mut self, most: u32) -> Self {
        self.concurrency = Some(most);
        self
    }

    /// At most this many jobs of the name start in this time.
    #[must_use]
    pub fn rate(mut self, jobs: u32, per: Duration) -> Self {
        self.rate = Some(Rate { jobs, per });
        self
    }

    fn check(&self, name: &str) -> Result<(), Error> {
        if self.concurrency.is_none() && self.rate.is_none() {
            return Err(Error::invalid(format!(
                "the limits of a name are a concurrency, a rate or both: leave out the name '{name}' to give it none"
            )));
        }
        if self.concurrency.is_some_and(|most| most == 0 || most > MAX_CONCURRENCY) {
            return Err(Error::invalid(format!(
                "the concurrency of a name is 1 to {MAX_CONCURRENCY} jobs: leave out the name '{name}' to give it none"
            )));
        }
        let named = |flaw| Error::invalid(format!("the limits of the name '{name}': {flaw}"));
        self.rate.map_or(Ok(()), Rate::check).map_err(named)
    }

    /// `<concurrency>`, or `<concurrency>:<jobs>:<microseconds>`; 0 for no concurrency.
    fn written(&self) -> String {
        let most = self.concurrency.unwrap_or(0);
        self.rate.map_or_else(|| most.to_string(), |rate| format!("{most}:{}:{}", rate.jobs, rate.per.as_micros()))
    }

    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split(':').map(|number| number.parse::<u64>().ok());
        let concurrency = u32::try_from(numbers.next()??).ok()?;
        let rate = match (numbers.next(), numbers.next(), numbers.next()) {
            (None, _, _) => None,
            (Some(jobs), Some(per_us), None) => Rate::read(jobs?, per_us?),
            _ => return None,
        };
        Some(Self { concurrency: Some(concurrency).filter(|&most| most > 0), rate })
    }
}

pub(crate) fn check(names: &BTreeMap<String, NameLimits>) -> Result<(), Error> {
    if names.len() > MAX_LIMITED_NAMES {
        return Err(Error::invalid(format!("at most {MAX_LIMITED_NAMES} names of a queue have limits")));
    }
    for (name, limits) in names {
        name::check_handler(name)?;
        limits.check(name)?;
    }
    Ok(())
}

/// As the script takes them: (name, limits) each.
pub(crate) fn items(names: &BTreeMap<String, NameLimits>) -> impl Iterator<Item = (&str, String)> + Clone {
    names.iter().map(|(name, limits)| (name.as_str(), limits.written()))
}

/// A line of `meta.names`.
struct Line<'a> {
    number: u64,
    /// None: they were taken away, and the line is kept until the last job is gone.
    limits: NameLimits,
    name: &'a str,
}

/// A name may have semicolons, what is before it has none of its own.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.split('\n').filter_map(|line| {
        let mut parts = line.splitn(3, ';');
        let (number, limits, name) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Line { number: number.parse().ok()?, limits: NameLimits::read(limits)?, name })
    })
}

pub(crate) fn read(text: &str) -> BTreeMap<String, NameLimits> {
    let limited = lines(text).filter(|line| line.limits != NameLimits::new());
    limited.map(|line| (line.name.to_owned(), line.limits)).collect()
}

/// Which names hold jobs back just now, as a sentence.
pub(crate) fn all_held_back(reply: &CountsReply) -> Option<String> {
    let looked = lines(&reply.names).zip(reply.name_counts.iter().zip(&reply.name_rates));
    let held = looked.filter_map(|(line, (&count, seen))| line.held_back(count, seen, reply.now));
    Some(held.collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
}

/// The same of the name of one job.
pub(crate) fn held_back(found: &FoundReply) -> Option<String> {
    let (number, count) = found.name_count?;
    lines(&found.names).find(|line| line.number == number)?.held_back(count, &found.name_rate, found.now)
}

impl Line<'_> {
    /// `count` jobs of the name have a place, and its rate has seen `seen`.
    fn held_back(&self, count: i64, seen: &str, now_ms: i64) -> Option<String> {
        let name = self.name;
        if let Some(most) = self.limits.concurrency.filter(|&most| count >= i64::from(most)) {
            return Some(format!("the concurrency limit of {most} of the name '{name}' is reached"));
        }
        let left = self.limits.rate?.next_start_in(seen, now_ms)?;
        Some(format!("the rate limit of the name '{name}' lets its next job start in {left} s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;

    #[test]
    fn limits_of_names_come_back_and_those_taken_away_do_not() {
        let second = Duration::from_secs(1);
        let read = read("1;5;mail.send\n2;0;gone\n7;1;a;b\n3;0;\n4;0:7:1000000;rated\n5;2:7:1000000;3:4;both");
        assert_eq!(read.keys().collect::<Vec<_>>(), ["3:4;both", "a;b", "mail.send", "rated"]);
        assert_eq!(read["mail.send"], NameLimits::new().concurrency(5));
        assert_eq!(read["rated"], NameLimits::new().rate(7, second));
        assert_eq!(read["3:4;both"], NameLimits::new().concurrency(2).rate(7, second));
        for limits in read.values() {
            assert_eq!(NameLimits::read(&limits.written()).as_ref(), Some(limits));
        }
        for foreign in ["?", "", "x;1;a", "1;x;a", "1;2", "1;2:3;a", "1;2:3:4:5;a", "1;2:x:4;a", "1;:3:4;a"] {
            assert!(super::read(foreign).is_empty(), "{foreign}");
        }
    }

    #[test]
    fn it_is_said_which_names_hold_jobs_back() {
        let all = |text: &str, counts: &[i64], seen: &[&str]| {
            let said = lines(text).zip(counts.iter().zip(seen));
            said.filter_map(|(line, (&count, seen))| line.held_back(count, seen, 10_000)).collect::<Vec<_>>()
        };
        let text = "1;5;mail.send\n2;0;gone\n7;1;other";
        assert!(all(text, &[4, 9, 0], &["", "", ""]).is_empty());
        let said = all(text, &[5, 9, 1], &["", "", ""]);
        assert_eq!(said.iter().filter(|said| said.ends_with("is reached")).count(), 2, "{said:?}");
        // Two a second, and both have started at 10 s.
        let said = all("1;0:2:1000000;mail\n2;3:2:1000000;sms", &[9, 3], &["11000000;0", "11000000;0"]);
        assert_eq!(said[0], "the rate limit of the name 'mail' lets its next job start in 0.5 s");
        assert_eq!(said[1], "the concurrency limit of 3 of the name 'sms' is reached");
    }

    #[test]
    fn limits_of_names_that_make_no_sense_are_refused() {
        let five = NameLimits::new().concurrency(5);
        let many = (0..=MAX_LIMITED_NAMES).map(|number| (number.to_string(), five.clone())).collect();
        let one = |name: &str, limits: NameLimits| BTreeMap::from([(name.to_owned(), limits)]);
        let wrong = [
            one("", five.clone()),
            one("a\nb", five.clone()),
            one("a", NameLimits::new()),
            one("a", NameLimits::new().concurrency(0)),
            one("a", NameLimits::new().concurrency(MAX_CONCURRENCY + 1)),
            one("a", five.clone().rate(0, Duration::from_secs(1))),
            one("a", NameLimits::new().rate(1_000_000, Duration::from_secs(24 * 3600))),
            many,
        ];
        for names in wrong {
            assert_eq!(check(&names).unwrap_err().kind(), ErrorKind::InvalidArgument, "{names:?}");
        }
        assert!(check(&one("a", five.rate(1, Duration::from_secs(1)))).is_ok());
    }
}
