//! The stored record: an envelope as Redis keeps it, without whatever a reader can fill in.
//!
//! `[<level>;<max_retries>;<length of the key>;<length of the name>;<key><name>]{<compact JSON>}`: the scripts read the part
//! in brackets, which is there only if one of its values is not the default, and never the JSON. Lengths are in bytes.

use crate::format::envelope::{Envelope, Writer, corrupt, cut_error};
use crate::value::error::Error;
use crate::value::id;
use crate::value::name::{DEFAULT_PRIORITY, MAX_PRIORITY};
use crate::value::retry::DEFAULT_MAX_RETRIES;
use crate::value::time::Millis;

/// The part that is kept beside the record of a job that came back (failed, was released, or lost its worker), so that the
/// record need not be rewritten. In Redis: `<attempts>;<returns>;<error text>`; a zero before a number is a mark of the scripts.
///
/// ```
/// let came_back = duly::CameBack { attempts: 1, returns: 2, error: "no answer; gave up".to_owned() };
/// assert_eq!(came_back.encode(), b"1;2;no answer; gave up");
/// assert_eq!(duly::CameBack::decode(b"1;2;no answer; gave up")?, came_back);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CameBack {
    /// Failures so far.
    pub attempts: u32,
    /// How often it came back from a worker that had started it, for any reason.
    pub returns: u32,
    /// The text of the last failure, at most [`MAX_ERROR_BYTES`](crate::MAX_ERROR_BYTES).
    pub error: String,
}

impl CameBack {
    /// The part to store beside a job that is pushed with failures already counted (an import); None for a new job.
    pub fn of(envelope: &Envelope) -> Option<Self> {
        (envelope.attempts > 0 || !envelope.error.is_empty()).then(|| Self {
            attempts: envelope.attempts,
            returns: envelope.attempts,
            error: cut_error(&envelope.error).to_owned(),
        })
    }

    /// The bytes that Redis keeps; the error text is cut to its limit.
    pub fn encode(&self) -> Vec<u8> {
        format!("{};{};{}", self.attempts, self.returns, cut_error(&self.error)).into_bytes()
    }

    /// Reads the bytes that Redis keeps. Bytes of the error text that are not UTF-8 become U+FFFD.
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the two numbers are not there.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = || corrupt("its 'returned' entry is not '<attempts>;<returns>;<error>'");
        let (attempts, rest) = number_before_semicolon(bytes).ok_or_else(wrong)?;
        let (returns, rest) = number_before_semicolon(rest).ok_or_else(wrong)?;
        Ok(Self { attempts, returns, error: cut_error(&String::from_utf8_lossy(rest)).to_owned() })
    }

    /// Do the bytes that Redis keeps say that a lease of this job ended once? Then its worker says when it starts.
    pub(crate) fn is_suspect(bytes: &[u8]) -> bool {
        let second = bytes.splitn(3, |&byte| byte == b';').nth(1).unwrap_or_default();
        second.len() > 1 && second[0] == b'0'
    }
}

/// The stored form of an [`Envelope`].
///
/// ```
/// use duly::{DEFAULT_MAX_DATA_BYTES, Data, Envelope, Record};
///
/// let mut job = Envelope::new("order-42", Data::from_json("[42]", DEFAULT_MAX_DATA_BYTES)?);
/// job.time = 1_790_000_000;
/// assert_eq!(Record::encode(&job), br#"{"time":1790000000,"data":[42]}"#);
/// job.key = Some("close:42".to_owned());
/// assert_eq!(Record::encode(&job), br#"5;5;8;0;close:42{"time":1790000000,"data":[42]}"#);
/// assert_eq!(Record::decode("order-42", &Record::encode(&job), None)?, job);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Debug)]
pub enum Record {}

impl Record {
    /// The bytes to store under the envelope's id.
    ///
    /// Left out: the id (it is the hash field), every field that has its default, the routing values (they are in the
    /// prefix), and the time if the id was made in that very second.
    pub fn encode(envelope: &Envelope) -> Vec<u8> {
        let mut out = Vec::with_capacity(envelope.data.as_str().len() + 96);
        write_prefix(&mut out, envelope);
        let mut writer = Writer::new(out);
        if envelope.time != implied_time(&envelope.id) {
            writer.number("time", envelope.time);
        }
        if !envelope.delay.is_zero() {
            writer.number("delay", &envelope.delay);
        }
        if envelope.attempts != 0 {
            writer.number("attempts", envelope.attempts);
        }
        writer.verbatim("data", envelope.data.as_str());
        if !envelope.error.is_empty() {
            writer.string("error", cut_error(&envelope.error));
        }
        envelope.write_rest(&mut writer);
        writer.finish()
    }

