//! PHP values to JSON and back, by PHP's own encoder: what `json_encode` makes of a value is what travels.

use duly::Data;
use ext_php_rs::convert::IntoZvalDyn;
use ext_php_rs::types::{ZendCallable, ZendHashTable, Zval};
use ext_php_rs::zend::ExecutorGlobals;

use crate::error::Fault;

const DEPTH: i64 = 512;
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
    match encoded.zend_str() {
        Some(json) => Ok(Data::from_json(json.as_bytes().to_vec(), usize::MAX)?),
        None => {
            let why = call("json_last_error_msg", Vec::new())?.string().unwrap_or_default();
            Err(Fault::invalid(format!("the data cannot be JSON: {why}; nothing was sent")))
        }
    }
}

/// What `json_decode` makes of JSON.
pub fn decode(json: &str, assoc: bool) -> Result<Zval, Fault> {
    call("json_decode", vec![&json, &assoc, &DEPTH])
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

/// A list of strings.
pub fn strings(name: &str, table: &ZendHashTable) -> Result<Vec<String>, Fault> {
    table
        .values()
        .map(|value| {
            if value.is_string() { value.string() } else { None }
                .ok_or_else(|| Fault::invalid(format!("{name} must be a list of strings")))
        })
        .collect()
}
