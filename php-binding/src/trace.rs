//! W3C trace context: what `OpenTelemetry`'s PHP API, if the program has loaded it, says of the span that pushes.

use ext_php_rs::types::{ZendCallable, ZendHashTable, ZendObject, Zval};
use ext_php_rs::zend::ExecutorGlobals;

/// The header's name.
pub const TRACEPARENT: &str = "traceparent";
const SPAN: &str = "opentelemetry\\api\\trace\\span";

/// The value of the header `traceparent`; none outside of a span. Loads nothing: without the class there is no span.
pub fn parent() -> Option<String> {
    // Not a lookup by name, which would ask the program's autoloaders at every push.
    let is_loaded = |classes: &ZendHashTable| classes.get(SPAN).is_some();
    if !ExecutorGlobals::get().class_table().is_some_and(is_loaded) || ExecutorGlobals::has_exception() {
        return None;
    }
    let parent = of_current_span();
    if ExecutorGlobals::has_exception() {
        // A push does not fail because nobody can trace it.
        drop(ExecutorGlobals::take_exception());
    }
    parent
}

fn of_current_span() -> Option<String> {
    let span = ZendCallable::try_from_name("OpenTelemetry\\API\\Trace\\Span::getCurrent").ok()?;
    let span = span.try_call(Vec::new()).ok()?;
    let context = ask(span.object()?, "getContext")?;
    let context = context.object()?;
    if !ask(context, "isValid")?.bool()? {
        return None;
    }
    let (trace, span) = (ask(context, "getTraceId")?.string()?, ask(context, "getSpanId")?.string()?);
    let flags = ask(context, "getTraceFlags")?.long()? & 0xff;
    Some(format!("00-{trace}-{span}-{flags:02x}"))
}

fn ask(object: &ZendObject, method: &str) -> Option<Zval> {
    let answer = object.try_call_method(method, Vec::new()).ok();
    answer.filter(|_| !ExecutorGlobals::has_exception())
}
