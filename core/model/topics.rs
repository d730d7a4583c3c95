//! What topics are: messages, subscriptions with their cursors, members with what they have pulled, in steps of any order, with calls
//! that are sent again and copies that come late.
//!
//! Leases are over at once or never: the server's idle times follow its own clock.

mod alone;
mod beside;
mod foreign;
mod large;
mod members;
mod rhythms;
mod set_back;
mod state;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use redis::Value;

use self::state::State;
use super::differential::number_from;
use super::server::Server;
use crate::script::{
    Ack, Bound, Clock, Declared, DeleteTopic, Digits, ExamineTopic, Extent, FromReply, Item, Key, Levels, Membership,
    MemoryRenewal, Numbering, PublishMessages, PublishReply, Pull, PullReply, QueueKeys, Shape, Subscribe,
    SubscribeReply, TopicKeys, TopicReply, Unsubscribe, UnsubscribeReply, Variant,
};

const DEFAULT_CASES: u32 = 200;
const START: u64 = 1_790_000_000_000;
const TOPIC: &str = "t";
/// Each with its subscription. Two share one at most, so that it is known who inherits.
const MEMBERS: [(&str, &str); 4] = [("a", "s"), ("b", "s"), ("c", "c"), ("d", "c")];
const AGE_MS: u64 = 1_000_000;
const MOST: u64 = 1000;
const MOST_BYTES: u64 = 1_000_000;
/// So much of what a member has pulled goes to another one with one call.
const MOST_HANDED: usize = 1000;
const NEVER_MS: u64 = 3_600_000;
const MANUAL: Variant = Variant { clock: Clock::Manual, shape: Shape::Plain, extent: Extent::Usual };

#[derive(Debug, Clone)]
enum Step {
    Publish(Vec<u8>),
    Subscribe {
        member: usize,
        from_earliest: bool,
    },
    Unsubscribe(usize),
    Pull {
        member: usize,
        most: usize,
        max_bytes: usize,
        is_short: bool,
    },
    /// The reply of this member's last pull was lost.
    PullAgain(usize),
    /// Of what this member has pulled last.
    Ack {
        member: usize,
        every: usize,
    },
    Bound {
        age: u64,
        messages: u64,
        bytes: u64,
    },
    Delete,
    /// The last numbered call is sent again.
    Again,
    /// A copy of the one before it arrives.
    Late,
    Advance(u64),
    SetBack(u64),
}

/// A numbered call, without its number.
#[derive(Debug, Clone)]
enum Numbered {
    Publish(Vec<u8>),
    Subscribe { member: usize, from_earliest: bool },
    Unsubscribe(usize),
    Bound([u64; 3]),
    Delete,
}

#[derive(Debug, Clone)]
struct OnePull {
    member: usize,
    most: usize,
    max_bytes: usize,
    is_short: bool,
    call: u64,
    is_again: bool,
}

/// The real scripts on a real server.
struct Real<'a> {
    server: &'a mut Server,
    keys: QueueKeys,
    number: u64,
}

fn data(size: u8) -> String {
    "x".repeat(size.into())
}

impl<'s> Real<'s> {
    fn of(server: &'s mut Server, case: u64, name: &str) -> Self {
        let real = Self { keys: QueueKeys::new(&format!("topics{case}:"), name), server, number: 0 };
        real.server.set_clock(&real.keys, START);
        real
    }

    fn run<'i, D, I>(&mut self, script: D, items: I, number: Option<u64>) -> redis::RedisResult<Value>
    where
        D: Declared,
        D::Item<'i>: Item,
        I: IntoIterator<Item = D::Item<'i>>,
        I::IntoIter: Clone,
    {
        let numbering = number.map(|number| Numbering {
            client: "m",
            slot: 0,
            number,
            renewal: &MemoryRenewal::No,
            is_known: false,
        });
        let call = script.with(items).call(MANUAL, TOPIC, &self.keys, Levels::one(5), numbering.as_ref());
        self.server.run(&call)
    }

