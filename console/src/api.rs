//! `duly web --api`: the verbs of queues as JSON over HTTP, for languages without a skin.
//!
//! | file | duty |
//! |---|---|
//! | `body.rs` | the body of a request: how large, how slow, and of what type |
//! | `connection.rs` | connections that are kept, and those that are too slow |
//! | `fields.rs` | a JSON object that is read strictly |
//! | `jobs.rs` | finds, lists, cancels, reschedules and requeues jobs |
//! | `openapi.json` | the description of all of it, which is served as it is |
//! | `push.rs` | pushes jobs |
//! | `queues.rs` | lists queues, counts their jobs, pauses and deletes them |
//! | `rate.rs` | so many requests of a token in so much time |
//! | `reply.rs` | what is answered: a status and JSON, or why not |
//! | `reserve.rs` | reserves jobs, and waits for them |
//! | `room.rs` | what pages of jobs take of the memory |
//! | `route.rs` | which path and method is which verb, and who may call it |
//! | `settle.rs` | acks, fails, releases and extends reserved jobs, and waits for results |
//! | `tokens.rs` | who may come in |
//! | `written.rs` | jobs as JSON |

mod body;
mod connection;
mod fields;
mod jobs;
mod push;
mod queues;
mod rate;
mod reply;
mod reserve;
mod room;
mod route;
mod settle;
mod tokens;
mod written;

pub(crate) use connection::{LONGEST_REST, Pace, Paced, Paces, keep};
pub(crate) use reply::Sent;

use std::fmt;
use std::net::SocketAddr;

use duly::{Client, Error, ErrorKind, Queue, Rate};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use tokio::sync::{Semaphore, watch};

use self::body::Bodies;
use self::fields::Object;
use self::queues::Listed;
use self::reply::{Refusal, Reply};
use self::room::Rooms;
use self::route::{Found, Query, Verb, find};
use self::tokens::{Token, Tokens};
use crate::actions;
use crate::show::escaped;

/// Where all of it is.
const ROOT: &str = "/api/v1/";
const OPENAPI: &str = include_str!("api/openapi.json");

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const CUT_OFF: &str = "cut off: it may be done, or done in part";

/// How many connections are served at once, those of the page among them. Each may wait for jobs, over a connection to the server of the
/// queues: both together stay below the 1,024 files that a process may open by default.
pub(crate) const MOST_CONNECTIONS: u16 = 512;
/// How many requests wait for jobs or results at once.
const MOST_WAITING: usize = 256;

/// Is the API asked?
pub(crate) fn is_for(path: &str) -> bool {
    path.starts_with(ROOT)
}

/// Does it ask for what is noted? That goes on to its end, whoever waits for its answer.
pub(crate) fn acts<T>(request: &hyper::Request<T>) -> bool {
    let path = request.uri().path().strip_prefix(ROOT).unwrap_or_default();
    matches!(find(request.method(), path), Ok(Ok(found)) if found.verb.is_noted())
}

/// The last answer of a connection, for whoever has closed it on the other side, or if there is no other one.
pub(crate) fn cut_off() -> Sent {
    let error = Error::new(ErrorKind::Interrupted, format!("this was {CUT_OFF}"));
    Reply::from(Refusal::from(error)).closing().into_response()
}

/// Everything that answers.
pub(crate) struct Api {
    client: Client,
    tokens: Tokens,
    bodies: Bodies,
    listed: Listed,
    rooms: Rooms,
    /// Those that wait for jobs or results.
    waiting: Semaphore,
    /// The command ends: who waits gets what there is, which is nothing.
    ending: watch::Sender<bool>,
    /// Takes a line for each refused token, and for each call of an operator.
    log: Box<dyn Fn(String) + Send + Sync>,
}

/// A request that may be answered.
struct Call<'a> {
    api: &'a Api,
    head: &'a Parts,
    query: Query,
    /// What stands in the path for the queue, and for the id or key of a job.
    queue: String,
    job: String,
}

impl Api {
    /// With the tokens of the environment. `rate`: of each token.
    ///
    /// Errors: `InvalidArgument` without tokens, or for wrong ones.
    pub(crate) fn new(
        client: Client,
        rate: Option<Rate>,
        log: Box<dyn Fn(String) + Send + Sync>,
    ) -> Result<Self, Error> {
        let tokens = Tokens::of_environment(rate)?;
        let (bodies, listed, rooms) = (Bodies::default(), Listed::default(), Rooms::default());
        let (waiting, ending) = (Semaphore::new(MOST_WAITING), watch::Sender::new(false));
        Ok(Self { client, tokens, bodies, listed, rooms, waiting, ending, log })
    }

    /// The command ends.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// When that is.
    pub(crate) async fn ended(&self) {
        _ = self.ending.subscribe().wait_for(|ends| *ends).await;
    }

    /// Answers one request. Dropped before the end it leaves nothing reserved.
    pub(crate) async fn answer(&self, request: hyper::Request<Incoming>, peer: SocketAddr) -> Sent {
        let (head, body) = request.into_parts();
        let path = head.uri.path().strip_prefix(ROOT).unwrap_or_default();
        // The connection of whoever has no token is kept for nobody.
        if path == "openapi.json" && head.method == Method::GET {
            return Reply::json(StatusCode::OK, OPENAPI).closing().into_response();
        }
        let peer = Peer { address: peer, forwarded: head.headers.get(FORWARDED_FOR) };
        match self.token(&head.headers, &peer) {
            Ok(token) => self.reply(token, &head, path, body, &peer).await.unwrap_or_else(Reply::from),
            Err(refusal) => Reply::from(refusal).closing(),
        }
        .into_response()
    }

