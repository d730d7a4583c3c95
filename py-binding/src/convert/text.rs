//! Texts of the user. Python's may hold half a surrogate pair, which no UTF-8 can.

use std::ops::Deref;
use std::path::PathBuf;

use duly::Error;
use pyo3::exceptions::PyUnicodeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::type_name;
use crate::error::{Failure, invalid};

/// An argument that is a text; one that UTF-8 cannot hold is an `InvalidArgumentError`.
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl FromPyObject<'_, '_> for Text {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let given = given.cast::<PyString>()?;
        Ok(utf8("the text", &given).map(Self).map_err(Failure::from)?)
    }
}

/// A text among keyword arguments.
pub(crate) fn text(what: &str, given: &Bound<'_, PyAny>) -> Result<String, Error> {
    let text =
        given.cast::<PyString>().map_err(|_| invalid(format!("{what} must be a str, not {}", type_name(given))))?;
    utf8(what, text)
}

/// A str, or an object that stands for a path.
pub(crate) fn path(what: &str, given: &Bound<'_, PyAny>) -> Result<PathBuf, Failure> {
    given.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyUnicodeError>(given.py()) {
            half_a_pair(what).into()
        } else {
            Failure::Python(error)
        }
    })
}

pub(super) fn utf8(what: &str, text: &Bound<'_, PyString>) -> Result<String, Error> {
    text.to_str().map(str::to_owned).map_err(|_| half_a_pair(what))
}

fn half_a_pair(what: &str) -> Error {
    invalid(format!("{what} holds half a surrogate pair, which UTF-8 cannot hold"))
}
