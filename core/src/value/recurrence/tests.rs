use jiff::Timestamp;

use super::*;
use crate::value::error::ErrorKind;

fn at(text: &str) -> Millis {
    Millis::new(text.parse::<Timestamp>().unwrap().as_millisecond().try_into().unwrap())
}

/// The next slots behind a moment, as they are written.
fn slots(pattern: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let recurrence = Recurrence::cron(pattern, zone).unwrap();
    let mut slots: Vec<Millis> = Vec::new();
    while slots.len() < count {
        let next = recurrence.next_after(*slots.last().unwrap_or(&at(from))).unwrap();
        slots.push(next);
    }
    slots.into_iter().map(written).collect()
}

#[test]
fn patterns_mean_what_they_mean_elsewhere() {
    for (pattern, expected) in [
        ("30 3 * * *", "2026-01-02T03:30:00Z"),
        ("15 30 3 * * *", "2026-01-02T03:30:15Z"),
        ("*/15 * * * *", "2026-01-01T12:15:00Z"),
        ("0 0 * * mon", "2026-01-05T00:00:00Z"),
        ("0 0 * * 7", "2026-01-04T00:00:00Z"),
        ("0 0 1 feb *", "2026-02-01T00:00:00Z"),
        ("0 0 L * *", "2026-01-31T00:00:00Z"),
        ("0 0 * * fri#2", "2026-01-09T00:00:00Z"),
        ("0 0 * * friL", "2026-01-30T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("0 0 13 * fri", "2026-01-02T00:00:00Z"),
        ("@hourly", "2026-01-01T13:00:00Z"),
        ("@daily", "2026-01-02T00:00:00Z"),
        ("@midnight", "2026-01-02T00:00:00Z"),
        ("@annually", "2027-01-01T00:00:00Z"),
        ("*/60 * * * *", "2026-01-01T13:00:00Z"),
        ("0 0 */31 */12 *", "2027-01-01T00:00:00Z"),
        ("0 0 * * */7", "2026-01-04T00:00:00Z"),
        ("@weekly", "2026-01-04T00:00:00Z"),
        ("@monthly", "2026-02-01T00:00:00Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
    ] {
        assert_eq!(slots(pattern, "utc", "2026-01-01T12:00:00Z", 1), [expected], "{pattern}");
    }
}

#[test]
fn what_is_no_pattern_zone_or_interval_is_refused() {
    let long = "0".repeat(257);
    let empty = [", 3 * * *", "0 , * * *", "0 0 * , *", "0 0 , * *", "0 0 * * ,", "1, * * * *", ", * * * * *"];
    let others = ["", "* * * *", "* * * * * * *", "60 * * * *", "@often", "0 0 30 13 *", "a b c d e", &long];
    for pattern in empty.into_iter().chain(others) {
        let refused = Recurrence::cron(pattern, "UTC").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{pattern}");
    }
    for zone in ["", "Mars/Base", "Europe/Berlin\n"] {
        assert_eq!(Recurrence::cron("@daily", zone).unwrap_err().kind(), ErrorKind::InvalidArgument, "{zone:?}");
    }
    for every in [0, 99, MAX_DELAY.get() + 1] {
        let refused = Recurrence::every(Millis::new(every), Millis::ZERO).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{every}");
    }
    assert_eq!(Recurrence::cron("0 0 30 2 *", "UTC").unwrap().next_after(at("2026-01-01T00:00:00Z")), None);
}

#[test]
fn a_step_that_is_larger_than_its_field_is_refused() {
    let refused = |pattern: &str| Recurrence::cron(pattern, "UTC").unwrap_err().to_string();
    for (pattern, field) in [
        ("*/61 * * * *", "a step of 61 is larger than the field of minutes (0 to 59)"),
        ("0,5-50/61 * * * *", "a step of 61 is larger than the field of minutes (0 to 59)"),
        ("*/61 0 * * * *", "a step of 61 is larger than the field of seconds (0 to 59)"),
        ("0 */25 * * *", "a step of 25 is larger than the field of hours (0 to 23)"),
        ("0 0 */32 * *", "a step of 32 is larger than the field of days of the month (1 to 31)"),
        ("0 0 1 */13 *", "a step of 13 is larger than the field of months (1 to 12)"),
        ("0 0 * * */8", "a step of 8 is larger than the field of weekdays (0 to 6)"),
    ] {
        assert_eq!(refused(pattern), format!("'{pattern}' is no cron pattern: {field}"));
    }
    // What an earlier version stored goes on.
    let stored = Recurrence::stored_cron("*/61 * * * *", "UTC").unwrap();
    assert_eq!(stored.next_after(at("2026-01-01T12:00:00Z")), Some(at("2026-01-01T13:00:00Z")));
}

#[test]
fn a_refusal_has_the_whole_reason() {
    let refused = |pattern: &str| Recurrence::cron(pattern, "UTC").unwrap_err().to_string();
    let said = refused("5/10 * * * *");
    assert!(said.contains("\"X-Y/10\" for range steps.)"), "{said}");
    let said = refused(&format!("{} * * * *", "x".repeat(100)));
    assert!(said.contains(&format!("'{}…' is no cron pattern", "x".repeat(64))), "{said}");
}

#[test]
fn patterns_and_zones_are_kept_in_one_spelling() {
    let kept = Recurrence::cron(" 0  9 * * mon-fri ", "europe/berlin").unwrap();
    assert_eq!(kept.pattern(), Some(("0 9 * * MON-FRI", "Europe/Berlin")));
    assert_eq!(kept, Recurrence::cron("0 9 * * MON-FRI", "Europe/Berlin").unwrap());
    assert_eq!(Recurrence::cron("@Daily", "utc").unwrap().pattern(), Some(("@daily", "UTC")));
    assert_eq!(Recurrence::cron("@Midnight", "utc").unwrap().pattern(), Some(("@daily", "UTC")));
}

#[test]
fn a_fixed_time_that_is_left_out_runs_at_the_first_moment_behind() {
    // Berlin goes from 02:00 to 03:00 on 29 March 2026, at 01:00 UTC.
    let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    assert_eq!(slots("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3), expected);
    // Of two that are left out, one: they would run at the same moment.
    let expected = ["2026-03-28T01:45:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z"];
    assert_eq!(slots("15,45 2 * * *", "Europe/Berlin", "2026-03-28T01:15:00Z", 3), expected);
    // Samoa had no 30 December 2011.
    let expected = ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"];
    assert_eq!(slots("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3), expected);
}

#[test]
fn a_fixed_time_that_comes_twice_runs_once() {
    // Berlin goes from 03:00 to 02:00 on 25 October 2026, at 01:00 UTC.
    let expected = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    assert_eq!(slots("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", 3), expected);
    let expected = ["2026-10-25T00:10:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:10:00Z"];
    assert_eq!(slots("10,30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3), expected);
    // Asked between the two.
    assert_eq!(slots("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1), ["2026-10-26T01:30:00Z"]);
}

#[test]
fn what_follows_the_clock_runs_in_both_hours_and_leaves_out_what_the_clock_does() {
    let expected = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
    assert_eq!(slots("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3), expected);
    let expected = ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"];
    assert_eq!(slots("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2), expected);
    // The hours 1 to 2 and the steps of an hour.
    let expected = ["2026-10-25T00:40:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:20:00Z", "2026-10-25T01:40:00Z"];
    assert_eq!(slots("*/20 1-2 * * *", "Europe/Berlin", "2026-10-25T00:20:00Z", 4), expected);
}

#[test]
fn intervals_are_counted_from_their_anchor() {
    let every = |every, anchor, moment| {
        let next = Recurrence::every(Millis::new(every), Millis::new(anchor)).unwrap().next_after(Millis::new(moment));
        next.unwrap().get()
    };
    assert_eq!([every(1000, 0, 0), every(1000, 0, 999), every(1000, 0, 1000)], [1000, 1000, 2000]);
    assert_eq!([every(1000, 300, 1300), every(1000, 5_000_300, 1300), every(1000, 300, 0)], [2300, 2300, 300]);
}

#[test]
fn a_jitter_is_the_same_everywhere_and_spread_evenly() {
    let hour = Millis::from_secs(3600);
    let of = |number: u64| jitter("report", Millis::new(number * 3_600_000), hour).get();
    assert_eq!(jitter("report", Millis::from_secs(1_790_000_000), hour), Millis::new(JITTER_OF_REPORT));
    assert_eq!(jitter("report", Millis::ZERO, Millis::ZERO), Millis::ZERO);
    let mut quarters = [0; 4];
    (0..4000).for_each(|number| quarters[usize::try_from(of(number) / 900_000).unwrap()] += 1);
    assert!(quarters.iter().all(|&count| (850..1150).contains(&count)), "{quarters:?}");
}

/// Another value would fire schedules twice or never while two versions run.
const JITTER_OF_REPORT: u64 = 2_821_947;

#[test]
fn words_of_catching_up_come_back() {
    for (word, catch_up) in [("latest", CatchUp::Latest), ("skip", CatchUp::Skip), ("5", CatchUp::All(5))] {
        assert_eq!(word.parse::<CatchUp>().unwrap(), catch_up);
        assert_eq!(catch_up.to_string(), word);
    }
    for wrong in ["", "all", "0", "101", "-1"] {
        assert_eq!(wrong.parse::<CatchUp>().unwrap_err().kind(), ErrorKind::InvalidArgument, "{wrong}");
    }
}
