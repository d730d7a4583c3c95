//! Reading replies: a shape that is not the declared one is a `Protocol` error, never a guess.

use redis::Value;

use super::declare::Shape;
use super::keys::FORMAT;
use crate::script::keys::Levels;
use crate::value::error::{Error, ErrorKind};

/// A script's answer when it was called for nothing but a part of what must be done first.
const AGAIN: &[u8] = b"again";
const FULL: &[u8] = b"full";
/// `once.lua` gives it for a client that it should remember and does not.
const FORGOTTEN: &[u8] = b"forgotten";

/// What a script's reply is read into.
pub(crate) trait FromReply: Sized {
    /// Errors: `Protocol` for what the script does not give; see [`refuse`].
    fn decode(reply: Value) -> Result<Self, Error>;

    /// Is it about as many jobs as the call was?
    fn fits(&self, _jobs: usize) -> bool {
        true
    }
}

/// Nothing but that it was done.
impl FromReply for () {
    fn decode(reply: Value) -> Result<Self, Error> {
        text(reply).map(drop)
    }
}

/// A count.
impl FromReply for u64 {
    fn decode(reply: Value) -> Result<Self, Error> {
        match reply {
            Value::Int(count) => Self::try_from(count).map_err(|_| unexpected("a count")),
            other => Err(text(other).err().unwrap_or_else(|| unexpected("a count"))),
        }
    }
}

pub(crate) fn unexpected(what: &'static str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the server's reply is not what the script gives ({what}): is something between duly and the server?"),
    )
}

/// One text reply. The two answers that every writing script can give instead are made errors here.
pub(crate) fn text(reply: Value) -> Result<String, Error> {
    let text = lossy(reply)?;
    refuse(&text)?;
    Ok(text)
}

/// What a script wants of its next call, which it was not executed without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing else: more had to be done before than one call may.
    Again,
    /// The full text, for this call.
    Full,
    /// The ready lists of these levels.
    Levels(Levels),
    /// The text for this shape of queue.
    Shape(Shape),
    /// The queue is of an older format, and must be brought to ours.
    Upgrade,
    /// That its client knows it: the server has no memory of a client that it should remember, so its data are gone.
    News,
}

/// What the script wants, if this reply says so.
pub(crate) fn wanted(reply: &Value) -> Option<Wanted> {
    let Value::BulkString(bytes) = reply else { return None };
    if bytes == AGAIN {
        return Some(Wanted::Again);
    }
    if bytes == FULL {
        return Some(Wanted::Full);
    }
    if bytes == FORGOTTEN {
        return Some(Wanted::News);
    }
    match std::str::from_utf8(bytes).ok()?.split_once(' ')? {
        ("levels", levels) => Levels::parse(levels).map(Wanted::Levels),
        ("shape", "limits") => Some(Wanted::Shape(Shape::Limited)),
        ("format", format) => format.parse().ok().filter(|&format: &u64| format < FORMAT).map(|_| Wanted::Upgrade),
        _ => None,
    }
}

/// A reply that says that the call was not executed, and that its answer is not kept. All others are kept for a call that is
/// sent again, except that of a `reserve` which found nothing and did not ask for it.
pub(crate) fn is_refusal(reply: &Value) -> bool {
    let Value::BulkString(text) = reply else { return false };
    let starts = [&b"format "[..], b"levels ", b"shape "];
    text == b"superseded"
        || [AGAIN, FULL, FORGOTTEN].contains(&text.as_slice())
        || starts.iter().any(|start| text.starts_with(start))
}

/// A reply of a push that says that nothing of it is in.
pub(crate) fn stored_nothing(reply: &Value) -> bool {
    let Value::BulkString(text) = reply else { return false };
    let is_full = |line: &[u8]| line.starts_with(b"full ");
    is_refusal(reply) || text.starts_with(b"queue_full ") || text.split(|&byte| byte == b'\n').all(is_full)
}

/// `superseded` and `format <n>`, as errors.
pub(crate) fn refuse(text: &str) -> Result<(), Error> {
    if text == "superseded" {
        return Err(Error::new(ErrorKind::Timeout, "a late copy of a call that was given up; it did nothing"));
    }
    if let Some(format) = text.strip_prefix("format ") {
        return Err(Error::new(
            ErrorKind::FormatTooNew,
            format!(
                "this queue is written in format {format}, newer than this duly knows ({FORMAT}): upgrade duly here; nothing was changed"
            ),
        ));
    }
    Ok(())
}

pub(crate) fn bytes(reply: Value) -> Result<Vec<u8>, Error> {
    match reply {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        _ => Err(unexpected("text")),
    }
}

