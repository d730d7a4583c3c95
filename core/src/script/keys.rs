//! The Redis keys of a queue: only this file spells them.
//!
//! All keys of a queue share one hash tag, so that every script is legal in a cluster, and all are passed in `KEYS`.

use crate::script::ByteStrings;
use crate::script::crc16::crc16;

/// The format of what is stored; the scripts get it from here.
pub(super) const FORMAT: u64 = 2;

/// For the check of permissions, which leaves nothing there. A name that nobody else has: what it holds is deleted.
pub(crate) fn permissions_key(prefix: &str) -> String {
    let chance = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
    format!("{prefix}permissions:{chance:016x}")
}

/// Where duly's server keeps a random id, by which a bridge that goes on finds out that this is another one.
pub(crate) fn bridge_target_key(prefix: &str) -> String {
    format!("{prefix}{{bridge}}:target")
}

/// Priority levels, 0 first.
pub(crate) const LEVELS: u8 = 10;

/// A set of priority levels. A caller passes the ready lists of the levels that it knows to be in use, nearly always one, so
/// that a call need not carry ten keys; the reply says so when there are more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Levels(u16);

impl Levels {
    pub(crate) const ALL: Self = Self((1 << LEVELS) - 1);

    pub(crate) fn one(level: u8) -> Self {
        Self(1 << level)
    }

    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    pub(crate) fn parse(digits: &str) -> Option<Self> {
        digits.bytes().try_fold(Self(0), |set, digit| digit.is_ascii_digit().then(|| set.with(Self::one(digit - b'0'))))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        (0..LEVELS).filter(move |level| self.0 & (1 << level) != 0)
    }
}

impl std::fmt::Display for Levels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.iter().try_for_each(|level| write!(f, "{level}"))
    }
}

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
    /// sorted set: id by number of its name, level and turn, of the ready jobs whose name is at its limit.
    Parked,
    /// sorted set: id by number of its name, of the reserved jobs whose name has a limit.
    Places,
    /// list: wake-ups for waiting workers, at most two.
    Wake,
    /// hash: format version, levels in use, pause, last token, timer, limits, how much the history keeps.
    Meta,
    /// hash: how many jobs were ever pushed, acked, retried, ...
    Stats,
    /// hash with a lifetime: a window of time and whose runs -> what workers have counted of them.
    Rates,
    /// list, the newest at the end: what happened to jobs in one call each.
    History,
    /// hash with a lifetime, one a client: slot -> number and answer of the last call that came through it.
    Call,
    /// sorted set: id of a worker by when it is taken for dead, in ms.
    Workers,
    /// hash: id of a worker -> what it says of itself.
    WorkerInfos,
    /// sorted set: id of a job in `failed` that no hook has heard of, by when any worker may take that up, in ms.
    Unheard,
    /// hash: lane of a bridge -> sequence of its last batch that is in.
    Adopted,
    /// list: id, record, what came back and score of the jobs that are on their way back to another queue.
    Departing,
    /// hash: the last batch of those, and whose it is.
    Departed,
    /// hash: name of a schedule -> its definition.
    Schedules,
    /// hash: name of a schedule -> its revision, its next slot and what else changes.
    ScheduleState,
    /// sorted set: name of a schedule by when it fires next in ms; `inf` if it is paused or over.
    ScheduleDue,
    /// hash: name of a schedule -> the last twenty slots that fired.
    ScheduleFires,
    /// list per level: ids, the next one at the head.
    Ready,
    /// string with a lifetime, one a job that is named in the call: what it gave.
    Result,
    /// list with a lifetime, one a job that is named in the call: not empty once there is a result.
    Done,
    /// string with a lifetime, one a job that is named in the call: how far its run has come.
    Progress,
    /// hash with a lifetime, of a lock, which has a name of its own and not that of a queue: who holds it, until when, last token.
    Lock,
    /// list with a lifetime, of a lock: a wake-up for one who waits for it.
    LockWake,
    /// hash, of a topic, which has a name of its own: counts, bounds, members, and how far each subscription was pulled.
    Topic,
    /// stream, of a topic: its messages. Each subscription is a group, each member a consumer.
    Messages,
    /// sorted set, of a topic: subscription by the number of the first message that it has not read.
    Floors,
    /// stream, of a topic: one entry, whose id is `<calls that have published>-0`. All who have seen fewer are woken.
    News,
    /// `Topic`, `Messages` and `Floors` of each topic that is named in the call.
    Topics,
    /// hash, of a member of topics, which has a name of its own: topic -> a random text that says which subscription it was.
    MemberTopics,
    /// sorted set, of the list of queues, which has a name of its own: their names, all with the score 0.
    Queues,
    /// list, of the log of actions, which has a name of its own: what operators have done, the newest at the end.
    Actions,
    /// hash, of the list of queues: name -> when it was last used in ms, and how many partitions it has.
    QueuesUsed,
}

