//! The envelope: everything there is to know about one job, and the complete JSON package that carries it.

use std::collections::BTreeMap;

use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::json::{self, Cursor, Fault};
use crate::value::name::{self, DEFAULT_PRIORITY, MAX_PRIORITY};
use crate::value::retry::{DEFAULT_MAX_RETRIES, RetryPolicy};
use crate::value::seconds::Seconds;
use crate::value::time::{MAX_DELAY, Millis};

/// The newest version of the wire format that this duly reads. It writes 2 for jobs that expire, and 1, which is not written, for all others.
pub const FORMAT_VERSION: u32 = 2;
/// The version that knows of jobs that expire.
const WITH_EXPIRY: u32 = 2;
/// The most bytes of an error text that are kept: 8 KiB, cut at the edge of a character.
pub const MAX_ERROR_BYTES: usize = 8 * 1024;

/// One job as a complete package carries it. See `docs/wire-format.md`.
///
/// ```
/// use duly::Envelope;
///
/// let package = br#"{"id":"1690000000.5.1","time":1690000000,"delay":15,"attempts":1,"data":{"order":42}}"#;
/// let envelope = Envelope::decode(package)?;
/// assert_eq!(envelope.max_attempts, 5);
/// assert_eq!(envelope.data.as_str(), r#"{"order":42}"#);
/// # Ok::<(), duly::Error>(())
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Envelope {
    /// The job's id; empty if a foreign package had none.
    pub id: String,
    /// When the job was pushed, in unix seconds; 0 if a foreign package did not say.
    pub time: u64,
    /// The delay it was pushed with, in seconds, digit for digit.
    pub delay: Seconds,
    /// Failures so far.
    pub attempts: u32,
    /// How many retries are allowed (`max_retries` in every API): 5 by default.
    pub max_attempts: u32,
    /// The user's data, byte for byte.
    pub data: Data,
    /// The text of the last failure, at most [`MAX_ERROR_BYTES`]; empty if there was none.
    pub error: String,
    /// Which handler runs it.
    pub name: Option<String>,
    /// The user's business key.
    pub key: Option<String>,
    /// 0 runs first, 9 last; 5 by default.
    pub priority: u8,
    /// The longest run.
    pub timeout: Option<Millis>,
    /// The job's own retry policy, instead of the queue's.
    pub retry: Option<RetryPolicy>,
    /// Headers, such as the W3C `traceparent`.
    pub headers: BTreeMap<String, String>,
    /// When it expires, in milliseconds since 1970: if no run of it has started by then, it is dropped.
    pub expires: Option<Millis>,
    /// How long its result is kept; without it none is.
    pub result_ttl: Option<Millis>,
    /// Fields that this version does not know, in the order in which they came.
    pub unknown: Vec<UnknownField>,
}

/// A field that this version does not know and carries along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// The field's name.
    pub name: String,
    /// Its value, byte for byte.
    pub value: Data,
}

impl Envelope {
    /// A job with this id and data, and the default of everything else.
    pub fn new(id: impl Into<String>, data: Data) -> Self {
        // Each by itself: the default envelope has data too, which would be made on each push only to be dropped.
        Self {
            id: id.into(),
            time: 0,
            delay: Seconds::ZERO,
            attempts: 0,
            max_attempts: DEFAULT_MAX_RETRIES,
            data,
            error: String::new(),
            name: None,
            key: None,
            priority: DEFAULT_PRIORITY,
            timeout: None,
            retry: None,
            headers: BTreeMap::new(),
            expires: None,
            result_ttl: None,
            unknown: Vec::new(),
        }
    }

    /// The value of a field that this version does not know: another program, or another queue, has written it. Of two it is the last.
    ///
    /// ```
    /// let job = duly::Envelope::decode(br#"{"id":"1","data":42,"shop":7}"#)?;
    /// assert_eq!(job.extra("shop").map(|value| value.as_str()), Some("7"));
    /// assert_eq!(job.extra("data"), None);
    /// # Ok::<(), duly::Error>(())
    /// ```
    pub fn extra(&self, name: &str) -> Option<&Data> {
        self.unknown.iter().rev().find(|field| field.name == name).map(|field| &field.value)
    }

