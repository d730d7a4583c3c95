//! The page in an application, which has its own login, and may have many processes: nothing is kept in their memory.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duly::Error;
use duly::blocking::{Client, Interrupt};
use duly::runtime::PerProcess;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use super::PATIENCE;
use super::request::{Fields, HOME, MOST_BODY_BYTES, Request, Response, plain, refused_type, too_large};
use super::rights::{Rights, Role};
use super::scrape::Scrapes;
use super::sessions::Sessions;
use super::site::Site;

/// The page of `duly web`, for the web server of an application.
pub struct WebPage {
    client: Client,
    hides_data: bool,
    /// What was done, one line each. In a forked child a lock of the parent's may be held for ever.
    lines: PerProcess<Mutex<Vec<String>>>,
}

/// A request, as a web server gives it.
#[derive(Debug, Default)]
pub struct Visit {
    /// In capitals.
    pub method: String,
    /// The path that was asked for and, behind a question mark, the query.
    pub uri: String,
    /// What that begins with: the folder in which the page lies, without a slash at its end; empty if at the root.
    pub mount: String,
    /// Names and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// No more than 64 KiB of it are read, and one byte.
    pub body: Vec<u8>,
    /// The other end of the connection.
    pub peer: String,
    /// Does the browser speak TLS?
    pub is_over_tls: bool,
    /// The name of the user, for the lines of what was done.
    pub user: Option<String>,
    /// What the user may do.
    pub rights: Rights,
}

/// The response to it.
#[derive(Debug)]
pub struct WebAnswer {
    /// Such as 200.
    pub status: u16,
    /// Names in small letters, and values; a name may come more than once.
    pub headers: Vec<(String, String)>,
    /// Empty for `HEAD`.
    pub body: Vec<u8>,
}

impl WebPage {
    /// How much of a body is read.
    pub const MOST_BODY_BYTES: usize = MOST_BODY_BYTES;

    /// The queues of this client. `hides_data`: data, headers and results of jobs are not for those who may only look.
    pub fn new(client: Client, hides_data: bool) -> Self {
        Self { client, hides_data, lines: PerProcess::new() }
    }

    /// Answers one request. What is wrong with it, or with the server of the queues, is said in the answer.
    ///
    /// Errors: `InvalidArgument` if the client is closed; what interrupts it.
    pub fn handle<I: Interrupt>(&self, visit: Visit, interrupt: &mut I) -> Result<WebAnswer, I::Error> {
        let is_head = visit.method == "HEAD";
        let (user, rights) = (visit.user.clone(), visit.rights);
        let request = match rights.has(Role::View).then(|| request(visit)) {
            Some(Ok(request)) => request,
            Some(Err(response)) => return Ok(answer(*response, is_head)),
            // Whoever may not see the page hears no more than that, at any address.
            None => Request::default(),
        };
        let lines = self.lines.get(|| Ok(Mutex::default()))?;
        let client = self.client.hurried(PATIENCE)?;
        let handle = |client: Arc<duly::Client>| async move {
            let site = Site {
                client: duly::Client::clone(&client),
                sessions: Sessions::Stateless { user },
                rights,
                hides_data: self.hides_data,
                log: Box::new(move |line| locked(&lines).push(line)),
                scrapes: Scrapes::default(),
                is_ending: AtomicBool::new(false),
            };
            Ok::<_, Error>(site.handle(request).await)
        };
        client.wait_for(handle, interrupt).map(|response| answer(response, is_head))
    }

    /// What was done since this was last asked, one line each: who, from where, what, and what came of it. Also what an interruption has cut off.
    pub fn lines(&self) -> Vec<String> {
        self.lines.known().map(|lines| std::mem::take(&mut *locked(&lines))).unwrap_or_default()
    }
}

/// Nothing that is done under the lock can panic half way.
fn locked(lines: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Or the response to one that is none, or that leads elsewhere.
fn request(visit: Visit) -> Result<Request, Box<Response>> {
    let Visit { method, uri, mount, headers: given, body, peer, is_over_tls, .. } = visit;
    let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
    // Some web servers give them as the browser wrote them, and others as they are meant.
    let [mount, path] = [mount.as_str(), path].map(|text| percent_decode_str(text).decode_utf8_lossy());
    let mount = mount.trim_end_matches('/');
    let refused = |response| Err(Box::new(response));
    let Some(path) = path.strip_prefix(mount).filter(|path| path.is_empty() || path.starts_with('/')) else {
        return refused(plain(StatusCode::NOT_FOUND, &format!("the page lies in '{mount}', and this is elsewhere")));
    };
    if path.is_empty() && !mount.is_empty() {
        return refused(Response::see(&first_page(mount)));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        // What cannot be a header says nothing to the page.
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(&value)) {
            headers.append(name, value);
        }
    }
    let Ok(method) = Method::from_bytes(method.as_bytes()) else {
        return refused(plain(StatusCode::BAD_REQUEST, "no method"));
    };
    let mut form = Fields::default();
    if method == Method::POST {
        if let Some(refusal) = refused_type(&headers) {
            return refused(refusal);
        }
        if body.len() > MOST_BODY_BYTES {
            return refused(too_large());
        }
        form = Fields::parse(&body);
    }
    let path = if path.is_empty() { "/" } else { path }.to_owned();
    Ok(Request { method, path, query: Fields::parse(query.as_bytes()), headers, form, peer, is_over_tls })
}

/// From the address of a folder without a slash at its end, where no link would lead anywhere.
fn first_page(mount: &str) -> String {
    let name = mount.rsplit('/').next().unwrap_or_default();
    let written = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    format!("./{}/{HOME}", name.bytes().map(written).collect::<String>())
}

