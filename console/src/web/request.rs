//! A request and its response, without a socket.

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use super::door::Session;
use crate::show::escaped;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

const FORM: &str = "application/x-www-form-urlencoded";
pub(crate) const MOST_BODY_BYTES: usize = 64 * 1024;

const MOST_ROWS: usize = 1_000_000_000;

/// The fields of a query or of a form.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// The empty text if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Nothing if there is none, or if it is empty.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }

    /// 0 if there is none, or if it is no number; no more than any list has.
    pub(crate) fn number(&self, name: &str) -> usize {
        self.get(name).parse().unwrap_or(0).min(MOST_ROWS)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// What a browser asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Begins with a slash: the page lies in no folder here.
    pub(crate) path: String,
    pub(crate) query: Fields,
    pub(crate) headers: HeaderMap,
    /// Of a POST.
    pub(crate) form: Fields,
    /// The other end of the connection.
    pub(crate) peer: String,
    /// Does the browser speak TLS, with a proxy or an application?
    pub(crate) is_over_tls: bool,
}

/// Does a proxy say that the browser speaks TLS with it?
pub(crate) fn is_forwarded_over_tls(headers: &HeaderMap) -> bool {
    headers.get(FORWARDED_PROTO).is_some_and(|proto| proto == "https")
}

/// Nothing if a body of this type is a form; or why it is refused.
pub(crate) fn refused_type(headers: &HeaderMap) -> Option<Response> {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    (!kind.starts_with(FORM.as_bytes())).then(|| plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a form"))
}

pub(crate) fn too_large() -> Response {
    plain(StatusCode::PAYLOAD_TOO_LARGE, "the form is too large")
}

impl Request {
    /// The empty text if there is none, or if it is not ASCII.
    pub(crate) fn header(&self, name: HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let all = self.headers.get_all(hyper::header::COOKIE);
        let pairs = all.iter().filter_map(|header| header.to_str().ok()).flat_map(|header| header.split(';'));
        pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The other end, as the log names it; behind a proxy also what that says of it.
    pub(crate) fn peer(&self) -> String {
        const MOST: usize = 64;
        match self.header(FORWARDED_FOR) {
            "" => self.peer.clone(),
            forwarded => format!("{} for {}", self.peer, escaped(forwarded.chars().take(MOST))),
        }
    }

    /// The address that was asked for, for a link on its page: never one of another place.
    pub(crate) fn address(&self, more: &[(&str, &str)]) -> String {
        let name = self.path.trim_start_matches('/');
        let path = if name.starts_with("act-") || !is_name(name) { HOME } else { name };
        let kept = self.query.iter().filter(|(name, _)| *name != "token" && more.iter().all(|(new, _)| new != name));
        link(path, &kept.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// Does the script ask for the part of the page that changes?
    pub(crate) fn is_refresh(&self) -> bool {
        self.headers.contains_key(REFRESH)
    }
}

/// The script sends it, and finds it in the answers that are such a part.
pub(crate) const REFRESH: HeaderName = HeaderName::from_static("duly-refresh");

/// What the browser gets.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// What the next page of this session says if nobody waits for this response any more.
    pub(crate) unseen: Option<(Session, String)>,
}

impl Response {
    pub(crate) fn new(status: StatusCode, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        Self { status, headers, body: body.into(), unseen: None }
    }

    /// To another page, which the browser asks for with GET.
    pub(crate) fn see(location: &str) -> Self {
        Self::new(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "").with(hyper::header::LOCATION, location)
    }

    /// `value`: what a header cannot hold is left out.
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.append(name, value);
        }
        self
    }
}

/// A response without a page.
pub(crate) fn plain(status: StatusCode, why: &str) -> Response {
    Response::new(status, "text/plain; charset=utf-8", format!("{why}\n"))
}

/// The first page, as a link of the others. All links are relative: where the page lies, only the browser knows. The folder itself is the
/// same page, but some servers take the slash at its end away, and others add one.
pub(crate) const HOME: &str = "overview";

/// Can it be the name of a page? Browsers would take another text for a host, a scheme or a folder.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// The address of a page by its name; fields without a value are left out.
pub(crate) fn link(path: &str, fields: &[(&str, &str)]) -> String {
    let given: Vec<_> = fields.iter().filter(|(_, value)| !value.is_empty()).collect();
    if given.is_empty() {
        return path.to_owned();
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    format!("{path}?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_no_other_host() {
        let address = |path: &str| Request { path: path.to_owned(), ..Request::default() }.address(&[("lang", "zh")]);
        for path in
            ["//evil.example", "/\\evil.example", "/javascript:alert(1)", "/a/b", "/..", "", "*", "/", "/act-pause"]
        {
            assert_eq!(address(path), "overview?lang=zh", "{path}");
        }
        assert_eq!(address("/ask-purge"), "ask-purge?lang=zh");
    }

    #[test]
    fn an_address_holds_any_text() {
        let hostile = "a&b=c <x> 订单/%2f\"'";
        let address = link("job", &[("queue", "q"), ("parts", ""), ("id", hostile)]);
        let (path, query) = address.split_once('?').unwrap();
        let fields = Fields::parse(query.as_bytes());
        assert_eq!((path, fields.get("id"), fields.given("parts")), ("job", hostile, None));
        assert!(query.is_ascii() && !query.contains(['<', '"', '\'', ' ']), "{query}");
    }
}