    fn numbered(&mut self, call: &Numbered, number: u64) -> redis::RedisResult<Value> {
        let (tag, number) = (format!("tag{number}"), Some(number));
        match call {
            Numbered::Publish(sizes) => {
                let publish =
                    PublishMessages { default_age_ms: AGE_MS, default_messages: MOST, default_bytes: MOST_BYTES };
                let texts: Vec<_> = sizes.iter().map(|size| data(*size)).collect();
                self.run(publish, texts.iter().map(String::as_bytes), number)
            }
            Numbered::Subscribe { member, from_earliest } => {
                let (member, subscription) = MEMBERS[*member];
                let subscribe = Subscribe {
                    member: member.to_owned(),
                    subscription: subscription.to_owned(),
                    from_earliest: Digits((*from_earliest).into()),
                    default_age_ms: AGE_MS,
                    tag,
                };
                self.run(subscribe, [], number)
            }
            Numbered::Unsubscribe(member) => {
                self.run(Unsubscribe { member: MEMBERS[*member].0.to_owned() }, [], number)
            }
            Numbered::Bound([max_age_ms, max_messages, max_bytes]) => {
                let bound = Bound { max_age_ms: *max_age_ms, max_messages: *max_messages, max_bytes: *max_bytes };
                self.run(bound, [], number)
            }
            Numbered::Delete => self.run(DeleteTopic {}, [], number),
        }
    }

    /// The next one.
    fn call(&mut self, call: &Numbered) -> Value {
        self.number += 1;
        self.numbered(call, self.number).unwrap()
    }

    fn subscribe(&mut self, member: usize) {
        self.call(&Numbered::Subscribe { member, from_earliest: false });
    }

    fn pull(&mut self, pull: &OnePull) -> redis::RedisResult<Value> {
        self.pull_of(pull, &[TOPIC])
    }

    fn pull_of(&mut self, pull: &OnePull, topics: &[&str]) -> redis::RedisResult<Value> {
        let script = Pull {
            member: MEMBERS[pull.member].0.to_owned(),
            lease_ms: if pull.is_short { 0 } else { NEVER_MS },
            again: Digits(pull.is_again.into()),
            call_id: format!("{:016x}", pull.call),
            most: pull.most,
            max_bytes: pull.max_bytes,
            topic_count: TopicKeys::of(topics.iter().copied()),
        };
        self.run(script, [], None)
    }

    fn ack(&mut self, member: usize, tag: &str, ids: &[String]) -> Membership<u64> {
        let ack = Ack { member: MEMBERS[member].0.to_owned(), tag: tag.to_owned() };
        Membership::decode(self.run(ack, ids.iter().map(String::as_bytes), None).unwrap()).unwrap()
    }

    fn told(&mut self) -> TopicReply {
        let examine = ExamineTopic { default_age_ms: AGE_MS, default_messages: MOST, default_bytes: MOST_BYTES };
        let mut told = TopicReply::decode(self.run(examine, [], None).unwrap()).unwrap();
        told.subscriptions.sort_by(|a, b| a.name.cmp(&b.name));
        told.members.sort_by(|a, b| a.name.cmp(&b.name));
        told.cut_off.sort_by(|a, b| a.subscription.cmp(&b.subscription));
        told
    }

    fn words(&mut self, command: &[&str], key: Key) -> Vec<String> {
        let key = self.keys.spell(key);
        let words: Vec<_> = [command[0], &key].into_iter().chain(command[1..].iter().copied()).collect();
        redis::from_redis_value(self.server.command(&words)).unwrap()
    }

    fn fields(&mut self) -> BTreeSet<String> {
        let fields = self.words(&["HKEYS"], Key::Topic).into_iter();
        let spares_looks = |field: &String| field.starts_with("look") || field == "gone_bytes" || field == "first";
        fields.filter(|field| !spares_looks(field)).collect()
    }

    /// The ids of the stream on which members wait.
    fn news(&mut self) -> Vec<String> {
        let key = self.keys.spell(Key::News);
        let entries: Vec<(String, Vec<String>)> =
            redis::from_redis_value(self.server.command(&["XRANGE", &key, "-", "+"])).unwrap();
        entries.into_iter().map(|(id, _)| id).collect()
    }

