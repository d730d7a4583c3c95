//! The limits of a queue, and the form that changes those of the whole queue or of a name.

use duly::{Error, ErrorKind, Limits, NameLimits, Queue, Rate};
use hyper::StatusCode;
use maud::{Markup, html};

use super::act::Done;
use super::named::Named;
use super::request::Fields;
use super::text::{or_dash, shown};
use super::view::{Failure, Page, Shown, View};
use super::words::{Words, fill};
use crate::limits::{Limit, change, jobs, or_none, rate, rate_or_none};

/// Those that are set, on the page of the queue.
pub(crate) fn show(view: &View<'_>, named: &Named, limits: &Limits) -> Markup {
    let words = view.words;
    let of_queue = (None, limits.concurrency, limits.rate);
    let of_names = limits.names.iter().map(|(name, limit)| (Some(name), limit.concurrency, limit.rate));
    let has_any = limits.concurrency.is_some() || limits.rate.is_some() || !limits.names.is_empty();
    let rate = |rate: Option<Rate>| rate.map(|rate| fill(words.rate_in, &[&rate.jobs, &rate.per.as_secs_f64()]));
    let to = |name: &str| named.link("ask-limits", &[("name", name)]);
    html! {
        h2 { (words.limits) }
        @if has_any {
            div.scroll { table.cards {
                thead { tr {
                    th { (words.name) } th.number { (words.concurrency) } th.number { (words.rate) }
                    @if view.may("limits") { th {} }
                } }
                tbody { @for (name, concurrency, rates) in std::iter::once(of_queue).chain(of_names) {
                    tr {
                        td.title { @match name { Some(name) => { (shown(name)) } None => { i { (words.whole_queue) } } } }
                        td.number data-name=(words.concurrency) { (or_dash(concurrency.map(|most| most.to_string()).as_deref())) }
                        td.number data-name=(words.rate) { (or_dash(rate(rates).as_deref())) }
                        @if view.may("limits") { td.number { a.button.small href=(to(name.map_or("", String::as_str))) { (words.change) } } }
                    }
                } }
            } }
        } @else { p.none { (words.no_limits) } }
        @if let Some(most) = limits.max_length { p { (fill(words.takes_at_most, &[&most])) } }
        @if view.may("limits") { div.actions.below {
            @if !has_any { a.button href=(to("")) { (words.set_limits) } }
            a.button href=(named.link("ask-limits", &[("of", NEW)])) { (words.limit_name) }
        } }
    }
}

/// What the field `of` says: limits of a name that is typed into the form.
const NEW: &str = "new";

/// The form. It holds what it shows, so that nothing is changed that others have changed meanwhile.
pub(crate) async fn ask(view: &View<'_>) -> Shown {
    let (words, query) = (view.words, view.query);
    let named = Named::asked(view.client, query, words).await?;
    let (is_new, name) = (query.get("of") == NEW, query.given("name"));
    let all = if is_new { Limits::new() } else { named.open(view.client)?.limits().await? };
    let limits = of(&all, name);
    let is_of_queue = !is_new && name.is_none();
    let title = match name {
        _ if is_new => fill(words.limits_of_new, &[&named.name]),
        Some(name) => fill(words.limits_of_name, &[&name, &named.name]),
        None => fill(words.limits_of, &[&named.name]),
    };
    let was = if is_of_queue { written_with(&all) } else { written(&limits) };
    let known = if is_new { ("of", NEW) } else { ("name", name.unwrap_or_default()) };
    let fields = [&named.fields()[..], &[known, ("was", &was)]].concat();
    let input = |label: &str, name: &str, value: &str| {
        html! { label { (label) input name=(name) value=(value) size="12" maxlength="32" autocomplete="off"; } }
    };
    let form = view.form(
        "limits",
        &fields,
        &html! {
            @if is_new { label { (words.name) input name="name" maxlength="256" autocomplete="off" required; } }
            (input(words.concurrency, "concurrency", &or_none(limits.concurrency)))
            (input(words.rate, "rate", &rate_or_none(limits.rate)))
            @if is_of_queue { (input(words.max_length, "max_length", &or_none(all.max_length))) }
            button.primary { (words.save) }
        },
    );
    let body = html! {
        section.ask {
            h1 { (shown(&title)) }
            p { (words.limits_more) }
            (form)
            div.actions { a.button href=(named.link("queue", &[])) { (words.back) } }
        }
    };
    Ok(Page::new(title, body))
}