    /// Refuses what must not be pushed: a bad id, key, handler name, priority, header, timeout or retry policy.
    ///
    /// [`ErrorKind::InvalidArgument`]; the message says what is allowed. Decoding does not check this, so that the jobs
    /// of others can still be read.
    pub fn check(&self) -> Result<(), Error> {
        name::check_id(&self.id)?;
        self.name.as_deref().map_or(Ok(()), name::check_handler)?;
        self.key.as_deref().map_or(Ok(()), name::check_key)?;
        name::check_priority(self.priority)?;
        name::check_headers(&self.headers)?;
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::check)?;
        if self.timeout.is_some_and(|timeout| timeout > MAX_DELAY) || self.delay.to_millis() > MAX_DELAY {
            return Err(Error::invalid(
                "a delay, timeout or due time must be at most 3153600000 seconds (100 years) away",
            ));
        }
        if self.result_ttl.is_some_and(|ttl| ttl == Millis::ZERO || ttl > MAX_DELAY) {
            return Err(Error::invalid("a result_ttl must be 0.001 to 3153600000 seconds (100 years)"));
        }
        Ok(())
    }

    /// Reads a package: a complete one, or one that an older `ThinkPHP`, Go or workerman queue wrote.
    ///
    /// Fields may come in any order and may be missing, except `data`; `null` is the same as missing. An `id` may be a
    /// number; `time`, `delay`, `attempts` and `max_attempts` may be numeric strings. A field that comes twice counts
    /// as it came last (as in PHP, Python and Go).
    ///
    /// Errors: [`ErrorKind::Corrupt`] with the reason and never the data; [`ErrorKind::FormatTooNew`] if `v` is above
    /// [`FORMAT_VERSION`].
    pub fn decode(package: &[u8]) -> Result<Self, Error> {
        Self::decode_noting_time(package).map(|(envelope, _)| envelope)
    }

    /// The same, and whether the package said a `time`.
    pub(crate) fn decode_noting_time(package: &[u8]) -> Result<(Self, bool), Error> {
        let text = std::str::from_utf8(package)
            .map_err(|error| corrupt(format!("it is not UTF-8 at byte {}", error.valid_up_to())))?;
        let envelope = Self::new("", Data::unread());
        let mut reader = Reader { envelope, has_data: false, has_time: false, version: 1 };
        each_member(text, |name, value| reader.field(name, value))?;
        if reader.version >= WITH_EXPIRY {
            reader.read_expiry()?;
        }
        if !reader.has_data {
            return Err(corrupt("the field 'data' is missing"));
        }
        Ok((reader.envelope, reader.has_time))
    }

    /// The complete package: the seven old fields in their order, then ours where they are not the default, then the
    /// unknown ones. What a failed job, an export and an old consumer see.
    pub fn encode_complete(&self) -> Vec<u8> {
        let mut writer = Writer::new(Vec::with_capacity(self.data.as_str().len() + self.error.len() + 192));
        writer.string("id", &self.id);
        writer.number("time", self.time);
        writer.number("delay", &self.delay);
        writer.number("attempts", self.attempts);
        writer.number("max_attempts", self.max_attempts);
        writer.verbatim("data", self.data.as_str());
        writer.string("error", cut_error(&self.error));
        if let Some(name) = &self.name {
            writer.string("name", name);
        }
        if let Some(key) = &self.key {
            writer.string("key", key);
        }
        if self.priority != DEFAULT_PRIORITY {
            writer.number("priority", self.priority);
        }
        self.write_rest(&mut writer);
        writer.finish()
    }

    /// What comes after the priority in a complete package and in a stored record alike.
    pub(crate) fn write_rest(&self, writer: &mut Writer) {
        if let Some(timeout) = self.timeout {
            writer.number("timeout", timeout);
        }
        if let Some(retry) = &self.retry {
            writer.json("retry", retry);
        }
        if !self.headers.is_empty() {
            writer.json("headers", &self.headers);
        }
        if let Some(expires) = self.expires {
            // Before: the scripts read the end of such a record.
            self.write_unknown(writer);
            // A reader of version 1 would run it whenever that is: it leaves version 2 alone.
            writer.number("v", WITH_EXPIRY);
            writer.number("expires", expires);
        }
        if let Some(ttl) = self.result_ttl {
            writer.number("result_ttl", ttl);
        }
        if self.expires.is_none() {
            self.write_unknown(writer);
        }
    }

    fn write_unknown(&self, writer: &mut Writer) {
        for field in &self.unknown {
            writer.verbatim(&field.name, field.value.as_str());
        }
    }
}

