//! The frame around each page: its head, its foot, and what was just done.

use std::collections::VecDeque;

use hyper::{Method, StatusCode};
use maud::{DOCTYPE, Markup, html};

use super::door::Session;
use super::request::{HOME, Request};
use super::site::{ICON, PACKAGE, SCRIPT, STYLE};
use super::text::shown;
use super::view::Page;
use super::words::{LANGUAGES, Words};
use crate::show::escaped;

/// The parts of the frame that a page does not know.
pub(crate) struct Frame<'a> {
    pub(crate) words: &'static Words,
    pub(crate) session: Option<&'a Session>,
    /// May those who look at it do more than that?
    pub(crate) may_act: bool,
    /// Those who are in can leave here.
    pub(crate) has_door: bool,
    pub(crate) request: &'a Request,
    pub(crate) notices: VecDeque<String>,
}

impl Frame<'_> {
    pub(crate) fn around(&self, page: &Page) -> Markup {
        let words = self.words;
        let path = &self.request.path;
        // What reads many jobs is read when it is asked for.
        let is_large = matches!(path.as_str(), "/jobs" | "/groups" | "/search" | "/server");
        let live = match page.status {
            // What was sent is not sent again by itself, and a file is no page.
            _ if self.session.is_none() || self.request.method == Method::POST || path == PACKAGE => None,
            // It is loaded as a whole as soon as the server is back.
            StatusCode::SERVICE_UNAVAILABLE => Some("again"),
            // A question stays as it was asked.
            _ if path.starts_with("/ask-") || path.starts_with("/act-") => None,
            _ => (!is_large).then_some(""),
        };
        html! {
            (DOCTYPE)
            html lang=(words.code) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (escaped(page.title.chars())) " · duly" }
                    link rel="stylesheet" href=(STYLE.address());
                    link rel="icon" href=(ICON.address());
                    script defer src=(SCRIPT.address()) {}
                }
                body {
                    a.skip href="#content" { (words.skip) }
                    (self.head())
                    @for notice in &self.notices { p.notice role="status" { (shown(notice)) } }
                    main #content data-live=[live] { (page.body) }
                    (self.foot())
                }
            }
        }
    }

    fn head(&self) -> Markup {
        let words = self.words;
        let pages = [
            (HOME, words.overview),
            ("failed", words.failed_page),
            ("schedules", words.schedules),
            ("workers", words.workers),
            ("topics", words.topics),
            ("server", words.server),
            ("actions", words.actions),
        ];
        let section = match self.request.path.as_str() {
            "/" | "/queue" | "/job" | "/jobs" => HOME,
            "/groups" => "failed",
            "/schedule" => "schedules",
            "/topic" => "topics",
            path => path.trim_start_matches('/'),
        };
        html! {
            header.top {
                a.brand href=(HOME) { "duly" }
                @if self.session.is_some() {
                    nav.pages {
                        @for (path, name) in pages { a href=(path) aria-current=[(path == section).then_some("page")] { (name) } }
                    }
                    form.search role="search" action="search" {
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
                @if let Some(session) = self.session && self.has_door {
                    form method="post" action="sign-out" {
                        input type="hidden" name="form_token" value=(session.form_token);
                        button.plain { (words.sign_out) }
                    }
                }
            }
        }
    }
}
