//! The heads of the files that scripts share: which names a part reads and does not declare itself (`Needs:`), and which it leaves to
//! what stands behind it (`Gives:`): those that it declares and another file uses, and those that it writes and another declared. The
//! compiler of Lua says which names those are.

use std::collections::{BTreeMap, BTreeSet};

use super::declare::tests::{all, parts, variants};
use super::declare::{Declaration, Declared as _, Variant};
use super::foreign::tests::all_foreign;
use super::library::library;
use super::lint::{OFFERED, globals};
use super::reserve::Reserve;
use super::text::Parts;

type Names = BTreeSet<String>;

/// The words of Lua that are no names.
const RESERVED: &[&str] = &[
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
    "repeat", "return", "then", "true", "until", "while",
];

fn is_name(word: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !word.is_empty() && word.chars().all(is_letter) && !word.starts_with(|letter: char| letter.is_ascii_digit())
}

/// The comment that a file begins with, up to the first mark of a guard.
fn head_of(code: &str) -> String {
    let lines = code.lines().take_while(|line| line.starts_with("-- ") && !line.starts_with("-- with"));
    lines.map(|line| &line[3..]).collect::<Vec<_>>().join(" ")
}

/// The names in backticks, and those of parts with their folders, behind `Needs:` and behind `Gives:`.
fn said_in(head: &str) -> (Names, Names) {
    let is_meant = |word: &&str| word.split('/').all(is_name);
    let names = |text: &str| text.split('`').skip(1).step_by(2).filter(is_meant).map(str::to_owned).collect();
    let (before, gives) = head.split_once("Gives: ").unwrap_or((head, ""));
    let (_, needs) = before.split_once("Needs: ").unwrap_or(("", ""));
    (names(needs), names(gives))
}

/// The globals of a text that may be the middle of a loop.
fn free_in(text: &str) -> BTreeSet<(String, String)> {
    globals(&format!("while true do\n{text}\nend"))
}

/// What a part reads or writes and does not declare; what it leaves behind: local names, and those that it has written; and the latter.
fn free_left_and_written(text: &str) -> (Names, Names, Names) {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let words: Names = words.filter(|word| is_name(word) && !RESERVED.contains(word)).map(str::to_owned).collect();
    // A name that is still a global behind it was not declared there.
    let reads = words.iter().map(|word| format!("READ({word})\n")).collect::<Vec<_>>().concat();
    let unknown: Names = free_in(&format!("{text}\n{reads}")).into_iter().map(|(_, name)| name).collect();
    let free = free_in(text);
    let written: Names = free.iter().filter(|(kind, _)| kind == "SETGLOBAL").map(|(_, name)| name.clone()).collect();
    let left = words.difference(&unknown).chain(&written).cloned().collect();
    (free.into_iter().map(|(_, name)| name).collect(), left, written)
}

/// What a text uses of one of its parts: the names that nobody has declared when the part is taken out.
fn used_of(part: &str, text: &str) -> Names {
    let free = |text: &str| free_in(text).into_iter().map(|(_, name)| name).collect::<Names>();
    &free(&text.replace(part, "")) - &free(text)
}

/// The text of a part with those that it includes.
fn text_of(part: &str, shown: Parts) -> String {
    let mut text = String::new();
    shown.append(part, library(part, shown.clock), &mut text);
    text
}

/// What has each variant of a file.
fn everything() -> Declaration {
    Declaration { is_shaped: true, has_extents: true, ..Reserve::DECLARATION }
}

struct Part {
    name: String,
    needs: Names,
    gives: Names,
    free: Names,
    left: Names,
    written: Names,
}

impl Part {
    fn read(name: String) -> Self {
        let (needs, gives) = said_in(&head_of(library(&name, Variant::default().clock)));
        let everything = everything();
        let texts: BTreeSet<String> = variants().map(|variant| text_of(&name, everything.shown_in(variant))).collect();
        let (mut free, mut left, mut written) = (Names::new(), Names::new(), Names::new());
        for text in texts {
            let (own_free, own_left, own_written) = free_left_and_written(&text);
            free.extend(own_free);
            left.extend(own_left);
            written.extend(own_written);
        }
        Self { name, needs, gives, free, left, written }
    }

    /// The names that the words of a head mean: themselves, and what the parts give that they name.
    fn all(words: &Names, parts: &BTreeMap<String, Self>) -> Names {
        let given = |word: &String| parts.get(word).map(|part| &part.left).into_iter().flatten();
        words.iter().flat_map(|word| given(word).chain([word])).cloned().collect()
    }
}

