//! Topics: every subscription gets every message, at its own pace, whatever is late, lost or silent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::meter::Meter;
use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use duly::{Bounds, Client, DEFAULT_BOUNDS, Data, Error, ErrorKind, Message, PullOptions, SubscribeOptions, Topic};

const MINUTE: Duration = Duration::from_secs(60);

fn logs(client: &Client) -> Topic {
    client.topic("logs").unwrap()
}

fn all() -> PullOptions {
    PullOptions::new().max(1000)
}

fn lease(ms: u64) -> PullOptions {
    all().lease(Duration::from_millis(ms))
}

fn text_of(size: usize) -> Data {
    Data::from_json(format!("{:?}", "x".repeat(size)), 1 << 20).unwrap()
}

async fn publish(topic: &Topic, numbers: std::ops::RangeInclusive<u32>) -> Vec<String> {
    let data: Vec<_> = numbers.map(|number| Data::from_json(number.to_string(), 99).unwrap()).collect();
    topic.publish_all(&data).await.unwrap().ids
}

async fn subscribe(topic: &Topic, member: &str) {
    assert!(topic.subscribe(member, &SubscribeOptions::new()).await.unwrap());
}

fn data(messages: &[Message]) -> Vec<u32> {
    messages.iter().map(|message| message.data.deserialize().unwrap()).collect()
}

async fn pull(topic: &Topic, member: &str) -> Vec<u32> {
    data(&topic.pull(member, &all()).await.unwrap())
}

async fn read(topic: &Topic, member: &str) -> Vec<u32> {
    let messages = topic.pull(member, &all()).await.unwrap();
    let ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
    assert_eq!(topic.ack(member, &ids).await.unwrap(), ids.len() as u64);
    data(&messages)
}

#[tokio::test]
async fn every_subscription_gets_every_message_and_what_all_have_read_is_removed() {
    let server = Server::start();
    let topic = logs(&server.client());
    subscribe(&topic, "a").await;
    subscribe(&topic, "b").await;
    let ids = publish(&topic, 1..=5).await;
    assert_eq!(ids.len(), 5);
    assert_eq!(read(&topic, "a").await, [1, 2, 3, 4, 5]);
    assert!(read(&topic, "a").await.is_empty());
    assert_eq!(topic.info().await.unwrap().messages, 5, "b has not read them");
    let first = topic.pull("b", &PullOptions::new().max(2)).await.unwrap();
    assert_eq!((data(&first), &first[0].id, first[0].deliveries, first[0].topic()), (vec![1, 2], &ids[0], 1, "logs"));
    // The second one alone: the first is still unread.
    assert!(first[1].ack().await.unwrap() && !first[1].ack().await.unwrap());
    let info = topic.info().await.unwrap();
    let [a, b] = &info.subscriptions[..] else { panic!("{info:?}") };
    assert_eq!((a.name.as_str(), a.read, a.unread, a.pulled, a.members.len()), ("a", 5, 0, 0, 1));
    assert_eq!((b.read, b.unread, b.pulled, b.members[0].pulled), (0, 3, 1, 1));
    assert_eq!((info.published, info.messages, info.bytes), (5, 5, 5));
    assert!(info.oldest_at.is_some() && info.bounds == DEFAULT_BOUNDS && info.cut_off.is_empty());
    first[0].ack().await.unwrap();
    assert_eq!(topic.info().await.unwrap().messages, 3);
    assert_eq!(read(&topic, "b").await, [3, 4, 5]);
    let info = topic.info().await.unwrap();
    assert_eq!((info.messages, info.bytes, info.oldest_at), (0, 0, None));
    assert_eq!(server.redis_cli(&["XLEN", "duly:{logs}:messages"]).trim(), "0");
}

#[tokio::test]
async fn members_say_who_is_there_for_how_long_and_how_far_behind() {
    let server = Server::start();
    let topic = logs(&server.client());
    assert!(topic.members().await.unwrap().is_empty());
    topic.set_bounds(Bounds { messages: 4, ..DEFAULT_BOUNDS }).await.unwrap();
    subscribe(&topic, "silent").await;
    let shared = SubscribeOptions::new().subscription("parsers");
    for member in ["p2", "p1"] {
        topic.subscribe(member, &shared).await.unwrap();
    }
    publish(&topic, 1..=4).await;
    let pulled = topic.pull("p1", &PullOptions::new().max(3)).await.unwrap();
    pulled[1].ack().await.unwrap();
    let row = |one: &duly::Member| (one.name.clone(), one.subscription.clone(), one.pulled, one.behind, one.is_cut_off);
    let expect = |name: &str, of: &str, pulled, behind, cut| (name.to_owned(), of.to_owned(), pulled, behind, cut);
    let members = topic.members().await.unwrap();
    assert!(members.iter().all(|member| member.silent_for < MINUTE), "{members:?}");
    assert_eq!(
        members.iter().map(row).collect::<Vec<_>>(),
        [
            expect("p1", "parsers", 2, 3, false),
            expect("p2", "parsers", 0, 3, false),
            expect("silent", "silent", 0, 4, false)
        ]
    );
    let info = topic.info().await.unwrap();
    let of_info = &info.subscriptions[0].members;
    assert_eq!(of_info.iter().map(row).collect::<Vec<_>>(), members[..2].iter().map(row).collect::<Vec<_>>());
    pulled[0].ack().await.unwrap();
    assert_eq!(publish(&topic, 5..=5).await.len(), 1);
    let silent = topic.members().await.unwrap().pop().unwrap();
    assert_eq!(row(&silent), expect("silent", "silent", 0, 5, true));
    // A member of which it is not known when it was there hides none.
    server.redis_cli(&["HDEL", "duly:{logs}:topic", "seen:p1"]);
    assert_eq!(topic.members().await.unwrap().len(), 3);
}

/// R3 3.11: joining set the cursor to 0, so that a newcomer read all history and kept it there.
#[tokio::test]
async fn a_newcomer_begins_at_the_end_or_where_it_says() {
    let server = Server::start();
    let topic = logs(&server.client());
    publish(&topic, 1..=3).await;
    subscribe(&topic, "late").await;
    assert!(topic.subscribe("early", &SubscribeOptions::new().from_earliest()).await.unwrap());
    publish(&topic, 4..=4).await;
    assert_eq!(read(&topic, "late").await, [4]);
    assert_eq!(read(&topic, "early").await, [1, 2, 3, 4]);
    assert_eq!(topic.info().await.unwrap().messages, 0);
    // Nothing is left: the beginning is the next one.
    assert!(topic.subscribe("later", &SubscribeOptions::new().from_earliest()).await.unwrap());
    publish(&topic, 5..=5).await;
    assert_eq!(read(&topic, "later").await, [5]);
    // Subscribing again moves nothing.
    assert!(!topic.subscribe("late", &SubscribeOptions::new().from_earliest()).await.unwrap());
    assert_eq!(read(&topic, "late").await, [5]);
}

