//! From a request to its response: who may ask, which page it is, and the headers that all have.

use std::sync::atomic::{AtomicBool, Ordering};

use duly::{Client, Error};
use hyper::header::{
    ACCEPT_LANGUAGE, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};
use maud::{Markup, html};

use super::act::{self, Act, Doubt};
use super::door::{Door, Refused, Session};
use super::frame::Frame;
use super::named::Named;
use super::request::{HOME, REFRESH, Request, Response, plain};
use super::rights::{Rights, Role};
use super::scrape::{self, Closed, Scrapes};
use super::sessions::Sessions;
use super::view::{Failure, Page, View, failed};
use super::words::{Words, fill};
use super::{
    actions, failed as failed_page, groups, health, job, matches, overview, queue, schedules, search, topics, workers,
};
use crate::show::escaped;

const HTML: &str = "text/html; charset=utf-8";
/// Where a job is saved as a file.
pub(crate) const PACKAGE: &str = "/package";
const LANGUAGE_COOKIE: &str = "duly_lang";
/// No script but its own, no other host, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const CROSS_ORIGIN_OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// A file that is part of the program.
pub(crate) struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

pub(crate) const STYLE: Asset =
    Asset { path: "/style.css", kind: "text/css; charset=utf-8", text: include_str!("style.css") };
pub(crate) const SCRIPT: Asset =
    Asset { path: "/script.js", kind: "text/javascript; charset=utf-8", text: include_str!("script.js") };
pub(crate) const ICON: Asset = Asset { path: "/icon.svg", kind: "image/svg+xml", text: include_str!("icon.svg") };

impl Asset {
    /// Another text has another address, so browsers may keep it.
    pub(crate) fn address(&self) -> String {
        let sum = self
            .text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        format!("{}?v={sum:016x}", self.path.trim_start_matches('/'))
    }

    fn response(&self) -> Response {
        Response::new(StatusCode::OK, self.kind, self.text).with(CACHE_CONTROL, "max-age=86400")
    }
}

/// Everything that answers.
pub(crate) struct Site {
    pub(crate) client: Client,
    pub(crate) sessions: Sessions,
    /// Of those who ask.
    pub(crate) rights: Rights,
    /// Data, headers and results of jobs are for those who may act.
    pub(crate) hides_data: bool,
    /// Takes a line for each action.
    pub(crate) log: Box<dyn Fn(String) + Send + Sync>,
    pub(crate) scrapes: Scrapes,
    /// Actions end as soon as they may, and no other begins.
    pub(crate) is_ending: AtomicBool,
}

/// An action under way. Its line is in the log when it is gone, also if it is cut off.
struct Acting<'a> {
    site: &'a Site,
    request: &'a Request,
    session: &'a Session,
    once: &'a str,
    what: String,
    outcome: String,
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        self.site.sessions.end(self.request, self.once);
        self.site.note(self.request, Some(self.session), &format!("{}: {}", self.what, self.outcome));
    }
}

impl Site {
    /// The program ends.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Answers one request.
    pub(crate) async fn handle(&self, request: Request) -> Response {
        let language = request.query.given("lang").and_then(Words::of);
        let mut response = self.answer(&request).await;
        if let Some(language) = language {
            let path = self.sessions.path_of_cookie();
            let cookie = format!("{LANGUAGE_COOKIE}={}{path}; Max-Age=31536000; SameSite=Strict", language.short);
            response = response.with(SET_COOKIE, &cookie);
        }
        closed(response)
    }

    async fn answer(&self, request: &Request) -> Response {
        if self.sessions.door().is_some_and(|door| !door.knows_host(request)) {
            return plain(StatusCode::FORBIDDEN, "this page is not known by this name: name it with --host");
        }
        if !self.rights.has(Role::View) {
            return plain(
                StatusCode::FORBIDDEN,
                "you may not see this page: the application that shows it decides who may",
            );
        }
        let is_post = request.method == Method::POST;
        if !is_post && request.method != Method::GET && request.method != Method::HEAD {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "GET or POST").with(ALLOW, "GET, HEAD, POST");
        }
        if is_post && !Door::is_own_form(request) {
            return plain(StatusCode::FORBIDDEN, &Door::foreign_form(request));
        }
        if let Some(asset) = [STYLE, SCRIPT, ICON].into_iter().find(|asset| asset.path == request.path) {
            return asset.response();
        }
        // Of a page in a folder the links of a frame would lead elsewhere.
        if request.path.get(1..).is_some_and(|name| name.contains('/')) {
            return plain(StatusCode::NOT_FOUND, "there is no such page");
        }
        if let Some(door) = self.sessions.door()
            && let Some(response) = self.at_the_door(door, request).await
        {
            return response;
        }
        let session = match self.sessions.session(request) {
            Err(error) => return plain(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
            Ok(None) => return self.ask_to_sign_in(request, StatusCode::UNAUTHORIZED, ""),
            Ok(Some(session)) => session,
        };
        let answering =
            async { if is_post { self.post(request, &session).await } else { self.get(request, &session).await } };
        self.sessions.with_session(request, &session, answering.await)
    }