/// What all scripts with this part find declared: the keys and arguments that they have in common.
fn declared_around() -> BTreeMap<&'static str, Names> {
    // Where a test moves the clock, each script has the key that it is in.
    let of_a_test = Names::from(["meta".to_owned()]);
    let mut around: BTreeMap<&str, Names> = BTreeMap::from([("call/clock", of_a_test.clone())]);
    for script in all() {
        let declared: Names = script.names().map(str::to_owned).chain(of_a_test.clone()).collect();
        for variant in variants() {
            for part in script.shown_in(variant).files(script.body) {
                let known = around.entry(part).or_insert_with(|| declared.clone());
                known.retain(|name| declared.contains(name));
            }
        }
    }
    for script in all_foreign() {
        let declared: Names = script
            .keys
            .iter()
            .chain(script.arguments.iter().map(|(name, _)| name))
            .map(|name| (*name).to_owned())
            .collect();
        for part in everything().shown_in(Variant::default()).files(script.body) {
            let known = around.entry(part).or_insert_with(|| declared.clone());
            known.retain(|name| declared.contains(name));
        }
    }
    around
}

fn read_all() -> BTreeMap<String, Part> {
    parts().into_iter().map(|name| (name.clone(), Part::read(name))).collect()
}

#[test]
fn a_part_needs_what_its_head_says_and_gives_it() {
    let parts = read_all();
    let around = declared_around();
    let mut wrong = Vec::new();
    for part in parts.values() {
        let needed = Part::all(&part.needs, &parts);
        let is_in = |word: &str, names: &Names| !Part::all(&[word.to_owned()].into(), &parts).is_disjoint(names);
        let declared = around.get(part.name.as_str()).into_iter().flatten();
        let offered: Names = declared.cloned().chain(OFFERED.iter().map(|name| (*name).to_owned())).collect();
        let unsaid: Vec<_> =
            part.free.iter().filter(|name| !needed.contains(*name) && !offered.contains(*name)).collect();
        let idle: Vec<_> = part.needs.iter().filter(|word| !is_in(word, &part.free)).collect();
        let not_given: Vec<_> = part.gives.iter().filter(|word| !is_in(word, &part.left)).collect();
        let given = Part::all(&part.gives, &parts);
        let not_said: Vec<_> = part.written.difference(&given).collect();
        for (what, names) in [
            ("reads, and does not say so", unsaid),
            ("does not need", idle),
            ("does not give", not_given),
            ("writes, and does not say so", not_said),
        ] {
            if !names.is_empty() {
                wrong.push(format!("{} {what}: {names:?}", part.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each text once, and the parts in it with theirs.
fn texts_with_parts() -> BTreeMap<String, BTreeMap<&'static str, String>> {
    let everything = everything();
    let of_queues = all().into_iter().flat_map(|script| {
        let shown: Vec<_> = variants().map(|variant| script.shown_in(variant)).collect();
        shown.into_iter().map(move |shown| (script.name, script.body, shown))
    });
    let foreign = all_foreign().map(|script| (script.name, script.body, everything.shown_in(Variant::default())));
    let with_parts = of_queues.chain(foreign).map(|(name, body, shown)| {
        let mut text = String::new();
        shown.append(name, body, &mut text);
        (text, shown.files(body).into_iter().map(|part| (part, text_of(part, shown))).collect())
    });
    with_parts.collect()
}

#[test]
fn what_others_use_of_a_part_its_head_gives() {
    let parts = read_all();
    let mut unsaid: BTreeMap<&str, Names> = BTreeMap::new();
    for (text, with) in texts_with_parts() {
        for (name, part) in with {
            let given = Part::all(&parts[name].gives, &parts);
            // Most names that it leaves are its own, and those of others are not among them.
            let may_lack =
                parts[name].left.difference(&given).any(|left| text.replace(&part, "").contains(left.as_str()));
            if may_lack {
                unsaid.entry(name).or_default().extend(&used_of(&part, &text) - &given);
            }
        }
    }
    unsaid.retain(|_, names| !names.is_empty());
    assert!(unsaid.is_empty(), "used, and not said to be given: {unsaid:#?}");
}

/// The checks above can fail.
#[test]
fn what_a_part_reads_and_leaves_is_seen() {
    let names = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Names>();
    let text = "local given = needed\nwritten = 1\nif given then break end\ndo local inner = 2 end";
    let (free, left, written) = free_left_and_written(text);
    assert_eq!((free, left), (names(&["needed", "written"]), names(&["given", "written"])));
    assert_eq!(written, names(&["written"]));
    let part = "local used, idle = 1, 2\n";
    assert_eq!(used_of(part, &format!("local own = key\n{part}return own + used")), names(&["used"]));
    let head =
        head_of("-- A part. Needs: `a` (`<b> <c>`), what `d`\n-- gives. Gives: `e`.\n-- with `f`: g\nlocal e = a");
    assert_eq!(said_in(&head), (names(&["a", "d"]), names(&["e"])));
    assert_eq!(said_in("Gives: nothing."), (names(&[]), names(&[])));
}
