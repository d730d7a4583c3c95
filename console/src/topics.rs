//! `duly topics`.

use clap::Args;
use duly::{Client, Error, ErrorKind, MAX_TOPICS, Member, Millis, Subscription, Topic, TopicInfo};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use crate::doctor::bytes;
use crate::each_queue::{AT_ONCE, Reads, is_of_one_queue};
use crate::show::{Shown, escaped, moment, or_dash, span};
use crate::target::Target;
use crate::{DONE, FAILED, Output};

/// Show all topics that were used, and who is behind; or one, with its subscriptions and their members
#[derive(Debug, Args)]
pub(crate) struct Topics {
    #[command(flatten)]
    target: Target,
    /// Show this one
    name: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

/// How many messages a subscription has not acked: those that it has not pulled, and those that it has.
pub(crate) fn behind(subscription: &Subscription) -> u64 {
    subscription.unread + subscription.pulled
}

/// The subscription of a topic that is the furthest behind, if any is.
pub(crate) fn furthest_behind(info: &TopicInfo) -> Option<&Subscription> {
    info.subscriptions.iter().filter(|one| behind(one) > 0).max_by_key(|one| behind(one))
}

/// Nothing was ever published there, and nobody reads it.
pub(crate) fn never_was(info: &TopicInfo) -> bool {
    info.published == 0 && info.is_unused()
}

impl Topics {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let client = self.target.client_for_all_queues()?;
        match &self.name {
            Some(name) => self.show_one(&client.topic(name)?, &mut output).await,
            None => self.show_all(&client, &mut output).await,
        }
    }

    async fn show_all(&self, client: &Client, output: &mut Output<'_>) -> Result<u8, Error> {
        let (mut rows, mut values, mut status) = (Vec::new(), Vec::new(), DONE);
        let (reads, mut cursor) = (Reads::new(client), None);
        loop {
            let page = client.topics(MAX_TOPICS, cursor.as_deref()).await?;
            let read = stream::iter(page.topics).map(async |listed| {
                let info = reads.read(async { client.topic(&listed.name)?.info().await }).await;
                (listed, info)
            });
            let mut read = read.buffered(AT_ONCE);
            while let Some((listed, info)) = read.next().await {
                let info = match info {
                    // That of one says nothing of the others.
                    Err(error) if is_of_one_queue(client, &error) => {
                        let (name, said) = (&listed.name, error.to_string());
                        let said =
                            if said.contains(&format!("'{name}'")) { said } else { format!("topic '{name}': {said}") };
                        output.complain(&escaped(said.chars()));
                        status = FAILED;
                        continue;
                    }
                    info => info?,
                };
                rows.push(row_of(&listed.name, &info, listed.last_used));
                let mut value = value_of(&listed.name, &info);
                value["last_used"] = json!(listed.last_used.as_seconds());
                values.push(value);
            }
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        if self.shown.json {
            output.json(&values)?;
        } else if rows.is_empty() && status == DONE {
            output.line("no topic was used under this prefix");
        } else {
            let headings = [
                "TOPIC",
                " MESSAGES",
                " BYTES",
                "OLDEST (UTC)",
                " SUBSCRIPTIONS",
                " BEHIND",
                "WHO IS",
                "LAST USED (UTC)",
                "",
            ];
            output.table(&headings, rows);
        }
        Ok(status)
    }

    async fn show_one(&self, topic: &Topic, output: &mut Output<'_>) -> Result<u8, Error> {
        let info = topic.info().await?;
        if never_was(&info) {
            let message = format!("there is no topic '{}'", topic.name());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let members = topic.members().await?;
        if self.shown.json {
            let mut value = value_of(topic.name(), &info);
            value["members"] = members.iter().map(value_of_member).collect();
            output.json(&value)?;
            return Ok(DONE);
        }
        let oldest = info.oldest_at.map(|at| format!(", the oldest of {}", moment(at))).unwrap_or_default();
        output.line(&format!("messages   {} ({}){oldest}", info.messages, bytes(info.bytes)));
        output.line(&format!("published  {}", info.published));
        let bounds = &info.bounds;
        let (age, most) = (span(Millis::from_duration(bounds.age).unwrap_or(Millis::ZERO)), bounds.messages);
        output.line(&format!("keeps      {age}, {most} messages and {} at the most", bytes(bounds.bytes)));
        let rows = info.subscriptions.iter().map(|one| {
            let numbers = [one.read, behind(one), one.unread, one.pulled, one.members.len() as u64];
            [one.name.clone()].into_iter().chain(numbers.map(|number| number.to_string())).collect()
        });
        table(&["SUBSCRIPTION", " READ UP TO", " BEHIND", " NOT PULLED", " NOT ACKED", " MEMBERS"], rows, output);
        let rows = members.iter().map(|one| {
            let (behind, pulled) = (one.behind.to_string(), one.pulled.to_string());
            vec![one.name.clone(), one.subscription.clone(), behind, pulled, silence(one), cut_off(one.is_cut_off)]
        });
        table(&["MEMBER", "SUBSCRIPTION", " BEHIND", " NOT ACKED", " SILENT FOR", ""], rows, output);
        let rows = info
            .cut_off
            .iter()
            .map(|one| vec![one.name.clone(), moment(one.at), one.first.to_string(), one.last.to_string()]);
        table(&["CUT OFF", "AT (UTC)", " FIRST LOST", " LAST LOST"], rows, output);
        Ok(DONE)
    }
}

/// Behind an empty line.
fn table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>, output: &mut Output<'_>) {
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        output.line("");
    }
    output.table(headings, rows);
}

