//! What all pages share: texts, counts, times, forms, tables, and the frame around them.

use duly::{Client, Error, ErrorKind, Millis, Queue};
use hyper::StatusCode;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::door::{Session, secret};
use super::request::{Fields, Request, link};
use super::words::{LANGUAGES, Words, fill};
use crate::show::{escaped, is_invisible, moment};
use crate::target::{all, open};

/// How many queues, or jobs, are on a page.
pub(crate) const A_PAGE: usize = 50;

/// What a page is made of.
pub(crate) struct View<'a> {
    pub(crate) client: &'a Client,
    /// The beginning of all keys.
    pub(crate) prefix: &'a str,
    pub(crate) words: &'static Words,
    pub(crate) query: &'a Fields,
    pub(crate) session: &'a Session,
    pub(crate) may_act: bool,
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

/// A queue as pages name it.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) partitions: u16,
    /// As in an address; empty if there are none.
    pub(crate) parts: String,
}

impl Named {
    pub(crate) fn new(name: &str, partitions: u16) -> Self {
        let parts = if partitions == 0 { String::new() } else { partitions.to_string() };
        Self { name: name.to_owned(), partitions, parts }
    }

    pub(crate) fn open(&self, client: &Client) -> Result<Queue, Error> {
        open(client, &self.name, self.partitions)
    }

    /// The address of a page about it, with further fields.
    pub(crate) fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        link(path, &[&self.fields()[..], more].concat())
    }

    pub(crate) fn fields(&self) -> [(&str, &str); 2] {
        [("queue", &self.name), ("parts", &self.parts)]
    }

    pub(crate) fn job(&self, id: &str) -> String {
        self.link("/job", &[("id", id)])
    }

    /// The queue of a request. One with partitions is named with their number, as the list of queues says it; without a number it is the
    /// queue that has none, if there is one.
    pub(crate) async fn asked(client: &Client, fields: &Fields, words: &Words) -> Result<Self, Failure> {
        let name = fields.get("queue");
        let wanted = fields.given("parts").map(|parts| parts.parse::<u16>().unwrap_or(u16::MAX));
        let listed = all(client).await?;
        let of_name = || listed.iter().filter(|queue| queue.name == name).map(|queue| queue.partitions);
        let found = match wanted {
            Some(wanted) => of_name().find(|partitions| *partitions == wanted),
            None => of_name().min(),
        };
        let missing = || Page::refusal(StatusCode::NOT_FOUND, words.no_queue, words.no_queue_more);
        Ok(Self::new(name, found.ok_or_else(missing)?))
    }
}

impl View<'_> {
    /// A button that acts; nothing for those who may only look.
    pub(crate) fn button(&self, act: &str, fields: &[(&str, &str)], label: &str, class: &str) -> Markup {
        self.form(act, fields, &html! { button class=(class) { (label) } })
    }

    /// A form that acts, once.
    pub(crate) fn form(&self, act: &str, fields: &[(&str, &str)], inside: &Markup) -> Markup {
        // Without random numbers there are no forms, and whoever sends one is refused.
        let once = secret().unwrap_or_default();
        html! {
            @if self.may_act && !once.is_empty() {
                form method="post" action={ "/act/" (act) } {
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
            @if self.may_act { a.button.danger href=(link(&format!("/ask/{act}"), fields)) { (label) } }
        }
    }

    /// Links to the other pages of a list by number; `offset` is that of the first row shown.
    pub(crate) fn pager(&self, named: &Named, state: &str, offset: usize, shown: usize, count: u64) -> Markup {
        let to = |offset: usize| named.link("/queue", &[("state", state), ("offset", &offset.to_string())]);
        let is_more = u64::try_from(offset + shown).unwrap_or(u64::MAX) < count;
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

/// A text of somebody else's: what would be invisible, or change what stands beside it, is shown as a symbol.
pub(crate) fn shown(text: &str) -> Markup {
    visible(text, false)
}

/// The same on several lines.
pub(crate) fn shown_lines(text: &str) -> Markup {
    visible(text, true)
}

fn visible(text: &str, has_lines: bool) -> Markup {
    let mut plain = String::new();
    let mut written = String::new();
    let flush = |plain: &mut String, written: &mut String| {
        written.push_str(&html! { (plain) }.into_string());
        plain.clear();
    };
    for character in text.chars() {
        if has_lines && matches!(character, '\n' | '\t') {
            plain.push(character);
        } else if let Some(symbol) = symbol(character) {
            flush(&mut plain, &mut written);
            let name = format!("U+{:04X}", u32::from(character));
            written.push_str(&html! { span.symbol title=(name) { (symbol) } }.into_string());
        } else {
            plain.push(character);
        }
    }
    flush(&mut plain, &mut written);
    PreEscaped(written)
}

fn symbol(character: char) -> Option<String> {
    let code = u32::from(character);
    match code {
        0..0x20 => char::from_u32(0x2400 + code).map(String::from),
        0x7f => Some("\u{2421}".to_owned()),
        _ if character.is_control() || is_invisible(character) => Some(format!("⟨{code:X}⟩")),
        _ => None,
    }
}

/// The beginning of a text, for a row of a table.
pub(crate) fn beginning(text: &str) -> String {
    const MOST: usize = 120;
    let first = text.lines().next().unwrap_or("");
    let mut beginning: String = first.chars().take(MOST).collect();
    if beginning.len() < text.trim_end().len() {
        beginning.push('…');
    }
    beginning
}

/// With a comma before every three digits.
pub(crate) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut written = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

/// A time of the server, in UTC.
pub(crate) fn time(at: Option<Millis>) -> Markup {
    html! {
        @match at {
            Some(at) => { @let text = moment(at); time datetime=(format!("{}Z", text.replace(' ', "T"))) { (text) } }
            None => { span.none { "–" } }
        }
    }
}

/// A text of somebody else's, or a dash.
pub(crate) fn or_dash(text: Option<&str>) -> Markup {
    html! {
        @match text.filter(|text| !text.is_empty()) {
            Some(text) => { (shown(text)) }
            None => { span.none { "–" } }
        }
    }
}

/// What the error of a call means to those who look.
pub(crate) fn failed(error: &Error, words: &Words) -> Page {
    use ErrorKind as Kind;
    let (status, title) = match error.kind() {
        Kind::InvalidArgument | Kind::TooLarge => (StatusCode::BAD_REQUEST, words.went_wrong),
        Kind::NotFound => (StatusCode::NOT_FOUND, words.went_wrong),
        Kind::Duplicate => (StatusCode::CONFLICT, words.refused),
        kind if kind.is_transient() || is_no_answer(kind) => (StatusCode::SERVICE_UNAVAILABLE, words.unreachable),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, words.went_wrong),
    };
    let mut page = Page::refusal(status, title, &error.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        page.body = html! { (page.body) p.hint { (words.unreachable_more) } };
    }
    page
}

fn is_no_answer(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::AuthenticationFailed | ErrorKind::WrongServer | ErrorKind::Embedded)
}

/// The parts of the frame that a page does not know.
pub(crate) struct Frame<'a> {
    pub(crate) words: &'static Words,
    pub(crate) session: Option<&'a Session>,
    pub(crate) may_act: bool,
    pub(crate) request: &'a Request,
    pub(crate) notice: Option<String>,
}

