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
    assert_eq!(real.told().bytes, 0);
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
pub(super) fn entries(real: &mut Real<'_>) -> Vec<String> {
    let key = real.keys.spell(Key::Messages);
    let entries: Vec<(String, Vec<String>)> =
        redis::from_redis_value(real.server.command(&["XRANGE", &key, "-", "+"])).unwrap();
    entries.into_iter().map(|(id, _)| id).collect()
}

fn add(real: &mut Real<'_>, id: &str) {
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), id, "x", "1"]);
}

fn pulled(real: &mut Real<'_>, most: usize) -> Vec<String> {
    pulled_by(real, 0, most)
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

/// How many entries the scripts ask for, at most.
fn reads(real: &mut Real<'_>, act: &dyn Fn(&mut Real<'_>)) -> u32 {
    real.number += 1000;
    let (keys, number) = (std::mem::replace(&mut real.keys, QueueKeys::new("", TOPIC)), real.number);
    let mut inner = None;
    let commands = real.server.monitor(|server| {
        let mut real = Real { server, keys, number };
        act(&mut real);
        inner = Some(real.keys);
    });
    real.keys = inner.unwrap();
    let asks = |line: &&String| line.contains(" lua] \"XRANGE\"") || line.contains(" lua] \"XREVRANGE\"");
    let counts = commands.iter().filter(asks).map(|line| {
        line.rsplit_once("\"COUNT\" \"").map_or(1, |(_, count)| count.trim_end_matches('"').parse::<u32>().unwrap())
    });
    real.number += 1000;
    counts.sum()
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

/// An ack looked at ten entries for the next message.
#[test]
fn who_has_read_all_messages_is_not_cut_off_behind_many_entries_of_another_program() {
    let mut server = Server::start();
    for (case, many) in [5, 50].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        real.call(&Numbered::Bound([AGE_MS, 5, MOST_BYTES]));
        real.subscribe(0);
        publish(&mut real, &[1; 5]);
        (0..many).for_each(|_| add(&mut real, "*"));
        let given = pulled(&mut real, 7);
        real.ack(0, "", &given);
        assert_eq!(position(&mut real), (5, 6), "{many}");
        assert_eq!(publish(&mut real, &[1]), [""; 0], "{many}");
        // Nor by one of them that it has pulled and does not ack.
        let given = pulled(&mut real, 1000);
        let acked: Vec<_> =
            given.iter().enumerate().filter(|(at, _)| *at != many / 2).map(|(_, id)| id.clone()).collect();
        real.ack(0, "", &acked);
        for number in 7..=11 {
            assert_eq!(publish(&mut real, &[1]), [""; 0], "{many}: {number}");
        }
        assert_eq!(real.told().subscriptions[0].pulled, 0, "{many}: that one has gone");
        assert_eq!(publish(&mut real, &[1]), ["s"], "7 is lost");
        let told = real.told();
        assert_eq!((told.cut_off[0].first, told.cut_off[0].last), (7, 7), "{many}");
    }
}

#[test]
fn what_a_subscription_has_pulled_and_not_acked_is_lost_with_a_word() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([AGE_MS, 5, MOST_BYTES]));
    real.subscribe(0);
    add(&mut real, "1-1");
    publish(&mut real, &[1; 2]);
    add(&mut real, "*");
    publish(&mut real, &[1]);
    let given = pulled(&mut real, 100);
    real.ack(0, "", &[given[0].clone(), given[2].clone()]);
    for number in 4..=5 {
        assert_eq!(publish(&mut real, &[1]), [""; 0], "{number}");
    }
    assert_eq!(publish(&mut real, &[1]), ["s"], "the first was not acked");
}

