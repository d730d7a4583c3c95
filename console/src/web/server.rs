//! The sockets of the page: how many, for how long, and how large a request may be.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::request::{Fields, Request, Response};
use super::site::Site;

/// Others wait until one is free.
const MOST_CONNECTIONS: usize = 64;
const MOST_HEADERS: usize = 64;
/// Of a request without its body.
const MOST_HEAD_BYTES: usize = 16 * 1024;
const MOST_BODY_BYTES: usize = 64 * 1024;
/// Each request has a connection of its own, which lasts no longer.
const LONGEST: Duration = Duration::from_secs(30);
/// How long the head of a request may take.
const LONGEST_HEAD: Duration = Duration::from_secs(5);
/// How long what is being done may take when the server ends.
const LONGEST_END: Duration = Duration::from_secs(1);

const FORM: &str = "application/x-www-form-urlencoded";

/// Answers until `ended`; `each` is what else is waited for, again and again.
pub(crate) async fn serve(listener: TcpListener, site: Arc<Site>, ended: impl Future<Output = ()>) {
    let mut connections = JoinSet::new();
    // As many as are being answered are taken.
    let free = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut ended = std::pin::pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => break,
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(timeout(LONGEST, connection(stream, peer, Arc::clone(&site), Arc::clone(&free))));
                }
                // Such as too many open files: others end, and then there is one.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
    drop(listener);
    let all = u32::try_from(MOST_CONNECTIONS).unwrap_or(u32::MAX);
    _ = timeout(LONGEST_END, free.acquire_many(all)).await;
}

async fn connection(stream: TcpStream, peer: SocketAddr, site: Arc<Site>, free: Arc<Semaphore>) {
    let service = service_fn(|request| {
        let (site, free) = (Arc::clone(&site), Arc::clone(&free));
        async move {
            let _being_answered = free.acquire().await;
            Ok::<_, Infallible>(written(answer(request, peer, &site).await))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .keep_alive(false)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD_BYTES);
    // A browser that goes away is no event.
    _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: hyper::Request<Incoming>, peer: SocketAddr, site: &Site) -> Response {
    let (head, body) = request.into_parts();
    let refuse = |status, why: &'static str| Response::new(status, "text/plain; charset=utf-8", why);
    let mut form = Fields::default();
    if head.method == Method::POST {
        let kind = head.headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        if !kind.starts_with(FORM.as_bytes()) {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a form\n");
        }
        match Limited::new(body, MOST_BODY_BYTES).collect().await {
            Ok(body) => form = Fields::parse(&body.to_bytes()),
            Err(_) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the form is too large\n"),
        }
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
