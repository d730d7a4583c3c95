//! One queue: its states, its limits, and the jobs of one state.

use duly::{Counts, DEFAULT_RATES_WITHIN, HistoryBounds, JobView, Millis, State};
use hyper::StatusCode;
use maud::{Markup, html};

use super::limits;
use super::named::Named;
use super::newest::{self, newest};
use super::overview::badges;
use super::runs;
use super::text::{beginning, number, or_dash, shown, time};
use super::view::{A_PAGE, Page, Shown, View};
use super::words::{Words, fill};
use crate::show::{most_failures, span};

pub(crate) const STATES: [State; 4] = [State::Ready, State::Reserved, State::Delayed, State::Failed];

pub(crate) fn state_of(text: &str) -> Option<State> {
    STATES.into_iter().find(|state| state.as_str() == text)
}

pub(crate) fn state_name(state: State, words: &Words) -> &'static str {
    match state {
        State::Delayed => words.delayed,
        State::Ready => words.ready,
        State::Reserved => words.reserved,
        State::Failed => words.failed,
    }
}

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let words = view.words;
    let named = Named::asked(view.client, view.query, words).await?;
    let queue = named.open(view.client)?;
    // None is dropped when another fails: it may be the one that finds that the server is back.
    let (counts, limits, workers) = tokio::join!(queue.counts(), queue.limits(), queue.workers());
    let (counts, limits, workers) = (counts?, limits?, workers?);
    let rates = Box::pin(queue.rates(DEFAULT_RATES_WITHIN)).await?;
    let history = queue.history().await?;
    let wanted = view.query.given("state").map(|text| state_of(text).ok_or(text));
    let state = match wanted {
        Some(Ok(state)) => state,
        Some(Err(_)) => return Ok(Page::refusal(StatusCode::NOT_FOUND, words.not_found, "")),
        // Where something is.
        None => STATES.into_iter().find(|state| counts.of(*state) > 0).unwrap_or(State::Ready),
    };
    let (offset, count) = (view.query.number("offset"), counts.of(state));
    // Of the failed ones the newest come first.
    let reach = if state == State::Failed { newest::reach(named.partitions, count) } else { count };
    let jobs = match state {
        State::Failed => newest(&queue, offset, A_PAGE, count).await?,
        _ => queue.peek(state, offset, A_PAGE).await?,
    };
    let body = html! {
        h1 { (words.queue) " " span.name { (named.name) } (badges(view, named.partitions, &counts, Some(workers.len()))) }
        (actions(view, &named, &counts, state))
        (tabs(view, &named, &counts, state))
        (facts(view, &counts))
        @if jobs.is_empty() { p.none { (if offset > 0 { words.jobs_gone } else { words.none_in_state }) } }
        @else { (table(view, &named, state, &jobs)) }
        (view.pager(&named, state.as_str(), offset, jobs.len(), count, reach))
        @if reach < count { p.hint { (fill(words.newest_of_parts, &[&number(reach)])) } }
        (search_here(view, &named))
        (runs::show(words, &rates))
        (limits::show(view, &named, &limits))
        (history_of(view, &named, history))
        (totals(view, &counts))
        div.actions.below { (view.asking("delete", &named.fields(), words.delete_queue)) }
    };
    Ok(Page::new(named.name, body))
}

fn actions(view: &View<'_>, named: &Named, counts: &Counts, state: State) -> Markup {
    let (words, fields) = (view.words, named.fields());
    let of_state = [&fields[..], &[("state", state.as_str())]].concat();
    html! {
        div.actions {
            // Both, where one of them has reached some partitions only: either ends that.
            @if counts.paused { (view.button("resume", &fields, words.resume, "")) }
            @if !counts.paused || counts.paused_parts < named.partitions { (view.button("pause", &fields, words.pause, "")) }
            @if counts.of(state) > 0 { a.button href=(named.link("jobs", &[("state", state.as_str())])) { (words.filter) } }
            @if state == State::Failed && counts.failed > 0 {
                a.button href=(named.link("groups", &[])) { (words.groups) }
                @if view.may("requeue-all") { a.button href=(named.link("ask-requeue-all", &[])) { (words.requeue_all) } }
            }
            @if counts.of(state) > 0 {
                (view.asking("purge", &of_state, &fill(words.purge, &[&state_name(state, words).to_lowercase()])))
            }
        }
    }
}

