//! What all pages share: what they are made of, forms and lists, and what an error looks like.

use duly::{Client, Error, ErrorKind, QueueInfo};
use hyper::StatusCode;
use maud::{Markup, html};

use super::act::Act;
use super::door::Session;
use super::named::Named;
use super::request::{Fields, link};
use super::rights::Rights;
use super::sessions::{Sessions, new_form};
use super::text::{number, shown};
use super::words::{Words, fill};
use crate::each_queue::is_of_one_queue;

/// How many queues, or jobs, are on a page.
pub(crate) const A_PAGE: usize = 50;

/// What a page is made of.
pub(crate) struct View<'a> {
    pub(crate) client: &'a Client,
    pub(crate) words: &'static Words,
    pub(crate) query: &'a Fields,
    pub(crate) session: &'a Session,
    pub(crate) sessions: &'a Sessions,
    pub(crate) rights: Rights,
    /// Data, headers and results of jobs are for others.
    pub(crate) hides_data: bool,
}

/// A page without its frame.
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) title: String,
    pub(crate) body: Markup,
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { status: StatusCode::OK, title: title.into(), body }
    }

    /// What is not there, or cannot be done.
    pub(crate) fn refusal(status: StatusCode, title: &str, more: &str) -> Self {
        let body = html! {
            section.empty.warn { h1 { (title) } @if !more.is_empty() { p { (shown(more)) } } }
        };
        Self { status, title: title.to_owned(), body }
    }
}

/// What a page is about cannot be had.
pub(crate) enum Failure {
    /// That page says why.
    Page(Page),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Page> for Failure {
    fn from(page: Page) -> Self {
        Self::Page(page)
    }
}

pub(crate) type Shown = Result<Page, Failure>;

/// What was read of each queue, and why some cannot be read.
pub(crate) type Readable<'a, T> = (Vec<(&'a QueueInfo, T)>, Vec<(&'a QueueInfo, Error)>);

impl View<'_> {
    /// Separates what was read from what was not. It leaves out queues that somebody else or a newer version has written, or that the
    /// user may not read: the overview shows them.
    ///
    /// Errors: one that says something of all of them.
    pub(crate) fn readable<'a, T>(
        &self,
        queues: impl IntoIterator<Item = &'a QueueInfo>,
        read: Vec<Result<T, Error>>,
    ) -> Result<Readable<'a, T>, Error> {
        use ErrorKind as Kind;
        let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
        for (queue, read) in queues.into_iter().zip(read) {
            match read {
                Ok(read) => readable.push((queue, read)),
                Err(error) if !is_of_one_queue(self.client, &error) => return Err(error),
                Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::FormatTooNew | Kind::PermissionDenied) => {}
                Err(error) => unreadable.push((queue, error)),
            }
        }
        Ok((readable, unreadable))
    }

    /// May those who look at it do this?
    pub(crate) fn may(&self, act: &str) -> bool {
        Act::of(act).is_some_and(|act| self.rights.has(act.role()))
    }

    /// A button that acts; nothing for those who may not.
    pub(crate) fn button(&self, act: &str, fields: &[(&str, &str)], label: &str, class: &str) -> Markup {
        self.form(act, fields, &html! { button class=(class) { (label) } })
    }

    /// A form that acts, once.
    pub(crate) fn form(&self, act: &str, fields: &[(&str, &str)], inside: &Markup) -> Markup {
        // Without random numbers there are no forms, and whoever sends one is refused.
        let once = new_form().unwrap_or_default();
        html! {
            @if self.may(act) && !once.is_empty() {
                form method="post" action={ "act-" (act) } {
                    input type="hidden" name="form_token" value=(self.session.form_token);
                    input type="hidden" name="once" value=(once);
                    @for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
                        input type="hidden" name=(name) value=(value);
                    }
                    (inside)
                }
            }
        }
    }

    /// A link to the page that asks first.
    pub(crate) fn asking(&self, act: &str, fields: &[(&str, &str)], label: &str) -> Markup {
        html! {
            @if self.may(act) { a.button.danger href=(link(&format!("ask-{act}"), fields)) { (label) } }
        }
    }

    /// Links to the other pages of a list by number; `offset` is that of the first row shown. There are `count` rows, and pages for the first
    /// `reach` of them.
    pub(crate) fn pager(
        &self,
        named: &Named,
        state: &str,
        offset: usize,
        shown: usize,
        count: u64,
        reach: u64,
    ) -> Markup {
        let to = |offset: usize| named.link("queue", &[("state", state), ("offset", &offset.to_string())]);
        let is_more = u64::try_from(offset + shown).unwrap_or(u64::MAX) < reach;
        let rows =
            || fill(self.words.rows, &[&number(offset as u64 + 1), &number((offset + shown) as u64), &number(count)]);
        html! {
            nav.pager {
                @if offset > 0 {
                    a href=(to(0)) { (self.words.first_page) }
                    a rel="prev" href=(to(offset.saturating_sub(A_PAGE))) { (self.words.previous_page) }
                }
                @if shown > 0 { span { (rows()) } }
                @if is_more && shown > 0 { a rel="next" href=(to(offset + A_PAGE)) { (self.words.next_page) } }
            }
        }
    }

    /// Links to the other pages of the queues.
    pub(crate) fn queue_pager(&self, path: &str, cursor: Option<&str>) -> Markup {
        html! {
            @if cursor.is_some() || self.query.given("after").is_some() {
                nav.pager {
                    @if self.query.given("after").is_some() { a href=(path) { (self.words.first_page) } }
                    @if let Some(after) = cursor { a rel="next" href=(link(path, &[("after", after)])) { (self.words.next_page) } }
                }
            }
        }
    }
}

