//! W3C trace context: what `OpenTelemetry`'s PHP API, if the program has loaded it, says of the span that pushes.

use std::collections::BTreeMap;

use ext_php_rs::types::{ZendCallable, ZendHashTable, ZendObject, Zval};
use ext_php_rs::zend::ExecutorGlobals;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
const SPAN: &str = "opentelemetry\\api\\trace\\span";

/// Adds the current span, unless the headers have a trace. Nothing outside of a span.
pub fn add_to(headers: &mut BTreeMap<String, String>) {
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    if let Some(Trace { parent, state }) = current() {
        headers.insert(TRACEPARENT.to_owned(), parent);
        headers.extend(state.map(|state| (TRACESTATE.to_owned(), state)));
    }
}

struct Trace {
    parent: String,
    state: Option<String>,
}

/// Loads nothing: without the class there is no span.
fn current() -> Option<Trace> {
    // Not a lookup by name, which would ask the program's autoloaders at every push.
    let is_loaded = |classes: &ZendHashTable| classes.get(SPAN).is_some();
    if !ExecutorGlobals::get().class_table().is_some_and(is_loaded) || ExecutorGlobals::has_exception() {
        return None;
    }
    let trace = of_current_span();
    if ExecutorGlobals::has_exception() {
        // A push does not fail because nobody can trace it.
        drop(ExecutorGlobals::take_exception());
    }
    trace
}

fn of_current_span() -> Option<Trace> {
    let span = ZendCallable::try_from_name("OpenTelemetry\\API\\Trace\\Span::getCurrent").ok()?;
    let span = span.try_call(Vec::new()).ok()?;
    let context = ask(span.object()?, "getContext")?;
    let context = context.object()?;
    if !ask(context, "isValid")?.bool()? {
        return None;
    }
    let (trace, span) = (ask(context, "getTraceId")?.string()?, ask(context, "getSpanId")?.string()?);
    let flags = ask(context, "getTraceFlags")?.long()? & 0xff;
    let state = ask(context, "getTraceState").and_then(|state| ask(state.object()?, "__toString")?.string());
    Some(Trace { parent: format!("00-{trace}-{span}-{flags:02x}"), state: state.filter(|state| !state.is_empty()) })
}

fn ask(object: &ZendObject, method: &str) -> Option<Zval> {
    let answer = object.try_call_method(method, Vec::new()).ok();
    answer.filter(|_| !ExecutorGlobals::has_exception())
}
