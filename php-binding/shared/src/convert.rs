//! PHP values to JSON and back, by PHP's own encoder: what `json_encode` makes of a value is what travels.

mod time;

pub use time::{given, lease_span, moment, span, span_or_interval, span_or_moment, when};

use std::collections::BTreeMap;

use duly::{Data, Millis};
use ext_php_rs::convert::{FromZval, IntoZvalDyn, StubLiteral};
use ext_php_rs::exception::throw_object;
use ext_php_rs::flags::{ClassFlags, DataType};
use ext_php_rs::types::array::Iter;
use ext_php_rs::types::{ZendHashTable, ZendObject, Zval};
use ext_php_rs::zend::{ClassEntry, ExecutorGlobals};

use crate::call;
use crate::error::{Fault, without_arguments};

const DEPTH: i64 = 512;
/// PHP's decoder counts one level more than its encoder: what was pushed must come out.
const DECODE_DEPTH: i64 = 1024;
/// `JSON_THROW_ON_ERROR`.
const THROW_ON_ERROR: i64 = 4_194_304;
/// `JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION`: 1.0 stays a float.
const ENCODE: i64 = 64 | 256 | 1024 | THROW_ON_ERROR;

/// A string argument, of any bytes: PHP's own refusal would say nothing of UTF-8 and be no exception of duly.
pub struct Text(Vec<u8>);

impl FromZval<'_> for Text {
    const TYPE: DataType = DataType::String;

    fn from_zval(value: &Zval) -> Option<Self> {
        let value = value.dereference();
        if value.is_string() { value.zend_str().map(|text| Self(text.as_bytes().to_vec())) } else { None }
    }
}

/// A default.
impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl StubLiteral for Text {
    fn stub_literal(&self) -> String {
        String::from_utf8_lossy(&self.0).stub_literal()
    }
}

impl Text {
    /// As PHP has them.
    pub fn bytes(self) -> Vec<u8> {
        self.0
    }

    /// The text, if it is UTF-8.
    pub fn utf8(self, name: &str) -> Result<String, Fault> {
        String::from_utf8(self.0).map_err(|_| Fault::invalid(format!("{name} must be text in UTF-8")))
    }
}

/// The text of an argument that may be null.
pub fn utf8(name: &str, text: Option<Text>) -> Result<Option<String>, Fault> {
    text.map(|text| text.utf8(name)).transpose()
}

/// The data of a job: ready JSON byte for byte, or what `json_encode` makes of the value.
///
/// Runs PHP code (`JsonSerializable`), so it is done before anything of Rust is under way.
pub fn data(value: Option<&Zval>, raw: Option<&Zval>) -> Result<Data, Fault> {
    let null = Zval::null();
    let value = value.unwrap_or(&null);
    if let Some(raw) = raw.filter(|raw| !raw.is_null()) {
        if !value.is_null() {
            return Err(Fault::invalid("give data or raw, not both"));
        }
        let text = if raw.is_string() { raw.zend_str() } else { None };
        let bytes = text.ok_or_else(|| Fault::invalid("raw must be a string of JSON"))?.as_bytes().to_vec();
        return Ok(Data::from_json(bytes, usize::MAX)?);
    }
    encoded("data", value)
}

/// The data of one message of many, by its index from 0. Runs PHP code as `data` does.
pub fn data_at(index: usize, value: &Zval) -> Result<Data, Fault> {
    encoded(&format!("data at index {index}"), value)
}

/// What a job gives, if its producer wants to have it; refused as data is, and when it is larger than data may be.
pub fn result(job: &duly::Job, value: Option<&Zval>) -> Result<Option<Data>, Fault> {
    if !job.keeps_result() {
        return Ok(None);
    }
    let result = encoded("result", value.unwrap_or(&Zval::null()))?;
    job.check_result(&result)?;
    Ok(Some(result))
}

