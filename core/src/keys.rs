//! The Redis keys of a queue: the only place that spells them.
//!
//! All keys of a queue share one hash tag, so that every script is legal in a cluster, and all are passed in `KEYS`.

use crate::script::ByteStrings;

/// Priority levels, 0 first.
pub(crate) const LEVELS: usize = 10;

/// The keys that a queue has. `Ready` stands for one list per priority level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// hash: id -> record (the envelope).
    Jobs,
    /// sorted set: id (and level, unless it is the default) by due time in ms.
    Delayed,
    /// sorted set: id by the end of its lease in ms.
    Reserved,
    /// hash: id -> token, of the jobs in `reserved`.
    Leases,
    /// sorted set: id by the time it failed in ms.
    Failed,
    /// hash: id -> failures, times it came back, last error; only of jobs that came back.
    Returned,
    /// hash: business key -> id of the live job that holds it.
    Keys,
    /// hash: `<level>:<id>` -> how many of this id's entries at the head of that ready list no longer count.
    Stale,
    /// list: wake-ups for waiting workers, at most two.
    Wake,
    /// hash: format version, levels in use, pause, last token, timer, limits.
    Meta,
    /// hash: how many jobs were ever pushed, acked, retried, ...
    Stats,
    /// string with a lifetime: number and answer of the last call that came through one of a client's slots.
    Call,
    /// list per level: ids, the next one at the head.
    Ready,
}

impl Key {
    /// The name by which scripts know the key, and its last part in Redis.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Delayed => "delayed",
            Self::Reserved => "reserved",
            Self::Leases => "leases",
            Self::Failed => "failed",
            Self::Returned => "returned",
            Self::Keys => "keys",
            Self::Stale => "stale",
            Self::Wake => "wake",
            Self::Meta => "meta",
            Self::Stats => "stats",
            Self::Call => "call",
            Self::Ready => "ready",
        }
    }

    /// What `TYPE` says of the key when it exists.
    pub(crate) fn redis_type(self) -> &'static str {
        match self {
            Self::Delayed | Self::Reserved | Self::Failed => "zset",
            Self::Wake | Self::Ready => "list",
            Self::Call => "string",
            _ => "hash",
        }
    }
}

/// The spelled keys of one queue.
#[derive(Debug)]
pub(crate) struct QueueKeys {
    /// `<prefix>{<queue>}:`
    start: String,
    slot: u16,
}

impl QueueKeys {
    pub(crate) fn new(prefix: &str, queue: &str) -> Self {
        Self {
            start: format!("{prefix}{{{queue}}}:"),
            slot: crc16::State::<crc16::XMODEM>::calculate(queue.as_bytes()) % 16384,
        }
    }

    /// The cluster slot of all of them.
    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    pub(crate) fn spell(&self, key: Key) -> String {
        format!("{}{}", self.start, key.name())
    }

    pub(crate) fn spell_ready(&self, level: usize) -> String {
        format!("{}ready:{level}", self.start)
    }

    /// Appends the keys that a script declares, in its order; `Ready` becomes one key a level.
    pub(crate) fn append(&self, keys: &[Key], call_slot: &str, out: &mut ByteStrings) {
        let mut buffer = Vec::with_capacity(self.start.len() + 32);
        let mut push = |parts: &[&str]| {
            buffer.clear();
            buffer.extend_from_slice(self.start.as_bytes());
            parts.iter().for_each(|part| buffer.extend_from_slice(part.as_bytes()));
            out.push(&buffer);
        };
        for key in keys {
            match key {
                Key::Ready => {
                    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"].iter().for_each(|level| push(&["ready:", level]))
                }
                Key::Call => push(&["call:", call_slot]),
                key => push(&[key.name()]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_queue_share_its_hash_tag() {
        let keys = QueueKeys::new("duly:", "orders");
        let mut spelled = ByteStrings::default();
        keys.append(&[Key::Jobs, Key::Call, Key::Ready], "c1/0", &mut spelled);
        let spelled: Vec<_> = spelled.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        assert_eq!(spelled[0], "duly:{orders}:jobs");
        assert_eq!(spelled[1], "duly:{orders}:call:c1/0");
        assert_eq!(spelled[2], "duly:{orders}:ready:0");
        assert_eq!(spelled.len(), 2 + LEVELS);
        assert_eq!(keys.slot(), 105, "what CLUSTER KEYSLOT says");
    }
}
