//! Texts of the user. Python's may hold half a surrogate pair, which no UTF-8 can.

use std::marker::PhantomData;
use std::ops::Deref;
use std::path::PathBuf;

use duly::Error;
use pyo3::exceptions::{PyTypeError, PyUnicodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use super::type_name;
use crate::error::{Failure, invalid};

/// The name of an argument, for messages.
pub(crate) trait Argument {
    const NAME: &'static str;
}

macro_rules! arguments {
    ($($argument:ident = $name:literal),* $(,)?) => {$(
        pub(crate) enum $argument {}

        impl Argument for $argument {
            const NAME: &'static str = $name;
        }
    )*};
}
arguments! {
    Counted = "counted", Cursor = "cursor", Final = "final", Id = "id", Ids = "ids", IdOfSeveral = "an id", Jitter = "jitter", Key = "key",
    Member = "member", Name = "name", Only = "only", QueueName = "the name of a queue", Renew = "renew", Repair = "repair", Start = "from_",
    StateWord = "state", Words = "text",
}

/// An argument that is a text; one that UTF-8 cannot hold is an `InvalidArgumentError`.
pub(crate) struct Text<A>(String, PhantomData<A>);

impl<A> Text<A> {
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

impl<A> Deref for Text<A> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<A: Argument> FromPyObject<'_, '_> for Text<A> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let Ok(text) = given.cast::<PyString>() else { return Err(of_wrong_type(A::NAME, "a str", &given)) };
        Ok(utf8(A::NAME, &text).map(|text| Self(text, PhantomData)).map_err(Failure::from)?)
    }
}

/// For `from_py_with`: an argument that is a bool, and nothing that merely counts as one.
pub(crate) fn is_set<A: Argument>(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    flag(A::NAME, given)
}

/// A bool among keyword arguments.
pub(crate) fn flag(what: &str, given: &Bound<'_, PyAny>) -> PyResult<bool> {
    given.cast::<PyBool>().map(PyBoolMethods::is_true).map_err(|_| of_wrong_type(what, "a bool", given))
}

pub(crate) fn of_wrong_type(what: &str, wanted: &str, given: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("{what} must be {wanted}, not {}", type_name(given)))
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
            Failure::Python(of_wrong_type(what, "a str or a path", given))
        }
    })
}

pub(super) fn utf8(what: &str, text: &Bound<'_, PyString>) -> Result<String, Error> {
    text.to_str().map(str::to_owned).map_err(|_| half_a_pair(what))
}

fn half_a_pair(what: &str) -> Error {
    invalid(format!("{what} holds half a surrogate pair, which UTF-8 cannot hold"))
}
