//! The jobs of a state that match a filter, and what is done to all of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duly::{Error, Filter, JobView, Matching, Queue, SearchPage, State};
use hyper::StatusCode;
use maud::{Markup, html};

use super::named::Named;
use super::queue::{STATES, state_name, state_of, table};
use super::request::Fields;
use super::text::number;
use super::view::{A_PAGE, Failure, Page, Shown, View};
use super::words::{Words, fill};

/// How long a page searches on while it is not full.
const SEARCH_ON: Duration = Duration::from_secs(2);

/// How long a request looks for jobs, and how long it acts on them: less together than a request may take.
const LOOK: Duration = Duration::from_secs(8);
const ACT: Duration = Duration::from_secs(10);

/// How many jobs one look finds at most.
pub(crate) const A_LOOK: usize = 500;

/// The fields of a filter, as in an address.
pub(crate) const FIELDS: [&str; 6] = ["name", "unnamed", "key_prefix", "error", "priority", "group"];

/// The filter that these fields say; an empty one if they say none.
pub(crate) fn filter_of(fields: &Fields, words: &Words) -> Result<Filter, Failure> {
    let mut filter = Filter::new();
    filter = fields.given("name").into_iter().fold(filter, Filter::name);
    filter = fields.given("key_prefix").into_iter().fold(filter, Filter::key_prefix);
    filter = fields.given("error").into_iter().fold(filter, Filter::error);
    filter = fields.given("group").into_iter().fold(filter, Filter::group);
    if fields.given("unnamed").is_some() {
        filter = filter.unnamed();
    }
    if let Some(priority) = fields.given("priority") {
        let wrong = || Page::refusal(StatusCode::BAD_REQUEST, words.went_wrong, words.bad_priority);
        filter = filter
            .priority(priority.parse().ok().filter(|priority| *priority <= duly::MAX_PRIORITY).ok_or_else(wrong)?);
    }
    Ok(filter)
}

/// Those fields that are given.
pub(crate) fn given(fields: &Fields) -> Vec<(&'static str, &str)> {
    FIELDS.into_iter().filter_map(|name| fields.given(name).map(|value| (name, value))).collect()
}

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let (words, query) = (view.words, view.query);
    let named = Named::asked(view.client, query, words).await?;
    let (state, filter) = (state_of(query.get("state")).unwrap_or(State::Failed), filter_of(query, words)?);
    let page = search(&named.open(view.client)?, state, &filter, query.given("cursor")).await?;
    // Other pages may have jobs that match.
    let is_only_page = page.cursor.is_none() && query.given("cursor").is_none();
    let body = html! {
        h1 { (words.filter_page) " " a.name href=(named.link("queue", &[("state", state.as_str())])) { (named.name) } }
        (form(view, &named, state))
        @if !page.jobs.is_empty() || !is_only_page { (actions(view, &named, state)) }
        @if !page.jobs.is_empty() {
            (table(view, &named, state, &page.jobs))
        } @else if page.cursor.is_some() {
            p.none { (fill(words.none_match_yet, &[&number(page.looked_at)])) }
        } @else {
            p.none { (if is_only_page { words.none_match } else { words.none_match_here }) }
        }
        (pager(view, &named, state, &page))
    };
    Ok(Page::new(words.filter_page, body))
}

/// The jobs of a page. Beside large jobs, one search looks at a few only: so the page searches on until it is full.
async fn search(queue: &Queue, state: State, filter: &Filter, cursor: Option<&str>) -> Result<SearchPage, Error> {
    let started = Instant::now();
    let mut page = queue.search(state, filter, cursor, A_PAGE).await?;
    // A ready list may have entries of one job that no longer count, and one search knows only its own.
    let of = |job: &JobView| (job.envelope.id.clone(), job.envelope.key.clone());
    let mut known: HashSet<_> = page.jobs.iter().map(of).collect();
    while page.jobs.len() < A_PAGE
        && started.elapsed() < SEARCH_ON
        && let Some(cursor) = &page.cursor
    {
        let next = queue.search(state, filter, Some(cursor), A_PAGE - page.jobs.len()).await?;
        page.jobs.extend(next.jobs.into_iter().filter(|job| known.insert(of(job))));
        page.looked_at += next.looked_at;
        page.cursor = next.cursor;
    }
    Ok(page)
}

