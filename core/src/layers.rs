//! The layers of the crate, each a module with its folder: a layer uses itself and those before it, and nothing else; and its own file
//! is the only way in.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const LAYERS: [&str; 14] = [
    "value",
    "format",
    "process",
    "script",
    "connection",
    "embedded",
    "queue",
    "lock",
    "topic",
    "schedule",
    "operate",
    "bridge",
    "worker",
    "blocking",
];
/// Collections of small files, which others name themselves (`value::time::Millis`).
const OPEN: [&str; 3] = ["value", "format", "process"];
/// They alone speak with the `redis` package.
const SPEAK_REDIS: [&str; 2] = ["script", "connection"];
/// Modules of tests, which may look at everything.
const OF_TESTS: [&str; 3] = ["lib", "layers", "every_order"];

/// Each use of a layer in `code` that a file of `layer` may not make, `above` being what leads out of the layer.
fn forbidden(layer: &str, code: &str, above: &str) -> Vec<String> {
    // Not at the declaration of such a module in a file of its own: what follows it counts.
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_doc = |line: &&str| ["//", "#[doc"].iter().any(|start| line.trim_start().starts_with(start));
    let lines: Vec<&str> = code.lines().filter(|line| !is_doc(line)).collect();
    let lines = lines.join("\n");
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let ours = rank(layer).unwrap_or_else(|| panic!("{layer} is no layer: add it to the list where it belongs"));
    let used = lines.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    });
    let mut found: Vec<String> =
        used.filter(|name| rank(name).is_none_or(|theirs| theirs > ours)).map(str::to_owned).collect();
    let names_redis = |line: &str| {
        let imports = ["use redis", "use {redis", "extern crate redis"];
        line.contains("redis::") || imports.iter().any(|import| line.contains(import))
    };
    if !SPEAK_REDIS.contains(&layer) && lines.lines().any(names_redis) {
        found.push("redis".to_owned());
    }
    // Under another name its modules would not be found.
    if lines.contains("crate as ") {
        found.push("crate".to_owned());
    }
    if lines.contains(above) {
        found.push(above.to_owned());
    }
    found
}

fn look(folder: &Path, layer: Option<&str>, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let above = if layer.is_some() { "super::super::" } else { "super::" };
        let layer = layer.unwrap_or(&name);
        if OF_TESTS.contains(&layer) || name == "tests" {
            continue;
        }
        if path.is_dir() {
            look(&path, Some(layer), found);
        } else {
            let bad = forbidden(layer, &fs::read_to_string(&path).unwrap(), above);
            found.extend(bad.into_iter().map(|used| format!("{} uses {used}", path.display())));
        }
    }
}

#[test]
fn imports_go_down_only() {
    let mut found = Vec::new();
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn an_import_that_goes_up_is_found() {
    let code = "use crate::value::time::Millis;\nuse crate::worker::Worker;\n// crate::blocking\nuse redis::Value;\nuse crate::Error;";
    let above = "super::super::";
    assert_eq!(forbidden("queue", code, above), ["worker", "Error", "redis"]);
    assert_eq!(forbidden("connection", "use crate::{worker, value};", above), [""]);
    assert_eq!(forbidden("script", "#[cfg(test)]\nmod lint;\nuse crate::queue::Queue;", above), ["queue"]);
    let code = "use super::part::Part;\nuse super::super::worker::Worker;";
    assert_eq!(forbidden("queue", code, above), [above]);
    assert_eq!(forbidden("queue", "use super::worker::Worker;", "super::"), ["super::"]);
    for code in ["use redis as r;", "use {redis as r};", "extern crate redis as r;", "pub use redis;"] {
        assert_eq!(forbidden("queue", code, above), ["redis"], "{code}");
    }
    assert_eq!(forbidden("queue", "use crate as c;\nuse c::worker::Worker;", above), ["crate"]);
    let of_tests = "#[cfg(test)]\nmod tests {\n    use super::super::part::Part;\n}";
    assert!(forbidden("queue", of_tests, above).is_empty());
}

/// The modules that the file of a layer gives out as they are: what is `pub(super)` there is seen by the whole crate.
fn open_modules<'a>(code: &'a str) -> Vec<&'a str> {
    let declared = code.lines().filter_map(|line| line.strip_suffix([';', '{', '}'])?.split_once("mod "));
    let name_of = |rest: &'a str| rest.split([' ', '{']).next();
    declared.filter_map(|(before, rest)| before.starts_with("pub").then(|| name_of(rest)).flatten()).collect()
}

