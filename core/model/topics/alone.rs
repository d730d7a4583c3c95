//! Rules of topics that random steps meet seldom, one by one.

use super::super::server::Server;
use super::{AGE_MS, MOST, MOST_BYTES, Numbered, OnePull, Real, START, Step, TOPIC, agrees, one_pull};
use crate::script::{
    ForgetTopic, FromReply as _, IsMember, Key, Membership, NoteTopic, PullReply, SubscribeReply, TopicKeys,
};
use redis::Value;

#[test]
fn a_silent_member_that_holds_something_stays() {
    let pull = |member| Step::Pull { member, most: 1, max_bytes: 1000, is_short: false };
    let subscribe = |member| Step::Subscribe { member, from_earliest: false };
    let bound = Step::Bound { age: 1000, messages: MOST, bytes: MOST_BYTES };
    let begins = [bound, subscribe(0), subscribe(1), Step::Publish(vec![1, 1]), pull(0), Step::Advance(2000), pull(1)];
    let agrees = |case, ends: &[Step]| agrees(&mut Server::start(), case, &[&begins, ends].concat());
    assert_eq!(agrees(0, &[subscribe(2)]), Ok(()));
    // With the first message acked it goes.
    assert_eq!(agrees(1, &[Step::Ack { member: 0, every: 1 }, subscribe(2)]), Ok(()));
}

#[test]
fn a_message_stays_for_as_long_as_its_age_and_no_millisecond_longer() {
    let bound = Step::Bound { age: 1000, messages: MOST, bytes: MOST_BYTES };
    let publish = || Step::Publish(vec![1]);
    let steps = [bound, publish(), Step::Advance(1000), publish(), Step::Advance(1), publish()];
    assert_eq!(agrees(&mut Server::start(), 0, &steps), Ok(()));
}

#[test]
fn a_server_without_memory_lets_members_come_back_and_read() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    real.call(&Numbered::Publish(vec![10; 5]));
    real.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    real.number += 1;
    let full = real.numbered(&Numbered::Subscribe { member: 1, from_earliest: false }, real.number);
    assert!(full.is_err(), "nothing new is stored");
    real.number += 1;
    let known = real.numbered(&Numbered::Subscribe { member: 0, from_earliest: false }, real.number);
    assert_eq!(SubscribeReply::decode(known.unwrap()).unwrap(), SubscribeReply::Known);
    let PullReply(mut pulled) = PullReply::decode(real.pull(&one_pull(0)).unwrap()).unwrap();
    let Ok(Membership::Member(pulled)) = pulled.remove(0) else { panic!("{pulled:?}") };
    let ids: Vec<_> = pulled.messages.into_iter().map(|message| message.id).collect();
    assert_eq!(real.ack(0, "", &ids), Membership::Member(5), "an older version knows no tag");
    assert_eq!(real.told().messages, 0);
}

#[test]
fn topics_that_are_damaged_do_not_keep_what_the_others_give() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.subscribe(0);
    real.call(&Numbered::Publish(vec![10; 5]));
    for damaged in ["topic", "messages", "floors"] {
        let key = format!("topics0:{{{damaged}}}:{damaged}");
        real.server.command(&["SET", &key, "x"]);
    }
    let others = ["topic", "messages", TOPIC, "floors"];
    for is_again in [false, true] {
        let pull = OnePull { is_again, ..one_pull(0) };
        let PullReply(pulled) = PullReply::decode(real.pull_of(&pull, &others).unwrap()).unwrap();
        let given = pulled.iter().map(|one| match one {
            Ok(Membership::Member(one)) => Some(one.messages.len()),
            Ok(Membership::Stranger) => Some(0),
            _ => None,
        });
        assert_eq!(given.collect::<Vec<_>>(), [None, None, Some(5), None]);
    }
    let is_member = IsMember { member: "a".to_owned(), topic_count: TopicKeys::of(["topic", TOPIC, "none"]) };
    let flags = real.run(is_member, [], None).unwrap();
    assert_eq!(flags, Value::BulkString(b"110".to_vec()), "one that cannot be read may have it");
}

/// A script that writes and then stops at a foreign key leaves half of what it does.
#[test]
fn what_other_programs_hold_in_the_keys_of_a_topic_stops_a_call_before_it_writes() {
    let mut server = Server::start();
    for (case, foreign) in [Key::Topic, Key::Messages, Key::Floors].into_iter().enumerate() {
        let mut real = Real::of(&mut server, case as u64, TOPIC);
        let key = real.keys.spell(foreign);
        real.server.command(&["SET", &key, "x"]);
        for call in [Numbered::Publish(vec![1]), Numbered::Subscribe { member: 0, from_earliest: true }] {
            real.number += 1;
            assert!(real.numbered(&call, real.number).is_err(), "{foreign:?}");
        }
        for other in [Key::Topic, Key::Messages, Key::Floors, Key::News] {
            let spelled = real.keys.spell(other);
            let exists: u64 = redis::from_redis_value(real.server.command(&["EXISTS", &spelled])).unwrap();
            assert_eq!(exists, u64::from(other == foreign), "{foreign:?}: {other:?}");
        }
    }
}

/// While the slot moves, or the number of calls is none: the message is in, and published again it would be there twice.
#[test]
fn a_message_that_nobody_can_be_woken_for_was_published() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    let key = real.keys.spell(Key::Topic);
    real.server.command(&["HSET", &key, "calls", "100000000000000000000"]);
    real.call(&Numbered::Publish(vec![1]));
    assert!(real.news().is_empty());
}

