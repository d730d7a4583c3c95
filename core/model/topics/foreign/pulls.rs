//! Pulls: what they give, and how much they read.

use super::super::super::server::Server;
use super::super::{AGE_MS, MOST_BYTES, Numbered, OnePull, Real, START, TOPIC, one_pull};
use super::{add, entries, given_by, publish, pulled, pulled_by, read, reads};
use crate::script::Key;

/// Else each call reads what a thousand messages hold, and all queues of the server wait.
#[test]
fn what_another_program_has_added_makes_no_call_read_many_messages() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([AGE_MS, 100_000, MOST_BYTES]));
    real.subscribe(0);
    real.subscribe(2);
    add(&mut real, "1-0");
    for _ in 0..20 {
        publish(&mut real, &[1; 100]);
    }
    // It goes on in the middle, behind what the slow one keeps.
    read(&mut real);
    let read_one = |real: &mut Real<'_>| {
        publish(real, &[1]);
        let given = pulled(real, 1);
        real.ack(0, "", &given);
    };
    assert!((1..=20).contains(&reads(&mut real, &read_one)));
    // Nor if it is very much that nobody has read, and behind it is a message.
    while read(&mut real) > 0 {}
    (0..1500).for_each(|_| add(&mut real, "*"));
    publish(&mut real, &[1]);
    let told = |real: &mut Real<'_>| assert!(real.told().subscriptions.iter().all(|one| one.at < 2002));
    assert!((1..=30).contains(&reads(&mut real, &told)));
    let given = pulled(&mut real, 1);
    assert!(reads(&mut real, &|real| _ = real.ack(0, "", &given)) <= 15);
}

/// The first number that was deduced from the length was right by chance, and those behind it were not.
#[test]
fn a_gap_in_the_numbers_and_an_entry_of_another_program_hide_no_message() {
    let mut server = Server::start();
    for case in 0..2 {
        let mut real = Real::of(&mut server, case, TOPIC);
        real.subscribe(0);
        publish(&mut real, &[1; 2]);
        if case == 0 {
            real.server.command(&["XDEL", &real.keys.spell(Key::Messages), &format!("{START}-2")]);
        } else {
            // A server that died kept the number of the second, and not the message.
            real.server.command(&["XTRIM", &real.keys.spell(Key::Messages), "MAXLEN", "1"]);
            real.server.command(&["XADD", &real.keys.spell(Key::Messages), &format!("{START}-3"), "x", "1"]);
        }
        publish(&mut real, &[1; 2]);
        let given = pulled(&mut real, 2);
        add(&mut real, "*");
        publish(&mut real, &[1]);
        real.ack(0, "", &given[..1]);
        let left = entries(&mut real);
        assert!(left.contains(&given[1]), "{given:?}: {left:?}");
        for number in 4..=5 {
            assert!(left.iter().any(|id| id.ends_with(&format!("-{number}"))), "{number} of {left:?}");
        }
    }
}

#[test]
fn no_call_reads_much_because_another_program_has_added_much() {
    let mut server = Server::start();
    for (case, many) in [1, 300, 1500].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        real.call(&Numbered::Bound([AGE_MS, 100_000, MOST_BYTES]));
        for member in [0, 2] {
            real.subscribe(member);
        }
        publish(&mut real, &[1; 4]);
        for member in [0, 2] {
            let given = pulled_by(&mut real, member, 100);
            real.ack(member, "", &given);
        }
        // In front of what the slow one has not read.
        (1..=many).for_each(|at| add(&mut real, &format!("{}-{at}", START + 1)));
        publish(&mut real, &[1; 50]);
        while read(&mut real) > 0 {}
        let asked = reads(&mut real, &|real| _ = publish(real, &[1]));
        assert!(asked <= 2, "publish: {asked} behind {many}");
        let given = pulled(&mut real, 1);
        let asked = reads(&mut real, &|real| _ = real.ack(0, "", &given));
        assert!(asked <= 2, "ack: {asked} behind {many}");
        assert!(reads(&mut real, &|real| _ = real.told()) <= 30, "{many}");
        // By age: nothing of that is too old, and then all of it is.
        for later in [1, 2, AGE_MS + 2, AGE_MS + 3, AGE_MS + 4, AGE_MS + 5] {
            real.server.set_clock(&real.keys, START + later);
            let asked = reads(&mut real, &|real| _ = publish(real, &[1]));
            assert!(asked <= if later < AGE_MS { 2 } else { 1100 }, "{asked} at {later} behind {many}");
        }
        assert!(reads(&mut real, &|real| _ = publish(real, &[1])) <= 1, "the oldest is known");
        assert!(entries(&mut real).len() <= 10, "they have gone: {many}");
    }
}

/// Its second value is no number of ours, though it is one.
#[test]
fn an_entry_with_a_number_in_it_makes_no_pull_read_all() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), "1-1", "sensor", "1", "at", "1790000000000"]);
    publish(&mut real, &[50; 900]);
    let asked = reads(&mut real, &|real| {
        real.pull(&OnePull { most: 1000, max_bytes: 200, ..one_pull(0) }).unwrap();
    });
    assert!(asked <= 20, "{asked}");
}

