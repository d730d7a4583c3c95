//! Failed jobs of a queue in groups.

use std::time::{Duration, Instant};

use duly::{FailureGroup, State};
use maud::{Markup, html};

use super::named::Named;
use super::request::link;
use super::text::{beginning, number, or_dash, shown, time};
use super::view::{Page, Shown, View, empty};
use super::words::fill;

/// How long a request looks at failed jobs.
const LOOK: Duration = Duration::from_secs(8);

/// How many groups are shown.
const MOST: usize = 100;

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let words = view.words;
    let named = Named::asked(view.client, view.query, words).await?;
    let (mut groups, started) = (named.open(view.client)?.failure_groups(), Instant::now());
    let mut is_all = true;
    while groups.look().await? {
        if started.elapsed() > LOOK {
            is_all = false;
            break;
        }
    }
    let looked_at = groups.looked_at();
    let groups = groups.largest();
    let shown: u64 = groups.iter().take(MOST).map(|group| group.count).sum();
    let body = html! {
        h1 { (words.groups_page) " " a.name href=(named.link("queue", &[("state", State::Failed.as_str())])) { (named.name) } }
        @if groups.is_empty() { (empty(words.no_failed, words.no_failed_more)) } @else {
            p.hint { (fill(if is_all { words.groups_of } else { words.groups_of_some }, &[&number(groups.len() as u64), &number(looked_at)])) }
            @if shown < looked_at { p.hint { (fill(words.groups_hidden, &[&number(looked_at - shown)])) } }
            div.scroll { table.cards {
                thead { tr {
                    th { (words.kind) } th { (words.name) } th.number { (words.jobs) } th { (words.first_failed) } th { (words.last_failed) }
                    th { (words.newest_error) } @if view.rights.act() { th {} }
                } }
                tbody { @for group in groups.iter().take(MOST) { (line(view, &named, group)) } }
            } }
        }
    };
    Ok(Page::new(words.groups_page, body))
}

fn line(view: &View<'_>, named: &Named, group: &FailureGroup) -> Markup {
    let words = view.words;
    let name = group.name.as_deref().unwrap_or("");
    let unnamed = if name.is_empty() { "1" } else { "" };
    let of_group = [("state", State::Failed.as_str()), ("name", name), ("unnamed", unnamed), ("group", &group.kind)];
    let fields = [&named.fields()[..], &of_group, &[("from", "groups")]].concat();
    html! {
        tr {
            td.title { a href=(named.link("jobs", &of_group)) { (shown(&group.kind)) } }
            td data-name=(words.name) { (or_dash(group.name.as_deref())) }
            td.number data-name=(words.jobs) { (number(group.count)) }
            td data-name=(words.first_failed) { (time(Some(group.first))) }
            td data-name=(words.last_failed) { (time(Some(group.last))) }
            td.error data-name=(words.newest_error) { a href=(named.job(&group.id)) { (or_dash(Some(&beginning(&group.error)))) } }
            @if view.rights.act() { td {
                @if view.may("requeue-matching") { a.button.small href=(link("ask-requeue-matching", &fields)) { (words.requeue) } " " }
                @if view.may("cancel-matching") { a.button.small.danger href=(link("ask-cancel-matching", &fields)) { (words.remove) } }
            } }
        }
    }
}
