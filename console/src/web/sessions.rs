//! What is known between two requests: who has come in, which forms were sent, what the next page says, and what questions are about.
//!
//! The command keeps it in its memory. A page in an application may be in many processes: it has a cookie, forms that hold what they are
//! about, and locks on the server of the queues.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duly::{Claim, Client, Error, Queue, State};
use hyper::header::SET_COOKIE;

use super::asked::{Asked, MOST_JOBS_OF_ONE};
use super::door::{Door, Sending, Session, secret};
use super::matches::{A_LOOK, Found};
use super::request::{Request, Response};
use super::words::Words;

const SESSION_COOKIE: &str = "duly_web";
const NOTICE_COOKIE: &str = "duly_notice";
/// What a notice in a cookie has at the most. Browsers take 4 KiB with what is around it.
const MOST_NOTICE_BYTES: usize = 1024;
/// How long such a notice waits for a page.
const NOTICE_S: u64 = 60;

/// How long a form may be sent; the lock that says that it was sent lives longer.
const FORM: Duration = Duration::from_secs(12 * 3600);
const SENT: Duration = Duration::from_secs(24 * 3600);
/// How far the clocks of two hosts may be apart.
const SKEW: Duration = Duration::from_secs(3600);

/// The jobs that a form holds, and their bytes in it.
const MOST_JOBS_OF_FORM: usize = 1000;
const MOST_BYTES_OF_FORM: usize = 48 * 1024;

pub(crate) enum Sessions {
    /// Those of one process, in its memory.
    Kept { door: Box<Door>, asked: Asked },
    /// Nothing but that the application has let this user in.
    Stateless { user: Option<String> },
}

impl Sessions {
    /// What asks for a password; an application does that itself.
    pub(crate) fn door(&self) -> Option<&Door> {
        match self {
            Self::Kept { door, .. } => Some(door),
            Self::Stateless { .. } => None,
        }
    }

    /// Errors: `Internal` without random numbers.
    pub(crate) fn session(&self, request: &Request) -> Result<Option<Session>, Error> {
        match self {
            Self::Kept { door, .. } => Ok(door.session(request)),
            Self::Stateless { user } => {
                let name = user.clone().unwrap_or_else(|| "-".to_owned());
                Session::of_cookie(request.cookie(SESSION_COOKIE), name).map(Some)
            }
        }
    }

    /// The response to the first request of a session has its cookie.
    pub(crate) fn with_session(&self, request: &Request, session: &Session, response: Response) -> Response {
        match self {
            Self::Stateless { .. } if session.is_new => {
                // Also behind links of other pages: without it a new one would come, and forms that are open elsewhere be refused.
                response.with(SET_COOKIE, &cookie(SESSION_COOKIE, &session.form_token, None, "Lax", request))
            }
            _ => response,
        }
    }