#[tokio::test]
async fn members_share_a_subscription_and_inherit_what_the_others_do_not_ack() {
    let server = Server::start();
    let topic = logs(&server.client());
    let shared = SubscribeOptions::new().subscription("parsers");
    assert!(topic.subscribe("p1", &shared).await.unwrap());
    assert!(!topic.subscribe("p2", &shared).await.unwrap());
    let other = topic.subscribe("p1", &SubscribeOptions::new()).await.unwrap_err();
    assert!(other.kind() == ErrorKind::InvalidArgument && other.to_string().contains("'parsers'"), "{other}");
    publish(&topic, 1..=4).await;
    assert_eq!(data(&topic.pull("p1", &PullOptions::new().max(2)).await.unwrap()), [1, 2]);
    assert_eq!(read(&topic, "p2").await, [3, 4]);
    assert!(pull(&topic, "p2").await.is_empty(), "they are leased");
    assert!(topic.pull("p2", &lease(1)).await.unwrap().is_empty(), "for as long as p1 said");
    // Its lease is over.
    topic.pull("p1", &lease(1).max(1)).await.unwrap();
    support::eventually("they come back", || async { data(&topic.pull("p2", &lease(1)).await.unwrap()) == [1, 2] })
        .await;
    support::eventually("and are counted", || async {
        topic.pull("p2", &lease(1)).await.unwrap().iter().any(|message| message.deliveries > 2)
    })
    .await;
    // Who leaves leaves them to the other one at once.
    assert!(topic.unsubscribe("p2").await.unwrap() && !topic.unsubscribe("p2").await.unwrap());
    assert_eq!(read(&topic, "p1").await, [1, 2]);
    publish(&topic, 5..=5).await;
    assert!(topic.unsubscribe("p1").await.unwrap());
    let info = topic.info().await.unwrap();
    assert!(info.subscriptions.is_empty() && info.messages == 1, "it is there for who subscribes from the earliest");
    let stranger = topic.pull("p1", &all()).await.unwrap_err();
    assert!(stranger.kind() == ErrorKind::NotFound, "{stranger}");
    assert_eq!(stranger.to_string(), "pull on topic 'logs': 'p1' is no member: subscribe first");
}

/// R3 3.11: one silent member kept all messages for ever.
#[tokio::test]
async fn a_silent_subscription_is_cut_off_by_each_bound_and_hears_of_it() {
    let server = Server::start();
    for (name, bounds) in [
        ("messages", Bounds { messages: 3, ..DEFAULT_BOUNDS }),
        ("bytes", Bounds { bytes: 3, ..DEFAULT_BOUNDS }),
        ("age", Bounds { age: Duration::from_secs(1), ..DEFAULT_BOUNDS }),
    ] {
        let topic = server.client().topic(name).unwrap();
        topic.set_bounds(bounds).await.unwrap();
        assert_eq!(topic.info().await.unwrap().bounds, bounds);
        subscribe(&topic, "silent").await;
        subscribe(&topic, "busy").await;
        let first = topic.publish_all(&[Data::from_json("1", 9).unwrap(), Data::from_json("2", 9).unwrap()]).await;
        assert!(first.unwrap().cut_off.is_empty());
        assert_eq!(read(&topic, "busy").await, [1, 2]);
        let mut cut_off = Vec::new();
        support::eventually("it is cut off", || async {
            let published = topic.publish(&3).await.unwrap();
            assert!(read(&topic, "busy").await.iter().all(|&number| number == 3), "it lost nothing");
            published.cut_off == ["silent"]
        })
        .await;
        let info = topic.info().await.unwrap();
        cut_off.extend(info.cut_off.iter().map(|cut| (cut.name.as_str(), cut.first)));
        assert_eq!(cut_off, [("silent", 1)], "{name}");
        // What goes behind that is lost to it, too.
        publish(&topic, 5..=7).await;
        assert_eq!(read(&topic, "busy").await, [5, 6, 7]);
        let info = topic.info().await.unwrap();
        let lost = info.published;
        assert_eq!((info.messages, info.cut_off[0].last), (0, lost), "{name}");
        for _ in 0..2 {
            let error = topic.pull("silent", &all()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CutOff, "{error}");
            let text = error.to_string();
            let lost = format!("has lost up to {lost} messages: what it had not read of 1 to {lost}");
            let advice = "subscribe again, from earliest to go on with what is left, also what it has read of that (the default, \
                          latest, skips it)";
            assert!(text.contains(&lost) && text.ends_with(advice), "{text}");
            let error = topic.ack("silent", &["1-1"]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CutOff, "{error}");
            assert!(error.to_string().starts_with("ack on topic"), "{error}");
        }
        assert!(topic.subscribe("silent", &SubscribeOptions::new()).await.unwrap());
        assert!(topic.info().await.unwrap().cut_off.is_empty());
        topic.publish(&4).await.unwrap();
        assert_eq!(read(&topic, "silent").await, [4]);
    }
}

#[tokio::test]
async fn bounds_hold_and_the_last_message_stays() {
    let server = Server::start();
    let topic = logs(&server.client());
    topic.set_bounds(Bounds { bytes: 100, ..DEFAULT_BOUNDS }).await.unwrap();
    for size in [10, 60, 30, 500, 40, 40, 40] {
        topic.publish(&"x".repeat(size - 2)).await.unwrap();
        let info = topic.info().await.unwrap();
        assert!(info.bytes <= 100 || (info.messages, info.bytes) == (1, size as u64), "{size}: {info:?}");
    }
    assert_eq!(topic.info().await.unwrap().bytes, 80);
    topic.set_bounds(Bounds { messages: 7, ..DEFAULT_BOUNDS }).await.unwrap();
    for number in 0..20 {
        topic.publish(&number).await.unwrap();
    }
    let info = topic.info().await.unwrap();
    assert_eq!((info.messages, info.published), (7, 27));
    // More than one call removes.
    topic.set_bounds(DEFAULT_BOUNDS).await.unwrap();
    for _ in 0..3 {
        publish(&topic, 1..=1000).await;
    }
    topic.set_bounds(Bounds { messages: 1, ..DEFAULT_BOUNDS }).await.unwrap();
    for left in [2008, 1009, 10, 1, 1] {
        topic.publish(&0).await.unwrap();
        assert_eq!(topic.info().await.unwrap().messages, left);
    }
}

