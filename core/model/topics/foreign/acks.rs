//! Acks: what has been read, and what goes by it.

use super::super::super::server::Server;
use super::super::{MOST, MOST_BYTES, Numbered, OnePull, Real, START, TOPIC, one_pull};
use super::{add, entries, position, publish, pulled, pulled_by, read, reads};
use crate::script::Key;

#[test]
fn an_ack_removes_nothing_of_another_program_that_somebody_has_not_read() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    for member in [0, 2] {
        real.subscribe(member);
    }
    publish(&mut real, &[1]);
    let given = pulled_by(&mut real, 2, 1);
    real.ack(2, "", &given);
    (1..=2500).for_each(|at| add(&mut real, &format!("{}-{at}", START + 1)));
    let held = pulled(&mut real, 51);
    real.ack(0, "", &held[..1]);
    let mut seen = 51;
    while let given = pulled(&mut real, 1000)
        && !given.is_empty()
    {
        seen += given.len();
        real.ack(0, "", &given);
    }
    assert_eq!((seen, entries(&mut real).len()), (2501, 2500), "two have read as far as the first message");
    // Behind the next one what both have read goes, and nothing else.
    real.ack(0, "", &held);
    publish(&mut real, &[1; 2]);
    let given = pulled(&mut real, 1);
    real.ack(0, "", &given);
    let other = pulled_by(&mut real, 2, 1000);
    real.ack(2, "", &other);
    assert_eq!(entries(&mut real).len(), 2502);
    // A thousand in one call.
    for round in 0..5 {
        let other = pulled_by(&mut real, 2, 1000);
        real.ack(2, "", &other);
        assert!(round > 1 || entries(&mut real).len() > 1400, "{round}");
    }
    assert_eq!(entries(&mut real).len(), 1);
}

/// They look for the message before it, and what is between them is left to those who have not read it.
#[test]
fn an_ack_between_entries_of_another_program_leaves_them_to_other_subscriptions() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    for member in [0, 2] {
        real.subscribe(member);
    }
    publish(&mut real, &[1]);
    (2..5).for_each(|number| add(&mut real, &format!("{START}-{number}")));
    real.server.set_clock(&real.keys, START + 1);
    publish(&mut real, &[1; 3]);
    let other = pulled_by(&mut real, 2, 2);
    real.ack(2, "", &other);
    let given = pulled(&mut real, 100);
    real.ack(0, "", &given[..4]);
    assert_eq!(entries(&mut real), given[1..], "the other one has not read two of the three");
    real.ack(0, "", &given[4..5]);
    assert_eq!(entries(&mut real), given[1..]);
    let other = pulled_by(&mut real, 2, 4);
    real.ack(2, "", &other);
    assert_eq!(entries(&mut real), given[5..]);
    // With all of them behind, no ack reads anything.
    let other = pulled_by(&mut real, 2, 100);
    real.ack(2, "", &other);
    real.ack(0, "", &given[5..]);
    publish(&mut real, &[1; 3]);
    let given = pulled(&mut real, 100);
    assert_eq!(reads(&mut real, &|real| _ = real.ack(0, "", &given[..1])), 0);
}

/// A look by age knows the first message, and what stands before it does not go without one.
#[test]
fn an_entry_of_another_program_before_the_first_message_is_taken_for_none() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([50, MOST, MOST_BYTES]));
    real.subscribe(0);
    publish(&mut real, &[1]);
    read(&mut real);
    (3..=7).for_each(|number| add(&mut real, &format!("{}-{number}", START + 1)));
    let given = pulled(&mut real, 100);
    for later in [60, 61, 62] {
        real.server.set_clock(&real.keys, START + later);
        publish(&mut real, &[1]);
    }
    real.ack(0, "", &given[..1]);
    assert_eq!(position(&mut real), (1, 2));
    assert_eq!(pulled(&mut real, 100).len(), 3);
    // The next one that is held has the number of a message.
    real.ack(0, "", &given[..1]);
    assert_eq!(position(&mut real), (4, 2), "they are not read");
}

/// A slow subscription pulls one before the first message when a quick one has pulled a later one.
#[test]
fn an_ack_knows_the_last_entry_of_another_program_that_anybody_has_pulled() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([50, MOST, MOST_BYTES]));
    for member in [0, 2] {
        real.subscribe(member);
    }
    publish(&mut real, &[1]);
    for member in [0, 2] {
        let given = pulled_by(&mut real, member, 100);
        real.ack(member, "", &given);
    }
    add(&mut real, &format!("{}-81", START + 1));
    // A look by age knows the first message.
    for later in [60, 61] {
        real.server.set_clock(&real.keys, START + later);
        publish(&mut real, &[1]);
    }
    add(&mut real, &format!("{}-9", START + 61));
    let given = pulled(&mut real, 100);
    assert_eq!(pulled_by(&mut real, 2, 1), given[..1]);
    real.server.set_clock(&real.keys, START + 62);
    publish(&mut real, &[1; 8]);
    real.ack(0, "", &given[..3]);
    let unread =
        |real: &mut Real<'_>| real.told().subscriptions.iter().find(|one| one.name == "s").map(|one| one.unread);
    assert_eq!(unread(&mut real), Some(4));
    // Nor is it taken for one when the messages behind it were pulled.
    let ahead = pulled(&mut real, 100);
    real.ack(0, "", &ahead[7..]);
    assert_eq!(unread(&mut real), Some(4));
    let slow = pulled_by(&mut real, 2, 100);
    assert_eq!(slow[3..], ahead);
    real.ack(2, "", &[&given[..1], &slow].concat());
    let left = entries(&mut real);
    assert!(ahead[..7].iter().all(|id| left.contains(id)), "nobody else's ack takes a message away: {left:?}");
}

