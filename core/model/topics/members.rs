//! What is known of members: calls read no more of it than they need.

use super::super::server::Server;
use super::foreign::publish;
use super::{AGE_MS, MOST, MOST_BYTES, Numbered, OnePull, Real, START, TOPIC, one_pull};
use crate::script::{FromReply as _, Key, QueueKeys, SubscribeReply, UnsubscribeReply};

fn subscribe(real: &mut Real<'_>, member: usize) -> SubscribeReply {
    SubscribeReply::decode(real.call(&Numbered::Subscribe { member, from_earliest: false })).unwrap()
}

fn unsubscribe(real: &mut Real<'_>, member: usize) -> UnsubscribeReply {
    UnsubscribeReply::decode(real.call(&Numbered::Unsubscribe(member))).unwrap()
}

/// Two members of a subscription and one of another, of which two have pulled something.
fn topic(server: &mut Server) -> Real<'_> {
    let mut real = Real::of(server, 0, TOPIC);
    for member in [0, 2] {
        real.subscribe(member);
    }
    publish(&mut real, &[1; 100]);
    for member in [0, 2] {
        real.pull(&OnePull { most: 100, ..one_pull(member) }).unwrap();
    }
    real
}

/// Makes and ends a membership, and asks for all of them.
fn calls(real: &mut Real<'_>) {
    assert_eq!(subscribe(real, 1), SubscribeReply::Joined);
    let told = real.told();
    let members: Vec<_> = told.members.iter().map(|one| (&*one.name, &*one.subscription, one.pulled)).collect();
    assert_eq!(members, [("a", "s", 100), ("b", "s", 0), ("c", "c", 100)]);
    assert!(told.members.iter().all(|one| one.seen == crate::Millis::new(START)), "{told:?}");
    assert_eq!((told.bounds, told.subscriptions[0].at), ([AGE_MS, MOST, MOST_BYTES], 100));
    assert_eq!(unsubscribe(real, 1), UnsubscribeReply::Left);
    assert_eq!(unsubscribe(real, 2), UnsubscribeReply::Ended);
}

/// A member that is sent what it got has the ids of its last pull, up to a thousand of them.
#[test]
fn no_call_about_members_reads_what_they_have_pulled() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    let (keys, number) = (std::mem::replace(&mut real.keys, QueueKeys::new("", TOPIC)), real.number);
    let commands = server.monitor(|server| calls(&mut Real { server, keys, number }));
    let of_scripts: Vec<_> = commands.iter().filter(|line| line.contains(" lua] ")).collect();
    let many = of_scripts.iter().filter(|line| line.contains("\"HKEYS\"")).count();
    assert_eq!(many, 4, "each call has asked for the names once: {of_scripts:#?}");
    let reads_all = |line: &&&String| line.contains("\"HGETALL\"") || line.contains("\"HVALS\"");
    assert_eq!(of_scripts.iter().find(reads_all), None);
    let reads_got = |line: &&&String| line.contains("\"HMGET\"") && line.contains("\"got:");
    assert_eq!(of_scripts.iter().find(reads_got), None);
}

/// More fields than one command of a script may have.
#[test]
fn many_members_are_all_found() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    let key = real.keys.spell(Key::Topic);
    let many: Vec<_> = (0..12_000).flat_map(|at| [format!("member:m{at}"), "s".to_owned()]).collect();
    for fields in many.chunks(1000) {
        let command = ["HSET", &key].into_iter().chain(fields.iter().map(String::as_str)).collect::<Vec<_>>();
        real.server.command(&command);
    }
    assert_eq!(real.told().members.len(), 12_002);
    assert_eq!(unsubscribe(&mut real, 0), UnsubscribeReply::Left);
    // A hundred of those that were never there go, and what is known of the others stays.
    assert_eq!(subscribe(&mut real, 1), SubscribeReply::Joined);
    assert_eq!(real.told().members.len(), 11_902);
}

#[test]
fn an_acl_of_an_older_version_permits_all_calls_about_members() {
    let mut server = Server::start();
    let mut real = topic(&mut server);
    real.server.command(&["ACL", "SETUSER", "default", "-hkeys"]);
    calls(&mut real);
}