/// One message a look let batches grow to 27 times the bound.
#[tokio::test]
async fn the_bound_of_bytes_holds_for_batches() {
    let server = Server::start();
    let topic = logs(&server.client());
    topic.set_bounds(Bounds { bytes: 5000, ..DEFAULT_BOUNDS }).await.unwrap();
    for _ in 0..5 {
        publish(&topic, 10_001..=11_000).await;
        let info = topic.info().await.unwrap();
        assert_eq!((info.messages, info.bytes), (1000, 5000));
    }
    // Small ones, and then large ones.
    topic.publish(&"x".repeat(4898)).await.unwrap();
    let info = topic.info().await.unwrap();
    assert_eq!((info.messages, info.bytes), (21, 5000));
    topic.publish(&"x".repeat(4998)).await.unwrap();
    assert_eq!(topic.info().await.unwrap().messages, 1);
}

/// An ack that raised no floor and a call that published left it there.
#[tokio::test]
async fn what_all_have_read_goes_though_one_call_removes_a_thousand() {
    let server = Server::start();
    let topic = logs(&server.client());
    subscribe(&topic, "a").await;
    for _ in 0..5 {
        publish(&topic, 1..=1000).await;
    }
    let mut pulled = Vec::new();
    for _ in 0..5 {
        pulled.push(topic.pull("a", &all()).await.unwrap());
    }
    for messages in pulled.iter().rev() {
        let ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
        topic.ack("a", &ids).await.unwrap();
    }
    assert_eq!(topic.info().await.unwrap().messages, 4000, "the last ack removed a thousand");
    assert!(!pulled[0][0].ack().await.unwrap());
    assert_eq!(topic.info().await.unwrap().messages, 3000, "so does one that acks nothing new");
    for left in [2001, 1002, 3, 4] {
        topic.publish(&0).await.unwrap();
        assert_eq!(topic.info().await.unwrap().messages, left);
    }
}

/// A pull looked at the first thousand that were pulled, and never at those behind.
#[tokio::test]
async fn what_a_dead_member_had_comes_back_behind_a_long_lease_of_another_one() {
    let server = Server::start();
    let topic = logs(&server.client());
    let shared = SubscribeOptions::new().subscription("parsers");
    for member in ["busy", "dead", "other"] {
        topic.subscribe(member, &shared).await.unwrap();
    }
    for _ in 0..2 {
        publish(&topic, 1..=1000).await;
        topic.pull("busy", &lease(3_600_000)).await.unwrap();
    }
    publish(&topic, 2001..=2003).await;
    assert_eq!(data(&topic.pull("dead", &lease(1)).await.unwrap()), [2001, 2002, 2003]);
    support::eventually("they come back", || async {
        data(&topic.pull("other", &lease(60_000)).await.unwrap()) == [2001, 2002, 2003]
    })
    .await;
}

/// What was said, and what the topic has.
async fn state(topic: &Topic) -> (u64, u64, Vec<(String, u64, u64, u64, usize)>) {
    let info = topic.info().await.unwrap();
    let of = |one: duly::Subscription| (one.name, one.read, one.unread, one.pulled, one.members.len());
    (info.published, info.messages, info.subscriptions.into_iter().map(of).collect())
}

async fn each_verb(topic: &Topic, fault: &dyn Fn()) -> Vec<String> {
    let mut said = Vec::new();
    fault();
    said.push(format!("{:?}", topic.subscribe("a", &SubscribeOptions::new()).await));
    subscribe(topic, "b").await;
    fault();
    let published = publish(topic, 1..=3).await;
    said.push(published.len().to_string());
    fault();
    let pulled = topic.pull("a", &all()).await.unwrap();
    said.push(format!("{:?}", data(&pulled)));
    fault();
    let ids: Vec<_> = pulled.iter().take(2).map(|message| &message.id).collect();
    topic.ack("a", &ids).await.unwrap();
    fault();
    topic.set_bounds(Bounds { messages: 9, ..DEFAULT_BOUNDS }).await.unwrap();
    fault();
    said.push(format!("{:?}", topic.unsubscribe("b").await));
    said
}

#[tokio::test]
async fn a_call_whose_request_or_reply_is_lost_is_made_once() {
    let server = Server::start();
    let expected = {
        let topic = server.client().topic("plain").unwrap();
        (each_verb(&topic, &|| {}).await, state(&topic).await)
    };
    for (name, fault) in [("requests", Fault::LoseRequest), ("replies", Fault::LoseReply)] {
        let proxy = Proxy::before(server.port()).await;
        let client = proxy.builder().build().unwrap();
        client.ping().await.unwrap();
        proxy.only(b"}:topic");
        let topic = client.topic(name).unwrap();
        let said = each_verb(&topic, &|| proxy.next_after(0, fault)).await;
        let (replies, requests) = proxy.lost();
        assert_eq!(replies + requests, 6, "each met its fault");
        assert_eq!((said, state(&topic).await), expected, "{name}");
    }
}

/// A copy of each call arrives after its caller has gone on.
#[tokio::test]
async fn a_late_copy_changes_nothing() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.only(b"}:topic");
    let topic = client.topic("late").unwrap();
    proxy.next_after(0, Fault::HoldRequest);
    assert!(topic.subscribe("a", &SubscribeOptions::new()).await.unwrap());
    topic.unsubscribe("a").await.unwrap();
    proxy.deliver().await;
    assert!(state(&topic).await.2.is_empty(), "nobody reads what this subscription would keep");

    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.only(b"}:topic");
    let topic = client.topic("late").unwrap();
    proxy.next_after(0, Fault::HoldRequest);
    publish(&topic, 1..=2).await;
    proxy.deliver().await;
    assert_eq!(state(&topic).await.0, 2, "published once");

    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.only(b"}:topic");
    let topic = client.topic("late").unwrap();
    proxy.next_after(0, Fault::HoldRequest);
    topic.delete().await.unwrap();
    proxy.happened().await;
    assert_eq!(state(&topic).await.0, 0, "it is gone");
    subscribe(&topic, "a").await;
    publish(&topic, 1..=3).await;
    proxy.deliver().await;
    assert_eq!(read(&topic, "a").await, [1, 2, 3], "a newer topic stays");

    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.only(b":member_topics");
    let topic = client.topic("late").unwrap();
    proxy.next_after(0, Fault::HoldRequest);
    subscribe(&topic, "b").await;
    proxy.happened().await;
    assert_eq!(client.topics_of("b").await.unwrap(), ["late"]);
    topic.unsubscribe("b").await.unwrap();
    proxy.deliver().await;
    assert!(client.topics_of("b").await.unwrap().is_empty(), "it is not listed again");
}

