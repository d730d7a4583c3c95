//! Random replies of a server that is not what it should be.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use redis::{PushKind, Value, VerbatimFormat};

use super::{holds, note, soup};
use crate::checks::replies as checks;
use crate::operate::held_back;
use crate::script::{LimitUsage, LimitsReply};

/// Of replies, and of what `meta` and records hold.
const WORDS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "-1",
    ";",
    ":",
    " ",
    "\n",
    "1;2;3",
    "0;2;;",
    "1;1;2:1000000;mail",
    "mail",
    "ok",
    "created",
    "absent",
    "awaited ",
    "duplicate ",
    "kept ",
    "replaced ",
    "moved ",
    "requeued",
    "later",
    "delayed",
    "ready",
    "failed",
    "done",
    "changed",
    "live",
    "gone",
    "jobs",
    "none",
    "paused",
    "superseded",
    "format 2",
    "levels 05",
    "a",
    "1.5",
    "1e3",
    "inf",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e18",
    "170141183460469231731687303715884105727",
    "-170141183460469231731687303715884105728",
    "{\"data\":1}",
    "\u{8ba2}",
    "01",
];

fn bulk(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn list<const N: usize>(texts: [&str; N]) -> Value {
    Value::Array(texts.map(bulk).into())
}

fn leaf() -> BoxedStrategy<Value> {
    prop_oneof![
        6 => select(WORDS).prop_map(bulk),
        3 => soup(WORDS, 5).prop_map(Value::BulkString),
        1 => vec(any::<u8>(), 0..8).prop_map(Value::BulkString),
        2 => select(&[0, 1, -1, 2, i64::MAX, i64::MIN, 1 << 53][..]).prop_map(Value::Int),
        1 => any::<i64>().prop_map(Value::Int),
        1 => Just(Value::Nil),
        1 => Just(Value::Okay),
        1 => select(WORDS).prop_map(|word| Value::SimpleString(word.to_owned())),
        1 => any::<f64>().prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => select(WORDS)
            .prop_map(|word| Value::VerbatimString { format: VerbatimFormat::Text, text: word.to_owned() }),
        1 => Just(redis::parse_redis_value(b"-ERR no\r\n").unwrap_or(Value::Nil)),
    ]
    .boxed()
}

fn tree() -> BoxedStrategy<Value> {
    leaf()
        .prop_recursive(3, 24, 6, |inner| {
            prop_oneof![
                6 => vec(inner.clone(), 0..8).prop_map(Value::Array),
                1 => vec(inner.clone(), 0..4).prop_map(Value::Set),
                1 => vec((inner.clone(), inner.clone()), 0..3).prop_map(Value::Map),
                1 => vec(inner.clone(), 0..3).prop_map(|data| Value::Push { kind: PushKind::Message, data }),
                1 => (inner.clone(), inner).prop_map(|(data, other)| Value::Attribute {
                    data: Box::new(data),
                    attributes: vec![(Value::Nil, other)],
                }),
            ]
        })
        .boxed()
}

/// Replies as the scripts give them.
fn real() -> Vec<Value> {
    let found = [
        "a",
        "reserved",
        "1.79e12",
        "{\"data\":1}",
        "1;1;x",
        "7",
        "1790000000000",
        "0",
        "0;1;2:1000000;\n7;1;2:1000000;mail",
    ];
    let usage = list(["0", "0", "1790000000000000;0", "7", "1", "1790000000000000;1999999"]);
    let found = found.into_iter().map(bulk).chain([usage]).collect();
    let counts = ["1790000000000", "1", "2", "3", "4", "1790000000500", "-1", "0", "1"];
    let counts = counts.into_iter().map(bulk).chain([
        Value::Array(vec![Value::Int(1), Value::Int(2)]),
        list(["a", "{\"data\":1}"]),
        list(["pushed", "5"]),
        bulk("0;;2:1000000;\n7;;2:1000000;mail\n8;1;;bill"),
        list(["0", "1", "1790000000000000;1999999", "7", "1", "1790000000000000;1999999", "8", "1", ""]),
    ]);
    let jobs = [list(["a", "b"]), list(["{\"data\":1}", "5;5;1;0;k{\"data\":2}"]), list(["1;1;x", ""])];
    let jobs = ["jobs", "10", "7", "1500", "0", "1"].map(bulk).into_iter().chain(jobs);
    let whole = list(["05", "1", "1", "5", "0"]);
    let look = Value::Array(vec![list(["1", "", "", "", "", "", "", "", "", "", "", "", "", "", "0"])]);
    let scan = Value::Array(vec![bulk("0"), list(["a", "b"])]);
    let heard = ["a", "{\"data\":1}", "1;1;x"].map(bulk);
    let heard = Value::Array([bulk("1790000000000"), Value::Int(1), list(["b"])].into_iter().chain(heard).collect());
    let taken = ["{\"data\":1}", "1790000000.5", "x", "1e3\ttag"].map(bulk);
    let first = [bulk("1790000000000000"), bulk("0123456789abcdef"), Value::Int(3), bulk("more")];
    let taken = Value::Array(first.into_iter().chain(taken).collect());
    let page = list(["1", "a", "1790000000000", "{\"data\":1}", "", "b", "", "x", "1;1;y"]);
    let lines = [
        "created",
        "created\nduplicate a\nkept b\nreplaced c\nawaited d",
        "awaited ready a\nabsent",
        "2 3\na\nb",
        "moved a",
        "failed a",
        "absent",
        "requeued\nlater\nduplicate a",
        "done",
        "10",
        "superseded",
        "format 2",
        "levels 05",
        "again",
        "adopted",
        "behind 5",
        "room 3",
        "fenced",
        "1790000000000-1 1790000000000-2;a",
        "other a",
        "left",
        "stranger",
        "cut 1790000000000 1 2 a",
    ];
    let pulled = Value::Array(vec![bulk("3"), bulk("0"), bulk("1790000000000-1"), Value::Int(1), bulk("{\"data\":1}")]);
    let topic = ["1790000000000", "9", "3", "30", "1790000000000", "604800000", "1000000", "100000000"].map(bulk);
    let rows = [["a", "7", "8", "1"], ["b", "a", "1790000000000", "1"], ["c", "1790000000000", "1", "2"]].map(list);
    let topic = Value::Array(topic.into_iter().chain(rows).collect());
    let (jobs, counts, found) = (Value::Array(jobs.collect()), Value::Array(counts.collect()), Value::Array(found));
    let long = [jobs, counts, found, page];
    // As often as all that is short.
    let mut all: Vec<Value> = std::iter::repeat_n(long, 6).flatten().collect();
    let several = Value::Array(vec![pulled.clone(), bulk("stranger"), pulled.clone()]);
    all.extend([whole, look, scan, heard, taken, pulled, several, topic]);
    all.extend([
        list(["live"]),
        list(["failed", "1;1;x"]),
        list(["done", "[1]"]),
        list(["gone"]),
        list([]),
        Value::Int(3),
    ]);
    all.extend(lines.map(bulk));
    all
}

/// Puts another value in the spot that the path leads to, or takes it away, or adds one there.
fn change(value: &mut Value, path: &[Index], how: u8, other: Value) {
    let Value::Array(items) = value else {
        *value = other;
        return;
    };
    let Some((first, rest)) = path.split_first() else {
        *value = other;
        return;
    };
    let spot = first.index(items.len() + 1);
    match (how, rest.is_empty() || spot == items.len()) {
        (0, true) => items.truncate(spot),
        (1, true) => items.insert(spot, other),
        (2, true) if spot < items.len() => drop(items.remove(spot)),
        _ if spot < items.len() => change(&mut items[spot], rest, how, other),
        _ => items.push(other),
    }
}

fn reply() -> BoxedStrategy<Value> {
    let edit = (vec(any::<Index>(), 0..4), 0..6_u8, prop_oneof![4 => leaf(), 1 => tree()]);
    let edits = prop_oneof![1 => Just(Vec::new()), 4 => vec(edit.clone(), 1), 1 => vec(edit, 2..4)];
    let nearly = (select(real()), edits).prop_map(|(mut value, edits)| {
        for (path, how, other) in edits {
            change(&mut value, &path, how, other);
        }
        value
    });
    prop_oneof![4 => nearly, 1 => tree()].boxed()
}

#[test]
fn no_reply_makes_a_reader_panic() {
    let sometimes = [
        "reserve",
        "counts",
        "find",
        "peek",
        "result",
        "push",
        "push_unique",
        "settle",
        "leases",
        "set_limits",
        "beat",
        "hear",
        "adopt",
        "taken",
        "cancel",
        "purge",
        "reclaim",
        "reschedule",
        "requeue",
        "notes",
        "workers",
        "looks",
        "texts",
        "repair",
        "page",
        "whole",
        "text",
        "count",
        "flags",
        "levels",
        "a refusal",
        "held back",
        "a name held back",
        "a job was decoded",
    ];
    holds(&reply(), &sometimes, |reply, seen| {
        checks::reply(&reply, seen);
        Ok(())
    });
}

#[test]
fn no_reply_of_a_topic_makes_a_reader_panic() {
    let sometimes = ["publish", "subscribe", "unsubscribe", "pull", "read", "topic", "topics"];
    holds(&reply(), &sometimes, |reply, seen| {
        checks::topic_reply(&reply, seen);
        Ok(())
    });
}

#[test]
fn no_limit_that_meta_holds_makes_a_reader_panic() {
    let number = prop_oneof![
        3 => (0..4_i128).prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<i128>().prop_map(|number| number.to_string()),
        1 => select(&["1000000", "9007199254740992", "1790000000000000", "18446744073709551615", "", "x", "1.5"][..])
            .prop_map(str::to_owned),
        1 => select(&[i128::MAX, i128::MIN]).prop_map(|number| number.to_string()),
    ];
    let line =
        (vec(number.clone(), 0..=3), number.clone()).prop_map(|(parts, us)| format!("{}:{us};name", parts.join(";")));
    let lines = vec(prop_oneof![3 => line, 1 => number.clone()], 0..3).prop_map(|lines| lines.join("\n"));
    let seen = vec(number.clone(), 0..=3).prop_map(|numbers| numbers.join(";"));
    let usage = (0..3_u64, any::<i64>(), seen).prop_map(|(number, count, seen)| LimitUsage { number, count, seen });
    let moment = prop_oneof![Just(1_790_000_000_000), select(&[0, -1, i64::MAX, i64::MIN]), any::<i64>()];
    let texts = (lines, vec(usage, 0..4), moment);
    holds(&texts, &["it holds jobs back"], |(text, usage, now), seen| {
        if held_back(&LimitsReply { text, usage }, now).is_some() {
            note(seen, "it holds jobs back");
        }
        Ok(())
    });
}
