//! One job: why it is where it is, all that it has, and what can be done with it.

use duly::{Found, JobView, Millis, State};
use hyper::StatusCode;
use maud::{Markup, html};

use super::named::Named;
use super::queue::{moment_of, state_name};
use super::request::Response;
use super::text::{number, or_dash, shown, shown_lines, time};
use super::view::{Failure, Page, Shown, View};
use super::words::fill;
use crate::show::{most_failures, span};

/// The characters of its data, or of its error, that are shown.
const MOST_SHOWN: usize = 64 * 1024;

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let (named, found) = asked(view).await?;
    let (words, job) = (view.words, &found.job);
    let id = &job.envelope.id;
    let body = html! {
        h1 { (words.job) " " span.name { (shown(id)) } " " span.badge.(job.state.as_str()) { (state_name(job.state, words)) } }
        p.hint { (words.queue) ": " a href=(named.link("/queue", &[("state", job.state.as_str())])) { (named.name) } }
        section.why { h2 { (words.why) } p lang="en" { (shown(&found.why)) } }
        (actions(view, &named, job))
        @if let Some(why) = &job.undecodable { section.empty.warn { h2 { (words.undecodable) } p { (shown(why)) } } }
        (facts(view, &found))
        (text(view, words.error, &job.envelope.error))
        (headers(view, job))
        (data(view, job))
        p { a href=(named.link("/package", &[("id", id)])) download { (words.save_package) } }
    };
    Ok(Page::new(id, body))
}

async fn asked(view: &View<'_>) -> Result<(Named, Found), Failure> {
    let words = view.words;
    let named = Named::asked(view.client, view.query, words).await?;
    let id = view.query.get("id");
    let missing = || Page::refusal(StatusCode::NOT_FOUND, words.no_job, words.no_job_more);
    // What no id can be is no job's.
    duly::name::check_id(id).map_err(|_| missing())?;
    let found = named.open(view.client)?.find(id).await?;
    Ok((named, found.ok_or_else(missing)?))
}

/// The whole package as it is stored, to be saved.
pub(crate) async fn package(view: &View<'_>) -> Result<Response, Failure> {
    let (_, found) = asked(view).await?;
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
        @if is_waiting && view.may_act {
            details { summary { (words.reschedule) } (view.form("reschedule", &fields, &html! {
                label { (words.reschedule_in) input name="delay" size="10" autocomplete="off"; }
                label { (words.reschedule_at) input name="at" type="datetime-local" step="1"; }
                button { (words.reschedule) }
            })) }
        }
    }
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
