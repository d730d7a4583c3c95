//! `examine.lua` and `repair.lua`: what an audit looks at and mends.

use redis::Value;

use super::declare::script;
use super::reply::{array, bytes, next, number, refuse, unexpected, utf8};
use crate::value::error::Error;

script! {
    /// Looks at ids. Items: (id, member of `delayed`, key) each; none to look at the queue as a whole.
    Examine = "examine",
    keys: [Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Ready],
    arguments: { max_bytes: usize }
}

script! {
    /// Mends one thing. Items: see the script.
    Repair = "repair",
    keys: [Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Stale, Parked, Places, Wake, Stats, Ready],
    arguments: { mend: &'static str }
}

/// How many texts `examine` gives an id.
pub(crate) const LOOKED_AT: usize = 15;

/// One list of texts an id.
pub(crate) fn looks(reply: Value) -> Result<Vec<[Vec<u8>; LOOKED_AT]>, Error> {
    array(reply)?
        .into_iter()
        .map(|look| byte_strings(look)?.try_into().map_err(|_| unexpected("what is kept about an id")))
        .collect()
}

/// What the queue says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WholeReply {
    /// The levels in use; empty if the queue does not say.
    pub(crate) levels: String,
    pub(crate) stale_noted: i64,
    /// Nothing when there are too many to add up in one call.
    pub(crate) stale_counted: Option<i64>,
    pub(crate) used_levels: String,
}

impl WholeReply {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        Ok(Self {
            levels: utf8(next(&mut items, "levels")?)?,
            stale_noted: number(next(&mut items, "stale entries")?)?,
            stale_counted: utf8(next(&mut items, "counted stale entries")?)?.parse().ok(),
            used_levels: utf8(next(&mut items, "used levels")?)?,
        })
    }
}

/// Was it mended?
pub(crate) fn mended(reply: Value) -> Result<bool, Error> {
    let text = utf8(reply)?;
    refuse(&text)?;
    match text.as_str() {
        "done" => Ok(true),
        "changed" => Ok(false),
        _ => Err(unexpected("what became of a repair")),
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
