//! One job: why it is where it is, all that it has, and what can be done with it.

use std::time::{Duration, Instant};

use duly::{Error, ErrorKind, Found, Happening, JobView, Millis, Queue, State, Trace};
use hyper::StatusCode;
use maud::{Markup, html};

use super::commands;
use super::named::Named;
use super::queue::{moment_of, state_name};
use super::request::Response;
use super::text::{number, or_dash, shown, shown_lines, time, time_of};
use super::view::{Failure, Page, Shown, View};
use super::words::{Words, fill};
use crate::show::{most_failures, span};
use crate::trace::{precise, told, who};

/// The characters of its data, or of its error, that are shown.
const MOST_SHOWN: usize = 64 * 1024;
/// The bytes of data that can be edited: written in a form each may take three, and a form has 64 KiB.
const MOST_EDITED: usize = 16 * 1024;
/// So many events of a job are shown, the newest.
const MOST_EVENTS: usize = 200;
/// For so long a page reads histories.
pub(super) const READ_ON: Duration = Duration::from_secs(2);

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let (named, queue, id) = asked(view).await?;
    let Some(found) = queue.find(&id).await? else { return gone(view, &named, &queue, &id).await };
    let (words, job) = (view.words, &found.job);
    let (trace, is_cut) = trace_of(&queue, &id).await?;
    let body = html! {
        h1 { (words.job) " " span.name { (shown(&id)) } " " span.badge.(job.state.as_str()) { (state_name(job.state, words)) } }
        p.hint { (words.queue) ": " a href=(named.link("queue", &[("state", job.state.as_str())])) { (named.name) } }
        section.why { h2 { (words.why) } p lang="en" { (shown(&found.why)) } }
        (actions(view, &named, job))
        (commands::show(view, &named, job))
        @if let Some(why) = &job.undecodable { section.empty.warn { h2 { (words.undecodable) } p { (shown(why)) } } }
        (facts(view, &found))
        (text(view, words.error, &job.envelope.error))
        @if let Some(trace) = &trace { (timeline(view, trace, is_cut)) }
        @if view.hides_data { p.hint { (words.data_hidden) } } @else {
            (headers(view, job))
            (data(view, job))
            p { a href=(named.link("package", &[("id", &id)])) download { (words.save_package) } }
        }
    };
    Ok(Page::new(id, body))
}

/// The queue and the id that are asked for.
async fn asked(view: &View<'_>) -> Result<(Named, Queue, String), Failure> {
    let named = Named::asked(view.client, view.query, view.words).await?;
    let id = view.query.get("id");
    // What no id can be is no job's.
    duly::name::check_id(id).map_err(|_| missing(view.words))?;
    let queue = named.open(view.client)?;
    Ok((named, queue, id.to_owned()))
}

fn missing(words: &Words) -> Page {
    Page::refusal(StatusCode::NOT_FOUND, words.no_job, words.no_job_more)
}

/// A job that is gone, as far as the history of its queue knows it.
async fn gone(view: &View<'_>, named: &Named, queue: &Queue, id: &str) -> Shown {
    let words = view.words;
    let (trace, is_cut) = trace_of(queue, id).await?;
    let Some(trace) = trace else { return Err(missing(words).into()) };
    let body = html! {
        h1 { (words.job) " " span.name { (shown(id)) } " " span.badge { (words.gone) } }
        p.hint { (words.queue) ": " a href=(named.link("queue", &[])) { (named.name) } }
        (timeline(view, &trace, is_cut))
    };
    Ok(Page::new(id, body))
}

/// Its last life, and whether there may be more than that. Nothing, too, if the key of the history is another program's: what else is known
/// is shown.
async fn trace_of(queue: &Queue, id: &str) -> Result<(Option<Trace>, bool), Error> {
    match queue.last_life(id, MOST_EVENTS, Instant::now() + READ_ON).await {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok((None, false)),
        trace => trace,
    }
}

/// What happened to it, the last thing first; `is_cut`: there may be more than that.
fn timeline(view: &View<'_>, trace: &Trace, is_cut: bool) -> Markup {
    let words = view.words;
    html! {
        h2 { (words.timeline) }
        @if !trace.is_kept { p.hint { (words.no_history) } }
        @else if is_cut { p.hint { (fill(words.timeline_cut, &[&number(MOST_EVENTS as u64)])) } }
        @else if !trace.is_complete { p.hint { (words.timeline_incomplete) } }
        div.scroll { table.cards.timeline {
            thead { tr { th { (words.at) } th { (words.what) } th { (words.details) } th { (words.by) } } }
            tbody { @for event in trace.events.iter().rev() { tr {
                td.title { (time_of(&precise(event.at))) }
                td data-name=(words.what) { span.badge.(event.what.as_str()) { (happening(event.what, words)) } }
                td data-name=(words.details) { (or_dash(told(event).as_deref())) }
                td data-name=(words.by) { (or_dash(who(event).as_deref())) }
            } } }
        } }
    }
}

fn happening(what: Happening, words: &Words) -> &'static str {
    match what {
        Happening::Pushed => words.was_pushed,
        Happening::Promoted => words.was_promoted,
        Happening::Reserved => words.was_reserved,
        Happening::Started => words.was_started,
        Happening::Done => words.was_done,
        Happening::Retried => words.was_retried,
        Happening::Released => words.was_released,
        Happening::GivenBack => words.was_given_back,
        Happening::LeaseEnded => words.was_lease_ended,
        Happening::Failed => words.was_failed,
        Happening::Cancelled => words.was_cancelled,
        Happening::Expired => words.was_expired,
        Happening::Rescheduled => words.was_rescheduled,
        Happening::Requeued => words.was_requeued,
        Happening::Purged => words.was_purged,
        Happening::Replaced => words.was_replaced,
        Happening::Trimmed => words.was_trimmed,
        Happening::Departed => words.was_departed,
        Happening::CameBack => words.was_put_back,
        Happening::Repaired => words.was_repaired,
        other => other.as_str(),
    }
}

