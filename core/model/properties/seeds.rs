//! The fuzz targets of `core/fuzz` on their seeds, among which is whatever made one fail, and on damaged ones.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::sample::select;

use super::{damaged, holds_in_batches};
use crate::fuzzing::TARGETS;

/// Of all that the targets take.
const WORDS: &[&str] = &[
    "\n",
    "\t",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "\\",
    ":",
    ",",
    ";",
    "0",
    "1",
    "-1",
    "1.5",
    "1e400",
    "18446744073709551615",
    "9007199254740993",
    "null",
    "true",
    "\"data\":",
    "\"job\":",
    "\"x\":1,",
    "\\u0000",
    "\\ud83d",
    "\u{8ba2}",
    " ",
    "*",
    "/",
    "L",
    "W",
    "#",
    "@daily",
    "29",
    "31",
    "MON",
    "Europe/Berlin",
    "redis",
    "://",
    "@",
    "?",
    "%",
    "%2F",
    "s3cr3t",
    "=",
    "Z",
    "+00:00",
    "2026",
    "T",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let seeds = fs::read_dir(folder().join("seeds").join(target)).unwrap();
    seeds.map(|seed| fs::read(seed.unwrap().path()).unwrap()).collect()
}

#[test]
fn each_target_is_a_program_with_seeds() {
    let names = |folder: PathBuf| {
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let mut names: Vec<_> = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let known: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(folder().join("seeds")), known);
    assert_eq!(names(folder().join("fuzz_targets")), known);
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    for name in known {
        let file = format!("fuzz_targets/{name}.rs");
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"{file}\"\n")), "{name}");
        let code = fs::read_to_string(folder().join(file)).unwrap();
        assert!(code.contains(&format!("|bytes: &[u8]| duly::fuzzing::{name}(bytes)")), "{name}");
    }
}

#[test]
fn targets_are_built_of_the_versions_that_duly_is_built_of() {
    let packages = |file: &str| {
        let lock = fs::read_to_string(folder().join(file)).unwrap();
        let lines: Vec<_> = lock.lines().collect();
        let named = lines.windows(2).filter(|pair| pair[0].starts_with("name = ") && pair[1].starts_with("version = "));
        named.map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect::<Vec<_>>()
    };
    let ours = packages("../../Cargo.lock");
    for (name, version) in packages("Cargo.lock") {
        let mut versions = ours.iter().filter(|package| package.0 == name).peekable();
        let is_ours = versions.peek().is_none() || versions.any(|package| package.1 == version);
        // Then `cargo fetch --manifest-path core/fuzz/Cargo.toml` adds what only the targets need.
        assert!(is_ours, "copy Cargo.lock to core/fuzz: {name}, {version}");
    }
}

#[test]
fn what_fuzz_targets_check_holds_of_each_seed() {
    for (name, target) in TARGETS {
        for seed in seeds(name) {
            println!("{name}: {}", seed.escape_ascii());
            target(&seed);
        }
    }
}

/// `as_many`: how many cases one of them counts as.
fn holds_of_damaged_seeds(name: &str, as_many: u32) {
    let target = TARGETS.iter().find(|(known, _)| *known == name).unwrap().1;
    holds_in_batches(as_many, &damaged(select(seeds(name)), WORDS), &[], |bytes, _| {
        target(&bytes);
        Ok(())
    });
}

macro_rules! damaged_seeds {
    ($($name:ident: $as_many:literal)*) => {$(
        #[test]
        fn $name() {
            holds_of_damaged_seeds(stringify!($name), $as_many);
        }
    )*};
}

// A cron pattern that never comes takes as long as many others, and an entry of an old queue is read for each kind of queue.
damaged_seeds! { cron: 40 json: 1 names: 1 old_queues: 8 packages: 1 records: 1 replies: 1 schedules: 10 urls: 1 }
