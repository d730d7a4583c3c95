//! Whether this process answers web requests, which must not wait for long while the server is away.
//!
//! To have imported a web server says nothing: a worker imports the modules of its web application, too. A thread that runs one is what
//! counts: its stack shows it, also while it imports the application. uWSGI and `mod_wsgi` are no Python code, but have modules that only
//! exist inside them.
//!
//! No code in Python runs here: Python would handle a Ctrl-C in it, and that would be lost, as nobody could raise it.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Packages that are a web server, or one with a framework.
const SERVERS: [&str; 10] =
    ["bjoern", "cheroot", "cherrypy", "daphne", "granian", "gunicorn", "hypercorn", "sanic", "uvicorn", "waitress"];
/// Modules of packages that are much else. Of tornado not the event loop, which notebooks have as well.
const SERVING: [&str; 4] = ["django.core.servers.basehttp", "tornado.httpserver", "tornado.web", "werkzeug.serving"];
/// Of aiohttp the module that is the server, and those behind it: `aiohttp.web_app` and so on. The others are its client.
const AIOHTTP_SERVER: &str = "aiohttp.web";

/// The process in which the first call of an event loop came from a web server; 0 for none.
static SERVES: AtomicU32 = AtomicU32::new(0);

/// Whether a web server runs in this process. Not beside a worker, whose jobs have the time to wait.
#[pyfunction]
#[pyo3(name = "_serves_requests")]
pub(crate) fn serves_requests(py: Python<'_>) -> PyResult<bool> {
    Ok(by_stacks(py)?.unwrap_or_else(|| SERVES.load(Ordering::Relaxed) == process::id()))
}

/// Notes at the first call of an event loop whether a web server makes it. Later the engine's thread decides for the client, and the
/// stack of a server without a frame below its event loop shows it only while it runs a handler (tornado, `AppRunner` of aiohttp).
pub(crate) fn note_first_call_of_loop(py: Python<'_>) -> PyResult<()> {
    if by_stacks(py)? == Some(true) {
        SERVES.store(process::id(), Ordering::Relaxed);
    }
    Ok(())
}

/// What the stacks of all threads show: a web server, or a worker; nothing if neither.
fn by_stacks(py: Python<'_>) -> PyResult<Option<bool>> {
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
                    return Ok(Some(false));
                }
                serves = serves || is_of_a_server(&name);
            }
            frame = frame.getattr("f_back")?;
        }
    }
    Ok(serves.then_some(true))
}

fn is_of_a_server(module: &str) -> bool {
    let package = module.split('.').next().unwrap_or_default();
    let behind_aiohttp_server = module.strip_prefix(AIOHTTP_SERVER);
    SERVERS.contains(&package)
        || SERVING.contains(&module)
        || behind_aiohttp_server.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}
