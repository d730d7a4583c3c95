//! Lua's reading of a record's prefix beside Rust's.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use redis::Value;

use crate::format::record::routed;
use crate::properties::{Seen, damaged, holds_in_batches, note, soup};

use super::server::Server;

/// So many records at least go with one call, and twice as many at most.
const BATCH: u8 = 16;

const WORDS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "9",
    "00",
    "05",
    "10",
    ";",
    ";",
    ";",
    "5;5;",
    "0;0;",
    "k",
    "{",
    "}",
    "{\"data\":1}",
    "+",
    "-",
    " ",
    "\n",
    "\u{b}",
    "\0",
    "\u{e9}",
    "e",
    "x",
    ".",
    "4294967295",
    "4294967296",
    "99999999999999999999",
    "inf",
    "nan",
    "%",
];

/// What a script knows of a record.
#[derive(Debug)]
struct Lua {
    is_readable: bool,
    level: Vec<u8>,
    max_retries: Vec<u8>,
    key: Option<Vec<u8>>,
    name: Vec<u8>,
}

fn ask(server: &mut Server, records: &[Vec<u8>]) -> Vec<Lua> {
    let text = format!(
        "{}\nlocal all = {{}}\n\
         for i, record in ipairs(ARGV) do\n\
           local level, max_retries, key, unreadable, name = routing(record)\n\
           all[i] = {{ unreadable and '0' or '1', level, string.format('%.0f', max_retries), key and '1' or '0', key or '', name or '' }}\n\
         end\n\
         return all",
        include_str!("../lua/lib/job/routing.lua")
    );
    let mut pipeline = redis::pipe();
    pipeline.cmd("EVAL").arg(text).arg(0);
    for record in records {
        pipeline.arg(record.as_slice());
    }
    let reply = server.pipeline(&pipeline).remove(0);
    let Value::Array(all) = reply else { panic!("no list: {reply:?}") };
    let read = |one: Value| -> Lua {
        let [readable, level, max_retries, has_key, key, name]: [Vec<u8>; 6] = redis::from_redis_value(one).unwrap();
        let key = (has_key == b"1").then_some(key);
        Lua { is_readable: readable == b"1", level, max_retries, key, name }
    };
    all.into_iter().map(read).collect()
}

fn compare(record: &[u8], lua: &Lua, seen: &mut Seen) -> Result<(), TestCaseError> {
    if !record.first().is_some_and(u8::is_ascii_digit) {
        let space = record.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        prop_assert_eq!(lua.is_readable, record.get(space) == Some(&b'{'), "{:?} {:?}", record, lua);
        prop_assert_eq!(
            (&*lua.level, &*lua.max_retries, &lua.key, &*lua.name),
            (&b"5"[..], &b"5"[..], &None, &b""[..])
        );
        note(seen, "no prefix");
        return Ok(());
    }
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    match routed(record) {
        Some((level, max_retries, key, name)) => {
            prop_assert!(lua.is_readable, "only Rust reads {:?}", record);
            let rust = (level.to_string().into_bytes(), max_retries.to_string().into_bytes());
            prop_assert_eq!((&lua.level, &lua.max_retries), (&rust.0, &rust.1), "{:?}", record);
            prop_assert_eq!(&lua.key, &key.map(String::into_bytes), "the key of {:?}", record);
            prop_assert_eq!(&lua.name, &name.unwrap_or_default().into_bytes(), "the name of {:?}", record);
            note(seen, if lua.key.is_some() { "a key" } else { "no key" });
        }
        // Scripts do not look at characters. Who reserves such a job fails it for good, and its key is free again.
        None if lua.is_readable => {
            let is_all_text = is_text(lua.key.as_deref().unwrap_or_default()) && is_text(&lua.name);
            prop_assert!(!is_all_text, "only Lua reads {:?}: {:?}", record, lua);
            note(seen, "a key or name that is not UTF-8");
        }
        None => note(seen, "neither of the two read it"),
    }
    Ok(())
}

fn any_record() -> BoxedStrategy<Vec<u8>> {
    let number = prop_oneof![
        2 => select(&["0", "1", "5", "9", "00", "05", "10", "", "+1", "-1", " 1", "1.0", "1e1", "0x1"][..]).prop_map(str::to_owned),
        1 => select(&["4294967295", "4294967296", "04294967295", "99999999999999999999"][..]).prop_map(str::to_owned),
        1 => "[0-9]{1,24}",
        // Beyond the largest float.
        1 => (300..330_usize).prop_map(|digits| "9".repeat(digits)),
    ];
    let level = prop_oneof![4 => "[0-9]", 1 => number.clone()];
    let retries = prop_oneof![2 => "[0-9]{1,3}", 1 => number.clone()];
    let length = prop_oneof![6 => "0{0,2}[0-4]", 1 => number];
    let text = vec(prop_oneof![6 => select(&b"kn;{\0 "[..]), 1 => any::<u8>(), 1 => Just(0xc3), 1 => Just(0xa9)], 0..6);
    let prefixed = (level, retries, length.clone(), length, text, select(&["", "{\"data\":1}", " {}"][..])).prop_map(
        |(level, retries, key, name, text, json)| {
            let lengths = format!("{level};{retries};{key};{name};");
            [lengths.as_bytes(), &text, json.as_bytes()].concat()
        },
    );
    prop_oneof![6 => damaged(prefixed, WORDS), 3 => soup(WORDS, 12), 1 => vec(any::<u8>(), 0..24)].boxed()
}

#[test]
fn lua_and_rust_read_the_same_of_every_record() {
    let server = std::cell::RefCell::new(Server::start());
    let sometimes = ["no prefix", "a key", "no key", "a key or name that is not UTF-8", "neither of the two read it"];
    let batches = vec(any_record(), usize::from(BATCH)..=usize::from(2 * BATCH));
    holds_in_batches(BATCH.into(), &batches, &sometimes, |records, seen| {
        let answers = ask(&mut server.borrow_mut(), &records);
        prop_assert_eq!(answers.len(), records.len());
        records.iter().zip(&answers).try_for_each(|(record, lua)| compare(record, lua, seen))
    });
}

#[test]
fn lua_and_rust_read_the_same_routing_prefix() {
    let numbers = ["", "0", "1", "5", "05", "00", "9", "10", "+1", "4294967295", "4294967296", "99999999999999999999"];
    let mut records: Vec<String> =
        ["{}", " {}", "\n{}", "\u{b}{}", "", "5", "k", ";", "5;5;0;0", "5;5;0;0;", "5;5;1;1;kn{}"]
            .into_iter()
            .map(str::to_owned)
            .collect();
    for index in 0..4 {
        for number in numbers {
            let mut parts = ["5", "5", "1", "2"];
            parts[index] = number;
            records.extend(["knn{}", "kn", "knn", "{}"].map(|rest| format!("{};{rest}", parts.join(";"))));
        }
    }
    let records: Vec<Vec<u8>> = records.into_iter().map(String::into_bytes).collect();
    for (record, lua) in records.iter().zip(ask(&mut Server::start(), &records)) {
        compare(record, &lua, &mut Seen::new()).unwrap();
    }
}