/// The whole package as it is stored, to be saved.
pub(crate) async fn package(view: &View<'_>) -> Result<Response, Failure> {
    if view.hides_data {
        return Err(Page::refusal(StatusCode::FORBIDDEN, view.words.refused, view.words.data_hidden).into());
    }
    let (_, queue, id) = asked(view).await?;
    let found = queue.find(&id).await?.ok_or_else(|| missing(view.words))?;
    let response = Response::new(StatusCode::OK, "application/octet-stream", found.job.package());
    Ok(response.with(hyper::header::CONTENT_DISPOSITION, "attachment; filename=\"job.json\""))
}

fn actions(view: &View<'_>, named: &Named, job: &JobView) -> Markup {
    let (words, id) = (view.words, job.envelope.id.as_str());
    let fields = [&named.fields()[..], &[("id", id)]].concat();
    let is_waiting = matches!(job.state, State::Delayed | State::Ready);
    html! {
        div.actions {
            @if job.state == State::Delayed { (view.button("run-now", &fields, words.run_now, "primary")) }
            @if job.state == State::Failed { (view.button("requeue", &fields, words.requeue, "primary")) }
            (view.asking("cancel", &fields, words.cancel))
        }
        @if job.state == State::Failed && view.may("requeue-with") && may_be_edited(job) {
            details { summary { (words.edit) } (view.form("requeue-with", &fields, &html! {
                label.wide { (words.data) textarea name="data" rows="8" spellcheck="false" { "\n" (job.envelope.data.as_str()) } }
                button { (words.requeue_with) }
            })) }
        }
        @if is_waiting && view.may("reschedule") {
            details { summary { (words.reschedule) } (view.form("reschedule", &fields, &html! {
                label { (words.reschedule_in) input name="delay" size="10" autocomplete="off"; }
                label { (words.reschedule_at) input name="at" type="datetime-local" step="1"; }
                button { (words.reschedule) }
            })) }
        }
    }
}

/// What a form has no room for is edited elsewhere.
fn may_be_edited(job: &JobView) -> bool {
    job.undecodable.is_none() && job.envelope.data.as_str().len() <= MOST_EDITED
}

fn facts(view: &View<'_>, found: &Found) -> Markup {
    let (words, job) = (view.words, &found.job);
    let envelope = &job.envelope;
    let seconds = |time: Option<Millis>| time.map(span);
    let policy = envelope.retry.as_ref().and_then(|policy| serde_json::to_string(policy).ok());
    let delay = envelope.delay.to_millis();
    let pushed = (envelope.time > 0).then(|| Millis::new(envelope.time.saturating_mul(1000)));
    let at = match job.state {
        State::Delayed => Some(words.due),
        State::Reserved => Some(words.lease_ends),
        State::Failed => Some(words.failed_at),
        State::Ready => None,
    };
    let row = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    let text_row =
        |name: &str, value: Option<String>| html! { @if let Some(value) = value { (row(name, shown(&value))) } };
    html! {
        dl.facts {
            (row(words.name, or_dash(envelope.name.as_deref())))
            (row(words.key, or_dash(envelope.key.as_deref())))
            (row(words.priority, html! { (envelope.priority) }))
            (row(words.failures, html! { (fill(words.failures_of, &[&envelope.attempts, &most_failures(envelope)])) }))
            @if let Some(at) = at { (row(at, time(moment_of(job)))) }
            (row(words.pushed_at, time(pushed)))
            (text_row(words.delay, seconds(Some(delay).filter(|delay| *delay > Millis::ZERO))))
            (row(words.returns, html! { (job.returns) }))
            (text_row(words.token, found.token.map(|token| token.to_string())))
            (text_row(words.timeout, seconds(envelope.timeout)))
            @if envelope.expires.is_some() { (row(words.expires, time(envelope.expires))) }
            (text_row(words.result_ttl, seconds(envelope.result_ttl)))
            (text_row(words.retry_policy, policy))
            @if let Some(progress) = &job.progress {
                (row(words.progress, html! {
                    progress max="1" value=(progress.fraction) {} " " (format!("{:.0} %", progress.fraction * 100.0)) " " (shown(&progress.text))
                }))
            }
        }
    }
}

fn headers(view: &View<'_>, job: &JobView) -> Markup {
    let envelope = &job.envelope;
    html! {
        @if !envelope.headers.is_empty() {
            h2 { (view.words.headers) }
            dl.facts { @for (name, value) in &envelope.headers { div { dt { (shown(name)) } dd { (shown(value)) } } } }
        }
        @if !envelope.unknown.is_empty() {
            h2 { (view.words.other_fields) }
            dl.facts { @for field in &envelope.unknown { div { dt { (shown(&field.name)) } dd { (shown(field.value.as_str())) } } } }
        }
    }
}

fn data(view: &View<'_>, job: &JobView) -> Markup {
    if job.undecodable.is_some() {
        return text(view, view.words.data, &String::from_utf8_lossy(&job.package()));
    }
    text(view, view.words.data, job.envelope.data.as_str())
}

/// A long text of the job's.
fn text(view: &View<'_>, name: &str, text: &str) -> Markup {
    let shown = match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => &text[..end],
        None => text,
    };
    let is_cut = shown.len() < text.len();
    html! {
        @if !text.is_empty() {
            h2 { (name) }
            pre tabindex="0" { (shown_lines(shown)) }
            @if is_cut {
                p.hint { (fill(view.words.data_cut, &[&number(MOST_SHOWN as u64), &number(text.chars().count() as u64)])) }
            }
        }
    }
}
