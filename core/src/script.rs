//! Scripts: every state change of a queue is one of them.
//!
//! Each Lua file in `core/lua` is declared once here: how it is called, its keys, arguments and items, and its reply.
//!
//! | file | duty |
//! |---|---|
//! | `declare.rs` | the form of a declaration, and the Lua header that is made of it |
//! | `foreign.rs` | the same for scripts about keys that are no queue's |
//! | `keys.rs` | the Redis keys of a queue, and the levels of priority |
//! | `crc16.rs` | the hash slot of a key |
//! | `argument.rs`, `reply.rs` | what scripts take, and how their replies are read |
//! | `library.rs`, `text.rs` | the shared Lua files, and the text of a script with those that it includes |
//! | `request.rs`, `call.rs` | a script with what it is given, and the call that is sent |
//! | `command.rs` | the plain commands beside the scripts |
//! | `push.rs`, `reserve.rs`, `settle.rs`, `progress.rs` | the declarations for producers and workers |
//! | `operate.rs`, `inspect.rs`, `audit.rs`, `queues.rs`, `actions.rs` | those for operators and onlookers |
//! | `workers.rs`, `schedule.rs`, `lock.rs`, `topic.rs` | those about workers, schedules, locks and topics |
//! | `bridge.rs`, `depart.rs` | those for bridges: jobs come over, and go back |
//! | `heads.rs`, `lint.rs` | tests of all Lua files: their heads, their globals, what luacheck finds |

mod actions;
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
mod queues;
mod reply;
mod request;
mod reserve;
mod schedule;
mod settle;
mod text;
mod topic;
mod workers;

pub(crate) use argument::{Digits, Due, JobKeys, MemoryRenewal, Numbering, TopicKeys};
pub(crate) use call::{ByteStrings, Call};
#[cfg(test)]
pub(crate) use call::{Flags, Script};
pub(crate) use command::{
    Command, Reply, cluster_info, cluster_slots, failed_page, found_type, info, key_type, last_of, memory_usage,
    owners, ping, ready_page, said_of_queue, said_of_queues, scan, server_info, server_setting, server_time, set_clock,
    setting, time, tries, use_of_queue, used_memory, uses_of_queues, wake, with_times,
};
pub(crate) use crc16::crc16;
pub(crate) use declare::{Clock, Declared, Extent, Shape, Variant};
pub(crate) use foreign::permission_check;
pub(crate) use keys::{Key, LEVELS, Levels, QueueKeys, permissions_key};
#[cfg(any(test, fuzzing))]
pub(crate) use reply::FromReply;
pub(crate) use reply::{Wanted, is_refusal, stored_nothing, two_numbers, unexpected, wanted};
pub(crate) use request::{Item, KeepTrying, Request};

// Of the declarations, all that they do not keep for themselves: the scripts, what they take and what they reply.
pub(crate) use {
    actions::*, audit::*, bridge::*, depart::*, inspect::*, lock::*, operate::*, progress::*, push::*, queues::*,
    reserve::*, schedule::*, settle::*, topic::*, workers::*,
};
