//! How PHP spells the verbs that errors name. PHP's extension cannot be part of a Rust test; this file of it can.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[path = "../../../php-binding/shared/src/error/spelling.rs"]
mod spelling;
use spelling::{in_php, in_php_words};

const STUBS: &str = include_str!("../../../php-binding/duly.stubs.php");
/// What the engine and its workers do by themselves, and what only Rust offers.
const NO_VERBS_OF_PHP: [&str; 12] =
    ["actions", "bridge", "check", "fire", "held", "import", "memory", "servers", "settle", "time", "topic", "topics"];

/// Each text that `code` has behind one of these beginnings.
fn texts<'a>(code: &'a str, beginnings: &[&str], found: &mut BTreeSet<&'a str>) {
    for beginning in beginnings {
        let behind = code.split(beginning).skip(1).filter_map(|rest| rest.split_once('"'));
        found.extend(behind.map(|(text, _)| text));
    }
}

fn read(folder: &Path, code: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, code);
        } else {
            code.push_str(fs::read_to_string(path).unwrap().split("#[cfg(test)]\nmod tests {").next().unwrap());
        }
    }
}

#[test]
fn every_operation_is_spelled_as_a_method_of_php() {
    let mut code = String::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code);
    let mut operations = BTreeSet::new();
    texts(&code, &["during(\"", "_schedule(\"", "_schedules(\"", "schedule_page(\"", "_paused(\""], &mut operations);
    texts(&code, &[".command(\"", "_now(\""], &mut operations);
    assert!(operations.len() > 30 && operations.contains("requeue_all"), "{operations:?}");
    for operation in operations.into_iter().filter(|name| !NO_VERBS_OF_PHP.contains(name)) {
        let spelled = in_php(operation);
        let method = spelled.strip_prefix("schedules->").unwrap_or(&spelled);
        assert!(STUBS.contains(&format!("function {method}(")), "{operation} is {spelled} in messages of PHP");
    }
}

#[test]
fn messages_are_in_words_of_php() {
    for (operation, message, expected) in [
        ("keep_failed", "keep_failed on queue 'keep_failed': no", "keepFailed on queue 'keep_failed': no"),
        ("put_schedule", "put_schedule on queue 'q': no", "schedules->put on queue 'q': no"),
        ("push", "push: max_retries is no max_retries_x", "push: maxRetries is no max_retries_x"),
        ("push", "push: see ?fail_fast=1&result_ttl", "push: see ?fail_fast=1&result_ttl"),
        ("push", "push: late (last: set_clock on queue 'q': no)", "push: late (last: setClock on queue 'q': no)"),
        ("", "max_attempts, größer — 日本", "maxRetries, größer — 日本"),
        ("", "", ""),
    ] {
        assert_eq!(in_php_words(message, Some(operation).filter(|name| !name.is_empty())), expected);
    }
}
