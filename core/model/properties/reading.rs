//! Packages, records and data, beside `serde_json`: what it refuses is refused, and what is read is what it reads.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Seen, damaged, holds, note, soup};
use crate::{CameBack, DEFAULT_MAX_DATA_BYTES, Data, Envelope, ErrorKind, Record};

const SPACE: &[char] = &[' ', '\n', '\r', '\t'];
const SECRET: &str = "s3cr3t";
const KNOWN: &[&str] = &[
    "v",
    "id",
    "time",
    "delay",
    "attempts",
    "max_attempts",
    "data",
    "error",
    "name",
    "key",
    "priority",
    "timeout",
    "retry",
    "headers",
    "result_ttl",
];

/// Of packages, and what hardly belongs there.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "{",
    "}",
    ":",
    ",",
    "\"",
    "\\",
    "\"data\":",
    "\"data\":",
    "{\"data\":",
    "\"x\":",
    "\"id\":",
    "\"d\\u0061ta\":",
    "\"priority\":",
    "\"key\":",
    "\"s3cr3t\"",
    "null",
    "true",
    "false",
    "tru",
    "NaN",
    "0",
    "-0",
    "01",
    "1.5",
    "1e400",
    "-",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "\"\\u00zz\"",
    "\\u0000",
    "\u{8ba2}",
    " ",
    "\n",
    "\u{b}",
    "\u{feff}",
    "//",
    "5;5;0;0;",
    "5;5;1;2;knn",
    "9;",
    ";",
    "1;2;",
];

/// Members as somebody may write them, right or not.
const MEMBERS: &[&str] = &[
    "\"v\":1",
    "\"v\":2",
    "\"v\":\"1\"",
    "\"v\":null",
    "\"id\":\"a\"",
    "\"id\":7",
    "\"id\":1.50",
    "\"id\":\"\\u00e9\"",
    "\"id\":\"\\ud800\"",
    "\"id\":[]",
    "\"time\":1690000000",
    "\"time\":\"1690000000\"",
    "\"time\":1.9e9",
    "\"time\":-1",
    "\"time\":18446744073709551615",
    "\"time\":18446744073709551616",
    "\"time\":\" 5 \"",
    "\"time\":null",
    "\"delay\":15",
    "\"delay\":15.0",
    "\"delay\":\"1.50\"",
    "\"delay\":1e400",
    "\"delay\":-3",
    "\"delay\":-0",
    "\"delay\":\"inf\"",
    "\"delay\":1e300",
    "\"delay\":0.0001",
    "\"delay\":\"1e300\"",
    "\"attempts\":1",
    "\"attempts\":\"2\"",
    "\"attempts\":4294967296",
    "\"max_attempts\":0",
    "\"max_attempts\":null",
    "\"max_attempts\":2.5",
    "\"error\":\"x\\ud800y\"",
    "\"error\":\"gave up\"",
    "\"error\":5",
    "\"name\":\"order.close\"",
    "\"name\":\"\"",
    "\"name\":null",
    "\"name\":\"a\\nb;c\"",
    "\"key\":\"close:42\"",
    "\"key\":\"\u{8ba2};{\"",
    "\"key\":{}",
    "\"priority\":0",
    "\"priority\":9",
    "\"priority\":10",
    "\"priority\":5.0",
    "\"timeout\":0.001",
    "\"timeout\":3153600000",
    "\"timeout\":3153599999.999",
    "\"timeout\":1.0000001",
    "\"timeout\":-1",
    "\"timeout\":1e10",
    "\"result_ttl\":60",
    "\"result_ttl\":1e-9",
    "\"result_ttl\":\"60\"",
    "\"headers\":{}",
    "\"headers\":[]",
    "\"headers\":[ ]",
    "\"headers\":{\"a\":\"b\",\"a\":\"c\"}",
    "\"headers\":{\"a\":1}",
    "\"headers\":{\"a\":\"\\ud800\"}",
    "\"retry\":{\"fixed\":5}",
    "\"retry\":{\"kind\":\"fixed\",\"delay\":5}",
    "\"retry\":[1,2]",
    "\"retry\":null",
    "\"retry\":7",
    "\"d\\u0061ta\":7",
    "\"\":1",
    "\"\\ud800\":1",
    "\"x\":1",
    "\"x\":2",
    "\"\\u0078\":\"s3cr3t\"",
    "\"dat\u{e4}\":{\"data\":1}",
];

fn space() -> impl Strategy<Value = &'static str> + Clone {
    select(&["", "", "", " ", "\n", "\t\r "][..])
}