#[test]
fn the_file_of_a_layer_is_the_only_way_in() {
    // No layer is above the last one, whose modules are for the bindings.
    for layer in LAYERS[..LAYERS.len() - 1].iter().filter(|layer| !OPEN.contains(layer)) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(layer).with_extension("rs");
        let code = fs::read_to_string(path).unwrap();
        let open = open_modules(&code);
        assert!(open.is_empty(), "{layer} lets others into {open:?}");
    }
    let code = "mod a;\npub mod b;\npub(crate) mod c;\npub(super) mod d;\npub use e;\npub(crate) mod f {\npub mod g { }\nmod h {";
    assert_eq!(open_modules(code), ["b", "c", "d", "f", "g"]);
}

/// Begins the table in which a file says what is in its folder.
const TABLE: &str = "//! | file | duty |";

/// The modules in the folder of a file, without its tests.
fn files_of(path: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(path.with_extension("")).into_iter().flatten().map(|entry| entry.unwrap().path());
    files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).filter(|name| name != "tests").collect()
}

/// Which of these files have no row in the table of this code.
fn missing_in_table(files: &BTreeSet<String>, code: &str) -> Vec<String> {
    let rows: Vec<&str> = code.lines().filter(|line| line.starts_with("//! | `")).collect();
    files.iter().filter(|name| !rows.iter().any(|row| row.contains(&format!("`{name}.rs`")))).cloned().collect()
}

#[test]
fn a_table_of_files_has_each_of_them() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut tables = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let code = fs::read_to_string(&path).unwrap();
            if !code.contains(TABLE) {
                continue;
            }
            tables += 1;
            let missing = missing_in_table(&files_of(&path), &code);
            assert!(missing.is_empty(), "the table of {} lacks {missing:?}", path.display());
        }
    }
    assert!(tables > 2);
}

/// The rows of the table of layers: the layer, and what the page says is in it.
fn layers_of(page: &str) -> Vec<(&str, &str)> {
    let (_, table) = page.split_once("\n| layer | what is in it | knows |\n|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let columns = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    columns.map(|columns| (columns[0].trim_matches(['|', ' ', '`']), columns[1])).collect()
}

/// Which of these files neither the row of their layer names nor the table in the code of the layer's own file.
fn unnamed(files: &BTreeSet<String>, row: &str, code: &str) -> Vec<String> {
    let mut missing = missing_in_table(files, code);
    missing.retain(|name| !row.contains(&format!("`{name}`")));
    missing
}

#[test]
fn the_page_about_the_layers_names_each_file_or_the_layer_has_a_table() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(home.join("../docs/architecture.md")).unwrap();
    let rows = layers_of(&page);
    assert!(rows.iter().map(|(layer, _)| layer).eq(&LAYERS), "{rows:?}");
    for (layer, row) in rows {
        let path = home.join("src").join(layer).with_extension("rs");
        let missing = unnamed(&files_of(&path), row, &fs::read_to_string(&path).unwrap());
        assert!(missing.is_empty(), "docs/architecture.md lacks {missing:?} of {layer}");
    }
    let files = ["a", "b", "c"].map(str::to_owned).into();
    assert_eq!(unnamed(&files, "`a`, and what is new", "//! | `b.rs` | x |\nmod c;"), ["c"]);
    assert_eq!(layers_of("\n| layer | what is in it | knows |\n|---|---|---|\n| `a` | `b` | c |\n\nd"), [("a", "`b`")]);
}
