//! The scripts as the server gets them, looked at by the tools of Lua: no global, and nothing that luacheck finds.

#[path = "../../tests/support/reads.rs"]
mod reads;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use super::declare::tests::{all, bodies, lua, parts, variants};
use super::declare::{Clock, Extent, Kind, Shape, Variant};
use super::foreign::tests::all_foreign;
use reads::READS;

/// What Lua and the server offer, as far as the scripts use it. A name that is not here was not declared: the server forbids to
/// write it, and to read it is a mistake that only its path would show.
pub(super) const OFFERED: &[&str] = &[
    "ARGV", "KEYS", "error", "ipairs", "math", "pairs", "pcall", "redis", "string", "table", "tonumber", "tostring",
    "type", "unpack",
];

/// Every text once, with either clock and in every shape, and what to call it.
fn texts() -> Vec<(String, String)> {
    let foreign = all_foreign().map(|script| (script.assemble().text, script.name.replace('/', "_")));
    let mut texts: BTreeMap<_, _> = foreign.collect();
    for script in all() {
        for variant in variants() {
            texts.insert(script.assemble(variant).text, format!("{} ({variant:?})", script.name.replace('/', "_")));
        }
    }
    texts.into_iter().map(|(text, name)| (name, text)).collect()
}

fn output_of(command: &mut Command, input: &str) -> Output {
    let program = command.get_program().to_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{} ({error}): run tools/setup.sh", program.display()));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The instructions of this kind in this text, such as `GETGLOBAL`, and the names they are about.
pub(super) fn globals(text: &str) -> BTreeSet<(String, String)> {
    let output = output_of(Command::new("luac5.1").args(["-p", "-l", "-"]), text);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8(output.stdout).unwrap();
    let words = listing.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter_map(|words| {
            let kind = words.iter().find(|word| matches!(**word, "GETGLOBAL" | "SETGLOBAL"))?;
            Some(((*kind).to_owned(), (*words.last()?).to_owned()))
        })
        .collect()
}

#[test]
fn every_file_is_declared() {
    let declared = all().into_iter().map(|script| script.name).chain(all_foreign().map(|script| script.name));
    let declared: BTreeSet<String> = declared.map(str::to_owned).collect();
    assert_eq!(bodies(), declared);
    // `tools/mutants.py` calls both by these names.
    assert!(parts().is_disjoint(&declared));
}

#[test]
fn no_script_has_a_global_of_its_own() {
    for (name, text) in texts() {
        for (kind, global) in globals(&text) {
            assert_eq!(kind, "GETGLOBAL", "{name} writes the global {global}");
            assert!(OFFERED.contains(&&*global), "{name} reads the global {global}");
        }
    }
}

/// The check above can fail.
#[test]
fn a_forgotten_local_is_seen() {
    let read = |name: &str| ("GETGLOBAL".to_owned(), name.to_owned());
    let found = globals("local function f() return missing end\nforgotten = f()\nreturn KEYS[1]");
    assert_eq!(found, [read("KEYS"), read("missing"), ("SETGLOBAL".to_owned(), "forgotten".to_owned())].into());
}

/// Fields by their numbers are two lists that must agree.
#[test]
fn the_fields_of_a_queue_are_read_by_name_and_its_format_is_spelled_once() {
    for name in bodies().into_iter().chain(parts().iter().map(|part| format!("lib/{part}"))) {
        for line in lua(&name).lines() {
            let by_number = ["meta", "topic"].iter().any(|key| line.contains(&format!("= redis.call('HMGET', {key},")));
            assert!(!by_number, "{name}: {line}");
            let spelled =
                ["format > 2", "~= '2'", "== '2'", "'format', '2'"].iter().any(|format| line.contains(format));
            assert!(!spelled, "{name}: {line}");
        }
    }
}

fn commands(text: &str) -> BTreeSet<&str> {
    text.split("call('").skip(1).filter_map(|behind| behind.split('\'').next()).collect()
}

#[test]
fn what_only_reads_is_declared_so_and_includes_nothing_that_writes() {
    for script in all() {
        let text = script.assemble(Variant::default()).text;
        let writes: Vec<_> = commands(&text).into_iter().filter(|command| !READS.contains(command)).collect();
        assert_eq!(script.kind == Kind::Reads, writes.is_empty(), "{} may call {writes:?}", script.name);
    }
    assert_eq!(commands("x = redis.call('GET', a) redis.pcall('DEL', a)"), ["DEL", "GET"].into());
}

/// A line of a part that does something where it is included, and is not only a function or a constant.
fn acts(line: &str) -> bool {
    let is_constant =
        line.strip_prefix("local ").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
    let begins = [" ", "--", "local function", "end"];
    !line.is_empty() && !is_constant && !begins.iter().any(|begin| line.starts_with(begin))
}

#[test]
fn every_part_that_acts_says_what_it_needs_and_gives() {
    for name in parts() {
        let code = lua(&format!("lib/{name}"));
        let head: String = code.lines().take_while(|line| line.starts_with("--")).collect();
        let says = head.contains("Needs: ") || head.contains("Gives: ");
        assert!(says || !code.lines().any(acts), "{name} says neither what it needs nor what it gives");
    }
    assert!(acts("redis.call('HLEN', jobs)") && acts("for k = 1, 2 do") && acts("local found"));
    assert!(["local function f()", "  x()", "end", "local MOST = 3", "-- why", ""].iter().all(|line| !acts(line)));
}

/// Parts that a script may have in more than one of its paths, and why.
const IN_SEVERAL_PATHS: &[(&str, &str)] = &[
    ("call/allow_growing", "one command, in whichever path writes first"),
    (
        "call/clock",
        "an ack reads no clock, but for a place that it gives back; an answer that is given again ends its path",
    ),
    ("wake/one", "an ack wakes nobody, but for a place that it gives back"),
    ("reserve/find_ended", "settled outcomes may have been among what had ended (ADR 0019)"),
    ("job/routing", "functions of paths that most calls do not take"),
    ("job/expiry", "functions of paths that most calls do not take"),
    ("job/keeps_result", "functions of paths that most calls do not take"),
    ("job/fitting", "functions of paths that most calls do not take"),
    ("wake/promised", "a function of one line, and few calls wake somebody in two ways"),
    ("limits/parked", "functions of paths that most calls do not take"),
    ("reserve/ahead", "a constant, once of a path that most calls do not take"),
];

#[test]
fn a_script_has_each_part_once() {
    let mut several = BTreeSet::new();
    for script in all() {
        for variant in variants() {
            let parts = script.shown_in(variant).files(script.body);
            let is_again = |(at, part): &(usize, &&str)| parts[..*at].contains(part);
            for (_, part) in parts.iter().enumerate().filter(is_again) {
                let has_reason = IN_SEVERAL_PATHS.iter().any(|(known, _)| known == part);
                assert!(has_reason, "{} has {part} more than once ({variant:?})", script.name);
                several.insert(*part);
            }
        }
    }
    let known: BTreeSet<&str> = IN_SEVERAL_PATHS.iter().map(|(part, _)| *part).collect();
    assert_eq!(several, known, "an exception that is none any more");
}

/// It had 961 lines when each call of a reserve got all that any queue may need.
#[test]
fn a_usual_reserve_of_a_queue_without_limits_is_half_of_what_it_was() {
    let reserve = all().into_iter().find(|script| script.name == "reserve").unwrap();
    let usual = Variant { clock: Clock::Server, shape: Shape::Plain, extent: Extent::Usual };
    let mut text = String::new();
    reserve.shown_in(usual).append(reserve.name, reserve.body, &mut text);
    assert!(text.lines().count() <= 961 / 2, "{} lines", text.lines().count());
}

/// What luacheck says of these texts, a finding a line.
fn luacheck(texts: Vec<(String, String)>, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in texts {
        fs::write(folder.path().join(format!("{name}.lua")), text).unwrap();
    }
    // The folder is the first one: what stands behind `--only` would be taken for codes.
    let common =
        [".", "--no-config", "--std", "lua51", "--no-max-line-length", "--no-color", "--codes", "--formatter", "plain"];
    let output = output_of(Command::new("luacheck").args(common).args(arguments).current_dir(folder.path()), "");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Names of keys and arguments that a body or a part declares once more.
fn declared_again(texts: Vec<(String, String)>, is_of_header: impl Fn(&str, usize) -> bool) -> Vec<String> {
    let found = luacheck(texts, &["--only", "4"]);
    let is_meant = |finding: &&str| {
        let text = finding.split_once(".lua:").map_or("", |(text, _)| text.trim_start_matches("./"));
        // It ends with the line on which the name is declared first.
        let line = finding.rsplit(' ').find_map(|word| word.parse().ok());
        line.is_some_and(|line| is_of_header(text, line))
    };
    found.lines().filter(is_meant).map(str::to_owned).collect()
}

#[test]
fn no_name_of_a_declaration_is_declared_again() {
    // Both clocks have the same names.
    let of_the_server = || variants().filter(|variant| variant.clock == Clock::Server);
    let (mut texts, mut headers) = (BTreeMap::new(), BTreeMap::new());
    for script in all() {
        for variant in of_the_server() {
            let name = format!("{} ({variant:?})", script.name.replace('/', "_"));
            headers.insert(name.clone(), script.header(variant).lines().count());
            texts.insert(script.assemble(variant).text, name);
        }
    }
    for script in all_foreign() {
        headers.insert(script.name.replace('/', "_"), script.header().lines().count());
        texts.insert(script.assemble().text, script.name.replace('/', "_"));
    }
    let texts = texts.into_iter().map(|(text, name)| (name, text)).collect();
    let found = declared_again(texts, |name, line| line <= headers[name]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The check above can fail.
#[test]
fn a_name_that_is_declared_again_is_seen() {
    let text = "local a = 1\nlocal b = 2\ndo local a = b + a\nreturn a end".to_owned();
    let texts = || vec![("x (y)".to_owned(), text.clone())];
    assert_eq!(declared_again(texts(), |name, line| name == "x (y)" && line == 1).len(), 1);
    assert_eq!(declared_again(texts(), |_, line| line > 1).len(), 0);
}

#[test]
fn luacheck_finds_nothing() {
    // 211, 311: what is declared for every script, and what a shared file gives, may be unused in one of them. 4: a file that is
    // included in two paths of a script declares its names in each of them again.
    let ignored = ["--ignore", "211", "311/limits", "4"];
    let globals = ["--read-globals", "redis", "KEYS", "--globals", "ARGV"];
    let found = luacheck(texts(), &[&ignored[..], &globals].concat());
    assert!(found.is_empty(), "{found}");
}
