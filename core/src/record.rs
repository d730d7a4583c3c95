//! The stored record: an envelope as Redis keeps it, without whatever a reader can fill in.
//!
//! `[<level>;<max_retries>;<key length in bytes>;<key>]{<compact JSON>}`: the scripts read the part in brackets, which
//! is there only if one of its values is not the default, and never the JSON.

use crate::envelope::{Envelope, Writer, corrupt, cut_error};
use crate::error::{Error, ErrorKind};
use crate::id;
use crate::name::{DEFAULT_PRIORITY, MAX_PRIORITY};
use crate::retry::DEFAULT_MAX_RETRIES;

/// What is kept beside the record of a job that came back (failed, was released, or lost its worker), so that the
/// record need not be rewritten. In Redis: `<attempts>;<returns>;<error text>`.
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
    /// How often it came back for any reason.
    pub returns: u32,
    /// The text of the last failure, at most [`MAX_ERROR_BYTES`](crate::MAX_ERROR_BYTES).
    pub error: String,
}

impl CameBack {
    /// What must be stored beside a job that is pushed with failures already counted (an import); None for a new job.
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
    /// [`ErrorKind::Corrupt`] if the two numbers are not there.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = || corrupt("its 'returned' entry is not '<attempts>;<returns>;<error>'");
        let (attempts, rest) = number_before_semicolon(bytes).ok_or_else(wrong)?;
        let (returns, rest) = number_before_semicolon(rest).ok_or_else(wrong)?;
        Ok(Self { attempts, returns, error: cut_error(&String::from_utf8_lossy(rest)).to_owned() })
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
/// assert_eq!(Record::encode(&job), br#"5;5;8;close:42{"time":1790000000,"data":[42]}"#);
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
        envelope.write_name(&mut writer);
        envelope.write_rest(&mut writer);
        writer.finish()
    }

    /// Reads what is stored under `id`, and merges what is kept beside it.
    ///
    /// A complete package is read as well. What the prefix says wins over the JSON, what `came_back` says wins over
    /// both, and the id is always the given one.
    ///
    /// Errors: [`ErrorKind::Corrupt`] with the reason and the job's id and never the data;
    /// [`ErrorKind::FormatTooNew`].
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
}

impl Routing {
    /// The prefix, and the rest behind it.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (level, rest) = number_before_semicolon(bytes)?;
        let (max_retries, rest) = number_before_semicolon(rest)?;
        let (key_length, rest) = number_before_semicolon(rest)?;
        let (key, json) = rest.split_at_checked(usize::try_from(key_length).ok()?)?;
        let priority = u8::try_from(level).ok().filter(|&level| level <= MAX_PRIORITY)?;
        let key = std::str::from_utf8(key).ok()?;
        let key = (!key.is_empty()).then(|| key.to_owned());
        Some((Self { priority, max_retries, key }, json))
    }
}

fn write_prefix(out: &mut Vec<u8>, envelope: &Envelope) {
    let key = envelope.key.as_deref().unwrap_or_default();
    let is_default =
        envelope.priority == DEFAULT_PRIORITY && envelope.max_attempts == DEFAULT_MAX_RETRIES && key.is_empty();
    if !is_default {
        // One digit, whatever the field holds: the scripts count on it.
        let level = envelope.priority.min(MAX_PRIORITY);
        out.extend_from_slice(format!("{level};{};{};{key}", envelope.max_attempts, key.len()).as_bytes());
    }
}

/// The unix time in seconds that a reader fills in when the record has none.
fn implied_time(id: &str) -> u64 {
    id::made_at(id).map_or(0, |made| made.whole_seconds())
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