/// A copy of an ack arrives when its member has subscribed anew, and another one has pulled what it acked.
#[tokio::test]
async fn a_late_copy_of_an_ack_takes_nothing_of_a_newer_subscription() {
    let server = Server::start();
    let earliest = SubscribeOptions::new().from_earliest();
    for by_message in [true, false] {
        let proxy = Proxy::before(server.port()).await;
        let client = proxy.builder().build().unwrap();
        client.ping().await.unwrap();
        proxy.only(b"}:topic");
        let topic = logs(&client);
        subscribe(&topic, "keeps").await;
        topic.subscribe("a", &earliest).await.unwrap();
        publish(&topic, 1..=3).await;
        let old = topic.pull("a", &all()).await.unwrap();
        proxy.next_after(0, Fault::HoldRequest);
        let acked = if by_message {
            u64::from(old[0].ack().await.unwrap())
        } else {
            topic.ack("a", &[&old[0].id]).await.unwrap()
        };
        assert_eq!(acked, 1);
        topic.unsubscribe("a").await.unwrap();
        topic.subscribe("a", &earliest).await.unwrap();
        let new = topic.pull("a", &all()).await.unwrap();
        assert_eq!(data(&new), [1, 2, 3]);
        proxy.deliver().await;
        assert!(!old[1].ack().await.unwrap(), "nor does an ack of who has missed that");
        assert_eq!(topic.info().await.unwrap().subscriptions[0].pulled, 3);
        let ids: Vec<_> = new.iter().map(|message| &message.id).collect();
        assert_eq!(topic.ack("a", &ids).await.unwrap(), 3);
        topic.delete().await.unwrap();
    }
}

/// An operator's, say: it has no subscription in mind but the one that the member has.
#[tokio::test]
async fn an_ack_by_id_of_a_program_that_has_not_pulled_is_of_the_subscription_that_there_is() {
    let server = Server::start();
    let (topic, other) = (logs(&server.client()), logs(&server.client()));
    topic.subscribe("a", &SubscribeOptions::new()).await.unwrap();
    publish(&topic, 1..=3).await;
    let old = topic.pull("a", &PullOptions::new().max(2)).await.unwrap();
    let unpulled = topic.info().await.unwrap().published;
    assert_eq!(unpulled, 3);
    topic.unsubscribe("a").await.unwrap();
    topic.subscribe("a", &SubscribeOptions::new().from_earliest()).await.unwrap();
    let ids: Vec<_> = old.iter().map(|message| &message.id).collect();
    assert_eq!(other.ack("a", &ids).await.unwrap(), 0, "the new one has not pulled them");
    let again = topic.pull("a", &all()).await.unwrap();
    assert!(!old[0].ack().await.unwrap(), "it was of the subscription that has ended");
    assert_eq!(other.ack("a", &[&again[0].id]).await.unwrap(), 1);
    assert_eq!(topic.info().await.unwrap().subscriptions[0].pulled, again.len() as u64 - 1);
}

/// One call handed over all that a member had pulled, and the server did nothing else meanwhile.
#[tokio::test]
async fn who_leaves_with_much_hands_it_over_by_the_thousand_and_may_end_in_between() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.only(b"}:topic");
    let topic = logs(&client);
    let shared = SubscribeOptions::new().subscription("parsers");
    for member in ["leaves", "stays", "knows"] {
        topic.subscribe(member, &shared).await.unwrap();
    }
    // So that the server knows the script.
    topic.unsubscribe("knows").await.unwrap();
    for _ in 0..3 {
        publish(&topic, 1..=900).await;
        topic.pull("leaves", &lease(3_600_000)).await.unwrap();
    }
    // Its program ends behind the first call.
    proxy.next_behind(1, Fault::LoseRequest);
    let leaving = topic.clone();
    let leaving = tokio::spawn(async move { leaving.unsubscribe("leaves").await });
    proxy.happened().await;
    leaving.abort();
    proxy.reopen();
    let pulled = |members: &[duly::Member]| members.iter().map(|one| one.pulled).collect::<Vec<_>>();
    let topic = logs(&server.client());
    assert_eq!(pulled(&topic.members().await.unwrap()), [1700, 1000]);
    let mut seen = read(&topic, "stays").await.len();
    assert_eq!(seen, 1000, "at once");
    assert!(topic.unsubscribe("leaves").await.unwrap());
    assert!(server.client().topics_of("leaves").await.unwrap().is_empty());
    assert_eq!(pulled(&topic.members().await.unwrap()), [1700]);
    while seen < 2700 {
        seen += read(&topic, "stays").await.len();
    }
    assert_eq!(topic.info().await.unwrap().messages, 0);
}

#[tokio::test]
async fn all_who_wait_hear_of_a_message_at_once() {
    let server = Server::start();
    let topic = logs(&server.client());
    let mut meter = Meter::of(&server);
    let mut waiting = Vec::new();
    for member in ["a", "b", "c"] {
        let topic = logs(&server.client());
        subscribe(&topic, member).await;
        waiting.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < 3 {
                let pulled = topic.pull(member, &all().wait(MINUTE)).await.unwrap();
                topic.ack(member, &pulled.iter().map(|message| &message.id).collect::<Vec<_>>()).await.unwrap();
                seen.extend(data(&pulled));
            }
            seen
        }));
    }
    for number in 1..=3_u64 {
        meter.until("all wait", |meter| meter.blocked() == 3).await;
        topic.publish(&number).await.unwrap();
        support::eventually("all have read it", || async {
            state(&topic).await.2.iter().all(|(_, read, ..)| *read == number)
        })
        .await;
    }
    for seen in waiting {
        assert_eq!(seen.await.unwrap(), [1, 2, 3]);
    }
    assert_eq!(state(&topic).await.1, 0);
    let none = topic.pull("a", &all().wait(Duration::from_millis(1))).await.unwrap();
    assert!(none.is_empty());
}

