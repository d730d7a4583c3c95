//! Scripts: every state change of a queue is one of them.
//!
//! Each Lua file in `core/lua` is declared once here: how it is called, its keys, arguments and items, and its reply. `declare.rs`
//! makes the Lua header of it, `request.rs` its calls.

mod argument;
mod audit;
mod bridge;
mod call;
mod command;
mod crc16;
mod declare;
mod depart;
mod foreign;
#[cfg(test)]
mod heads;
mod inspect;
mod keys;
mod library;
#[cfg(test)]
mod lint;
mod lock;
mod operate;
mod progress;
mod push;
mod reply;
mod request;
mod reserve;
mod schedule;
mod settle;
mod text;
mod topic;
mod workers;

pub(crate) use command::{
    Command, Reply, failed_page, found_type, key_type, ping, ready_page, scan, server_time, set_clock, time, wake,
};
pub(crate) use crc16::crc16;
pub(crate) use keys::{Key, LEVELS, Levels, QueueKeys, permissions_key};

pub(crate) use argument::{Digits, Due, JobKeys, Numbering, Renewal, TopicKeys};
pub(crate) use audit::{Examine, ExamineWhole, LookReply, Repair, RepairReply, WholeReply, byte_strings, scanned};
pub(crate) use bridge::{
    Adopt, AdoptReply, Entries, Finished, Layout, Order, Reading, Take, Taken, Target, lane, lane_id, length,
    old_length, trimmed,
};
pub(crate) use call::{ByteStrings, Call};
#[cfg(test)]
pub(crate) use call::{Flags, Script};
pub(crate) use declare::{Clock, Declared, Extent, Shape, Variant};
pub(crate) use depart::{Depart, DepartReply, DepartingJob, Publish, Published};
pub(crate) use foreign::permission_check;
pub(crate) use inspect::{
    Awaited, AwaitedReply, Counts, CountsReply, Find, LimitUsage, LimitsReply, Peek, PeekedReply, WakeWaiters,
};
pub(crate) use lock::{Lock, LockFlag, LockReply, RenewLock, Unlock};
pub(crate) use operate::{
    By, Cancel, CancelReply, Configure, LimitReply, Pause, Promote, Purge, Reclaim, Requeue, RequeueReply, Reschedule,
    RescheduleReply, SetLimits, Upgrade,
};
pub(crate) use progress::{NoteProgress, ProgressOf};
pub(crate) use push::{IfDuplicate, Push, PushReply, PushUnique};
pub(crate) use reply::{Wanted, is_refusal, unexpected, wanted};
pub(crate) use request::{Item, KeepTrying, Request};
pub(crate) use reserve::{GrantedJob, Reserve, ReserveReply, ReserveStatus};
pub(crate) use schedule::{
    DueReply, DueSchedules, FireReply, FireSchedules, PutSchedules, ReadSchedules, SchedulesReply, StoredSchedule,
};
pub(crate) use settle::{Extend, Outcomes, Settle, Verb, flags, not_kept};
pub(crate) use topic::{
    Ack, Bound, CutOffReply, DeleteTopic, ExamineTopic, ForgetTopic, IsMember, MemberReply, Membership, NoteTopic,
    PublishMessages, Pull, PulledMessage, PulledTopic, Subscribe, SubscribeReply, SubscriptionReply, TopicReply,
    Unsubscribe, UnsubscribeReply, noted_topics, topics,
};
pub(crate) use workers::{Alive, AliveReply, Beat, BeatReply, Hear, HearReply};
#[cfg(test)]
pub(crate) use {
    inspect::{FoundReply, PageReply},
    operate::{PurgeReply, ReclaimReply},
    push::{Created, PushUniqueReply},
    reply::FromReply,
    settle::SettleReply,
    topic::{PublishReply, PullReply},
};