/// The error text as it is kept: at most [`MAX_ERROR_BYTES`], cut at the edge of a character.
pub fn cut_error(error: &str) -> &str {
    cut(error, MAX_ERROR_BYTES)
}

/// At most so many bytes of a text, cut at the edge of a character.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

pub(crate) fn corrupt(reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("this is not a package that duly can read: {reason}; `find` and `peek` show its bytes as its package"),
    )
}

fn malformed(fault: Fault) -> Error {
    corrupt(format_args!("{fault}"))
}

/// Hands over each name, as it is written, and its value of an object.
fn each_member(text: &str, mut field: impl FnMut(&str, &str) -> Result<(), Error>) -> Result<(), Error> {
    let mut cursor = Cursor::new(text);
    cursor.skip_space();
    cursor.expect(b'{', "it is not a JSON object").map_err(malformed)?;
    cursor.skip_space();
    if !cursor.take(b'}') {
        loop {
            let (name, value) = member(&mut cursor).map_err(malformed)?;
            field(name, value)?;
            if cursor.take(b'}') {
                break;
            }
            cursor.expect(b',', "a comma or the closing brace is missing").map_err(malformed)?;
            cursor.skip_space();
        }
    }
    cursor.finish().map_err(malformed)
}

/// The fields of an object in their order, each value byte for byte.
///
/// Errors: [`ErrorKind::Corrupt`] if it is none.
pub(crate) fn members(text: &str) -> Result<Vec<(String, String)>, Error> {
    let mut fields = Vec::new();
    each_member(text, |name, value| {
        fields.push((json::unescaped_lossy(name).into_owned(), value.to_owned()));
        Ok(())
    })?;
    Ok(fields)
}

/// One name and its value. The value's text reaches from the colon to the comma or brace behind it, white space
/// included: the white space around data is the user's as well.
fn member<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a str, &'a str), Fault> {
    let name = cursor.string()?;
    cursor.skip_space();
    cursor.expect(b':', "a colon is missing")?;
    let start = cursor.at();
    cursor.skip_space();
    cursor.value()?;
    cursor.skip_space();
    Ok((name, cursor.since(start)))
}

/// An envelope while its fields come in.
struct Reader {
    envelope: Envelope,
    has_data: bool,
    has_time: bool,
    version: u32,
}

impl Reader {
    /// Of version 1 a field of this name is somebody else's.
    fn read_expiry(&mut self) -> Result<(), Error> {
        let unknown = &mut self.envelope.unknown;
        while let Some(at) = unknown.iter().position(|field| field.name == "expires") {
            let value = unknown.remove(at).value;
            let value = value.as_str().trim_matches([' ', '\n', '\r', '\t']);
            self.envelope.expires = if value == "null" { None } else { Some(moment("expires", value)?) };
        }
        Ok(())
    }

