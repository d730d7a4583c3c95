//! Failed jobs in groups: those of one name that failed in the same way.

use std::collections::HashMap;

use crate::operate::search::{Cursor, Filter, error_of};
use crate::queue::Queue;
use crate::value::error::Error;
use crate::value::state::State;
use crate::value::time::Millis;

/// The most groups. If there are more, the smaller half is dropped, and its jobs count as [`FailureGroups::others`].
pub const MAX_FAILURE_GROUPS: usize = 10_000;

/// The most characters of a kind.
const MAX_KIND: usize = 120;

/// Failed jobs of one name that failed in the same way.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup {
    /// The name of the jobs.
    pub name: Option<String>,
    /// How they failed: class, file and line, as `ConnectionError at /srv/shop/mail.py:11 in send`. Without a class, the first line of the
    /// message, with `#` for each number. It is what [`Filter::group`](crate::Filter::group) takes.
    pub kind: String,
    /// How many jobs.
    pub count: u64,
    /// When the first of them failed, by the server's clock.
    pub first: Millis,
    /// When the last of them failed.
    pub last: Millis,
    /// The id of that one.
    pub id: String,
    /// Its error.
    pub error: String,
}

/// The failed jobs of a queue in groups.
///
/// ```no_run
/// # async fn doc(mails: duly::Queue) -> Result<(), duly::Error> {
/// let mut groups = mails.failure_groups();
/// while groups.look().await? {}
/// for group in groups.largest() {
///     println!("{} times: {}", group.count, group.kind);
/// }
/// # Ok(())
/// # }
/// ```
pub struct FailureGroups {
    queue: Queue,
    at: Option<Cursor>,
    looked_at: u64,
    groups: HashMap<(Option<String>, String), FailureGroup>,
    others: u64,
}

impl Queue {
    /// The failed jobs in groups, none of which is looked at yet: [`FailureGroups::look`] does that.
    pub fn failure_groups(&self) -> FailureGroups {
        FailureGroups {
            queue: self.clone(),
            at: Some(Cursor::default()),
            looked_at: 0,
            groups: HashMap::new(),
            others: 0,
        }
    }
}

impl FailureGroups {
    /// Looks at the next 500 failed jobs. Says whether there are more to look at.
    pub async fn look(&mut self) -> Result<bool, Error> {
        let Some(at) = &self.at else { return Ok(false) };
        let step = self.queue.search_on(State::Failed, &Filter::new(), at, usize::MAX >> 16, true).await?;
        self.looked_at += step.looked_at;
        self.at = step.next;
        for job in step.found {
            let at = Millis::new(job.score.and_then(|at| u64::try_from(at).ok()).unwrap_or(0));
            let error = error_of(&job);
            // Brief: the name, in place of the record.
            let name = String::from_utf8_lossy(&job.record).into_owned();
            let key = ((!name.is_empty()).then_some(name), kind_of(&error));
            if self.groups.len() >= MAX_FAILURE_GROUPS && !self.groups.contains_key(&key) {
                self.drop_small_ones();
            }
            let new = || FailureGroup {
                name: key.0.clone(),
                kind: key.1.clone(),
                count: 0,
                first: at,
                last: at,
                id: String::new(),
                error: String::new(),
            };
            let group = self.groups.entry(key.clone()).or_insert_with(new);
            group.count += 1;
            group.first = group.first.min(at);
            if at >= group.last {
                (group.last, group.id, group.error) = (at, job.id, error);
            }
        }
        Ok(self.at.is_some())
    }

    /// Drops the smaller half, so that a large group that comes later has room.
    fn drop_small_ones(&mut self) {
        let mut counts: Vec<_> = self.groups.values().map(|group| group.count).collect();
        counts.sort_unstable();
        let (limit, mut left) = (counts[counts.len() / 2], counts.len() / 2);
        let others = &mut self.others;
        self.groups.retain(|_, group| {
            let goes = group.count <= limit && left > 0;
            if goes {
                left -= 1;
                *others += group.count;
            }
            !goes
        });
    }

    /// How many failed jobs were looked at.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// How many are in none of the groups: there were more than [`MAX_FAILURE_GROUPS`], and these were in small ones.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The groups, the largest first, and of equal ones the one that failed last.
    pub fn largest(self) -> Vec<FailureGroup> {
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.sort_by(|one, other| (other.count, other.last, &one.kind).cmp(&(one.count, one.last, &other.kind)));
        groups
    }
}

impl std::fmt::Debug for FailureGroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FailureGroups").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

