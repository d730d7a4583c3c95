//! What operators' verbs give: `Duly\Cancelled` and `Duly\Requeued`.

use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;

use crate::record::record;

record! {
    /// A job that is no more, and the state it was in.
    Cancelled = "Duly\\Cancelled" {
        /// The job's id.
        id: String,
        /// `delayed`, `ready`, `reserved` or `failed`.
        was: String,
    }
}

impl From<duly::Cancelled> for Cancelled {
    fn from(cancelled: duly::Cancelled) -> Self {
        Self { id: cancelled.id, was: cancelled.was.as_str().to_owned() }
    }
}

record! {
    /// What became of a failed job that was to go round again.
    Requeued = "Duly\\Requeued" {
        /// The job's id.
        id: String,
        /// `ready`, `duplicate` or `absent`.
        outcome: String,
        /// The job that holds the key now, of a duplicate.
        holder: Option<String>,
    }
}

impl Requeued {
    pub fn new(id: String, requeued: duly::Requeued) -> Self {
        let (outcome, holder) = match requeued {
            duly::Requeued::Ready => ("ready", None),
            duly::Requeued::Duplicate { id } => ("duplicate", Some(id)),
            _ => ("absent", None),
        };
        Self { id, outcome: outcome.to_owned(), holder }
    }
}
