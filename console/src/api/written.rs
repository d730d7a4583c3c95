//! Jobs as JSON. Times are unix seconds, spans are seconds, and the data is as it was pushed.

use std::collections::BTreeMap;

use duly::{Envelope, Error, ErrorKind, Found, Job, JobView, Millis};
use serde::Serialize;
use serde_json::value::RawValue;

/// What every job has.
#[derive(Serialize)]
struct Content<'a> {
    id: &'a str,
    name: Option<&'a str>,
    key: Option<&'a str>,
    data: &'a RawValue,
    priority: u8,
    attempts: u32,
    max_retries: u32,
    error: &'a str,
    headers: &'a BTreeMap<String, String>,
    timeout: Option<Millis>,
    expires: Option<Millis>,
    result_ttl: Option<Millis>,
    pushed_at: u64,
    returns: u32,
}

impl<'a> Content<'a> {
    /// Errors: `Internal`, as data is JSON.
    fn of(envelope: &'a Envelope, returns: u32) -> Result<Self, Error> {
        let data = serde_json::from_str(envelope.data.as_str());
        let data = data.map_err(|_| Error::new(ErrorKind::Internal, "the data of a job is no JSON"))?;
        Ok(Self {
            id: &envelope.id,
            name: envelope.name.as_deref(),
            key: envelope.key.as_deref(),
            data,
            priority: envelope.priority,
            attempts: envelope.attempts,
            max_retries: envelope.max_attempts,
            error: &envelope.error,
            headers: &envelope.headers,
            timeout: envelope.timeout,
            expires: envelope.expires,
            result_ttl: envelope.result_ttl,
            pushed_at: envelope.time,
            returns,
        })
    }
}

/// A job with its lease.
#[derive(Serialize)]
pub(super) struct Reserved<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    token: u64,
    attempt: u32,
    redelivered: bool,
}

impl<'a> Reserved<'a> {
    pub(super) fn of(job: &'a Job) -> Result<Self, Error> {
        let content = Content::of(&job.envelope, job.returns)?;
        Ok(Self { content, token: job.token(), attempt: job.attempt(), redelivered: job.redelivered() })
    }
}

/// A job where it is.
#[derive(Serialize)]
pub(super) struct Viewed<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    state: &'static str,
    at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undecodable: Option<&'a str>,
}

#[derive(Serialize)]
struct Progress<'a> {
    fraction: f64,
    text: &'a str,
}

impl<'a> Viewed<'a> {
    pub(super) fn of(job: &'a JobView) -> Result<Self, Error> {
        Ok(Self {
            content: Content::of(&job.envelope, job.returns)?,
            state: job.state.as_str(),
            at: job.at.map(Millis::as_seconds),
            why: None,
            progress: job.progress.as_ref().map(|one| Progress { fraction: one.fraction, text: &one.text }),
            undecodable: job.undecodable.as_deref(),
        })
    }

    pub(super) fn found(found: &'a Found) -> Result<Self, Error> {
        Ok(Self { why: Some(&found.why), ..Self::of(&found.job)? })
    }
}
