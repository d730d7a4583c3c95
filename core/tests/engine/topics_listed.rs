//! The list of topics.

use crate::support::Server;
use crate::topic::{logs, publish, read, subscribe};
use duly::{Client, ErrorKind};

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