/// One JSON value of any shape, with white space inside and around it.
fn json() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
            select(
                &[
                    "null",
                    "true",
                    "false",
                    "0",
                    "-0",
                    "-0.0",
                    "1e400",
                    "0.30000000000000004",
                    "9007199254740993",
                    "1E+5"
                ][..]
            )
            .prop_map(str::to_owned),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap_or_default()),
            select(&["\"\"", "\"\\ud800\"", "\"\\u0041\\/\\b\"", "\"}\"", "\"\\\"]\"", "\"s3cr3t\""][..])
                .prop_map(str::to_owned),
        ];
    let spaced = |text: BoxedStrategy<String>| {
        (space(), text, space()).prop_map(|(before, text, after)| format!("{before}{text}{after}")).boxed()
    };
    let nested = leaf.prop_recursive(4, 24, 4, move |inner| {
        let inner = spaced(inner.boxed());
        let name = spaced(
            select(&["\"\"", "\"a\"", "\"data\"", "\"\\ud800\"", "\"\\\"\""][..]).prop_map(str::to_owned).boxed(),
        );
        prop_oneof![
            (space(), vec(inner.clone(), 1..4)).prop_map(|(_, items)| format!("[{}]", items.join(","))),
            vec((name, inner), 1..4).prop_map(|members| {
                let members: Vec<_> = members.into_iter().map(|(name, value)| format!("{name}:{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
            space().prop_map(|inside| format!("[{inside}]")),
            space().prop_map(|inside| format!("{{{inside}}}")),
        ]
    });
    (space(), nested, space()).prop_map(|(before, text, after)| format!("{before}{text}{after}")).boxed()
}

fn package() -> BoxedStrategy<Vec<u8>> {
    let data = || json().prop_map(|value| format!("\"data\":{value}"));
    let member = prop_oneof![
        5 => select(MEMBERS).prop_map(str::to_owned),
        1 => data(),
        2 => json().prop_map(|value| format!("\"x\" :{value}")),
        1 => (select(KNOWN), json()).prop_map(|(name, value)| format!("\"{name}\":{value}")),
    ];
    let all = (prop::option::weighted(0.9, data()), vec(member, 0..4), any::<Index>());
    (space(), all, space(), space())
        .prop_map(|(before, (data, mut members, spot), between, after)| {
            if let Some(data) = data {
                members.insert(spot.index(members.len() + 1), data);
            }
            format!("{before}{{{between}{}{after}}}{between}", members.join(&format!("{between},{after}"))).into_bytes()
        })
        .boxed()
}

fn record() -> BoxedStrategy<Vec<u8>> {
    let number = || select(&["0", "1", "2", "5", "05", "10", "", "+1", "4294967295", "4294967296"][..]);
    let level = prop_oneof![4 => "[0-9]", 1 => number().prop_map(str::to_owned)];
    let retries = prop_oneof![4 => "[0-9]{1,3}", 1 => number().prop_map(str::to_owned)];
    let text = || "[a;\u{e9}{]{0,4}";
    (level, retries, text(), text(), prop::option::weighted(0.1, number()), package())
        .prop_map(|(level, retries, key, name, wrong, json)| {
            let length = wrong.map_or_else(|| key.len().to_string(), str::to_owned);
            let mut bytes = format!("{level};{retries};{length};{};{key}{name}", name.len()).into_bytes();
            bytes.extend(json);
            bytes
        })
        .boxed()
}

fn anything() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        4 => damaged(package(), WORDS),
        3 => damaged(record(), WORDS),
        2 => soup(WORDS, 16),
        1 => vec(any::<u8>(), 0..64),
    ]
    .boxed()
}

/// Does `serde_json` take it for one JSON value? It does not look at the UTF-8 of what it skips.
fn is_json(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    IgnoredAny::deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

/// The members of an object as `serde_json` reads them, in order, values as they are written.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

fn trimmed(data: &Data) -> &str {
    data.as_str().trim_matches(SPACE)
}

fn check_package(bytes: &[u8], seen: &mut Seen) -> Result<Option<Envelope>, TestCaseError> {
    let members = is_json(bytes).then(|| serde_json::from_slice::<Members>(bytes).ok()).flatten();
    match Envelope::decode(bytes) {
        Ok(envelope) => {
            note(seen, "a package was read");
            let Some(Members(members)) = members else {
                return Err(TestCaseError::fail("read what serde_json refuses"));
            };
            let data = members.iter().rev().find(|(name, _)| name == "data").map(|(_, value)| value.get());
            prop_assert_eq!(Some(trimmed(&envelope.data)), data);
            let unknown = members.iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
            let unknown: Vec<_> = unknown.map(|(name, value)| (name.as_str(), value.get())).collect();
            let kept = envelope.unknown.iter().map(|field| (field.name.as_str(), trimmed(&field.value)));
            prop_assert_eq!(kept.collect::<Vec<_>>(), unknown);
            prop_assert_eq!(&Envelope::decode(&envelope.encode_complete()).unwrap(), &envelope);
            prop_assert!(is_json(&envelope.encode_complete()));
            Ok(Some(envelope))
        }
        Err(error) => {
            prop_assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::FormatTooNew), "{:?}", error);
            prop_assert!(!format!("{error} {error:?}").contains(SECRET), "{}", error);
            let Some(Members(members)) = members else {
                note(seen, "neither of the two read it");
                return Ok(None);
            };
            // Only a known field with a wrong value, or no data, is a reason of our own.
            let has_data = members.iter().any(|(name, _)| name == "data");
            let has_typed = members.iter().any(|(name, _)| name != "data" && KNOWN.contains(&name.as_str()));
            prop_assert!(!has_data || has_typed, "refused what serde_json reads: {}", error);
            note(seen, "only serde_json read it");
            Ok(None)
        }
    }
}

