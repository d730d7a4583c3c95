//! `duly._core.WebEngine`: the page of `duly web`, as `duly.web` asks for it.

use duly::blocking;
use duly_console::{Rights, Visit, WebAnswer, WebPage};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::aio::AsyncClient;
use crate::client::Client;
use crate::waiting::wait;

/// The page of `duly web` for a web application, which calls it for each request.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct WebEngine(WebPage);

/// Names and values.
type Headers = Vec<(String, String)>;

fn client_of(client: &Bound<'_, PyAny>) -> PyResult<blocking::Client> {
    if let Ok(client) = client.cast::<Client>() {
        return Ok(client.get().client().clone());
    }
    let of_aio = client.cast::<AsyncClient>().map(|client| client.get().client.clone());
    of_aio.map_err(|_| PyTypeError::new_err("client must be a duly.Client or a duly.aio.Client"))
}

/// As web servers of Python give what may be any bytes.
fn latin_1(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect()
}

#[pymethods]
impl WebEngine {
    /// Show the queues of this client; `hide_data`: without data, headers and results to those who may only look.
    #[new]
    #[pyo3(signature = (client, *, hide_data))]
    fn new(client: &Bound<'_, PyAny>, hide_data: bool) -> PyResult<Self> {
        Ok(Self(WebPage::new(client_of(client)?, hide_data)))
    }

    /// Return how many bytes of a body are to be given at the most; with more it is refused.
    #[staticmethod]
    fn most_body_bytes() -> usize {
        WebPage::MOST_BODY_BYTES
    }

    /// Answer one request: the status, the headers and the body. `actions`: what the user may do.
    #[pyo3(signature = (method, uri, *, mount, headers, body, actions, user, peer, secure))]
    #[expect(clippy::too_many_arguments, reason = "a request has so many parts")]
    fn handle<'py>(
        &self,
        py: Python<'py>,
        method: String,
        uri: String,
        mount: String,
        headers: Headers,
        body: Vec<u8>,
        actions: Vec<String>,
        user: Option<String>,
        peer: String,
        secure: bool,
    ) -> PyResult<(u16, Headers, Bound<'py, PyBytes>)> {
        let headers = headers.into_iter().map(|(name, value)| (name, latin_1(&value))).collect();
        let rights = Rights::of(actions);
        let visit = Visit { method, uri, mount, headers, body, peer, is_over_tls: secure, user, rights };
        let WebAnswer { status, headers, body } = wait(py, |signals| self.0.handle(visit, signals))?;
        Ok((status, headers, PyBytes::new(py, &body)))
    }

    /// Return what was done since the last call of this: a line for each action.
    fn lines(&self) -> Vec<String> {
        self.0.lines()
    }
}
