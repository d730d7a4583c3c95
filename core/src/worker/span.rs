//! The span of a run: for the log, and with the feature `opentelemetry` for the trace that its producer began.

use tracing::Span;

use super::failure::Failure;
use crate::queue::Job;

#[cfg(not(feature = "opentelemetry"))]
pub(super) fn of_run(job: &Job) -> Span {
    // Of the highest level, so that no filter of events takes away what they are about.
    tracing::error_span!(
        "duly.job",
        queue = job.part().name(),
        id = job.id(),
        name = job.envelope.name.as_deref(),
        attempt = job.attempt()
    )
}

/// With the attributes of the semantic conventions for messaging, the same as in Python.
#[cfg(feature = "opentelemetry")]
pub(super) fn of_run(job: &Job) -> Span {
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let queue = job.part().name();
    let span = tracing::error_span!(
        "duly.job",
        otel.name = format!("process {queue}"),
        otel.kind = "consumer",
        queue,
        id = job.id(),
        name = job.envelope.name.as_deref(),
        attempt = job.attempt()
    );
    if let Some(parent) = crate::queue::parent(&job.envelope.headers) {
        // Refused only for a span that has begun.
        let _ = span.set_parent(parent);
    }
    span.set_attribute("messaging.system", "duly");
    span.set_attribute("messaging.destination.name", queue.to_owned());
    span.set_attribute("messaging.operation.name", "process");
    span.set_attribute("messaging.operation.type", "process");
    span.set_attribute("messaging.message.id", job.id().to_owned());
    span.set_attribute("duly.job.attempt", i64::from(job.attempt()));
    if let Some(name) = &job.envelope.name {
        span.set_attribute("duly.job.name", name.clone());
    }
    span
}

/// Notes in the trace that the run failed. One that only gives its job back has not.
#[cfg_attr(not(feature = "opentelemetry"), allow(unused_variables))] // there is no trace then
pub(super) fn failed(span: &Span, failure: &Failure) {
    #[cfg(feature = "opentelemetry")]
    if failure.is_failure() {
        // A text has no type; this is the conventions' word for that.
        note(span, failure.origin.kind().unwrap_or("_OTHER"), failure.error.clone());
    }
}

/// Notes in the trace that the run was interrupted.
#[cfg_attr(not(feature = "opentelemetry"), allow(unused_variables))] // there is no trace then
pub(super) fn interrupted(span: &Span) {
    #[cfg(feature = "opentelemetry")]
    note(span, "JobInterrupted", "the run was interrupted".to_owned());
}

#[cfg(feature = "opentelemetry")]
fn note(span: &Span, kind: &'static str, message: String) {
    use opentelemetry::KeyValue;
    use opentelemetry::trace::Status;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let about = vec![KeyValue::new("exception.type", kind), KeyValue::new("exception.message", message)];
    span.add_event("exception", about);
    span.set_attribute("error.type", kind);
    span.set_status(Status::error(""));
}