fn encoded(what: &str, value: &Zval) -> Result<Data, Fault> {
    // What `jsonSerialize` throws would show the data as an argument of `json_encode`.
    let encoded = match without_arguments(|| try_json("json_encode", vec![value, &ENCODE, &DEPTH]))? {
        Ok(encoded) => encoded,
        Err(why) => {
            let path = Search::new(no_json_scalar).path_in(value)?;
            return Err(Fault::invalid(format!("{} cannot be JSON: {why}", named_path(what, path))));
        }
    };
    let json = encoded.zend_str().map(|json| json.as_bytes().to_vec()).unwrap_or_default();
    // PHP makes `{}` of a closure, a connection or an object without public properties, and says nothing: the worker would
    // find nothing of it.
    if json.windows(2).any(|two| two == b"{}")
        && let Some(path) = Search::of_what_travels(is_no_data).path_in(value)?
    {
        let path = named_path(what, Some(path));
        return Err(Fault::invalid(format!(
            "{path} is an object that JSON has nothing of, as a closure or one whose properties are private: \
             make it JsonSerializable, or push an array"
        )));
    }
    Ok(Data::from_json(json, usize::MAX)?)
}

/// Calls `json_encode` or `json_decode` so that `json_last_error` stays as the program left it. What the function itself
/// complains of is the inner error; an exception of `JsonSerializable` stays pending as it is.
fn try_json(function: &str, arguments: Vec<&dyn IntoZvalDyn>) -> Result<Result<Zval, String>, Fault> {
    match call::function(function, arguments) {
        Err(Fault::Thrown) => {}
        answer => return answer.map(Ok),
    }
    // Any other is none of ours; `exit` too is an exception inside, which must not be thrown again.
    let is_of_json =
        |object: &ZendObject| ClassEntry::try_find("JsonException").is_some_and(|class| object.instance_of(class));
    if !ExecutorGlobals::get().exception().is_some_and(is_of_json) {
        return Err(Fault::Thrown);
    }
    let Some(mut thrown) = ExecutorGlobals::take_exception() else { return Err(Fault::Thrown) };
    if is_thrown_here(&mut thrown)? {
        let message = call::method(&thrown, "getMessage", Vec::new())?.and_then(|message| message.string());
        return Ok(Err(message.unwrap_or_default()));
    }
    let mut value = Zval::new();
    value.set_object(&mut thrown);
    // Cannot fail: it is an object.
    let _ = throw_object(value);
    Err(Fault::Thrown)
}

/// By the function that was called from here, not by one that it called in turn: those have more frames above ours.
fn is_thrown_here(thrown: &mut ZendObject) -> Result<bool, Fault> {
    const IGNORE_ARGS: i64 = 2;
    let frames = |trace: &Zval| trace.array().map_or(0, ZendHashTable::len);
    // Where an administrator has disabled it, nobody can know.
    let Ok(here) = call::function("debug_backtrace", vec![&IGNORE_ARGS]) else { return Ok(true) };
    let there = call::method(thrown, "getTrace", Vec::new())?;
    Ok(there.is_some_and(|there| frames(&there) == frames(&here) + 1))
}

/// `the data`, or `the data at order.items.0`.
fn named_path(what: &str, path: Option<String>) -> String {
    match path {
        Some(path) if !path.is_empty() => format!("the {what} at '{path}'"),
        _ => format!("the {what}"),
    }
}

/// Looks for the path of a value that is not right.
struct Search<F> {
    is_bad: F,
    /// Whether it asks a `JsonSerializable` once more for what travels of it. That runs PHP code.
    asks: bool,
    /// Arrays may hold themselves, more than once: the search gives up after so many values.
    left: u32,
}

impl<F: Fn(&Zval) -> bool> Search<F> {
    fn new(is_bad: F) -> Self {
        Self { is_bad, asks: false, left: 1_000_000 }
    }

    /// Looks also into what `jsonSerialize` gives.
    fn of_what_travels(is_bad: F) -> Self {
        Self { asks: true, ..Self::new(is_bad) }
    }

    /// Names of keys and properties with dots between; empty for the value itself.
    fn path_in(&mut self, value: &Zval) -> Result<Option<String>, Fault> {
        let mut path = Vec::new();
        Ok(self.find(value, &mut path, 0)?.then(|| path.join(".")))
    }

