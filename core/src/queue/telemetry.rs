//! The trace context of whoever pushes, in a job's headers as the W3C writes it, for programs that use `OpenTelemetry`.

use std::collections::BTreeMap;
use std::str::FromStr;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Adds `traceparent` and `tracestate` of the current span, unless the headers have a trace. Nothing outside of a span.
pub(crate) fn add_trace(headers: &mut BTreeMap<String, String>) {
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    let of_tracing = Span::current().context();
    // A program may use OpenTelemetry's own spans.
    let context = if of_tracing.has_active_span() { of_tracing } else { Context::current() };
    let span = context.span();
    let span = span.span_context();
    if !span.is_valid() {
        return;
    }
    let (trace, id, flags) = (span.trace_id(), span.span_id(), span.trace_flags().to_u8());
    headers.insert(TRACEPARENT.to_owned(), format!("00-{trace:032x}-{id:016x}-{flags:02x}"));
    let state = span.trace_state().header();
    if !state.is_empty() {
        headers.insert(TRACESTATE.to_owned(), state);
    }
}

/// The trace that a run continues; none if the headers have no trace that can be read.
pub(crate) fn parent(headers: &BTreeMap<String, String>) -> Option<Context> {
    let (trace, span, flags) = parse(headers.get(TRACEPARENT)?)?;
    let state = headers.get(TRACESTATE).and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    let parent = SpanContext::new(trace, span, flags, true, state);
    parent.is_valid().then(|| Context::new().with_remote_span_context(parent))
}

/// `00-<trace>-<span>-<flags>`. A later version may have more parts.
fn parse(traceparent: &str) -> Option<(TraceId, SpanId, TraceFlags)> {
    let parts: Vec<_> = traceparent.trim().split('-').collect();
    let [version, trace, span, flags, more @ ..] = &parts[..] else { return None };
    let digits = [(version, 2), (trace, 32), (span, 16), (flags, 2)];
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !digits.iter().all(|(text, count)| text.len() == *count && is_hex(text)) {
        return None;
    }
    if *version == "ff" || (*version == "00" && !more.is_empty()) {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some((TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?, TraceFlags::new(flags)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_traceparent_is_read() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        for (good, text) in [
            (true, format!("00-{trace}-{span}-01")),
            (true, format!("01-{trace}-{span}-01-later")),
            (false, format!("00-{trace}-{span}-01-later")),
            (false, format!("ff-{trace}-{span}-01")),
            (false, format!("00-{}-{span}-01", trace.to_uppercase())),
            (false, format!("00-{trace}-{span}")),
            (false, format!("00-{}-{span}-01", "0".repeat(32))),
            (false, format!("00-{trace}é-{span}-01")),
            (false, String::new()),
        ] {
            let headers = BTreeMap::from([(TRACEPARENT.to_owned(), text.clone())]);
            assert_eq!(parent(&headers).is_some(), good, "{text}");
        }
    }
}