#[test]
fn who_reads_from_the_earliest_behind_very_much_of_another_program_is_not_cut_off_before_it_loses_something() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([AGE_MS, 100, MOST_BYTES]));
    real.subscribe(2);
    for _ in 0..5 {
        publish(&mut real, &[1; 100]);
        let given = pulled_by(&mut real, 2, 100);
        real.ack(2, "", &given);
    }
    (1..=2500).for_each(|at| add(&mut real, &format!("{}-{at}", START + 1)));
    publish(&mut real, &[1; 10]);
    real.call(&Numbered::Subscribe { member: 0, from_earliest: true });
    assert_eq!(real.told().subscriptions.iter().map(|one| one.unread).collect::<Vec<_>>(), [501, 501]);
    for number in 511..=600 {
        assert_eq!(publish(&mut real, &[1]), [""; 0], "{number}");
    }
    // It loses messages only behind what goes before them, a thousand with each call.
    let cut_off: Vec<_> = (0..4).flat_map(|_| publish(&mut real, &[1])).collect();
    assert_eq!(cut_off.len(), 2);
    assert_eq!(real.told().messages, 100);
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

#[test]
fn a_batch_that_makes_another_one_go_does_not_read_it() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([AGE_MS, 200, MOST_BYTES]));
    for later in 0..2 {
        real.server.set_clock(&real.keys, START + later);
        publish(&mut real, &[1; 100]);
    }
    real.server.set_clock(&real.keys, START + 2);
    let asked = reads(&mut real, &|real| _ = publish(real, &[1; 100]));
    assert!(asked <= 3, "{asked}");
    let left = entries(&mut real);
    assert_eq!((left.len(), left[0].clone()), (200, format!("{}-101", START + 1)));
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
fn what_another_program_has_added_is_none_of_the_bytes() {
    let mut server = Server::start();
    for (case, value) in ["12", "1790000000000", "nan", "inf", "1e300"].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        let key = real.keys.spell(Key::Messages);
        real.server.command(&["XADD", &key, "1-1", "sensor", "12", "at", value]);
        assert_eq!(real.told().bytes, 0, "{value}");
        publish(&mut real, &[100]);
        assert_eq!(real.told().bytes, 100, "{value}");
        (2..30).for_each(|at| add(&mut real, &format!("{START}-{at}")));
        assert_eq!(real.told().bytes, 100, "{value}");
    }
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
    let told = real.told();
    assert_eq!(told.subscriptions.iter().find(|one| one.name == "s").map(|one| one.unread), Some(4));
    let slow = pulled_by(&mut real, 2, 100);
    assert_eq!(slow.len(), 11);
    real.ack(2, "", &[&given[..1], &slow].concat());
    assert_eq!(pulled(&mut real, 100), slow[3..], "nobody else's ack takes a message away");
}

/// It has removed all that a subscription had not pulled: nothing is lost by the bounds.
#[test]
fn who_has_nothing_left_to_read_is_not_cut_off_when_another_program_has_removed_it() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    for member in [0, 2] {
        real.subscribe(member);
    }
    let key = real.keys.spell(Key::Messages);
    publish(&mut real, &[1; 4]);
    let given = pulled(&mut real, 2);
    real.ack(0, "", &given);
    for number in [3, 4] {
        real.server.command(&["XDEL", &key, &format!("{START}-{number}")]);
    }
    assert_eq!(pulled(&mut real, 100).len(), 0);
    real.call(&Numbered::Bound([AGE_MS, 1, MOST_BYTES]));
    real.server.set_clock(&real.keys, START + 1);
    assert_eq!(publish(&mut real, &[1]), ["c"], "only the other one had something to read");
    // Behind entries of another program, something that was not pulled is found.
    let mut real = Real::of(&mut server, 1, TOPIC);
    real.subscribe(0);
    publish(&mut real, &[1]);
    let given = pulled(&mut real, 1);
    real.ack(0, "", &given);
    (1..=150).for_each(|number| add(&mut real, &format!("{}-{number}", START + 1)));
    real.server.set_clock(&real.keys, START + 2);
    publish(&mut real, &[1; 2]);
    real.call(&Numbered::Bound([AGE_MS, 1, MOST_BYTES]));
    assert_eq!(publish(&mut real, &[1]), ["s"]);
}