#[tokio::test]
async fn one_call_pulls_from_all_topics_of_a_member() {
    let server = Server::start();
    let client = server.client();
    let [x, y, z] = ["x", "y", "z"].map(|name| client.topic(name).unwrap());
    let none = client.pull("m", &all()).await.unwrap_err();
    assert!(none.kind() == ErrorKind::NotFound && none.to_string().contains("no topics"), "{none}");
    for topic in [&x, &y, &z] {
        subscribe(topic, "m").await;
    }
    assert_eq!(client.topics_of("m").await.unwrap(), ["x", "y", "z"]);
    x.publish(&1).await.unwrap();
    z.publish(&2).await.unwrap();
    let pulled = client.pull("m", &all()).await.unwrap();
    let from: BTreeMap<_, _> =
        pulled.iter().map(|message| (message.topic().to_owned(), data(std::slice::from_ref(message)))).collect();
    assert_eq!(from, [("x".to_owned(), vec![1]), ("z".to_owned(), vec![2])].into());
    for message in &pulled {
        message.ack().await.unwrap();
    }
    // An event of any ends the wait.
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.pull("m", &all().wait(MINUTE)).await.unwrap() });
    Meter::of(&server).until("it waits", |meter| meter.blocked() == 1).await;
    y.publish(&3).await.unwrap();
    assert_eq!(data(&waiting.await.unwrap()), [3]);
    // Left; or deleted, which is said once, and hides no other's messages.
    z.delete().await.unwrap();
    y.unsubscribe("m").await.unwrap();
    x.publish(&4).await.unwrap();
    let pulled = client.pull("m", &all()).await.unwrap();
    assert_eq!((data(&pulled), pulled[0].ack().await.unwrap()), (vec![4], true));
    let gone = client.pull("m", &all()).await.unwrap_err();
    assert!(gone.kind() == ErrorKind::NotFound && gone.to_string().contains("topic 'z': 'm' is no member"), "{gone}");
    assert!(client.pull("m", &all()).await.unwrap().is_empty());
    assert_eq!(client.topics_of("m").await.unwrap(), ["x"]);
    // One that is cut off hides no other's messages.
    subscribe(&y, "m").await;
    y.set_bounds(Bounds { messages: 1, ..DEFAULT_BOUNDS }).await.unwrap();
    publish(&y, 1..=2).await;
    x.publish(&4).await.unwrap();
    assert_eq!(data(&client.pull("m", &all()).await.unwrap()), [4]);
    assert_eq!(client.pull("m", &all()).await.unwrap_err().kind(), ErrorKind::CutOff);
    // Nor does one that is damaged.
    subscribe(&z, "m").await;
    server.redis_cli(&["SET", "duly:{z}:messages", "x"]);
    x.publish(&5).await.unwrap();
    assert_eq!(data(&client.pull("m", &all()).await.unwrap()), [5]);
    y.unsubscribe("m").await.unwrap();
    let damaged = client.pull("m", &all()).await.unwrap_err();
    assert!(damaged.kind() == ErrorKind::Corrupt && damaged.to_string().contains("topic 'z'"), "{damaged}");
}

/// A pull of all gave nothing of them, and did not say so.
#[tokio::test]
async fn a_member_that_was_forgotten_hears_of_it_in_a_pull_of_all() {
    let server = Server::start();
    let client = server.client();
    let [x, y] = ["x", "y"].map(|name| client.topic(name).unwrap());
    x.set_bounds(Bounds { age: Duration::from_secs(1), ..DEFAULT_BOUNDS }).await.unwrap();
    let shared = SubscribeOptions::new().subscription("s");
    for member in ["m", "other"] {
        x.subscribe(member, &shared).await.unwrap();
    }
    subscribe(&y, "m").await;
    support::eventually("it was silent for longer than messages are kept", || async {
        x.pull("other", &all()).await.unwrap();
        x.subscribe("new", &shared).await.unwrap();
        x.unsubscribe("new").await.unwrap();
        x.members().await.unwrap().iter().all(|member| member.name != "m")
    })
    .await;
    publish(&x, 1..=1).await;
    publish(&y, 2..=2).await;
    assert_eq!(data(&client.pull("m", &all()).await.unwrap()), [2]);
    let said = client.pull("m", &all()).await.unwrap_err();
    assert!(said.kind() == ErrorKind::NotFound && said.to_string().contains("topic 'x'"), "{said}");
    assert!(client.pull("m", &all()).await.unwrap().is_empty(), "once");
    // Whoever subscribes or leaves beside a pull is not taken for one.
    let pulling = client.clone();
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let pulling = tokio::spawn(async move {
        while !is_over.load(Ordering::Relaxed) {
            pulling.pull("m", &all()).await.unwrap();
        }
    });
    for _ in 0..100 {
        x.subscribe("m", &shared).await.unwrap();
        x.unsubscribe("m").await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    pulling.await.unwrap();
}

/// It hid what others gave until their leases were over, and said neither which message it is nor what to do.
#[tokio::test]
async fn a_message_that_is_no_json_hides_no_other_and_can_be_acked() {
    let server = Server::start();
    let client = server.client();
    let [bad, good] = ["bad", "good"].map(|name| client.topic(name).unwrap());
    for topic in [&bad, &good] {
        subscribe(topic, "m").await;
    }
    let foreign = async |topic: &Topic| {
        let ids = publish(topic, 0..=0).await;
        let (ms, number) = ids[0].split_once('-').unwrap();
        let number = number.parse::<u64>().unwrap() + 1;
        let id = format!("{ms}-{number}");
        let bytes = server.redis_cli(&["HINCRBY", "duly:{bad}:topic", "bytes", "8"]);
        server.redis_cli(&["XADD", "duly:{bad}:messages", &id, "d", "{no json", "b", bytes.trim()]);
        server.redis_cli(&["HSET", "duly:{bad}:topic", "last", &number.to_string()]);
        publish(topic, 1..=1).await;
        id
    };
    let id = foreign(&bad).await;
    publish(&good, 2..=2).await;
    let said = |error: Error, id: &str| {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(&format!("topic 'bad': the data of message {id} is not JSON")), "{error}");
    };
    let pulled = client.pull("m", &all()).await.unwrap();
    let mut seen = data(&pulled);
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
    for message in &pulled {
        message.ack().await.unwrap();
    }
    said(client.pull("m", &all()).await.unwrap_err(), &id);
    assert!(client.pull("m", &all()).await.unwrap().is_empty(), "once in a lease");
    assert_eq!(bad.info().await.unwrap().messages, 2, "it stays");
    assert_eq!(bad.ack("m", &[&id]).await.unwrap(), 1);
    assert_eq!(bad.info().await.unwrap().messages, 0);

    let ids = [foreign(&bad).await, foreign(&bad).await];
    assert_eq!(data(&bad.pull("m", &all()).await.unwrap()), [0, 1, 0, 1]);
    let error = bad.pull("m", &all()).await.unwrap_err();
    assert!(error.to_string().contains(&format!("so it is with {}", ids[1])), "{error}");
    bad.ack("m", &ids[1..]).await.unwrap();
    let id = &ids[0];
    said(error, id);
    assert_eq!(bad.ack("m", &[&id]).await.unwrap(), 1);
}

