//! The sockets of the page: how many, for how long, and how large a request may be.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::request::{
    Fields, MOST_BODY_BYTES, Request, Response, is_forwarded_over_tls, plain, refused_type, too_large,
};
use super::site::Site;
use crate::api::{self, Api, Pace, Paced, Paces, Sent};

/// Others wait until one is free.
const MOST_CONNECTIONS: u16 = 64;
const MOST_HEADERS: usize = 64;
/// Of a request without its body.
const MOST_HEAD_BYTES: usize = 16 * 1024;
/// Each request has a connection of its own, which lasts no longer; but for those of the API.
const LONGEST: Duration = Duration::from_secs(30);
/// How long the head of a request may take.
const LONGEST_HEAD: Duration = Duration::from_secs(5);
/// How long its form may take: less together with the head than a connection lasts, or half a form could pass for a whole one.
const LONGEST_FORM: Duration = Duration::from_secs(10);
/// How long a browser waits for what an action comes to: less, with the head and the form, than a connection lasts.
const LONGEST_ACTION: Duration = Duration::from_secs(12);
/// How long the pages that are being answered may take when the server ends.
const LONGEST_END: Duration = Duration::from_secs(1);
/// How long actions may go on after that: many containers are killed 10 s after their SIGTERM.
const LONGEST_END_OF_ACTIONS: Duration = Duration::from_secs(5);

const NOT_WHOLE: &str = "the form is not whole";

/// What is under way. As many permits as connections, so nobody waits for one until the server ends.
struct UnderWay {
    connections: Paces,
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
pub(crate) async fn serve(
    listener: TcpListener,
    site: Arc<Site>,
    api: Option<Arc<Api>>,
    ended: impl Future<Output = ()>,
) {
    let mut connections = JoinSet::new();
    let most = if api.is_some() { api::MOST_CONNECTIONS } else { MOST_CONNECTIONS };
    // And one more, for a moment: that for which another one ends.
    let (most, all) = (usize::from(most), u32::from(most) + 1);
    let (answers, actions) = (Semaphore::new(most + 1), Arc::new(Semaphore::new(most + 1)));
    let under_way = Arc::new(UnderWay { connections: Paces::default(), answers, actions });
    let mut ended = std::pin::pin!(ended);
    loop {
        let is_full = connections.len() >= most;
        let has_room = !is_full || connections.len() == most && under_way.connections.has_resting();
        tokio::select! {
            () = &mut ended => break,
            _ = connections.join_next(), if !connections.is_empty() => {}
            () = under_way.connections.one_rests(), if !has_room => {
                // The one that was about to end got a request first.
                if connections.len() > most {
                    under_way.connections.make_room();
                }
            }
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, peer)) => {
                    if is_full {
                        under_way.connections.make_room();
                    }
                    connections.spawn(connection(stream, peer, Arc::clone(&site), api.clone(), Arc::clone(&under_way)));
                }
                // Such as too many open files: others end, and then there is one.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
    drop(listener);
    site.end();
    if let Some(api) = &api {
        api.end();
    }
    let UnderWay { answers, actions, .. } = &*under_way;
    _ = timeout(LONGEST_END, answers.acquire_many(all)).await;
    if timeout(LONGEST_END_OF_ACTIONS, actions.acquire_many(all)).await.is_ok() {
        // Their browsers get the answers.
        _ = timeout(LONGEST_END, answers.acquire_many(all)).await;
    }
    connections.shutdown().await;
    _ = actions.acquire_many(all).await;
}

/// Serves one request, and waits for what that does; or those of the API, one after the other.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    site: Arc<Site>,
    api: Option<Arc<Api>>,
    under_way: Arc<UnderWay>,
) {
    // Dropped with this when the server ends, and then cut off.
    let actions = Mutex::new(JoinSet::new());
    let pace = under_way.connections.of(&stream);
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (site, under_way, pace) = (Arc::clone(&site), Arc::clone(&under_way), Arc::clone(&pace));
        let api = api.clone().filter(|_| api::is_for(request.uri().path()));
        let answer: Answer<Sent> = if let Some(api) = api {
            pace.answers();
            let acts = api::acts(&request);
            let answer: Answer<Sent> = Box::pin(async move { api.answer(request, peer).await });
            of_api(if acts { to_its_end(answer, Arc::clone(&under_way), &actions) } else { answer }, pace)
        } else {
            pace.answers_within(LONGEST);
            let answer: Answer<Response> = if request.method() == Method::POST {
                // At once, and not when the answer is first asked for: a browser that has gone by then never asks for it.
                in_a_task(request, peer, site, Arc::clone(&under_way), &actions)
            } else {
                Box::pin(async move { site.handle(with_form(request, peer, Fields::default())).await })
            };
            Box::pin(async move { written(answer.await) })
        };
        async move {
            let _being_answered = under_way.answers.acquire().await;
            Ok::<_, Infallible>(answer.await)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .keep_alive(false)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD_BYTES);
    // A browser that goes away is no event.
    if let Some(api) = &api {
        http.header_read_timeout(api::LONGEST_REST).keep_alive(true);
        let stream = TokioIo::new(Paced::new(stream, Arc::clone(&pace)));
        api::keep(http.serve_connection(stream, service), &pace, api).await;
    } else {
        _ = timeout(LONGEST, http.serve_connection(TokioIo::new(stream), service)).await;
    }
    let mut actions = actions.into_inner().unwrap_or_else(PoisonError::into_inner);
    while actions.join_next().await.is_some() {}
}

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Whoever goes away drops what was asked for.
fn of_api(mut answer: Answer<Sent>, pace: Arc<Pace>) -> Answer<Sent> {
    Box::pin(async move {
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = pace.is_gone() => api::cut_off(),
        };
        pace.rests();
        answer
    })
}

