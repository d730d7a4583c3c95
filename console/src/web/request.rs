//! A request and its response, without a socket.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use super::door::Session;
use crate::show::escaped;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

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
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Fields,
    pub(crate) headers: HeaderMap,
    /// Of a POST.
    pub(crate) form: Fields,
    /// The other end of the connection.
    pub(crate) peer: String,
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

    /// Does a proxy say that the browser speaks TLS with it?
    pub(crate) fn is_over_tls(&self) -> bool {
        self.header(FORWARDED_PROTO) == "https"
    }

    /// The address that was asked for, for a link on its page: never one of another host.
    pub(crate) fn address(&self, more: &[(&str, &str)]) -> String {
        let path = if self.path.starts_with("/act/") || is_of_another_host(&self.path) { "/" } else { &self.path };
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
        headers.insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static(kind));
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

/// Browsers take `//name` for a host, and a backslash for a slash.
fn is_of_another_host(path: &str) -> bool {
    !path.starts_with('/') || path[1..].starts_with(['/', '\\'])
}

/// The address of a page; fields without a value are left out.
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
        assert!(["//evil.example", "/\\evil.example", "evil", "", "*"].into_iter().all(is_of_another_host));
        assert!(!["/", "/queue", "/a//b"].into_iter().any(is_of_another_host));
    }

    #[test]
    fn an_address_holds_any_text() {
        let hostile = "a&b=c <x> 订单/%2f\"'";
        let address = link("/job", &[("queue", "q"), ("parts", ""), ("id", hostile)]);
        let (path, query) = address.split_once('?').unwrap();
        let fields = Fields::parse(query.as_bytes());
        assert_eq!((path, fields.get("id"), fields.given("parts")), ("/job", hostile, None));
        assert!(query.is_ascii() && !query.contains(['<', '"', '\'', ' ']), "{query}");
    }
}