    /// What a cookie for all pages says of that. Without it browsers take the folder of the page, which only the application knows.
    pub(crate) fn path_of_cookie(&self) -> &'static str {
        if self.door().is_some() { "; Path=/" } else { "" }
    }

    /// A form is sent. If it was not sent before, what takes it back; or why it does nothing.
    ///
    /// Errors: those of any call.
    pub(crate) async fn send(
        &self,
        client: &Client,
        request: &Request,
        form: &str,
        words: &Words,
    ) -> Result<Result<Option<Claim>, &'static str>, Error> {
        match self {
            Self::Kept { door, .. } => Ok(match door.send(request, form) {
                Sending::First => Ok(None),
                Sending::UnderWay => Err(words.under_way),
                Sending::Ended => Err(words.done_before),
            }),
            Self::Stateless { .. } if !is_fresh(form) => Ok(Err(words.refused_form)),
            Self::Stateless { .. } => {
                let claim = client.claim(&format!("web:sent:{form}"), SENT).await?;
                Ok(claim.map(Some).ok_or(words.sent_before))
            }
        }
    }

    /// What the form asked for has ended.
    pub(crate) fn end(&self, request: &Request, form: &str) {
        if let Some(door) = self.door() {
            door.end(request, form);
        }
    }

    /// The form did nothing, and may be sent again.
    pub(crate) async fn take_back(&self, request: &Request, form: &str, claim: Option<Claim>) {
        if let Some(door) = self.door() {
            door.take_back(request, form);
        }
        if let Some(claim) = claim {
            claim.take_back().await;
        }
    }

    /// The next page of this session says it.
    pub(crate) fn notify(&self, request: &Request, notice: String, response: Response) -> Response {
        match self {
            Self::Kept { door, .. } => {
                door.notify(request, notice);
                response
            }
            Self::Stateless { .. } => {
                let written = URL_SAFE_NO_PAD.encode(cut(&notice, MOST_NOTICE_BYTES));
                response.with(SET_COOKIE, &cookie(NOTICE_COOKIE, &written, Some(NOTICE_S), "Strict", request))
            }
        }
    }

    /// The oldest first. The page that says them is to be [`Self::without_notices`] then.
    pub(crate) fn take_notices(&self, request: &Request) -> VecDeque<String> {
        match self {
            Self::Kept { door, .. } => door.take_notices(request),
            Self::Stateless { .. } => notice(request).into_iter().collect(),
        }
    }

    pub(crate) fn without_notices(&self, request: &Request, response: Response) -> Response {
        match self {
            Self::Stateless { .. } if request.cookie(NOTICE_COOKIE).is_some() => {
                response.with(SET_COOKIE, &cookie(NOTICE_COOKIE, "", Some(0), "Strict", request))
            }
            _ => response,
        }
    }

    /// How many jobs are looked for: a look may find more.
    pub(crate) fn most_jobs(&self) -> usize {
        match self {
            Self::Kept { .. } => MOST_JOBS_OF_ONE - A_LOOK,
            Self::Stateless { .. } => MOST_JOBS_OF_FORM,
        }
    }

    /// Those that a question can be about.
    pub(crate) fn askable(&self, mut found: Found) -> Found {
        if self.door().is_none() && found.jobs.keep_first(MOST_JOBS_OF_FORM, MOST_BYTES_OF_FORM) {
            found.is_all = false;
        }
        found
    }

    /// What the form of this question is to hold; nothing without random numbers.
    pub(crate) fn ask(&self, about: String, found: Found) -> String {
        match self {
            Self::Kept { asked, .. } => asked.note(about, found).unwrap_or_default(),
            Self::Stateless { .. } => format!("{}{}", if found.is_all { ALL } else { SOME }, found.jobs.to_text()),
        }
    }

    /// What the question was about; nothing if that is forgotten, or was something else.
    pub(crate) fn answered(&self, asked_for: &str, about: &str, queue: &Queue, state: State) -> Option<Found> {
        match self {
            Self::Kept { asked, .. } => asked.take(asked_for, about),
            Self::Stateless { .. } => {
                let is_all = asked_for.starts_with(ALL);
                let text = asked_for.strip_prefix(if is_all { ALL } else { SOME })?;
                Some(Found { jobs: queue.matching_of(state, text)?, is_all })
            }
        }
    }

    /// The answer did nothing, and may be given again.
    pub(crate) fn put_back(&self, asked_for: &str, about: String, found: Found) {
        if let Self::Kept { asked, .. } = self {
            asked.put_back(asked_for.to_owned(), about, found);
        }
    }
}

/// What the jobs of a form begin with.
const ALL: char = '=';
const SOME: char = '>';