fn form(view: &View<'_>, named: &Named, current: State) -> Markup {
    let (words, query) = (view.words, view.query);
    let texts = [
        ("name", words.name),
        ("key_prefix", words.key_prefix),
        ("error", words.error_has),
        ("priority", words.priority),
    ];
    html! {
        form.filter action="jobs" {
            @for (name, value) in named.fields() { input type="hidden" name=(name) value=(value); }
            @for hidden in ["group", "unnamed"] {
                @if let Some(value) = query.given(hidden) { input type="hidden" name=(hidden) value=(value); }
            }
            label { (words.state) select name="state" {
                @for state in STATES { option value=(state.as_str()) selected[state == current] { (state_name(state, words)) } }
            } }
            @for (name, label) in texts {
                label { (label) input name=(name) value=[query.given(name)] maxlength="256"; }
            }
            button { (words.search) }
        }
        @if let Some(group) = query.given("group") { p.hint { (words.kind) ": " b { (super::text::shown(group)) } } }
    }
}

fn actions(view: &View<'_>, named: &Named, state: State) -> Markup {
    let words = view.words;
    let fields = [&named.fields()[..], &[("state", state.as_str())], &given(view.query)].concat();
    html! {
        @if view.rights.act() { div.actions {
            @if state == State::Failed && view.may("requeue-matching") { a.button href=(super::request::link("ask-requeue-matching", &fields)) { (words.requeue_matching) } }
            (view.asking("cancel-matching", &fields, words.cancel_matching))
        } }
    }
}

fn pager(view: &View<'_>, named: &Named, state: State, page: &SearchPage) -> Markup {
    let (words, given) = (view.words, given(view.query));
    let counts = if page.cursor.is_some() { words.match_of_some } else { words.match_of };
    let to = |more: &[(&str, &str)]| named.link("jobs", &[&[("state", state.as_str())][..], &given, more].concat());
    html! {
        nav.pager {
            @if view.query.given("cursor").is_some() { a href=(to(&[])) { (words.first_page) } }
            span { (fill(counts, &[&number(page.jobs.len() as u64), &number(page.looked_at)])) }
            @if let Some(cursor) = &page.cursor { a rel="next" href=(to(&[("cursor", cursor)])) { (words.look_on) } }
        }
    }
}

/// What a filter asks for, in words.
pub(crate) fn described(fields: &Fields, words: &Words) -> Markup {
    let named = [
        ("name", words.name),
        ("key_prefix", words.key_prefix),
        ("error", words.error_has),
        ("priority", words.priority),
        ("group", words.kind),
    ];
    let is_unnamed = fields.given("unnamed").is_some();
    html! {
        ul.facts {
            @for (name, label) in named { @if let Some(value) = fields.given(name) { li { (label) ": " b { (super::text::shown(value)) } } } }
            @if is_unnamed { li { b { (words.unnamed) } } }
            @if given(fields).is_empty() { li { b { (words.every_job) } } }
        }
    }
}

/// Jobs that match.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) jobs: Matching,
    /// Or are there more to look at than a request has time for?
    pub(crate) is_all: bool,
}

/// All that match, or as many as can be found in the time that a request has.
/// `most`: so many jobs end it; the last look may find more.
pub(crate) async fn find(queue: &Queue, state: State, filter: Filter, most: usize) -> Result<Found, Error> {
    let (mut jobs, started) = (queue.matching(state, filter)?, Instant::now());
    while jobs.look().await? {
        if started.elapsed() > LOOK || jobs.len() > most {
            return Ok(Found { jobs, is_all: false });
        }
    }
    Ok(Found { jobs, is_all: true })
}

/// What was done to jobs that match.
pub(crate) struct Acted {
    /// To how many.
    pub(crate) done: u64,
    /// What has ended it before the others.
    pub(crate) error: Option<Error>,
}

/// Acts on what was found, as long as a request may, or until the program ends. What nothing was done to yet is still there.
pub(crate) async fn act(found: &mut Matching, is_requeue: bool, is_ending: &AtomicBool) -> Acted {
    let (mut done, started) = (0, Instant::now());
    while !found.is_empty() && started.elapsed() < ACT && !is_ending.load(Ordering::Relaxed) {
        match if is_requeue { found.requeue().await } else { found.cancel().await } {
            Ok(some) => done += some,
            Err(error) => return Acted { done, error: Some(error) },
        }
    }
    Acted { done, error: None }
}
