//! What `Duly\Topic::info` and `members` give: `Duly\TopicInfo`, `Duly\Subscription`, `Duly\Member` and `Duly\CutOff`.

use duly::Millis;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;

use crate::record::{record, signed};

record! {
    /// What a topic has, by the server's clock. Times are unix seconds, spans are seconds.
    TopicInfo = "Duly\\TopicInfo" {
        /// How many messages were ever published.
        published: i64,
        /// How many are here: what not all subscriptions have read.
        messages: i64,
        /// Their bytes, without what the server needs for each.
        bytes: i64,
        /// When the oldest of them was published.
        oldest_at: Option<f64>,
        /// How long messages are kept.
        max_age: f64,
        /// How many messages are kept at most.
        max_messages: i64,
        /// How many bytes of messages are kept at most.
        max_bytes: i64,
        /// Who reads it, by name.
        subscriptions: Vec<Subscription>,
        /// Those that lost messages which they had not read, until they subscribe again; by name.
        cut_off: Vec<CutOff>,
    }
}

record! {
    /// How far a subscription is.
    Subscription = "Duly\\Subscription" {
        /// Its name.
        name: String,
        /// It has read all messages up to this number.
        read: i64,
        /// How many it has not pulled yet.
        unread: i64,
        /// How many its members have pulled and not acked.
        pulled: i64,
        /// Who shares it, by name.
        members: Vec<Member>,
    }
}

record! {
    /// A member of a subscription.
    Member = "Duly\\Member" {
        /// Its name.
        name: String,
        /// The name of its subscription.
        subscription: String,
        /// How many seconds ago it subscribed or pulled.
        silent_for: f64,
        /// How many messages it has pulled and not acked.
        pulled: i64,
        /// How many messages its subscription has not read.
        behind: i64,
        /// Has its subscription lost messages that it had not read?
        is_cut_off: bool,
    }
}

record! {
    /// A subscription that has lost messages.
    CutOff = "Duly\\CutOff" {
        /// Its name.
        name: String,
        /// When, in unix seconds by the server's clock.
        at: f64,
        /// The number of the first message that it has lost.
        first: i64,
        /// That of the last one.
        last: i64,
    }
}

impl From<duly::TopicInfo> for TopicInfo {
    fn from(info: duly::TopicInfo) -> Self {
        Self {
            published: signed(info.published),
            messages: signed(info.messages),
            bytes: signed(info.bytes),
            oldest_at: info.oldest_at.map(Millis::as_seconds),
            max_age: info.bounds.age.as_secs_f64(),
            max_messages: signed(info.bounds.messages),
            max_bytes: signed(info.bounds.bytes),
            subscriptions: info.subscriptions.into_iter().map(Subscription::from).collect(),
            cut_off: info.cut_off.into_iter().map(CutOff::from).collect(),
        }
    }
}

impl From<duly::Subscription> for Subscription {
    fn from(subscription: duly::Subscription) -> Self {
        Self {
            name: subscription.name,
            read: signed(subscription.read),
            unread: signed(subscription.unread),
            pulled: signed(subscription.pulled),
            members: subscription.members.into_iter().map(Member::from).collect(),
        }
    }
}

impl From<duly::Member> for Member {
    fn from(member: duly::Member) -> Self {
        Self {
            name: member.name,
            subscription: member.subscription,
            silent_for: member.silent_for.as_secs_f64(),
            pulled: signed(member.pulled),
            behind: signed(member.behind),
            is_cut_off: member.is_cut_off,
        }
    }
}

impl From<duly::CutOff> for CutOff {
    fn from(cut: duly::CutOff) -> Self {
        Self { name: cut.name, at: cut.at.as_seconds(), first: signed(cut.first), last: signed(cut.last) }
    }
}
