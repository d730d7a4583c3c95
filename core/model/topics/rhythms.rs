//! Two subscriptions that always hold one message, beside another program that adds much between messages: what both have read goes, whoever
//! acks and publishes in which order.

use super::super::server::Server;
use super::foreign::{entries, given_by, publish};
use super::{Membership, Numbered, OnePull, Real, START, TOPIC, one_pull};
use crate::script::Key;

const MEMBERS: [usize; 2] = [0, 2];

#[derive(Clone, Copy, Debug)]
enum Step {
    Publish,
    /// All that is there, and an ack of it without the last message.
    Read(usize),
    /// As `Read`, with an ack of its own for each message.
    ReadEach(usize),
    /// An ack that acks nothing new.
    AckAgain(usize),
}
use Step::{AckAgain, Publish, Read, ReadEach};

/// One round each. What stands in several rounds comes in turn.
const RHYTHMS: [&[&[Step]]; 16] = [
    &[&[Publish, Read(0), Read(1)]],
    &[&[Publish, Read(1), Read(0)]],
    &[&[Publish, Read(0), Publish, Read(1)]],
    &[&[Publish, Read(1), Publish, Read(0)]],
    &[&[Publish, Read(0)], &[Publish, Read(1)]],
    &[&[Publish, Read(0), Read(1)], &[Publish, Read(0)]],
    &[&[Publish, Read(1), Read(0)], &[Publish, Read(1)]],
    &[&[Publish, Read(0), Read(1)], &[Publish, Read(1), Read(0)]],
    &[&[Publish, Publish, Read(0), Publish, Publish, Read(1)]],
    &[&[Publish, ReadEach(0), ReadEach(1)]],
    &[&[Publish, Publish, ReadEach(0), ReadEach(1)]],
    &[&[Publish, Read(0), AckAgain(1), Read(1), AckAgain(0)]],
    &[&[Publish, Read(0), AckAgain(1), AckAgain(0), Read(1)]],
    &[&[Publish, Read(0), AckAgain(0), Read(1), AckAgain(1)]],
    &[&[Publish, Read(0)], &[Publish, Read(0)], &[Publish, Read(0), Read(1)]],
    &[&[Publish, Read(1)], &[Publish, Read(0), Publish], &[Read(1), Read(0)]],
];

struct Rhythm<'s> {
    real: Real<'s>,
    round: u64,
    calls: u64,
    /// So many entries of another program behind each message, and what is in each.
    foreign: (u64, String),
    /// Of each subscription, the message that it holds.
    held: [Option<String>; 2],
}

impl<'s> Rhythm<'s> {
    fn of(server: &'s mut Server, many: u64, bytes: usize) -> Self {
        let mut real = Real::of(server, 0, TOPIC);
        real.call(&Numbered::Bound([2 * START, 50_000, 1_000_000_000]));
        for member in MEMBERS {
            real.subscribe(member);
        }
        Self { real, round: 0, calls: 0, foreign: (many, "x".repeat(bytes)), held: [None, None] }
    }

    fn publish(&mut self) {
        self.round += 1;
        let now = START + 10 * self.round;
        self.real.server.set_clock(&self.real.keys, now);
        assert_eq!(publish(&mut self.real, &[10]), [""; 0], "no subscription is cut off");
        let key = self.real.keys.spell(Key::Messages);
        let mut added = redis::pipe();
        for at in 1..=self.foreign.0 {
            added.cmd("XADD").arg(&key).arg(format!("{}-{}", now + 1, 1_000_000 + at)).arg("x").arg(&self.foreign.1);
        }
        self.real.server.pipeline(&added);
    }

    fn ack(&mut self, reader: usize, ids: &[String]) {
        assert_eq!(self.real.ack(MEMBERS[reader], "", ids), Membership::Member(ids.len() as u64));
    }

    fn read(&mut self, reader: usize, is_each: bool) {
        let mut all = Vec::new();
        loop {
            self.calls += 1;
            let pull = OnePull { call: self.calls, most: 1000, ..one_pull(MEMBERS[reader]) };
            let given = given_by(&mut self.real, &pull).0;
            if given.is_empty() {
                break;
            }
            all.extend(given);
        }
        let is_message = |id: &&String| id.rsplit_once('-').unwrap().1.len() < 7;
        let Some(last) = all.iter().rfind(is_message).cloned() else { return };
        let ids: Vec<_> =
            self.held[reader].take().into_iter().chain(all.into_iter().filter(|id| *id != last)).collect();
        if is_each {
            for id in &ids {
                self.ack(reader, std::slice::from_ref(id));
            }
        } else {
            self.ack(reader, &ids);
        }
        self.held[reader] = Some(last);
    }

    fn step(&mut self, step: Step) {
        match step {
            Publish => self.publish(),
            Read(reader) => self.read(reader, false),
            ReadEach(reader) => self.read(reader, true),
            AckAgain(reader) => {
                self.real.ack(MEMBERS[reader], "", &["1-1".to_owned()]);
            }
        }
    }
}

#[test]
fn what_two_subscriptions_have_read_goes_in_each_rhythm_beside_another_program() {
    let mut server = Server::start();
    let mut too_many = Vec::new();
    for (many, bytes) in [(1, 70_000), (12, 1), (120, 1)] {
        for (case, rhythm) in RHYTHMS.iter().enumerate() {
            let mut all = Rhythm::of(&mut server, many, bytes);
            let turns = if many > 100 { 24 } else { 60 };
            for turn in 0..turns {
                for step in rhythm[turn % rhythm.len()] {
                    all.step(*step);
                }
            }
            for (reader, held) in all.held.iter().enumerate() {
                assert!(entries(&mut all.real).contains(held.as_ref().unwrap()), "{reader} in {case}");
            }
            let left = entries(&mut all.real).len() as u64 / (1 + many);
            if left > 12 {
                too_many.push((many, case, left));
            }
            server.command(&["FLUSHALL"]);
        }
    }
    assert_eq!(too_many, []);
}

/// It raised no floor, and the next ack began anew.
#[test]
fn a_look_that_an_ack_has_begun_and_a_publish_has_ended_frees_messages() {
    let mut server = Server::start();
    let mut all = Rhythm::of(&mut server, 1, 70_000);
    for _ in 0..2 {
        all.publish();
        all.read(0, false);
    }
    // Its floor is behind two messages, of which no look has found the second.
    let held = all.held[0].take().unwrap();
    all.ack(0, &[held]);
    for _ in 0..2 {
        all.publish();
        all.read(0, false);
    }
    // The other one, which has read nothing, leaves.
    all.real.call(&Numbered::Unsubscribe(MEMBERS[1]));
    // From here on each ack begins a look, and each publish ends it.
    all.step(AckAgain(0));
    for _ in 0..20 {
        all.publish();
        all.read(0, false);
    }
    let left = entries(&mut all.real).len();
    assert!(left <= 8, "{left}");
}