    /// What those get who are not signed in yet; nothing if that is no matter of the door.
    async fn at_the_door(&self, door: &Door, request: &Request) -> Option<Response> {
        match request.path.as_str() {
            "/metrics" if request.method != Method::POST => Some(self.metrics(door, request).await),
            "/sign-in" => self
                .sign_in(door, request)
                .unwrap_or_else(|error| Some(plain(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()))),
            _ => None,
        }
    }

    async fn metrics(&self, door: &Door, request: &Request) -> Response {
        if door.session(request).is_none()
            && let Err(closed) = scrape::may_scrape(door, request)
        {
            // One that comes too often fills no log.
            if matches!(closed, Closed::Refused(Refused::Wrong)) {
                self.note(request, None, "metrics: refused");
            }
            return scrape::refusal(&closed, door);
        }
        match self.scrapes.text(&self.client).await {
            Ok(text) => Response::new(StatusCode::OK, crate::CONTENT_TYPE, text),
            Err(error) => plain(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        }
    }

    fn words(request: &Request) -> &'static Words {
        let asked = request.query.given("lang").or_else(|| request.cookie(LANGUAGE_COOKIE));
        asked.and_then(Words::of).unwrap_or_else(|| Words::accepted(request.header(ACCEPT_LANGUAGE)))
    }

    /// Nothing if neither a token nor a password is given.
    fn sign_in(&self, door: &Door, request: &Request) -> Result<Option<Response>, Error> {
        let words = Self::words(request);
        let come_in = |session: &Session| {
            self.note(request, Some(session), "sign in: done");
            Response::see(HOME).with(SET_COOKIE, &door.cookie(session, request))
        };
        if request.method == Method::POST {
            let refused = match door.enter_by_password(request.form.get("password"))? {
                Ok(session) => return Ok(Some(come_in(&session))),
                Err(refused) => refused,
            };
            // Those that come too often fill no log.
            if refused == Refused::Wrong {
                self.note(request, None, "sign in: refused");
            }
            let (status, why) = match refused {
                Refused::Wrong => (StatusCode::UNAUTHORIZED, words.wrong_password),
                Refused::TooOften => (StatusCode::TOO_MANY_REQUESTS, words.too_many),
            };
            return Ok(Some(self.ask_to_sign_in(request, status, why)));
        }
        // Programs that look what is behind a link ask for its head: that does not use up the token.
        if let Some(token) = request.query.given("token").filter(|_| request.method == Method::GET) {
            return Ok(Some(match door.enter_by_token(token)? {
                Some(session) => come_in(&session),
                // Whoever is in, and loads the address again, stays in.
                None if door.session(request).is_some() => Response::see(HOME),
                None => self.ask_to_sign_in(request, StatusCode::UNAUTHORIZED, words.used_token),
            }));
        }
        Ok(None)
    }

    fn ask_to_sign_in(&self, request: &Request, status: StatusCode, why: &str) -> Response {
        let words = Self::words(request);
        let body = html! {
            section.ask {
                h1 { (words.sign_in) }
                @if !why.is_empty() { p.error { (why) } }
                @if self.sessions.door().is_some_and(Door::has_password) {
                    form method="post" action="sign-in" {
                        label { (words.password) input name="password" type="password" autocomplete="current-password" required autofocus; }
                        button.primary { (words.sign_in) }
                    }
                } @else { p { (words.sign_in_token) } }
                @if Door::is_from_elsewhere(request) { p { a href=(request.address(&[])) { (words.go_on) } } }
            }
        };
        let page = Page { status, title: words.sign_in.to_owned(), body };
        self.framed(request, None, &page)
    }