/// Errors: a page that says what is wrong with the form, or that others have changed these limits since it was shown.
pub(crate) async fn save(words: &Words, named: &Named, queue: &Queue, form: &Fields) -> Result<Done, Failure> {
    let wrong = |why: &str| Failure::from(Page::refusal(StatusCode::BAD_REQUEST, words.refused, why));
    let is_new = form.get("of") == NEW;
    let name = form.given("name").map(|name| if is_new { name.trim() } else { name }).filter(|name| !name.is_empty());
    if is_new && name.is_none() {
        return Err(wrong(words.bad_limited_name));
    }
    let concurrency = jobs(as_none(form.get("concurrency"))).map_err(|_| wrong(words.bad_concurrency))?;
    let rate = rate(as_none(form.get("rate"))).map_err(|_| wrong(words.bad_rate))?;
    let most = match name {
        None => Some(jobs(as_none(form.get("max_length"))).map_err(|_| wrong(words.bad_max_length))?),
        Some(_) => None,
    };
    let before = queue.limits().await?;
    let (mut after, there) = (before.clone(), of(&before, name));
    let is_there = if name.is_none() { written_with(&before) } else { written(&there) };
    if is_there != form.get("was") {
        let (concurrency, rate) = (or_none(there.concurrency), rate_or_none(there.rate));
        let now = match name {
            None => fill(words.limits_changed_all, &[&concurrency, &rate, &or_none(before.max_length)]),
            Some(_) => fill(words.limits_changed_more, &[&concurrency, &rate]),
        };
        let title = if is_new { words.limits_there } else { words.limits_changed };
        return Err(Page::refusal(StatusCode::CONFLICT, title, &now).into());
    }
    change(&mut after, name, Some(concurrency), Some(rate));
    Limit::set(most, &mut after.max_length);
    let is_same = after == before;
    // Those of the first partition were read, and a change that failed on its way is to be completed.
    if !is_same || named.partitions > 1 {
        queue.set_limits(&after).await.map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument if !error.is_partly_done() => wrong(&Error::to_string(&error)),
            _ => error.into(),
        })?;
    }
    let notice = match (is_same, named.partitions) {
        (false, _) => words.done_limits,
        (true, 0 | 1) => words.done_limits_same,
        (true, _) => words.done_limits_again,
    };
    Ok(Done::new(notice.to_owned(), named.link("queue", &[])))
}

/// Those of a name, or of the whole queue.
fn of(limits: &Limits, name: Option<&str>) -> NameLimits {
    let mut of = NameLimits::new();
    (of.concurrency, of.rate) = (limits.concurrency, limits.rate);
    name.map_or(of, |name| limits.names.get(name).cloned().unwrap_or_default())
}

fn written(limits: &NameLimits) -> String {
    format!("{} {}", or_none(limits.concurrency), rate_or_none(limits.rate))
}

/// Those of the whole queue, with its length.
fn written_with(limits: &Limits) -> String {
    format!("{} {}", written(&of(limits, None)), or_none(limits.max_length))
}

/// What a form leaves empty is no limit.
pub(crate) fn as_none(text: &str) -> &str {
    match text.trim() {
        "" => "none",
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::words::ENGLISH;

    #[test]
    fn a_wrong_limit_is_refused_in_the_words_of_the_command() {
        assert!(ENGLISH.bad_concurrency.contains(&jobs::<u32>("many").unwrap_err()));
        assert!(ENGLISH.bad_rate.contains(&rate("many").unwrap_err()));
        assert!(ENGLISH.bad_max_length.contains(&jobs::<u64>("many").unwrap_err()));
    }

    #[test]
    fn an_empty_field_is_no_limit() {
        assert_eq!(["", " ", "none", " 20 "].map(as_none), ["none", "none", "none", "20"]);
    }
}