/// Whether what happens to its jobs is kept, and a button that begins that.
fn history_of(view: &View<'_>, named: &Named, history: Option<HistoryBounds>) -> Markup {
    let words = view.words;
    html! {
        h2 { (words.history) }
        @match history {
            Some(kept) => p {
                (fill(words.keeps_history, &[&number(kept.jobs), &span(Millis::from_duration(kept.age).unwrap_or(Millis::ZERO))]))
            }
            None => {
                p.none { (words.keeps_no_history) }
                div.actions.below { (view.button("keep-history", &named.fields(), words.keep_history, "")) }
            }
        }
    }
}

fn tabs(view: &View<'_>, named: &Named, counts: &Counts, current: State) -> Markup {
    html! {
        nav.tabs {
            @for state in STATES {
                a.(state.as_str()) href=(named.link("queue", &[("state", state.as_str())]))
                    aria-current=[(state == current).then_some("page")] {
                    b { (number(counts.of(state))) } span { (state_name(state, view.words)) }
                }
            }
        }
    }
}

fn facts(view: &View<'_>, counts: &Counts) -> Markup {
    let words = view.words;
    let soon =
        |left: Millis| if left == Millis::ZERO { words.now.to_owned() } else { fill(words.in_span, &[&span(left)]) };
    let all = [
        (words.oldest, counts.oldest_ready_age.map(span)),
        (words.next_due, counts.next_due_in.map(soon)),
        (words.next_lease_end, counts.next_lease_end_in.map(soon)),
    ];
    html! {
        ul.facts {
            @for (name, value) in all { @if let Some(value) = value { li { (name) ": " b { (value) } } } }
            @if let Some(held) = &counts.held { li.warn { (shown(held)) } }
        }
    }
}

/// What `at` of a job in this state is.
fn moment_name(state: State, words: &Words) -> &'static str {
    match state {
        State::Delayed => words.due,
        State::Reserved => words.lease_ends,
        State::Failed => words.failed_at,
        State::Ready => words.pushed_at,
    }
}

/// A ready job is nowhere noted as such: what is known is when it was pushed.
pub(crate) fn moment_of(job: &JobView) -> Option<Millis> {
    let pushed = job.envelope.time;
    job.at.or_else(|| (pushed > 0).then(|| Millis::new(pushed.saturating_mul(1000))))
}

pub(crate) fn table(view: &View<'_>, named: &Named, state: State, jobs: &[JobView]) -> Markup {
    let words = view.words;
    let has_error =
        state == State::Failed || jobs.iter().any(|job| !job.envelope.error.is_empty() || job.undecodable.is_some());
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { (words.job) } th { (words.name) } th { (words.key) }
                th.number { (words.priority) } th.number { (words.failures) } th { (moment_name(state, words)) }
                @if has_error { th { (words.error) } }
                @if state == State::Failed && view.may("requeue") { th {} }
            } }
            tbody { @for job in jobs { (line(view, named, job, has_error)) } }
        } }
    }
}

fn line(view: &View<'_>, named: &Named, job: &JobView, has_error: bool) -> Markup {
    let (words, envelope) = (view.words, &job.envelope);
    let error = job.undecodable.as_ref().unwrap_or(&envelope.error);
    let fields = [&named.fields()[..], &[("id", &envelope.id), ("from", "queue")]].concat();
    html! {
        tr {
            td.title { a.id href=(named.job(&envelope.id)) { (shown(&envelope.id)) } }
            td data-name=(words.name) { (or_dash(envelope.name.as_deref())) }
            td data-name=(words.key) { (or_dash(envelope.key.as_deref())) }
            td.number data-name=(words.priority) { (envelope.priority) }
            td.number data-name=(words.failures) { (envelope.attempts) "/" (most_failures(envelope)) }
            td data-name=(moment_name(job.state, words)) { (time(moment_of(job))) }
            @if has_error { td.error data-name=(words.error) { (or_dash(Some(&beginning(error)))) } }
            @if job.state == State::Failed && view.may("requeue") { td { (view.button("requeue", &fields, words.requeue, "small")) } }
        }
    }
}

fn search_here(view: &View<'_>, named: &Named) -> Markup {
    html! {
        form.search.here action="search" {
            @for (name, value) in named.fields() { input type="hidden" name=(name) value=(value); }
            input type="search" name="q" placeholder=(view.words.in_queue) aria-label=(view.words.in_queue) maxlength="256";
            button { (view.words.search) }
        }
    }
}

fn totals(view: &View<'_>, counts: &Counts) -> Markup {
    html! {
        @if !counts.totals.is_empty() {
            h2 { (view.words.totals) }
            ul.facts { @for (name, total) in &counts.totals { li { (shown(name)) ": " b { (number(*total)) } } } }
        }
    }
}
