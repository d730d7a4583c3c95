//! The sockets of the page: how many, for how long, and how large a request may be.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::request::{Fields, Request, Response};
use super::site::Site;

/// Others wait until one is free.
const MOST_CONNECTIONS: u16 = 64;
const MOST_HEADERS: usize = 64;
/// Of a request without its body.
const MOST_HEAD_BYTES: usize = 16 * 1024;
const MOST_BODY_BYTES: usize = 64 * 1024;
/// Each request has a connection of its own, which lasts no longer.
const LONGEST: Duration = Duration::from_secs(30);
/// How long the head of a request may take.
const LONGEST_HEAD: Duration = Duration::from_secs(5);
/// How long its form may take: less together with the head than a connection lasts, or half a form could pass for a whole one.
const LONGEST_FORM: Duration = Duration::from_secs(10);
/// How long the pages that are being answered may take when the server ends.
const LONGEST_END: Duration = Duration::from_secs(1);
/// How long actions may go on after that: many containers are killed 10 s after their SIGTERM.
const LONGEST_END_OF_ACTIONS: Duration = Duration::from_secs(5);

const FORM: &str = "application/x-www-form-urlencoded";

/// What is under way. As many permits as connections, so nobody waits for one until the server ends.
struct UnderWay {
    answers: Semaphore,
    /// Requests that act: these end by themselves, though their browsers go away.
    actions: Arc<Semaphore>,
}

impl UnderWay {
    fn action(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.actions).try_acquire_owned().ok()
    }
}

/// Answers until `ended`. What acts is then over, or was cut off and has said so.
pub(crate) async fn serve(listener: TcpListener, site: Arc<Site>, ended: impl Future<Output = ()>) {
    let mut connections = JoinSet::new();
    let (most, all) = (usize::from(MOST_CONNECTIONS), u32::from(MOST_CONNECTIONS));
    let (answers, actions) = (Semaphore::new(most), Arc::new(Semaphore::new(most)));
    let under_way = Arc::new(UnderWay { answers, actions });
    let mut ended = std::pin::pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => break,
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < most => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(stream, peer, Arc::clone(&site), Arc::clone(&under_way)));
                }
                // Such as too many open files: others end, and then there is one.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
    drop(listener);
    site.end();
    let UnderWay { answers, actions } = &*under_way;
    _ = timeout(LONGEST_END, answers.acquire_many(all)).await;
    if timeout(LONGEST_END_OF_ACTIONS, actions.acquire_many(all)).await.is_ok() {
        // Their browsers get the answers.
        _ = timeout(LONGEST_END, answers.acquire_many(all)).await;
    }
    connections.shutdown().await;
    _ = actions.acquire_many(all).await;
}

/// Serves one request, and waits for what that does.
async fn connection(stream: TcpStream, peer: SocketAddr, site: Arc<Site>, under_way: Arc<UnderWay>) {
    // Dropped with this when the server ends, and then cut off.
    let actions = Mutex::new(JoinSet::new());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let acts = request.method() == Method::POST;
        let (site, under_way) = (Arc::clone(&site), Arc::clone(&under_way));
        let answer = Box::pin(answer(request, peer, Arc::clone(&site)));
        // At once, and not when the answer is first asked for: a browser that has gone by then never asks for it.
        let answer: Answer = if acts { in_a_task(answer, under_way.action(), &actions, site) } else { answer };
        async move {
            let _being_answered = under_way.answers.acquire().await;
            Ok::<_, Infallible>(written(answer.await))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .keep_alive(false)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD_BYTES);
    // A browser that goes away is no event.
    _ = timeout(LONGEST, http.serve_connection(TokioIo::new(stream), service)).await;
    let mut actions = actions.into_inner().unwrap_or_else(PoisonError::into_inner);
    while actions.join_next().await.is_some() {}
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// What acts goes on to its end, whoever waits for its answer.
fn in_a_task(
    answer: Answer,
    permit: Option<OwnedSemaphorePermit>,
    actions: &Mutex<JoinSet<()>>,
    site: Arc<Site>,
) -> Answer {
    let (tell, told) = oneshot::channel();
    let acting = async move {
        // Given back last, when what was cut off has been said.
        let _permit = permit;
        if let Err(Response { unseen: Some((session, notice)), .. }) = tell.send(answer.await) {
            site.door.notify_session(&session, notice);
        }
    };
    actions.lock().unwrap_or_else(PoisonError::into_inner).spawn(acting);
    let failed = |_| {
        let why = "this did not end: see the log of duly web\n";
        Response::new(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", why)
    };
    Box::pin(async move { told.await.unwrap_or_else(failed) })
}

async fn answer(request: hyper::Request<Incoming>, peer: SocketAddr, site: Arc<Site>) -> Response {
    let (head, body) = request.into_parts();
    let refuse = |status, why: &'static str| Response::new(status, "text/plain; charset=utf-8", why);
    let mut form = Fields::default();
    if head.method == Method::POST {
        let kind = head.headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        if !kind.starts_with(FORM.as_bytes()) {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a form\n");
        }
        let length = body.size_hint().exact();
        let Ok(body) = timeout(LONGEST_FORM, Limited::new(body, MOST_BODY_BYTES).collect()).await else {
            return refuse(StatusCode::REQUEST_TIMEOUT, "the form took too long\n");
        };
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(_) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the form is too large\n"),
        };
        // Of a browser that has gone half way there may be no error.
        if length.is_some_and(|length| length != body.len() as u64) {
            return refuse(StatusCode::BAD_REQUEST, "the form is not whole\n");
        }
        form = Fields::parse(&body);
    }
    let query = Fields::parse(head.uri.query().unwrap_or("").as_bytes());
    let path = head.uri.path().to_owned();
    let peer = peer.to_string();
    site.handle(Request { method: head.method, path, query, headers: head.headers, form, peer }).await
}

fn written(response: Response) -> hyper::Response<Full<Bytes>> {
    let mut written = hyper::Response::new(Full::new(response.body.into()));
    *written.status_mut() = response.status;
    *written.headers_mut() = response.headers;
    written
}
