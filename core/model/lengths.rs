//! Which jobs of one call a queue with a length takes, where they replace one another.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    Clock, Declared, Due, Extent, FromReply, IfDuplicate, IfFull, JobKeys, Key, Levels, MemoryRenewal, Numbering,
    PushReply, PushUnique, PushUniqueReply, Shape, Variant,
};

const A_WITH_K: &str = r#"5;5;1;0;k{"data":1}"#;

/// Pushes jobs, each with its id and key, into a queue of the length 1, each in place of those that hold these; gives which of them are
/// stored, and how many jobs there are behind it. `stored`: the queue has job `a` with the key `k`.
fn replace(jobs: &[(&str, char)], stored: bool) -> (Vec<bool>, Value) {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    server.command(&["HSET", &keys.spell(Key::Meta), "limits", "", "max_length", "1"]);
    if stored {
        server.command(&["HSET", &keys.spell(Key::Jobs), "a", A_WITH_K]);
        server.command(&["HSET", &keys.spell(Key::Keys), "k", "a"]);
        server.command(&["RPUSH", &keys.spell_ready(5), "a"]);
    }
    let records: Vec<_> = jobs.iter().map(|(_, key)| A_WITH_K.replace('k', &key.to_string())).collect();
    let items =
        jobs.iter().zip(&records).map(|((id, _), record)| (id.as_bytes(), record.as_bytes(), Due::Now, &b""[..]));
    let renewal = MemoryRenewal::Asked(Vec::new());
    let numbering = Numbering { client: "c", slot: 0, number: 1, renewal: &renewal, is_known: false };
    let variant = Variant { clock: Clock::Server, shape: Shape::Limited, extent: Extent::Usual };
    let (if_duplicate, if_full, result_count) = (IfDuplicate::Replace, IfFull::Fill, JobKeys::default());
    let push = PushUnique { if_duplicate, if_full, result_count };
    let call = push.with(items).call(variant, QUEUE, &keys, Levels::ALL, Some(&numbering));
    let reply: PushUniqueReply = FromReply::decode(server.run(&call).unwrap()).unwrap();
    let is_stored = reply.jobs.iter().map(|reply| !matches!(reply, PushReply::Full(_)));
    (is_stored.collect(), server.command(&["HLEN", &keys.spell(Key::Jobs)]))
}

#[test]
fn the_key_of_a_job_that_was_replaced_in_the_same_call_is_nobodys() {
    assert_eq!(replace(&[("x", 'k'), ("x", 'm'), ("y", 'k')], false), (vec![true, true, false], Value::Int(1)));
    assert_eq!(replace(&[("x", 'k'), ("y", 'k')], false), (vec![true, true], Value::Int(1)));
}

#[test]
fn the_key_of_a_stored_job_that_was_replaced_by_its_id_is_nobodys() {
    assert_eq!(replace(&[("a", 'm'), ("b", 'k')], true), (vec![true, false], Value::Int(1)));
    assert_eq!(replace(&[("b", 'k')], true), (vec![true], Value::Int(1)));
}
