//! Bounds: what goes, and who is cut off by that.

use super::super::super::server::Server;
use super::super::{AGE_MS, MOST, MOST_BYTES, Numbered, OnePull, Real, START, TOPIC, one_pull};
use super::{add, entries, given_by, position, publish, pulled, pulled_by, read, reads};
use crate::script::Key;

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
    let ids = |real: &mut Real<'_>| pulled(real, 2);
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
    let pulled = |real: &mut Real<'_>, most: usize| given_by(real, &OnePull { most, ..one_pull(0) });
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