/// There is nothing to show.
pub(crate) fn empty(title: &str, more: &str) -> Markup {
    html! { section.empty { h2 { (title) } p { (more) } } }
}

/// Queues that could not be read. Of those that have the same kind of error one says it: of a node that is away there are many.
pub(crate) fn unread(queues: &[(&QueueInfo, Error)]) -> Markup {
    let mut by_kind: Vec<(Vec<&str>, &Error)> = Vec::new();
    for (queue, error) in queues {
        match by_kind.iter_mut().find(|(_, known)| known.kind() == error.kind()) {
            Some((names, _)) => names.push(&queue.name),
            None => by_kind.push((vec![&queue.name], error)),
        }
    }
    html! { @for (names, error) in by_kind { p.error { (shown(&format!("{}: {error}", names.join(", ")))) } } }
}

/// What the error of a call means to those who look. `title`: what it says where nothing better is known.
pub(crate) fn failed(error: &Error, words: &Words, title: &'static str, is_form: bool) -> Page {
    use ErrorKind as Kind;
    let (status, title) = match error.kind() {
        Kind::InvalidArgument if error.is_partly_done() => (StatusCode::CONFLICT, words.refused),
        Kind::InvalidArgument | Kind::TooLarge => (StatusCode::BAD_REQUEST, title),
        Kind::NotFound => (StatusCode::NOT_FOUND, title),
        Kind::Duplicate => (StatusCode::CONFLICT, words.refused),
        kind if kind.is_transient() || is_no_answer(kind) => (StatusCode::SERVICE_UNAVAILABLE, words.unreachable),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, title),
    };
    let title = if error.is_partly_done() { words.partly_done } else { title };
    let mut page = Page::refusal(status, title, &error.to_string());
    let more = match status {
        _ if error.is_partly_done() => Some(words.partly_done_more),
        StatusCode::SERVICE_UNAVAILABLE if is_form => Some(words.unreachable_form),
        StatusCode::SERVICE_UNAVAILABLE => Some(words.unreachable_more),
        _ => None,
    };
    page.body = html! { (page.body) @if let Some(more) = more { p.hint { (more) } } };
    page
}

fn is_no_answer(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::AuthenticationFailed | ErrorKind::WrongServer | ErrorKind::Embedded)
}
