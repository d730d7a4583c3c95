//! The workers that are alive, and what they run.

use std::collections::BTreeMap;

use duly::{Error, QueueInfo, RunningJob, WorkerInfo};
use futures_util::future::join_all;
use maud::{Markup, html};

use super::named::Named;
use super::text::{or_dash, shown, time};
use super::view::{A_PAGE, Page, Shown, View, empty, unread};

/// A worker, and what it runs of each queue.
struct Alive {
    info: WorkerInfo,
    running: Vec<(Named, RunningJob)>,
}

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let page = view.client.queues(A_PAGE, view.query.given("after")).await?;
    let of_queues = join_all(page.queues.iter().map(|queue| of_queue(view, queue))).await;
    let mut alive: BTreeMap<String, Alive> = BTreeMap::new();
    let (of_queues, unreadable) = view.readable(&page.queues, of_queues)?;
    for (queue, workers) in of_queues {
        for mut info in workers {
            let running = std::mem::take(&mut info.running);
            let worker = alive.entry(info.id.clone()).or_insert_with(|| Alive { info, running: Vec::new() });
            worker.running.extend(running.into_iter().map(|job| (Named::new(&queue.name, queue.partitions), job)));
        }
    }
    let mut alive: Vec<_> = alive.into_values().collect();
    alive.sort_by(|one, other| (&one.info.host, one.info.pid).cmp(&(&other.info.host, other.info.pid)));
    let words = view.words;
    let body = html! {
        h1 { (words.workers) }
        (unread(&unreadable))
        @if !alive.is_empty() { (table(view, &alive)) }
        @else if unreadable.is_empty() { (empty(words.no_workers, words.no_workers_more)) }
        (view.queue_pager("workers", page.cursor.as_deref()))
    };
    Ok(Page::new(words.workers, body))
}

async fn of_queue(view: &View<'_>, queue: &QueueInfo) -> Result<Vec<WorkerInfo>, Error> {
    let Ok(opened) = Named::new(&queue.name, queue.partitions).open(view.client) else { return Ok(Vec::new()) };
    opened.workers().await
}

fn table(view: &View<'_>, alive: &[Alive]) -> Markup {
    let words = view.words;
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { (words.worker) } th { (words.language) } th.number { (words.concurrency) } th { (words.started) }
                th { (words.serves) } th { (words.runs) }
            } }
            tbody { @for Alive { info, running } in alive {
                tr {
                    td.title { (shown(&info.host)) " " span.none { (info.pid) } @if let Some(name) = &info.name { br; (shown(name)) } }
                    td data-name=(words.language) { (shown(&info.language)) " " (shown(&info.version)) }
                    td.number data-name=(words.concurrency) { (info.concurrency) }
                    td data-name=(words.started) { (time(Some(info.started_at))) }
                    td data-name=(words.serves) { (or_dash(Some(&info.queues.join(", ")))) }
                    td data-name=(words.runs) {
                        @if running.is_empty() { span.none { (words.idle) } }
                        @for (named, job) in running {
                            div { a.id href=(named.job(&job.id)) { (shown(&job.id)) } " " (or_dash(job.name.as_deref())) }
                        }
                    }
                }
            } }
        } }
    }
}
