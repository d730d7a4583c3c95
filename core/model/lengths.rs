//! Which jobs of one call a queue with a length takes, where they replace one another, or expired ones.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    Clock, Declared, Due, Extent, FromReply, IfDuplicate, IfFull, JobKeys, Key, Levels, MemoryRenewal, Numbering,
    PushReply, PushUnique, PushUniqueReply, Shape, Variant,
};

const A_WITH_K: &str = r#"5;5;1;0;k{"data":1}"#;
const EXPIRED: &str = r#"5;5;1;0;k{"data":1,"v":2,"expires":1790000000}"#;

/// Pushes jobs, each with its id and key, into a queue of the length 1; gives which of them are stored, and how many jobs there are behind it.
/// `stored`: the record of job `a` with the key `k`, if the queue has it.
fn push(if_duplicate: IfDuplicate, jobs: &[(&str, char)], stored: Option<&str>) -> (Vec<bool>, Value) {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    server.command(&["HSET", &keys.spell(Key::Meta), "limits", "", "max_length", "1"]);
    if let Some(record) = stored {
        server.command(&["HSET", &keys.spell(Key::Jobs), "a", record]);
        server.command(&["HSET", &keys.spell(Key::Keys), "k", "a"]);
        server.command(&["RPUSH", &keys.spell_ready(5), "a"]);
    }
    let records: Vec<_> = jobs.iter().map(|(_, key)| A_WITH_K.replace('k', &key.to_string())).collect();
    let items =
        jobs.iter().zip(&records).map(|((id, _), record)| (id.as_bytes(), record.as_bytes(), Due::Now, &b""[..]));
    let renewal = MemoryRenewal::Asked(Vec::new());
    let numbering = Numbering { client: "c", slot: 0, number: 1, renewal: &renewal, is_known: false };
    let variant = Variant { clock: Clock::Server, shape: Shape::Limited, extent: Extent::Usual };
    let (if_full, result_count) = (IfFull::Fill, JobKeys::default());
    let push = PushUnique { if_duplicate, if_full, result_count };
    let call = push.with(items).call(variant, QUEUE, &keys, Levels::ALL, Some(&numbering));
    let reply: PushUniqueReply = FromReply::decode(server.run(&call).unwrap()).unwrap();
    let is_stored = reply.jobs.iter().map(|reply| !matches!(reply, PushReply::Full(_)));
    (is_stored.collect(), server.command(&["HLEN", &keys.spell(Key::Jobs)]))
}

#[test]
fn the_key_of_a_job_that_was_replaced_in_the_same_call_is_nobodys() {
    assert_eq!(
        push(IfDuplicate::Replace, &[("x", 'k'), ("x", 'm'), ("y", 'k')], None),
        (vec![true, true, false], Value::Int(1))
    );
    assert_eq!(push(IfDuplicate::Replace, &[("x", 'k'), ("y", 'k')], None), (vec![true, true], Value::Int(1)));
}

#[test]
fn the_key_of_a_stored_job_that_was_replaced_by_its_id_is_nobodys() {
    assert_eq!(
        push(IfDuplicate::Replace, &[("a", 'm'), ("b", 'k')], Some(A_WITH_K)),
        (vec![true, false], Value::Int(1))
    );
    assert_eq!(push(IfDuplicate::Replace, &[("b", 'k')], Some(A_WITH_K)), (vec![true], Value::Int(1)));
}

#[test]
fn the_key_of_an_expired_job_whose_place_another_has_taken_is_nobodys() {
    for if_duplicate in [IfDuplicate::Keep, IfDuplicate::Refuse, IfDuplicate::Replace] {
        assert_eq!(push(if_duplicate, &[("a", 'm'), ("b", 'k')], Some(EXPIRED)), (vec![true, false], Value::Int(1)));
        assert_eq!(push(if_duplicate, &[("b", 'k')], Some(EXPIRED)), (vec![true], Value::Int(1)));
    }
}