    async fn get(&self, request: &Request, session: &Session) -> Response {
        if let Some(response) = self.of_one_queue(request).await {
            return response;
        }
        let words = Self::words(request);
        let view = View {
            client: &self.client,
            words,
            query: &request.query,
            session,
            sessions: &self.sessions,
            rights: self.rights,
            hides_data: self.hides_data && !self.rights.act(),
        };
        let shown = match request.path.as_str() {
            "/" | "/overview" => overview::show(&view).await,
            "/queue" => queue::show(&view).await,
            "/job" => job::show(&view).await,
            "/jobs" => matches::show(&view).await,
            "/groups" => groups::show(&view).await,
            "/failed" => failed_page::show(&view).await,
            "/schedules" => schedules::show(&view).await,
            "/schedule" => schedules::show_one(&view).await,
            "/workers" => workers::show(&view).await,
            "/topics" => topics::show(&view).await,
            "/topic" => topics::show_one(&view).await,
            "/server" => Box::pin(health::show(&view)).await,
            "/actions" => actions::show(&view).await,
            "/search" => search::show(&view).await,
            "/sign-in" if self.sessions.door().is_some() => return Response::see(HOME),
            PACKAGE => match job::package(&view).await {
                Ok(response) => return response,
                Err(failure) => Err(failure),
            },
            path => self.ask(path, &view).await,
        };
        let page = shown.unwrap_or_else(|failure| page_of(failure, words, words.went_wrong, request.path == PACKAGE));
        self.framed(request, Some(session), &page)
    }

    /// An address that somebody has typed, without the number of partitions, leads to one with it: what a page shows when it is refreshed
    /// is the queue that it has shown before, and no other one of that name.
    async fn of_one_queue(&self, request: &Request) -> Option<Response> {
        let name = request.query.given("queue")?;
        if request.query.given("parts").is_some() || request.is_refresh() {
            return None;
        }
        // The page itself says what is wrong.
        let named = Named::typed(&self.client, name).await.ok()??;
        Some(Response::see(&request.address(&[("parts", &named.parts)])))
    }

    async fn ask(&self, path: &str, view: &View<'_>) -> Result<Page, Failure> {
        let words = view.words;
        match path.strip_prefix("/ask-").and_then(Act::of) {
            None => Ok(Page::refusal(StatusCode::NOT_FOUND, words.not_found, "")),
            Some(act) if !self.rights.has(act.role()) => Ok(self.may_not(words)),
            Some(act) => act.ask(view).await,
        }
    }

    fn may_not(&self, words: &Words) -> Page {
        let why = if self.sessions.door().is_some() { words.refused_read_only } else { words.refused_role };
        Page::refusal(StatusCode::FORBIDDEN, words.refused, why)
    }

