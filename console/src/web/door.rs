//! Who may come in: the address that is asked for, the one-time token, the password, sessions, and where a form comes from.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duly::{Error, ErrorKind};
use hyper::header::{HOST, HeaderName, ORIGIN};
use subtle::ConstantTimeEq as _;

use super::request::Request;
use crate::show::escaped;

/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 3600);
const MOST_SESSIONS: usize = 100;
/// The forms of a session that are remembered as sent.
const MOST_SENT: usize = 1000;
/// What of a form is remembered: its secret, or what somebody else has put there.
const LONGEST_FORM: usize = 64;
/// What the next page of a session says at the most.
const MOST_NOTICES: usize = 10;
/// So many wrong passwords within `WRONG_WITHIN`, and no other is looked at until that is over.
const MOST_WRONG: usize = 10;
const WRONG_WITHIN: Duration = Duration::from_secs(60);

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What an error shows of a name.
const MOST_OF_NAME: usize = 128;

/// Of secrets.
const BYTES: usize = 24;

/// Bytes that nobody can guess, as text.
pub(crate) fn secret() -> Result<String, Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("the system gives no random numbers: {error}")))?;
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or('0');
    Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
}

fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// A form that was sent.
#[derive(Debug, Clone)]
struct Sent {
    form: String,
    has_ended: bool,
}

/// How often a form was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// This is the first time, and it is under way now.
    First,
    /// It was sent before, and is under way.
    UnderWay,
    /// It was sent before, and has acted.
    Ended,
}

/// A browser that has come in.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// What its cookie holds.
    secret: String,
    /// What its forms hold.
    pub(crate) form_token: String,
    /// Its name in the log.
    pub(crate) name: String,
    /// The browser has no cookie of it yet.
    pub(crate) is_new: bool,
}

/// What is kept of a session.
#[derive(Debug)]
struct Kept {
    session: Session,
    until: Instant,
    /// Forms that were sent: each acts once.
    sent: VecDeque<Sent>,
    /// What its next page says.
    notices: VecDeque<String>,
}

impl Kept {
    fn notify(&mut self, notice: String) {
        if self.notices.len() == MOST_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }
}

impl Session {
    fn new() -> Result<Self, Error> {
        let name = secret()?.split_off(40);
        Ok(Self { secret: secret()?, form_token: secret()?, name, is_new: true })
    }

    /// One of which nothing is kept: its forms hold what its cookie holds, which no other page can read or set. Without such a cookie a new one.
    pub(crate) fn of_cookie(cookie: Option<&str>, name: String) -> Result<Self, Error> {
        let known = cookie.filter(|cookie| Self::is_secret(cookie));
        let secret = known.map_or_else(secret, |known| Ok(known.to_owned()))?;
        Ok(Self { form_token: secret.clone(), secret, name, is_new: known.is_none() })
    }

    /// Has a text the form of our secrets?
    pub(crate) fn is_secret(text: &str) -> bool {
        text.len() == 2 * BYTES && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    }
}

#[derive(Debug, Default)]
struct Inside {
    /// Nothing once it was used.
    token: Option<String>,
    sessions: VecDeque<Kept>,
    /// When passwords were wrong.
    wrong: VecDeque<Instant>,
    /// When those of scrapers were: a scraper with an old password keeps nobody from signing in, and nobody keeps scrapers out.
    wrong_of_scrapers: VecDeque<Instant>,
}

/// Why nobody comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Wrong,
    TooOften,
}

#[derive(Debug)]
pub(crate) struct Door {
    password: Option<String>,
    /// Names of this page besides those of the loopback and addresses.
    hosts: Vec<String>,
    cookie: String,
    inside: Mutex<Inside>,
}

impl Door {
    /// `port`: cookies of one host are sent to all its ports. Without a password there is a token.
    pub(crate) fn new(password: Option<String>, hosts: Vec<String>, port: u16) -> Result<Self, Error> {
        let token = if password.is_none() { Some(secret()?) } else { None };
        let inside = Mutex::new(Inside { token, ..Inside::default() });
        Ok(Self { password, hosts, cookie: format!("duly_{port}"), inside })
    }