impl Key {
    /// Those that every queue has one of.
    pub(crate) const FIXED: [Self; 25] = [
        Self::Jobs,
        Self::Delayed,
        Self::Reserved,
        Self::Leases,
        Self::Failed,
        Self::Returned,
        Self::Keys,
        Self::Stale,
        Self::Parked,
        Self::Places,
        Self::Wake,
        Self::Meta,
        Self::Stats,
        Self::Rates,
        Self::History,
        Self::Workers,
        Self::WorkerInfos,
        Self::Unheard,
        Self::Adopted,
        Self::Departing,
        Self::Departed,
        Self::Schedules,
        Self::ScheduleState,
        Self::ScheduleDue,
        Self::ScheduleFires,
    ];

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
            Self::Parked => "parked",
            Self::Places => "places",
            Self::Wake => "wake",
            Self::Meta => "meta",
            Self::Stats => "stats",
            Self::Rates => "rates",
            Self::History => "history",
            Self::Call => "call",
            Self::Workers => "workers",
            Self::WorkerInfos => "worker_infos",
            Self::Unheard => "unheard",
            Self::Adopted => "adopted",
            Self::Departing => "departing",
            Self::Departed => "departed",
            Self::Schedules => "schedules",
            Self::ScheduleState => "schedule_state",
            Self::ScheduleDue => "schedule_due",
            Self::ScheduleFires => "schedule_fires",
            Self::Ready => "ready",
            Self::Result => "result",
            Self::Done => "done",
            Self::Progress => "progress",
            Self::Lock => "lock",
            Self::LockWake => "lock_wake",
            Self::Topic => "topic",
            Self::Messages => "messages",
            Self::Floors => "floors",
            Self::News => "news",
            Self::Topics => "topics",
            Self::MemberTopics => "member_topics",
            Self::Actions => "actions",
            Self::Queues => "queues",
            Self::QueuesUsed => "queues_used",
        }
    }

    /// Is it a queue's, and of nothing that lies beside queues: the list of them, a lock, a topic?
    pub(crate) const fn is_of_queue(self) -> bool {
        !matches!(
            self,
            Self::Call
                | Self::Lock
                | Self::LockWake
                | Self::Topic
                | Self::Messages
                | Self::Floors
                | Self::News
                | Self::Topics
                | Self::MemberTopics
                | Self::Actions
                | Self::Queues
                | Self::QueuesUsed
        )
    }

    /// Is it only there where the queue has an option: limits, or a history?
    pub(crate) fn is_of_options(self) -> bool {
        matches!(self, Self::Parked | Self::Places | Self::History)
    }

    /// Does every job have its own, named by the job's id?
    pub(crate) const fn is_of_one_job(self) -> bool {
        matches!(self, Self::Result | Self::Done | Self::Progress)
    }

    /// What `TYPE` says of the key when it exists.
    pub(crate) fn redis_type(self) -> &'static str {
        match self {
            Self::Delayed
            | Self::Reserved
            | Self::Failed
            | Self::Parked
            | Self::Places
            | Self::Workers
            | Self::Unheard
            | Self::Floors
            | Self::Queues
            | Self::ScheduleDue => "zset",
            Self::Wake
            | Self::History
            | Self::Departing
            | Self::Ready
            | Self::Done
            | Self::LockWake
            | Self::Actions => "list",
            Self::Messages | Self::News => "stream",
            Self::Result | Self::Progress => "string",
            _ => "hash",
        }
    }
}

/// The spelled keys of one queue.
#[derive(Debug)]
pub(crate) struct QueueKeys {
    /// `<prefix>{<queue>}:`
    start: String,
    /// How many bytes of it are the prefix.
    prefix_len: usize,
    slot: u16,
}

impl QueueKeys {
    pub(crate) fn new(prefix: &str, queue: &str) -> Self {
        let start = format!("{prefix}{{{queue}}}:");
        Self { start, prefix_len: prefix.len(), slot: crc16(queue.as_bytes()) % 16384 }
    }

    /// The cluster slot of all of them.
    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    pub(crate) fn spell(&self, key: Key) -> String {
        format!("{}{}", self.start, key.name())
    }

    pub(crate) fn spell_ready(&self, level: u8) -> String {
        format!("{}ready:{level}", self.start)
    }

    pub(crate) fn spell_of_job(&self, key: Key, id: &str) -> String {
        format!("{}{}:{id}", self.start, key.name())
    }

    /// All that a queue has one of.
    pub(crate) fn of_queue(&self) -> impl Iterator<Item = String> {
        let lists = (0..LEVELS).map(|level| self.spell_ready(level));
        Key::FIXED.into_iter().map(|key| self.spell(key)).chain(lists)
    }

    /// Appends the keys that a script declares, in its order; `Ready` becomes one list a level, and what each job has of its
    /// own one key for each of these ids. Of scripts that are about several topics, these are the names of the topics.
    pub(crate) fn append(
        &self,
        keys: impl IntoIterator<Item = Key>,
        client: &str,
        levels: Levels,
        ids: Option<&ByteStrings>,
        out: &mut ByteStrings,
    ) {
        for key in keys {
            match key {
                key if key.is_of_one_job() => {
                    for id in ids.into_iter().flat_map(ByteStrings::iter) {
                        let start = format!("{}{}:", self.start, key.name());
                        out.push(&[start.as_bytes(), id].concat());
                    }
                }
                Key::Topics => {
                    let prefix = &self.start[..self.prefix_len];
                    for name in ids.into_iter().flat_map(ByteStrings::iter) {
                        for key in [Key::Topic, Key::Messages, Key::Floors] {
                            out.push(&[prefix.as_bytes(), b"{", name, b"}:", key.name().as_bytes()].concat());
                        }
                    }
                }
                Key::Ready => {
                    for level in levels.iter() {
                        out.push_display(format_args!("{}ready:{level}", self.start));
                    }
                }
                Key::Call => out.push_display(format_args!("{}call:{client}", self.start)),
                key => out.push_display(format_args!("{}{}", self.start, key.name())),
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
        keys.append([Key::Jobs, Key::Call, Key::Ready], "c1", Levels::ALL, None, &mut spelled);
        let spelled: Vec<_> = spelled.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        assert_eq!(spelled[0], "duly:{orders}:jobs");
        assert_eq!(spelled[1], "duly:{orders}:call:c1");
        assert_eq!(spelled[2], "duly:{orders}:ready:0");
        assert_eq!(spelled.len(), 2 + usize::from(LEVELS));
        assert_eq!(keys.slot(), 105, "what CLUSTER KEYSLOT says");
    }
}