    /// Reads what is stored under `id`, and merges what is kept beside it.
    ///
    /// A complete package is read as well. What the prefix says wins over the JSON, what `came_back` says wins over
    /// both, and the id is always the given one.
    ///
    /// Errors: [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) with the reason and the job's id and never the data;
    /// [`ErrorKind::FormatTooNew`](crate::ErrorKind::FormatTooNew).
    pub fn decode(id: &str, bytes: &[u8], came_back: Option<&CameBack>) -> Result<Envelope, Error> {
        Self::decode_unnamed(id, bytes, came_back).map_err(|error| error.of_job(id))
    }

    fn decode_unnamed(id: &str, bytes: &[u8], came_back: Option<&CameBack>) -> Result<Envelope, Error> {
        let (routing, json) = match bytes.first() {
            Some(b'0'..=b'9') => {
                let (routing, json) = Routing::read(bytes).ok_or_else(|| corrupt("its routing prefix is malformed"))?;
                (Some(routing), json)
            }
            _ => (None, bytes),
        };
        let (mut envelope, has_time) = Envelope::decode_noting_time(json)?;
        id.clone_into(&mut envelope.id);
        if !has_time {
            envelope.time = implied_time(id);
        }
        if let Some(routing) = routing {
            envelope.priority = routing.priority;
            envelope.max_attempts = routing.max_retries;
            envelope.key = routing.key;
            envelope.name = routing.name;
        }
        if let Some(came_back) = came_back {
            envelope.attempts = came_back.attempts;
            envelope.error.clone_from(&came_back.error);
        }
        Ok(envelope)
    }
}

/// What the scripts must know about a job.
struct Routing {
    priority: u8,
    max_retries: u32,
    key: Option<String>,
    name: Option<String>,
}

impl Routing {
    /// The prefix, and the rest behind it.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        // One digit: the scripts know no other form.
        let (level, rest) = number_before_semicolon(bytes).filter(|_| bytes.get(1) == Some(&b';'))?;
        let (max_retries, rest) = number_before_semicolon(rest)?;
        let (key_length, rest) = number_before_semicolon(rest)?;
        let (name_length, rest) = number_before_semicolon(rest)?;
        let (key, rest) = rest.split_at_checked(usize::try_from(key_length).ok()?)?;
        let (name, json) = rest.split_at_checked(usize::try_from(name_length).ok()?)?;
        let priority = u8::try_from(level).ok().filter(|&level| level <= MAX_PRIORITY)?;
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Some((Self { priority, max_retries, key: some(text(key)?), name: some(text(name)?) }, json))
    }
}

/// Level, retries, key and name of a record; `None` where it begins as a routing prefix and is none.
#[cfg(test)]
pub(crate) fn routed(record: &[u8]) -> Option<(u8, u32, Option<String>, Option<String>)> {
    if !record.first().is_some_and(u8::is_ascii_digit) {
        return Some((DEFAULT_PRIORITY, DEFAULT_MAX_RETRIES, None, None));
    }
    let (routing, _) = Routing::read(record)?;
    Some((routing.priority, routing.max_retries, routing.key, routing.name))
}

