//! `push.lua`: new jobs in.

use redis::Value;

use super::argument::{Argument, Digits, Due, JobKeys};
use super::call::ByteStrings;
use super::declare::scripts;
use super::reply::{FromReply, text, unexpected};
use crate::value::error::{Error, ErrorKind};

scripts! {
    /// Stores new jobs that have new ids and no keys, in one level, with one due time.
    Push = "push",
    kind: Numbered in shapes,
    keys: [Call, Meta, Jobs, Delayed, Failed, Wake, Stats, History, Ready],
    arguments: { level: Digits, due: Due },
    items: (id: &'a [u8], record: &'a [u8]),
    reply: Created;

    /// Stores new jobs whose ids are the user's or that have keys. `came_back` is what
    /// is kept beside the record, or empty. `result_count`: those of all jobs if one of them has an id that was given, else none.
    PushUnique = "push_unique",
    kind: Numbered in shapes,
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, History, Ready, Result],
    arguments: { if_duplicate: IfDuplicate, result_count: JobKeys },
    items: (id: &'a [u8], record: &'a [u8], due: Due, came_back: &'a [u8]),
    reply: PushUniqueReply;
}

/// What to do when another job holds the id or the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfDuplicate {
    Refuse,
    Keep,
    Replace,
}

impl Argument for IfDuplicate {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        out.push(match self {
            Self::Refuse => b"refuse",
            Self::Keep => b"keep",
            Self::Replace => b"replace",
        });
    }
}

/// All jobs of a [`Push`] are stored; else none is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Created;

impl FromReply for Created {
    fn decode(reply: Value) -> Result<Self, Error> {
        let reply = text(reply)?;
        refuse_full(&reply)?;
        if reply == "created" { Ok(Self) } else { Err(unexpected("what became of pushed jobs")) }
    }
}

/// The error of a push for which the queue has no room.
fn refuse_full(reply: &str) -> Result<(), Error> {
    match reply.strip_prefix("queue_full ") {
        None => Ok(()),
        Some(most) => Err(Error::new(
            ErrorKind::QueueFull,
            format!(
                "the queue takes {most} jobs at the most (max_length), and these do not fit: nothing was stored; push again when \
                 workers have caught up, or set another limit"
            ),
        )),
    }
}

/// What became of the jobs of a [`PushUnique`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PushUniqueReply {
    /// One per job.
    pub(crate) jobs: Vec<PushReply>,
    /// The jobs that were replaced and for whose results somebody may wait.
    pub(crate) awaited: Vec<String>,
}

impl FromReply for PushUniqueReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        refuse_full(&text)?;
        let (mut jobs, mut awaited) = (Vec::new(), Vec::new());
        for line in text.split('\n') {
            match line.strip_prefix("awaited ") {
                Some(id) => awaited.push(id.to_owned()),
                None if awaited.is_empty() => jobs.push(PushReply::decode_line(line)?),
                None => return Err(unexpected("who was replaced")),
            }
        }
        Ok(Self { jobs, awaited })
    }

    fn fits(&self, jobs: usize) -> bool {
        self.jobs.len() == jobs
    }
}

/// What became of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushReply {
    Created,
    Duplicate(String),
    Kept(String),
    Replaced(String),
}

impl PushReply {
    fn decode_line(line: &str) -> Result<Self, Error> {
        match line.split_once(' ') {
            None if line == "created" => Ok(Self::Created),
            Some(("duplicate", id)) => Ok(Self::Duplicate(id.to_owned())),
            Some(("kept", id)) => Ok(Self::Kept(id.to_owned())),
            Some(("replaced", id)) => Ok(Self::Replaced(id.to_owned())),
            _ => Err(unexpected("what became of a pushed job")),
        }
    }
}
