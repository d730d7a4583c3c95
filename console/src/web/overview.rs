//! The first page: all queues, and what is in them.

use duly::{Counts, Error, ErrorKind, QueueInfo};
use futures_util::future::join_all;
use maud::{Markup, html};

use super::named::Named;
use super::request::HOME;
use super::text::{number, or_dash, shown, time};
use super::view::{A_PAGE, Page, Shown, View, empty};
use super::words::{Words, fill};
use crate::each_queue::is_of_one_queue;
use crate::show::{escaped, span};

/// A queue and what it has, or why that cannot be read.
struct Row {
    queue: QueueInfo,
    named: Named,
    counts: Result<Counts, Error>,
    /// Nothing if nobody can say.
    workers: Option<usize>,
}

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let page = view.client.queues(A_PAGE, view.query.given("after")).await?;
    let rows = join_all(page.queues.into_iter().map(|queue| row(view, queue))).await;
    let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
    let words = view.words;
    if rows.is_empty() && page.cursor.is_none() && view.query.given("after").is_none() {
        let more = fill(words.no_queues_more, &[&view.client.prefix()]);
        return Ok(Page::new(words.overview, html! { h1 { (words.overview) } (empty(words.no_queues, &more)) }));
    }
    let body = html! {
        h1 { (words.overview) }
        (tiles(view, &rows))
        (table(view, &rows))
        (view.queue_pager(HOME, page.cursor.as_deref()))
    };
    Ok(Page::new(words.overview, body))
}

async fn row(view: &View<'_>, queue: QueueInfo) -> Result<Row, Error> {
    let named = Named::new(&queue.name, queue.partitions);
    let opened = named.open(view.client);
    let counts = match &opened {
        Ok(opened) => opened.counts().await,
        // A name that is none was put on the list by somebody else.
        Err(error) => Err(Error::new(ErrorKind::Corrupt, error.to_string())),
    };
    let counts = match counts {
        Err(error) if !is_of_one_queue(view.client, &error) => return Err(error),
        counts => counts,
    };
    let workers = match (&opened, &counts) {
        (Ok(opened), Ok(_)) => opened.workers().await.ok().map(|workers| workers.len()),
        _ => None,
    };
    Ok(Row { queue, named, counts, workers })
}

fn tiles(view: &View<'_>, rows: &[Row]) -> Markup {
    let words = view.words;
    let sum = |of: fn(&Counts) -> u64| rows.iter().filter_map(|row| row.counts.as_ref().ok()).map(of).sum::<u64>();
    let oldest = rows.iter().filter_map(|row| row.counts.as_ref().ok()?.oldest_ready_age).max();
    let all = [
        (words.ready, "ready", sum(|counts| counts.ready)),
        (words.reserved, "reserved", sum(|counts| counts.reserved)),
        (words.delayed, "delayed", sum(|counts| counts.delayed)),
        (words.failed, "failed", sum(|counts| counts.failed)),
    ];
    html! {
        p.hint { (fill(words.jobs_of_page, &[&rows.len()])) }
        ul.tiles {
            @for (name, class, count) in all {
                li.(class) .zero[count == 0] { b { (number(count)) } span { (name) } }
            }
            li.oldest .zero[oldest.is_none()] { b { (oldest.map_or_else(|| "–".to_owned(), span)) } span { (words.oldest) } }
        }
    }
}

fn table(view: &View<'_>, rows: &[Row]) -> Markup {
    let words = view.words;
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { (words.queue) }
                th.number { (words.ready) } th.number { (words.reserved) } th.number { (words.delayed) } th.number { (words.failed) }
                th.number { (words.oldest) } th.number { (words.workers) } th { (words.last_used) }
            } }
            tbody { @for row in rows { (line(view, row)) } }
        } }
    }
}

fn line(view: &View<'_>, row: &Row) -> Markup {
    let words = view.words;
    let Row { queue, named, counts, workers } = row;
    let cell = |name: &str, state: &str, count: u64| {
        html! {
            td.number.(state) data-name=(name) .zero[count == 0] {
                @if count == 0 { "0" } @else { a href=(named.link("queue", &[("state", state)])) { (number(count)) } }
            }
        }
    };
    let counts = match counts {
        Ok(counts) => counts,
        Err(error) => {
            return html! { tr { td.title { (or_dash(Some(&queue.name))) } td.error colspan="7" { (shown(&error.to_string())) } } };
        }
    };
    html! {
        tr {
            td.title {
                a href=(named.link("queue", &[])) { (queue.name) }
                (badges(view, queue.partitions, counts, *workers))
                (bar(counts))
            }
            (cell(words.ready, "ready", counts.ready))
            (cell(words.reserved, "reserved", counts.reserved))
            (cell(words.delayed, "delayed", counts.delayed))
            (cell(words.failed, "failed", counts.failed))
            td.number data-name=(words.oldest) { (or_dash(counts.oldest_ready_age.map(span).as_deref())) }
            td.number data-name=(words.workers) { (or_dash(workers.map(|workers| workers.to_string()).as_deref())) }
            td data-name=(words.last_used) { (time(Some(queue.last_used))) }
        }
    }
}

/// What holds the jobs of a queue up.
pub(crate) fn badges(view: &View<'_>, partitions: u16, counts: &Counts, workers: Option<usize>) -> Markup {
    let words = view.words;
    html! {
        @if partitions > 0 { span.badge { (partitions) " " (words.partitions) } }
        @if counts.paused { span.badge.warn { (paused(counts, partitions, words)) } }
        @if let Some(held) = &counts.held { span.badge.warn title=(escaped(held.chars())) { (words.limited) } }
        @if workers == Some(0) && counts.ready + counts.reserved > 0 { span.badge.bad { (words.no_worker) } }
    }
}

/// A pause or resume that failed on its way has reached some partitions only.
fn paused(counts: &Counts, partitions: u16, words: &Words) -> String {
    if counts.paused_parts < partitions {
        return fill(words.paused_in_part, &[&counts.paused_parts, &partitions]);
    }
    words.paused.to_owned()
}

/// How the jobs of a queue are divided among the states.
fn bar(counts: &Counts) -> Markup {
    let states = [
        ("ready", counts.ready),
        ("reserved", counts.reserved),
        ("delayed", counts.delayed),
        ("failed", counts.failed),
    ];
    let all: u64 = states.iter().map(|(_, count)| count).sum();
    if all == 0 {
        return html! {};
    }
    // In thousandths; a state that is there is seen.
    let widths = states.map(|(state, count)| (state, if count == 0 { 0 } else { (count * 1000 / all).max(12) }));
    let total: u64 = widths.iter().map(|(_, width)| width).sum();
    let starts = widths.iter().scan(0, |end, (_, width)| Some(std::mem::replace(end, *end + width)));
    html! {
        svg.bar viewBox=(format!("0 0 {total} 10")) preserveAspectRatio="none" aria-hidden="true" {
            @for ((state, width), start) in widths.iter().zip(starts) {
                rect class=(state) x=(start) y="0" width=(width) height="10" {}
            }
        }
    }
}
