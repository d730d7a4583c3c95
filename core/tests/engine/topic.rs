//! Topics: every subscription gets every message, at its own pace, for as long as its members and bounds say.

use std::time::Duration;

use crate::support::meter::Meter;
use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use duly::{Bounds, Client, DEFAULT_BOUNDS, Data, Error, ErrorKind, Message, PullOptions, SubscribeOptions, Topic};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn logs(client: &Client) -> Topic {
    client.topic("logs").unwrap()
}

pub(crate) fn all() -> PullOptions {
    PullOptions::new().max(1000)
}

pub(crate) fn lease(ms: u64) -> PullOptions {
    all().lease(Duration::from_millis(ms))
}

pub(crate) fn text_of(size: usize) -> Data {
    Data::from_json(format!("{:?}", "x".repeat(size)), 1 << 20).unwrap()
}

pub(crate) async fn publish(topic: &Topic, numbers: std::ops::RangeInclusive<u32>) -> Vec<String> {
    let data: Vec<_> = numbers.map(|number| Data::from_json(number.to_string(), 99).unwrap()).collect();
    topic.publish_all(&data).await.unwrap().ids
}

pub(crate) async fn subscribe(topic: &Topic, member: &str) {
    assert!(topic.subscribe(member, &SubscribeOptions::new()).await.unwrap());
}

pub(crate) fn data(messages: &[Message]) -> Vec<u32> {
    messages.iter().map(|message| message.data.deserialize().unwrap()).collect()
}

pub(crate) async fn pull(topic: &Topic, member: &str) -> Vec<u32> {
    data(&topic.pull(member, &all()).await.unwrap())
}

pub(crate) async fn read(topic: &Topic, member: &str) -> Vec<u32> {
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
pub(crate) async fn state(topic: &Topic) -> (u64, u64, Vec<(String, u64, u64, u64, usize)>) {
    let info = topic.info().await.unwrap();
    let of = |one: duly::Subscription| (one.name, one.read, one.unread, one.pulled, one.members.len());
    (info.published, info.messages, info.subscriptions.into_iter().map(of).collect())
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