/// They stayed on the list until a pull of all.
#[tokio::test]
async fn topics_that_are_gone_are_not_listed_for_their_members() {
    let server = Server::start();
    let client = server.client();
    let mut topics = many(&client).await;
    topics[3].delete().await.unwrap();
    // Made anew by others.
    topics[4].delete().await.unwrap();
    topics[4].publish(&1).await.unwrap();
    subscribe(&topics[4], "other").await;
    // One that cannot be read is not taken for one that is gone.
    server.redis_cli(&["SET", "duly:{t05}:topic", "x"]);
    let listed = client.topics_of("m").await.unwrap();
    topics.drain(3..5);
    assert_eq!(listed, topics.iter().map(Topic::name).collect::<Vec<_>>());
    assert_eq!(server.redis_cli(&["HLEN", "duly:{m}:member_topics"]).trim(), (MANY - 2).to_string());
    for topic in &topics {
        topic.delete().await.unwrap();
    }
    assert!(client.topics_of("m").await.unwrap().is_empty());
    assert_eq!(server.redis_cli(&["EXISTS", "duly:{m}:member_topics"]).trim(), "0", "nothing is left of the member");
    // A late copy of taking one off does not take off a newer subscription of the same topic.
    let proxy = Proxy::before(server.port()).await;
    let late = proxy.builder().build().unwrap();
    subscribe(&topics[0], "m").await;
    topics[0].delete().await.unwrap();
    assert_eq!(late.topics_of("other").await.unwrap(), ["t04"]);
    proxy.only(b"}:member_topics");
    proxy.next_after(0, Fault::HoldRequest);
    assert!(late.topics_of("m").await.unwrap().is_empty());
    proxy.happened().await;
    subscribe(&topics[0], "m").await;
    proxy.deliver().await;
    assert_eq!(client.topics_of("m").await.unwrap(), ["t00"]);
}

const MANY: usize = 30;

async fn many(client: &Client) -> Vec<Topic> {
    let topics: Vec<_> = (0..MANY).map(|number| client.topic(&format!("t{number:02}")).unwrap()).collect();
    for topic in &topics {
        subscribe(topic, "m").await;
    }
    topics
}

/// It was one command a topic, and a connection a topic in each second of a wait.
#[tokio::test]
async fn a_pull_of_many_topics_is_one_command_and_one_wait() {
    let server = Server::start();
    let client = server.client();
    let topics = many(&client).await;
    let mut meter = Meter::of(&server);
    let commands = |meter: &mut Meter| (meter.calls("evalsha"), meter.calls("eval"), meter.calls("hgetall"));
    // Once, so that the server knows the scripts.
    topics[0].publish(&1).await.unwrap();
    client.pull("m", &all()).await.unwrap()[0].ack().await.unwrap();
    let before = commands(&mut meter);
    for topic in &topics {
        topic.publish(&1).await.unwrap();
    }
    let published = (MANY as u64, 0);
    let pulled = client.pull("m", &all()).await.unwrap();
    assert_eq!(pulled.len(), MANY, "each has its own");
    assert_eq!(pulled.iter().map(Message::topic).collect::<BTreeSet<_>>().len(), MANY);
    let after = commands(&mut meter);
    assert_eq!(after.0 + after.1 - before.0 - before.1, published.0 + published.1 + 1, "one script for all");
    assert_eq!(after.2 - before.2, 1, "and one look at the list");
    for message in &pulled {
        message.ack().await.unwrap();
    }

    let waiting = tokio::spawn(async move { client.pull("m", &all().wait(MINUTE)).await.unwrap() });
    meter.until("it waits", |meter| meter.blocked() == 1).await;
    let (dialed, looks) = (meter.dialed(), commands(&mut meter).2);
    // Each second it looks again, over the same connections.
    meter.until("it has looked again twice", |meter| commands(meter).2 >= looks + 2).await;
    meter.until("it waits again", |meter| meter.blocked() == 1).await;
    assert_eq!(meter.dialed(), dialed, "no connection was made");
    topics[17].publish(&2).await.unwrap();
    assert_eq!(data(&waiting.await.unwrap()), [2]);
}

#[tokio::test]
async fn a_pull_of_many_topics_has_one_bound_and_serves_them_in_turn() {
    let server = Server::start();
    let client = server.client();
    let topics = many(&client).await;
    for topic in &topics {
        publish(topic, 1..=10).await;
    }
    // The first of them has far more than a pull brings: each of the others is served once in a round.
    publish(&topics[0], 11..=600).await;
    let mut given = BTreeMap::<String, Vec<u32>>::new();
    for _ in 0..MANY {
        let pulled = client.pull("m", &PullOptions::new().max(20)).await.unwrap();
        assert_eq!(pulled.len(), 20, "that many in all");
        for message in &pulled {
            given.entry(message.topic().to_owned()).or_default().extend(data(std::slice::from_ref(message)));
        }
    }
    assert_eq!(given.len(), MANY, "{:?}", given.keys());
    for (topic, numbers) in &given {
        assert!(numbers.iter().copied().eq(1..=u32::try_from(numbers.len()).unwrap()), "{topic}: {numbers:?}");
    }

    // Bytes: 8 MB are there, and a pull of one topic or of many brings about 4.
    for topic in &topics[..4] {
        topic.publish_all(&vec![text_of(500_000); 8]).await.unwrap();
    }
    let mut large = 0;
    while large < 4 * 8 {
        let pulled = client.pull("m", &all()).await.unwrap();
        let bytes: usize = pulled.iter().map(|message| message.data.as_bytes().len()).sum();
        assert!(bytes <= (4 << 20) + 500_002 && !pulled.is_empty(), "{bytes}");
        large += pulled.iter().filter(|message| message.data.as_bytes().len() > 1000).count();
    }
}

/// Small messages before large ones brought all of those at once.
#[tokio::test]
async fn a_pull_brings_about_4_mb_also_when_messages_grow() {
    let server = Server::start();
    let topic = logs(&server.client());
    subscribe(&topic, "a").await;
    publish(&topic, 1..=100).await;
    let large = vec![text_of(400_000); 10];
    for _ in 0..5 {
        topic.publish_all(&large).await.unwrap();
    }
    let mut seen = 0;
    while seen < 150 {
        let pulled = topic.pull("a", &all()).await.unwrap();
        let bytes: usize = pulled.iter().map(|message| message.data.as_bytes().len()).sum();
        assert!(bytes <= (4 << 20) + 400_002, "{bytes}");
        seen += pulled.len();
    }
    assert_eq!(topic.info().await.unwrap().subscriptions[0].pulled, 150);
}

