//! Random calls beside another program that adds entries to the messages of a topic and removes some: no message is lost, and who keeps up
//! is not cut off.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::super::differential::number_from;
use super::super::server::Server;
use super::{AGE_MS, MEMBERS, MOST_BYTES, Membership, Numbered, OnePull, Real, START, TOPIC, one_pull};
use crate::script::{FromReply as _, Key, PublishReply, PullReply};

const DEFAULT_CASES: u32 = 25;
/// Of these members each has a subscription of its own.
const READERS: [usize; 2] = [0, 2];
/// Fields of an entry of another program: also those of ours, with bytes that there never were.
const FOREIGN: [&[&str]; 4] =
    [&["x", "1"], &["d", "1"], &["sensor", "1", "at", "1790000000000"], &["d", "1", "b", "99999999999999"]];

#[derive(Debug, Clone)]
enum Act {
    Publish(Vec<u8>),
    /// So many entries, which begin so many milliseconds behind the last id, with such a number.
    Add {
        many: usize,
        later: u64,
        number: u64,
        fields: usize,
    },
    RemoveForeign(Index, usize),
    RemoveMessage(Index),
    Subscribe {
        reader: usize,
        from_earliest: bool,
    },
    Unsubscribe(usize),
    Pull {
        reader: usize,
        most: usize,
        is_short: bool,
    },
    /// Of what it holds, each that this divides.
    Ack {
        reader: usize,
        every: usize,
    },
    Advance(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let reader = || select(&READERS[..]);
    let many = prop_oneof![3 => 1..4_usize, 2 => 1..60_usize, 1 => 900..1300_usize];
    let add = (many, 0..2_u64, select(&[0_u64, 7, 9999][..]), 0..FOREIGN.len());
    let pull = (reader(), select(&[1_usize, 2, 10, 100, 1000][..]), any::<bool>());
    let act = prop_oneof![
        3 => prop::collection::vec(0..20_u8, 1..40).prop_map(Act::Publish),
        3 => (0..20_u8).prop_map(|size| Act::Publish(vec![size])),
        3 => add.prop_map(|(many, later, number, fields)| Act::Add { many, later, number, fields }),
        1 => (any::<Index>(), 1..50_usize).prop_map(|(at, many)| Act::RemoveForeign(at, many)),
        1 => any::<Index>().prop_map(Act::RemoveMessage),
        2 => (reader(), any::<bool>()).prop_map(|(reader, from_earliest)| Act::Subscribe { reader, from_earliest }),
        1 => reader().prop_map(Act::Unsubscribe),
        6 => pull.prop_map(|(reader, most, is_short)| Act::Pull { reader, most, is_short }),
        6 => (reader(), 1..3_usize).prop_map(|(reader, every)| Act::Ack { reader, every }),
        2 => (0..6_u64).prop_map(Act::Advance),
    ];
    prop::collection::vec(act, 1..80)
}

/// What a subscription is to get, and what it has.
#[derive(Default)]
struct Reader {
    begins: u64,
    acked: BTreeSet<u64>,
    held: Vec<String>,
    /// Entries of another program that were added since, and that it has not acked.
    foreign: BTreeSet<String>,
}

fn parts_of(id: &str) -> (u64, u64) {
    let (ms, number) = id.split_once('-').unwrap();
    (ms.parse().unwrap(), number.parse().unwrap())
}

struct Beside<'a> {
    real: Real<'a>,
    now: u64,
    calls: u64,
    last: u64,
    /// Milliseconds and number of the highest id yet.
    highest: (u64, u64),
    readers: BTreeMap<usize, Reader>,
    /// What another program has added; and what it has removed, of its own and of ours.
    foreign: Vec<String>,
    removed: BTreeSet<String>,
    removed_messages: BTreeSet<u64>,
    has_bounds: bool,
}