fn write_prefix(out: &mut Vec<u8>, envelope: &Envelope) {
    let key = envelope.key.as_deref().unwrap_or_default();
    let name = envelope.name.as_deref().unwrap_or_default();
    let has_default_numbers = envelope.priority == DEFAULT_PRIORITY && envelope.max_attempts == DEFAULT_MAX_RETRIES;
    let is_default = has_default_numbers && key.is_empty() && name.is_empty();
    if !is_default {
        // One digit, whatever the field holds: the scripts count on it.
        let level = envelope.priority.min(MAX_PRIORITY);
        let lengths = format!("{level};{};{};{};", envelope.max_attempts, key.len(), name.len());
        for part in [lengths.as_str(), key, name] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}

/// The unix time in seconds that a reader fills in when the record has none.
fn implied_time(id: &str) -> u64 {
    id::made_at(id).map_or(0, Millis::whole_seconds)
}

fn number_before_semicolon(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b';')?;
    let digits = &bytes[..end];
    // `parse` alone would also take a plus sign.
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{DEFAULT_MAX_DATA_BYTES, Data, ErrorKind, IdGenerator, RetryPolicy, Seconds, UnknownField};

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[0-9;{}\"\\\\a\u{fc}]{0,12}"]
    }

    fn any_key() -> impl Strategy<Value = Option<String>> {
        prop::option::of(any_text().prop_filter("not empty", |key| !key.is_empty()))
    }

    prop_compose! {
        fn any_envelope()(
            id in any_text(), time: u64, delay_ms in 0..10_000_000_u64, attempts: u32, max_attempts: u32,
            data in any_text(), error in any_text(), name in any_key(), key in any_key(), priority in 0..10_u8,
            timeout in prop::option::of(0..10_000_000_u64),
            headers in prop::collection::btree_map(any_text(), any_text(), 0..3),
            is_plain: bool,
        ) -> Envelope {
            let json = serde_json::to_vec(&data).unwrap();
            let mut envelope = Envelope::new(id, Data::from_json(json, DEFAULT_MAX_DATA_BYTES).unwrap());
            envelope.time = time;
            if is_plain {
                return envelope;
            }
            envelope.delay = Seconds::from(Millis::new(delay_ms));
            envelope.attempts = attempts;
            envelope.max_attempts = max_attempts;
            envelope.error = error;
            envelope.name = name;
            envelope.key = key;
            envelope.priority = priority;
            envelope.timeout = timeout.map(Millis::new);
            envelope.retry = timeout.map(|ms| RetryPolicy::Fixed { delay: Millis::new(ms) });
            envelope.unknown = vec![UnknownField { name: format!("x{data}"), value: Data::default() }];
            envelope.headers = headers;
            envelope
        }
    }

    proptest! {
        #[test]
        fn any_envelope_comes_back_from_both_forms(envelope in any_envelope()) {
            prop_assert_eq!(&Envelope::decode(&envelope.encode_complete()).unwrap(), &envelope);
            let complete: serde_json::Value = serde_json::from_slice(&envelope.encode_complete()).unwrap();
            prop_assert!(complete.is_object());
            let record = Record::encode(&envelope);
            prop_assert_eq!(&Record::decode(&envelope.id, &record, None).unwrap(), &envelope);
            let beside = CameBack::of(&envelope);
            prop_assert_eq!(&Record::decode(&envelope.id, &record, beside.as_ref()).unwrap(), &envelope);
        }

        #[test]
        fn any_came_back_comes_back(attempts: u32, returns: u32, error in any_text()) {
            let came_back = CameBack { attempts, returns, error };
            prop_assert_eq!(CameBack::decode(&came_back.encode()).unwrap(), came_back);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Record::decode("a1", &bytes, None);
            let _ = Envelope::decode(&bytes);
            let _ = CameBack::decode(&bytes);
        }

        #[test]
        fn no_damage_makes_it_panic_or_pass_unseen(envelope in any_envelope(), cut in 0..200_usize) {
            let record = Record::encode(&envelope);
            let cut = cut.min(record.len() - 1);
            let kind = Record::decode("a1", &record[..cut], None).unwrap_err().kind();
            prop_assert_eq!(kind, ErrorKind::Corrupt);
        }
    }

    #[test]
    fn a_record_is_hardly_larger_than_its_data() {
        let now = Millis::new(1_790_000_000_000);
        let data = Data::from_json(format!("\"{}\"", "x".repeat(198)), DEFAULT_MAX_DATA_BYTES).unwrap();
        let mut envelope = Envelope::new(IdGenerator::new().next(now).unwrap(), data);
        envelope.time = now.whole_seconds();
        assert_eq!(Record::encode(&envelope).len(), 200 + 9);
        envelope.name = Some("order.close".to_owned());
        assert_eq!(Record::encode(&envelope).len(), 200 + 29);
        envelope.delay = Seconds::from(Millis::from_secs(900));
        assert_eq!(Record::encode(&envelope).len(), 200 + 41);
        envelope.key = Some("close:42".to_owned());
        assert_eq!(Record::encode(&envelope).len(), 200 + 49);
    }

    #[test]
    fn long_errors_are_cut_at_the_edge_of_a_character() {
        let came_back = CameBack { attempts: 1, returns: 1, error: format!("a{}", "\u{8ba2}".repeat(3000)) };
        let kept = CameBack::decode(&came_back.encode()).unwrap();
        assert_eq!(kept.error, format!("a{}", "\u{8ba2}".repeat(2730)));
        assert_eq!(CameBack::decode(b"1;1;\xff;x").unwrap().error, "\u{fffd};x");
    }

    #[test]
    fn a_zero_before_the_second_number_makes_a_suspect() {
        for (note, suspect) in [("", false), ("0;0;", false), ("1;10;e", false), ("00;1;0", false), ("0;00;", true)] {
            assert_eq!(CameBack::is_suspect(note.as_bytes()), suspect, "{note}");
        }
        // Who knows nothing of it reads the same numbers.
        let kept = CameBack { attempts: 10, returns: 2, error: "0;no".to_owned() };
        assert_eq!(CameBack::decode(b"010;02;0;no").unwrap(), kept);
    }

    #[test]
    fn a_corrupt_record_names_its_job() {
        let error = Record::decode("order-42", b"hello", None).unwrap_err();
        assert_eq!((error.kind(), error.job_id()), (ErrorKind::Corrupt, Some("order-42")));
    }

    #[test]
    fn a_priority_out_of_range_stays_one_digit() {
        let mut envelope = Envelope::new("a", Data::default());
        envelope.priority = 77;
        envelope.headers = BTreeMap::new();
        assert!(Record::encode(&envelope).starts_with(b"9;5;0;0;{"));
    }
}
