//! JSON, packages, records and data, beside `serde_json`: what it refuses is refused, and what is read is what it reads.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{SECRET, Seen, note};
use crate::value::json::{self, Cursor, Fault};
use crate::{CameBack, DEFAULT_MAX_DATA_BYTES, Data, Envelope, Error, ErrorKind, MAX_DELAY, Record, decide};

const SPACE: &[char] = &[' ', '\n', '\r', '\t'];

/// The fields of a package that duly knows.
pub(crate) const KNOWN: &[&str] = &[
    "v",
    "id",
    "time",
    "delay",
    "attempts",
    "max_attempts",
    "data",
    "error",
    "name",
    "key",
    "priority",
    "timeout",
    "retry",
    "headers",
    "result_ttl",
];

/// Does `serde_json` take it for one JSON value? It does not look at the UTF-8 of what it skips.
fn is_json(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    IgnoredAny::deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

/// The members of an object as `serde_json` reads them, in order, values as they are written.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Is it nested deeper than duly reads?
fn is_too_deep(fault: Fault) -> bool {
    fault.what.contains("levels deep")
}

pub(crate) fn json(text: &str, seen: &mut Seen) {
    let mut cursor = Cursor::new(text);
    cursor.skip_space();
    let read = cursor.value().and_then(|_| cursor.finish());
    match read {
        Ok(()) => note(seen, "it is JSON"),
        Err(fault) if is_too_deep(fault) => note(seen, "it is nested too deep"),
        Err(_) => note(seen, "it is no JSON"),
    }
    assert!(read.is_ok() == is_json(text.as_bytes()) || read.is_err_and(is_too_deep), "{read:?}");
    let is_bare = text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) && !text.ends_with(SPACE);
    assert_eq!(json::is_number(text), is_bare && read.is_ok());
    let mut cursor = Cursor::new(text);
    if let Ok(raw) = cursor.string()
        && cursor.at() == text.len()
    {
        note(seen, "it is a string");
        let theirs = serde_json::from_str::<String>(text).ok();
        let lossy = json::unescaped_lossy(raw);
        assert_eq!(json::unescaped(raw).as_deref(), theirs.as_deref());
        assert!(theirs.is_none_or(|theirs| theirs == lossy));
    }
    let mut written = Vec::new();
    json::write_string(&mut written, text);
    let written = std::str::from_utf8(&written).unwrap();
    assert_eq!(serde_json::from_str::<String>(written).unwrap(), text);
    assert_eq!(json::unescaped(Cursor::new(written).string().unwrap()).unwrap(), text);
}

fn trimmed(data: &Data) -> &str {
    data.as_str().trim_matches(SPACE)
}

fn shows_nothing(error: &Error) {
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::FormatTooNew), "{error:?}");
    assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
}

pub(crate) fn package(bytes: &[u8], seen: &mut Seen) -> Option<Envelope> {
    let members = is_json(bytes).then(|| serde_json::from_slice::<Members>(bytes).ok()).flatten();
    match Envelope::decode(bytes) {
        Ok(envelope) => {
            note(seen, "a package was read");
            let Some(Members(members)) = members else { panic!("read what serde_json refuses") };
            let data = members.iter().rev().find(|(name, _)| name == "data").map(|(_, value)| value.get());
            assert_eq!(Some(trimmed(&envelope.data)), data);
            // From version 2 on.
            let version = members.iter().rev().find(|(name, _)| name == "v").map(|(_, value)| value.get());
            let is_known = |name: &str| KNOWN.contains(&name) || name == "expires" && version == Some("2");
            let unknown = members.iter().filter(|(name, _)| !is_known(name));
            let unknown: Vec<_> = unknown.map(|(name, value)| (name.as_str(), value.get())).collect();
            let kept = envelope.unknown.iter().map(|field| (field.name.as_str(), trimmed(&field.value)));
            assert_eq!(kept.collect::<Vec<_>>(), unknown);
            assert_eq!(Envelope::decode(&envelope.encode_complete()).unwrap(), envelope);
            assert!(is_json(&envelope.encode_complete()));
            retries(&envelope);
            Some(envelope)
        }
        Err(error) => {
            shows_nothing(&error);
            let Some(Members(members)) = members else {
                note(seen, "neither of the two read it");
                return None;
            };
            // Only a known field with a wrong value, a value that is nested too deep, or no data, is a reason of our own.
            let has_data = members.iter().any(|(name, _)| name == "data");
            let has_typed = members.iter().any(|(name, _)| name != "data" && KNOWN.contains(&name.as_str()));
            let is_deep = error.to_string().contains("levels deep");
            assert!(!has_data || has_typed || is_deep, "refused what serde_json reads: {error}");
            note(seen, "only serde_json read it");
            None
        }
    }
}

/// Whatever policy it has, there is a decision.
fn retries(envelope: &Envelope) {
    let policy = envelope.retry.clone().unwrap_or_default();
    for failures in [0, 1, 2, 11, envelope.attempts, u32::MAX] {
        assert!(policy.delay(failures, envelope.time) <= MAX_DELAY);
        decide(&policy, failures, envelope.max_attempts, envelope.time);
    }
}

/// What comes behind a routing prefix, found in a way of its own.
fn behind_prefix(bytes: &[u8]) -> Option<&[u8]> {
    if !bytes.first()?.is_ascii_digit() {
        return Some(bytes);
    }
    let parts: Vec<&[u8]> = bytes.splitn(5, |&byte| byte == b';').collect();
    let length = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<usize>().ok();
    parts.get(4)?.get(length(parts[2])? + length(parts[3])?..)
}

pub(crate) fn record(bytes: &[u8], seen: &mut Seen) {
    match Record::decode("a1", bytes, None) {
        Ok(envelope) => {
            let is_routed = bytes[0].is_ascii_digit();
            note(
                seen,
                if is_routed { "a record with a prefix was read" } else { "a record without a prefix was read" },
            );
            let json = behind_prefix(bytes).map(Envelope::decode);
            let Some(Ok(alone)) = json else { panic!("read what is no package") };
            assert_eq!(alone.data, envelope.data);
            assert_eq!(Record::decode("a1", &Record::encode(&envelope), None).unwrap(), envelope);
        }
        Err(error) => {
            note(seen, "a record was refused");
            shows_nothing(&error);
            if !bytes.first().is_some_and(u8::is_ascii_digit) {
                assert!(Envelope::decode(bytes).is_err());
            }
        }
    }
    if let Ok(came_back) = CameBack::decode(bytes) {
        note(seen, "what came back was read");
        assert_eq!(CameBack::decode(&came_back.encode()).unwrap(), came_back);
    }
}

pub(crate) fn data(bytes: &[u8], seen: &mut Seen) {
    let data = Data::from_json(bytes, DEFAULT_MAX_DATA_BYTES);
    let is_deep = data.as_ref().is_err_and(|error| error.to_string().contains("levels deep"));
    assert!(data.is_ok() == is_json(bytes) || is_deep, "{data:?}");
    let Ok(data) = data else {
        note(seen, "data was refused");
        return;
    };
    note(seen, "data was taken");
    assert_eq!(data.as_bytes(), bytes);
    // In a package and in a record white space around it is kept too.
    let json = [b"{\"id\":\"a1\",\"data\":", bytes, b",\"x\":1}"].concat();
    let Some(envelope) = package(&json, seen) else { panic!("not read") };
    assert_eq!(envelope.data, data);
    let record = Record::encode(&envelope);
    assert!(record.windows(bytes.len()).any(|part| part == bytes));
    assert_eq!(Record::decode("a1", &record, None).unwrap().data, data);
    note(seen, "it was read from a package");
}
