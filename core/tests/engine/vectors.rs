//! Every vector in `conformance/vectors`, read from the files that Python and PHP read too.

use duly::{CameBack, DEFAULT_MAX_DATA_BYTES, Data, Decision, Envelope, Error, Millis, Record, RetryPolicy, decide};
use serde_json::{Value, json};

fn vectors(file: &str) -> Vec<Value> {
    let path = format!("{}/../conformance/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut content: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    serde_json::from_value(content["vectors"].take()).unwrap()
}

/// A text, given whole or in parts.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text).collect(),
        part => {
            let times = usize::try_from(part["times"].as_u64().unwrap()).unwrap();
            part["repeat"].as_str().unwrap().repeat(times)
        }
    }
}

/// The bytes of this field, given as text or as `<field>_base64`.
fn bytes(vector: &Value, field: &str) -> Vec<u8> {
    match vector.get(format!("{field}_base64")) {
        Some(coded) => from_base64(coded.as_str().unwrap()),
        None => text(&vector[field]).into_bytes(),
    }
}

fn from_base64(coded: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut out) = (0_u32, 0, Vec::new());
    for byte in coded.bytes().take_while(|&byte| byte != b'=') {
        let six = ALPHABET.iter().position(|&char| char == byte).unwrap();
        bits = bits << 6 | u32::try_from(six).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    out
}

/// The envelope in the form of `decodes_to`.
fn shown(envelope: &Envelope) -> Value {
    let unknown: Vec<_> = envelope.unknown.iter().map(|field| json!([field.name, field.value.as_str()])).collect();
    let mut shown = json!({
        "id": envelope.id, "time": envelope.time, "delay": envelope.delay.to_string(), "attempts": envelope.attempts,
        "max_attempts": envelope.max_attempts, "data": envelope.data.as_str(), "error": envelope.error,
        "name": envelope.name, "key": envelope.key, "priority": envelope.priority, "timeout": envelope.timeout,
        "retry": envelope.retry, "headers": envelope.headers, "unknown": unknown,
    });
    if let Some(expires) = envelope.expires {
        shown["expires"] = json!(expires);
    }
    if let Some(ttl) = envelope.result_ttl {
        shown["result_ttl"] = json!(ttl);
    }
    shown
}

fn expected(vector: &Value) -> Value {
    let mut fields = vector["decodes_to"].clone();
    for field in ["data", "error"] {
        fields[field] = Value::String(text(&fields[field]));
    }
    fields
}

/// Compares what was decoded; None if the vector expects the error that came.
fn decoded(vector: &Value, result: Result<Envelope, Error>) -> Option<Envelope> {
    let name = vector["name"].as_str().unwrap();
    match (vector.get("error"), result) {
        (Some(kind), Err(error)) => {
            assert_eq!(error.kind().as_str(), kind, "{name}: {error}");
            None
        }
        (None, Ok(envelope)) => {
            let (shown, expected) = (shown(&envelope), expected(vector));
            for (field, value) in expected.as_object().unwrap() {
                assert!(shown[field] == *value, "{name}: the field '{field}' differs");
            }
            Some(envelope)
        }
        (_, result) => panic!("{name}: {}", result.err().map_or("was accepted".to_owned(), |error| error.to_string())),
    }
}

#[test]
fn packages_decode_and_encode_as_written() {
    for vector in vectors("packages.json") {
        if let Some(envelope) = decoded(&vector, Envelope::decode(&bytes(&vector, "package"))) {
            let complete = envelope.encode_complete();
            assert!(complete == text(&vector["encodes_to"]).into_bytes(), "{}", vector["name"]);
            assert!(Envelope::decode(&complete).unwrap() == envelope, "{}", vector["name"]);
            let stored = Record::encode(&envelope);
            assert!(Record::decode(&envelope.id, &stored, None).unwrap() == envelope, "{}", vector["name"]);
        }
    }
}

#[test]
fn records_decode_and_encode_as_written() {
    for vector in vectors("records.json") {
        let came_back = vector["came_back"].as_str().map(|stored| CameBack::decode(stored.as_bytes())).transpose();
        let id = vector["id"].as_str().unwrap();
        let record = came_back.and_then(|came_back| Record::decode(id, &bytes(&vector, "record"), came_back.as_ref()));
        if let (Some(envelope), Some(stored)) = (decoded(&vector, record), vector.get("encodes_to")) {
            assert_eq!(String::from_utf8(Record::encode(&envelope)).unwrap(), text(stored), "{}", vector["name"]);
        }
    }
}

#[test]
fn data_is_kept_or_refused_as_written() {
    for vector in vectors("data.json") {
        let pushed = bytes(&vector, "data");
        match Data::from_json(pushed.clone(), DEFAULT_MAX_DATA_BYTES) {
            Ok(data) => assert!(!vector["error"].is_string() && data.as_bytes() == pushed, "{}", vector["name"]),
            Err(error) => assert_eq!(error.kind().as_str(), vector["error"], "{}", vector["name"]),
        }
    }
}

#[test]
fn retries_wait_as_written() {
    for vector in vectors("retry.json") {
        let policy: RetryPolicy = serde_json::from_value(vector["policy"].clone()).unwrap();
        let max_retries = u32::try_from(vector["max_retries"].as_u64().unwrap()).unwrap();
        let waits: Vec<Millis> = serde_json::from_value(vector["waits"].clone()).unwrap();
        for failures in 1..=max_retries + 1 {
            let wait = waits.get(usize::try_from(failures - 1).unwrap());
            let expected = wait.map_or(Decision::Failed, |&wait| Decision::RetryAfter(wait));
            assert_eq!(decide(&policy, failures, max_retries, 0), expected, "{}", vector["name"]);
        }
    }
}

#[test]
fn errors_never_show_the_data() {
    for package in
        [r#"{"data":"secret"#, r#"{"data":"secret"}x"#, r#"{"data":1,"name":{"secret":1}}"#, r#"{"retry":"secret"}"#]
    {
        for shown in [Envelope::decode(package.as_bytes()), Record::decode("a1", package.as_bytes(), None)] {
            let error = shown.unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}

/// The examples of the published format are read as it says.
#[test]
fn the_examples_in_the_document_are_valid() {
    let document = include_str!("../../../docs/wire-format.md");
    let examples: Vec<_> = document.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 5);
    for example in examples {
        match serde_json::from_str(example).unwrap() {
            Value::Array(policies) => {
                for policy in policies {
                    serde_json::from_value::<RetryPolicy>(policy).unwrap().check().unwrap();
                }
            }
            _ => assert_ne!(Envelope::decode(example.as_bytes()).unwrap().id, ""),
        }
    }
    let records: Vec<_> = document.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let examples = records.iter().filter(|line| line.contains("\"data\":{\"order\":42}"));
    for record in examples.clone() {
        let envelope = Record::decode("3jaJAIl1kq0dW7Zt", record.as_bytes(), None).unwrap();
        assert_eq!(String::from_utf8(Record::encode(&envelope)).unwrap(), *record);
    }
    assert_eq!(examples.count(), 2);
}
