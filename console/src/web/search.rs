//! Search: a job by its id or key, a queue by a part of its name.

use std::time::Instant;

use duly::{Error, Found, QueueInfo};
use futures_util::future::join_all;
use maud::{Markup, html};

use super::job::READ_ON;
use super::named::Named;
use super::queue::state_name;
use super::text::{or_dash, shown};
use super::view::{Failure, Page, Shown, View, empty, unread};
use super::words::fill;
use crate::each_queue::Reads;
use crate::target::all;

/// How many queues are searched.
const MOST_QUEUES: usize = 500;
/// How many at once.
const AT_ONCE: usize = 32;

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let (words, text) = (view.words, view.query.get("q").trim());
    if text.is_empty() {
        return Ok(Page::new(words.search, html! { h1 { (words.search) } (empty(words.search, words.search_more)) }));
    }
    let (queues, all) = wanted(view).await?;
    let by_name: Vec<_> = queues.iter().filter(|queue| queue.name.contains(text)).take(MOST_QUEUES).collect();
    let first = &queues[..queues.len().min(MOST_QUEUES)];
    let (mut found, mut unreadable, reads) = (Vec::new(), Vec::new(), Reads::new(view.client));
    for some in first.chunks(AT_ONCE) {
        let jobs = join_all(some.iter().map(|queue| reads.read(find(view, queue, text)))).await;
        let (jobs, errors) = view.readable(some, jobs)?;
        found.extend(jobs.into_iter().flat_map(|(queue, jobs)| jobs.into_iter().map(move |job| (queue, job))));
        unreadable.extend(errors);
    }
    // A job that is gone is known to the history of its queue.
    let (mut gone, mut is_cut, until) = (Vec::new(), false, Instant::now() + READ_ON);
    let was_read = |queue: &&QueueInfo| unreadable.iter().all(|(other, _)| other != queue);
    let readable: Vec<_> = first.iter().filter(was_read).collect();
    for some in if found.is_empty() { &readable[..] } else { &[] }.chunks(AT_ONCE) {
        let known = join_all(some.iter().map(|queue| was_in(view, queue, text, until))).await;
        let (known, errors) = view.readable(some.iter().copied(), known)?;
        unreadable.extend(errors);
        for (queue, (is_known, is_more)) in known {
            gone.extend(is_known.then_some(queue));
            is_cut |= is_more && !is_known;
        }
    }
    let searched = first.len() - unreadable.len();
    let is_nothing = found.is_empty() && gone.is_empty() && (by_name.is_empty() || !all) && unreadable.is_empty();
    let body = html! {
        h1 { (shown(&fill(words.results_for, &[&text]))) }
        @if all && !by_name.is_empty() { (queue_list(view, &by_name)) }
        @if !found.is_empty() { (jobs(view, &found)) }
        @if !gone.is_empty() { (gone_jobs(view, &gone, text)) }
        (unread(&unreadable))
        @if is_nothing { (empty(words.nothing_found, &fill(words.nothing_found_more, &[&searched]))) }
        @if is_cut { p.hint { (words.histories_cut) } }
        p.hint { (fill(if queues.len() > MOST_QUEUES { words.searched_some } else { words.searched }, &[&searched])) }
    };
    Ok(Page::new(words.search, body))
}

/// The queues in which it is searched, and whether these are all.
async fn wanted(view: &View<'_>) -> Result<(Vec<QueueInfo>, bool), Failure> {
    let mut listed = all(view.client).await?;
    let is_all = view.query.given("queue").is_none();
    if !is_all {
        let named = Named::asked(view.client, view.query, view.words).await?;
        listed.retain(|queue| queue.name == named.name && queue.partitions == named.partitions);
    }
    Ok((listed, is_all))
}

/// The jobs of one queue that have this id or this key: two at the most.
async fn find(view: &View<'_>, queue: &QueueInfo, text: &str) -> Result<Vec<Found>, Error> {
    let Ok(opened) = Named::new(&queue.name, queue.partitions).open(view.client) else { return Ok(Vec::new()) };
    let by_id = async { if duly::name::check_id(text).is_ok() { opened.find(text).await } else { Ok(None) } };
    let by_key = async { if duly::name::check_key(text).is_ok() { opened.find_key(text).await } else { Ok(None) } };
    // Neither is dropped when the other fails: it may be the one that finds that the server is back.
    let (by_id, by_key) = tokio::join!(by_id, by_key);
    // What one has found counts, also where the other could not ask every part.
    let (by_id, by_key) = match (by_id, by_key) {
        (Ok(None), Err(error)) | (Err(error), Ok(None) | Err(_)) => return Err(error),
        (by_id, by_key) => (by_id.ok().flatten(), by_key.ok().flatten()),
    };
    let is_same = |one: &Found| by_id.as_ref().is_some_and(|other| other.job.envelope.id == one.job.envelope.id);
    let by_key = by_key.filter(|found| !is_same(found));
    Ok(by_id.into_iter().chain(by_key).collect())
}

/// Does the history of this queue tell of a job with this id? And is there more of it than could be read by then?
async fn was_in(view: &View<'_>, queue: &QueueInfo, text: &str, until: Instant) -> Result<(bool, bool), Error> {
    let Ok(opened) = Named::new(&queue.name, queue.partitions).open(view.client) else { return Ok((false, false)) };
    if duly::name::check_id(text).is_err() {
        return Ok((false, false));
    }
    if Instant::now() >= until {
        return Ok((false, true));
    }
    if opened.history().await?.is_none() {
        return Ok((false, false));
    }
    let (trace, is_cut) = opened.last_life(text, 1, until).await?;
    Ok((trace.is_some(), is_cut))
}

fn gone_jobs(view: &View<'_>, queues: &[&QueueInfo], id: &str) -> Markup {
    let words = view.words;
    html! {
        ul.found { @for queue in queues {
            @let named = Named::new(&queue.name, queue.partitions);
            li { a.id href=(named.job(id)) { (shown(id)) } " " span.badge { (words.gone) } " " (queue.name) }
        } }
    }
}

fn queue_list(view: &View<'_>, queues: &[&QueueInfo]) -> Markup {
    html! {
        h2 { (view.words.queues) }
        ul.found { @for queue in queues {
            li { a href=(Named::new(&queue.name, queue.partitions).link("queue", &[])) { (queue.name) } }
        } }
    }
}

fn jobs(view: &View<'_>, found: &[(&QueueInfo, Found)]) -> Markup {
    let words = view.words;
    html! {
        div.scroll { table.cards {
            thead { tr { th { (words.job) } th { (words.queue) } th { (words.state) } th { (words.name) } th { (words.key) } th { (words.why) } } }
            tbody { @for (queue, found) in found {
                @let named = Named::new(&queue.name, queue.partitions);
                @let (job, state) = (&found.job.envelope, found.job.state);
                tr {
                    td.title { a.id href=(named.job(&job.id)) { (shown(&job.id)) } }
                    td data-name=(words.queue) { a href=(named.link("queue", &[])) { (queue.name) } }
                    td data-name=(words.state) { span.badge.(state.as_str()) { (state_name(state, words)) } }
                    td data-name=(words.name) { (or_dash(job.name.as_deref())) }
                    td data-name=(words.key) { (or_dash(job.key.as_deref())) }
                    td data-name=(words.why) lang="en" { (shown(&found.why)) }
                }
            } }
        } }
    }
}
