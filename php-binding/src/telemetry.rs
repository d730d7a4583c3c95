//! W3C trace context: what `OpenTelemetry`'s PHP API, if the program has loaded it, says of the span that pushes.

use std::collections::BTreeMap;

use ext_php_rs::types::{ZendHashTable, Zval};
use ext_php_rs::zend::ExecutorGlobals;

use crate::call::{self, Guarded};
use crate::error::Fault;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
const SPAN: &str = "opentelemetry\\api\\trace\\span";

/// Adds the current span, unless the headers have a trace. Nothing outside of a span.
pub fn add_to(headers: &mut BTreeMap<String, String>) -> Result<(), Fault> {
    if headers.contains_key(TRACEPARENT) {
        return Ok(());
    }
    if let Some(Trace { parent, state }) = current()? {
        headers.insert(TRACEPARENT.to_owned(), parent);
        headers.extend(state.map(|state| (TRACESTATE.to_owned(), state)));
    }
    Ok(())
}

struct Trace {
    parent: String,
    state: Option<String>,
}

/// Loads nothing: without the class there is no span.
fn current() -> Result<Option<Trace>, Fault> {
    // Not a lookup by name, which would ask the program's autoloaders at every push.
    let is_loaded = |classes: &ZendHashTable| classes.get(SPAN).is_some();
    if !ExecutorGlobals::get().class_table().is_some_and(is_loaded) || ExecutorGlobals::has_exception() {
        return Ok(None);
    }
    match of_current_span() {
        Err(Fault::Thrown) => {
            // A push does not fail because nobody can trace it.
            call::guarded(|| drop(ExecutorGlobals::take_exception()))?;
            Ok(None)
        }
        trace => trace,
    }
}

fn of_current_span() -> Result<Option<Trace>, Fault> {
    let span = Guarded::from(call::function("OpenTelemetry\\API\\Trace\\Span::getCurrent", Vec::new())?);
    let Some(context) = ask(&span, "getContext")? else { return Ok(None) };
    if ask(&context, "isValid")?.and_then(|is_valid| is_valid.bool()) != Some(true) {
        return Ok(None);
    }
    let text = |method| Ok::<_, Fault>(ask(&context, method)?.and_then(|text| text.string()));
    let (Some(trace), Some(span)) = (text("getTraceId")?, text("getSpanId")?) else { return Ok(None) };
    let Some(flags) = ask(&context, "getTraceFlags")?.and_then(|flags| flags.long()) else { return Ok(None) };
    let state = match ask(&context, "getTraceState")? {
        Some(state) => ask(&state, "__toString")?.and_then(|state| state.string()),
        None => None,
    };
    let parent = format!("00-{trace}-{span}-{:02x}", flags & 0xff);
    Ok(Some(Trace { parent, state: state.filter(|state| !state.is_empty()) }))
}

/// What a method of this object gives; nothing if it is no object.
fn ask(value: &Zval, method: &str) -> Result<Option<Guarded>, Fault> {
    let Some(object) = value.object() else { return Ok(None) };
    Ok(call::method(object, method, Vec::new())?.map(Guarded::from))
}
