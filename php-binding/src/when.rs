//! Due times and spans as PHP gives them.

use std::time::Duration;

use duly::{Millis, When};
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ExecutorGlobals;

use crate::convert::seconds;
use crate::error::Fault;

/// `delay` in seconds, or `at` as unix seconds or `DateTimeInterface`; now when neither is given.
pub fn when(delay: Option<&Zval>, at: Option<&Zval>) -> Result<When, Fault> {
    let given = |value: Option<&Zval>| value.is_some_and(|value| !value.is_null());
    match (delay.filter(|_| given(delay)), at.filter(|_| given(at))) {
        (Some(_), Some(_)) => Err(Fault::invalid("give delay or at, not both")),
        (Some(delay), None) => Ok(When::after_seconds(seconds("delay", delay)?)?),
        (None, Some(at)) => Ok(When::at_unix_seconds(unix_seconds(at)?)?),
        (None, None) => Ok(When::Now),
    }
}

fn unix_seconds(at: &Zval) -> Result<f64, Fault> {
    if !at.is_object() {
        return seconds("at", at);
    }
    let formatted = at.try_call_method("format", vec![&"U.u"]);
    if ExecutorGlobals::has_exception() {
        return Err(Fault::Thrown);
    }
    formatted
        .ok()
        .and_then(|text| text.string())
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Fault::invalid("at must be unix seconds as int or float, or a DateTimeInterface"))
}

/// A span in seconds; the default when null.
pub fn span(name: &str, value: Option<&Zval>, default: Duration) -> Result<Duration, Fault> {
    match value.filter(|value| !value.is_null()) {
        Some(value) => Ok(Millis::from_seconds(seconds(name, value)?)?.to_duration()),
        None => Ok(default),
    }
}
