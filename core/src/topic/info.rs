//! What a topic has, and who reads it.

use std::time::Duration;

use super::Bounds;
use crate::script::{CutOffReply, MemberReply, SubscriptionReply, TopicReply};
use crate::value::time::Millis;

/// What a topic has, by the server's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicInfo {
    /// How many messages were ever published. Messages are numbered from 1.
    pub published: u64,
    /// How many are here: what not all subscriptions have read.
    pub messages: u64,
    /// Their bytes, without what the server needs for each.
    pub bytes: u64,
    /// When the oldest of them was published.
    pub oldest_at: Option<Millis>,
    /// What is kept at most.
    pub bounds: Bounds,
    /// By name.
    pub subscriptions: Vec<Subscription>,
    /// Those that lost messages which they had not read, until they subscribe again; by name.
    pub cut_off: Vec<CutOff>,
}

/// How far a subscription is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// It has read all messages up to this number.
    pub read: u64,
    /// How many it has not pulled yet.
    pub unread: u64,
    /// How many its members have pulled and not acked.
    pub pulled: u64,
    /// By name.
    pub members: Vec<Member>,
}

/// A member of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The name of its subscription.
    pub subscription: String,
    /// How long ago it subscribed or pulled.
    pub silent_for: Duration,
    /// How many messages it has pulled and not acked.
    pub pulled: u64,
    /// How many messages its subscription has not read: not pulled yet, or pulled and not acked. Those that it has lost count.
    pub behind: u64,
    /// Has its subscription lost messages that it had not read? Then it is none until one of its members subscribes again.
    pub is_cut_off: bool,
}

/// A subscription that has lost messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutOff {
    /// Its name.
    pub name: String,
    /// When.
    pub at: Millis,
    /// The number of the first message that it has lost.
    pub first: u64,
    /// That of the last one: it grows while messages go.
    pub last: u64,
}

impl TopicInfo {
    pub(super) fn of(reply: TopicReply) -> Self {
        let members = members_of(&reply);
        let TopicReply { published, messages, bytes, oldest, bounds, subscriptions, cut_off, .. } = reply;
        let subscription = |of: SubscriptionReply| Subscription {
            read: of.unread.saturating_sub(1),
            unread: published.saturating_sub(of.at),
            pulled: of.pulled,
            members: members.iter().filter(|member| member.subscription == of.name).cloned().collect(),
            name: of.name,
        };
        let mut subscriptions: Vec<_> = subscriptions.into_iter().map(subscription).collect();
        subscriptions.sort_by(|a, b| a.name.cmp(&b.name));
        let cut = |of: CutOffReply| CutOff { name: of.subscription, at: of.at, first: of.first, last: of.last };
        let mut cut_off: Vec<_> = cut_off.into_iter().map(cut).collect();
        cut_off.sort_by(|a, b| a.name.cmp(&b.name));
        let [age, most, most_bytes] = bounds;
        let bounds = Bounds { age: Duration::from_millis(age), messages: most, bytes: most_bytes };
        Self { published, messages, bytes, oldest_at: oldest, bounds, subscriptions, cut_off }
    }
}

/// By name.
pub(super) fn members_of(reply: &TopicReply) -> Vec<Member> {
    let of = |member: &MemberReply| {
        let is_its = |name: &str| name == member.subscription;
        let subscription = reply.subscriptions.iter().find(|one| is_its(&one.name));
        let cut_off = reply.cut_off.iter().find(|cut| is_its(&cut.subscription));
        let behind = match (subscription, cut_off) {
            (Some(of), _) => reply.published.saturating_sub(of.at) + of.pulled,
            (None, Some(cut)) => (reply.published + 1).saturating_sub(cut.first),
            // For pulls it is no member, either.
            (None, None) => return None,
        };
        Some(Member {
            name: member.name.clone(),
            subscription: member.subscription.clone(),
            silent_for: reply.now.saturating_sub(member.seen).to_duration(),
            pulled: member.pulled,
            behind,
            is_cut_off: subscription.is_none(),
        })
    };
    let mut members: Vec<_> = reply.members.iter().filter_map(of).collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    members
}
