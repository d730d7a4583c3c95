//! Random packages, records and data.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::{damaged, holds, soup};
use crate::checks::reading::{self as checks, KNOWN};

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
    "\"v\":3",
    "\"expires\":4000000000.5",
    "\"expires\":null",
    "\"expires\":\"soon\"",
    "\"expires\":1e300",
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
        checks::package(&bytes, seen);
        checks::record(&bytes, seen);
        Ok(())
    });
}

#[test]
fn data_is_what_serde_json_takes_for_json_and_stays_as_it_is() {
    let texts = prop_oneof![damaged(json().prop_map(String::into_bytes), WORDS), soup(WORDS, 8)];
    let sometimes = ["data was taken", "data was refused", "it was read from a package"];
    holds(&texts, &sometimes, |bytes, seen| {
        checks::data(&bytes, seen);
        Ok(())
    });
}
