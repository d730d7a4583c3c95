//! Whether this process answers web requests, which must not wait for long while the server is away.
//!
//! To have imported a web server says nothing: a worker imports the modules of its web application, too. A thread that runs one is what
//! counts: its stack shows it, also while it imports the application. uWSGI and `mod_wsgi` are no Python code, but have modules that only
//! exist inside them.
//!
//! No code in Python runs here: Python would handle a Ctrl-C in it, and that would be lost, as nobody could raise it.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

const SERVERS: [&str; 6] = ["daphne", "granian", "gunicorn", "hypercorn", "uvicorn", "waitress"];
/// Of packages that are much else.
const SERVING: [&str; 2] = ["werkzeug.serving", "django.core.servers.basehttp"];

/// Whether a web server runs in this process. Not beside a worker, whose jobs have the time to wait.
#[pyfunction]
#[pyo3(name = "_serves_requests")]
pub(crate) fn serves_requests(py: Python<'_>) -> PyResult<bool> {
    let sys = py.import("sys")?;
    let loaded = sys.getattr("modules")?.cast_into::<PyDict>()?;
    let is_of_mod_wsgi = |module: Bound<'_, PyAny>| module.hasattr("process_group");
    let mut serves = loaded.contains("uwsgi")? || loaded.get_item("mod_wsgi")?.map_or(Ok(false), is_of_mod_wsgi)?;
    for (_, top) in sys.call_method0("_current_frames")?.cast_into::<PyDict>()? {
        let mut frame = top;
        while !frame.is_none() {
            let globals = frame.getattr("f_globals")?.cast_into::<PyDict>()?;
            if let Some(name) = globals.get_item("__name__")?
                && let Ok(name) = name.cast_into::<PyString>()
            {
                let name = name.to_string_lossy();
                if name == "duly.worker" {
                    return Ok(false);
                }
                let package = name.split('.').next().unwrap_or_default();
                serves = serves || SERVERS.contains(&package) || SERVING.contains(&&*name);
            }
            frame = frame.getattr("f_back")?;
        }
    }
    Ok(serves)
}
