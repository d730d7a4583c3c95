//! `lock.lua`, `renew_lock.lua` and `unlock.lua`: a lock that one owner holds.

use redis::Value;

use super::argument::Digits;
use super::declare::{Declared, scripts};
use super::reply::{FromReply, lossy, next, unexpected, utf8};
use crate::value::error::Error;
use crate::value::time::Millis;

scripts! {
    /// Takes it. `again` is 0, and becomes 1 behind an attempt that may have been executed.
    Lock = "lock",
    kind: Plain,
    keys: [Lock],
    arguments: { owner: String, ttl_ms: u64, again: Digits },
    reply: LockReply;

    /// Sets its end.
    RenewLock = "renew_lock",
    kind: Plain,
    keys: [Lock],
    arguments: { owner: String, ttl_ms: u64 },
    reply: LockFlag;

    /// Gives it up.
    Unlock = "unlock",
    kind: Plain,
    keys: [Lock, LockWake],
    arguments: { owner: String },
    reply: LockFlag;
}

// Under another name no copy of a call would say that it is one.
const _: () = assert!(<Lock as Declared>::FLAGS.again.is_some());

/// Who has the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockReply {
    /// The owner that asked.
    Taken { token: u64, now: Millis },
    /// Another one. `left`: until it is free, unless it is renewed.
    Held { left: Millis, now: Millis },
    /// Nobody: the owner that asked has given it up.
    GivenUp,
}

impl FromReply for LockReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let Value::Array(items) = reply else {
            let text = lossy(reply)?;
            return if text == "given up" { Ok(Self::GivenUp) } else { Err(unexpected("who has a lock")) };
        };
        let mut items = items.into_iter();
        let mut number = |what| {
            let text = utf8(next(&mut items, what)?)?;
            if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| unexpected(what)) }
        };
        let token = number("the token of a lock")?;
        let left = number("the time left of a lock")?.ok_or_else(|| unexpected("the time left of a lock"))?;
        let now = Millis::new(number("the server's time")?.ok_or_else(|| unexpected("the server's time"))?);
        Ok(match token {
            Some(token) => Self::Taken { token, now },
            None => Self::Held { left: Millis::new(left), now },
        })
    }
}

/// Was it held?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockFlag(pub(crate) bool);

impl FromReply for LockFlag {
    fn decode(reply: Value) -> Result<Self, Error> {
        match lossy(reply)?.as_str() {
            "1" => Ok(Self(true)),
            "0" => Ok(Self(false)),
            _ => Err(unexpected("whether a lock was held")),
        }
    }
}