/// What was given is leased: if the reply is lost, the same call gives the same again, of each topic.
#[tokio::test]
async fn a_pull_of_many_topics_whose_reply_is_lost_gives_the_same_again() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    let topics = many(&client).await;
    for topic in &topics[..20] {
        publish(topic, 1..=3).await;
    }
    proxy.only(b"}:topic");
    proxy.next_after(0, Fault::LoseReply);
    let pulled = client.pull("m", &PullOptions::new().max(50)).await.unwrap();
    assert_eq!(proxy.lost(), (1, 0));
    assert_eq!(pulled.len(), 50);
    assert!(pulled.iter().all(|message| message.deliveries == 1));
    let rest = client.pull("m", &all()).await.unwrap();
    let seen: BTreeSet<_> = pulled.iter().chain(&rest).map(|message| (message.topic(), message.id.as_str())).collect();
    assert_eq!((rest.len(), seen.len()), (10, 60), "nothing twice, and nothing left behind");

    // A late copy leases to a member that does not hear of it; it comes back when that is over.
    publish(&topics[0], 4..=4).await;
    proxy.next_after(0, Fault::HoldRequest);
    let first = client.pull("m", &lease(1)).await.unwrap();
    publish(&topics[1], 4..=4).await;
    proxy.deliver().await;
    let mut seen: BTreeSet<_> = first.iter().map(|message| message.topic().to_owned()).collect();
    while !(seen.contains("t00") && seen.contains("t01")) {
        let pulled = client.pull("m", &lease(1).wait(MINUTE)).await.unwrap();
        assert!(!pulled.is_empty(), "waited a minute: {seen:?}");
        seen.extend(pulled.iter().map(|message| message.topic().to_owned()));
    }
}

#[tokio::test]
async fn what_is_no_name_no_bound_and_no_batch_is_refused() {
    let server = Server::start();
    let client = server.client();
    let topic = logs(&client);
    let refused = |error: duly::Error| assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    refused(client.topic("a b").unwrap_err());
    refused(topic.subscribe("", &SubscribeOptions::new()).await.unwrap_err());
    refused(topic.subscribe("a", &SubscribeOptions::new().subscription("{a}")).await.unwrap_err());
    refused(topic.publish_all(&[]).await.unwrap_err());
    refused(topic.pull("a", &PullOptions::new().max(0)).await.unwrap_err());
    refused(topic.pull("a", &PullOptions::new().max(1001)).await.unwrap_err());
    refused(topic.pull("a", &lease(0)).await.unwrap_err());
    refused(topic.ack("a", &["1"]).await.unwrap_err());
    refused(topic.set_bounds(Bounds { messages: 0, ..DEFAULT_BOUNDS }).await.unwrap_err());
    refused(topic.set_bounds(Bounds { age: Duration::ZERO, ..DEFAULT_BOUNDS }).await.unwrap_err());
    let large = topic.publish(&"x".repeat(2 << 20)).await.unwrap_err();
    assert_eq!(large.kind(), ErrorKind::TooLarge);
    assert_eq!(topic.info().await.unwrap().published, 0);
    server.redis_cli(&["SET", "duly:{logs}:messages", "x"]);
    let corrupt = topic.publish(&1).await.unwrap_err();
    assert_eq!(corrupt.kind(), ErrorKind::Corrupt, "{corrupt}");
    assert_eq!(server.redis_cli(&["EXISTS", "duly:{logs}:topic"]).trim(), "0", "it is refused before it writes");
}

#[tokio::test]
async fn readers_of_a_full_server_make_room() {
    let server = Server::start();
    let topic = logs(&server.client());
    subscribe(&topic, "a").await;
    for _ in 0..10 {
        topic.publish(&"x".repeat(100_000)).await.unwrap();
    }
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(topic.publish(&1).await.unwrap_err().kind(), ErrorKind::StorageFull);
    // One that was started again does so first; who is new has to wait.
    let restarted = logs(&server.client());
    assert!(!restarted.subscribe("a", &SubscribeOptions::new()).await.unwrap());
    let other = restarted.subscribe("b", &SubscribeOptions::new()).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::StorageFull, "{other}");
    assert_eq!(server.client().topics_of("a").await.unwrap(), ["logs"]);
    let pulled = restarted.pull("a", &all()).await.unwrap();
    assert_eq!(pulled.len(), 10);
    topic.ack("a", &pulled.iter().map(|message| &message.id).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(topic.info().await.unwrap().messages, 0);
}

/// Three subscriptions, one of them shared, over lines that lose requests and replies, with members that die with what they have pulled.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_on_bad_lines_with_members_that_die() {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |number| number.parse().unwrap());
    let (seed, count) = (number("DULY_KILL_SEED", 24301), number("DULY_TOPIC_MESSAGES", 600));
    println!("DULY_KILL_SEED={seed} DULY_TOPIC_MESSAGES={count}");
    let most = u32::try_from(count).unwrap();
    let server = Server::start();
    let topic = logs(&server.client());
    let shared = SubscribeOptions::new().subscription("shared");
    subscribe(&topic, "a").await;
    subscribe(&topic, "b").await;
    for member in ["s0", "s1"] {
        topic.subscribe(member, &shared).await.unwrap();
    }
    let mut members = Vec::new();
    for (at, member) in ["a", "b", "s0", "s1"].into_iter().enumerate() {
        let proxy = Proxy::before(server.port()).await;
        let watched = topic.clone();
        members.push(tokio::spawn(async move {
            let client = proxy.builder().build().unwrap();
            client.ping().await.unwrap();
            proxy.lose_at_random(seed + at as u64, 60);
            let topic = logs(&client);
            let (mut read, mut round) = (Vec::new(), 0_u64);
            loop {
                let pulled = topic.pull(member, &lease(50).max(20).wait(Duration::from_millis(50))).await.unwrap();
                round += 1;
                if round.is_multiple_of(7) {
                    continue; // it dies with them
                }
                let ids: Vec<_> = pulled.iter().map(|message| &message.id).collect();
                read.extend(data(&pulled));
                topic.ack(member, &ids).await.unwrap();
                let info = watched.info().await.unwrap();
                if info.published == count && info.messages == 0 {
                    return read;
                }
            }
        }));
    }
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.lose_at_random(seed + 9, 60);
    let publisher = logs(&client);
    for from in (1..=most).step_by(3) {
        publish(&publisher, from..=most.min(from + 2)).await;
    }
    let mut read = BTreeMap::new();
    for (member, task) in ["a", "b", "s", "s"].into_iter().zip(members) {
        let patience = 2 * MINUTE + most * Duration::from_millis(20);
        let numbers = tokio::time::timeout(patience, task).await.expect("all is read").unwrap();
        read.entry(member).or_insert_with(BTreeSet::new).extend(numbers);
    }
    let (replies, requests) = proxy.lost();
    assert!(replies + requests > 0, "the publisher's line lost something");
    let info = topic.info().await.unwrap();
    assert_eq!(info.published, count, "each was published once");
    for (subscription, numbers) in read {
        assert!(numbers.into_iter().eq(1..=most), "{subscription} got all");
    }
}

