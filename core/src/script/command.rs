//! The few plain commands that are sent beside the scripts: looks by pages, wake-ups, and a PING.

use redis::{Cmd, Value, cmd};

use super::keys::{Key, QueueKeys};
use super::reply::lossy;
use crate::value::time::Millis;

/// One of them.
pub(crate) type Command = Cmd;
/// What a server answers.
pub(crate) type Reply = Value;

pub(crate) fn ping() -> Command {
    cmd("PING")
}

/// The server's clock; see `server_time`.
pub(crate) fn time() -> Command {
    cmd("TIME")
}

/// The answer: seconds, and microseconds.
pub(crate) fn server_time(reply: Reply) -> Option<Millis> {
    let (seconds, us): (u64, u64) = redis::from_redis_value(reply).ok()?;
    Some(Millis::new(seconds * 1000 + us / 1000))
}

/// The type of a key; see `found_type`.
pub(crate) fn key_type(spelled: &str) -> Command {
    let mut command = cmd("TYPE");
    command.arg(spelled);
    command
}

/// The type that a key has, if there is such a key.
pub(crate) fn found_type(reply: Reply) -> Option<String> {
    lossy(reply).ok().filter(|found| found != "none")
}

/// What the list of queues says of one, as `unregister` takes it; see `said_of_queue`.
pub(crate) fn use_of_queue(keys: &QueueKeys, listed: &str) -> Command {
    let mut command = cmd("HGET");
    command.arg(keys.spell(Key::QueuesUsed)).arg(listed);
    command
}

/// The answer.
pub(crate) fn said_of_queue(reply: Reply) -> String {
    lossy(reply).unwrap_or_else(|_| "0 0".to_owned())
}

/// Wakes one waiter of the queue.
pub(crate) fn wake(keys: &QueueKeys) -> Command {
    let mut command = cmd("LPUSH");
    command.arg(keys.spell(Key::Wake)).arg("1");
    command
}

/// Ids of jobs that had failed by then, the first to fail first; see `byte_strings`.
pub(crate) fn failed_page(keys: &QueueKeys, offset: usize, count: usize, by: i64) -> Command {
    let mut command = cmd("ZRANGEBYSCORE");
    command.arg(keys.spell(Key::Failed)).arg("-inf").arg(by).arg("LIMIT").arg(offset).arg(count);
    command
}

/// The `count` entries of a ready list before the last `start`; see `byte_strings`.
pub(crate) fn ready_page(keys: &QueueKeys, level: u8, start: usize, count: usize) -> Command {
    let mut command = cmd("LRANGE");
    command.arg(keys.spell_ready(level)).arg(format!("-{}", start + count)).arg(format!("-{}", start + 1));
    command
}

/// The next page of a hash or sorted set; see `scanned`.
pub(crate) fn scan(keys: &QueueKeys, key: Key, cursor: &[u8], count: usize) -> Command {
    let mut command = cmd(if key.redis_type() == "zset" { "ZSCAN" } else { "HSCAN" });
    command.arg(keys.spell(key)).arg(cursor).arg("COUNT").arg(count);
    command
}

/// Moves the clock of a queue in tests.
pub(crate) fn set_clock(keys: &QueueKeys, now: Millis) -> Command {
    let mut command = cmd("HSET");
    command.arg(keys.spell(Key::Meta)).arg("clock").arg(now.get());
    command
}
