//! `progress.lua` and `progress_of.lua`: how far runs have come.

use redis::Value;

use super::declare::{Digits, JobKeys, script};
use super::reply::{array, utf8};
use crate::value::error::Error;

script! {
    /// Notes it of one run. Items: the job's id.
    NoteProgress = "progress",
    keys: [Meta, Leases, Progress],
    arguments: { token: Digits, fraction: String, text: String, progress_count: JobKeys }
}

script! {
    /// What is noted of jobs that run. Items: ids.
    ProgressOf = "progress_of",
    keys: [Leases, Progress],
    arguments: { progress_count: JobKeys }
}

/// What is noted of each job, empty for nothing.
pub(crate) fn noted(reply: Value) -> Result<Vec<String>, Error> {
    array(reply)?.into_iter().map(utf8).collect()
}