    /// Nothing that is done under the lock can panic half way.
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token(&self) -> Option<String> {
        self.inside().token.clone()
    }

    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// A foreign page can give its own name the address of this one, and would then read what this one answers: so names must be known.
    /// Addresses nobody can give away.
    pub(crate) fn knows_host(&self, request: &Request) -> bool {
        let name = without_port(request.header(HOST));
        let is_address = name.parse::<std::net::Ipv4Addr>().is_ok() || name.starts_with('[');
        is_address
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    /// Does a form come from a page of this host? Browsers say so.
    pub(crate) fn is_own_form(request: &Request) -> bool {
        let site = request.header(SEC_FETCH_SITE);
        let origin = request.header(ORIGIN);
        match (site, origin) {
            ("", "") => false,
            ("same-origin", "") => true,
            ("same-origin" | "", origin) => is_of_host(origin, request.header(HOST)),
            _ => false,
        }
    }

    /// Why such a form is refused.
    pub(crate) fn foreign_form(request: &Request) -> String {
        let (origin, host) = (request.header(ORIGIN), request.header(HOST));
        let why = "this form does not come from this page: load the page, and send it from there";
        if origin.is_empty() || !matches!(request.header(SEC_FETCH_SITE), "same-origin" | "") {
            return why.to_owned();
        }
        if origin == "null" {
            return format!(
                "{why}. The browser may not say where it comes from: a proxy that sets `Referrer-Policy: no-referrer` keeps it from that, and \
                 must leave this page's own header as it is"
            );
        }
        // It may be the page's own form, if a proxy has changed the name by which the browser knows the page.
        let short = |text: &str| escaped(text.chars().take(MOST_OF_NAME));
        let (origin, host) = (short(origin), short(host));
        format!(
            "{why}. It comes from {origin}, and the header Host says that this page is {host}: a proxy between the two must pass the \
             browser's Host on, as nginx does with `proxy_set_header Host $http_host;`"
        )
    }

    /// Does a link of another page lead here? Browsers keep the cookie back then, though there may be a session.
    pub(crate) fn is_from_elsewhere(request: &Request) -> bool {
        request.method == hyper::Method::GET && request.header(SEC_FETCH_SITE) == "cross-site"
    }

    /// Takes the token, which is then of no use any more. Gives the new session.
    pub(crate) fn enter_by_token(&self, token: &str) -> Result<Option<Session>, Error> {
        let session = Session::new()?;
        let mut inside = self.inside();
        if !inside.token.as_ref().is_some_and(|known| same(known, token)) {
            return Ok(None);
        }
        inside.token = None;
        Ok(Some(begin(&mut inside, session)))
    }

    /// Gives the new session.
    pub(crate) fn enter_by_password(&self, password: &str) -> Result<Result<Session, Refused>, Error> {
        let session = Session::new()?;
        let mut inside = self.inside();
        Ok(self.check(password, &mut inside.wrong).map(|()| begin(&mut inside, session)))
    }

    /// Is this the password?
    pub(crate) fn check_scraper(&self, password: &str) -> Result<(), Refused> {
        self.check(password, &mut self.inside().wrong_of_scrapers)
    }

    fn check(&self, password: &str, wrong: &mut VecDeque<Instant>) -> Result<(), Refused> {
        let now = Instant::now();
        wrong.retain(|at| now.duration_since(*at) < WRONG_WITHIN);
        if wrong.len() >= MOST_WRONG {
            return Err(Refused::TooOften);
        }
        if !self.password.as_ref().is_some_and(|known| same(known, password)) {
            wrong.push_back(now);
            return Err(Refused::Wrong);
        }
        Ok(())
    }

    /// What the browser keeps of its session.
    pub(crate) fn cookie(&self, session: &Session, request: &Request) -> String {
        self.written(&session.secret, SESSION.as_secs(), request)
    }

    fn written(&self, value: &str, seconds: u64, request: &Request) -> String {
        let secure = if request.is_over_tls { "; Secure" } else { "" };
        format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", self.cookie)
    }

    pub(crate) fn session(&self, request: &Request) -> Option<Session> {
        self.with_session(request, |kept| kept.session.clone())
    }

    fn with_session<T>(&self, request: &Request, use_it: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let secret = request.cookie(&self.cookie)?;
        let mut inside = self.inside();
        let now = Instant::now();
        inside.sessions.retain(|kept| kept.until > now);
        inside.sessions.iter_mut().find(|kept| same(&kept.session.secret, secret)).map(use_it)
    }

    /// Ends the session. Gives the cookie that takes the place of its own.
    pub(crate) fn leave(&self, session: &Session, request: &Request) -> String {
        self.inside().sessions.retain(|kept| !same(&kept.session.secret, &session.secret));
        self.written("", 0, request)
    }

    /// A form is sent. One of nobody's counts as sent before.
    pub(crate) fn send(&self, request: &Request, form: &str) -> Sending {
        if form.len() > LONGEST_FORM {
            return Sending::Ended;
        }
        let sending = self.with_session(request, |kept| {
            if let Some(sent) = kept.sent.iter().find(|sent| sent.form == form) {
                return if sent.has_ended { Sending::Ended } else { Sending::UnderWay };
            }
            kept.sent.push_back(Sent { form: form.to_owned(), has_ended: false });
            if kept.sent.len() > MOST_SENT {
                kept.sent.pop_front();
            }
            Sending::First
        });
        sending.unwrap_or(Sending::Ended)
    }

    /// What the form asked for has ended.
    pub(crate) fn end(&self, request: &Request, form: &str) {
        self.with_session(request, |kept| {
            for sent in kept.sent.iter_mut().filter(|sent| sent.form == form) {
                sent.has_ended = true;
            }
        });
    }

    /// The form did nothing, and may be sent again.
    pub(crate) fn take_back(&self, request: &Request, form: &str) {
        self.with_session(request, |kept| kept.sent.retain(|sent| sent.form != form));
    }

    pub(crate) fn notify(&self, request: &Request, notice: String) {
        self.with_session(request, |kept| kept.notify(notice));
    }

    /// The same, when the request is over.
    pub(crate) fn notify_session(&self, session: &Session, notice: String) {
        let mut inside = self.inside();
        if let Some(kept) = inside.sessions.iter_mut().find(|kept| same(&kept.session.secret, &session.secret)) {
            kept.notify(notice);
        }
    }

    /// The oldest first.
    pub(crate) fn take_notices(&self, request: &Request) -> VecDeque<String> {
        self.with_session(request, |kept| std::mem::take(&mut kept.notices)).unwrap_or_default()
    }
}

impl Session {
    pub(crate) fn is_own_token(&self, token: &str) -> bool {
        same(&self.form_token, token)
    }
}

fn begin(inside: &mut Inside, session: Session) -> Session {
    let until = Instant::now() + SESSION;
    let kept = Kept { session: session.clone(), until, sent: VecDeque::new(), notices: VecDeque::new() };
    inside.sessions.push_back(kept);
    if inside.sessions.len() > MOST_SESSIONS {
        inside.sessions.pop_front();
    }
    session
}

/// Browsers leave the usual port out of an origin, and some proxies put it into the Host.
fn is_of_host(origin: &str, host: &str) -> bool {
    let Some((scheme, name)) = origin.split_once("://") else { return false };
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let is_it = |host: &str| host.eq_ignore_ascii_case(name);
    is_it(host) || host.strip_suffix(usual).is_some_and(is_it)
}

pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The colons of an address of IPv6 stand in brackets.
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderMap, HeaderValue};

    use super::*;

    fn request(headers: &[(&'static str, &str)]) -> Request {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        Request { headers: map, ..Request::default() }
    }

    fn come_in(door: &Door) -> (Session, Request) {
        let session = door.enter_by_token(&door.token().unwrap()).unwrap().unwrap();
        let cookie = door.cookie(&session, &request(&[]));
        let request = request(&[("cookie", &format!("other=1; {}", cookie.split(';').next().unwrap()))]);
        (door.session(&request).unwrap(), request)
    }

    #[test]
    fn a_token_opens_once() {
        let door = Door::new(None, Vec::new(), 80).unwrap();
        let token = door.token().unwrap();
        assert!(door.enter_by_token("").unwrap().is_none());
        assert!(door.enter_by_token(&token[1..]).unwrap().is_none());
        assert!(door.enter_by_token(&token).unwrap().is_some());
        assert!(door.enter_by_token(&token).unwrap().is_none());
        assert!(door.token().is_none());
    }

    #[test]
    fn a_form_acts_once_unless_it_did_nothing() {
        let door = Door::new(None, Vec::new(), 80).unwrap();
        let (session, request) = come_in(&door);
        let sent = |form| door.send(&request, form);
        assert_eq!(["a", "a", "b"].map(sent), [Sending::First, Sending::UnderWay, Sending::First]);
        door.end(&request, "b");
        assert_eq!(["a", "b"].map(sent), [Sending::UnderWay, Sending::Ended]);
        door.take_back(&request, "a");
        assert_eq!(sent("a"), Sending::First);
        assert!(door.leave(&session, &request).contains("=; Path=/; Max-Age=0; HttpOnly"));
        assert!(door.session(&request).is_none() && sent("c") == Sending::Ended);
    }

    #[test]
    fn what_is_kept_of_a_session_is_bounded() {
        let door = Door::new(None, Vec::new(), 80).unwrap();
        let (session, request) = come_in(&door);
        assert_eq!(door.send(&request, &"x".repeat(LONGEST_FORM + 1)), Sending::Ended);
        for number in 0..2000 {
            assert_eq!(door.send(&request, &number.to_string()), Sending::First);
            door.notify_session(&session, number.to_string());
        }
        assert_eq!(door.inside().sessions[0].sent.len(), MOST_SENT);
        assert_eq!(door.take_notices(&request), (1990..2000).map(|number| number.to_string()).collect::<Vec<_>>());
        assert!(door.take_notices(&request).is_empty());
    }

    #[test]
    fn a_cookie_is_for_tls_alone_where_a_proxy_adds_that() {
        let door = Door::new(None, Vec::new(), 80).unwrap();
        let (session, _) = come_in(&door);
        let is_secure =
            |is_over_tls| door.cookie(&session, &Request { is_over_tls, ..request(&[]) }).ends_with("; Secure");
        assert!(is_secure(true) && !is_secure(false));
    }

    #[test]
    fn wrong_passwords_are_few() {
        let door = Door::new(Some("a long password".into()), Vec::new(), 80).unwrap();
        assert!(door.token().is_none());
        assert!(door.enter_by_password("a long password").unwrap().is_ok());
        for _ in 0..MOST_WRONG {
            assert_eq!(door.enter_by_password("another one").unwrap().unwrap_err(), Refused::Wrong);
        }
        assert_eq!(door.enter_by_password("a long password").unwrap().unwrap_err(), Refused::TooOften);
        assert!(door.check_scraper("a long password").is_ok());
        for _ in 0..MOST_WRONG {
            assert_eq!(door.check_scraper("another one"), Err(Refused::Wrong));
        }
        assert_eq!(door.check_scraper("a long password"), Err(Refused::TooOften));
        assert_eq!(Door::new(None, Vec::new(), 80).unwrap().check_scraper(""), Err(Refused::Wrong));
    }

    #[test]
    fn sessions_are_bounded() {
        let door = Door::new(Some("a long password".into()), Vec::new(), 80).unwrap();
        for _ in 0..=MOST_SESSIONS {
            door.enter_by_password("a long password").unwrap().unwrap();
        }
        assert_eq!(door.inside().sessions.len(), MOST_SESSIONS);
    }

    #[test]
    fn a_name_that_is_not_this_pages_is_refused() {
        let door = Door::new(None, vec!["queue.example.com".into()], 80).unwrap();
        let knows = |host| door.knows_host(&request(&[("host", host)]));
        for host in ["127.0.0.1:8420", "localhost", "localhost:1", "[::1]:8420", "10.0.0.7:80", "Queue.example.com:443"]
        {
            assert!(knows(host), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:8420", "127.0.0.1.evil.example", "xlocalhost", "queue.example.com.evil"]
        {
            assert!(!knows(host), "{host}");
        }
    }

    #[test]
    fn a_form_of_another_page_is_refused() {
        let own = |headers: &[(&'static str, &str)]| {
            let host = [("host", "127.0.0.1:8420")];
            Door::is_own_form(&request(&[&host, headers].concat()))
        };
        assert!(own(&[("sec-fetch-site", "same-origin")]));
        assert!(own(&[("origin", "http://127.0.0.1:8420")]));
        assert!(own(&[("sec-fetch-site", "same-origin"), ("origin", "https://127.0.0.1:8420")]));
        for site in ["cross-site", "same-site", "none"] {
            assert!(!own(&[("sec-fetch-site", site), ("origin", "http://127.0.0.1:8420")]), "{site}");
        }
        let of = |host, origin| {
            let headers = [("host", host), ("origin", origin), ("sec-fetch-site", "same-origin")];
            Door::is_own_form(&request(&headers))
        };
        assert!(
            of("queues.example.com:443", "https://queues.example.com")
                && of("queues.example.com:80", "http://queues.example.com")
        );
        assert!(of("[::1]:80", "http://[::1]") && of("QUEUES.example.com", "https://queues.example.com"));
        for (host, origin) in [
            ("queues.example.com:80", "https://queues.example.com"),
            ("queues.example.com:8443", "https://queues.example.com"),
            ("queues.example.com", "https://queues.example.com:8443"),
            ("queues.example.com:443", "queues.example.com"),
            ("queues.example.com:443", "https://evil.example"),
        ] {
            assert!(!of(host, origin), "{host} {origin}");
        }
        let says = |site, origin| {
            let headers = [("host", "127.0.0.1:8420"), ("sec-fetch-site", site), ("origin", origin)];
            Door::foreign_form(&request(&headers))
        };
        let said = says("same-origin", "https://queues.example.com");
        assert!(said.contains(
            "It comes from https://queues.example.com, and the header Host says that this page is 127.0.0.1:8420"
        ));
        assert!(!says("cross-site", "https://evil.example").contains("evil"));
        assert!(says("same-origin", "null").contains("Referrer-Policy"));
        for origin in ["null", "http://127.0.0.1:8421", "http://evil.example", "http://127.0.0.1:8420.evil.example"] {
            assert!(!own(&[("origin", origin)]), "{origin}");
            assert!(!own(&[("sec-fetch-site", "same-origin"), ("origin", origin)]), "{origin}");
        }
        assert!(!own(&[]));
    }
}
