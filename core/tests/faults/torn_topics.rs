//! A script of a topic that was cut anywhere: nobody is stuck, and what is not read is there.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::Server;
use crate::support::torn::{Again, Written, shown, writing};
use duly::{Bounds, DEFAULT_BOUNDS, PullOptions, SubscribeOptions, Topic};

fn topic(server: &Server) -> Topic {
    server.client().topic("logs").unwrap()
}

/// Everything that a member can be given, acked.
async fn read(topic: &Topic, member: &str) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    loop {
        let options = PullOptions::new().max(100).lease(Duration::from_millis(1));
        let messages = topic.pull(member, &options).await.unwrap();
        if messages.is_empty() {
            return all;
        }
        for message in messages {
            all.insert(message.data.as_str().parse().unwrap());
            message.ack().await.unwrap();
        }
    }
}

async fn publish(topic: &Topic, numbers: std::ops::RangeInclusive<u64>) {
    let data: Vec<_> = numbers.map(|number| duly::Data::from_serialize(&number, 9).unwrap()).collect();
    topic.publish_all(&data).await.unwrap();
}

/// Every script of topics that writes: members that share a subscription, leave, and are cut off.
pub(crate) async fn use_all(topic: &Topic) {
    let shared = SubscribeOptions::new().subscription("parsers");
    topic.subscribe("alone", &SubscribeOptions::new()).await.unwrap();
    topic.subscribe("p1", &shared).await.unwrap();
    topic.subscribe("p2", &shared).await.unwrap();
    publish(topic, 1..=3).await;
    publish(topic, 4..=6).await;
    let pulled = topic.pull("p1", &PullOptions::new().max(2)).await.unwrap();
    pulled[0].ack().await.unwrap();
    assert!(topic.unsubscribe("p1").await.unwrap());
    assert_eq!(read(topic, "alone").await.len(), 6);
    assert!(topic.unsubscribe("p2").await.unwrap());
    topic.subscribe("p2", &shared).await.unwrap();
    topic.set_bounds(Bounds { messages: 2, ..DEFAULT_BOUNDS }).await.unwrap();
    publish(topic, 7..=9).await;
    topic.subscribe("late", &SubscribeOptions::new().from_earliest()).await.unwrap();
    assert_eq!(read(topic, "late").await.len(), 2);
}

#[tokio::test]
async fn a_topic_goes_on_behind_a_script_that_was_cut_anywhere() {
    let server = writing();
    use_all(&topic(&server)).await;
    let written = Written::by(&server);
    let (mut again, cuts) = (Again::start(), written.cuts(0));
    assert!(cuts.len() > 40, "{}", cuts.len());
    for cut in cuts {
        again.replay(&written, cut);
        let behind = format!("behind {:?}", shown(&written.0[cut]));
        let topic = topic(&again.server);
        topic.set_bounds(DEFAULT_BOUNDS).await.unwrap();
        let members = ["alone", "p1", "p2", "late", "new"];
        // What programs do when they start: one that was cut off makes its subscription anew.
        for member in members {
            let of = if member.starts_with('p') { "parsers" } else { member };
            let subscribed = topic.subscribe(member, &SubscribeOptions::new().subscription(of)).await;
            assert!(subscribed.is_ok(), "{member}: {subscribed:?}, {behind}");
        }
        let before: BTreeSet<_> = [1, 2, 3, 4, 5, 6, 7, 8, 9].into();
        publish(&topic, 21..=22).await;
        publish(&topic, 23..=23).await;
        let mut of_parsers = BTreeSet::new();
        for member in members {
            let got = read(&topic, member).await;
            assert!(got.iter().all(|number| *number > 20 || before.contains(number)), "{member}: {got:?}, {behind}");
            if member.starts_with('p') {
                of_parsers.extend(got);
            } else {
                assert!([21, 22, 23].iter().all(|number| got.contains(number)), "{member}: {got:?}, {behind}");
            }
        }
        assert!([21, 22, 23].iter().all(|number| of_parsers.contains(number)), "{of_parsers:?}, {behind}");
        let info = topic.info().await.unwrap();
        assert_eq!((info.messages, info.bytes), (0, 0), "{behind}");
        for member in members {
            topic.unsubscribe(member).await.unwrap();
        }
        let groups = again.server.redis_cli(&["XINFO", "GROUPS", "duly:{logs}:messages"]);
        assert_eq!(groups.trim(), "", "{behind}");
    }
}

/// What a subscription has not read is not taken by a script that was cut.
#[tokio::test]
async fn no_unread_message_goes_with_a_script_that_was_cut() {
    let server = writing();
    let logs = topic(&server);
    for member in ["a", "b"] {
        logs.subscribe(member, &SubscribeOptions::new()).await.unwrap();
    }
    publish(&logs, 1..=4).await;
    let first = Written::by(&server).0.len();
    assert_eq!(read(&logs, "a").await.len(), 4);
    publish(&logs, 5..=8).await;
    let pulled = logs.pull("b", &PullOptions::new().max(3)).await.unwrap();
    for message in pulled {
        message.ack().await.unwrap();
    }
    publish(&logs, 9..=9).await;
    let written = Written::by(&server);
    let mut again = Again::start();
    for cut in written.cuts(first) {
        again.replay(&written, cut);
        let topic = topic(&again.server);
        publish(&topic, 20..=20).await;
        // What the cut file says was acked, and what was published whole before.
        let whole = &written.0[..=cut];
        let is = |command: &&Vec<Vec<u8>>, word: &str| command[0].eq_ignore_ascii_case(word.as_bytes());
        let acked = whole.iter().filter(|command| is(command, "XACK") && command[2] == b"b").count() as u64;
        let added = whole.iter().filter(|command| is(command, "XADD") && command[3] == b"d").count();
        let mut wanted: BTreeSet<u64> = (1..).take(added).collect();
        wanted.retain(|number| *number > acked);
        wanted.insert(20);
        let got = read(&topic, "b").await;
        assert!(wanted.is_subset(&got), "{got:?} and not {wanted:?}, behind {:?}", shown(&written.0[cut]));
    }
}
