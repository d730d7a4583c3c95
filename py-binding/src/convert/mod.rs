//! From Python's values to the engine's, and back.

mod decode;
mod encode;
mod time;

pub(crate) use decode::to_python;
pub(crate) use encode::to_json;
pub(crate) use time::{delay, duration, moment, span};

use std::collections::BTreeMap;
use std::time::Duration;

use duly::{Durability, Error, OnDuplicate};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyString};

use crate::error::invalid;

/// The type's name, for messages.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

/// A whole number in this range; a bool is none.
pub(crate) fn whole<T: TryFrom<i64>>(what: &str, value: &Bound<'_, PyAny>, largest: T) -> Result<T, Error>
where
    i64: TryFrom<T>,
{
    let largest = i64::try_from(largest).unwrap_or(i64::MAX);
    let refused = || invalid(format!("{what} must be a whole number from 0 to {largest}"));
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        return Err(invalid(format!("{what} must be an int, not {}", type_name(value))));
    }
    let number: i64 = value.extract().map_err(|_| refused())?;
    if number < 0 || number > largest {
        return Err(refused());
    }
    T::try_from(number).map_err(|_| refused())
}

/// Headers: a dict of strings.
pub(crate) fn headers(given: &Bound<'_, PyAny>) -> Result<BTreeMap<String, String>, Error> {
    let refused = || invalid("headers must be a dict whose names and values are strings");
    let given = given.cast::<PyDict>().map_err(|_| refused())?;
    let text = |value: &Bound<'_, PyAny>| -> Result<String, Error> {
        let text = value.cast::<PyString>().map_err(|_| refused())?;
        text.to_str().map(str::to_owned).map_err(|_| invalid("a header holds half a surrogate pair, which is no text"))
    };
    given.iter().map(|(name, value)| Ok((text(&name)?, text(&value)?))).collect()
}

/// `refuse`, `keep` or `replace`.
pub(crate) fn on_duplicate(given: &str) -> Result<OnDuplicate, Error> {
    match given {
        "refuse" => Ok(OnDuplicate::Refuse),
        "keep" => Ok(OnDuplicate::Keep),
        "replace" => Ok(OnDuplicate::Replace),
        _ => Err(invalid("on_duplicate must be 'refuse', 'keep' or 'replace'")),
    }
}

/// Nothing, `fsync`, or `wait:2` for two replicas; confirmed within `timeout`.
pub(crate) fn durability(given: Option<&str>, timeout: Duration) -> Result<Durability, Error> {
    let refused = || invalid("durability must be None, 'fsync', or 'wait:2' for two replicas");
    match given {
        None => Ok(Durability::None),
        Some("fsync") => Ok(Durability::Fsync { timeout }),
        Some(text) => {
            let count = text.strip_prefix("wait:").and_then(|count| count.parse().ok()).filter(|&count| count > 0);
            count.map(|count| Durability::Replicas { count, timeout }).ok_or_else(refused)
        }
    }
}
