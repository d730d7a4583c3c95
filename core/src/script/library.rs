//! The Lua files that scripts share, in `core/lua/lib`, and the way they come into a script's text.

use once_cell::race::OnceBox;

use super::call::Script;
use super::declare::Clock;
use super::keys::FORMAT;

/// What a line begins with that stands for the files it names.
const INCLUDE: &str = "--- include: ";

macro_rules! library {
    ($($name:literal),*) => {
        /// The text of each file, by the name that an include gives.
        const LIBRARY: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../lua/lib/", $name, ".lua")))),*];
        $(const _: () = check_includes(include_str!(concat!("../../lua/lib/", $name, ".lua")));)*
    };
}

library!(
    "audit/examine_one",
    "back/coming_back",
    "back/lease_ended",
    "back/note",
    "back/reclaim_expired",
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
    "job/delayed_member",
    "job/fitting",
    "job/keeps_result",
    "job/leave_waiting",
    "job/remove",
    "job/resolve",
    "job/routing",
    "job/stale",
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
    "push/holder",
    "push/make_room",
    "push/pushed",
    "reserve/ahead",
    "reserve/check_types",
    "reserve/drop_large",
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
    "reserve/stale_run",
    "reserve/take",
    "reserve/take_places",
    "reserve/within_limits",
    "schedule/head",
    "settle/acks",
    "settle/keep_results",
    "settle/others",
    "settle/start",
    "topic/given_again",
    "topic/lost",
    "topic/member",
    "topic/pulled_long_ago",
    "topic/state",
    "topic/trim",
    "topic/unread",
    "wake/at",
    "wake/one",
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

/// Which code is part of a text.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) clock: Clock,
    pub(super) is_plain: bool,
    pub(super) is_usual: bool,
}

impl Parts {
    /// Appends a file line by line, without comments and indentation, because the server keeps and a fallback sends every byte.
    /// An include stands for the files that it names, wherever it is, so that functions which only a rare path needs are made in that
    /// path and cost the others nothing. What is between `--- if plain` or `--- if limited` and `--- end` is only there in that shape,
    /// and what is behind `--- else` in the other; the same with `usual` and `full`. `FORMAT` is the number of ours.
    pub(super) fn append(self, file: &str, code: &str, text: &mut String) {
        for line in self.lines(&altered(file, code)) {
            if let Some(names) = line.strip_prefix(INCLUDE) {
                names.split(", ").for_each(|name| self.append(name, library(name, self.clock), text));
            } else if !line.is_empty() && !line.starts_with("--") {
                text.push_str(&line.replace("FORMAT", &FORMAT.to_string()));
                text.push('\n');
            }
        }
    }

    /// The lines of a file that are in this text.
    fn lines(self, code: &str) -> impl Iterator<Item = &str> {
        let mut is_part = true;
        code.lines().map(str::trim).filter(move |line| {
            match *line {
                "--- if plain" => is_part = self.is_plain,
                "--- if limited" => is_part = !self.is_plain,
                "--- if usual" => is_part = self.is_usual,
                "--- if full" => is_part = !self.is_usual,
                "--- else" => is_part = !is_part,
                "--- end" => is_part = true,
                _ => {}
            }
            is_part
        })
    }

    /// The files of the library that such a text has, each as often as it has it.
    #[cfg(test)]
    pub(super) fn files(self, code: &'static str) -> Vec<&'static str> {
        let included = self.lines(code).filter_map(|line| line.strip_prefix(INCLUDE));
        let names = included.flat_map(|names| names.split(", "));
        names.flat_map(|name| [name].into_iter().chain(self.files(library(name, self.clock)))).collect()
    }
}

/// A script about keys that no declaration spells: those of others, or none of a queue.
pub(super) struct Undeclared {
    pub(super) name: &'static str,
    pub(super) body: &'static str,
}

/// One of `core/lua`, by its name there. An unknown include in it does not compile either.
macro_rules! undeclared {
    ($file:literal) => {
        $crate::script::library::Undeclared::new($file, include_str!(concat!("../../lua/", $file, ".lua")))
    };
}
pub(super) use undeclared;

impl Undeclared {
    pub(super) const fn new(name: &'static str, body: &'static str) -> Self {
        check_includes(body);
        Self { name, body }
    }

    /// As the server gets it.
    pub(super) fn assemble(&self) -> Script {
        let mut text = String::new();
        Parts { clock: Clock::Server, is_plain: false, is_usual: false }.append(self.name, self.body, &mut text);
        Script::new(text)
    }
}

/// Names the commands of the scripts that a user may not run.
pub(super) const PERMISSIONS: Undeclared = undeclared!("permissions");

pub(crate) fn permission_check() -> &'static Script {
    static SCRIPT: OnceBox<Script> = OnceBox::new();
    SCRIPT.get_or_init(|| Box::new(PERMISSIONS.assemble()))
}

#[cfg(not(test))]
fn altered<'a>(_file: &str, code: &'a str) -> std::borrow::Cow<'a, str> {
    code.into()
}

/// Lets `tools/mutants.py` take a guard out of a file without building anew: the file `DULY_MUTANT_FILE` has the text
/// `DULY_MUTANT_CODE`.
#[cfg(test)]
fn altered<'a>(file: &str, code: &'a str) -> std::borrow::Cow<'a, str> {
    if std::env::var("DULY_MUTANT_FILE").is_ok_and(|altered| altered == file) {
        return std::env::var("DULY_MUTANT_CODE").expect("`tools/mutants.py` sets both").into();
    }
    code.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::script::bridge;
    use crate::script::declare::tests::{all, parts};

    fn includes(code: &str) -> impl Iterator<Item = &str> {
        code.lines().filter_map(|line| line.trim().strip_prefix(INCLUDE)).flat_map(|names| names.split(", "))
    }

    #[test]
    fn every_file_of_the_library_is_in_a_script() {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let undeclared = bridge::UNDECLARED.iter().map(|script| script.body);
        let bodies = all().into_iter().map(|script| script.body).chain(undeclared);
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