    fn field(&mut self, raw_name: &str, verbatim: &str) -> Result<(), Error> {
        let name = json::unescaped(raw_name).ok_or_else(|| corrupt("a field name holds half a surrogate pair"))?;
        let envelope = &mut self.envelope;
        let value = verbatim.trim_matches([' ', '\n', '\r', '\t']);
        let given = value != "null";
        match &*name {
            "id" => envelope.id = if given { id(value)? } else { String::new() },
            "time" => {
                envelope.time = if given { whole("time", value, u64::MAX)? } else { 0 };
                self.has_time = given;
            }
            "delay" => envelope.delay = if given { delay(value)? } else { Seconds::ZERO },
            "attempts" => envelope.attempts = if given { count("attempts", value)? } else { 0 },
            "max_attempts" => {
                envelope.max_attempts = if given { count("max_attempts", value)? } else { DEFAULT_MAX_RETRIES };
            }
            "data" => {
                envelope.data = Data::trusted(verbatim);
                self.has_data = true;
            }
            "error" => envelope.error = if given { error_text(value)? } else { String::new() },
            "v" if given => self.version = version(value)?,
            "v" => {}
            "name" => envelope.name = optional_text("name", value)?,
            "key" => envelope.key = optional_text("key", value)?,
            "priority" => envelope.priority = if given { priority(value)? } else { DEFAULT_PRIORITY },
            "timeout" => envelope.timeout = if given { Some(span("timeout", value)?) } else { None },
            "retry" => envelope.retry = if given { Some(retry(value)?) } else { None },
            "headers" => envelope.headers = if given { headers(value)? } else { BTreeMap::new() },
            "result_ttl" => envelope.result_ttl = if given { Some(span("result_ttl", value)?) } else { None },
            _ => envelope.unknown.push(UnknownField { name: name.into_owned(), value: Data::trusted(verbatim) }),
        }
        Ok(())
    }
}