fn answer(response: Response, is_head: bool) -> WebAnswer {
    let value = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    WebAnswer {
        status: response.status.as_u16(),
        headers: response.headers.iter().map(|(name, of)| (name.as_str().to_owned(), value(of))).collect(),
        body: if is_head { Vec::new() } else { response.body },
    }
}

#[cfg(test)]
mod tests {
    use duly::blocking::Uninterrupted;

    use super::*;

    fn handle(visit: Visit) -> WebAnswer {
        // Nobody listens there.
        let client = Client::new(duly::Client::builder().url("redis://127.0.0.1:1")).unwrap();
        WebPage::new(client, false).handle(visit, &mut Uninterrupted).unwrap()
    }

    fn header<'a>(answer: &'a WebAnswer, name: &str) -> Option<&'a str> {
        answer.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_folder_without_its_slash_leads_to_the_one_with_it() {
        let (duly, space, colon) = ("./duly/overview", "./b%20c/overview", "./x%3Ay/overview");
        let (order, written) = ("./%E8%AE%A2/overview", "/%E8%AE%A2");
        for (mount, first) in [
            ("/duly", duly),
            ("/duly/", duly),
            ("/a/b c", space),
            ("/x:y", colon),
            ("/\u{8ba2}", order),
            (written, order),
        ] {
            let (method, uri) = ("GET".into(), mount.trim_end_matches('/').to_owned());
            let answer = handle(Visit { method, uri, mount: mount.into(), rights: Rights::VIEW, ..Visit::default() });
            assert_eq!((answer.status, header(&answer, "location")), (303, Some(first)));
        }
    }

    #[test]
    fn what_does_not_lie_in_its_folder_is_no_page() {
        let asked = |uri: &str, mount: &str, rights| {
            handle(Visit { method: "GET".into(), uri: uri.into(), mount: mount.into(), rights, ..Visit::default() })
        };
        for uri in ["/", "", "/dulyer", "/other/duly/", "duly/", "//duly/", "http://h/duly/", "/%FFduly/"] {
            let answer = asked(uri, "/duly", Rights::VIEW);
            let says = String::from_utf8(answer.body).unwrap();
            assert_eq!((answer.status, says.contains("the page lies in '/duly'")), (404, true), "{uri}: {says}");
            assert_eq!(asked(uri, "/duly", Rights::default()).status, 403, "{uri}");
        }
    }

    #[test]
    fn an_address_and_its_folder_may_be_written_in_any_way() {
        let (order, written) = ("/\u{8ba2} 1%", "/%E8%AE%A2%201%25");
        for (path, mount) in [("/d%75ly", "/duly"), (written, order), (written, written), (order, written)] {
            let (method, uri) = ("GET".into(), format!("{path}/style.css?v=1"));
            let answer = handle(Visit { method, uri, mount: mount.into(), rights: Rights::VIEW, ..Visit::default() });
            assert_eq!(answer.status, 200, "{path} in {mount}");
        }
    }

    #[test]
    fn it_is_closed_to_those_who_may_nothing() {
        let form = "application/x-www-form-urlencoded";
        for path in ["", "/", "/style.css", "/queue", "/nothing"] {
            for (method, kind, bytes) in [
                ("GET", form, 0),
                ("HEAD", form, 0),
                ("POST", form, 0),
                ("POST", "text/plain", 1),
                ("POST", form, MOST_BODY_BYTES + 1),
                ("A B", form, 0),
            ] {
                let headers =
                    vec![("Content-Type".to_owned(), kind.as_bytes().to_vec()), ("No Name".to_owned(), b"\n".to_vec())];
                let (uri, mount, body) = (format!("/duly{path}"), "/duly".to_owned(), vec![b'a'; bytes]);
                let answer = handle(Visit { method: method.into(), uri, mount, headers, body, ..Visit::default() });
                assert_eq!((answer.status, header(&answer, "set-cookie")), (403, None), "{method} {path} {kind}");
                assert!(header(&answer, "content-security-policy").is_some());
            }
        }
    }

    #[test]
    fn a_body_that_is_no_form_is_refused() {
        let post = |kind: &str, body: Vec<u8>| {
            let headers = vec![("content-type".to_owned(), kind.as_bytes().to_vec())];
            let uri = "/act-pause".to_owned();
            handle(Visit { method: "POST".into(), uri, headers, body, rights: Rights::ALL, ..Visit::default() }).status
        };
        let form = "application/x-www-form-urlencoded";
        assert_eq!(post("application/json", b"{}".to_vec()), 415);
        assert_eq!(post(form, vec![b'a'; MOST_BODY_BYTES + 1]), 413);
        // It comes from nowhere.
        assert_eq!(post(form, vec![b'a'; MOST_BODY_BYTES]), 403);
        assert_eq!(handle(Visit { method: "GET /".into(), rights: Rights::ALL, ..Visit::default() }).status, 400);
        assert_eq!(handle(Visit { method: "DELETE".into(), rights: Rights::ALL, ..Visit::default() }).status, 405);
    }

    #[test]
    fn what_only_the_command_has_is_not_there() {
        for path in ["/metrics", "/sign-in", "/sign-out", "/a/style.css"] {
            let visit = Visit { method: "GET".into(), uri: path.into(), rights: Rights::ALL, ..Visit::default() };
            assert_eq!(handle(visit).status, 404, "{path}");
        }
        let visit = Visit { method: "HEAD".into(), uri: "/style.css".into(), rights: Rights::VIEW, ..Visit::default() };
        let answer = handle(visit);
        assert_eq!((answer.status, answer.body.len()), (200, 0));
    }
}
