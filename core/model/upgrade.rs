//! `upgrade`, which the model does not know: it brings a queue of format 1 to ours.

use crate::script::{Declared, Key, Levels, QueueKeys, Upgrade, Variant};

use super::server::{Server, queue_keys};

fn answer(server: &mut Server, keys: &QueueKeys) -> redis::RedisResult<redis::Value> {
    server.run(&Upgrade {}.with([]).call(Variant::default(), "q", keys, Levels::one(5), None))
}

fn upgrade(server: &mut Server, keys: &QueueKeys) {
    assert_eq!(answer(server, keys), Ok(redis::Value::BulkString(b"ok".to_vec())));
}

fn set(server: &mut Server, keys: &QueueKeys, fields: &[&str]) {
    server.command(&[&["HSET", &keys.spell(Key::Meta)][..], fields].concat());
}

/// What `meta` has in these fields; no text where there is none.
fn get(server: &mut Server, keys: &QueueKeys, fields: &[&str]) -> Vec<String> {
    let found = server.command(&[&["HMGET", &keys.spell(Key::Meta)][..], fields].concat());
    let found: Vec<Option<String>> = redis::from_redis_value(found).unwrap();
    found.into_iter().map(Option::unwrap_or_default).collect()
}

#[test]
fn limits_of_format_1_say_the_same_in_ours() {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    let names = "1;5;mail\n2;0:100:60000000;push\n3;2:7:1000;a;b";
    set(&mut server, &keys, &["format", "1", "limits", "4;0;0", "names", names, "rate_at", "17;5"]);
    upgrade(&mut server, &keys);
    let limits = "0;4;;\n1;5;;mail\n2;;100:60000000;push\n3;2;7:1000;a;b";
    let found = get(&mut server, &keys, &["format", "limits", "rate_at:0", "names", "rate_at"]);
    assert_eq!(found, ["2", limits, "17;5", "", ""]);
}

#[test]
fn a_late_copy_of_an_upgrade_leaves_what_was_set_since() {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    set(&mut server, &keys, &["format", "1", "limits", "4;0;0"]);
    upgrade(&mut server, &keys);
    set(&mut server, &keys, &["limits", "0;9;;"]);
    upgrade(&mut server, &keys);
    assert_eq!(get(&mut server, &keys, &["format", "limits"]), ["2", "0;9;;"]);
}

#[test]
fn limits_that_were_lost_stay_known_as_lost() {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    set(&mut server, &keys, &["format", "1", "names", "?"]);
    upgrade(&mut server, &keys);
    assert_eq!(get(&mut server, &keys, &["format", "limits", "names"]), ["2", "?", ""]);
}

#[test]
fn a_full_server_upgrades_a_queue() {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    set(&mut server, &keys, &["format", "1", "limits", "4;0;0"]);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    upgrade(&mut server, &keys);
    assert_eq!(get(&mut server, &keys, &["format", "limits"]), ["2", "0;4;;"]);
}

#[test]
fn a_queue_that_was_deleted_meanwhile_needs_no_upgrade() {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    upgrade(&mut server, &keys);
    assert_eq!(server.command(&["EXISTS", &keys.spell(Key::Meta)]), redis::Value::Int(0));
}

#[test]
fn a_queue_of_a_newer_format_stays_as_it_is() {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    set(&mut server, &keys, &["format", "3", "limits", "4;0;0"]);
    assert_eq!(answer(&mut server, &keys), Ok(redis::Value::BulkString(b"format 3".to_vec())));
    assert_eq!(get(&mut server, &keys, &["format", "limits"]), ["3", "4;0;0"]);
}