/// For how long a member did not subscribe or pull.
pub(crate) fn silence(member: &Member) -> String {
    span(Millis::from_duration(member.silent_for).unwrap_or(Millis::ZERO))
}

fn cut_off(is_cut_off: bool) -> String {
    if is_cut_off { "cut off" } else { "" }.to_owned()
}

fn row_of(name: &str, info: &TopicInfo, last_used: Millis) -> Vec<String> {
    let furthest = furthest_behind(info);
    vec![
        name.to_owned(),
        info.messages.to_string(),
        bytes(info.bytes),
        or_dash(info.oldest_at.map(moment)),
        info.subscriptions.len().to_string(),
        furthest.map_or(0, behind).to_string(),
        or_dash(furthest.map(|one| one.name.clone())),
        moment(last_used),
        if info.cut_off.is_empty() { String::new() } else { format!("{} cut off", info.cut_off.len()) },
    ]
}

fn value_of(name: &str, info: &TopicInfo) -> Value {
    let bounds = &info.bounds;
    let subscription = |one: &Subscription| {
        json!({
            "name": one.name,
            "read": one.read,
            "behind": behind(one),
            "unread": one.unread,
            "pulled": one.pulled,
            "members": one.members.iter().map(|member| &*member.name).collect::<Vec<_>>(),
        })
    };
    let cut_off =
        |one: &duly::CutOff| json!({"name": one.name, "at": one.at.as_seconds(), "first": one.first, "last": one.last});
    json!({
        "topic": name,
        "messages": info.messages,
        "bytes": info.bytes,
        "oldest_at": info.oldest_at.map(Millis::as_seconds),
        "published": info.published,
        "bounds": {"age": bounds.age.as_secs_f64(), "messages": bounds.messages, "bytes": bounds.bytes},
        "subscriptions": info.subscriptions.iter().map(subscription).collect::<Vec<_>>(),
        "cut_off": info.cut_off.iter().map(cut_off).collect::<Vec<_>>(),
    })
}

fn value_of_member(member: &Member) -> Value {
    json!({
        "name": member.name,
        "subscription": member.subscription,
        "behind": member.behind,
        "pulled": member.pulled,
        "silent_for": member.silent_for.as_secs_f64(),
        "cut_off": member.is_cut_off,
    })
}