#[test]
fn info_says_which_message_each_subscription_has_pulled_last() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    for member in [0, 2] {
        real.subscribe(member);
    }
    publish(&mut real, &[1; 5]);
    (0..50).for_each(|_| add(&mut real, "*"));
    let given = pulled(&mut real, 7);
    real.ack(0, "", &given[..2]);
    let told = real.told();
    let of = |name: &str| told.subscriptions.iter().find(|one| one.name == name).unwrap();
    assert_eq!((of("s").unread, of("s").at, of("s").pulled), (3, 5, 5));
    assert_eq!((of("c").unread, of("c").at, of("c").pulled), (1, 0, 0));
    // All of the messages, and all but one of the other entries.
    let rest = pulled(&mut real, 1000);
    real.ack(0, "", &[&given[2..], &rest[..rest.len() - 1]].concat());
    let told = real.told();
    let of = told.subscriptions.iter().find(|one| one.name == "s").unwrap();
    assert_eq!((of.unread, of.at, of.pulled), (6, 5, 1));
}

/// Nobody knows how large they are.
#[test]
fn a_pull_reads_few_large_entries_that_another_program_has_added_behind_a_message() {
    let mut server = Server::start();
    let large = "x".repeat(200);
    for (case, fields) in [["d", &large, "b", "1"], ["d", "1", "b", &large]].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        real.subscribe(0);
        publish(&mut real, &[1]);
        let key = real.keys.spell(Key::Messages);
        for number in 2..102 {
            let id = format!("{START}-{number}");
            real.server.command(&[&["XADD", &key, &id][..], &fields].concat());
        }
        let asked = reads(&mut real, &|real| {
            let (given, _) = given_by(real, &OnePull { most: 1000, max_bytes: 1000, ..one_pull(0) });
            assert!((5..8).contains(&given.len()), "{given:?}");
        });
        assert!(asked <= 20, "{asked}");
    }
}

#[test]
fn a_pull_says_whether_there_is_more_beside_another_program() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    let more = |real: &mut Real<'_>, most: usize| -> (usize, bool) {
        let (given, has_more) = given_by(real, &OnePull { most, ..one_pull(0) });
        (given.len(), has_more)
    };
    // The last message is gone.
    publish(&mut real, &[1; 2]);
    real.server.command(&["XDEL", &real.keys.spell(Key::Messages), &format!("{START}-2")]);
    assert_eq!(more(&mut real, 9), (1, false));
    // Something of another program is behind it.
    add(&mut real, &format!("{START}-3"));
    assert_eq!(more(&mut real, 9), (1, false));
    real.server.set_clock(&real.keys, START + 1);
    publish(&mut real, &[1]);
    add(&mut real, &format!("{}-9", START + 1));
    assert_eq!(more(&mut real, 1), (1, true));
    assert_eq!(more(&mut real, 1), (1, false));
}

/// It has neither the first message nor what each subscription has pulled of ours.
#[test]
fn a_topic_of_an_older_version_goes_on() {
    let mut server = Server::start();
    for case in 0..8_u64 {
        let mut real = Real::of(&mut server, case, TOPIC);
        let (with_others, with_acks, is_between) = (case & 1 > 0, case & 2 > 0, case & 4 > 0);
        real.call(&Numbered::Bound([AGE_MS, 20, MOST_BYTES]));
        for member in [0, 2] {
            real.subscribe(member);
        }
        publish(&mut real, &[1; 3]);
        if with_others {
            add(&mut real, "*");
        }
        let given = pulled(&mut real, 100);
        if with_acks {
            real.ack(0, "", &given[..2]);
        }
        let key = real.keys.spell(Key::Topic);
        real.server.command(&["HDEL", &key, "first", "ours:s", "ours:c"]);
        if with_others {
            real.server.command(&["HSET", &key, "has_others", "1"]);
        }
        if is_between {
            publish(&mut real, &[1; 2]);
            assert_eq!(pulled(&mut real, 100).len(), 2, "case {case}");
        }
        real.ack(0, "", &given);
        let told = real.told();
        let of = told.subscriptions.iter().find(|one| one.name == "s").unwrap();
        assert_eq!((of.unread, of.at), if is_between { (4, 5) } else { (4, 3) }, "case {case}: {of:?}");
        assert_eq!(told.messages, entries(&mut real).len() as u64);
        let other = pulled_by(&mut real, 2, 3);
        assert_eq!(other, given[..3], "case {case}: nothing is lost");
        real.ack(2, "", &other);
        assert_eq!(
            entries(&mut real).len() as u64,
            u64::from(with_others) + if is_between { 2 } else { 0 },
            "case {case}"
        );
        for number in 0..15 {
            assert_eq!(publish(&mut real, &[1]), [""; 0], "case {case}: {number}");
        }
    }
}