impl Frame<'_> {
    pub(crate) fn around(&self, page: &Page) -> Markup {
        let words = self.words;
        let path = &self.request.path;
        let is_live = self.session.is_some() && !path.starts_with("/ask/") && !path.starts_with("/act/");
        html! {
            (DOCTYPE)
            html lang=(words.code) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (escaped(page.title.chars())) " · duly" }
                    link rel="stylesheet" href=(super::site::STYLE.address());
                    link rel="icon" href=(super::site::ICON.address());
                    script defer src=(super::site::SCRIPT.address()) {}
                }
                body {
                    a.skip href="#content" { (words.skip) }
                    (self.head())
                    @if let Some(notice) = &self.notice { p.notice role="status" { (shown(notice)) } }
                    main #content data-live[is_live] { (page.body) }
                    (self.foot())
                }
            }
        }
    }

    fn head(&self) -> Markup {
        let words = self.words;
        let pages = [
            ("/", words.overview),
            ("/failed", words.failed_page),
            ("/schedules", words.schedules),
            ("/workers", words.workers),
        ];
        let section = match self.request.path.as_str() {
            "/queue" | "/job" => "/",
            "/schedule" => "/schedules",
            path => path,
        };
        html! {
            header.top {
                a.brand href="/" { "duly" }
                @if self.session.is_some() {
                    nav.pages {
                        @for (path, name) in pages { a href=(path) aria-current=[(path == section).then_some("page")] { (name) } }
                    }
                    form.search role="search" action="/search" {
                        input type="search" name="q" value=[self.request.query.given("q")] placeholder=(words.search_hint)
                            aria-label=(words.search_hint) maxlength="256";
                    }
                    button.live #live hidden data-live=(words.live) data-held=(words.held) data-stopped=(words.stopped)
                        data-stale=(words.stale) data-ended=(words.no_refresh) { (words.live) }
                }
            }
        }
    }

    fn foot(&self) -> Markup {
        let words = self.words;
        html! {
            footer {
                span { "duly " (env!("CARGO_PKG_VERSION")) }
                @if self.session.is_some() && !self.may_act { span.badge { (words.read_only) } }
                span.languages {
                    @for (code, name, _) in LANGUAGES {
                        @if code == words.short { b { (name) } }
                        @else { a hreflang=(code) href=(self.request.address(&[("lang", code)])) { (name) } }
                    }
                }
                @if let Some(session) = self.session {
                    form method="post" action="/sign-out" {
                        input type="hidden" name="form_token" value=(session.form_token);
                        button.plain { (words.sign_out) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_does_nothing_and_hides_nothing() {
        assert_eq!(shown("<script>alert(1)</script>\"").into_string(), "&lt;script&gt;alert(1)&lt;/script&gt;&quot;");
        let escape = r#"a<span class="symbol" title="U+001B">␛</span>[2J"#;
        assert_eq!(shown("a\u{1b}[2J").into_string(), escape);
        assert!(shown("a\u{202e}b").into_string().contains("⟨202E⟩"));
        assert!(shown("a\nb").into_string().contains('␊'));
        assert_eq!(shown_lines("a\n\tb").into_string(), "a\n\tb");
        assert_eq!(shown("订单").into_string(), "订单");
    }

    #[test]
    fn numbers_and_beginnings_are_read_at_a_glance() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(beginning("one\ntwo"), "one…");
        assert_eq!(beginning("one\n"), "one");
        assert_eq!(beginning(&"x".repeat(500)).chars().count(), 121);
        assert_eq!(beginning(""), "");
    }
}