    /// The consumer groups of the stream of messages.
    fn groups(&mut self) -> BTreeSet<String> {
        let key = self.keys.spell(Key::Messages);
        if self.server.command(&["EXISTS", &key]) == Value::Int(0) {
            return BTreeSet::new();
        }
        let groups: Vec<Vec<Value>> = redis::from_redis_value(self.server.command(&["XINFO", "GROUPS", &key])).unwrap();
        groups.into_iter().map(|group| redis::from_redis_value(group[1].clone()).unwrap()).collect()
    }

    /// The consumers of a group.
    fn consumers(&mut self, group: &str) -> usize {
        let key = self.keys.spell(Key::Messages);
        let consumers: Vec<Value> =
            redis::from_redis_value(self.server.command(&["XINFO", "CONSUMERS", &key, group])).unwrap();
        consumers.len()
    }
}

/// What a member has pulled last, and from which subscription: as the script says it, and as the model does.
struct LastPull {
    pull: OnePull,
    given: Vec<u64>,
    tag: Arc<str>,
    made: u64,
}

/// Both do the same.
struct Pair<'a> {
    real: Real<'a>,
    model: State,
    now: u64,
    pulls: u64,
    last_pull: BTreeMap<usize, LastPull>,
    /// Those that were made, with what the last one gave.
    made: Vec<(u64, Numbered)>,
    last_reply: Value,
}

