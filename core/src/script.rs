//! Scripts: every state change of a queue is one of them.
//!
//! Each Lua file in `core/lua` is declared once here (keys, arguments, reply); `declare.rs` makes the Lua header of it.

mod audit;
mod call;
mod command;
mod crc16;
mod declare;
mod inspect;
mod keys;
#[cfg(test)]
mod lint;
mod operate;
mod progress;
mod push;
mod reply;
mod reserve;
mod settle;
mod workers;

pub(crate) use command::{Command, Reply, failed_page, found_type, key_type, ping, ready_page, scan, set_clock, wake};
pub(crate) use crc16::crc16;
pub(crate) use keys::{Key, LEVELS, Levels, QueueKeys, permissions_key};

pub(crate) use audit::{Examine, LOOKED_AT, Repair, WholeReply, byte_strings, looks, mended, scanned};
#[cfg(test)]
pub(crate) use call::Script;
pub(crate) use call::{AHEAD_FLAG, ByteStrings, Call, RENEW_FLAG};
pub(crate) use declare::{Argument, Clock, Declared, Digits, Due, JobKeys, Renewal};
pub(crate) use inspect::{
    Awaited, AwaitedReply, Counts, CountsReply, Find, FoundReply, LimitsReply, PageReply, Peek, PeekedReply,
    WakeWaiters,
};
pub(crate) use operate::{
    By, Cancel, CancelReply, Configure, Limit, Pause, Promote, Purge, PurgeReply, Reclaim, ReclaimReply, Requeue,
    RequeueReply, Reschedule, RescheduleReply,
};
pub(crate) use progress::{NoteProgress, ProgressOf, noted};
pub(crate) use push::{IfDuplicate, Push, PushReply, PushUnique};
pub(crate) use reply::{count, is_refusal, text, wanted_levels};
pub(crate) use reserve::{GrantedJob, Reserve, ReserveReply, ReserveStatus};
pub(crate) use settle::{Extend, Outcomes, Settle, Verb, flags, not_kept};
pub(crate) use workers::{Alive, Beat, BeatReply, Hear, HearReply, alive};
