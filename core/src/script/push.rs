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
    reply: Stored;

    /// Stores new jobs whose ids are the user's or that have keys; `if_full`: all of them or none, or those that fit. `came_back` is what
    /// is kept beside the record, or empty. `result_count`: those of all jobs if one of them has an id that was given, else none.
    PushUnique = "push_unique",
    kind: Numbered in shapes,
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, History, Ready, Result],
    arguments: { if_duplicate: IfDuplicate, if_full: IfFull, result_count: JobKeys },
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

/// What to do when not all jobs of a call fit into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfFull {
    /// None is stored.
    Refuse,
    /// Those that fit are stored, in their order.
    Fill,
}

impl Argument for IfFull {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        out.push(match self {
            Self::Refuse => b"refuse",
            Self::Fill => b"fill",
        });
    }
}

/// What became of all jobs of a [`Push`] together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    All,
    None(Full),
}

impl FromReply for Stored {
    fn decode(reply: Value) -> Result<Self, Error> {
        let reply = text(reply)?;
        match Full::read(&reply)? {
            Some(full) => Ok(Self::None(full)),
            None if reply == "created" => Ok(Self::All),
            None => Err(unexpected("what became of pushed jobs")),
        }
    }
}

/// The queue takes so many jobs at the most, and had room for so many of a call's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    most: u64,
    pub(crate) room: usize,
}

impl Full {
    /// Of a call of which nothing was stored.
    fn read(reply: &str) -> Result<Option<Self>, Error> {
        let Some(numbers) = reply.strip_prefix("queue_full ") else { return Ok(None) };
        let read = |(most, room): (&str, &str)| Some(Self { most: most.parse().ok()?, room: room.parse().ok()? });
        numbers.split_once(' ').and_then(read).map(Some).ok_or_else(|| unexpected("how full the queue is"))
    }

    pub(crate) fn error(self) -> Error {
        let Self { most, room } = self;
        Error::new(
            ErrorKind::QueueFull,
            format!(
                "the queue takes {most} jobs at the most (max_length) and had room for {room}: nothing was stored; push again when \
                 workers have caught up, or set another limit"
            ),
        )
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
        if let Some(full) = Full::read(&text)? {
            return Err(full.error());
        }
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
    /// It is not stored: it did not fit.
    Full(Full),
}

impl PushReply {
    fn decode_line(line: &str) -> Result<Self, Error> {
        match line.split_once(' ') {
            None if line == "created" => Ok(Self::Created),
            Some(("duplicate", id)) => Ok(Self::Duplicate(id.to_owned())),
            Some(("kept", id)) => Ok(Self::Kept(id.to_owned())),
            Some(("replaced", id)) => Ok(Self::Replaced(id.to_owned())),
            Some(("full", most)) => {
                let most = most.parse().map_err(|_| unexpected("how full the queue is"))?;
                Ok(Self::Full(Full { most, room: 0 }))
            }
            _ => Err(unexpected("what became of a pushed job")),
        }
    }
}
