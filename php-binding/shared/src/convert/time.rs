//! Due times and spans as PHP gives them.

use std::time::Duration;

use duly::{Millis, When};
use ext_php_rs::types::{ZendObject, Zval};
use ext_php_rs::zend::ClassEntry;

use super::{millis, named, seconds, type_name};
use crate::call;
use crate::error::Fault;

/// `delay` in seconds or as `DateInterval`, or `at` as unix seconds or `DateTimeInterface`; null when neither is given.
pub fn when(delay: Option<&Zval>, at: Option<&Zval>) -> Result<Option<When>, Fault> {
    match (given(delay), given(at)) {
        (Some(_), Some(_)) => Err(Fault::invalid("give delay or at, not both")),
        (Some(delay), None) => {
            let when = When::after_seconds(seconds_or_interval("delay", delay)?);
            Ok(Some(when.map_err(|error| named("delay", &error))?))
        }
        (None, Some(at)) => {
            let when = When::at_unix_seconds(unix_seconds("at", at)?);
            Ok(Some(when.map_err(|error| named("at", &error))?))
        }
        (None, None) => Ok(None),
    }
}

/// A moment as unix seconds or `DateTimeInterface`.
pub fn moment(name: &str, value: &Zval) -> Result<Millis, Fault> {
    Millis::from_unix_seconds(unix_seconds(name, value)?).map_err(|error| named(name, &error))
}

/// A `DateInterval` counts from now, as PHP's own calendar adds it: a day is one of the default time zone.
fn seconds_or_interval(name: &str, value: &Zval) -> Result<f64, Fault> {
    let value = value.dereference();
    if value.is_long() || value.is_double() {
        return seconds(name, value);
    }
    let is_interval =
        |object: &ZendObject| ClassEntry::try_find("DateInterval").is_some_and(|class| object.instance_of(class));
    if !value.object().is_some_and(is_interval) {
        let found = type_name(value);
        return Err(Fault::invalid(format!("{name} must be seconds (int or float) or a DateInterval, not {found}")));
    }
    let now = call::function("date_create_immutable", Vec::new())?;
    let then = now.object().map(|now| call::method(now, "add", vec![value])).transpose()?.flatten();
    let then = then.ok_or_else(|| Fault::invalid(format!("{name}: PHP cannot add this DateInterval to a time")))?;
    // With a whole second in common, the fractions are exact.
    Ok(unix_seconds(name, &then)? - unix_seconds(name, &now)?)
}

/// So long from now, or at a time.
pub fn span_or_moment(name: &str, value: &Zval) -> Result<When, Fault> {
    let is_moment =
        |object: &ZendObject| ClassEntry::try_find("DateTimeInterface").is_some_and(|class| object.instance_of(class));
    if value.dereference().object().is_some_and(is_moment) {
        return moment(name, value).map(When::At);
    }
    let span = Millis::from_seconds(seconds_or_interval(name, value)?).map_err(|error| named(name, &error))?;
    Ok(When::After(span))
}

/// A span in seconds or as `DateInterval`.
pub fn span_or_interval(name: &str, value: &Zval) -> Result<Duration, Fault> {
    let span = Millis::from_seconds(seconds_or_interval(name, value)?).map_err(|error| named(name, &error))?;
    Ok(span.to_duration())
}

fn unix_seconds(name: &str, value: &Zval) -> Result<f64, Fault> {
    let value = value.dereference();
    let is_time =
        |object: &ZendObject| ClassEntry::try_find("DateTimeInterface").is_some_and(|class| object.instance_of(class));
    if value.is_long() || value.is_double() {
        return seconds(name, value);
    }
    let refused = || {
        let found = type_name(value);
        Fault::invalid(format!("{name} must be unix seconds (int or float) or a DateTimeInterface, not {found}"))
    };
    let object = value.object().filter(|object| is_time(object)).ok_or_else(refused)?;
    let formatted = call::method(object, "format", vec![&"U.u"])?;
    formatted.and_then(|text| text.string()).and_then(|text| text.parse().ok()).ok_or_else(|| {
        Fault::invalid(format!("{name}: {} has a format() of its own, which must know 'U.u'", type_name(value)))
    })
}

/// An argument that is neither left out nor null.
pub fn given(value: Option<&Zval>) -> Option<&Zval> {
    value.filter(|value| !value.dereference().is_null())
}

/// A span in seconds; the default when null.
pub fn span(name: &str, value: Option<&Zval>, default: Duration) -> Result<Duration, Fault> {
    given(value).map_or(Ok(default), |value| Ok(millis(name, value)?.to_duration()))
}

/// The span of a lease; the default when null.
pub fn lease_span(value: Option<&Zval>) -> Result<Duration, Fault> {
    given(value).map_or(Ok(duly::DEFAULT_LEASE), |value| Ok(duly::lease_from_seconds(seconds("lease", value)?)?))
}
