//! What another program has added to the messages of a topic, with `XADD`: it is given to members, and takes nothing away.

mod acks;
mod bounds;
mod ids;
mod pulls;

use super::{Membership, Numbered, OnePull, Real, TOPIC, one_pull};
use crate::script::{FromReply as _, Key, PublishReply, PullReply, QueueKeys};

/// The ids of all entries, and what this member is given of a batch of messages that it pulls.
pub(super) fn entries(real: &mut Real<'_>) -> Vec<String> {
    let key = real.keys.spell(Key::Messages);
    let entries: Vec<(String, Vec<String>)> =
        redis::from_redis_value(real.server.command(&["XRANGE", &key, "-", "+"])).unwrap();
    entries.into_iter().map(|(id, _)| id).collect()
}

fn add(real: &mut Real<'_>, id: &str) {
    real.server.command(&["XADD", &real.keys.spell(Key::Messages), id, "x", "1"]);
}

fn pulled(real: &mut Real<'_>, most: usize) -> Vec<String> {
    pulled_by(real, 0, most)
}

fn read(real: &mut Real<'_>) -> usize {
    let given = pulled(real, 100);
    real.ack(0, "", &given);
    given.len()
}

/// The names of the subscriptions that the call cut off.
pub(super) fn publish(real: &mut Real<'_>, sizes: &[u8]) -> Vec<String> {
    PublishReply::decode(real.call(&Numbered::Publish(sizes.to_vec()))).unwrap().cut_off
}

/// The numbers of the last message that the only subscription has pulled, and of the first that it has not read.
fn position(real: &mut Real<'_>) -> (u64, u64) {
    let told = real.told();
    let [subscription] = &told.subscriptions[..] else { panic!("{told:?}") };
    (subscription.at, subscription.unread)
}

/// How many entries the scripts ask for, at most.
pub(super) fn reads(real: &mut Real<'_>, act: &dyn Fn(&mut Real<'_>)) -> u32 {
    real.number += 1000;
    let (keys, number) = (std::mem::replace(&mut real.keys, QueueKeys::new("", TOPIC)), real.number);
    let mut inner = None;
    let commands = real.server.monitor(|server| {
        let mut real = Real { server, keys, number };
        act(&mut real);
        inner = Some(real.keys);
    });
    real.keys = inner.unwrap();
    let asks = |line: &&String| line.contains(" lua] \"XRANGE\"") || line.contains(" lua] \"XREVRANGE\"");
    let counts = commands.iter().filter(asks).map(|line| {
        line.rsplit_once("\"COUNT\" \"").map_or(1, |(_, count)| count.trim_end_matches('"').parse::<u32>().unwrap())
    });
    real.number += 1000;
    counts.sum()
}

fn pulled_by(real: &mut Real<'_>, member: usize, most: usize) -> Vec<String> {
    given_by(real, &OnePull { most, ..one_pull(member) }).0
}

/// The ids of what a pull gives, and whether there is more.
pub(super) fn given_by(real: &mut Real<'_>, pull: &OnePull) -> (Vec<String>, bool) {
    let PullReply(pulled) = PullReply::decode(real.pull(pull).unwrap()).unwrap();
    let Ok(Membership::Member(pulled)) = &pulled[0] else { panic!("{pulled:?}") };
    (pulled.messages.iter().map(|message| message.id.clone()).collect(), pulled.has_more)
}