/// The answer of what goes on to its end, whoever waits for it.
fn to_its_end(answer: Answer<Sent>, under_way: Arc<UnderWay>, actions: &Mutex<JoinSet<()>>) -> Answer<Sent> {
    let (tell, told) = oneshot::channel();
    let mut actions = actions.lock().unwrap_or_else(PoisonError::into_inner);
    // Of a connection that is kept there may be many.
    while actions.try_join_next().is_some() {}
    actions.spawn(async move {
        // Given back last, when what was cut off has been said.
        let _permit = under_way.action();
        _ = tell.send(answer.await);
    });
    Box::pin(async move { told.await.unwrap_or_else(|_| api::cut_off()) })
}

/// What acts goes on to its end, whoever waits for its answer, and however long that takes.
fn in_a_task(
    request: hyper::Request<Incoming>,
    peer: SocketAddr,
    site: Arc<Site>,
    under_way: Arc<UnderWay>,
    actions: &Mutex<JoinSet<()>>,
) -> Answer<Response> {
    let (tell, told) = oneshot::channel();
    let (show, shown) = oneshot::channel();
    let site_of_action = Arc::clone(&site);
    let acting = async move {
        let site = site_of_action;
        let read = read(request, peer).await;
        // The end of the server waits for what acts, and not for a form that is still to come. It is given back last, when what was cut off
        // has been said.
        let _permit = under_way.action();
        let response = match read {
            Ok(request) => {
                _ = show.send(request.clone());
                site.handle(request).await
            }
            Err(refusal) => refusal,
        };
        if let Err(Response { unseen: Some((session, notice)), .. }) = tell.send(response) {
            site.notify_session(&session, notice);
        }
    };
    actions.lock().unwrap_or_else(PoisonError::into_inner).spawn(acting);
    Box::pin(async move {
        let mut told = std::pin::pin!(told);
        let answered = match shown.await {
            // It was refused.
            Err(_) => told.await,
            Ok(request) => match timeout(LONGEST_ACTION, &mut told).await {
                Ok(answered) => answered,
                Err(_) => return site.goes_on(&request),
            },
        };
        answered
            .unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, "this did not end: see the log of duly web"))
    })
}

/// A request with its form; or why it is refused.
async fn read(request: hyper::Request<Incoming>, peer: SocketAddr) -> Result<Request, Response> {
    let (head, body) = request.into_parts();
    if let Some(refusal) = refused_type(&head.headers) {
        return Err(refusal);
    }
    let length = body.size_hint().exact();
    let Ok(body) = timeout(LONGEST_FORM, Limited::new(body, MOST_BODY_BYTES).collect()).await else {
        return Err(plain(StatusCode::REQUEST_TIMEOUT, "the form took too long"));
    };
    let body = match body {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(too_large()),
        Err(_) => return Err(plain(StatusCode::BAD_REQUEST, NOT_WHOLE)),
    };
    // Of a browser that has gone half way there may be no error.
    if length.is_some_and(|length| length != body.len() as u64) {
        return Err(plain(StatusCode::BAD_REQUEST, NOT_WHOLE));
    }
    Ok(with_form(hyper::Request::from_parts(head, ()), peer, Fields::parse(&body)))
}

fn with_form<T>(request: hyper::Request<T>, peer: SocketAddr, form: Fields) -> Request {
    let (head, _) = request.into_parts();
    let query = Fields::parse(head.uri.query().unwrap_or("").as_bytes());
    let path = head.uri.path().to_owned();
    let is_over_tls = is_forwarded_over_tls(&head.headers);
    Request { method: head.method, path, query, headers: head.headers, form, peer: peer.to_string(), is_over_tls }
}

fn written(response: Response) -> Sent {
    let mut written = hyper::Response::new(Full::new(response.body.into()));
    *written.status_mut() = response.status;
    *written.headers_mut() = response.headers;
    // Also where connections are kept for the API.
    written.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    written
}
