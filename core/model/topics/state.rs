//! What the model knows of a topic, and what each call does to it.

use std::collections::{BTreeMap, BTreeSet};

use super::{AGE_MS, MEMBERS, MOST, MOST_BYTES, MOST_HANDED, OnePull};
use crate::script::{CutOffReply, Membership, PublishReply, SubscribeReply, TopicReply, UnsubscribeReply};

#[derive(Debug, Clone, Default)]
pub(super) struct Subscription {
    /// Which one of its name it is.
    pub(super) made: u64,
    /// The first message that it has not read.
    pub(super) floor: u64,
    /// The last one that was pulled.
    pub(super) at: u64,
    pub(super) pulled: BTreeMap<u64, PulledOnce>,
    pub(super) has_pulled: bool,
    pub(super) acked: BTreeSet<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct PulledOnce {
    pub(super) by: usize,
    pub(super) times: u64,
    /// Who pulled it has left it to the other one.
    pub(super) is_inherited: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) seen: u64,
    pub(super) is_short: Option<bool>,
    /// The number of its last pull that gave something, and what.
    pub(super) got: Option<(u64, Vec<u64>)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// Milliseconds and bytes of each message that was ever published.
    pub(super) messages: Vec<(u64, u64)>,
    pub(super) first: u64,
    pub(super) calls: u64,
    /// How many subscriptions were made.
    pub(super) made: u64,
    pub(super) bounds: Option<[u64; 3]>,
    pub(super) subscriptions: BTreeMap<&'static str, Subscription>,
    pub(super) members: BTreeMap<usize, Member>,
    /// When, the first message that was lost, the last one then.
    pub(super) cut_off: BTreeMap<&'static str, (u64, u64, u64)>,
}

impl State {
    pub(super) fn new() -> Self {
        Self { first: 1, ..Self::default() }
    }

    pub(super) fn last(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(super) fn bounds(&self) -> [u64; 3] {
        self.bounds.unwrap_or([AGE_MS, MOST, MOST_BYTES])
    }

    pub(super) fn bytes_from(&self, number: u64) -> u64 {
        self.messages[usize::try_from(number - 1).unwrap()..].iter().map(|(_, bytes)| bytes).sum()
    }

    pub(super) fn of(&self, number: u64) -> (u64, u64) {
        self.messages[usize::try_from(number - 1).unwrap()]
    }

    pub(super) fn lowest(&self) -> Option<u64> {
        self.subscriptions.values().map(|one| one.floor).min()
    }

    pub(super) fn publish(&mut self, now: u64, sizes: &[u8]) -> PublishReply {
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

    pub(super) fn subscribe(&mut self, now: u64, member: usize, from_earliest: bool) -> SubscribeReply {
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
    pub(super) fn forget(&mut self, now: u64, found: &BTreeSet<&str>) {
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

    pub(super) fn unsubscribe(&mut self, member: usize) -> UnsubscribeReply {
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

    /// The reply to a member of a subscription that was cut off: which messages it has lost, and since when.
    pub(super) fn lost(&self, name: &str) -> Option<CutOffReply> {
        let (at, first, last) = self.cut_off.get(name)?;
        let last = (*last).max(self.first - 1);
        Some(CutOffReply { subscription: name.to_owned(), at: crate::Millis::new(*at), first: *first, last })
    }

    pub(super) fn membership(&self, member: usize) -> Membership<()> {
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
    pub(super) fn pull(&mut self, now: u64, pull: &OnePull) -> Vec<(u64, u64)> {
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

    pub(super) fn ack(&mut self, member: usize, numbers: &[u64]) -> u64 {
        let of = self.subscriptions.get_mut(MEMBERS[member].1).unwrap();
        let acked: Vec<_> = numbers.iter().copied().filter(|number| of.pulled.remove(number).is_some()).collect();
        of.acked.extend(&acked);
        of.floor = of.floor.max(of.pulled.keys().next().map_or(of.at + 1, |number| *number));
        self.first = self.first.max(self.lowest().unwrap());
        acked.len() as u64
    }

    pub(super) fn told(&self, now: u64) -> TopicReply {
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
    pub(super) fn fields(&self) -> BTreeSet<String> {
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
