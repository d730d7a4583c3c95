//! One interpreter of a process, the first that imports the module, has it: classes and caches are those of the process.

use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// No interpreter has it.
const NONE: i64 = -1;

/// Raises ImportError in a second interpreter of the process, which would get the exceptions of the first.
pub(crate) fn refuse_another(py: Python<'_>) -> PyResult<()> {
    static OWNER: AtomicI64 = AtomicI64::new(NONE);
    // SAFETY: the thread is attached, so it has an interpreter, whose number is read.
    let here = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if here < 0 {
        return Err(PyErr::fetch(py));
    }
    match OWNER.compare_exchange(NONE, here, Ordering::Relaxed, Ordering::Relaxed) {
        Err(owner) if owner != here => Err(PyImportError::new_err(
            "duly works in one interpreter of a process only, and another one has imported it: use it in the main \
             interpreter (mod_wsgi: WSGIApplicationGroup %{GLOBAL}), or in a process of its own",
        )),
        _ => Ok(()),
    }
}