pub(crate) fn array(reply: Value) -> Result<Vec<Value>, Error> {
    match reply {
        Value::Array(items) => Ok(items),
        _ => Err(unexpected("a list")),
    }
}

pub(crate) fn utf8(reply: Value) -> Result<String, Error> {
    String::from_utf8(bytes(reply)?).map_err(|_| unexpected("text that is not UTF-8"))
}

/// An id or another text of somebody else's. What is not UTF-8 in it is shown as U+FFFD: one such id must not hide the others.
pub(crate) fn lossy(reply: Value) -> Result<String, Error> {
    Ok(String::from_utf8(bytes(reply)?).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A number, sent as an integer or as decimal text.
pub(crate) fn number(reply: Value) -> Result<i64, Error> {
    match reply {
        Value::Int(number) => Ok(number),
        other => {
            let text = utf8(other)?;
            // Scores come as decimal text, since Redis 7 perhaps with an exponent.
            text.parse::<i64>().ok().or_else(|| whole(&text)).ok_or_else(|| unexpected("a number"))
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // checked to be whole and within 2^53 just before
fn whole(text: &str) -> Option<i64> {
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i64)
}

/// A moment in ms, as the score of a sorted set. What another program wrote there is read as near as it can be: without a fraction, and
/// what never comes as the end of the year 9999. One such job must not hide the others.
#[expect(clippy::cast_possible_truncation, reason = "it is clamped just before")]
pub(crate) fn moment(reply: Value) -> Result<i64, Error> {
    if let Value::Int(moment) = reply {
        return Ok(moment);
    }
    let moment = utf8(reply)?.parse::<f64>().ok().filter(|moment| !moment.is_nan());
    moment.map(|moment| moment.clamp(-LAST_MOMENT, LAST_MOMENT) as i64).ok_or_else(|| unexpected("a time"))
}

/// The last moment that calendars of every language have, in ms.
const LAST_MOMENT: f64 = 253_402_207_200_000.0;

/// The next element of a list, or an error that says which one is missing.
pub(crate) fn next(items: &mut impl Iterator<Item = Value>, what: &'static str) -> Result<Value, Error> {
    items.next().ok_or_else(|| unexpected(what))
}

/// `<n> <n>`.
pub(crate) fn two_numbers(text: &str) -> Result<(u64, u64), Error> {
    let (first, second) = text.split_once(' ').ok_or_else(|| unexpected("two numbers"))?;
    let parse = |text: &str| text.parse().map_err(|_| unexpected("two numbers"));
    Ok((parse(first)?, parse(second)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_an_answer_that_is_kept() {
        let text = |text: &str| Value::BulkString(text.into());
        for kept in ["created", "ok", "moved a", "absent", "absent\nready a", "duplicate a", "failed a", "0", "0 0", ""]
        {
            assert!(!is_refusal(&text(kept)), "{kept}");
        }
        assert!(!is_refusal(&Value::Array(vec![text("none"), text("")])));
        for refused in ["superseded", "format 3", "levels 01", "shape limits", "again", "full"] {
            assert!(is_refusal(&text(refused)), "{refused}");
        }
    }

    #[test]
    fn a_moment_that_another_program_wrote_is_read_as_near_as_it_can_be() {
        let read = |text: &str| moment(Value::BulkString(text.into())).ok();
        assert_eq!(read("1790000000000"), Some(1_790_000_000_000));
        assert_eq!(read("1.79e12"), Some(1_790_000_000_000));
        assert_eq!(read("1790000000000.75"), Some(1_790_000_000_000));
        assert_eq!((read("inf"), read("1e300")), (Some(253_402_207_200_000), Some(253_402_207_200_000)));
        assert_eq!(read("-inf"), Some(-253_402_207_200_000));
        assert_eq!((read("nan"), read("soon"), read("")), (None, None, None));
    }

    #[test]
    fn a_refusal_says_what_the_next_call_needs() {
        let text = |text: &str| wanted(&Value::BulkString(text.into()));
        assert_eq!(text("again"), Some(Wanted::Again));
        assert_eq!(text("full"), Some(Wanted::Full));
        assert_eq!(text("levels 05"), Some(Wanted::Levels(Levels::one(0).with(Levels::one(5)))));
        assert_eq!(text("shape limits"), Some(Wanted::Shape(Shape::Limited)));
        assert_eq!(text("format 1"), Some(Wanted::Upgrade));
        for other in ["format 2", "format 3", "format x", "shape x", "levels x", "superseded", "ok", ""] {
            assert_eq!(text(other), None, "{other}");
        }
    }
}
