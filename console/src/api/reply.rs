//! What is answered: a status and JSON, or why not.

use std::time::Duration;

use duly::{Error, ErrorKind};
use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use serde::Serialize;
use serde_json::json;

use super::room::Room;
use super::tokens::{Closed, Role};
use crate::show::escaped;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What a connection sends: a page, or an answer of the API.
pub(crate) type Sent = hyper::Response<Full<Bytes>>;

/// An answer.
pub(super) struct Reply {
    status: StatusCode,
    headers: Vec<(HeaderName, String)>,
    text: Bytes,
    /// What the log says of it; `done` if nothing.
    outcome: Option<String>,
}

impl Reply {
    pub(super) fn json(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), text: text.into(), outcome: None }
    }

    /// Errors: `Internal`, as what duly writes can be written.
    pub(super) fn of(status: StatusCode, value: &impl Serialize) -> Result<Self, Refusal> {
        let text = serde_json::to_vec(value)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("the answer cannot be written: {error}")))?;
        Ok(Self::json(status, text))
    }

    pub(super) fn ok(value: &impl Serialize) -> Result<Self, Refusal> {
        Self::of(StatusCode::OK, value)
    }

    pub(super) fn with_outcome(self, outcome: String) -> Self {
        Self { outcome: Some(outcome), ..self }
    }

    pub(super) fn outcome(&self) -> &str {
        self.outcome.as_deref().unwrap_or("done")
    }

    /// Keeps of this room what it needs, until it is sent or its connection ends.
    pub(super) fn holding(self, room: Room) -> Self {
        Self { text: room.kept_by(self.text), ..self }
    }

    /// The last one of its connection.
    pub(super) fn closing(mut self) -> Self {
        self.headers.push((CONNECTION, "close".to_owned()));
        self
    }

    pub(super) fn into_response(self) -> Sent {
        let mut response = hyper::Response::new(Full::new(self.text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// Why a request is not answered as it wished.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
    /// May the same request succeed later?
    is_transient: bool,
    error: Option<Box<Error>>,
    header: Option<(HeaderName, String)>,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), is_transient: false, error: None, header: None }
    }

    fn with(self, name: HeaderName, value: String) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    fn transient(self) -> Self {
        Self { is_transient: true, ..self }
    }

    /// A wrong request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorKind::InvalidArgument.as_str(), message)
    }

    pub(super) fn no_such_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no_such_path",
            "there is no such path: /api/v1/openapi.json lists all of them",
        )
    }

    pub(super) fn wrong_method(allowed: &[&str]) -> Self {
        let allowed = allowed.join(", ");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("this path takes {allowed}"))
            .with(ALLOW, allowed)
    }

    pub(super) fn not_permitted(role: Role, needed: Role) -> Self {
        let (role, needed) = (role.as_str(), needed.as_str());
        let message = format!("this token has the role {role}, and this needs {needed}");
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// `wait`: until the next one is permitted.
    pub(super) fn too_many(wait: Duration) -> Self {
        let why = "this token has made as many requests as it may: wait as Retry-After says";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", why)
            .with(RETRY_AFTER, (wait.as_secs() + 1).to_string())
            .transient()
    }

    /// As many as there may be are under way.
    pub(super) fn busy(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Busy.as_str(), message)
            .with(RETRY_AFTER, "1".to_owned())
            .transient()
    }

    pub(super) fn wrong_type() -> Self {
        let why = "send JSON, with the header `Content-Type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", why)
    }

    pub(super) fn too_large(most: usize) -> Self {
        let why = format!("the body has more than {most} bytes: push fewer jobs in a request");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorKind::TooLarge.as_str(), why)
    }

    pub(super) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body took too long, and nothing was done").transient()
    }

    /// No job has this id or key.
    pub(super) fn no_job(by_key: bool) -> Self {
        let why = if by_key {
            "no live job of this queue has this key: it is done, has failed, was cancelled, or never was there"
        } else {
            "no job of this queue has this id: it is done, was cancelled, or never was there"
        };
        Self::new(StatusCode::NOT_FOUND, ErrorKind::NotFound.as_str(), why)
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl From<Closed> for Refusal {
    fn from(closed: Closed) -> Self {
        let unauthorized = |why| {
            Self::new(StatusCode::UNAUTHORIZED, "unauthorized", why)
                .with(WWW_AUTHENTICATE, "Bearer realm=\"duly\"".to_owned())
        };
        match closed {
            Closed::NoToken => unauthorized("give a token: `Authorization: Bearer …`"),
            Closed::Wrong { .. } => unauthorized("this is none of the tokens in DULY_API_TOKENS of duly web"),
            Closed::TooOften => {
                let why = "too many wrong tokens came from this address: wait for a minute";
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_wrong_tokens", why)
                    .with(RETRY_AFTER, "60".to_owned())
                    .transient()
            }
        }
    }
}

/// What an error of the engine means to whoever has sent the request.
fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        // It is there, and not in the right state.
        ErrorKind::NotFound if error.job_state().is_some() => StatusCode::CONFLICT,
        ErrorKind::NotFound | ErrorKind::NoResult => StatusCode::NOT_FOUND,
        ErrorKind::Duplicate | ErrorKind::LeaseLost | ErrorKind::JobFailed => StatusCode::CONFLICT,
        ErrorKind::QueueFull => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
        _ if error.kind().is_transient() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        // One line, also where it has what a handler has said.
        let refusal = Self::new(status_of(&error), error.kind().as_str(), escaped(error.to_string().chars()));
        let refusal = Self { is_transient: error.is_transient(), ..refusal };
        let refusal = match refusal.status {
            // Not of a batch that is in by half.
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
                if refusal.is_transient || error.kind() == ErrorKind::Interrupted =>
            {
                refusal.with(RETRY_AFTER, "1".to_owned())
            }
            _ => refusal,
        };
        Self { error: Some(Box::new(error)), ..refusal }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        let mut said = json!({
            "kind": refusal.kind,
            "message": refusal.message,
            "transient": refusal.is_transient,
        });
        if let Some(error) = &refusal.error {
            if let Some(id) = error.job_id() {
                said["job_id"] = json!(id);
            }
            if let Some(state) = error.job_state() {
                said["job_state"] = json!(state.as_str());
            }
            if let Some(index) = error.batch_index() {
                said["index"] = json!(index);
            }
        }
        let reply = Self::json(refusal.status, json!({ "error": said }).to_string());
        Self { headers: refusal.header.into_iter().collect(), ..reply }
    }
}
