//! `progress.lua` and `progress_of.lua`: how far runs have come.

use redis::Value;

use super::argument::{Digits, JobKeys};
use super::declare::scripts;
use super::reply::{FromReply, array, utf8};
use crate::value::error::Error;

scripts! {
    /// Notes it of one run.
    NoteProgress = "progress",
    kind: Plain,
    keys: [Meta, Leases, Progress],
    arguments: { token: Digits, fraction: String, text: String, progress_count: JobKeys },
    items: (id: &'a str),
    reply: Vec<bool>;

    /// What is noted of jobs that run.
    ProgressOf = "progress_of",
    kind: Reads,
    keys: [Leases, Progress],
    arguments: { progress_count: JobKeys },
    items: (id: &'a [u8]),
    reply: Vec<String>;
}

/// What is noted of each job, empty for nothing.
impl FromReply for Vec<String> {
    fn decode(reply: Value) -> Result<Self, Error> {
        array(reply)?.into_iter().map(utf8).collect()
    }
}