/// What comes behind a routing prefix, found in a way of its own.
fn behind_prefix(bytes: &[u8]) -> Option<&[u8]> {
    if !bytes.first()?.is_ascii_digit() {
        return Some(bytes);
    }
    let parts: Vec<&[u8]> = bytes.splitn(5, |&byte| byte == b';').collect();
    let length = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<usize>().ok();
    parts.get(4)?.get(length(parts[2])? + length(parts[3])?..)
}

fn check_record(bytes: &[u8], seen: &mut Seen) -> Result<(), TestCaseError> {
    match Record::decode("a1", bytes, None) {
        Ok(envelope) => {
            let is_routed = bytes[0].is_ascii_digit();
            note(
                seen,
                if is_routed { "a record with a prefix was read" } else { "a record without a prefix was read" },
            );
            let json = behind_prefix(bytes).map(Envelope::decode);
            let Some(Ok(alone)) = json else { return Err(TestCaseError::fail("read what is no package")) };
            prop_assert_eq!(&alone.data, &envelope.data);
            prop_assert_eq!(&Record::decode("a1", &Record::encode(&envelope), None).unwrap(), &envelope);
        }
        Err(error) => {
            note(seen, "a record was refused");
            prop_assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::FormatTooNew), "{:?}", error);
            prop_assert!(!format!("{error} {error:?}").contains(SECRET), "{}", error);
            if !bytes.first().is_some_and(u8::is_ascii_digit) {
                prop_assert!(Envelope::decode(bytes).is_err());
            }
        }
    }
    if let Ok(came_back) = CameBack::decode(bytes) {
        note(seen, "what came back was read");
        prop_assert_eq!(CameBack::decode(&came_back.encode()).unwrap(), came_back);
    }
    Ok(())
}

#[test]
fn packages_and_records_are_read_as_serde_json_reads_them() {
    let sometimes = [
        "a package was read",
        "neither of the two read it",
        "only serde_json read it",
        "a record with a prefix was read",
        "a record without a prefix was read",
        "a record was refused",
        "what came back was read",
    ];
    holds(&anything(), &sometimes, |bytes, seen| {
        check_package(&bytes, seen)?;
        check_record(&bytes, seen)
    });
}

#[test]
fn data_is_what_serde_json_takes_for_json_and_stays_as_it_is() {
    let texts = prop_oneof![damaged(json().prop_map(String::into_bytes), WORDS), soup(WORDS, 8)];
    let sometimes = ["data was taken", "data was refused", "it was read from a package"];
    holds(&texts, &sometimes, |bytes, seen| {
        let data = Data::from_json(bytes.as_slice(), DEFAULT_MAX_DATA_BYTES);
        prop_assert_eq!(data.is_ok(), is_json(&bytes));
        let Ok(data) = data else {
            note(seen, "data was refused");
            return Ok(());
        };
        note(seen, "data was taken");
        prop_assert_eq!(data.as_bytes(), &bytes);
        // In a package and in a record white space around it is kept too.
        let package = [b"{\"id\":\"a1\",\"data\":", bytes.as_slice(), b",\"x\":1}"].concat();
        let Some(envelope) = check_package(&package, seen)? else { return Err(TestCaseError::fail("not read")) };
        prop_assert_eq!(&envelope.data, &data);
        let record = Record::encode(&envelope);
        prop_assert!(record.windows(bytes.len()).any(|part| part == bytes));
        prop_assert_eq!(&Record::decode("a1", &record, None).unwrap().data, &data);
        note(seen, "it was read from a package");
        Ok(())
    });
}