/// As a tool does that reads with the group of a subscription.
#[test]
fn an_entry_that_another_program_has_pulled_for_a_subscription_has_no_number_of_a_message() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    publish(&mut real, &[1]);
    let given = pulled(&mut real, 1);
    add(&mut real, &format!("{START}-999999"));
    real.server.command(&[
        "XREADGROUP",
        "GROUP",
        "s",
        "other",
        "COUNT",
        "1",
        "STREAMS",
        &real.keys.spell(Key::Messages),
        ">",
    ]);
    real.ack(0, "", &given);
    assert_eq!(position(&mut real), (1, 2));
    // Also when a version that notes no such entries has pulled it, with a message behind it.
    real.server.set_clock(&real.keys, START + 1);
    publish(&mut real, &[1]);
    let given = pulled(&mut real, 100);
    real.server.command(&["HDEL", &real.keys.spell(Key::Topic), "has_others"]);
    real.ack(0, "", &given[given.len() - 1..]);
    assert_eq!(position(&mut real), (2, 2));
}

/// Its number is one that a message has, and it lies behind all that the subscription has pulled.
#[test]
fn an_entry_that_another_program_has_pulled_behind_all_messages_takes_none_from_another_subscription() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    real.subscribe(2);
    publish(&mut real, &[1; 5]);
    let (a, b) = (pulled_by(&mut real, 0, 9), pulled_by(&mut real, 2, 9));
    real.ack(0, "", &a[..3]);
    real.ack(2, "", &b[..2]);
    add(&mut real, &format!("{}-4", START + 3));
    let key = real.keys.spell(Key::Messages);
    real.server.command(&["XREADGROUP", "GROUP", "c", "tool", "STREAMS", &key, ">"]);
    real.ack(2, "", &b[2..]);
    let left = entries(&mut real);
    assert!(a[3..].iter().all(|id| left.contains(id)), "{left:?}");
}

#[test]
fn an_entry_without_a_number_between_messages_that_were_pulled_ends_no_ack() {
    let mut server = Server::start();
    let numbers = ["0", "1000000000000000", "9007199254740993", "10000000000000000000", "18446744073709551615"];
    for (case, number) in numbers.into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        real.subscribe(0);
        publish(&mut real, &[1]);
        add(&mut real, &format!("{}-{number}", START + 1));
        real.server.set_clock(&real.keys, START + 2);
        publish(&mut real, &[1; 2]);
        let given = pulled(&mut real, 100);
        // A version that kept no such field has pulled it.
        real.server.command(&["HDEL", &real.keys.spell(Key::Topic), "has_others"]);
        assert_eq!(given.len(), 4);
        let messages = [&given[..1], &given[2..]].concat();
        assert_eq!(real.ack(0, "", &messages), super::super::Membership::Member(3));
        // Messages before it go all the same.
        assert_eq!((position(&mut real), entries(&mut real).len()), ((3, 2), 3), "{number}");
    }
}

#[test]
fn what_a_subscription_has_read_in_between_is_left_to_another_one() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    for member in [0, 2] {
        real.subscribe(member);
    }
    publish(&mut real, &[1; 6]);
    let pull = OnePull { most: 6, is_short: true, ..one_pull(2) };
    real.pull(&pull).unwrap();
    let ids: Vec<_> = (1..=6).map(|number| format!("{START}-{number}")).collect();
    real.ack(2, "", &[&ids[..1], &ids[2..]].concat());
    // Another program removes the only one that is left, so that no ack raises the floor.
    real.server.command(&["XDEL", &real.keys.spell(Key::Messages), &ids[1]]);
    real.pull(&pull).unwrap();
    let given = pulled(&mut real, 2);
    real.ack(0, "", &given[..1]);
    assert_eq!(pulled(&mut real, 9), ids[3..]);
    assert!(entries(&mut real).ends_with(&ids[2..]));
}

/// What that one had pulled of another program, no field says.
#[test]
fn what_an_older_version_has_pulled_of_another_program_ends_no_ack() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    publish(&mut real, &[1]);
    add(&mut real, &format!("{}-0", START + 1));
    let given = pulled(&mut real, 100);
    real.server.command(&["HDEL", &real.keys.spell(Key::Topic), "first", "ours:s", "has_others"]);
    real.ack(0, "", &given[..1]);
    real.server.set_clock(&real.keys, START + 2);
    publish(&mut real, &[1; 2]);
    assert_eq!(read(&mut real), 2);
    real.ack(0, "", &given[1..]);
    assert_eq!(position(&mut real), (3, 4));
    // Nor does an ACL that was written for it.
    real.server.command(&["ACL", "SETUSER", "default", "-xrevrange"]);
    real.server.command(&["HDEL", &real.keys.spell(Key::Topic), "ours:s"]);
    real.server.set_clock(&real.keys, START + 3);
    publish(&mut real, &[1; 2]);
    assert_eq!(read(&mut real), 2);
    assert_eq!(position(&mut real), (5, 6));
}
