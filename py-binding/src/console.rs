//! Commands of `duly` that are the same in every language.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs one and gives its exit status. A signal for which the program has a handler ends it first.
#[pyfunction]
pub(crate) fn _console(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| duly_console::run(arguments, &mut std::io::stdout(), &mut std::io::stderr()))
}
