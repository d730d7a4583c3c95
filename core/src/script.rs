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
    Command, Reply, failed_page, found_type, key_type, ping, ready_page, scan, server_time, set_clock, time, wake,
};
pub(crate) use crc16::crc16;
pub(crate) use declare::{Clock, Declared, Extent, Shape, Variant};
pub(crate) use foreign::permission_check;
pub(crate) use keys::{Key, LEVELS, Levels, QueueKeys, permissions_key};
#[cfg(test)]
pub(crate) use reply::FromReply;
pub(crate) use reply::{Wanted, is_refusal, unexpected, wanted};
pub(crate) use request::{Item, KeepTrying, Request};

// Of the declarations, all that they do not keep for themselves: the scripts, what they take and what they reply.
pub(crate) use {
    audit::*, bridge::*, depart::*, inspect::*, lock::*, operate::*, progress::*, push::*, queues::*, reserve::*,
    schedule::*, settle::*, topic::*, workers::*,
};
