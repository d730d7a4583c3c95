//! What another program has added to the messages of a topic, with `XADD`: it is given to members, and takes nothing away.

use super::super::server::Server;
use super::{AGE_MS, MOST, MOST_BYTES, Numbered, OnePull, Real, START, TOPIC, one_pull};
use crate::script::{FromReply, Key, Membership, PublishReply, PullReply, QueueKeys};

/// Entries that are no messages of ours lie between those that nobody has read.
#[test]
fn what_another_program_adds_to_the_messages_pushes_out_none_and_stops_no_call() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    let key = real.keys.spell(Key::Messages);
    let add = |real: &mut Real<'_>, ms: u64| {
        real.server.command(&["XADD", &key, &format!("{ms}-0"), "x", "y"]);
    };
    let numbers = |real: &mut Real<'_>| -> Vec<u64> {
        let entries: Vec<(String, Vec<String>)> =
            redis::from_redis_value(real.server.command(&["XRANGE", &key, "-", "+"])).unwrap();
        entries.iter().map(|(id, _)| id.split_once('-').unwrap().1.parse().unwrap()).collect()
    };
    real.subscribe(0);
    real.call(&Numbered::Publish(vec![1; 3]));
    add(&mut real, START + 1);
    real.server.set_clock(&real.keys, START + 2);
    real.call(&Numbered::Publish(vec![1; 3]));
    assert_eq!(numbers(&mut real), [1, 2, 3, 0, 4, 5, 6]);
    let pull = OnePull { most: 2, ..one_pull(0) };
    let ids = |real: &mut Real<'_>| -> Vec<String> {
        let PullReply(pulled) = PullReply::decode(real.pull(&pull).unwrap()).unwrap();
        let Ok(Membership::Member(pulled)) = &pulled[0] else { panic!("{pulled:?}") };
        pulled.messages.iter().map(|message| message.id.clone()).collect()
    };
    // What is acked goes, and nothing else.
    for left in [&[3, 0, 4, 5, 6][..], &[5, 6]] {
        let pulled = ids(&mut real);
        real.ack(0, "", &pulled);
        if left.len() == 2 {
            let pulled = ids(&mut real);
            real.ack(0, "", &pulled[..1]);
        }
        assert_eq!(numbers(&mut real), left, "{pulled:?}");
    }
    // Nor do bounds, of bytes neither: it has none of ours.
    add(&mut real, START + 3);
    real.server.set_clock(&real.keys, START + 4);
    real.call(&Numbered::Bound([AGE_MS, MOST, 4]));
    real.call(&Numbered::Publish(vec![1; 3]));
    assert_eq!(numbers(&mut real), [6, 0, 7, 8, 9]);
    real.call(&Numbered::Publish(vec![1; 3]));
    assert_eq!(numbers(&mut real), [9, 10, 11, 12]);
    // Nor does one that is the first.
    let mut real = Real::of(&mut server, 1, TOPIC);
    let key = real.keys.spell(Key::Messages);
    real.server.command(&["XADD", &key, "1-0", "x", "yz"]);
    assert_eq!(real.told().bytes, 2);
    real.call(&Numbered::Subscribe { member: 0, from_earliest: true });
    real.call(&Numbered::Publish(vec![1]));
    let pulled: Vec<String> = (0..2).flat_map(|_| ids(&mut real)).collect();
    assert_eq!(pulled.last().map(|id| id.ends_with("-1")), Some(true), "{pulled:?}");
}

