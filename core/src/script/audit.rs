//! `examine.lua` and `repair.lua`: what an audit looks at and mends.

use redis::Value;

use super::call::ByteStrings;
use super::declare::scripts;
use super::reply::{FromReply, array, bytes, next, number, text, unexpected, utf8};
use crate::value::error::Error;

scripts! {
    /// Looks at ids; `member`: of `delayed`.
    Examine = "examine",
    kind: Reads,
    keys: [Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Ready],
    arguments: { max_bytes: usize, counts_entries: usize },
    items: (id: &'a [u8], member: &'a [u8], key: &'a [u8]),
    reply: Vec<LookReply>;

    /// The same script without ids, which then looks at the queue as a whole.
    ExamineWhole = "examine",
    kind: Reads,
    keys: [Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Ready],
    arguments: { max_bytes: usize, counts_entries: usize },
    reply: WholeReply;

    /// Mends one thing of each of these jobs, or one of the queue as a whole: what each item says is in the script.
    Repair = "repair",
    kind: Plain,
    keys: [Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, History, Ready],
    arguments: { whole: &'static str },
    items: (words: &'a ByteStrings),
    reply: Vec<RepairReply>;
}

/// How many texts `examine` gives an id.
pub(crate) const LOOKED_AT: usize = 16;

/// What is kept about an id.
pub(crate) type LookReply = [Vec<u8>; LOOKED_AT];

impl FromReply for Vec<LookReply> {
    fn decode(reply: Value) -> Result<Self, Error> {
        let look = |look| byte_strings(look)?.try_into().map_err(|_| unexpected("what is kept about an id"));
        array(reply)?.into_iter().map(look).collect()
    }
}

/// What the queue says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WholeReply {
    /// The levels in use; empty if the queue does not say.
    pub(crate) levels: String,
    /// Nothing if it is not a number.
    pub(crate) stale_noted: Option<i64>,
    pub(crate) stale_counted: i64,
    pub(crate) used_levels: String,
    /// How many fields of `stale` are not duly's.
    pub(crate) stale_foreign: i64,
}

impl FromReply for WholeReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        Ok(Self {
            levels: utf8(next(&mut items, "levels")?)?,
            stale_noted: number(next(&mut items, "stale entries")?).ok(),
            stale_counted: number(next(&mut items, "counted stale entries")?)?,
            used_levels: utf8(next(&mut items, "used levels")?)?,
            stale_foreign: number(next(&mut items, "fields of stale that are not duly's")?)?,
        })
    }
}

/// Was it mended?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairReply {
    Done,
    /// No: it is not any more what was looked at.
    Changed,
}

impl FromReply for Vec<RepairReply> {
    fn decode(reply: Value) -> Result<Self, Error> {
        let outcome = |line: &str| match line {
            "done" => Ok(RepairReply::Done),
            "changed" => Ok(RepairReply::Changed),
            _ => Err(unexpected("what became of a repair")),
        };
        text(reply)?.split('\n').map(outcome).collect()
    }
}

/// The cursor for the next page (`0` at the end) and the items of this one.
pub(crate) fn scanned(reply: Value) -> Result<(Vec<u8>, Vec<Vec<u8>>), Error> {
    let mut items = array(reply)?.into_iter();
    let cursor = bytes(next(&mut items, "a cursor")?)?;
    Ok((cursor, byte_strings(next(&mut items, "a page")?)?))
}

pub(crate) fn byte_strings(reply: Value) -> Result<Vec<Vec<u8>>, Error> {
    array(reply)?.into_iter().map(bytes).collect()
}
