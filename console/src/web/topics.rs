//! The topics, and one of them: how much it keeps, who reads it, and how far behind each is.

use duly::{Bounds, CutOff, Error, ErrorKind, ListedTopic, Member, Millis, Subscription, TopicInfo};
use futures_util::future::join_all;
use hyper::StatusCode;
use maud::{Markup, html};

use super::request::link;
use super::text::{number, or_dash, shown, time};
use super::view::{A_PAGE, Failure, Page, Shown, View, empty};
use super::words::fill;
use crate::doctor::bytes;
use crate::each_queue::is_of_one_queue;
use crate::show::span;
use crate::topics::{behind, furthest_behind, never_was, silence};

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let page = view.client.topics(A_PAGE, view.query.given("after")).await?;
    let infos = join_all(page.topics.iter().map(|topic| read(view, topic))).await;
    let infos = infos.into_iter().collect::<Result<Vec<_>, _>>()?;
    let words = view.words;
    let body = html! {
        h1 { (words.topics) }
        @if infos.is_empty() { (empty(words.no_topics, words.no_topics_more)) } @else { (table(view, &page.topics, &infos)) }
        (view.queue_pager("topics", page.cursor.as_deref()))
    };
    Ok(Page::new(words.topics, body))
}

/// What a topic has; or why it alone cannot be read.
async fn read(view: &View<'_>, listed: &ListedTopic) -> Result<Result<TopicInfo, Error>, Error> {
    // A name that is none was put on the list by somebody else.
    let Ok(topic) = view.client.topic(&listed.name) else {
        return Ok(Err(Error::new(ErrorKind::Corrupt, view.words.no_topic_name)));
    };
    match topic.info().await {
        Err(error) if !is_of_one_queue(view.client, &error) => Err(error),
        info => Ok(info),
    }
}

fn table(view: &View<'_>, listed: &[ListedTopic], infos: &[Result<TopicInfo, Error>]) -> Markup {
    let words = view.words;
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { (words.topic) } th.number { (words.messages) } th.number { (words.bytes) } th { (words.oldest_message) }
                th.number { (words.subscriptions) } th.number { (words.behind) } th { (words.who_is_behind) } th { (words.last_used) }
            } }
            tbody { @for (listed, info) in listed.iter().zip(infos) { (line(view, listed, info)) } }
        } }
    }
}

fn line(view: &View<'_>, listed: &ListedTopic, info: &Result<TopicInfo, Error>) -> Markup {
    let words = view.words;
    let info = match info {
        Ok(info) => info,
        Err(error) => {
            return html! { tr { td.title { (or_dash(Some(&listed.name))) } td.error colspan="7" { (shown(&error.to_string())) } } };
        }
    };
    let furthest = furthest_behind(info);
    let count = furthest.map_or(0, behind);
    html! {
        tr {
            td.title {
                a href=(link("topic", &[("name", &listed.name)])) { (shown(&listed.name)) }
                @if !info.cut_off.is_empty() { span.badge.bad { (words.cut_off) } }
            }
            td.number data-name=(words.messages) { (number(info.messages)) }
            td.number data-name=(words.bytes) { (bytes(info.bytes)) }
            td data-name=(words.oldest_message) { (time(info.oldest_at)) }
            td.number data-name=(words.subscriptions) { (info.subscriptions.len()) }
            td.number .zero[count == 0] data-name=(words.behind) { (number(count)) }
            td data-name=(words.who_is_behind) { (or_dash(furthest.map(|one| &*one.name))) }
            td data-name=(words.last_used) { (time(Some(listed.last_used))) }
        }
    }
}

