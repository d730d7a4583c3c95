//! What the fuzz targets of `core/fuzz` call, one function each: it takes the bytes apart and checks what must hold of them.
//!
//! Where a target takes several texts, each is a line, the last one all the rest. The property `seeds` tries all of them, too.

use redis::{Value, VerbatimFormat};

use crate::bridge::check_entry;
use crate::checks::{Seen, note, reading, replies, words};
use crate::connection::reads_map;
use crate::schedule::check_stored;
use crate::value::time::Millis;

type Target = (&'static str, fn(&[u8]));

/// The targets by their names.
pub const TARGETS: &[Target] = &[
    ("cron", cron),
    ("json", json),
    ("names", names),
    ("old_queues", old_queues),
    ("packages", packages),
    ("records", records),
    ("replies", replies),
    ("schedules", schedules),
    ("urls", urls),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first line, and the rest.
fn line(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    (text(&bytes[..end]), bytes.get(end + 1..).unwrap_or_default())
}

/// A cron pattern, a time zone, a moment in ms.
pub fn cron(bytes: &[u8]) {
    let (pattern, rest) = line(bytes);
    let (zone, rest) = line(rest);
    words::cron(&pattern, &zone, Millis::new(text(rest).parse().unwrap_or_default()), &mut Seen::new());
}

/// JSON text.
pub fn json(bytes: &[u8]) {
    reading::json(&text(bytes), &mut Seen::new());
    reading::data(bytes, &mut Seen::new());
}

/// The prefix of keys, and a name, an id, a key or a word.
pub fn names(bytes: &[u8]) {
    let (prefix, rest) = line(bytes);
    words::names(&prefix, &text(rest), &mut Seen::new());
    words::words(&text(rest), &mut Seen::new());
}

/// A score, and an entry of another queue.
pub fn old_queues(bytes: &[u8]) {
    let (score, entry) = line(bytes);
    check_entry(entry, score.parse().unwrap_or_default(), |_| {});
}

/// A complete package.
pub fn packages(bytes: &[u8]) {
    reading::package(bytes, &mut Seen::new());
}

/// A stored record.
pub fn records(bytes: &[u8]) {
    reading::record(bytes, &mut Seen::new());
}

/// A reply of a server, written as [`value`] reads it.
pub fn replies(bytes: &[u8]) {
    let mut seen = Seen::new();
    let reply = value(&mut bytes.split(|&byte| byte == b'|'), 0).unwrap_or(Value::Nil);
    replies::reply(&reply, &mut seen);
    replies::topic_reply(&reply, &mut seen);
    if reads_map(&reply) {
        note(&mut seen, "a map");
    }
}

/// Words with `|` between them: `[` begins a list that `]` ends, `:5` is a number, `_` is nothing, `+ok` and `=ok` are text in
/// other forms, and all else is text.
fn value<'a>(words: &mut impl Iterator<Item = &'a [u8]>, depth: usize) -> Option<Value> {
    Some(match words.next()? {
        b"]" => return None,
        b"[" if depth < 8 => Value::Array(std::iter::from_fn(|| value(words, depth + 1)).collect()),
        b"_" => Value::Nil,
        [b':', digits @ ..] => Value::Int(text(digits).parse().unwrap_or(i64::MIN)),
        [b'+', rest @ ..] => Value::SimpleString(text(rest)),
        [b'=', rest @ ..] => Value::VerbatimString { format: VerbatimFormat::Text, text: text(rest) },
        word => Value::BulkString(word.to_vec()),
    })
}

/// The year 3000: no server's clock shows more.
const LAST_NOW: u64 = 32_503_680_000_000;

/// The time of the server in ms, what is stored of a schedule's state, and its definition.
pub fn schedules(bytes: &[u8]) {
    let (now, rest) = line(bytes);
    let (state, definition) = line(rest);
    let now = now.parse().unwrap_or(0).min(LAST_NOW);
    check_stored(&state, definition, Millis::new(now), |_| {});
}

/// The URL of a server.
pub fn urls(bytes: &[u8]) {
    words::url(&text(bytes), None, &mut Seen::new());
}
