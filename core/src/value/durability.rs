//! How sure a push must be before it returns: what the user says, and its one spelling in every language.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use crate::value::error::Error;

/// How sure a push must be before it returns. Each step costs time on every push.
///
/// Written as `none`, `wait:<n>` and `fsync`, the same in every language. A confirmation is waited for as long as one
/// attempt of a call may take ([`ClientBuilder::command_timeout`](crate::ClientBuilder::command_timeout), 5 s), and no longer
/// than the [`deadline`](crate::ClientBuilder::deadline).
///
/// Neither is consensus: a replica that confirmed may still not be the one that a failover picks.
///
/// ```
/// use duly::Durability;
///
/// assert_eq!("wait:2".parse::<Durability>()?, Durability::Replicas { count: 2 });
/// assert_eq!(Durability::Fsync.to_string(), "fsync");
/// # Ok::<(), duly::Error>(())
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// `none`: the server has it in memory; its own persistence settings decide when it is on a disk.
    #[default]
    None,
    /// `wait:<n>`: at least `count` replicas have it too (`WAIT`), or [`NotDurable`](crate::ErrorKind::NotDurable). The job
    /// is stored nevertheless.
    Replicas {
        /// How many replicas must confirm; 1 at least.
        count: u32,
    },
    /// `fsync`: the server's append-only file has it on disk (`WAITAOF`, Redis or Valkey 7.2 and later), or
    /// [`NotDurable`](crate::ErrorKind::NotDurable). Older servers, and servers without an append-only file, are refused with
    /// [`Unsupported`](crate::ErrorKind::Unsupported) before anything is pushed.
    Fsync,
}

impl FromStr for Durability {
    type Err = Error;

    /// Errors: `InvalidArgument`.
    fn from_str(word: &str) -> Result<Self, Error> {
        let replicas = |count: &str| count.parse().ok().filter(|&count| count > 0);
        match word {
            "none" => Ok(Self::None),
            "fsync" => Ok(Self::Fsync),
            _ => word.strip_prefix("wait:").and_then(replicas).map(|count| Self::Replicas { count }).ok_or_else(|| {
                Error::invalid("durability must be 'none', 'fsync', or 'wait:<n>' such as 'wait:2' for two replicas")
            }),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Replicas { count } => write!(f, "wait:{count}"),
            Self::Fsync => f.write_str("fsync"),
        }
    }
}

/// Why what a call has stored is not known to be as safe as it was to be; empty where it is, or where nobody asked.
#[derive(Debug, Default)]
pub(crate) struct Doubt(Mutex<Option<Box<Error>>>);

impl Doubt {
    pub(crate) fn set(&self, error: Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(error));
    }

    pub(crate) fn take(&self) -> Option<Box<Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What was not confirmed in one of several calls that are made one behind the other. Who asks for as much, or more, need not wait as long in vain.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed(Mutex<Vec<(Durability, Box<Error>)>>);

impl Unconfirmed {
    pub(crate) fn note(&self, asked: Durability, error: Box<Error>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((asked, error));
    }

    /// Why a call that asks for this would not be confirmed, either.
    pub(crate) fn why(&self, asked: Durability) -> Option<Box<Error>> {
        if asked == Durability::None {
            return None;
        }
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(before, _)| asked.is_as_strict_as(*before)).map(|(_, error)| error.clone())
    }
}

impl Durability {
    fn is_as_strict_as(self, other: Self) -> bool {
        match (self, other) {
            (Self::Replicas { count }, Self::Replicas { count: others }) => count >= others,
            _ => self == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_three_words() {
        for word in ["none", "wait:1", "wait:4294967295", "fsync"] {
            assert_eq!(word.parse::<Durability>().unwrap().to_string(), word);
        }
        for word in ["", "None", "wait", "wait:", "wait:0", "wait:-1", "wait:two", "wait:4294967296", "fsync:1", "disk"]
        {
            let error = word.parse::<Durability>().expect_err(word);
            assert!(error.to_string().contains("'wait:<n>'"), "{error}");
        }
    }
}