/// The secret of a form, with its time.
///
/// Errors: `Internal` without random numbers.
pub(crate) fn new_form() -> Result<String, Error> {
    Ok(format!("{}-{}", secret()?, now()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Was this form made so short a time ago that its lock would still be there?
fn is_fresh(form: &str) -> bool {
    let Some((secret, at)) = form.split_once('-') else { return false };
    let Ok(at) = at.parse::<u64>() else { return false };
    let now = now();
    Session::is_secret(secret) && at.saturating_add(FORM.as_secs()) > now && at < now.saturating_add(SKEW.as_secs())
}

fn cookie(name: &str, value: &str, seconds: Option<u64>, same_site: &str, request: &Request) -> String {
    let age = seconds.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
    let secure = if request.is_over_tls { "; Secure" } else { "" };
    format!("{name}={value}{age}; HttpOnly; SameSite={same_site}{secure}")
}

/// The beginning of a text, without half a character.
fn cut(text: &str, most_bytes: usize) -> &str {
    let mut end = text.len().min(most_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn notice(request: &Request) -> Option<String> {
    let written = request.cookie(NOTICE_COOKIE)?;
    let bytes = URL_SAFE_NO_PAD.decode(written).ok().filter(|bytes| bytes.len() <= MOST_NOTICE_BYTES)?;
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use hyper::header::{COOKIE, HeaderValue};

    use super::*;

    fn stateless() -> Sessions {
        Sessions::Stateless { user: None }
    }

    fn with_cookie(cookie: &str) -> Request {
        let mut request = Request::default();
        request.headers.insert(COOKIE, HeaderValue::from_str(cookie).unwrap());
        request
    }

    fn cookie_of(response: &Response) -> &str {
        response.headers[SET_COOKIE].to_str().unwrap()
    }

    #[test]
    fn a_cookie_is_kept_and_another_text_is_not_its_secret() {
        let (none, empty) = (Request::default(), || Response::see("queue"));
        let begun = stateless().session(&none).unwrap().unwrap();
        let response = stateless().with_session(&none, &begun, empty());
        assert_eq!(cookie_of(&response), format!("duly_web={}; HttpOnly; SameSite=Lax", begun.form_token));
        let again = with_cookie(cookie_of(&response).split(';').next().unwrap());
        let session = stateless().session(&again).unwrap().unwrap();
        assert!(session.is_own_token(&begun.form_token));
        assert!(stateless().with_session(&again, &session, empty()).headers.get(SET_COOKIE).is_none());
        for other in ["", "x", &"x".repeat(48), &begun.form_token[1..]] {
            let session = stateless().session(&with_cookie(&format!("duly_web={other}"))).unwrap().unwrap();
            assert!(session.is_new && !session.is_own_token(other), "{other}");
        }
    }

    #[test]
    fn a_notice_is_short_and_said_once() {
        let said = |text: &str| {
            let response = stateless().notify(&Request::default(), text.to_owned(), Response::see("queue"));
            let cookie = cookie_of(&response);
            assert!(cookie.len() < 1500, "{cookie}");
            let next = with_cookie(cookie.split(';').next().unwrap());
            let page = stateless().without_notices(&next, Response::see("queue"));
            assert_eq!(cookie_of(&page), "duly_notice=; Max-Age=0; HttpOnly; SameSite=Strict");
            stateless().take_notices(&next).pop_front().unwrap_or_default()
        };
        let hostile = "订单; <b>\r\nSet-Cookie: x=\"1\"";
        assert_eq!(said(hostile), hostile);
        assert_eq!(said(&"订".repeat(2000)), "订".repeat(341));
        assert_eq!(said(""), "");
        let long = URL_SAFE_NO_PAD.encode("x".repeat(MOST_NOTICE_BYTES + 1));
        for foreign in ["%%%", "AAAA=", "_w", &long] {
            assert!(stateless().take_notices(&with_cookie(&format!("duly_notice={foreign}"))).is_empty(), "{foreign}");
        }
    }

    #[test]
    fn a_form_is_old_before_its_lock_is_gone() {
        let secret = secret().unwrap();
        let at = |at: u64| is_fresh(&format!("{secret}-{at}"));
        assert!(is_fresh(&new_form().unwrap()) && at(now()) && at(now() + 60));
        assert!(!at(now() - FORM.as_secs()) && !at(now() + 2 * SKEW.as_secs()) && !at(u64::MAX) && !at(0));
        let now = now();
        for wrong in ["", "-", &secret, &format!("-{now}"), &format!("{}-{now}", &secret[1..]), "a:b-1"] {
            assert!(!is_fresh(wrong), "{wrong}");
        }
        assert!(SENT > FORM + SKEW);
    }
}