/// What was before them is gone, so that a call looks for the first message that is there.
#[test]
fn a_message_behind_999_entries_of_another_program_stays_if_it_is_within_the_bounds() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([AGE_MS, 3, MOST_BYTES]));
    publish(&mut real, &[1; 2]);
    real.call(&Numbered::Subscribe { member: 0, from_earliest: true });
    for number in [1, 2] {
        real.server.command(&["XDEL", &real.keys.spell(Key::Messages), &format!("{START}-{number}")]);
    }
    (3..1002).for_each(|number| add(&mut real, &format!("{START}-{number}")));
    real.server.set_clock(&real.keys, START + 1);
    publish(&mut real, &[1]);
    publish(&mut real, &[1]);
    let left = entries(&mut real);
    assert!(left.ends_with(&[3, 4].map(|number| format!("{}-{number}", START + 1))), "{:?}", left.last());
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
            let pull = OnePull { most: 1000, max_bytes: 1000, ..one_pull(0) };
            let PullReply(pulled) = PullReply::decode(real.pull(&pull).unwrap()).unwrap();
            let Ok(Membership::Member(pulled)) = &pulled[0] else { panic!("{pulled:?}") };
            assert!((5..8).contains(&pulled.messages.len()), "{pulled:?}");
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
        let PullReply(pulled) = PullReply::decode(real.pull(&OnePull { most, ..one_pull(0) }).unwrap()).unwrap();
        let Ok(Membership::Member(pulled)) = &pulled[0] else { panic!("{pulled:?}") };
        (pulled.messages.len(), pulled.has_more)
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

/// As a tool that copies entries makes them.
#[test]
fn an_entry_with_our_fields_and_another_number_is_no_message() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    let key = real.keys.spell(Key::Messages);
    real.subscribe(0);
    publish(&mut real, &[1]);
    real.server.command(&["XADD", &key, &format!("{START}-2"), "d", "1", "b", "1"]);
    assert_eq!(read(&mut real), 2);
    assert_eq!(position(&mut real), (1, 2));
    real.server.set_clock(&real.keys, START + 1);
    publish(&mut real, &[1; 2]);
    assert_eq!(read(&mut real), 2);
    // Their bytes are more than there ever were.
    real.call(&Numbered::Bound([AGE_MS, 1000, 100]));
    real.server.command(&["XADD", &key, &format!("{}-1", START + 2), "d", "1", "b", "1000000000000000"]);
    real.server.set_clock(&real.keys, START + 3);
    (0..50).for_each(|_| _ = publish(&mut real, &[50]));
    assert_eq!(real.told().bytes, 100);
    assert_eq!(entries(&mut real).len(), 2);
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
        let PullReply(given) = PullReply::decode(real.pull(&pull).unwrap()).unwrap();
        let Ok(Membership::Member(given)) = &given[0] else { panic!("{given:?}") };
        assert_eq!(given.messages.len(), 4);
    }
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

#[test]
fn a_subscription_whose_group_is_gone_ends_no_call_of_another_one() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    for member in [0, 2] {
        real.subscribe(member);
    }
    publish(&mut real, &[1; 6]);
    let other = pulled_by(&mut real, 2, 2);
    real.ack(2, "", &other);
    real.server.command(&["XGROUP", "DESTROY", &real.keys.spell(Key::Messages), "c"]);
    assert_eq!(read(&mut real), 6);
    publish(&mut real, &[1]);
    assert_eq!(entries(&mut real).len(), 7);
    // It is cut off as any other one.
    real.call(&Numbered::Bound([AGE_MS, 3, MOST_BYTES]));
    assert_eq!(publish(&mut real, &[1]), ["c"]);
}

fn pulled_by(real: &mut Real<'_>, member: usize, most: usize) -> Vec<String> {
    let PullReply(pulled) = PullReply::decode(real.pull(&OnePull { most, ..one_pull(member) }).unwrap()).unwrap();
    let Ok(Membership::Member(pulled)) = &pulled[0] else { panic!("{pulled:?}") };
    pulled.messages.iter().map(|message| message.id.clone()).collect()
}
