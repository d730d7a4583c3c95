//! Large messages, and large entries of another program: no call reads many of them, or all queues of the server wait.

use super::super::server::Server;
use super::foreign::{given_by, publish, reads};
use super::{AGE_MS, Numbered, OnePull, PublishMessages, Real, START, TOPIC, one_pull};
use crate::script::Key;

const MB: usize = 1_000_000;
const ALL_BYTES: u64 = 1_000_000_000;

fn topic(server: &mut Server) -> Real<'_> {
    let mut real = Real::of(server, 0, TOPIC);
    real.call(&Numbered::Bound([AGE_MS, 5000, ALL_BYTES]));
    real
}

/// One message in each of so many milliseconds.
fn publish_each(real: &mut Real<'_>, from_ms: u64, many: u64, bytes: usize) {
    let text = "x".repeat(bytes);
    for later in 0..many {
        real.server.set_clock(&real.keys, from_ms + later);
        let publish = PublishMessages { default_age_ms: AGE_MS, default_messages: 5000, default_bytes: ALL_BYTES };
        real.number += 1;
        let number = Some(real.number);
        real.run(publish, [text.as_bytes()], number).unwrap();
    }
}

fn add_large(real: &mut Real<'_>, ids: impl Iterator<Item = String>) {
    add(real, MB, ids);
}

fn add(real: &mut Real<'_>, bytes: usize, ids: impl Iterator<Item = String>) {
    let (key, text) = (real.keys.spell(Key::Messages), "x".repeat(bytes));
    for id in ids {
        real.server.command(&["XADD", &key, &id, "x", &text]);
    }
}

fn publishes(real: &mut Real<'_>) -> u32 {
    reads(real, &|real| _ = publish(real, &[1]))
}

#[test]
fn large_messages_that_go_at_once_are_not_all_read_by_one_publish() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    publish_each(&mut real, START, 30, MB);
    real.call(&Numbered::Bound([AGE_MS, 1, ALL_BYTES]));
    for _ in 0..10 {
        let asked = publishes(&mut real);
        assert!(asked <= 12, "{asked}");
    }
    assert_eq!(real.told().messages, 1);
    // Small ones before them say nothing of how large they are.
    real.call(&Numbered::Bound([AGE_MS, 5000, ALL_BYTES]));
    publish_each(&mut real, START + 100, 20, 10);
    publish_each(&mut real, START + 200, 70, MB);
    real.server.set_clock(&real.keys, START + 2 * AGE_MS);
    let asked = publishes(&mut real);
    assert!((20..=40).contains(&asked), "{asked}");
}

#[test]
fn large_entries_of_another_program_that_go_are_not_all_read_by_one_publish() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    add_large(&mut real, (1..=30).map(|at| format!("1-{at}")));
    publish_each(&mut real, START, 3, 10);
    real.call(&Numbered::Bound([AGE_MS, 1, ALL_BYTES]));
    for _ in 0..10 {
        let asked = publishes(&mut real);
        assert!(asked <= 14, "{asked}");
    }
    assert_eq!(real.told().messages, 1);
}

/// Each subscription looked for what it has lost, and all of them at the same entries.
#[test]
fn a_cut_looks_for_what_was_lost_once_for_all_subscriptions() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    real.subscribe(0);
    real.subscribe(2);
    publish(&mut real, &[1]);
    for member in [0, 2] {
        let (given, _) = given_by(&mut real, &one_pull(member));
        assert_eq!(real.ack(member, "", &given), super::Membership::Member(1));
    }
    let key = real.keys.spell(Key::Messages);
    for at in 1..=300 {
        real.server.command(&["XADD", &key, &format!("{}-{}", START + 1, 1000 + at), "x", "1"]);
    }
    publish_each(&mut real, START + 2, 1, 10);
    real.call(&Numbered::Bound([AGE_MS, 1, ALL_BYTES]));
    let mut cut_off = Vec::new();
    let asked = reads(&mut real, &|real| {
        real.server.set_clock(&real.keys, START + 3);
        publish(real, &[1]);
    });
    cut_off.extend(real.told().cut_off.into_iter().map(|cut| cut.subscription));
    assert_eq!(cut_off, ["c", "s"]);
    assert!((300..400).contains(&asked), "{asked}");
}