/// As `XADD *` numbers it in the millisecond of a message, and as somebody may who writes ids by hand.
#[test]
fn what_another_program_adds_with_numbers_like_ours_takes_no_message_away() {
    let mut server = Server::start();
    let publish = |real: &mut Real<'_>, count: usize| real.call(&Numbered::Publish(vec![1; count]));
    let ids = |real: &mut Real<'_>| -> Vec<String> {
        let entries: Vec<(String, Vec<String>)> =
            redis::from_redis_value(real.server.command(&["XRANGE", &real.keys.spell(Key::Messages), "-", "+"]))
                .unwrap();
        entries.into_iter().map(|(id, _)| id.replace(&START.to_string(), "")).collect()
    };
    let add = |real: &mut Real<'_>, id: &str| {
        real.server.command(&["XADD", &real.keys.spell(Key::Messages), &format!("{START}-{id}"), "d", "1"]);
    };
    let pulled = |real: &mut Real<'_>, most: usize| -> (Vec<String>, bool) {
        let PullReply(pulled) = PullReply::decode(real.pull(&OnePull { most, ..one_pull(0) }).unwrap()).unwrap();
        let Ok(Membership::Member(pulled)) = &pulled[0] else { panic!("{pulled:?}") };
        (pulled.messages.iter().map(|message| message.id.clone()).collect(), pulled.has_more)
    };
    // Whatever of the first three is acked, the numbers of the second and third are not those of messages.
    for (case, acked) in [vec![0, 1, 2], vec![0, 1], vec![1, 2]].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        real.subscribe(0);
        publish(&mut real, 1);
        add(&mut real, "2");
        add(&mut real, "3");
        let (given, has_more) = pulled(&mut real, 3);
        assert_eq!((given.len(), has_more), (3, false));
        real.server.set_clock(&real.keys, START + 1);
        publish(&mut real, 2);
        let chosen: Vec<String> = acked.iter().map(|&at: &usize| given[at].clone()).collect();
        real.ack(0, "", &chosen);
        let left = ids(&mut real);
        assert!(left.ends_with(&[format!("{}-2", START + 1), format!("{}-3", START + 1)]), "{acked:?}: {left:?}");
        let (given, has_more) = pulled(&mut real, 3);
        assert_eq!((given.len(), has_more), (2, false), "{acked:?}: {given:?}");
    }
    // What is the first has the number that the first message would have.
    let mut real = Real::of(&mut server, 3, TOPIC);
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), "1-0", "d", "1"]);
    real.call(&Numbered::Subscribe { member: 0, from_earliest: true });
    publish(&mut real, 3);
    let (given, _) = pulled(&mut real, 2);
    real.ack(0, "", &given);
    assert_eq!(ids(&mut real), ["-2", "-3"]);
    // A higher id than the next message would have.
    let mut real = Real::of(&mut server, 4, TOPIC);
    real.subscribe(0);
    publish(&mut real, 1);
    for higher in [format!("{START}-2"), format!("{}-9", START + 1)] {
        real.server.command(&["XADD", &real.keys.spell(Key::Messages), &higher, "d", "1"]);
        publish(&mut real, 2);
    }
    assert_eq!(ids(&mut real).len(), 7);
    assert_eq!(pulled(&mut real, 9).0.len(), 7);
    // Behind what has a lower number there is no more, either.
    let mut real = Real::of(&mut server, 6, TOPIC);
    real.subscribe(0);
    publish(&mut real, 2);
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), &format!("{}-0", START + 1), "d", "1"]);
    let (given, has_more) = pulled(&mut real, 9);
    assert_eq!((given.len(), has_more), (3, false));
    // By age, too, only messages have numbers; and one with other fields is none of ours.
    let mut real = Real::of(&mut server, 5, TOPIC);
    real.subscribe(0);
    publish(&mut real, 1);
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), &format!("{}-9", START + 1), "d", "1"]);
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), &format!("{}-9", START + 2), "a", "1", "b", "2"]);
    real.server.set_clock(&real.keys, START + 3);
    publish(&mut real, 1);
    real.call(&Numbered::Bound([2, MOST, MOST_BYTES]));
    real.server.set_clock(&real.keys, START + 5);
    publish(&mut real, 1);
    assert!(ids(&mut real).len() >= 2, "{:?}", ids(&mut real));
    assert_eq!(real.told().cut_off.first().map(|cut| (cut.first, cut.last)), Some((1, 1)));
}

#[test]
fn bounds_hold_behind_very_much_that_another_program_has_added() {
    let mut server = Server::start();
    for (case, bounds) in [[AGE_MS, 10, MOST_BYTES], [AGE_MS, 100_000, 10]].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        let key = real.keys.spell(Key::Messages);
        real.call(&Numbered::Bound(bounds));
        for at in 1..=2500 {
            real.server.command(&["XADD", &key, &format!("1-{at}"), "d", "1"]);
        }
        for _ in 0..20 {
            real.call(&Numbered::Publish(vec![1; 2]));
        }
        assert_eq!(redis::from_redis_value::<u64>(real.server.command(&["XLEN", &key])).unwrap(), 10, "{bounds:?}");
    }
}

/// The ids of all entries, and what this member is given of a batch of messages that it pulls.
fn entries(real: &mut Real<'_>) -> Vec<String> {
    let key = real.keys.spell(Key::Messages);
    let entries: Vec<(String, Vec<String>)> =
        redis::from_redis_value(real.server.command(&["XRANGE", &key, "-", "+"])).unwrap();
    entries.into_iter().map(|(id, _)| id).collect()
}

fn add(real: &mut Real<'_>, id: &str) {
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), id, "x", "1"]);
}

