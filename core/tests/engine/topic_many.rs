//! One call that pulls from all topics of a member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::meter::Meter;
use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use crate::topic::{MINUTE, all, data, lease, logs, publish, subscribe, text_of};
use duly::{Bounds, Client, DEFAULT_BOUNDS, ErrorKind, Message, PullOptions, SubscribeOptions, Topic};

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