impl Pair<'_> {
    fn numbered(&mut self, call: Numbered) -> Result<(), String> {
        let reply = self.real.call(&call);
        let (now, model) = (self.now, &mut self.model);
        let differs = |expected: String, found: String| {
            if expected == found { Ok(()) } else { Err(format!("the model says {expected}, the script {found}")) }
        };
        match &call {
            Numbered::Publish(sizes) => {
                let found = PublishReply::decode(reply.clone()).map_err(|error| error.to_string())?;
                let mut expected = model.publish(now, sizes);
                let mut found_cut = found.cut_off.clone();
                expected.cut_off.sort();
                found_cut.sort();
                differs(format!("{:?}", (expected.ids, expected.cut_off)), format!("{:?}", (found.ids, found_cut)))?;
            }
            Numbered::Subscribe { member, from_earliest } => {
                let expected = model.subscribe(now, *member, *from_earliest);
                if expected != SubscribeReply::Known {
                    let told = self.real.told();
                    model.forget(now, &told.members.iter().map(|one| one.name.as_str()).collect());
                }
                let found = SubscribeReply::decode(reply.clone()).map_err(|error| error.to_string())?;
                differs(format!("{expected:?}"), format!("{found:?}"))?;
            }
            Numbered::Unsubscribe(member) => {
                let expected = model.unsubscribe(*member);
                let found = UnsubscribeReply::decode(reply.clone()).map_err(|error| error.to_string())?;
                differs(format!("{expected:?}"), format!("{found:?}"))?;
            }
            Numbered::Bound(bounds) => model.bounds = Some(*bounds),
            Numbered::Delete => {
                *model = State::new();
                self.last_pull.clear();
            }
        }
        self.made.push((self.real.number, call));
        self.last_reply = reply;
        Ok(())
    }

    fn pull(&mut self, pull: OnePull) -> Result<(), String> {
        let reply = self.real.pull(&pull).map_err(|error| error.to_string())?;
        let PullReply(mut topics) = PullReply::decode(reply).map_err(|error| error.to_string())?;
        let found = topics.pop().unwrap().map_err(|error| error.to_string())?;
        match (self.model.membership(pull.member), found) {
            (Membership::Stranger, Membership::Stranger) => {}
            (Membership::CutOff(expected), Membership::CutOff(found)) if expected == found => {}
            (Membership::Member(()), Membership::Member(found)) => {
                let given = self.model.pull(self.now, &pull);
                let expected = given.iter().map(|(number, times)| {
                    let (ms, bytes) = self.model.of(*number);
                    (format!("{ms}-{number}"), *times, usize::try_from(bytes).unwrap())
                });
                let expected: Vec<_> = expected.collect();
                let messages = found.messages.iter().map(|one| (one.id.clone(), one.pulled, one.data.len()));
                let messages: Vec<_> = messages.collect();
                if messages != expected {
                    return Err(format!("the model gives {expected:?}, the script {messages:?}"));
                }
                let is_repeated = pull.is_again;
                let has_more = self.model.subscriptions[MEMBERS[pull.member].1].at < self.model.last();
                if found.calls != self.model.calls || !is_repeated && found.has_more != has_more {
                    return Err(format!("calls {} of {}, more {}", found.calls, self.model.calls, found.has_more));
                }
                let given = given.into_iter().map(|(number, _)| number).collect();
                let tag = found.messages.first().map(|one| Arc::clone(&one.tag)).unwrap_or_default();
                let made = self.model.subscriptions[MEMBERS[pull.member].1].made;
                self.last_pull.insert(pull.member, LastPull { pull, given, tag, made });
            }
            (expected, found) => return Err(format!("the model says {expected:?}, the script {found:?}")),
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step.clone() {
            Step::Publish(sizes) => self.numbered(Numbered::Publish(sizes)),
            Step::Subscribe { member, from_earliest } => self.numbered(Numbered::Subscribe { member, from_earliest }),
            Step::Unsubscribe(member) => self.numbered(Numbered::Unsubscribe(member)),
            Step::Bound { age, messages, bytes } => self.numbered(Numbered::Bound([age, messages, bytes])),
            Step::Delete => self.numbered(Numbered::Delete),
            Step::Again => {
                let Some((number, call)) = self.made.last() else { return Ok(()) };
                let reply = self.real.numbered(call, *number).unwrap();
                if reply == self.last_reply { Ok(()) } else { Err(format!("sent again it gives {reply:?}")) }
            }
            Step::Late => {
                let Some((number, call)) = self.made.iter().rev().nth(1) else { return Ok(()) };
                let reply = self.real.numbered(call, *number).unwrap();
                let is_refused = reply == Value::BulkString(b"superseded".to_vec());
                if is_refused { Ok(()) } else { Err(format!("a late copy gives {reply:?}")) }
            }
            Step::Pull { member, most, max_bytes, is_short } => {
                self.pulls += 1;
                self.pull(OnePull { member, most, max_bytes, is_short, call: self.pulls, is_again: false })
            }
            Step::PullAgain(member) => {
                let Some(last) = self.last_pull.get(&member) else { return Ok(()) };
                self.pull(OnePull { is_again: true, ..last.pull.clone() })
            }
            Step::Ack { member, every } => {
                let Some(last) = self.last_pull.get(&member) else { return Ok(()) };
                let numbers: Vec<_> = last.given.iter().copied().step_by(every).collect();
                let ids: Vec<_> =
                    numbers.iter().map(|number| format!("{}-{number}", self.model.of(*number).0)).collect();
                let found = self.real.ack(member, &last.tag, &ids);
                let expected = match self.model.membership(member) {
                    // A late copy, or an ack of who does not know yet that there is another subscription of this name.
                    Membership::Member(())
                        if !numbers.is_empty() && self.model.subscriptions[MEMBERS[member].1].made != last.made =>
                    {
                        Membership::Member(0)
                    }
                    Membership::Member(()) => Membership::Member(self.model.ack(member, &numbers)),
                    Membership::Stranger => Membership::Stranger,
                    Membership::CutOff(cut) => Membership::CutOff(cut),
                };
                if expected == found {
                    Ok(())
                } else {
                    Err(format!("the model says {expected:?}, the script {found:?}"))
                }
            }
            Step::Advance(ms) => {
                self.now += ms;
                self.real.server.set_clock(&self.real.keys, self.now);
                Ok(())
            }
            Step::SetBack(ms) => {
                self.now -= ms;
                self.real.server.set_clock(&self.real.keys, self.now);
                Ok(())
            }
        }
    }

    fn compare(&mut self) -> Result<(), String> {
        let (expected, found) = (self.model.told(self.now), self.real.told());
        if expected != found {
            return Err(format!("the model has {expected:#?}\nthe server {found:#?}"));
        }
        let (expected, found) = (self.model.fields(), self.real.fields());
        if expected != found {
            return Err(format!("the model has the fields {expected:?}, the server {found:?}"));
        }
        let expected: Vec<_> = (self.model.calls > 0).then(|| format!("{}-0", self.model.calls)).into_iter().collect();
        let found = self.real.news();
        if expected != found {
            return Err(format!("those who wait hear of {found:?}, and not of {expected:?}"));
        }
        let expected: BTreeSet<_> = self.model.subscriptions.keys().map(ToString::to_string).collect();
        let found = self.real.groups();
        if expected != found {
            return Err(format!("the groups are {found:?}, and not {expected:?}"));
        }
        // Nothing is lost to a subscription that was not told so.
        for (name, of) in &self.model.subscriptions {
            if of.floor < self.model.first {
                return Err(format!("{name} has lost {} to {}", of.floor, self.model.first - 1));
            }
        }
        Ok(())
    }
}

