//! Data on its way out: a Python value to JSON text, exactly or not at all.

use std::io::Write as _;

use duly::{Data, Error};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::type_name;
use crate::error::invalid;

/// As deep as the engine accepts; a value that contains itself ends here too.
const MAX_DEPTH: usize = 512;
/// A message shows the outermost steps of a longer path.
const SHOWN_STEPS: usize = 12;

/// The JSON text of None, bool, int, float, str, list, tuple and dict.
///
/// Refused, with the path of the culprit: everything else, ints beyond 64 bits, NaN and infinities, keys that are no
/// strings, half surrogate pairs, what is nested too deep or contains itself.
pub(crate) fn to_json(value: &Bound<'_, PyAny>) -> Result<Vec<u8>, Error> {
    encoded("data", value)
}

/// What a job gives, if its producer wants to have it; refused as data is, and when it is larger than data may be.
pub(crate) fn result(job: &duly::Job, value: &Bound<'_, PyAny>) -> Result<Option<Data>, Error> {
    if !job.keeps_result() {
        return Ok(None);
    }
    let result = Data::from_json(encoded("result", value)?, usize::MAX)?;
    job.check_result(&result)?;
    Ok(Some(result))
}

fn encoded(what: &str, value: &Bound<'_, PyAny>) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out, 0).map_err(|refused| refused.into_error(what))?;
    Ok(out)
}

/// What cannot be JSON, and the way to it, innermost step first.
struct Refused {
    why: String,
    steps: Vec<String>,
}

type Written = Result<(), Box<Refused>>;

impl Refused {
    fn because(why: impl Into<String>) -> Written {
        Err(Box::new(Self { why: why.into(), steps: Vec::new() }))
    }

    #[expect(clippy::boxed_local, reason = "boxed so that the Result of every value stays small")]
    fn into_error(self: Box<Self>, what: &str) -> Error {
        let shown: String = self.steps.iter().rev().take(SHOWN_STEPS).map(String::as_str).collect();
        let more = if self.steps.len() > SHOWN_STEPS { "…" } else { "" };
        invalid(format!("{what}{shown}{more} {}", self.why))
    }
}

fn write(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> Written {
    if let Ok(text) = value.cast::<PyString>() {
        return write_text(text, out);
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return write_dict(dict, out, deeper(depth)?);
    }
    if value.is_none() {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    // Before int: a bool is one.
    if let Ok(flag) = value.cast::<PyBool>() {
        out.extend_from_slice(if flag.is_true() { b"true" } else { b"false" });
        return Ok(());
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return write_int(number, out);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return write_float(number.value(), out);
    }
    if let Ok(list) = value.cast::<PyList>() {
        return write_items(list.iter(), out, deeper(depth)?);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return write_items(tuple.iter(), out, deeper(depth)?);
    }
    let found = type_name(value);
    Refused::because(format!(
        "is of type {found}, which JSON does not have: convert it yourself, or give bytes of JSON with raw=",
    ))
}

fn deeper(depth: usize) -> Result<usize, Box<Refused>> {
    if depth == MAX_DEPTH {
        Refused::because(format!("is nested deeper than {MAX_DEPTH} levels, or contains itself"))?;
    }
    Ok(depth + 1)
}

fn write_int(number: &Bound<'_, PyInt>, out: &mut Vec<u8>) -> Written {
    let written = if let Ok(signed) = number.extract::<i64>() {
        write!(out, "{signed}")
    } else if let Ok(unsigned) = number.extract::<u64>() {
        write!(out, "{unsigned}")
    } else {
        return Refused::because(
            "is an int beyond 64 bits, which other languages cannot read: push it as a string".to_owned(),
        );
    };
    written.or_else(|error| Refused::because(error.to_string()))
}

fn write_float(number: f64, out: &mut Vec<u8>) -> Written {
    if !number.is_finite() {
        return Refused::because("is NaN or infinite, which JSON cannot hold");
    }
    // The shortest digits that give the same float again, and always a point or an exponent: a float stays a float.
    write!(out, "{number:?}").or_else(|error| Refused::because(error.to_string()))
}

fn write_text(text: &Bound<'_, PyString>, out: &mut Vec<u8>) -> Written {
    let Ok(text) = text.to_str() else {
        return Refused::because("holds half a surrogate pair, which UTF-8 cannot hold");
    };
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[from..at]);
        from = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
    Ok(())
}

fn write_dict(dict: &Bound<'_, PyDict>, out: &mut Vec<u8>, depth: usize) -> Written {
    out.push(b'{');
    let mut first = true;
    for (key, value) in dict.iter() {
        let Ok(name) = key.cast::<PyString>() else {
            let found = type_name(&key);
            return Refused::because(format!("has a key of type {found}: the keys of JSON objects are strings"));
        };
        if !first {
            out.push(b',');
        }
        first = false;
        write_text(name, out).or_else(|_| Refused::because("has a key that holds half a surrogate pair"))?;
        out.push(b':');
        write(&value, out, depth).map_err(|mut refused| {
            refused.steps.push(step(name));
            refused
        })?;
    }
    out.push(b'}');
    Ok(())
}

fn write_items<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, out: &mut Vec<u8>, depth: usize) -> Written {
    out.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(&item, out, depth).map_err(|mut refused| {
            refused.steps.push(format!("[{index}]"));
            refused
        })?;
    }
    out.push(b']');
    Ok(())
}

/// `.price`, or `["unit price"]` for what is no plain word.
fn step(name: &Bound<'_, PyString>) -> String {
    let name: String = name.to_string_lossy().chars().take(64).collect();
    let plain = !name.is_empty() && name.chars().all(|char| char.is_alphanumeric() || char == '_');
    if plain { format!(".{name}") } else { format!("[{name:?}]") }
}
