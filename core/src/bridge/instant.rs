//! Moments as text, as ISO 8601 and RFC 3339 write them.

/// In ms since 1970, rounded up; None if it is no moment, or says no time zone.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (date, clock) = text.split_once(['T', ' '])?;
    let mut parts = date.split('-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    if parts.next().is_some() || !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    if !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let (clock, zone_s) = if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        (clock, 0)
    } else {
        let (clock, zone) = clock.split_at(clock.rfind(['+', '-'])?);
        let (sign, zone) = (if zone.starts_with('-') { -1 } else { 1 }, &zone[1..]);
        let (hours, minutes) = zone.split_once(':').or_else(|| zone.split_at_checked(2))?;
        let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
        if hours > 23 || minutes > 59 {
            return None;
        }
        (clock, sign * (hours * 3600 + minutes * 60))
    };
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = whole.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| number(second, 2))?;
    let is_right = hour < 24 && minute < 60 && second < 61 && parts.next().is_none();
    if !is_right || fraction.is_empty() || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let thousandths: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let rest = fraction.get(3..).is_some_and(|rest| rest.bytes().any(|digit| digit != b'0'));
    let seconds = days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone_s;
    u64::try_from(seconds * 1000 + thousandths + i64::from(rest)).ok()
}

fn number(digits: &str, length: usize) -> Option<i64> {
    (digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = |years: i64| years / 4 - years / 100 + years / 400;
    let years = (year - 1970) * 365 + leap_days(before) - leap_days(1969);
    years + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn moments_are_read_with_their_time_zone() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-23T21:24:57.778699+00:00", 1_795_469_097_779),
            ("2026-11-23T22:24:57+01:00", 1_795_469_097_000),
            ("2024-02-29 12:00:00.5-0330", 1_709_220_600_500),
            ("2100-03-01T00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(parse(text), Some(ms), "{text}");
        }
        for wrong in [
            "",
            "2026-11-23",
            "2026-11-23T21:24:57",
            "2025-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-23T25:00:00Z",
            "2026-11-23T21:24:57.Z",
            "1969-12-31T23:59:59Z",
            "2026-11-23T21:24:57+0é:00",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
