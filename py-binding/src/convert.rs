//! From Python's values to the engine's, and back.

mod decode;
mod encode;
mod keywords;
mod text;
mod time;

pub(crate) use decode::to_python;
pub(crate) use encode::{result, to_json};
pub(crate) use keywords::Keywords;
pub(crate) use text::{
    Counted, Cursor, Final, Id, IdOfSeveral, Ids, Jitter, Key, Member, Name, Only, QueueName, Renew, Repair, Start,
    StateWord, Text, Words, flag, is_set, of_wrong_type, path, text,
};
pub(crate) use time::{delay, duration, float, lease, moment, span, span_or_moment};

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use duly::{Durability, Error};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyIterator, PySequence, PyString};

use crate::error::invalid;

/// The type's name, for messages.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

/// The largest count that a script may be given: beyond 2^53 its numbers lose digits.
pub(crate) const MAX_COUNT: u64 = (1 << 53) - 1;

/// A whole number in this range; a bool is none.
pub(crate) fn whole<T: TryFrom<u64>>(
    what: &str,
    value: &Bound<'_, PyAny>,
    range: RangeInclusive<u64>,
) -> Result<T, Error> {
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        return Err(invalid(format!("{what} must be an int, not {}", type_name(value))));
    }
    let within = value.extract().ok().filter(|number| range.contains(number));
    within
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| invalid(format!("{what} must be a whole number from {} to {}", range.start(), range.end())))
}

/// What is in a list, a tuple or another sequence; nothing if it is none, or a text. Its length is not asked: a class may say any, and
/// memory for it would end the process.
pub(crate) fn items<'py>(given: &Bound<'py, PyAny>) -> Option<Bound<'py, PyIterator>> {
    let is_several = given.cast::<PySequence>().is_ok() && !given.is_instance_of::<PyString>();
    is_several.then(|| given.try_iter().ok()).flatten()
}

/// Headers: a dict of strings.
pub(crate) fn headers(given: &Bound<'_, PyAny>) -> Result<BTreeMap<String, String>, Error> {
    let refused = || invalid("headers must be a dict whose names and values are strings");
    let given = given.cast::<PyDict>().map_err(|_| refused())?;
    let text = |value: &Bound<'_, PyAny>| -> Result<String, Error> {
        text::utf8("a header", value.cast::<PyString>().map_err(|_| refused())?)
    };
    given.iter().map(|(name, value)| Ok((text(&name)?, text(&value)?))).collect()
}

/// `none`, `fsync`, or `wait:2` for two replicas.
pub(crate) fn durability(given: &Bound<'_, PyAny>) -> Result<Durability, Error> {
    text("durability", given)?.parse()
}
