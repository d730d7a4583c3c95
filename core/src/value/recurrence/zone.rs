//! Time zones, with the data that duly brings along: every program of a version knows the same rules, whatever its host has.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::value::error::Error;
use crate::value::time::Millis;

/// More than any change of an offset, such as that of an island that went over the date line.
const LONGEST_CHANGE: SignedDuration = SignedDuration::from_hours(26);

/// The zone of this name, and the name as it is written. Errors: `InvalidArgument`.
pub(super) fn zone(name: &str) -> Result<(TimeZone, String), Error> {
    if name.eq_ignore_ascii_case("utc") {
        return Ok((TimeZone::UTC, "UTC".to_owned()));
    }
    let unknown = |_| Error::invalid(format!("'{}' is no time zone: give one such as 'Europe/Berlin'", shown(name)));
    let zone = TimeZoneDatabase::bundled().get(name).map_err(unknown)?;
    let written = zone.iana_name().unwrap_or(name).to_owned();
    Ok((zone, written))
}

/// What may be shown of a text that is wrong.
pub(super) fn shown(text: &str) -> String {
    shortened(text, 64)
}

/// Its first characters, and a mark if there are more.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let mut chars = text.chars().filter(|c| !c.is_control());
    let mut shortened: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() {
        shortened.push('…');
    }
    shortened
}

pub(super) fn timestamp(moment: Millis) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(moment.get()).ok()?).ok()
}

pub(super) fn millis(at: Timestamp) -> Option<Millis> {
    u64::try_from(at.as_millisecond()).ok().map(Millis::new)
}

/// Does the offset change around this moment?
pub(super) fn changes_around(zone: &TimeZone, at: Timestamp) -> bool {
    let (Ok(before), Ok(behind)) = (at.checked_sub(LONGEST_CHANGE), at.checked_add(LONGEST_CHANGE)) else {
        return true;
    };
    zone.preceding(behind).next().is_some_and(|change| change.timestamp() >= before)
}

/// The local time from which on a clock may have shown times that belong to moments behind this one.
pub(super) fn earliest_local(zone: &TimeZone, at: Timestamp) -> Option<DateTime> {
    let local = zone.to_datetime(at);
    if changes_around(zone, at) { local.checked_sub(LONGEST_CHANGE).ok() } else { Some(local) }
}

/// When a clock shows this time for the first time; or, if it leaves it out, the first moment behind.
pub(super) fn moment_of(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
        AmbiguousOffset::Gap { before, .. } => {
            // By the offset that no longer holds, the moment is behind the change or at it.
            let behind = before.to_timestamp(local).ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
            zone.preceding(behind).next().map(|change| change.timestamp())
        }
    }
}