/// How a job failed, without what differs between jobs: class, file and line of the error itself, not of its causes.
pub(crate) fn kind_of(error: &str) -> String {
    // As Python and PHP write them; Rust's errors have neither class nor line.
    let own = error.split("\ncaused by ").next().unwrap_or_default();
    let own = own.split("; caused by ").next().unwrap_or_default();
    let head = own.lines().next().unwrap_or_default();
    let (head, location) = match head.rsplit_once(" at ").filter(|(_, location)| ends_in_line(location)) {
        Some((head, location)) => (head, Some(location)),
        None => (head, own.lines().skip(1).find_map(|line| line.trim_start().strip_prefix("at "))),
    };
    let first = head.split(": ").next().unwrap_or_default();
    let kind = if is_class(first) && (first.len() < head.len() || location.is_some()) {
        first.to_owned()
    } else {
        without_numbers(head)
    };
    let kind = match location {
        Some(location) => format!("{kind} at {location}"),
        None => kind,
    };
    // It is copied from tables and forms: no control characters, and no more spaces than one.
    let printable: String = kind.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let kind = printable.split_whitespace().collect::<Vec<_>>().join(" ");
    match kind.char_indices().nth(MAX_KIND) {
        _ if kind.is_empty() => "no error text".to_owned(),
        Some((end, _)) => format!("{}…", kind[..end].trim_end()),
        None => kind,
    }
}

fn ends_in_line(location: &str) -> bool {
    let is_line = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    location
        .rsplit_once(':')
        .is_some_and(|(file, line)| is_line(line) && file.contains(|char: char| char.is_alphabetic()))
}

/// Could it be the name of a class of Python or PHP?
fn is_class(word: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.' | '\\' | ':' | '@');
    word.starts_with(|char: char| char.is_alphabetic() || char == '_' || char == '\\') && word.chars().all(is_part)
}

/// With `#` for each number, and for each id in hexadecimal.
fn without_numbers(message: &str) -> String {
    const ID: usize = 8;
    let mut kind = String::new();
    let mut at = 0;
    // What could be an id is looked at once: where it ends, what is behind its last digit, and whether a word ends with it.
    let (mut end, mut behind_digits, mut ends_word) = (0, 0, false);
    while let Some(first) = message[at..].chars().next() {
        if at >= end {
            let rest = &message[at..];
            let length = rest.find(|char: char| !char.is_ascii_hexdigit() && char != '-').unwrap_or(rest.len());
            end = at + length;
            behind_digits = rest[..length].rfind(|char: char| char.is_ascii_digit()).map_or(at, |digit| at + digit + 1);
            ends_word = !rest[length..].starts_with(|char: char| char.is_alphanumeric());
        }
        let begins_word = !kind.ends_with(|char: char| char.is_alphanumeric());
        if begins_word && ends_word && end - at >= ID && at < behind_digits {
            kind.push('#');
            at = end;
            continue;
        }
        match first {
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            _ => kind.push(first),
        }
        at += first.len_utf8();
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn what_differs_between_jobs_is_no_part_of_a_kind() {
        for (error, kind) in [
            (
                "ConnectionError: smtp: refused 42\n  at /srv/mail.py:2 in inner\n  at /srv/mail.py:5 in send",
                "ConnectionError at /srv/mail.py:2 in inner",
            ),
            (
                "ValueError: two\nlines\n  at /srv/a.py:9 in f\ncaused by KeyError: 'a'\n  at /srv/b.py:1 in g",
                "ValueError at /srv/a.py:9 in f",
            ),
            ("KeyError: 'a'", "KeyError"),
            ("App\\NoMail: order 42 has none at /srv/app/Mail.php:17", "App\\NoMail at /srv/app/Mail.php:17"),
            (
                "App\\NoMail at /srv/app/Mail.php:17; caused by PDOException: gone at /srv/app/Db.php:3",
                "App\\NoMail at /srv/app/Mail.php:17",
            ),
            ("no order 42 of shop 7", "no order # of shop #"),
            (
                "lease ended: the worker died, hung or lost the server",
                "lease ended: the worker died, hung or lost the server",
            ),
            ("meet me at 12:30", "meet me at #:#"),
            ("timeout", "timeout"),
            ("no user 9f86d081884c7d65 here", "no user # here"),
            ("no user 123e4567-e89b-12d3-a456-426614174000", "no user #"),
            ("a decade of dead beef", "a decade of dead beef"),
            ("  two\ttabs\0", "two tabs"),
            ("", "no error text"),
        ] {
            assert_eq!(kind_of(error), kind, "{error}");
        }
        assert_eq!(kind_of(&"ü".repeat(4000)).chars().count(), 121);
    }

    /// It would take minutes otherwise.
    #[test]
    fn a_kind_takes_no_longer_to_find_in_one_long_word() {
        for word in ["-", "a", "a-", "-a", "1-", "12345678g", "ffffffff-1234567z"] {
            let message = word.repeat(1_000_000 / word.len());
            assert!(kind_of(&message).chars().count() <= 121);
            assert!(kind_of(&format!("{message}z")).chars().count() <= 121);
        }
    }
}
