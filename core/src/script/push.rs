//! `push.lua`: new jobs in.

use redis::Value;

use super::declare::{Digits, Due, Renewal, script};
use super::reply::{text, unexpected};
use crate::value::error::Error;

script! {
    /// Stores new jobs that have new ids and no keys, in one level, with one due time. Items: (id, record) each.
    Push = "push",
    keys: [Call, Meta, Jobs, Delayed, Wake, Stats, Ready],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal, level: Digits, due: Due }
}

script! {
    /// Stores new jobs whose ids are the user's or that have keys. Items: (id, record, due, what came back or '') each.
    PushUnique = "push_unique",
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, Ready],
    arguments: { call_slot: usize, call_number: Digits, call_renew: Renewal, if_duplicate: &'static str }
}

/// What to do when another job holds the id or the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfDuplicate {
    Refuse,
    Keep,
    Replace,
}

impl IfDuplicate {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Keep => "keep",
            Self::Replace => "replace",
        }
    }
}

/// One per job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushReply {
    Created,
    Duplicate(String),
    Kept(String),
    Replaced(String),
}

impl PushReply {
    /// The reply of `push`: all or none.
    pub(crate) fn decode_all(reply: Value, count: usize) -> Result<Vec<Self>, Error> {
        if text(reply)? == "created" {
            Ok(vec![Self::Created; count])
        } else {
            Err(unexpected("what became of pushed jobs"))
        }
    }

    /// The reply of `push_unique`: a line a job; and the ids of those that were replaced and for whose results somebody may wait.
    pub(crate) fn decode_each(reply: Value, count: usize) -> Result<(Vec<Self>, Vec<String>), Error> {
        let text = text(reply)?;
        let lines: Vec<&str> = text.split('\n').collect();
        let (jobs, awaited) = lines.split_at_checked(count).ok_or_else(|| unexpected("one line a pushed job"))?;
        let awaited = awaited.iter().map(|line| line.strip_prefix("awaited ").map(str::to_owned));
        let awaited = awaited.collect::<Option<_>>().ok_or_else(|| unexpected("who was replaced"))?;
        Ok((jobs.iter().map(|line| Self::decode_line(line)).collect::<Result<_, _>>()?, awaited))
    }

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
