//! The jobs that failed for good, queue by queue.

use duly::{Counts, Error, JobView, QueueInfo, State};
use futures_util::future::join_all;
use maud::{Markup, html};

use super::named::Named;
use super::newest::newest;
use super::queue::table;
use super::text::{number, shown};
use super::view::{A_PAGE, Page, Shown, View, empty};
use super::words::fill;
use crate::each_queue::is_of_one_queue;

/// How many of a queue are shown here.
const NEWEST: usize = 5;

enum OfQueue {
    None,
    Some(Counts, Vec<JobView>),
    Unreadable(Error),
}

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let page = view.client.queues(A_PAGE, view.query.given("after")).await?;
    let all = join_all(page.queues.iter().map(|queue| of_queue(view, queue))).await;
    let all = page.queues.iter().zip(all).map(|(queue, of)| of.map(|of| (queue, of))).collect::<Result<Vec<_>, _>>()?;
    let is_none = all.iter().all(|(_, of)| matches!(of, OfQueue::None));
    let words = view.words;
    let body = html! {
        h1 { (words.failed_page) }
        @if is_none { (empty(words.no_failed, words.no_failed_more)) }
        @for (queue, of) in &all { (section(view, queue, of)) }
        (view.queue_pager("failed", page.cursor.as_deref()))
    };
    Ok(Page::new(words.failed_page, body))
}

async fn of_queue(view: &View<'_>, queue: &QueueInfo) -> Result<OfQueue, Error> {
    match read(view, queue).await {
        Err(error) if is_of_one_queue(view.client, &error) => Ok(OfQueue::Unreadable(error)),
        read => read,
    }
}

async fn read(view: &View<'_>, queue: &QueueInfo) -> Result<OfQueue, Error> {
    let Ok(opened) = Named::new(&queue.name, queue.partitions).open(view.client) else { return Ok(OfQueue::None) };
    let counts = opened.counts().await?;
    if counts.failed == 0 {
        return Ok(OfQueue::None);
    }
    let jobs = newest(&opened, 0, NEWEST, counts.failed).await?;
    Ok(OfQueue::Some(counts, jobs))
}

fn section(view: &View<'_>, queue: &QueueInfo, of: &OfQueue) -> Markup {
    let (words, named) = (view.words, Named::new(&queue.name, queue.partitions));
    let (counts, jobs) = match of {
        OfQueue::None => return html! {},
        OfQueue::Some(counts, jobs) => (counts, jobs),
        OfQueue::Unreadable(error) => {
            return html! { section.of-queue { h2 { (shown(&queue.name)) } p.error { (shown(&error.to_string())) } } };
        }
    };
    let all = named.link("queue", &[("state", State::Failed.as_str())]);
    let trimmed = counts.totals.iter().find(|(name, count)| name == "trimmed" && *count > 0);
    html! {
        section.of-queue {
            div.heading {
                h2 { a href=(all) { (queue.name) } }
                span.hint { (fill(words.newest_failed, &[&jobs.len(), &number(counts.failed)])) }
                @if counts.failed > jobs.len() as u64 { a href=(all) { (words.show_all) } }
                a href=(named.link("groups", &[])) { (words.groups) }
                @if view.may("requeue-all") { a.button.small href=(named.link("ask-requeue-all", &[("from", "failed")])) { (words.requeue_all) } }
            }
            (table(view, &named, State::Failed, jobs))
            @if let Some((_, count)) = trimmed { p.hint { (fill(words.trimmed, &[&number(*count)])) } }
        }
    }
}