/// The text between the quotes, escapes as they are; None if the value is no string.
fn quoted(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

fn text(field: &str, value: &str) -> Result<String, Error> {
    let raw = quoted(value).ok_or_else(|| corrupt(format_args!("the field '{field}' is not a string")))?;
    let text =
        json::unescaped(raw).ok_or_else(|| corrupt(format_args!("the field '{field}' holds half a surrogate pair")))?;
    Ok(text.into_owned())
}

fn optional_text(field: &str, value: &str) -> Result<Option<String>, Error> {
    if value == "null" {
        return Ok(None);
    }
    Ok(Some(text(field, value)?).filter(|text| !text.is_empty()))
}

fn id(value: &str) -> Result<String, Error> {
    if json::is_number(value) { Ok(value.to_owned()) } else { text("id", value) }
}

fn error_text(value: &str) -> Result<String, Error> {
    let raw = quoted(value).ok_or_else(|| corrupt("the field 'error' is not a string"))?;
    Ok(cut_error(&json::unescaped_lossy(raw)).to_owned())
}

/// A number of zero or more, also as a numeric string, rounded down to a whole one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
fn whole(field: &str, value: &str, max: u64) -> Result<u64, Error> {
    let digits = quoted(value).unwrap_or(value).trim();
    let number = digits.parse::<u64>().ok().or_else(|| {
        let number = Seconds::from_text(digits)?.as_f64();
        // Above 2^53 a float is not a whole number that anybody wrote.
        (0.0..9_007_199_254_740_992.0).contains(&number).then_some(number as u64)
    });
    number
        .filter(|&number| number <= max)
        .ok_or_else(|| corrupt(format_args!("the field '{field}' is not a number from 0 to {max}")))
}

fn count(field: &str, value: &str) -> Result<u32, Error> {
    let number = whole(field, value, u64::from(u32::MAX))?;
    u32::try_from(number).map_err(|_| corrupt(format_args!("the field '{field}' is too large")))
}

fn delay(value: &str) -> Result<Seconds, Error> {
    Seconds::from_text(quoted(value).unwrap_or(value))
        .ok_or_else(|| corrupt("the field 'delay' is not a number of seconds"))
}

fn version(value: &str) -> Result<u32, Error> {
    let version: u64 = value
        .parse()
        .ok()
        .filter(|&version| version > 0)
        .ok_or_else(|| corrupt("the field 'v' is not a version number"))?;
    u32::try_from(version).ok().filter(|&version| version <= FORMAT_VERSION).ok_or_else(|| {
        Error::new(
            ErrorKind::FormatTooNew,
            format!("the package has format {version} and this duly reads format {FORMAT_VERSION}; update duly"),
        )
    })
}

fn priority(value: &str) -> Result<u8, Error> {
    let level: Option<u8> = value.parse().ok().filter(|&level| level <= MAX_PRIORITY);
    level.ok_or_else(|| corrupt("the field 'priority' is not an integer from 0 to 9"))
}

fn span(field: &str, value: &str) -> Result<Millis, Error> {
    let wrong = || corrupt(format_args!("the field '{field}' is not a number of seconds from 0 to 3153600000"));
    let seconds = if json::is_number(value) { value.parse().ok() } else { None };
    Millis::from_seconds(seconds.ok_or_else(wrong)?).map_err(|_| wrong())
}

/// A time in unix seconds.
fn moment(field: &str, value: &str) -> Result<Millis, Error> {
    let wrong = || corrupt(format_args!("the field '{field}' is not a time in unix seconds"));
    let seconds = if json::is_number(value) { value.parse().ok() } else { None };
    Millis::from_unix_seconds(seconds.ok_or_else(wrong)?).map_err(|_| wrong())
}

fn retry(value: &str) -> Result<RetryPolicy, Error> {
    let wrong = || corrupt("the field 'retry' is not a retry policy");
    let policy: RetryPolicy = serde_json::from_str(value).map_err(|_| wrong())?;
    policy.check().map_err(|_| wrong())?;
    Ok(policy)
}

fn headers(value: &str) -> Result<BTreeMap<String, String>, Error> {
    // PHP writes an empty map as an empty list.
    if value.starts_with('[') && value[1..value.len() - 1].trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    serde_json::from_str(value).map_err(|_| corrupt("the field 'headers' is not an object of strings"))
}

/// A JSON object while it is written, behind whatever bytes are there already.
pub(crate) struct Writer {
    out: Vec<u8>,
    /// What goes in front of the next name.
    before: u8,
}

impl Writer {
    pub(crate) fn new(out: Vec<u8>) -> Self {
        Self { out, before: b'{' }
    }

    fn name(&mut self, name: &str) {
        self.out.push(self.before);
        self.before = b',';
        json::write_string(&mut self.out, name);
        self.out.push(b':');
    }

    pub(crate) fn string(&mut self, name: &str, text: &str) {
        self.name(name);
        json::write_string(&mut self.out, text);
    }

    /// JSON text, as it is.
    pub(crate) fn verbatim(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(json.as_bytes());
    }

    pub(crate) fn number(&mut self, name: &str, number: impl std::fmt::Display) {
        use std::io::Write as _;
        self.name(name);
        // Writing to a Vec cannot fail.
        let _ = write!(self.out, "{number}");
    }

    pub(crate) fn json(&mut self, name: &str, value: &impl serde::Serialize) {
        self.name(name);
        // Neither a map of strings nor a policy can fail, and neither can a Vec.
        let _ = serde_json::to_writer(&mut self.out, value);
    }

    /// The bytes of the object, which has at least one field.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.out.push(b'}');
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_pushed_is_refused() {
        let good = Envelope::new("a1", Data::default());
        assert!(good.check().is_ok());
        let refused: [fn(&mut Envelope); 10] = [
            |job| job.id = String::new(),
            |job| job.name = Some("a\nb".to_owned()),
            |job| job.key = Some(String::new()),
            |job| job.priority = 10,
            |job| drop(job.headers.insert(String::new(), String::new())),
            |job| job.retry = Some(RetryPolicy::List { delays: Vec::new() }),
            |job| job.timeout = Some(Millis::new(u64::MAX)),
            |job| job.result_ttl = Some(Millis::ZERO),
            |job| job.result_ttl = Some(Millis::new(u64::MAX)),
            |job| job.delay = Seconds::from(Millis::new(u64::MAX)),
        ];
        for (index, change) in refused.iter().enumerate() {
            let mut job = good.clone();
            change(&mut job);
            assert_eq!(job.check().unwrap_err().kind(), ErrorKind::InvalidArgument, "{index}");
        }
    }
}
