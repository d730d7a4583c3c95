//! What topics are: messages, subscriptions with their cursors, members with what they have pulled, in steps of any order, with calls
//! that are sent again and copies that come late.
//!
//! Leases are over at once or never: the server's idle times follow its own clock.

mod beside;
mod foreign;
mod large;
mod members;
mod rhythms;
mod set_back;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use redis::Value;

use super::differential::number_from;
use super::server::Server;
use crate::script::{
    Ack, Bound, Clock, CutOffReply, Declared, DeleteTopic, Digits, ExamineTopic, Extent, ForgetTopic, FromReply,
    IsMember, Item, Key, Levels, Membership, MemoryRenewal, NoteTopic, Numbering, PublishMessages, PublishReply, Pull,
    PullReply, QueueKeys, Shape, Subscribe, SubscribeReply, TopicKeys, TopicReply, Unsubscribe, UnsubscribeReply,
    Variant,
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

#[derive(Debug, Clone, Default)]
struct Subscription {
    /// Which one of its name it is.
    made: u64,
    /// The first message that it has not read.
    floor: u64,
    /// The last one that was pulled.
    at: u64,
    pulled: BTreeMap<u64, PulledOnce>,
    has_pulled: bool,
    acked: BTreeSet<u64>,
}

#[derive(Debug, Clone)]
struct PulledOnce {
    by: usize,
    times: u64,
    /// Who pulled it has left it to the other one.
    is_inherited: bool,
}

#[derive(Debug, Clone)]
struct Member {
    seen: u64,
    is_short: Option<bool>,
    /// The number of its last pull that gave something, and what.
    got: Option<(u64, Vec<u64>)>,
}

#[derive(Debug, Clone, Default)]
struct State {
    /// Milliseconds and bytes of each message that was ever published.
    messages: Vec<(u64, u64)>,
    first: u64,
    calls: u64,
    /// How many subscriptions were made.
    made: u64,
    bounds: Option<[u64; 3]>,
    subscriptions: BTreeMap<&'static str, Subscription>,
    members: BTreeMap<usize, Member>,
    /// When, the first message that was lost, the last one then.
    cut_off: BTreeMap<&'static str, (u64, u64, u64)>,
}

impl State {
    fn new() -> Self {
        Self { first: 1, ..Self::default() }
    }

    fn last(&self) -> u64 {
        self.messages.len() as u64
    }

    fn bounds(&self) -> [u64; 3] {
        self.bounds.unwrap_or([AGE_MS, MOST, MOST_BYTES])
    }

    fn bytes_from(&self, number: u64) -> u64 {
        self.messages[usize::try_from(number - 1).unwrap()..].iter().map(|(_, bytes)| bytes).sum()
    }

    fn of(&self, number: u64) -> (u64, u64) {
        self.messages[usize::try_from(number - 1).unwrap()]
    }

    fn lowest(&self) -> Option<u64> {
        self.subscriptions.values().map(|one| one.floor).min()
    }

    fn publish(&mut self, now: u64, sizes: &[u8]) -> PublishReply {
        let ms = self.messages.last().map_or(now, |(ms, _)| now.max(*ms));
        let from = self.last() + 1;
        self.messages.extend(sizes.iter().map(|size| (ms, u64::from(*size))));
        self.calls += 1;
        let [age, most, most_bytes] = self.bounds();
        let last = self.last();
        let mut kept = self.first.max((last + 1).saturating_sub(most));
        while kept < last && (self.of(kept).0 < now.saturating_sub(age) || self.bytes_from(kept) > most_bytes) {
            kept += 1;
        }
        self.first = kept.max(self.lowest().unwrap_or(0));
        let behind = |one: &Subscription| one.floor < self.first;
        let names: Vec<_> = self.subscriptions.iter().filter(|(_, one)| behind(one)).map(|(name, _)| *name).collect();
        for name in &names {
            let one = self.subscriptions.remove(name).unwrap();
            self.cut_off.insert(name, (now, one.floor, self.first - 1));
        }
        let ids = (from..=last).map(|number| format!("{ms}-{number}")).collect();
        PublishReply { ids, cut_off: names.into_iter().map(str::to_owned).collect() }
    }

    fn subscribe(&mut self, now: u64, member: usize, from_earliest: bool) -> SubscribeReply {
        let (_, name) = MEMBERS[member];
        let is_known = self.members.contains_key(&member);
        let is_new = !self.subscriptions.contains_key(name);
        if is_new {
            let floor = if from_earliest { self.first } else { self.last() + 1 };
            self.made += 1;
            let of = Subscription { made: self.made, floor, at: floor - 1, ..Subscription::default() };
            self.subscriptions.insert(name, of);
            self.cut_off.remove(name);
        }
        let known = self.members.remove(&member);
        let kept = known.map_or((None, None), |one| (one.is_short, one.got));
        self.members.insert(member, Member { seen: now, is_short: kept.0, got: kept.1 });
        match (is_new, is_known) {
            (true, _) => SubscribeReply::Made,
            (false, false) => SubscribeReply::Joined,
            (false, true) => SubscribeReply::Known,
        }
    }

    /// What a new member takes away: who was silent for longer than messages are kept. Of two that are, either may be the one that stays.
    fn forget(&mut self, now: u64, found: &BTreeSet<&str>) {
        let over = now.saturating_sub(self.bounds()[0]);
        let names: BTreeSet<_> = MEMBERS.iter().map(|(_, name)| *name).collect();
        for name in names {
            let of_name = self.members.iter().filter(|(member, _)| MEMBERS[**member].1 == name);
            let (silent, others): (Vec<_>, Vec<_>) =
                of_name.map(|(member, one)| (*member, one.seen)).partition(|(member, seen)| {
                    let holds = |of: &Subscription| of.pulled.values().any(|one| one.by == *member);
                    *seen < over && !self.subscriptions.get(name).is_some_and(holds)
                });
            let mut going: Vec<_> = silent.into_iter().map(|(member, _)| member).collect();
            if self.subscriptions.contains_key(name) {
                if others.is_empty() {
                    let stays = going.iter().position(|member| found.contains(MEMBERS[*member].0)).unwrap_or(0);
                    going.drain(..).enumerate().filter(|(at, _)| *at != stays).for_each(|(_, member)| {
                        self.members.remove(&member);
                    });
                }
            } else if self.cut_off.get(name).is_some_and(|(at, ..)| *at >= over) {
                going.clear();
            }
            for member in going {
                self.members.remove(&member);
            }
        }
        self.cut_off.retain(|_, (at, ..)| *at >= over);
    }

    fn unsubscribe(&mut self, member: usize) -> UnsubscribeReply {
        if !self.members.contains_key(&member) {
            return UnsubscribeReply::Stranger;
        }
        let (_, name) = MEMBERS[member];
        let heir = self.members.keys().copied().find(|other| *other != member && MEMBERS[*other].1 == name);
        if let Some(heir) = heir {
            let pulled = self.subscriptions.get_mut(name).into_iter().flat_map(|of| of.pulled.values_mut());
            let handed: Vec<_> = pulled.filter(|one| one.by == member).take(MOST_HANDED).collect();
            let is_all = handed.len() < MOST_HANDED;
            for one in handed {
                (one.by, one.is_inherited) = (heir, true);
            }
            if !is_all {
                return UnsubscribeReply::More;
            }
            self.members.remove(&member);
            return UnsubscribeReply::Left;
        }
        self.members.remove(&member);
        self.subscriptions.remove(name);
        self.cut_off.remove(name);
        self.first = self.first.max(self.lowest().unwrap_or(0));
        UnsubscribeReply::Ended
    }

    /// The cut as it is told.
    fn lost(&self, name: &str) -> Option<CutOffReply> {
        let (at, first, last) = self.cut_off.get(name)?;
        let last = (*last).max(self.first - 1);
        Some(CutOffReply { subscription: name.to_owned(), at: crate::Millis::new(*at), first: *first, last })
    }

    fn membership(&self, member: usize) -> Membership<()> {
        let (_, name) = MEMBERS[member];
        if !self.members.contains_key(&member) {
            return Membership::Stranger;
        }
        if self.subscriptions.contains_key(name) {
            return Membership::Member(());
        }
        self.lost(name).map_or(Membership::Stranger, Membership::CutOff)
    }

    /// Numbers, and how often each was pulled.
    fn pull(&mut self, now: u64, pull: &OnePull) -> Vec<(u64, u64)> {
        let (_, name) = MEMBERS[pull.member];
        let member = self.members.get_mut(&pull.member).unwrap();
        (member.seen, member.is_short) = (now, Some(pull.is_short));
        if pull.is_again
            && let Some((call, numbers)) = &member.got
            && *call == pull.call
        {
            // What was acked meanwhile is over, and what another member has pulled by now is its own.
            let of = &self.subscriptions[name];
            let is_held = |number: &&u64| of.pulled.get(number).is_some_and(|one| one.by == pull.member);
            return numbers.iter().filter(is_held).map(|number| (*number, of.pulled[number].times)).collect();
        }
        let (mut given, mut bytes) = (Vec::new(), 0);
        let has_room = |given: &[_], bytes| given.len() < pull.most && (bytes == 0 || bytes < pull.max_bytes as u64);
        let is_short: BTreeMap<_, _> = self.members.iter().map(|(member, one)| (*member, one.is_short)).collect();
        let sizes: Vec<_> = self.messages.iter().map(|(_, bytes)| *bytes).collect();
        let size_of = |number: u64| sizes[usize::try_from(number - 1).unwrap()];
        let of = self.subscriptions.get_mut(name).unwrap();
        for (number, one) in &mut of.pulled {
            let is_over = one.is_inherited || is_short.get(&one.by).is_none_or(|is_short| *is_short != Some(false));
            if is_over && has_room(&given, bytes) {
                *one = PulledOnce { by: pull.member, times: one.times + 1, is_inherited: false };
                given.push((*number, one.times));
                bytes += size_of(*number);
            }
        }
        while has_room(&given, bytes) && of.at < sizes.len() as u64 {
            of.at += 1;
            of.pulled.insert(of.at, PulledOnce { by: pull.member, times: 1, is_inherited: false });
            given.push((of.at, 1));
            bytes += size_of(of.at);
        }
        assert!(given.iter().all(|(number, _)| !of.acked.contains(number)), "the model gives what was acked");
        if !given.is_empty() {
            of.has_pulled = true;
            let got = (pull.call, given.iter().map(|(number, _)| *number).collect());
            self.members.get_mut(&pull.member).unwrap().got = Some(got);
        }
        given
    }

    fn ack(&mut self, member: usize, numbers: &[u64]) -> u64 {
        let of = self.subscriptions.get_mut(MEMBERS[member].1).unwrap();
        let acked: Vec<_> = numbers.iter().copied().filter(|number| of.pulled.remove(number).is_some()).collect();
        of.acked.extend(&acked);
        of.floor = of.floor.max(of.pulled.keys().next().map_or(of.at + 1, |number| *number));
        self.first = self.first.max(self.lowest().unwrap());
        acked.len() as u64
    }

    fn told(&self, now: u64) -> TopicReply {
        let subscriptions = self.subscriptions.iter().map(|(name, of)| crate::script::SubscriptionReply {
            name: (*name).to_owned(),
            unread: of.floor,
            at: of.at,
            pulled: of.pulled.len() as u64,
        });
        let members = self.members.iter().map(|(member, one)| {
            let (name, subscription) = MEMBERS[*member];
            let of = self.subscriptions.get(subscription);
            let pulled = of.map_or(0, |of| of.pulled.values().filter(|one| one.by == *member).count() as u64);
            let (name, subscription) = (name.to_owned(), subscription.to_owned());
            crate::script::MemberReply { name, subscription, seen: crate::Millis::new(one.seen), pulled }
        });
        let mut cut_off: Vec<_> = self.cut_off.keys().filter_map(|name| self.lost(name)).collect();
        cut_off.sort_by(|a, b| a.subscription.cmp(&b.subscription));
        let mut subscriptions: Vec<_> = subscriptions.collect();
        subscriptions.sort_by(|a, b| a.name.cmp(&b.name));
        let is_empty = self.first > self.last();
        TopicReply {
            now: crate::Millis::new(now),
            published: self.last(),
            messages: self.last() + 1 - self.first,
            bytes: if is_empty { 0 } else { self.bytes_from(self.first) },
            oldest: (!is_empty).then(|| crate::Millis::new(self.of(self.first).0)),
            bounds: self.bounds(),
            subscriptions,
            members: members.collect(),
            cut_off,
        }
    }

    /// The fields of the hash, but for those that only spare looks.
    fn fields(&self) -> BTreeSet<String> {
        let mut fields = BTreeSet::new();
        if self.last() > 0 {
            fields.extend(["last", "last_ms", "bytes", "calls"].map(str::to_owned));
        }
        if self.bounds.is_some() {
            fields.extend(["max_age_ms", "max_messages", "max_bytes"].map(str::to_owned));
        }
        for (member, one) in &self.members {
            let (name, _) = MEMBERS[*member];
            fields.extend(["member", "seen"].map(|kind| format!("{kind}:{name}")));
            fields.extend(one.is_short.map(|_| format!("lease:{name}")));
            fields.extend(one.got.as_ref().map(|_| format!("got:{name}")));
        }
        let of = |name: &&str| ["at", "ours", "tag"].map(|kind| format!("{kind}:{name}"));
        fields.extend(self.subscriptions.keys().flat_map(of));
        let has_pulled = self.subscriptions.iter().filter(|(_, of)| of.has_pulled);
        fields.extend(has_pulled.map(|(name, _)| format!("pulled:{name}")));
        fields.extend(self.cut_off.keys().map(|name| format!("cut:{name}")));
        fields
    }
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

fn one_pull(member: usize) -> OnePull {
    OnePull { member, most: 100, max_bytes: 1_000_000, is_short: false, call: 1, is_again: false }
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