impl Beside<'_> {
    /// The messages that are there by their numbers, and the other entries.
    fn there(&mut self) -> (BTreeMap<u64, String>, BTreeSet<String>) {
        let foreign: BTreeSet<_> = self.foreign.iter().cloned().collect();
        let entries: BTreeSet<_> = super::foreign::entries(&mut self.real).into_iter().collect();
        let (others, ours): (BTreeSet<_>, BTreeSet<_>) = entries.into_iter().partition(|id| foreign.contains(id));
        (ours.into_iter().map(|id| (parts_of(&id).1, id)).collect(), others)
    }

    fn check(&mut self, cut_off: &[String]) -> Result<(), String> {
        let (ours, others) = self.there();
        for reader in READERS {
            let Some(of) = self.readers.get(&reader) else { continue };
            let is_lost = |number: &u64| {
                !of.acked.contains(number) && !ours.contains_key(number) && !self.removed_messages.contains(number)
            };
            let lost = (of.begins..=self.last).find(is_lost);
            let is_cut_off = cut_off.iter().any(|name| name == MEMBERS[reader].1);
            if is_cut_off != lost.is_some() {
                return Err(format!("{reader} has lost {lost:?}, and is cut off: {is_cut_off}"));
            }
            let gone = of.foreign.iter().find(|id| !others.contains(*id) && !self.removed.contains(*id));
            if !self.has_bounds && gone.is_some() {
                return Err(format!("{reader} has not read the entry {gone:?} of another program"));
            }
            if is_cut_off {
                self.readers.remove(&reader);
            }
        }
        Ok(())
    }

    fn pull(&mut self, reader: usize, most: usize, is_short: bool) -> Result<Vec<String>, String> {
        self.calls += 1;
        let pull = OnePull { most, is_short, call: self.calls, ..one_pull(reader) };
        let PullReply(pulled) = PullReply::decode(self.real.pull(&pull).unwrap()).unwrap();
        let Ok(Membership::Member(pulled)) = &pulled[0] else { return Err(format!("{reader} gets {pulled:?}")) };
        let ids: Vec<_> = pulled.messages.iter().map(|message| message.id.clone()).collect();
        let (ours, _) = self.there();
        let of = self.readers.get_mut(&reader).unwrap();
        if let Some((number, _)) = ours.iter().find(|(number, id)| of.acked.contains(number) && ids.contains(id)) {
            return Err(format!("{reader} gets {number} again, which it has acked"));
        }
        for id in &ids {
            if !of.held.contains(id) {
                of.held.push(id.clone());
            }
        }
        Ok(ids)
    }

    fn ack(&mut self, reader: usize, every: usize) {
        let (ours, _) = self.there();
        let of = self.readers.get_mut(&reader).unwrap();
        let ids: Vec<_> = of.held.iter().step_by(every).cloned().collect();
        of.acked.extend(ours.iter().filter(|(_, id)| ids.contains(id)).map(|(number, _)| *number));
        of.held.retain(|id| !ids.contains(id));
        of.foreign.retain(|id| !ids.contains(id));
        for ids in ids.chunks(900) {
            self.real.ack(reader, "", ids);
        }
    }

    fn act(&mut self, act: &Act) -> Result<(), String> {
        let key = self.real.keys.spell(Key::Messages);
        match act {
            Act::Publish(sizes) => {
                let reply = PublishReply::decode(self.real.call(&Numbered::Publish(sizes.clone()))).unwrap();
                self.last += sizes.len() as u64;
                self.highest = parts_of(reply.ids.last().unwrap());
                return self.check(&reply.cut_off);
            }
            Act::Add { many, later, number, fields } => {
                let (last_ms, last_number) = self.highest;
                let ms = self.now.max(last_ms) + later;
                let number = if ms > last_ms { *number } else { last_number.max(self.last) + 1 };
                let mut pipeline = redis::pipe();
                for at in 0..*many as u64 {
                    pipeline.cmd("XADD").arg(&key).arg(format!("{ms}-{}", number + at)).arg(FOREIGN[*fields]);
                }
                let added = self.real.server.pipeline(&pipeline);
                for id in added.into_iter().map(|id| redis::from_redis_value::<String>(id).unwrap()) {
                    self.highest = parts_of(&id);
                    self.readers.values_mut().for_each(|of| _ = of.foreign.insert(id.clone()));
                    self.foreign.push(id);
                }
            }
            Act::RemoveForeign(at, many) => {
                if !self.foreign.is_empty() {
                    let at = at.index(self.foreign.len());
                    for id in self.foreign.iter().skip(at).take(*many) {
                        self.real.server.command(&["XDEL", &key, id]);
                        self.removed.insert(id.clone());
                    }
                }
            }
            Act::RemoveMessage(at) => {
                let (ours, _) = self.there();
                if !ours.is_empty() {
                    let (number, id) = ours.iter().nth(at.index(ours.len())).unwrap();
                    self.real.server.command(&["XDEL", &key, id]);
                    self.removed_messages.insert(*number);
                }
            }
            Act::Subscribe { reader, from_earliest } => {
                if !self.readers.contains_key(reader) {
                    let (ours, _) = self.there();
                    self.real.call(&Numbered::Subscribe { member: *reader, from_earliest: *from_earliest });
                    let first = ours.keys().next().copied().filter(|_| *from_earliest).unwrap_or(self.last + 1);
                    self.readers.insert(*reader, Reader { begins: first, ..Reader::default() });
                }
            }
            Act::Unsubscribe(reader) => {
                self.real.call(&Numbered::Unsubscribe(*reader));
                self.readers.remove(reader);
            }
            Act::Pull { reader, most, is_short } if self.readers.contains_key(reader) => {
                self.pull(*reader, *most, *is_short)?;
            }
            Act::Ack { reader, every } if self.readers.contains_key(reader) => self.ack(*reader, *every),
            Act::Pull { .. } | Act::Ack { .. } => {}
            Act::Advance(ms) => {
                self.now += ms;
                self.real.server.set_clock(&self.real.keys, self.now);
            }
        }
        self.check(&[])
    }

    /// Whoever reads on gets all, and then nothing of ours stays.
    fn end(&mut self) -> Result<(), String> {
        self.act(&Act::Publish(vec![1]))?;
        for reader in self.readers.keys().copied().collect::<Vec<_>>() {
            while !self.pull(reader, 1000, true)?.is_empty() {
                self.ack(reader, 1);
            }
            self.check(&[])?;
        }
        // A thousand entries go with one call.
        for reader in self.readers.keys().cycle().take(20) {
            self.real.ack(*reader, "", &[]);
        }
        let (ours, _) = self.there();
        let told = self.real.told();
        if !self.readers.is_empty() && !ours.is_empty() {
            return Err(format!("all have read {ours:?}, and it is there: {told:?}"));
        }
        let unread = told.subscriptions.iter().find(|one| (one.unread, one.pulled) != (self.last + 1, 0));
        unread.map_or(Ok(()), |one| Err(format!("of {} it has read all: {one:?}", self.last)))
    }
}

