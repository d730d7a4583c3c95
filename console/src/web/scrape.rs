//! `/metrics`: what `duly metrics` prints, for scrapers that give the password by Basic auth, and for browsers that are signed in.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use duly::{Client, Error};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use tokio::sync::Mutex;

use super::door::{Door, Refused};
use super::request::{Request, Response, plain};

/// What is younger is given again: several scrapers make no more calls than one.
const FRESH: Duration = Duration::from_secs(1);

/// One scrape at a time, whoever asks.
#[derive(Debug, Default)]
pub(crate) struct Scrapes(Mutex<Option<(Instant, String)>>);

impl Scrapes {
    /// A text that is no older than this call, but for a second.
    pub(crate) async fn text(&self, client: &Client) -> Result<String, Error> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((at, text)) = &*last
            && *at + FRESH > asked
        {
            return Ok(text.clone());
        }
        let text = crate::metrics::scrape(client, &[]).await?.text;
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

/// Why a scraper gets nothing.
pub(crate) enum Closed {
    /// It gives no password, or there is none.
    NoPassword,
    Refused(Refused),
}

/// Does a scraper give the password? The name of the user may be any.
pub(crate) fn may_scrape(door: &Door, request: &Request) -> Result<(), Closed> {
    let password = basic_password(request.header(AUTHORIZATION)).filter(|_| door.has_password());
    door.check_scraper(&password.ok_or(Closed::NoPassword)?).map_err(Closed::Refused)
}

pub(crate) fn refusal(closed: &Closed, door: &Door) -> Response {
    if !door.has_password() {
        let why = "sign in, or start duly web with a password in DULY_WEB_PASSWORD: scrapers give that by Basic auth";
        return plain(StatusCode::UNAUTHORIZED, why);
    }
    match closed {
        Closed::Refused(Refused::TooOften) => {
            plain(StatusCode::TOO_MANY_REQUESTS, "too many wrong passwords: wait for a minute")
        }
        _ => plain(StatusCode::UNAUTHORIZED, "give the password of this page by Basic auth")
            .with(WWW_AUTHENTICATE, "Basic realm=\"duly\", charset=\"UTF-8\""),
    }
}

/// Some scrapers leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The password of such a header; nothing if it is none.
fn basic_password(header: &str) -> Option<String> {
    let (scheme, credentials) = header.split_once(' ')?;
    let text = scheme.eq_ignore_ascii_case("basic").then(|| BASE64.decode(credentials.trim()).ok()).flatten()?;
    Some(String::from_utf8(text).ok()?.split_once(':')?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_read_from_its_header() {
        let given = |header| basic_password(header);
        // As Python's base64 writes them.
        assert_eq!(given("Basic ZHVseTphIGxvbmcgcGFzc3dvcmQ=").as_deref(), Some("a long password"));
        assert_eq!(given("Basic ZHVseTphIGxvbmcgcGFzc3dvcmQ").as_deref(), Some("a long password"));
        assert_eq!(given("basic OmE6Yjpj").as_deref(), Some("a:b:c"));
        assert_eq!(given("Basic ZHVseTrlr4bnoIHlr4bnoIHlr4bnoIE=").as_deref(), Some("密码密码密码"));
        assert_eq!(given("Basic ZHVseTr/+/8="), None, "no UTF-8");
        for wrong in ["", "Basic", "Basic ", "Bearer ZHVseTph", "Basic ZHVse\u{7f}", "Basic ZHVseQ==", "Basic ="] {
            assert_eq!(given(wrong), None, "{wrong}");
        }
    }
}
