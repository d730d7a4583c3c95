//! `duly web`: a page in the browser that shows what the command shows, and does what it does.
//!
//! | file | duty |
//! |---|---|
//! | `actions.rs` | the log of actions, and how the page gets into it |
//! | `act.rs` | what can be done from the page, and the pages that ask first |
//! | `asked.rs` | the jobs that a question is about |
//! | `commands.rs` | what can be done with a job, as commands |
//! | `delete.rs` | deletes a queue, after a question |
//! | `door.rs` | who may come in |
//! | `failed.rs`, `groups.rs`, `job.rs`, `matches.rs`, `overview.rs`, `queue.rs`, `schedules.rs`, `search.rs`, `topics.rs`, `workers.rs` | a page each |
//! | `frame.rs` | the frame around each page |
//! | `health.rs` | what `duly doctor` finds, as a page |
//! | `limits.rs` | the limits of a queue, and the form that changes them |
//! | `mounted.rs` | the page in an application |
//! | `named.rs` | a queue as pages name it |
//! | `newest.rs` | failed jobs from the newest on |
//! | `request.rs` | a request and its response, without a socket |
//! | `rights.rs` | what those who look may do |
//! | `runs.rs` | what runs came to, on the page of a queue |
//! | `scrape.rs` | `/metrics`, for Prometheus |
//! | `server.rs` | the sockets |
//! | `sessions.rs` | what is known between two requests: in memory, or in cookies and locks |
//! | `site.rs` | from a request to its response |
//! | `text.rs` | texts, counts and times |
//! | `view.rs` | what all pages share |
//! | `words.rs` | the words, in each language |

mod act;
mod actions;
mod asked;
mod commands;
mod delete;
mod door;
mod failed;
mod frame;
mod groups;
mod health;
mod job;
mod limits;
mod matches;
mod mounted;
mod named;
mod newest;
mod overview;
mod queue;
mod request;
mod rights;
mod runs;
mod schedules;
mod scrape;
mod search;
mod server;
mod sessions;
mod site;
mod text;
mod topics;
mod view;
mod words;
mod workers;

use std::cell::Cell;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use duly::{Error, Rate};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub use self::mounted::{Visit, WebAnswer, WebPage};
pub use self::rights::{Rights, Role};

use self::asked::Asked;
use self::door::{Door, without_port};
use self::scrape::Scrapes;
use self::sessions::Sessions;
use self::site::Site;
use crate::api::Api;
use crate::limits::Limit;
use crate::signals::Ends;
use crate::target::Target;
use crate::{DONE, Output, invalid};

/// Names the password, so that it is in no list of processes.
const PASSWORD: &str = "DULY_WEB_PASSWORD";
const SHORTEST_PASSWORD: usize = 12;
/// How long a page waits for the server of the queues.
const PATIENCE: Duration = Duration::from_secs(3);

/// Show queues, jobs, schedules, workers, topics and the server in a browser, and act on them
#[derive(Debug, Args)]
#[command(after_help = "\
Without a password it listens on this machine only, and prints an address that signs in one browser, once.
With a password of 12 characters or more in DULY_WEB_PASSWORD it asks for that, and may listen elsewhere. It speaks
plain HTTP: put a proxy with TLS before it, or reach it with `ssh -L 8420:127.0.0.1:8420 host`. /metrics has what
`duly metrics` prints, for scrapers that give the password by Basic auth.

With --api it also serves a JSON API under /api/v1/ for the tokens in DULY_API_TOKENS, each as role:token, with spaces or commas
between them. The roles are view, work, operate and admin; --read-only is about the page, and not about them.

examples:
  duly web
  duly web --read-only --listen 127.0.0.1:0
  DULY_API_TOKENS=work:… duly web --api
  DULY_WEB_PASSWORD=… duly web --listen 0.0.0.0:8420 --host queues.example.com")]
pub(crate) struct Web {
    #[command(flatten)]
    target: Target,
    /// Address and port; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8420")]
    listen: SocketAddr,
    /// Show everything, and act on nothing
    #[arg(long)]
    read_only: bool,
    /// A name by which browsers reach it, such as that of a proxy; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = host)]
    host: Vec<String>,
    /// Serve a JSON API, too, for tokens that are in the environment
    #[arg(long)]
    api: bool,
    /// How many requests each token may make in a time, such as 1000/1s [default: no limit]
    #[arg(long, value_name = "RATE", requires = "api", value_parser = rate)]
    api_rate: Option<Rate>,
}

