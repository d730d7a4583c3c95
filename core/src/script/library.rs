//! The Lua files that scripts share, in `core/lua/lib`.

use super::declare::Clock;

/// What a line begins with that stands for the files it names.
pub(super) const INCLUDE: &str = "--- include: ";

macro_rules! library {
    ($($name:literal),*) => {
        /// The text of each file, by the name that an include gives.
        const LIBRARY: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../lua/lib/", $name, ".lua")))),*];
        $(const _: () = check_includes(include_str!(concat!("../../lua/lib/", $name, ".lua")));)*
    };
}

library!(
    "audit/entries_of",
    "audit/examine_one",
    "audit/stale_sum",
    "back/coming_back",
    "back/lease_ended",
    "back/note",
    "back/reclaim_ended",
    "back/to_head",
    "bridge/old_page",
    "call/allow_growing",
    "call/clock",
    "call/first_use",
    "call/meta",
    "call/newer_format",
    "call/once",
    "failed/note_unheard",
    "failed/set",
    "failed/shorten_line",
    "failed/unheard_line",
    "history/events",
    "history/keep",
    "job/delayed_member",
    "job/expiry",
    "job/fitting",
    "job/keeps_result",
    "job/leave_waiting",
    "job/put_first",
    "job/remove",
    "job/resolve",
    "job/routing",
    "job/stale",
    "job/stale_run",
    "job/state_of",
    "limits/count_reserved",
    "limits/found_again",
    "limits/left",
    "limits/limited",
    "limits/live",
    "limits/merge",
    "limits/parked",
    "limits/place_freed",
    "limits/rate",
    "limits/usage",
    "limits/wake_for_place",
    "lock/given_up",
    "purge/head_of_state",
    "purge/out_of_state",
    "push/due",
    "push/expired_holder",
    "push/fits",
    "push/holder",
    "push/left_out",
    "push/make_room",
    "push/pushed",
    "rates/add",
    "reserve/ahead",
    "reserve/check_types",
    "reserve/drop_expired",
    "reserve/drop_large",
    "reserve/find_ended",
    "reserve/find_expired",
    "reserve/find_full",
    "reserve/find_stale",
    "reserve/grant",
    "reserve/granted_again",
    "reserve/hand_over",
    "reserve/next_token",
    "reserve/none_granted",
    "reserve/promote_due",
    "reserve/read_chunk",
    "reserve/set_back",
    "reserve/take",
    "reserve/take_places",
    "reserve/within_limits",
    "schedule/head",
    "settle/acks",
    "settle/keep_results",
    "settle/others",
    "settle/start",
    "topic/fields",
    "topic/first_of_ours",
    "topic/given_again",
    "topic/lost",
    "topic/member",
    "topic/position",
    "topic/pulled_long_ago",
    "topic/state",
    "topic/trim",
    "topic/unread",
    "wake/at",
    "wake/one",
    "wake/promised",
    "wake/waiters"
);

const MANUAL_CLOCK: &str = include_str!("../../lua/lib/call/clock_manual.lua");

/// Stops the compiler at a text that includes a file which is not in the library, and says its name.
pub(super) const fn check_includes(text: &str) {
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        if *first != b'-' || !starts_with(rest, INCLUDE.as_bytes()) {
            rest = behind;
            continue;
        }
        (_, rest) = rest.split_at(INCLUDE.len());
        let mut names;
        (names, rest) = rest.split_at(before(rest, b'\n'));
        loop {
            let (name, others) = names.split_at(before(names, b','));
            check_name(name);
            if others.is_empty() {
                break;
            }
            (_, names) = others.split_at(", ".len());
        }
    }
}

const fn check_name(name: &[u8]) {
    let mut at = 0;
    while at < LIBRARY.len() {
        let known = LIBRARY[at].0.as_bytes();
        if known.len() == name.len() && starts_with(name, known) {
            return;
        }
        at += 1;
    }
    match std::str::from_utf8(name) {
        Ok(name) => panic!("{}", name),
        Err(_) => panic!("an include that is not UTF-8"),
    }
}

const fn starts_with(text: &[u8], start: &[u8]) -> bool {
    let mut at = 0;
    while at < start.len() {
        if at == text.len() || text[at] != start[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// `==`, which is none of the compiler's functions.
pub(super) const fn is_same(text: &str, other: &str) -> bool {
    text.len() == other.len() && starts_with(text.as_bytes(), other.as_bytes())
}

/// How many bytes come before this one.
const fn before(text: &[u8], byte: u8) -> usize {
    let mut at = 0;
    while at < text.len() && text[at] != byte {
        at += 1;
    }
    at
}

pub(super) fn library(name: &str, clock: Clock) -> &'static str {
    if name == "call/clock" && clock == Clock::Manual {
        return MANUAL_CLOCK;
    }
    // With another name the crate is not compiled.
    LIBRARY.iter().find(|(known, _)| *known == name).map_or("", |(_, code)| code)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::script::declare::tests::{all, parts};
    use crate::script::foreign::tests::all_foreign;

    fn includes(code: &str) -> impl Iterator<Item = &str> {
        code.lines().filter_map(|line| line.trim().strip_prefix(INCLUDE)).flat_map(|names| names.split(", "))
    }

    #[test]
    fn every_file_of_the_library_is_in_a_script() {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let bodies = all().into_iter().map(|script| script.body).chain(all_foreign().map(|script| script.body));
        let mut next: Vec<&str> = bodies.flat_map(includes).collect();
        while let Some(name) = next.pop() {
            if used.insert(name) {
                next.extend(includes(library(name, Clock::Server)));
            }
        }
        used.insert("call/clock_manual");
        let used: BTreeSet<String> = used.into_iter().map(str::to_owned).collect();
        assert_eq!(parts(), used);
        assert!(LIBRARY.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn an_include_that_is_not_there_does_not_compile() {
        for known in
            ["", "return 1", "--- include: call/once\n", "  --- include: call/clock, job/stale\n--- include: wake/at"]
        {
            check_includes(known);
        }
        for unknown in [
            "--- include: onc\n",
            "a\n  --- include: call/clock, once\nb",
            "--- include: ",
            "--- include: call/clock,call/once",
        ] {
            assert!(std::panic::catch_unwind(|| check_includes(unknown)).is_err(), "{unknown}");
        }
    }
}
