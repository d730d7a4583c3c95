//! PHP values to JSON and back, by PHP's own encoder: what `json_encode` makes of a value is what travels.

use duly::Data;
use ext_php_rs::convert::IntoZvalDyn;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::array::Iter;
use ext_php_rs::types::{ZendCallable, ZendHashTable, Zval};
use ext_php_rs::zend::{ClassEntry, ExecutorGlobals};

use crate::error::Fault;

const DEPTH: i64 = 512;
/// PHP's decoder counts one level more than its encoder: what was pushed must come out.
const DECODE_DEPTH: i64 = 1024;
/// `JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION`: 1.0 stays a float.
const ENCODE: i64 = 64 | 256 | 1024;

/// The data of a job: ready JSON byte for byte, or what `json_encode` makes of the value.
///
/// Runs PHP code (`JsonSerializable`), so it is done before anything of Rust is under way.
pub fn data(value: &Zval, raw_json: Option<&Zval>) -> Result<Data, Fault> {
    if let Some(raw) = raw_json.filter(|raw| !raw.is_null()) {
        if !value.is_null() {
            return Err(Fault::invalid("give data or rawJson, not both: pass null as data"));
        }
        let bytes =
            raw.zend_str().ok_or_else(|| Fault::invalid("rawJson must be a string of JSON"))?.as_bytes().to_vec();
        return Ok(Data::from_json(bytes, usize::MAX)?);
    }
    let encoded = call("json_encode", vec![value, &ENCODE, &DEPTH])?;
    let Some(json) = encoded.zend_str() else {
        let why = call("json_last_error_msg", Vec::new())?.string().unwrap_or_default();
        let place = Search::new(no_json_scalar).place_in(value);
        return Err(Fault::invalid(format!("{} cannot be JSON: {why}; nothing was sent", the_data(place))));
    };
    let json = json.as_bytes().to_vec();
    // PHP makes `{}` of a closure or a connection without a word: the worker would find nothing of it.
    if json.windows(2).any(|two| two == b"{}")
        && let Some(place) = Search::new(is_no_data).place_in(value)
    {
        let place = the_data(Some(place));
        return Err(Fault::invalid(format!("{place} is an object that is no data, as a closure; nothing was sent")));
    }
    Ok(Data::from_json(json, usize::MAX)?)
}

/// `the data`, or `the data at order.items.0`.
fn the_data(place: Option<String>) -> String {
    match place {
        Some(place) if !place.is_empty() => format!("the data at '{place}'"),
        _ => "the data".to_owned(),
    }
}

/// Looks for the place of a value that is not right.
struct Search<F> {
    is_bad: F,
    /// Arrays may hold themselves, more than once: the search gives up after so many values.
    left: u32,
}

impl<F: Fn(&Zval) -> bool> Search<F> {
    fn new(is_bad: F) -> Self {
        Self { is_bad, left: 1_000_000 }
    }

    /// Names of keys and properties with dots between; empty for the value itself.
    fn place_in(&mut self, value: &Zval) -> Option<String> {
        let mut path = Vec::new();
        self.find(value, &mut path).then(|| path.join("."))
    }

    fn find(&mut self, value: &Zval, path: &mut Vec<String>) -> bool {
        let value = value.dereference();
        if (self.is_bad)(value) {
            return true;
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || path.len() > 512 {
            return false;
        }
        let Some(table) = members(value) else { return false };
        let mut members = Iter::new(table);
        while let Some((name, member)) = members.next_zval() {
            let name = match name.zend_str() {
                // Not public: json_encode leaves it out.
                Some(mangled) if value.is_object() && mangled.as_bytes().first() == Some(&0) => continue,
                Some(name) => String::from_utf8_lossy(name.as_bytes()).into_owned(),
                None => name.long().unwrap_or_default().to_string(),
            };
            path.push(name);
            if self.find(member, path) {
                return true;
            }
            path.pop();
        }
        false
    }
}

/// What `json_encode` looks into. What a `JsonSerializable` gives is its own affair.
fn members(value: &Zval) -> Option<&ZendHashTable> {
    if let Some(array) = value.array() {
        return Some(array);
    }
    let object = value.object()?;
    let serializable = ClassEntry::try_find("JsonSerializable").is_some_and(|class| object.instance_of(class));
    if serializable { None } else { object.get_properties().ok() }
}

fn no_json_scalar(value: &Zval) -> bool {
    value.is_resource()
        || value.double().is_some_and(|number| value.is_double() && !number.is_finite())
        || value.zend_str().is_some_and(|text| std::str::from_utf8(text.as_bytes()).is_err())
}

/// An object of PHP itself that PHP refuses to serialize: closure, generator, connection.
fn is_no_data(value: &Zval) -> bool {
    const INTERNAL: std::ffi::c_char = 1;
    value.object().is_some_and(|object| {
        let class = object.get_class_entry();
        class.type_ == INTERNAL && class.flags().contains(ClassFlags::NotSerializable)
    })
}

/// What `json_decode` makes of JSON. Some JSON it refuses, such as half of a surrogate pair: that is an error here, not null.
pub fn decode(json: &str, assoc: bool) -> Result<Zval, Fault> {
    let value = call("json_decode", vec![&json, &assoc, &DECODE_DEPTH])?;
    if value.is_null() && call("json_last_error", Vec::new())?.long() != Some(0) {
        let why = call("json_last_error_msg", Vec::new())?.string().unwrap_or_default();
        let message = format!("PHP cannot decode the data of this job: {why}; it is unharmed, as JSON, in 'raw'");
        return Err(duly::Error::new(duly::ErrorKind::Corrupt, message).into());
    }
    Ok(value)
}

/// Calls a function of PHP that is always there.
pub fn call(name: &str, arguments: Vec<&dyn IntoZvalDyn>) -> Result<Zval, Fault> {
    let function = ZendCallable::try_from_name(name)
        .map_err(|_| Fault::invalid(format!("PHP's {name} is missing: enable the json extension")))?;
    let answer = function.try_call(arguments);
    if ExecutorGlobals::has_exception() {
        return Err(Fault::Thrown);
    }
    answer.map_err(|error| Fault::invalid(format!("PHP's {name} failed: {error}")))
}

/// Seconds as int or float; nothing else is a number here, not even a numeric string.
pub fn seconds(name: &str, value: &Zval) -> Result<f64, Fault> {
    #[allow(clippy::cast_precision_loss)] // no span of interest has more than 53 bits of seconds
    let number = match (value.is_long(), value.is_double()) {
        (true, _) => value.long().map(|whole| whole as f64),
        (_, true) => value.double(),
        _ => None,
    };
    number.ok_or_else(|| Fault::invalid(format!("{name} must be seconds as int or float")))
}

/// The values of an array. The table's own iterator panics at a key that is not UTF-8.
pub fn values(table: &ZendHashTable) -> impl Iterator<Item = &Zval> {
    let mut members = Iter::new(table);
    std::iter::from_fn(move || members.next_zval().map(|(_, value)| value.dereference()))
}

/// A list of strings.
pub fn strings(name: &str, table: &ZendHashTable) -> Result<Vec<String>, Fault> {
    values(table)
        .map(|value| {
            if value.is_string() { value.string() } else { None }
                .ok_or_else(|| Fault::invalid(format!("{name} must be a list of strings")))
        })
        .collect()
}
