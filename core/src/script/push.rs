//! `push.lua`: new jobs in.

use redis::Value;

use super::declare::script;
use super::reply::{text, unexpected};
use crate::error::Error;

script! {
    /// Stores new jobs. Items: `count` times (id, record), then one due for all or one a job: `` now, `+ms`, `@ms`.
    Push = "push",
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Wake, Stats, Ready],
    arguments: { call_number: u64, if_held: &'static str, count: usize }
}

/// What to do when another job holds the id or the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfHeld {
    /// The ids are new and there are no keys: nothing to look up.
    Fresh,
    Refuse,
    Keep,
    Replace,
}

impl IfHeld {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
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
    pub(crate) fn decode(reply: Value, count: usize) -> Result<Vec<Self>, Error> {
        let text = text(reply)?;
        if text == "created" {
            return Ok(vec![Self::Created; count]);
        }
        let replies: Vec<Self> = text.split('\n').map(Self::decode_line).collect::<Result<_, _>>()?;
        if replies.len() == count { Ok(replies) } else { Err(unexpected("one line a pushed job")) }
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