#[test]
fn a_cut_reads_large_entries_once_however_many_subscriptions_hold_them() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    // None of them is too old.
    real.call(&Numbered::Bound([2 * START, 5000, ALL_BYTES]));
    real.subscribe(0);
    real.subscribe(2);
    add_large(&mut real, (1..=5).map(|at| format!("1-{at}")));
    publish_each(&mut real, START, 1, 10);
    for member in [0, 2] {
        for call in 1..=6 {
            given_by(&mut real, &OnePull { call, max_bytes: 4 * MB, ..one_pull(member) });
        }
        real.ack(member, "", &[format!("{START}-1")]);
    }
    real.call(&Numbered::Bound([2 * START, 1, ALL_BYTES]));
    let asked = publishes(&mut real);
    assert!(asked <= 14, "{asked}");
    assert!(real.told().cut_off.is_empty(), "they have lost nothing");
}

#[test]
fn a_pull_reads_few_large_messages_behind_small_ones_or_where_some_were_removed() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    real.subscribe(0);
    publish_each(&mut real, START, 31, 1);
    publish_each(&mut real, START + 100, 40, MB);
    let pull = |real: &mut Real<'_>, call| {
        reads(real, &|real| {
            let (given, has_more) = given_by(real, &OnePull { call, most: 1000, max_bytes: 4 * MB, ..one_pull(0) });
            assert!(given.len() < 100 && has_more, "{}", given.len());
        })
    };
    let asked = pull(&mut real, 1);
    assert!((31..=50).contains(&asked), "{asked}");
    // Room in the length is no sign that nothing of another program is there.
    real.subscribe(2);
    publish(&mut real, &[1; 200]);
    let (key, last) = (real.keys.spell(Key::Messages), real.told().published);
    for number in last - 150..last - 50 {
        real.server.command(&["XDEL", &key, &format!("{}-{number}", START + 139)]);
    }
    add_large(&mut real, (1..=60).map(|at| format!("{}-{at}", START + 1000)));
    let asked = reads(&mut real, &|real| {
        let (given, has_more) = given_by(real, &OnePull { call: 2, most: 1000, max_bytes: 4 * MB, ..one_pull(2) });
        assert!((100..110).contains(&given.len()) && has_more, "{}", given.len());
    });
    assert!(asked <= 130, "{asked}");
}

#[test]
fn an_ack_behind_large_entries_of_another_program_reads_few_of_them() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    real.subscribe(0);
    real.subscribe(2);
    // None of them is too old.
    real.call(&Numbered::Bound([2 * START, 5000, ALL_BYTES]));
    add_large(&mut real, (1..=25).map(|at| format!("1-{at}")));
    publish(&mut real, &[1; 3]);
    let mut given = Vec::new();
    for call in 1..=20 {
        given.extend(given_by(&mut real, &OnePull { call, max_bytes: 4 * MB, ..one_pull(0) }).0);
    }
    assert_eq!(given.len(), 28);
    real.ack(0, "", &given[..25]);
    real.ack(0, "", &given[26..27]);
    let asked = reads(&mut real, &|real| _ = real.ack(0, "", &given[27..]));
    assert!(asked <= 4, "{asked}");
}

/// It read ten of them at once behind a small one.
#[test]
fn an_ack_behind_small_and_then_large_entries_of_another_program_reads_few_of_them() {
    let mut server = Server::start();
    for (case, small) in [0, 1, 5, 30].into_iter().enumerate() {
        let mut real = topic(&mut server);
        real.call(&Numbered::Bound([2 * START, 5000, ALL_BYTES]));
        real.subscribe(0);
        publish_each(&mut real, START, 1, 10);
        add_large(&mut real, (1..=12).map(|at| format!("{}-{at}", START + 1)));
        add(&mut real, 1, (1..=small).map(|at| format!("{}-{at}", START + 2)));
        publish_each(&mut real, START + 3, 1, 10);
        let mut given = Vec::new();
        for call in 1..=10 {
            given.extend(given_by(&mut real, &OnePull { call, most: 100, max_bytes: 4 * MB, ..one_pull(0) }).0);
        }
        let held = given.pop().unwrap();
        assert_eq!((u32::try_from(given.len()).unwrap(), held), (13 + small, format!("{}-2", START + 3)), "{case}");
        let asked = reads(&mut real, &|real| _ = real.ack(0, "", &given));
        // Behind few small ones, one large one; behind many, some.
        assert!((small..=small + if small < 6 { 1 } else { 10 }).contains(&asked), "{asked} behind {small}");
        for _ in 0..12 {
            real.ack(0, "", &given);
        }
        assert_eq!(real.told().subscriptions[0].unread, 2, "later acks come to the end of it");
        server.command(&["FLUSHALL"]);
    }
}

