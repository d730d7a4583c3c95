//! Calls of topics that are lost, come late or are sent again, and servers that are full or behind bad lines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::Server;
use crate::support::proxy::{Fault, Proxy};
use crate::topic::{MINUTE, all, data, lease, logs, publish, read, state, subscribe};
use duly::{Bounds, DEFAULT_BOUNDS, ErrorKind, SubscribeOptions, Topic};

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