pub(crate) async fn show_one(view: &View<'_>) -> Shown {
    let (words, name) = (view.words, view.query.get("name"));
    let missing = || Failure::from(Page::refusal(StatusCode::NOT_FOUND, words.no_topic, words.no_topic_more));
    let topic = view.client.topic(name).map_err(|_| missing())?;
    let (info, members) = tokio::join!(topic.info(), topic.members());
    let (info, members) = (info?, members?);
    if never_was(&info) {
        return Err(missing());
    }
    let body = html! {
        h1 { (words.topic) " " span.name { (shown(name)) } }
        (facts(view, &info))
        (subscriptions(view, &info.subscriptions))
        (member_table(view, &members))
        (cut_off(view, &info.cut_off))
    };
    Ok(Page::new(name, body))
}

fn facts(view: &View<'_>, info: &TopicInfo) -> Markup {
    let words = view.words;
    let Bounds { age, messages, bytes: most } = info.bounds;
    let age = span(Millis::from_duration(age).unwrap_or(Millis::ZERO));
    html! {
        dl.facts {
            div { dt { (words.messages) } dd { (number(info.messages)) } }
            div { dt { (words.bytes) } dd { (bytes(info.bytes)) } }
            div { dt { (words.oldest_message) } dd { (time(info.oldest_at)) } }
            div { dt { (words.published) } dd { (number(info.published)) } }
            div { dt { (words.keeps_at_most) } dd { (fill(words.topic_bounds, &[&age, &number(messages), &bytes(most)])) } }
        }
    }
}

fn subscriptions(view: &View<'_>, all: &[Subscription]) -> Markup {
    let words = view.words;
    html! {
        h2 { (words.subscriptions) }
        @if all.is_empty() { p.none { (words.no_subscriptions) } }
        @else { div.scroll { table.cards {
            thead { tr {
                th { (words.subscription) } th.number { (words.read_until) } th.number { (words.behind) } th.number { (words.not_pulled) }
                th.number { (words.not_acked) } th { (words.members) }
            } }
            tbody { @for one in all {
                @let count = behind(one);
                @let members = one.members.iter().map(|member| &*member.name).collect::<Vec<_>>().join(", ");
                tr {
                    td.title { (shown(&one.name)) }
                    td.number data-name=(words.read_until) { (number(one.read)) }
                    td.number .zero[count == 0] data-name=(words.behind) { (number(count)) }
                    td.number data-name=(words.not_pulled) { (number(one.unread)) }
                    td.number data-name=(words.not_acked) { (number(one.pulled)) }
                    td data-name=(words.members) { (or_dash(Some(&members))) }
                }
            } }
        } } }
    }
}

fn member_table(view: &View<'_>, members: &[Member]) -> Markup {
    let words = view.words;
    html! {
        @if !members.is_empty() {
            h2 { (words.members) }
            div.scroll { table.cards {
                thead { tr {
                    th { (words.member) } th { (words.subscription) } th.number { (words.behind) } th.number { (words.not_acked) }
                    th.number { (words.silent_for) }
                } }
                tbody { @for one in members { tr {
                    td.title { (shown(&one.name)) @if one.is_cut_off { span.badge.bad { (words.cut_off) } } }
                    td data-name=(words.subscription) { (shown(&one.subscription)) }
                    td.number .zero[one.behind == 0] data-name=(words.behind) { (number(one.behind)) }
                    td.number data-name=(words.not_acked) { (number(one.pulled)) }
                    td.number data-name=(words.silent_for) { (silence(one)) }
                } } }
            } }
        }
    }
}

fn cut_off(view: &View<'_>, all: &[CutOff]) -> Markup {
    let words = view.words;
    html! {
        @if !all.is_empty() {
            h2 { (words.cut_off) }
            p.hint { (words.cut_off_more) }
            div.scroll { table.cards {
                thead { tr {
                    th { (words.subscription) } th { (words.at) } th.number { (words.first_lost) } th.number { (words.last_lost) }
                } }
                tbody { @for one in all { tr {
                    td.title { (shown(&one.name)) }
                    td data-name=(words.at) { (time(Some(one.at))) }
                    td.number data-name=(words.first_lost) { (number(one.first)) }
                    td.number data-name=(words.last_lost) { (number(one.last)) }
                } } }
            } }
        }
    }
}
