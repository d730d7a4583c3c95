//! Messages of Celery, as kombu keeps them in Redis: the protocol of version 2 with a JSON body comes over, and no other.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::instant;
use super::package::{Job, Unread};
use crate::format::envelope::Envelope;
use crate::value::data::Data;
use crate::value::name::MAX_HEADER_VALUE_BYTES;
use crate::value::time::Millis;

/// A task whose time was over before it came here.
const EXPIRED: &str = "it had expired in the old queue at ";

/// The headers that mean something to Celery alone, and those that are read here.
const KNOWN: [&str; 21] = [
    "lang",
    "task",
    "id",
    "shadow",
    "eta",
    "expires",
    "group",
    "group_index",
    "retries",
    "timelimit",
    "root_id",
    "parent_id",
    "argsrepr",
    "kwargsrepr",
    "origin",
    "ignore_result",
    "replaced_task_nesting",
    "stamped_headers",
    "stamps",
    "redelivered",
    "compression",
];

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(default, rename = "content-type")]
    content_type: String,
    #[serde(default, rename = "content-encoding")]
    content_encoding: String,
    #[serde(borrow, default)]
    headers: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    properties: BTreeMap<String, &'a RawValue>,
}

/// What is behind the arguments in a body.
#[derive(Deserialize, Default)]
struct Embed<'a> {
    #[serde(borrow)]
    callbacks: Option<&'a RawValue>,
    #[serde(borrow)]
    errbacks: Option<&'a RawValue>,
    #[serde(borrow)]
    chain: Option<&'a RawValue>,
    #[serde(borrow)]
    chord: Option<&'a RawValue>,
}

fn stays(reason: impl Into<String>) -> Unread {
    Unread::Stays(reason.into())
}

/// An entry of the hash `unacked`: the message, and where it came from. `queues`: those whose jobs come over.
pub(super) fn unacked(entry: &[u8], queues: &[String], id: &str) -> Result<Job, Unread> {
    let (message, exchange, routing_key): (&RawValue, String, String) =
        serde_json::from_slice(entry).map_err(|_| stays("an entry of 'unacked' that is not as kombu writes it"))?;
    if !exchange.is_empty() && exchange != routing_key {
        return Err(stays(format!("the task came by the exchange '{exchange}', and its queue is not known")));
    }
    if !queues.contains(&routing_key) {
        return Err(stays(format!("the task is of the queue '{routing_key}', which no --queue names")));
    }
    let job = message_of(message.get().as_bytes(), id)?;
    Ok(Job { queue: Some(routing_key), ..job })
}

/// What lies in a queue's list.
pub(super) fn message_of(entry: &[u8], id: &str) -> Result<Job, Unread> {
    let message: Message<'_> =
        serde_json::from_slice(entry).map_err(|_| stays("a message that is not as kombu writes it"))?;
    let header = |name: &str| message.headers.get(name).map(|value| value.get()).filter(|value| *value != "null");
    let text = |name: &str| header(name).and_then(|value| serde_json::from_str::<String>(value).ok());
    let Some(task) = text("task") else {
        return Err(stays("a message without the header 'task': the protocol of version 1, or no task"));
    };
    if header("compression").is_some() {
        return Err(stays("the body is compressed"));
    }
    if message.content_type != "application/json" || !message.content_encoding.eq_ignore_ascii_case("utf-8") {
        let kind = (message.content_type.chars().take(60)).filter(|each| !each.is_control()).collect::<String>();
        return Err(stays(format!("the body is '{kind}', and not JSON")));
    }
    let property = |name: &str| message.properties.get(name).map(|value| value.get());
    if property("body_encoding") != Some("\"base64\"") {
        return Err(stays("the body is not in base64"));
    }
    let body = message.body.and_then(|body| serde_json::from_str::<String>(body.get()).ok());
    let body = body.and_then(|body| base64(&body)).ok_or_else(|| stays("the body is not in base64"))?;
    let (args, kwargs, embed): (&RawValue, &RawValue, Embed<'_>) =
        serde_json::from_slice(&body).map_err(|_| stays("the body is not [args, kwargs, embed]"))?;
    let is_there = |value: Option<&RawValue>| value.is_some_and(|value| !matches!(value.get(), "null" | "[]" | "{}"));
    for (part, value) in [
        ("a callback (link)", embed.callbacks),
        ("an error callback (link_error)", embed.errbacks),
        ("a chain", embed.chain),
        ("a chord", embed.chord),
    ] {
        if is_there(value) {
            return Err(stays(format!("the task is part of a workflow: it has {part}")));
        }
    }
    if !args.get().trim_start().starts_with('[') || !kwargs.get().trim_start().starts_with('{') {
        return Err(stays("the body is not [args, kwargs, embed]"));
    }
    if body.windows(TYPE.len()).any(|part| part == TYPE) {
        return Err(stays("an argument is no JSON value, such as a datetime or a UUID"));
    }
    let data = format!(r#"{{"args":{},"kwargs":{}}}"#, args.get(), kwargs.get());
    let data = Data::from_json(data, usize::MAX).map_err(|error| stays(format!("the arguments: {error}")))?;

    let mut envelope = Envelope::new(id, data);
    envelope.name = Some(task);
    envelope.attempts = header("retries").and_then(|value| value.parse().ok()).unwrap_or_default();
    let moment = |name: &'static str| match header(name) {
        None => Ok(None),
        Some(_) => match text(name).as_deref().and_then(instant::parse) {
            Some(at) => Ok(Some(at)),
            None => Err(stays(format!("the header '{name}' is no time with a time zone"))),
        },
    };
    let (due, expires) = (moment("eta")?, moment("expires")?);
    envelope.expires = expires.map(Millis::new);
    let expires = expires.map(|at| (at, format!("{EXPIRED}{}", text("expires").unwrap_or_default())));
    let mut note = |name: &str, value: String| {
        if !value.is_empty() && value.len() <= MAX_HEADER_VALUE_BYTES {
            envelope.headers.insert(name.to_owned(), value);
        }
    };
    for name in ["expires", "group", "timelimit"] {
        let value = header(name).filter(|value| value.replace(' ', "") != "[null,null]");
        note(name, value.map_or_else(String::new, |value| value.trim_matches('"').to_owned()));
    }
    note("priority", property("priority").filter(|value| *value != "0").unwrap_or_default().to_owned());
    for (name, value) in message.headers.iter().filter(|(name, _)| !KNOWN.contains(&name.as_str())) {
        let value = value.get();
        note(name, serde_json::from_str::<String>(value).unwrap_or_else(|_| value.to_owned()));
    }
    note(super::package::OLD_ID, text("id").unwrap_or_default());
    let has_failed = !envelope.error.is_empty();
    Ok(Job { due, expires, has_failed, ..Job::of(envelope) })
}

/// Of what JSON cannot say, kombu writes an object with this field and `__value__`.
const TYPE: &[u8] = br#""__type__""#;

/// With the alphabet of RFC 4648, and its padding. As Python does, it looks past bits behind the last byte.
fn base64(text: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&STANDARD, CONFIG).decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_read_as_it_is_written() {
        for (text, bytes) in [("", ""), ("YQ==", "a"), ("dG8=", "to"), ("dHdv", "two"), ("Zm91cg==", "four")] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64("+/8=").unwrap(), [0xfb, 0xff]);
        for wrong in ["YQ", "YQ=", "Y===", "Y_8=", "====", "dHdv\n"] {
            assert_eq!(base64(wrong), None, "{wrong}");
        }
    }
}
