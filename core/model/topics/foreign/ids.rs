//! Ids that no message would have.

use super::super::super::server::Server;
use super::super::{Membership, Numbered, OnePull, Real, START, TOPIC, one_pull};
use super::{add, given_by, publish, pulled, read};
use crate::script::Key;

/// As nanoseconds: a number in Lua does not tell one from the next.
#[test]
fn a_topic_goes_on_behind_an_id_that_is_no_time() {
    let mut server = Server::start();
    for (case, ms) in ["1790000000000000129", "1790000000123456789", "1790000000987654321"].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        real.subscribe(0);
        add(&mut real, &format!("{ms}-5"));
        publish(&mut real, &[1]);
        publish(&mut real, &[1]);
        assert_eq!(pulled(&mut real, 10).len(), 3, "{ms}");
    }
}

/// Its ACL was written for an older version.
#[test]
fn a_publish_that_may_not_ask_for_the_highest_id_counts_nothing() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    publish(&mut real, &[1]);
    add(&mut real, &format!("{}-9", START + 1));
    real.server.command(&["ACL", "SETUSER", "default", "-xinfo"]);
    real.number += 1;
    assert!(real.numbered(&Numbered::Publish(vec![1; 2]), real.number).is_err());
    real.server.command(&["ACL", "SETUSER", "default", "+xinfo"]);
    assert_eq!(real.words(&["HMGET", "last", "bytes", "calls"], Key::Topic), ["1", "1", "1"]);
}

#[test]
fn a_topic_goes_on_behind_an_entry_with_a_higher_id_that_was_removed_again() {
    let mut server = Server::start();
    for (case, messages) in [0, 2].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        let key = real.keys.spell(Key::Messages);
        real.subscribe(0);
        if messages > 0 {
            publish(&mut real, &[1; 2]);
        }
        let higher = format!("{}-0", START + 5);
        add(&mut real, &higher);
        real.server.command(&["XDEL", &key, &higher]);
        publish(&mut real, &[1]);
        publish(&mut real, &[1]);
        assert_eq!(real.told().published, messages + 2);
        assert_eq!(read(&mut real) as u64, messages + 2);
    }
}

/// There is no higher id than this: nothing can be published, and nothing is counted as if it had been.
#[test]
fn a_publish_that_fails_counts_nothing() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    publish(&mut real, &[1; 3]);
    let before = real.told();
    add(&mut real, "18446744073709551615-18446744073709551615");
    real.number += 1;
    assert!(real.numbered(&Numbered::Publish(vec![1; 2]), real.number).is_err());
    let after = real.told();
    assert_eq!((after.published, after.bytes), (before.published, before.bytes));
    let fields = real.words(&["HMGET", "last", "bytes", "calls"], Key::Topic);
    assert_eq!(fields, ["3", "3", "1"]);
}

/// More than a number in Lua holds, and the highest of a millisecond.
#[test]
fn entries_with_very_high_numbers_are_given_once_and_stop_no_pull() {
    let mut server = Server::start();
    let numbers = ["9007199254740993", "999999999999999999", "9223372036854775807", "18446744073709551615"];
    for (case, number) in numbers.into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        real.subscribe(0);
        publish(&mut real, &[1]);
        let id = format!("{START}-{number}");
        add(&mut real, &id);
        assert_eq!(pulled(&mut real, 100), [format!("{START}-1"), id.clone()], "{number}");
        assert_eq!(pulled(&mut real, 100), [""; 0], "{number}");
        publish(&mut real, &[1]);
        assert_eq!(pulled(&mut real, 100).len(), 1, "{number}");
        assert_eq!(real.ack(0, "", &[id]), Membership::Member(1));
    }
}

#[test]
fn the_highest_id_of_all_ends_no_pull() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    publish(&mut real, &[1; 3]);
    add(&mut real, "18446744073709551615-18446744073709551615");
    assert_eq!(pulled(&mut real, 3).len(), 3);
    assert_eq!(pulled(&mut real, 3).len(), 1);
    for _ in 0..2 {
        assert_eq!(pulled(&mut real, 3).len(), 0);
    }
    // With leases that are over, it is looked at among those that were pulled.
    let pull = OnePull { most: 4, is_short: true, ..one_pull(0) };
    real.pull(&pull).unwrap();
    for _ in 0..2 {
        assert_eq!(given_by(&mut real, &pull).0.len(), 4);
    }
}