/// Somebody has destroyed it with another client.
#[tokio::test]
async fn a_consumer_group_that_is_missing_is_told_with_what_to_do() {
    let server = Server::start();
    let topic = logs(&server.client());
    subscribe(&topic, "a").await;
    assert!(!topic.subscribe("b", &SubscribeOptions::new().subscription("a")).await.unwrap());
    publish(&topic, 1..=2).await;
    server.redis_cli(&["XGROUP", "DESTROY", "duly:{logs}:messages", "a"]);
    for error in [topic.pull("a", &all()).await.unwrap_err(), topic.info().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("unsubscribe its members, and subscribe again"), "{error}");
    }
    // Also one of several members.
    assert!(topic.unsubscribe("b").await.unwrap() && topic.unsubscribe("a").await.unwrap());
    assert!(topic.subscribe("a", &SubscribeOptions::new().from_earliest()).await.unwrap());
    assert_eq!(read(&topic, "a").await, [1, 2]);
}

/// They stayed in the topic's hash for ever.
#[tokio::test]
async fn members_that_are_silent_for_longer_than_the_topics_age_go_unless_they_hold_something_or_are_the_last() {
    let server = Server::start();
    let topic = logs(&server.client());
    topic.set_bounds(Bounds { age: Duration::from_secs(1), ..DEFAULT_BOUNDS }).await.unwrap();
    let shared = SubscribeOptions::new().subscription("parsers");
    for member in ["gone1", "gone2", "holds", "alive"] {
        topic.subscribe(member, &shared).await.unwrap();
    }
    subscribe(&topic, "alone").await;
    publish(&topic, 1..=2).await;
    read(&topic, "alone").await;
    topic.pull("holds", &lease(3_600_000).max(1)).await.unwrap();
    read(&topic, "alive").await;
    server.let_pass(Duration::from_millis(1100)).await;
    pull(&topic, "alive").await;
    subscribe(&topic, "new").await;
    let info = topic.info().await.unwrap();
    let members = |at: usize| info.subscriptions[at].members.iter().map(|one| one.name.as_str()).collect::<Vec<_>>();
    assert_eq!(info.subscriptions.len(), 3);
    assert_eq!((members(0), members(1), members(2)), (vec!["alone"], vec!["new"], vec!["alive", "holds"]));
    assert_eq!(topic.pull("gone1", &all()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let fields = server.redis_cli(&["HKEYS", "duly:{logs}:topic"]);
    assert!(!fields.contains(":gone"), "{fields}");

    // So does what is known of a subscription that was cut off.
    assert_eq!(topic.publish(&3).await.unwrap().cut_off, ["parsers"]);
    server.let_pass(Duration::from_millis(1100)).await;
    assert_eq!(topic.publish(&4).await.unwrap().cut_off, ["alone", "new"]);
    server.let_pass(Duration::from_millis(1100)).await;
    subscribe(&topic, "later").await;
    let info = topic.info().await.unwrap();
    assert!(info.cut_off.is_empty(), "{info:?}");
    let fields = server.redis_cli(&["HKEYS", "duly:{logs}:topic"]);
    assert!(!fields.contains("alone") && !fields.contains("alive") && !fields.contains("parsers"), "{fields}");
}

async fn listed(client: &Client) -> Vec<String> {
    client.topics(1000, None).await.unwrap().topics.into_iter().map(|topic| topic.name).collect()
}

#[tokio::test]
async fn topics_are_listed_by_name_in_pages() {
    let server = Server::start();
    let client = server.client();
    // What has the name of a topic and is none is not listed for it.
    client.queue("t03").unwrap().pause().await.unwrap();
    for number in (0..7).rev() {
        client.topic(&format!("t{number:02}")).unwrap().publish(&1).await.unwrap();
    }
    subscribe(&client.topic("read").unwrap(), "a").await;
    client.topic("looked-at").unwrap().info().await.unwrap();
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.topics(3, cursor.as_deref()).await.unwrap();
        assert!(page.topics.len() <= 3);
        found.extend(page.topics.into_iter().map(|topic| topic.name));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, ["read", "t00", "t01", "t02", "t03", "t04", "t05", "t06"]);
    let queues = client.queues(10, None).await.unwrap().queues;
    assert_eq!(queues.iter().map(|queue| &*queue.name).collect::<Vec<_>>(), ["t03"]);
    assert!(listed(&server.builder().prefix("other:").build().unwrap()).await.is_empty());
    for limit in [0, 1001] {
        assert_eq!(client.topics(limit, None).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn a_topic_that_is_deleted_or_unused_for_thirty_days_is_on_no_list() {
    let server = Server::start();
    let client = server.client();
    for name in ["deleted", "full", "followed", "read", "recent"] {
        let topic = client.topic(name).unwrap();
        if matches!(name, "followed" | "read") {
            subscribe(&topic, "a").await;
        }
        publish(&topic, 1..=1).await;
        if name == "read" {
            read(&topic, "a").await;
            topic.unsubscribe("a").await.unwrap();
        }
    }
    let deleted = client.topic("deleted").unwrap();
    deleted.delete().await.unwrap();
    assert_eq!(listed(&client).await, ["followed", "full", "read", "recent"]);
    for name in ["full", "followed", "read"] {
        server.redis_cli(&["HSET", "duly:{topics}:queues_used", name, "1000 0"]);
    }
    // What somebody else has put there is shown, and stops nothing.
    server.redis_cli(&["ZADD", "duly:{topics}:queues", "0", "no topic"]);
    assert_eq!(listed(&client).await, ["followed", "full", "no topic", "recent"]);
    deleted.publish(&1).await.unwrap();
    client.topic("read").unwrap().publish(&1).await.unwrap();
    assert!(listed(&client).await.contains(&"deleted".to_owned()), "it is used again");
    // This client has listed it within the hour; another one lists it at its first call.
    assert!(!listed(&client).await.contains(&"read".to_owned()));
    let other = server.client();
    other.topic("read").unwrap().publish(&1).await.unwrap();
    assert!(listed(&other).await.contains(&"read".to_owned()));
}

#[tokio::test]
async fn a_list_of_topics_that_cannot_be_written_stops_no_topic() {
    let server = Server::start();
    server.redis_cli(&["SET", "duly:{topics}:queues", "somebody's"]);
    let client = server.client();
    let topic = logs(&client);
    subscribe(&topic, "a").await;
    publish(&topic, 1..=2).await;
    assert_eq!(read(&topic, "a").await, [1, 2]);
    assert_eq!(client.topics(10, None).await.unwrap_err().kind(), ErrorKind::Corrupt);
    topic.delete().await.unwrap();
    assert_eq!(topic.info().await.unwrap().published, 0);
}