#[test]
fn calls_that_ask_for_the_first_message_read_few_large_entries_of_another_program() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    add(&mut real, 5 * MB, (1..=6).map(|at| format!("1-{at}")));
    publish_each(&mut real, START, 1, 10);
    let asked = reads(&mut real, &|real| assert_eq!(real.told().messages, 7));
    assert!(asked <= 3, "{asked}");
    let asked = reads(&mut real, &|real| _ = real.call(&Numbered::Subscribe { member: 0, from_earliest: true }));
    assert!(asked <= 2, "{asked}");
}

/// One message is always pulled and not acked, and with each one another program adds what no ack may read at once.
#[test]
fn acks_free_messages_behind_much_of_another_program_while_one_is_always_pulled() {
    let mut server = Server::start();
    for (many, bytes, has_slow_one) in
        [(1, 100_000, false), (3, 100_000, false), (12, 1, false), (150, 1, false), (150, 1, true)]
    {
        let mut real = topic(&mut server);
        real.call(&Numbered::Bound([2 * START, 50_000, ALL_BYTES]));
        real.subscribe(0);
        if has_slow_one {
            real.subscribe(2);
        }
        let (key, text) = (real.keys.spell(Key::Messages), "x".repeat(bytes));
        let mut held: Option<String> = None;
        for round in 1..=40 {
            publish_each(&mut real, START + 10 * round, 1, 10);
            for at in 1..=many {
                let id = format!("{}-{}", START + 10 * round + 1, 1000 + at);
                real.server.command(&["XADD", &key, &id, "x", &text]);
            }
            let given = (0..).map_while(|call| {
                let pull = OnePull { call: 1000 * round + call, most: 1000, ..one_pull(0) };
                Some(given_by(&mut real, &pull).0).filter(|given| !given.is_empty())
            });
            let given: Vec<_> = given.flatten().collect();
            assert_eq!(given.len(), 1 + many);
            let all = held.iter().chain(&given[1..]).cloned().collect::<Vec<_>>();
            real.ack(0, "", &all);
            held = Some(given[0].clone());
        }
        let left = super::foreign::entries(&mut real);
        assert!(left.contains(held.as_ref().unwrap()));
        let of_s = real.told().subscriptions.into_iter().find(|one| one.name == "s").unwrap();
        assert!(of_s.unread > 20, "{many} of {bytes} bytes: {of_s:?}");
        assert!(has_slow_one || left.len() <= 20 * (1 + many), "{many} of {bytes} bytes: {} left", left.len());
        real.server.command(&["FLUSHALL"]);
    }
}

/// An older version removes a subscription, and does not know this field.
#[test]
fn a_cursor_that_an_older_version_left_removes_nothing_that_was_not_read() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    real.call(&Numbered::Bound([2 * START, 5000, ALL_BYTES]));
    real.subscribe(0);
    publish_each(&mut real, START, 2, 10);
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), &format!("{}-9", START + 1), "x", "1"]);
    publish_each(&mut real, START + 2, 2, 10);
    let given = given_by(&mut real, &OnePull { most: 9, ..one_pull(0) }).0;
    assert_eq!(given.len(), 5);
    real.server.command(&["HSET", &real.keys.spell(Key::Topic), "back:s", &given[4]]);
    real.ack(0, "", &given[1..2]);
    assert_eq!(super::foreign::entries(&mut real), given);
}