impl Web {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let password = self.password()?;
        let mut ends = Ends::hear()?;
        let client = self.target.builder().deadline(PATIENCE).build()?;
        let (listener, address) = self.bind().await?;
        let door = Door::new(password, self.host.clone(), address.port())?;
        let path = door.token().map_or_else(String::new, |token| format!("sign-in?token={token}"));
        let (log, mut lines) = unbounded_channel();
        let log_of_api = log.clone();
        let open_api = || Api::new(client.clone(), self.api_rate, Box::new(move |line| _ = log_of_api.send(line)));
        let api = self.api.then(open_api).transpose()?.map(Arc::new);
        let log = Box::new(move |line| _ = log.send(line));
        let sessions = Sessions::Kept { door: Box::new(door), asked: Asked::default() };
        let rights = if self.read_only { Rights::VIEW } else { Rights::ALL };
        let (hides_data, scrapes, is_ending) = (false, Scrapes::default(), AtomicBool::new(false));
        let site = Arc::new(Site { client: client.clone(), sessions, rights, hides_data, log, scrapes, is_ending });
        let answered = tokio::select! {
            answered = client.ping() => answered,
            end = ends.come() => return Ok(end.status()),
        };
        if let Err(error) = answered {
            output.complain(&format!("{error}; the page says so until the server answers"));
        }
        output.line(&format!("http://{address}/{path}"));
        _ = output.out.flush();
        let status = Cell::new(DONE);
        let serving = server::serve(listener, site, api, async { status.set(ends.come().await.status()) });
        tokio::pin!(serving);
        loop {
            tokio::select! {
                () = &mut serving => break,
                Some(line) = lines.recv() => output.complain(&line),
            }
        }
        // Jobs that were reserved for somebody who is gone.
        duly::runtime::leftovers_end().await;
        write_rest(&mut lines, &mut output);
        Ok(status.get())
    }

    /// Errors: `InvalidArgument` if others could come in without one.
    fn password(&self) -> Result<Option<String>, Error> {
        let password = std::env::var_os(PASSWORD).filter(|password| !password.is_empty());
        let password = password.map(OsString::into_string).transpose();
        let password = password.map_err(|_| invalid(format!("the password in {PASSWORD} is no text in UTF-8")))?;
        if password.as_ref().is_some_and(|password| password.chars().count() < SHORTEST_PASSWORD) {
            return Err(invalid(format!(
                "the password in {PASSWORD} has fewer than {SHORTEST_PASSWORD} characters: take a longer one"
            )));
        }
        if password.is_none() && !self.listen.ip().is_loopback() {
            return Err(invalid(format!(
                "others can reach {}: put a password of {SHORTEST_PASSWORD} characters or more into {PASSWORD}, or listen on 127.0.0.1",
                self.listen.ip()
            )));
        }
        Ok(password)
    }

    async fn bind(&self) -> Result<(TcpListener, SocketAddr), Error> {
        let refused = |error| {
            invalid(format!("{} cannot be listened on: {error}: choose another address with --listen", self.listen))
        };
        let listener = TcpListener::bind(self.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok((listener, address))
    }
}

/// As a browser sends it, without the port: any is right.
fn host(text: &str) -> Result<String, String> {
    let name = without_port(text);
    if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || "/:@?#".contains(letter)) {
        return Err("name a host as in https://HOST/, such as queues.example.com".to_owned());
    }
    Ok(name.to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    match crate::limits::rate(text) {
        Ok(Limit::Is(rate)) if rate.jobs > 0 && !rate.per.is_zero() => Ok(rate),
        _ => Err("a rate is such as 1000/1s or 5000/1m".to_owned()),
    }
}

fn write_rest(lines: &mut UnboundedReceiver<String>, output: &mut Output<'_>) {
    while let Ok(line) = lines.try_recv() {
        output.complain(&line);
    }
}
