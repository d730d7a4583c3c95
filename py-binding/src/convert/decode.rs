//! Data on its way in: JSON text to Python values, with every digit of an int.

use duly::{Data, Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString};

use crate::error::OrRaise as _;

/// The Python value of a job's data.
///
/// The engine has checked the text (one value, at most 512 levels deep), so this only takes it apart; a key that comes
/// twice counts as it came last, as in Python's own `json`.
pub(crate) fn to_python<'py>(py: Python<'py>, data: &Data) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = Reader { py, text: data.as_str(), at: 0 };
    reader.skip_space();
    reader.value()
}

struct Reader<'py, 'a> {
    py: Python<'py>,
    text: &'a str,
    at: usize,
}

impl<'py> Reader<'py, '_> {
    fn value(&mut self) -> PyResult<Bound<'py, PyAny>> {
        match self.here() {
            b'"' => self.string().map(Bound::into_any),
            b'{' => self.object(),
            b'[' => self.array(),
            b't' => Ok(self.literal("true", PyBool::new(self.py, true).to_owned().into_any())),
            b'f' => Ok(self.literal("false", PyBool::new(self.py, false).to_owned().into_any())),
            b'n' => Ok(self.literal("null", self.py.None().into_bound(self.py))),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.surprised()),
        }
    }

    fn object(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(self.py);
        self.step();
        while self.here() != b'}' {
            let key = self.string()?;
            self.skip_space();
            self.step(); // the colon
            let value = self.value()?;
            dict.set_item(key, value)?;
            self.skip_space();
            if self.here() != b',' {
                break;
            }
            self.step();
        }
        self.end(b'}')?;
        Ok(dict.into_any())
    }

    fn array(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(self.py);
        self.step();
        while self.here() != b']' {
            list.append(self.value()?)?;
            self.skip_space();
            if self.here() != b',' {
                break;
            }
            self.step();
        }
        self.end(b']')?;
        Ok(list.into_any())
    }

    fn literal(&mut self, spelled: &str, value: Bound<'py, PyAny>) -> Bound<'py, PyAny> {
        self.at += spelled.len();
        value
    }

    fn number(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .unwrap_or(rest.len());
        let digits = &rest[..length];
        self.at += length;
        if digits.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            let number = digits.parse().map_err(|_| self.surprised())?;
            return Ok(PyFloat::new(self.py, number).into_any());
        }
        match digits.parse::<i64>() {
            Ok(number) => Ok(number.into_pyobject(self.py)?.into_any()),
            Err(_) => whole(self.py, digits),
        }
    }

    fn string(&mut self) -> PyResult<Bound<'py, PyString>> {
        self.at += 1;
        let rest = &self.text.as_bytes()[self.at..];
        let end = rest.iter().position(|&byte| byte == b'"' || byte == b'\\').ok_or_else(|| self.surprised())?;
        if rest[end] == b'"' {
            let text = PyString::new(self.py, &self.text[self.at..self.at + end]);
            self.at += end + 1;
            return Ok(text);
        }
        self.escaped()
    }

    /// The rest of a string with escapes in it. Half a surrogate pair stays one, as in Python's own `json`.
    fn escaped(&mut self) -> PyResult<Bound<'py, PyString>> {
        let mut out = Vec::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let end = rest.iter().position(|&byte| byte == b'"' || byte == b'\\').ok_or_else(|| self.surprised())?;
            out.extend_from_slice(&rest[..end]);
            self.at += end + 1;
            if rest[end] == b'"' {
                break;
            }
            let escape = self.here();
            self.at += 1;
            match escape {
                b'n' => out.push(b'\n'),
                b'r' => out.push(b'\r'),
                b't' => out.push(b'\t'),
                b'b' => out.push(8),
                b'f' => out.push(12),
                b'u' => {
                    let point = self.code_point()?;
                    push_code_point(point, &mut out);
                }
                other => out.push(other),
            }
        }
        let bytes = PyBytes::new(self.py, &out);
        PyString::from_encoded_object(&bytes, Some(c"utf-8"), Some(c"surrogatepass"))
    }

    fn code_point(&mut self) -> PyResult<u32> {
        let first = self.four_digits()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                return Ok(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
            self.at = before;
        }
        Ok(first)
    }

    fn four_digits(&mut self) -> PyResult<u32> {
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.surprised())?;
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| self.surprised())
    }

    fn end(&mut self, bracket: u8) -> PyResult<()> {
        if self.here() != bracket {
            return Err(self.surprised());
        }
        self.at += 1;
        Ok(())
    }

    /// Over one byte and the white space behind it.
    fn step(&mut self) {
        self.at += 1;
        self.skip_space();
    }

    fn skip_space(&mut self) {
        while matches!(self.here(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// The byte here; 0, which valid JSON never has outside of strings, at the end.
    fn here(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn surprised(&self) -> PyErr {
        let error = Error::new(
            ErrorKind::Internal,
            format!("the data is not JSON at byte {} although it was checked", self.at),
        );
        Err::<(), _>(error).or_raise().expect_err("it is an error")
    }
}

/// Generalized UTF-8, which Python's `surrogatepass` reads.
#[expect(clippy::cast_possible_truncation, reason = "each part is masked to its bits")]
fn push_code_point(point: u32, out: &mut Vec<u8>) {
    if let Some(char) = char::from_u32(point) {
        out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        out.extend_from_slice(&[
            0xe0 | (point >> 12) as u8,
            0x80 | (point >> 6 & 0x3f) as u8,
            0x80 | (point & 0x3f) as u8,
        ]);
    }
}

/// An int of any length.
///
/// Python refuses to read more than 4,300 digits at once, because that takes quadratic time (CVE-2020-10735); whoever
/// needs such a number reads `job.raw`.
fn whole<'py>(py: Python<'py>, digits: &str) -> PyResult<Bound<'py, PyAny>> {
    static INT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let int = INT.get_or_try_init(py, || py.import("builtins")?.getattr("int").map(Bound::unbind))?;
    int.bind(py).call1((digits,))
}