fn pulled(real: &mut Real<'_>, most: usize) -> Vec<String> {
    let PullReply(pulled) = PullReply::decode(real.pull(&OnePull { most, ..one_pull(0) }).unwrap()).unwrap();
    let Ok(Membership::Member(pulled)) = &pulled[0] else { panic!("{pulled:?}") };
    pulled.messages.iter().map(|message| message.id.clone()).collect()
}

fn read(real: &mut Real<'_>) -> usize {
    let given = pulled(real, 100);
    real.ack(0, "", &given);
    given.len()
}

/// The names of the subscriptions that the call cut off.
fn publish(real: &mut Real<'_>, sizes: &[u8]) -> Vec<String> {
    PublishReply::decode(real.call(&Numbered::Publish(sizes.to_vec()))).unwrap().cut_off
}

/// The numbers of the last message that the only subscription has pulled, and of the first that it has not read.
fn position(real: &mut Real<'_>) -> (u64, u64) {
    let told = real.told();
    let [subscription] = &told.subscriptions[..] else { panic!("{told:?}") };
    (subscription.at, subscription.unread)
}

/// It has nothing of ours behind it when its ack comes.
#[test]
fn who_keeps_up_is_not_cut_off_by_what_another_program_has_added() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([AGE_MS, 5, MOST_BYTES]));
    real.subscribe(0);
    publish(&mut real, &[1]);
    add(&mut real, "*");
    assert_eq!(read(&mut real), 2);
    assert_eq!(position(&mut real), (1, 2));
    for at in 1..20 {
        real.server.set_clock(&real.keys, START + at);
        assert_eq!(publish(&mut real, &[1]), [""; 0], "at {at}");
        assert_eq!(read(&mut real), 1, "at {at}");
        assert!(entries(&mut real).len() <= 2, "what was read has gone: {:?}", entries(&mut real));
        assert_eq!(position(&mut real), (at + 1, at + 2));
    }
}

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
    let reads = |real: &mut Real<'_>, act: &dyn Fn(&mut Real<'_>)| -> u32 {
        let commands = real.server.monitor(|server| {
            act(&mut Real { keys: QueueKeys::new("topics0:", TOPIC), server, number: 100 });
        });
        let counts = commands.iter().filter(|line| line.contains(" lua] \"XRANGE\"")).map(|line| {
            let (_, count) = line.rsplit_once("\"COUNT\" \"").unwrap();
            count.trim_end_matches('"').parse::<u32>().unwrap()
        });
        counts.sum()
    };
    let read_one = |real: &mut Real<'_>| {
        publish(real, &[1]);
        let given = pulled(real, 1);
        real.ack(0, "", &given);
    };
    assert!((3..=20).contains(&reads(&mut real, &read_one)));
    // Nor if it is very much that nobody has read, and behind it is a message.
    while read(&mut real) > 0 {}
    (0..1500).for_each(|_| add(&mut real, "*"));
    real.number = 200;
    publish(&mut real, &[1]);
    let told = |real: &mut Real<'_>| assert!(real.told().subscriptions.iter().all(|one| one.at < 2002));
    assert!((3..=30).contains(&reads(&mut real, &told)));
    let given = pulled(&mut real, 1);
    assert!((1..=15).contains(&reads(&mut real, &|real| _ = real.ack(0, "", &given))));
}

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

#[test]
fn who_reads_from_the_beginning_is_cut_off_only_when_it_has_lost_something() {
    let mut server = Server::start();
    // With what was added before the messages, between them and behind them; and when there is nothing else.
    for (case, at) in [Some(0), Some(2), Some(4), None].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        real.call(&Numbered::Bound([AGE_MS, 5, MOST_BYTES]));
        for number in 0..4 {
            if at == Some(number) {
                (0..3).for_each(|_| add(&mut real, "*"));
            }
            real.server.set_clock(&real.keys, START + number);
            publish(&mut real, &[1]);
        }
        if at == Some(4) {
            (0..3).for_each(|_| add(&mut real, "*"));
        }
        if at.is_none() {
            real.server.command(&["XTRIM", &real.keys.spell(Key::Messages), "MAXLEN", "0"]);
            add(&mut real, "*");
        }
        real.call(&Numbered::Subscribe { member: 0, from_earliest: true });
        let first = if at.is_some() { 1 } else { 5 };
        assert_eq!(real.told().subscriptions[0].unread, first, "{at:?}");
        let mut cut_off = Vec::new();
        for number in 5..=10 {
            cut_off.push(publish(&mut real, &[1]).is_empty());
            if number < first + 5 {
                assert!(cut_off.iter().all(|none| *none), "{at:?}: at {number}");
            }
        }
        assert!(cut_off.contains(&false), "{at:?}: it loses the first at last");
    }
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
