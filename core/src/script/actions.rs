//! `note_action.lua`, and reading what it has noted: the log of what operators do.

use redis::{Cmd, Value, cmd};

use super::declare::scripts;
use super::keys::{Key, QueueKeys};
use super::reply::{array, lossy};
use crate::value::error::Error;

scripts! {
    /// Puts an entry into the log of actions, which keeps the newest `most_actions`.
    NoteAction = "note_action",
    kind: Numbered,
    keys: [Call, Actions],
    arguments: { most_actions: usize, entry: String },
    reply: ();
}

/// The newest entries but the first `skip`, `count` at the most; see `noted_actions`.
pub(crate) fn actions(keys: &QueueKeys, skip: usize, count: usize) -> Cmd {
    let mut command = cmd("LRANGE");
    command.arg(keys.spell(Key::Actions)).arg(format!("-{}", skip + count)).arg(format!("-{}", skip + 1));
    command
}

/// The answer: entries, the oldest first.
pub(crate) fn noted_actions(reply: Value) -> Result<Vec<String>, Error> {
    array(reply)?.into_iter().map(lossy).collect()
}