fn goes_well(server: &mut Server, case: u64, bounds: [u64; 3], acts: &[Act]) -> Result<(), String> {
    let mut beside = Beside {
        real: Real::of(server, case, TOPIC),
        now: START,
        calls: 0,
        last: 0,
        highest: (0, 0),
        readers: BTreeMap::new(),
        foreign: Vec::new(),
        removed: BTreeSet::new(),
        removed_messages: BTreeSet::new(),
        has_bounds: bounds != [AGE_MS, 1_000_000, MOST_BYTES],
    };
    beside.real.call(&Numbered::Bound(bounds));
    for (at, act) in acts.iter().enumerate() {
        beside.act(act).map_err(|why| format!("act {at}, {act:?}: {why}"))?;
    }
    beside.end()
}

#[test]
fn beside_another_program_nothing_is_lost_and_who_keeps_up_is_not_cut_off() {
    let cases = number_from("DULY_MODEL_CASES").map_or(DEFAULT_CASES, |cases| u32::try_from(cases).unwrap());
    let seed = number_from("DULY_MODEL_SEED").unwrap_or(0x5eed);
    let bounds = (
        select(&[50_u64, AGE_MS, AGE_MS][..]),
        select(&[3_u64, 20, 1_000_000][..]),
        select(&[300_u64, MOST_BYTES][..]),
    );
    let bounds = bounds.prop_map(|(age, messages, bytes)| [age, messages, bytes]);
    for trims_by_count in [false, true] {
        let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
        let (server, number) = (std::cell::RefCell::new(Server::start()), std::cell::Cell::new(0));
        server.borrow_mut().trims_by_count = trims_by_count;
        let result = TestRunner::new(config).run(&(bounds.clone(), acts()), |(bounds, acts)| {
            number.set(number.get() + 1);
            goes_well(&mut server.borrow_mut(), number.get(), bounds, &acts).map_err(TestCaseError::fail)
        });
        assert!(result.is_ok(), "DULY_MODEL_SEED={seed}, by count {trims_by_count}: {result:#?}");
    }
}