    async fn post(&self, request: &Request, session: &Session) -> Response {
        let words = Self::words(request);
        let refuse = |status, title, more| self.framed(request, Some(session), &Page::refusal(status, title, more));
        if !session.is_own_token(request.form.get("form_token")) {
            return refuse(StatusCode::FORBIDDEN, words.refused, words.refused_form);
        }
        if let Some(door) = self.sessions.door().filter(|_| request.path == "/sign-out") {
            return Response::see(HOME).with(SET_COOKIE, &door.leave(session, request));
        }
        let Some(act) = request.path.strip_prefix("/act-").and_then(Act::of) else {
            return refuse(StatusCode::NOT_FOUND, words.not_found, "");
        };
        if !self.rights.has(act.role()) {
            return self.framed(request, Some(session), &self.may_not(words));
        }
        let Some(once) = request.form.given("once") else {
            return refuse(StatusCode::FORBIDDEN, words.refused, words.refused_form);
        };
        if self.is_ending.load(Ordering::Relaxed) {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "this page ends now, and nothing was done");
        }
        let claim = match self.sessions.send(&self.client, request, once, words).await {
            Ok(Ok(claim)) => claim,
            Ok(Err(why)) => return refuse(StatusCode::CONFLICT, words.refused, why),
            // Nothing was done.
            Err(error) => return self.framed(request, Some(session), &failed(&error, words, words.refused, true)),
        };
        let (what, outcome) = (act.described(&request.form), act::CUT_OFF.to_owned());
        let mut acting = Acting { site: self, request, session, once, what, outcome };
        let ended = act.run(&self.client, &self.sessions, &self.is_ending, words, &request.form).await;
        acting.outcome = act::outcome(&ended);
        let who = self.who(request, Some(session));
        if let Err(why) = Box::pin(actions::keep(&self.client, &who, &acting.what, &ended)).await {
            acting.outcome = format!("{}; {why}", acting.outcome);
        }
        if ended.as_ref().err().map(Doubt::of) == Some(Doubt::None) {
            self.sessions.take_back(request, once, claim).await;
        }
        let what = acting.what.clone();
        drop(acting);
        match ended {
            Ok(done) => self.sessions.notify(request, done.notice, Response::see(&done.location)),
            Err(failure) => self.not_done(request, session, &what, failure),
        }
    }

    fn not_done(&self, request: &Request, session: &Session, what: &str, failure: Failure) -> Response {
        let words = Self::words(request);
        let doubt = Doubt::of(&failure);
        let unseen = match doubt {
            Doubt::None => words.unseen_not_done,
            Doubt::All => words.unseen_maybe_done,
            Doubt::Part => words.unseen_partly_done,
        };
        let unseen = fill(unseen, &[&what, &act::reason(&failure)]);
        let mut page = page_of(failure, words, words.refused, true);
        if doubt == Doubt::All {
            page.body = html! { (page.body) p.hint { (words.maybe_done) } };
        }
        Response { unseen: Some((session.clone(), unseen)), ..self.framed(request, Some(session), &page) }
    }

    /// What the browser gets of an action that takes longer than it waits. What it comes to, the next page says when it has ended.
    pub(crate) fn goes_on(&self, request: &Request) -> Response {
        let words = Self::words(request);
        let body = html! { section.ask { h1 { (words.goes_on_title) } p { (words.goes_on_yet) } p { a href=(HOME) { (words.overview) } } } };
        let page = Page { status: StatusCode::ACCEPTED, title: words.goes_on_title.to_owned(), body };
        closed(self.framed(request, self.sessions.session(request).ok().flatten().as_ref(), &page))
    }

    /// The next page of this session says it, as nobody waits for the answer any more.
    pub(crate) fn notify_session(&self, session: &Session, notice: String) {
        if let Some(door) = self.sessions.door() {
            door.notify_session(session, notice);
        }
    }

    /// Who, and from where.
    fn who(&self, request: &Request, session: Option<&Session>) -> String {
        let (who, peer) = (session.map_or("none", |session| &session.name), request.peer());
        match &self.sessions {
            Sessions::Kept { .. } => format!("session {who} from {peer}"),
            Sessions::Stateless { .. } => format!("user {} from {peer}", escaped(who.chars().take(128))),
        }
    }

    /// When, who, and what.
    fn note(&self, request: &Request, session: Option<&Session>, what: &str) {
        let who = self.who(request, session);
        (self.log)(match &self.sessions {
            Sessions::Kept { .. } => {
                let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
                format!("{now} {who}: {what}")
            }
            Sessions::Stateless { .. } => format!("{who}: {what}"),
        });
    }

    fn framed(&self, request: &Request, session: Option<&Session>, page: &Page) -> Response {
        if request.is_refresh() {
            return Response::new(page.status, HTML, page.body.0.clone()).with(REFRESH, "1");
        }
        // Browsers also ask for what nobody sees, such as an icon, and then there may be no such page.
        let is_seen = request.method == Method::GET && page.status == StatusCode::OK;
        let notices = session.filter(|_| is_seen).map(|_| self.sessions.take_notices(request)).unwrap_or_default();
        let (words, may_act, has_door) = (Self::words(request), self.rights.act(), self.sessions.door().is_some());
        let frame = Frame { words, session, may_act, has_door, request, notices };
        let whole: Markup = frame.around(page);
        let response = Response::new(page.status, HTML, whole.into_string());
        if is_seen { self.sessions.without_notices(request, response) } else { response }
    }
}

fn page_of(failure: Failure, words: &Words, title: &'static str, is_form: bool) -> Page {
    match failure {
        Failure::Page(page) => page,
        Failure::Error(error) => failed(&error, words, title, is_form),
    }
}

/// With what keeps the page to itself.
fn closed(mut response: Response) -> Response {
    if !response.headers.contains_key(CACHE_CONTROL) {
        response = response.with(CACHE_CONTROL, "no-store");
    }
    response
        .with(CONTENT_SECURITY_POLICY, POLICY)
        .with(X_CONTENT_TYPE_OPTIONS, "nosniff")
        .with(REFERRER_POLICY, "same-origin")
        .with(CROSS_ORIGIN_OPENER, "same-origin")
        .with(CROSS_ORIGIN_RESOURCE, "same-origin")
}