#[test]
fn a_topic_of_a_newer_format_is_refused() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    let key = real.keys.spell(Key::Topic);
    real.server.command(&["HSET", &key, "format", "3"]);
    let refused = real.call(&Numbered::Publish(vec![1]));
    assert_eq!(refused, Value::BulkString(b"format 3".to_vec()));
    let PullReply(pulled) = PullReply::decode(real.pull(&one_pull(0)).unwrap()).unwrap();
    assert!(pulled[0].as_ref().is_err_and(|error| error.kind() == crate::ErrorKind::FormatTooNew), "{pulled:?}");
}

#[test]
fn what_a_member_leaves_goes_to_another_one_by_the_thousand() {
    let pull = |member, most| Step::Pull { member, most, max_bytes: 1_000_000, is_short: false };
    let subscribe = |member| Step::Subscribe { member, from_earliest: false };
    let bound = Step::Bound { age: AGE_MS, messages: 5 * MOST, bytes: MOST_BYTES };
    // Fewer than a thousand in one pull, and these acked: a pull looks at so many that others have pulled.
    let begins = |each: usize| {
        let twice = [Step::Publish(vec![1; each]), pull(0, each)];
        [&[bound.clone(), subscribe(0), subscribe(1)][..], &twice, &twice].concat()
    };
    let agrees = |case, each, ends: &[Step]| agrees(&mut Server::start(), case, &[&begins(each), ends].concat());
    let (leave, ack) = (|| Step::Unsubscribe(0), || Step::Ack { member: 1, every: 1 });
    assert_eq!(agrees(0, 900, &[leave(), leave(), pull(1, 999), ack(), pull(1, 999), ack(), leave()]), Ok(()));
    // The first call cannot know that it has the last of them.
    assert_eq!(agrees(1, 500, &[leave(), leave(), pull(1, 999), ack(), pull(1, 9), leave()]), Ok(()));
    // Its program ends behind the first call, and another one goes on; a copy of that call comes late.
    let ends = [leave(), Step::Again, pull(1, 400), pull(0, 300), leave(), Step::Late, leave(), ack(), leave()];
    assert_eq!(agrees(2, 900, &ends), Ok(()));
    // Also if the last pull has seen a thousand that were leased, and the next one was to begin behind them.
    let third = [Step::Publish(vec![1]), pull(0, 1)];
    assert_eq!(agrees(4, 600, &[&third[..], &[leave(), leave(), pull(1, 999)]].concat()), Ok(()));
    // The last one of a subscription hands over nothing.
    assert_eq!(agrees(3, 900, &[Step::Unsubscribe(1), leave()]), Ok(()));
}

#[test]
fn an_ack_of_an_earlier_subscription_takes_nothing_of_a_newer_one() {
    let pull = |member| Step::Pull { member, most: 9, max_bytes: 1000, is_short: false };
    let ack = || Step::Ack { member: 2, every: 1 };
    let subscribe = |member, from_earliest| Step::Subscribe { member, from_earliest };
    let steps = [
        subscribe(0, true),
        subscribe(2, true),
        Step::Publish(vec![1; 3]),
        pull(2),
        Step::Unsubscribe(2),
        subscribe(2, true),
        subscribe(3, true),
        pull(3),
        ack(),
        pull(3),
        ack(),
    ];
    assert_eq!(agrees(&mut Server::start(), 0, &steps), Ok(()));
}

/// What members had pulled goes with them, and their names.
#[test]
fn who_leaves_or_is_forgotten_leaves_no_consumer() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([1000, MOST, MOST_BYTES]));
    for member in [0, 1] {
        real.subscribe(member);
        real.call(&Numbered::Publish(vec![1]));
        real.pull(&OnePull { call: member as u64, ..one_pull(member) }).unwrap();
    }
    assert_eq!(real.consumers("s"), 2);
    real.call(&Numbered::Unsubscribe(1));
    assert_eq!(real.consumers("s"), 1, "who has left");
    real.subscribe(1);
    real.pull(&OnePull { call: 9, ..one_pull(1) }).unwrap();
    let ids: Vec<_> = (1..=2).map(|number| format!("{START}-{number}")).collect();
    real.ack(0, "", &ids);
    let now = START + 5000;
    real.server.set_clock(&real.keys, now);
    real.pull(&OnePull { call: 10, ..one_pull(1) }).unwrap();
    real.subscribe(2);
    assert_eq!(real.consumers("s"), 1, "who was silent");
    assert_eq!(real.told().members.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn the_list_of_a_member_keeps_a_newer_subscription() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, "member");
    let note = |tag: &str| NoteTopic { name: "t".to_owned(), tag: tag.to_owned() };
    let forget = |tag: &str| ForgetTopic { name: "t".to_owned(), tag: tag.to_owned() };
    let listed = |real: &mut Real<'_>| real.words(&["HGETALL"], Key::MemberTopics).join(" ");
    real.run(note("1"), [], Some(1)).unwrap();
    real.run(note("2"), [], Some(2)).unwrap();
    // Late copies of a removal, and of the first note.
    assert_eq!(real.run(forget("1"), [], None).unwrap(), Value::Int(0));
    real.run(note("1"), [], Some(1)).unwrap();
    assert_eq!(listed(&mut real), "t 2");
    real.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(real.run(note("3"), [], Some(3)).is_ok(), "who comes back where memory is short");
    assert_eq!(real.run(forget("3"), [], None).unwrap(), Value::Int(1));
    assert_eq!(listed(&mut real), "");
}