    fn find(&mut self, value: &Zval, path: &mut Vec<String>, depth: u32) -> Result<bool, Fault> {
        let value = value.dereference();
        let serializable = value.object().filter(|object| is_serializable(object));
        let mut object = value.object();
        if let Some(asked) = serializable {
            if !self.asks || self.left == 0 || depth > 512 {
                return Ok(false);
            }
            let given = call::method(asked, "jsonSerialize", Vec::new())?.unwrap_or_else(Zval::null);
            let given = call::Guarded::from(given);
            // Of one that gives itself, its public properties travel.
            if !given.object().is_some_and(|given| std::ptr::eq(given, asked)) {
                self.left -= 1;
                return self.find(&given, path, depth + 1);
            }
            object = Some(asked);
        }
        if (self.is_bad)(value) {
            return Ok(true);
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || depth > 512 {
            return Ok(false);
        }
        let Some(table) = value.array().or_else(|| object?.get_properties().ok()) else { return Ok(false) };
        let mut members = Iter::new(table);
        while let Some((name, member)) = members.next_zval() {
            let name = match name.zend_str() {
                // Not public: json_encode leaves it out.
                Some(mangled) if value.is_object() && mangled.as_bytes().first() == Some(&0) => continue,
                Some(name) => String::from_utf8_lossy(name.as_bytes()).into_owned(),
                None => name.long().unwrap_or_default().to_string(),
            };
            path.push(name);
            // A lazy object may run PHP code at the first look at its properties.
            let member = call::Guarded::of(member);
            if self.find(&member, path, depth + 1)? {
                return Ok(true);
            }
            path.pop();
        }
        Ok(false)
    }
}

fn is_serializable(object: &ZendObject) -> bool {
    ClassEntry::try_find("JsonSerializable").is_some_and(|class| object.instance_of(class))
}

fn no_json_scalar(value: &Zval) -> bool {
    value.is_resource()
        || value.double().is_some_and(|number| value.is_double() && !number.is_finite())
        || value.zend_str().is_some_and(|text| std::str::from_utf8(text.as_bytes()).is_err())
}

/// An object of which JSON has nothing though something is in it: a closure, a generator or a connection, which are PHP's own, or
/// one whose properties are not public. Not a `stdClass`, or an object of a class without properties.
fn is_no_data(value: &Zval) -> bool {
    const INTERNAL: std::ffi::c_char = 1;
    let Some(object) = value.object() else { return false };
    let is = |class: &str| ClassEntry::try_find(class).is_some_and(|class| object.instance_of(class));
    if is("stdClass") {
        return false;
    }
    let classes = std::iter::successors(Some(object.get_class_entry()), |class| class.parent());
    let of_php = classes.take(64).find(|class| class.type_ == INTERNAL);
    if of_php.is_some_and(|class| class.flags().contains(ClassFlags::NotSerializable)) {
        return true;
    }
    let Ok(properties) = object.get_properties() else { return false };
    let is_public = |name: &Zval| name.zend_str().is_none_or(|name| name.as_bytes().first() != Some(&0));
    let mut names = Iter::new(properties);
    let mut has_hidden = false;
    while let Some((name, _)) = names.next_zval() {
        if is_public(&name) {
            return false;
        }
        has_hidden = true;
    }
    has_hidden || (of_php.is_some() && !is("ArrayObject") && !is("ArrayIterator"))
}

/// What `json_decode` makes of JSON. Some JSON it refuses, such as half of a surrogate pair: that is an error here, not null.
pub fn decode(json: &str, assoc: bool) -> Result<Zval, Fault> {
    decode_of("job", json, assoc)
}

/// The fields that duly does not know, decoded as data is.
pub fn extra(envelope: &duly::Envelope, assoc: bool) -> Result<BTreeMap<String, Zval>, Fault> {
    let decoded = |field: &duly::UnknownField| Ok((field.name.clone(), decode(field.value.as_str(), assoc)?));
    envelope.unknown.iter().map(decoded).collect()
}

/// The same, of what is no job.
pub fn decode_of(what: &str, json: &str, assoc: bool) -> Result<Zval, Fault> {
    try_json("json_decode", vec![&json, &assoc, &DECODE_DEPTH, &THROW_ON_ERROR])?.map_err(|why| {
        let message = format!("PHP cannot decode the data of this {what}: {why}; it is unharmed, as JSON, in 'raw'");
        duly::Error::new(duly::ErrorKind::Corrupt, message).into()
    })
}

/// A number as int or float; nothing else is one here.
pub fn number(name: &str, value: &Zval) -> Result<f64, Fault> {
    let refused = || Fault::invalid(format!("{name} must be a number (int or float), not {}", type_name(value)));
    number_of(value).ok_or_else(refused)
}

#[allow(clippy::cast_precision_loss)] // no number of interest has more than 53 bits
fn number_of(value: &Zval) -> Option<f64> {
    let value = value.dereference();
    match (value.is_long(), value.is_double()) {
        (true, _) => value.long().map(|whole| whole as f64),
        (_, true) => value.double(),
        _ => None,
    }
}

/// Seconds as int or float; nothing else is a number here, not even a numeric string.
pub fn seconds(name: &str, value: &Zval) -> Result<f64, Fault> {
    let refused = || Fault::invalid(format!("{name} must be seconds (int or float), not {}", type_name(value)));
    number_of(value).ok_or_else(refused)
}

/// A span in seconds.
pub fn millis(name: &str, value: &Zval) -> Result<Millis, Fault> {
    Millis::from_seconds(seconds(name, value)?).map_err(|error| named(name, &error))
}

/// A whole number from 0 to the largest of its kind.
pub fn whole<T: TryFrom<i64>>(name: &str, number: i64, largest: i64) -> Result<T, Fault> {
    let refused = || Fault::invalid(format!("{name} must be a whole number from 0 to {largest}, not {number}"));
    if number > largest {
        return Err(refused());
    }
    T::try_from(number).map_err(|_| refused())
}

/// The engine's complaint, with the argument that it is about.
pub fn named(name: &str, error: &duly::Error) -> Fault {
    Fault::invalid(format!("{name}: {error}"))
}

/// `string`, `Closure`: what an error says was given, which is never the value.
pub fn type_name(value: &Zval) -> String {
    call::function("get_debug_type", vec![value]).ok().and_then(|name| name.string()).unwrap_or_default()
}

/// The values of an array. The table's own iterator panics at a key that is not UTF-8.
pub fn values(table: &ZendHashTable) -> impl Iterator<Item = &Zval> {
    let mut members = Iter::new(table);
    std::iter::from_fn(move || members.next_zval().map(|(_, value)| value.dereference()))
}

/// The text of a value that must be a string.
pub fn text(name: &str, value: &Zval) -> Result<String, Fault> {
    let refused = || Fault::invalid(format!("{name} must be a string, not {}", type_name(value)));
    Text::from_zval(value).ok_or_else(refused)?.utf8(name)
}

/// The strings of a variadic argument.
pub fn texts(name: &str, values: &[&Zval]) -> Result<Vec<String>, Fault> {
    if has_unknown_names() {
        return Err(Fault::invalid(format!(
            "give each {name} as an argument without a name, or spread a list: ...$list"
        )));
    }
    values.iter().map(|value| text(name, value)).collect()
}

/// Whether the method that runs was called with named arguments that it does not have. PHP refuses those itself, except where
/// there is a variadic argument.
fn has_unknown_names() -> bool {
    const ZEND_CALL_HAS_EXTRA_NAMED_PARAMS: u32 = 1 << 27;
    let frame = ExecutorGlobals::get().current_execute_data;
    // SAFETY: the frame is that of the method that runs, which PHP made and keeps until the method returns.
    unsafe { frame.as_ref().is_some_and(|frame| frame.This.u1.type_info & ZEND_CALL_HAS_EXTRA_NAMED_PARAMS != 0) }
}
