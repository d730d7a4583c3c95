//! The few plain commands that are sent beside the scripts: looks by pages, wake-ups, a PING, and what is asked of the server itself.

use std::collections::BTreeMap;

use redis::{Cmd, Value, cmd};

use super::keys::{Key, QueueKeys};
use super::reply::{array, lossy, number, unexpected};
use crate::value::error::Error;
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

/// The same of the queue of this name without partitions, and of the one with partitions; see `said_of_queues`.
pub(crate) fn uses_of_queues(keys: &QueueKeys, listed: [&str; 2]) -> Command {
    let mut command = cmd("HMGET");
    command.arg(keys.spell(Key::QueuesUsed)).arg(&listed);
    command
}

/// The answer: nothing for one that is not listed.
pub(crate) fn said_of_queues(reply: Reply) -> Option<[Option<String>; 2]> {
    let Reply::Array(said) = reply else { return None };
    <[Reply; 2]>::try_from(said).ok().map(|said| said.map(|said| lossy(said).ok()))
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

/// Jobs that failed from then on and until then, the first to fail first; see `with_times`.
pub(crate) fn failed_page(keys: &QueueKeys, from: i64, by: i64, count: usize) -> Command {
    let mut command = cmd("ZRANGEBYSCORE");
    command.arg(keys.spell(Key::Failed)).arg(from).arg(by).arg("WITHSCORES").arg("LIMIT").arg(0).arg(count);
    command
}

/// The last job of one of the states that are in the order of a time; see `with_times`.
pub(crate) fn last_of(keys: &QueueKeys, state: Key) -> Command {
    let mut command = cmd("ZRANGE");
    command.arg(keys.spell(state)).arg(-1).arg(-1).arg("WITHSCORES");
    command
}

/// The answer: each with its time.
pub(crate) fn with_times(reply: Reply) -> Result<Vec<(Vec<u8>, i64)>, Error> {
    let members: Vec<(Vec<u8>, f64)> =
        redis::from_redis_value(reply).map_err(|_| unexpected("jobs with their times"))?;
    #[expect(clippy::cast_possible_truncation, reason = "a time in ms")]
    Ok(members.into_iter().map(|(id, at)| (id, at as i64)).collect())
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

/// What a server says of itself; see `server_info`.
pub(crate) fn info() -> Command {
    cmd("INFO")
}

/// What a node says of its cluster; see `server_info`.
pub(crate) fn cluster_info() -> Command {
    let mut command = cmd("CLUSTER");
    command.arg("INFO");
    command
}

/// The answer: fields and their values.
pub(crate) fn server_info(reply: Reply) -> Result<BTreeMap<String, String>, Error> {
    let field = |line: &str| line.trim_end().split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(lossy(reply)?.lines().filter_map(field).collect())
}

/// The setting of a server that has this name; see `server_setting`.
pub(crate) fn setting(name: &str) -> Command {
    let mut command = cmd("CONFIG");
    command.arg("GET").arg(name);
    command
}

/// The answer; nothing if the server knows no such setting.
pub(crate) fn server_setting(reply: Reply) -> Option<String> {
    let pairs: Vec<(String, String)> = redis::from_redis_value(reply).ok()?;
    pairs.into_iter().next().map(|(_, value)| value)
}

/// Which node of a cluster owns which slots; see `owners`.
pub(crate) fn cluster_slots() -> Command {
    let mut command = cmd("CLUSTER");
    command.arg("SLOTS");
    command
}

/// The answer: each owner's address, and one of its slots.
pub(crate) fn owners(reply: Reply) -> Result<BTreeMap<String, u16>, Error> {
    let unexpected = || super::unexpected("the slots of a cluster");
    let mut owners = BTreeMap::new();
    for range in array(reply)? {
        let mut range = array(range)?.into_iter();
        let (first, _last, owner) = (range.next(), range.next(), range.next().ok_or_else(unexpected)?);
        let mut owner = array(owner)?.into_iter();
        let (host, port) = (owner.next().ok_or_else(unexpected)?, owner.next().ok_or_else(unexpected)?);
        let first = number(first.ok_or_else(unexpected)?)?;
        let slot = u16::try_from(first).map_err(|_| unexpected())?;
        owners.entry(format!("{}:{}", lossy(host)?, number(port)?)).or_insert(slot);
    }
    Ok(owners)
}

/// How much memory a key takes, as five of its elements let guess; see `used_memory`.
pub(crate) fn memory_usage(spelled: &str) -> Command {
    let mut command = cmd("MEMORY");
    command.arg("USAGE").arg(spelled).arg("SAMPLES").arg(5);
    command
}

/// The answer: 0 if there is no such key.
pub(crate) fn used_memory(reply: Reply) -> u64 {
    redis::from_redis_value(reply).unwrap_or(0)
}

/// Tries two commands that the check of a new connection does not try, on a key that nobody has.
pub(crate) fn tries(spelled: &str) -> [Command; 2] {
    let (mut look, mut remove) = (cmd("ZRANGEBYLEX"), cmd("UNLINK"));
    look.arg(spelled).arg("-").arg("+").arg("LIMIT").arg(0).arg(1);
    remove.arg(spelled);
    [look, remove]
}

/// Moves the clock of a queue in tests.
pub(crate) fn set_clock(keys: &QueueKeys, now: Millis) -> Command {
    let mut command = cmd("HSET");
    command.arg(keys.spell(Key::Meta)).arg("clock").arg(now.get());
    command
}
