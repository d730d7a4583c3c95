//! The verbs of topics.

use std::time::Duration;

use duly::{Bounds, Client, DEFAULT_BOUNDS, Data, Error, ErrorKind, Message, PullOptions, SubscribeOptions, TopicInfo};
use serde::Deserialize;
use serde_json::{Value, json};

/// A step's verb and arguments.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Verb {
    Publish { topic: String, data: Vec<Value> },
    Subscribe { topic: String, member: String, subscription: Option<String>, from: Option<String> },
    Unsubscribe { topic: String, member: String },
    Pull { topic: String, member: String, max: Option<usize>, lease: Option<f64> },
    PullAll { member: String, max: Option<usize>, lease: Option<f64> },
    Read { topic: String, member: String, messages: Vec<Value> },
    Topic { topic: String },
    Members { topic: String },
    Bound { topic: String, messages: u64 },
    TopicsOf { member: String },
    Topics { limit: Option<usize>, cursor: Option<String> },
}

/// Is it one of them?
pub(crate) fn has(verb: &str) -> bool {
    let verbs = [
        "publish",
        "subscribe",
        "unsubscribe",
        "pull",
        "pull_all",
        "read",
        "topic",
        "members",
        "bound",
        "topics_of",
        "topics",
    ];
    verbs.contains(&verb)
}

pub(crate) async fn call(client: &Client, verb: Verb) -> Result<Value, Error> {
    Ok(match verb {
        Verb::Publish { topic, data } => {
            let data =
                data.iter().map(|data| Data::from_json(data.to_string(), usize::MAX)).collect::<Result<Vec<_>, _>>();
            let published = client.topic(&topic)?.publish_all(&data?).await?;
            json!({ "count": published.ids.len(), "cut_off": published.cut_off })
        }
        Verb::Subscribe { topic, member, subscription, from } => {
            let mut options = SubscribeOptions::new();
            if let Some(name) = &subscription {
                options = options.subscription(name);
            }
            match from.as_deref() {
                None | Some("latest") => {}
                Some("earliest") => options = options.from_earliest(),
                // What other languages take as a word is a method here.
                Some(_) => return Err(Error::new(ErrorKind::InvalidArgument, "no such place")),
            }
            json!(client.topic(&topic)?.subscribe(&member, &options).await?)
        }
        Verb::Unsubscribe { topic, member } => json!(client.topic(&topic)?.unsubscribe(&member).await?),
        Verb::Pull { topic, member, max, lease } => {
            let messages = client.topic(&topic)?.pull(&member, &options(max, lease)).await?;
            messages.iter().map(shown_message).collect::<Result<_, _>>()?
        }
        Verb::PullAll { member, max, lease } => {
            let messages = client.pull(&member, &options(max, lease)).await?;
            messages.iter().map(shown_message).collect::<Result<_, _>>()?
        }
        Verb::Read { topic, member, messages } => {
            let ids: Vec<_> = messages.iter().filter_map(|message| message["id"].as_str()).collect();
            json!(client.topic(&topic)?.ack(&member, &ids).await?)
        }
        Verb::Topic { topic } => shown(&client.topic(&topic)?.info().await?),
        Verb::Members { topic } => {
            let members = client.topic(&topic)?.members().await?.into_iter().map(|one| {
                json!({
                    "name": one.name,
                    "subscription": one.subscription,
                    "pulled": one.pulled,
                    "behind": one.behind,
                    "is_cut_off": one.is_cut_off,
                })
            });
            members.collect()
        }
        Verb::Bound { topic, messages } => {
            client.topic(&topic)?.set_bounds(Bounds { messages, ..DEFAULT_BOUNDS }).await.map(|()| Value::Null)?
        }
        Verb::TopicsOf { member } => json!(client.topics_of(&member).await?),
        Verb::Topics { limit, cursor } => json!(client.topics(limit.unwrap_or(100), cursor.as_deref()).await?),
    })
}

fn options(max: Option<usize>, lease: Option<f64>) -> PullOptions {
    let mut options = PullOptions::new();
    if let Some(max) = max {
        options = options.max(max);
    }
    if let Some(lease) = lease {
        options = options.lease(Duration::from_secs_f64(lease));
    }
    options
}

fn shown_message(message: &Message) -> Result<Value, Error> {
    let data: Value = message.data.deserialize()?;
    Ok(json!({ "topic": message.topic(), "id": message.id, "data": data, "deliveries": message.deliveries }))
}

fn shown(info: &TopicInfo) -> Value {
    let subscriptions = info.subscriptions.iter();
    let subscriptions = subscriptions
        .map(|one| json!({ "name": one.name, "read": one.read, "unread": one.unread, "pulled": one.pulled }));
    let cut_off = info.cut_off.iter().map(|cut| json!({ "name": cut.name, "first": cut.first, "last": cut.last }));
    json!({
        "published": info.published,
        "messages": info.messages,
        "subscriptions": subscriptions.collect::<Vec<_>>(),
        "cut_off": cut_off.collect::<Vec<_>>(),
    })
}
