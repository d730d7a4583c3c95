//! Limits of single job names: how many jobs of a name may run at once, over all processes and languages.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::limits::MAX_CONCURRENCY;
use crate::name;
use crate::script::ByteStrings;

/// The most names of a queue that may have limits.
pub const MAX_LIMITED_NAMES: usize = 100;

/// The limits of the jobs of one name.
///
/// ```
/// let limits = duly::Limits::new().name("mail.send", duly::NameLimits::new().concurrency(5));
/// assert_eq!(limits.names["mail.send"].concurrency, Some(5));
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameLimits {
    /// The most jobs of this name that are reserved at once, in all workers together.
    pub concurrency: Option<u32>,
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
}

pub(crate) fn check(names: &BTreeMap<String, NameLimits>) -> Result<(), Error> {
    if names.len() > MAX_LIMITED_NAMES {
        return Err(Error::invalid(format!("at most {MAX_LIMITED_NAMES} names of a queue have limits")));
    }
    for (name, limits) in names {
        name::check_handler(name)?;
        if limits.concurrency.is_none_or(|most| most == 0 || most > MAX_CONCURRENCY) {
            return Err(Error::invalid(format!(
                "the limit of a name is a concurrency of 1 to {MAX_CONCURRENCY} jobs: leave out the name '{name}' to give it none"
            )));
        }
    }
    Ok(())
}

/// As the script takes them: (name, the most) each.
pub(crate) fn append(names: &BTreeMap<String, NameLimits>, out: &mut ByteStrings) {
    for (name, limits) in names {
        out.push(name.as_bytes());
        out.push_display(limits.concurrency.unwrap_or(0));
    }
}

/// A line of `meta.names`.
struct Line<'a> {
    number: u64,
    /// 0: the limit was taken away, and is kept until its last job is gone.
    most: u32,
    name: &'a str,
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.split('\n').filter_map(|line| {
        let mut parts = line.splitn(3, ';');
        let (number, most, name) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Line { number: number.parse().ok()?, most: most.parse().ok()?, name })
    })
}

pub(crate) fn read(text: &str) -> BTreeMap<String, NameLimits> {
    let limited = lines(text).filter(|line| line.most > 0);
    limited.map(|line| (line.name.to_owned(), NameLimits::new().concurrency(line.most))).collect()
}

/// Which names have as many jobs running as they may, as a sentence; `counts` are those of the lines, in their order.
pub(crate) fn all_held_back(text: &str, counts: &[i64]) -> Option<String> {
    let full = lines(text).zip(counts).filter_map(|(line, &count)| said(&line, count));
    Some(full.collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
}

/// The same of one name, by its number.
pub(crate) fn held_back(text: &str, (number, count): (u64, i64)) -> Option<String> {
    lines(text).find(|line| line.number == number).and_then(|line| said(&line, count))
}

fn said(line: &Line<'_>, count: i64) -> Option<String> {
    let is_full = line.most > 0 && count >= i64::from(line.most);
    is_full.then(|| format!("the concurrency limit of {} of the name '{}' is reached", line.most, line.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn limits_of_names_come_back_and_those_taken_away_do_not() {
        let read = read("1;5;mail.send\n2;0;gone\n7;1;a;b\n3;0;");
        assert_eq!(read.keys().collect::<Vec<_>>(), ["a;b", "mail.send"]);
        assert_eq!(read["mail.send"], NameLimits::new().concurrency(5));
        for foreign in ["?", "", "x;1;a", "1;x;a", "1;2"] {
            assert!(super::read(foreign).is_empty(), "{foreign}");
        }
    }

    #[test]
    fn it_is_said_which_names_are_full() {
        let text = "1;5;mail.send\n2;0;gone\n7;1;other";
        assert_eq!(all_held_back(text, &[4, 9, 0]), None);
        let said = all_held_back(text, &[5, 9, 1]).unwrap();
        assert_eq!(said.matches("is reached").count(), 2, "{said}");
        assert!(held_back(text, (7, 1)).unwrap().contains("limit of 1 of the name 'other'"));
        assert_eq!(held_back(text, (2, 9)), None);
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
            many,
        ];
        for names in wrong {
            assert_eq!(check(&names).unwrap_err().kind(), ErrorKind::InvalidArgument, "{names:?}");
        }
        assert!(check(&one("a", five)).is_ok());
    }
}
