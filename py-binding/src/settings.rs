//! The settings of a client, sync or asyncio.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use duly::runtime::without_signals;
use duly::{ClientBuilder, ClientEvent};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::convert::{self, Keywords};
use crate::error::{Failure, invalid};
use crate::waiting::stay_in_python;
use crate::web::serves_requests;

/// Their defaults stand in the signatures that Python shows, and in the stub.
const SETTINGS: [&str; 14] = [
    "prefix",
    "username",
    "password",
    "ca_file",
    "client_cert_file",
    "client_key_file",
    "connect_timeout",
    "command_timeout",
    "deadline",
    "allow_eviction",
    "max_data_bytes",
    "durability",
    "fail_fast",
    "manual_clock",
];

pub(crate) fn builder(
    py: Python<'_>,
    url: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> Result<ClientBuilder, Failure> {
    let given = Keywords::of("Client", &SETTINGS, settings)?;
    let mut builder =
        duly::Client::builder().language("python").on_event(log).default_deadline_at_first_call(of_requests);
    let url = url.map(|url| convert::text("url", url)).transpose()?;
    if let Some(url) = &url {
        builder = builder.url(url);
    }
    if let Some(prefix) = given.get(intern!(py, "prefix"))? {
        builder = builder.prefix(&convert::text("prefix", &prefix)?);
    }
    if let Some(username) = given.get(intern!(py, "username"))? {
        builder = builder.username(&convert::text("username", &username)?);
    }
    if let Some(password) = given.get(intern!(py, "password"))? {
        builder = builder.password(&convert::text("password", &password)?);
    }
    if let Some(file) = given.get(intern!(py, "ca_file"))? {
        builder = builder.ca_file(convert::path("ca_file", &file)?);
    }
    let (certificate, key) = (given.get(intern!(py, "client_cert_file"))?, given.get(intern!(py, "client_key_file"))?);
    builder = match (certificate, key) {
        (Some(certificate), Some(key)) => builder.client_certificate(
            convert::path("client_cert_file", &certificate)?,
            convert::path("client_key_file", &key)?,
        ),
        (None, None) => builder,
        _ => return Err(invalid("client_cert_file and client_key_file belong together: give both").into()),
    };
    if let Some(timeout) = given.get(intern!(py, "connect_timeout"))? {
        builder = builder.connect_timeout(convert::duration("connect_timeout", &timeout)?);
    }
    if let Some(timeout) = given.get(intern!(py, "command_timeout"))? {
        builder = builder.command_timeout(convert::duration("command_timeout", &timeout)?);
    }
    if let Some(deadline) = given.get(intern!(py, "deadline"))? {
        builder = builder.deadline(convert::duration("deadline", &deadline)?);
    }
    if let Some(allowed) = given.get(intern!(py, "allow_eviction"))? {
        builder = builder.allow_eviction(convert::flag("allow_eviction", &allowed)?);
    }
    if let Some(max) = given.get(intern!(py, "max_data_bytes"))? {
        builder = builder.max_data_bytes(convert::whole("max_data_bytes", &max, 1..=convert::MAX_COUNT)?);
    }
    if let Some(durability) = given.get(intern!(py, "durability"))? {
        builder = builder.durability(convert::durability(&durability)?);
    }
    if let Some(fail_fast) = given.get(intern!(py, "fail_fast"))? {
        builder = builder.fail_fast(convert::flag("fail_fast", &fail_fast)?);
    }
    if let Some(manual) = given.get(intern!(py, "manual_clock"))?
        && convert::flag("manual_clock", &manual)?
    {
        builder = builder.manual_clock();
    }
    if is_embedded(url.as_deref()) {
        let brought = py.import("duly.embedded")?.call_method0("server_program")?;
        if let Some(program) = brought.extract::<Option<PathBuf>>()? {
            builder = builder.server_program(program);
        }
    }
    Ok(builder)
}

/// A web server may begin to serve behind the import that makes the client.
fn of_requests() -> Option<Duration> {
    let serves = Python::try_attach(|py| {
        let serves = serves_requests(py);
        serves.inspect_err(|error| error.clone_ref(py).write_unraisable(py, None))
    });
    matches!(serves, Some(Ok(true))).then_some(ClientBuilder::DEADLINE_IN_REQUESTS)
}

/// Logs what the client notices. On a thread of its own: the one that noticed must not wait for the GIL.
fn log(event: &ClientEvent) {
    let text = event.to_string();
    let Some(stay) = stay_in_python() else { return };
    let log = move || {
        let _stay = stay;
        let Some(Err(error)) = Python::try_attach(|py| {
            let (runs, logging) = (py.import("duly._runs")?, py.import("logging")?);
            let logger = logging.call_method1("getLogger", ("duly.client",))?;
            let given = [("logger", logger)].into_py_dict(py)?;
            runs.call_method("log_safely", (logging.getattr("WARNING")?, "%s", text), Some(&given)).map(drop)
        }) else {
            return;
        };
        Python::try_attach(|py| error.write_unraisable(py, None));
    };
    // Without a thread there is no log.
    let _ = without_signals(|| thread::Builder::new().name("duly-log".to_owned()).spawn(log));
}

fn is_embedded(url: Option<&str>) -> bool {
    match url {
        Some(url) => url.starts_with("embedded:"),
        None => std::env::var("DULY_URL").is_ok_and(|url| url.starts_with("embedded:")),
    }
}