fn agrees(server: &mut Server, case: u64, steps: &[Step]) -> Result<(), String> {
    let mut pair = Pair {
        real: Real::of(server, case, TOPIC),
        model: State::new(),
        now: START,
        pulls: 0,
        last_pull: BTreeMap::new(),
        made: Vec::new(),
        last_reply: Value::Nil,
    };
    for (at, step) in steps.iter().enumerate() {
        pair.step(step).and_then(|()| pair.compare()).map_err(|why| format!("step {at}, {step:?}: {why}"))?;
    }
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let member = || 0..MEMBERS.len();
    let pull = (member(), 1..6_usize, select(&[1_usize, 30, 1000][..]), any::<bool>());
    let step = prop_oneof![
        6 => prop::collection::vec(1..60_u8, 1..5).prop_map(Step::Publish),
        4 => (member(), any::<bool>()).prop_map(|(member, from_earliest)| Step::Subscribe { member, from_earliest }),
        1 => member().prop_map(Step::Unsubscribe),
        8 => pull.prop_map(|(member, most, max_bytes, is_short)| Step::Pull { member, most, max_bytes, is_short }),
        2 => member().prop_map(Step::PullAgain),
        6 => (member(), 1..3_usize).prop_map(|(member, every)| Step::Ack { member, every }),
        1 => (select(&[1000_u64, AGE_MS][..]), select(&[3_u64, MOST][..]), select(&[50_u64, MOST_BYTES][..]))
            .prop_map(|(age, messages, bytes)| Step::Bound { age, messages, bytes }),
        1 => Just(Step::Again),
        1 => Just(Step::Late),
        2 => select(&[1_u64, 400, 600, 2000][..]).prop_map(Step::Advance),
        1 => select(&[1_u64, 500][..]).prop_map(Step::SetBack),
    ];
    let step = prop_oneof![60 => step, 1 => Just(Step::Delete)];
    prop::collection::vec(step, 1..80)
}

#[test]
fn the_scripts_of_topics_do_what_the_model_does() {
    let cases = number_from("DULY_MODEL_CASES").map_or(DEFAULT_CASES, |cases| u32::try_from(cases).unwrap());
    let seed = number_from("DULY_MODEL_SEED").unwrap_or(0x5eed);
    let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let (server, number) = (RefCell::new(Server::start()), Cell::new(0));
    let result = TestRunner::new(config).run(&steps(), |list| {
        number.set(number.get() + 1);
        agrees(&mut server.borrow_mut(), number.get(), &list).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => panic!("DULY_MODEL_SEED={seed}\n{why}\nsteps: {steps:#?}"),
        Err(abort) => panic!("DULY_MODEL_SEED={seed}: {abort}"),
    }
}

fn one_pull(member: usize) -> OnePull {
    OnePull { member, most: 100, max_bytes: 1_000_000, is_short: false, call: 1, is_again: false }
}
