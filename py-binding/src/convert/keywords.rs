//! Keyword arguments that several functions share: read here by name, so that each list is written once.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// The keyword arguments of one call.
pub(crate) struct Keywords<'a, 'py> {
    given: Option<&'a Bound<'py, PyDict>>,
}

impl<'a, 'py> Keywords<'a, 'py> {
    /// Refuses a name that is not `known`, in Python's words.
    pub(crate) fn of(call: &str, known: &[&str], given: Option<&'a Bound<'py, PyDict>>) -> PyResult<Self> {
        for name in given.iter().flat_map(|given| given.keys()) {
            let name = name.cast_into::<PyString>()?;
            let name = name.to_string_lossy();
            if !known.contains(&&*name) {
                return Err(PyTypeError::new_err(format!("{call}() got an unexpected keyword argument '{name}'")));
            }
        }
        Ok(Self { given })
    }

    /// What was given under this name; None is as good as nothing.
    pub(crate) fn get(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(given) = self.given else { return Ok(None) };
        Ok(given.get_item(name)?.filter(|value| !value.is_none()))
    }
}