    async fn reply(
        &self,
        token: &Token,
        head: &Parts,
        path: &str,
        body: Incoming,
        peer: &Peer<'_>,
    ) -> Result<Reply, Refusal> {
        token.take_one()?;
        let Found { verb, role, queue, job } = match find(&head.method, path)? {
            Ok(found) => found,
            Err(allowed) => return Err(Refusal::wrong_method(&allowed)),
        };
        if token.role < role {
            return Err(Refusal::not_permitted(token.role, role));
        }
        let call = Call { api: self, head, query: Query::of(&head.uri)?, queue, job };
        if !verb.is_noted() {
            return call.run(verb, body).await;
        }
        let given = |name| call.query.text(name).unwrap_or("");
        let jobs = if verb == Verb::Delete { call.query.text("jobs").unwrap_or("0") } else { "" };
        let fields = [("queue", &*call.queue), ("parts", given("partitions")), ("jobs", jobs)];
        let what = actions::described(verb.word(), &fields);
        let mut noted =
            Noted { api: self, who: format!("token {}", token.name), peer, what, outcome: CUT_OFF.to_owned() };
        let answered = call.run(verb, body).await;
        noted.outcome = answered.as_ref().map_or_else(Refusal::message, Reply::outcome).to_owned();
        let who = format!("api {} from {peer}", noted.who);
        if let Err(why) = actions::note(&self.client, &who, &noted.what, &noted.outcome).await {
            noted.outcome = format!("{}; {why}", noted.outcome);
        }
        answered
    }

    fn token(&self, headers: &HeaderMap, peer: &Peer<'_>) -> Result<&Token, Refusal> {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
        self.tokens.check(given, peer.address.ip()).map_err(|closed| {
            // One that comes too often fills no log.
            if closed.is_new() {
                self.note("a wrong token", peer, "refused");
            }
            closed.into()
        })
    }

    /// When, who, from where, and what.
    fn note(&self, who: &str, peer: &Peer<'_>, what: &str) {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        (self.log)(format!("{now} api {who} from {peer}: {}", escaped(what.chars())));
    }
}

/// The other end of a connection; behind a proxy also what that says of it.
struct Peer<'a> {
    address: SocketAddr,
    forwarded: Option<&'a HeaderValue>,
}

impl fmt::Display for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 64;
        self.address.fmt(f)?;
        match self.forwarded.and_then(|forwarded| forwarded.to_str().ok()) {
            None => Ok(()),
            Some(forwarded) => write!(f, " for {}", escaped(forwarded.chars().take(MOST))),
        }
    }
}

/// A call of an operator. Its line is in the log when it is gone, also if nobody waits for its end.
struct Noted<'a> {
    api: &'a Api,
    who: String,
    peer: &'a Peer<'a>,
    what: String,
    outcome: String,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.api.note(&self.who, self.peer, &format!("{}: {}", self.what, self.outcome));
    }
}

impl Call<'_> {
    async fn run(&self, verb: Verb, body: Incoming) -> Result<Reply, Refusal> {
        if verb.has_body() {
            let body = self.api.bodies.read(&self.head.headers, body).await?;
            return match verb {
                Verb::Push => self.push(&body).await,
                Verb::Reserve => self.reserve(&body).await,
                Verb::Ack => self.ack(&body).await,
                Verb::Fail => self.fail(&body).await,
                Verb::Release => self.release(&body).await,
                Verb::Extend => self.extend(&body).await,
                Verb::Requeue => self.requeue(&body).await,
                _ => self.reschedule(&body, verb == Verb::RescheduleKey).await,
            };
        }
        if !body.is_end_stream() {
            let body = self.api.bodies.read(&self.head.headers, body).await?;
            Object::of_body(&body)?.end()?;
        }
        // The queries that each takes are named where they are read.
        match verb {
            Verb::Queues => self.queues().await,
            Verb::Counts => self.counts().await,
            Verb::Delete => self.delete().await,
            Verb::Pause => self.set_paused(true).await,
            Verb::Resume => self.set_paused(false).await,
            Verb::List => self.list().await,
            Verb::Find => self.find(false).await,
            Verb::FindKey => self.find(true).await,
            Verb::Cancel => self.cancel(false).await,
            Verb::CancelKey => self.cancel(true).await,
            _ => self.result().await,
        }
    }

    /// The queue of the path.
    async fn queue(&self) -> Result<Queue, Refusal> {
        self.api.listed.open(&self.api.client, &self.queue, self.query.whole("partitions")?).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_operators_do_goes_on_to_its_end() {
        let acts =
            |method: &str, path: &str| acts(&hyper::Request::builder().method(method).uri(path).body(()).unwrap());
        assert!(acts("POST", "/api/v1/queues/orders/pause") && acts("DELETE", "/api/v1/queues/orders?jobs=1"));
        assert!(!acts("GET", "/api/v1/queues/orders") && !acts("POST", "/api/v1/queues/orders/reserve"));
        assert!(!acts("POST", "/queues/orders/pause"));
    }

    #[test]
    fn only_what_is_below_the_root_is_for_the_api() {
        assert!(is_for("/api/v1/queues") && is_for("/api/v1/"));
        assert!(!is_for("/api/v1") && !is_for("/api/v10/queues") && !is_for("/") && !is_for("//api/v1/queues"));
    }
}
