//! The settings of a client: what a program and its environment say.

mod handed_over;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::{Client, EmbeddedFolder, Shared, Stop};
use crate::connection::{Connection, Secret, Settings};
use crate::queue::event::{ClientEvent, Listener};
use crate::queue::held_pulls::HeldPulls;
use crate::queue::other_connections::OtherConnections;
use crate::queue::session::Session;
use crate::script::{Clock, permissions_key};
use crate::value::data::DEFAULT_MAX_DATA_BYTES;
use crate::value::durability::Durability;
use crate::value::error::Error;
use crate::value::id::IdGenerator;
use crate::value::name;

/// The beginning of all keys unless the builder sets another one.
pub const DEFAULT_PREFIX: &str = "duly:";
const DEFAULT_URL: &str = "redis://127.0.0.1:6379";
/// What a program may set it to: every skin can say these numbers.
const MAX_DATA_BYTES: RangeInclusive<usize> = 1..=(1 << 53) - 1;

/// Settings of a [`Client`].
#[derive(Debug, Clone)]
pub struct ClientBuilder {
    url: Option<Secret>,
    settings: Settings,
    deadline: Option<Duration>,
    late_deadline: Option<fn() -> Option<Duration>>,
    prefix: String,
    server_hint: Option<PathBuf>,
    clock: Clock,
    max_data_bytes: usize,
    durability: Durability,
    listener: Listener,
    language: &'static str,
    stop: Option<Stop>,
    /// Has the server ever answered a client of this builder? Kept for those that are built anew: beside it, and after a fork.
    has_worked: Option<Arc<AtomicBool>>,
}

impl ClientBuilder {
    /// How long a call is retried if nobody says so.
    #[doc(hidden)] // for the skins
    pub const DEFAULT_DEADLINE: Duration = Settings::DEFAULT_DEADLINE;
    /// The same where a request waits: nobody looks at a page for as long as a worker may try.
    #[doc(hidden)] // for the skins
    pub const DEADLINE_IN_REQUESTS: Duration = Duration::from_secs(2);

    pub(super) fn new() -> Self {
        Self {
            url: None,
            settings: Settings::new(DEFAULT_URL),
            deadline: None,
            late_deadline: None,
            prefix: DEFAULT_PREFIX.to_owned(),
            server_hint: None,
            clock: Clock::Server,
            max_data_bytes: DEFAULT_MAX_DATA_BYTES,
            durability: Durability::None,
            listener: Listener::default(),
            language: "rust",
            stop: None,
            has_worked: None,
        }
    }

    /// What a client of it has reached, those have reached that are built of its clones.
    pub(crate) fn keeping_what_is_reached(mut self) -> Self {
        self.has_worked.get_or_insert_default();
        self
    }

    /// Where the server is. Without it: the environment's `DULY_URL`, else `redis://127.0.0.1:6379`.
    #[must_use]
    pub fn url(mut self, url: &str) -> Self {
        self.url = Some(Secret::new(url));
        self
    }

    /// The ACL user, instead of the URL's.
    #[must_use]
    pub fn username(mut self, username: &str) -> Self {
        self.settings.username = Some(username.to_owned());
        self
    }

    /// The password, instead of the URL's.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.settings.password = Some(Secret::new(password));
        self
    }

    /// PEM file of the authorities to trust for `rediss://`, instead of the system's.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.ca_file = Some(absolute(path.into()));
        self
    }

    /// PEM files of the client's certificate and key, for servers that ask for one.
    #[must_use]
    pub fn client_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.settings.client_cert_file = Some(absolute(certificate.into()));
        self.settings.client_key_file = Some(absolute(key.into()));
        self
    }

    /// How long one connection may take to be ready (default 3 s).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long one attempt of a call waits without receiving a byte (default 5 s, at most 10 minutes). So a large answer
    /// may take longer over a slow line; the deadline still ends it.
    #[must_use]
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.settings.command_timeout = timeout;
        self
    }

    /// How long a call is retried in all, over lost connections and restarts (at most 10 minutes). Default: the environment
    /// variable `DULY_DEADLINE`, in seconds, or else 15 s. That suits workers and commands; in a process that answers web
    /// requests, set about 2 s.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the deadline for when neither [`ClientBuilder::deadline`] nor the environment sets one, instead of 15 s: for a
    /// language that knows whether it serves web requests.
    #[must_use]
    pub fn default_deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// The same for a language in which that is not yet known when a client is made: asked once, at its first call; none leaves
    /// what is set otherwise.
    #[must_use]
    pub fn default_deadline_at_first_call(mut self, deadline: fn() -> Option<Duration>) -> Self {
        self.late_deadline = Some(deadline);
        self
    }

    /// A circuit breaker for each server: after a call has waited for its whole deadline in vain, the next ones fail at once
    /// with `Unreachable`, and nothing is sent. About once a second one call probes whether the server is back, and the
    /// first answer closes the breaker. Default: on if the deadline is at most 5 s. It applies to every call of this client;
    /// workers keep retrying.
    #[must_use]
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.settings.fail_fast = Some(fail_fast);
        self
    }

    /// Accepts a server that may evict keys, and with them jobs. Off by default.
    #[must_use]
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.settings.allow_eviction = allow;
        self
    }

    /// The beginning of every key (default `duly:`): at most 128 of the characters `A-Z a-z 0-9 . _ : -`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// The largest data of a job, in bytes of JSON, 1 to 2^53 - 1 (default 1 MiB).
    #[must_use]
    pub fn max_data_bytes(mut self, max: usize) -> Self {
        self.max_data_bytes = max;
        self
    }

    /// When a push returns (default: when the server has the job in memory), unless the job sets its own
    /// ([`NewJob::durability`](crate::NewJob::durability)).
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the function that gets each [`ClientEvent`], instead of the log (`tracing`). It is called on the thread that runs the
    /// call, and must not wait.
    #[must_use]
    pub fn on_event(mut self, hears: impl Fn(&ClientEvent) + Send + Sync + 'static) -> Self {
        self.listener = Listener::new(hears);
        self
    }

    /// The language of the program that calls, as a history of jobs shows it ([`Queue::trace`](crate::Queue::trace)); `rust` unless set.
    #[doc(hidden)] // for the other languages
    #[must_use]
    pub fn language(mut self, language: &'static str) -> Self {
        self.language = language;
        self
    }

    /// Sets what ends the calls of this client.
    #[doc(hidden)] // for the command
    #[must_use]
    pub fn stopped_by(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// A server program to fall back on for `embedded:` when the machine has none.
    #[must_use]
    pub fn server_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.server_hint = Some(program.into());
        self
    }

    /// For tests: due times, leases and ages follow a clock that stands still until
    /// [`Queue::set_clock`](crate::Queue::set_clock) moves it. Such a client's queues must not be shared with normal clients.
    #[must_use]
    pub fn manual_clock(mut self) -> Self {
        self.clock = Clock::Manual;
        self
    }

    /// Builds the client. Sends nothing: the first call connects.
    ///
    /// Errors: `InvalidArgument`.
    pub fn build(self) -> Result<Client, Error> {
        name::check_prefix(&self.prefix)?;
        if !MAX_DATA_BYTES.contains(&self.max_data_bytes) {
            let message = format!("max_data_bytes is 1 to {}, not {}", MAX_DATA_BYTES.end(), self.max_data_bytes);
            return Err(Error::invalid(message));
        }
        let from_environment =
            || std::env::var("DULY_URL").ok().filter(|url| !url.is_empty()).map(|url| Secret::new(&url));
        let (mut settings, mut late_deadline) = (self.settings, self.late_deadline);
        let url = self.url.or_else(from_environment).unwrap_or_else(|| Secret::new(DEFAULT_URL));
        let embedded = url.reveal().strip_prefix("embedded:").map(|folder| match folder {
            "" => EmbeddedFolder::Default,
            folder => EmbeddedFolder::Given(PathBuf::from(folder)),
        });
        settings.url = url;
        if let Some(deadline) = self.deadline.map_or_else(deadline_of_environment, |deadline| Ok(Some(deadline)))? {
            settings.deadline = deadline;
            late_deadline = None;
        }
        settings.permissions_key = permissions_key(&self.prefix);
        if embedded.is_none() {
            // Says now, not at the first call, what is wrong with the URL or the certificates.
            Connection::new(settings.clone())?;
        }
        Ok(Client {
            shared: Arc::new(Shared {
                settings,
                late_deadline,
                embedded,
                server_hint: self.server_hint,
                backend: OnceCell::new(),
                has_worked: self.has_worked.unwrap_or_default(),
                is_closed: AtomicBool::new(false),
                prefix: self.prefix,
                ids: IdGenerator::new(),
                session: Session::new()?,
                queues: Mutex::default(),
                topics: Mutex::default(),
                registering: Arc::default(),
                pulls: HeldPulls::default(),
                beside: OtherConnections::default(),
                clock: self.clock,
                max_data_bytes: self.max_data_bytes,
                durability: self.durability,
                listener: self.listener,
                language: self.language,
                stop: self.stop,
            }),
        })
    }
}

/// The program may go to another folder before a file is read.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Seconds, as in a container's settings.
fn deadline_of_environment() -> Result<Option<Duration>, Error> {
    let text = std::env::var("DULY_DEADLINE").ok().filter(|text| !text.is_empty());
    text.map(|text| seconds(&text)).transpose()
}

fn seconds(text: &str) -> Result<Duration, Error> {
    let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| Error::invalid(format!("DULY_DEADLINE is '{text}', which is no number of seconds")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;

    #[test]
    fn the_path_of_a_certificate_is_that_of_the_folder_in_which_it_was_said() {
        let builder = Client::builder().ca_file("ca.pem").client_certificate("/etc/cert.pem", "keys/key.pem");
        let here = std::env::current_dir().unwrap();
        let Settings { ca_file, client_cert_file, client_key_file, .. } = builder.settings;
        assert_eq!([ca_file, client_key_file], [Some(here.join("ca.pem")), Some(here.join("keys/key.pem"))]);
        assert_eq!(client_cert_file, Some(PathBuf::from("/etc/cert.pem")));
    }

    #[test]
    fn a_deadline_of_the_environment_is_in_seconds_and_a_language_may_have_its_own_default() {
        assert_eq!(seconds("2").unwrap(), Duration::from_secs(2));
        assert_eq!(seconds(" 0.5").unwrap(), Duration::from_millis(500));
        for text in ["soon", "-1", "nan", "1e300"] {
            assert_eq!(seconds(text).unwrap_err().kind(), ErrorKind::InvalidArgument, "{text}");
        }
        let two = Duration::from_secs(2);
        let deadline = |builder: ClientBuilder| builder.build().unwrap().shared.settings.deadline;
        assert_eq!(deadline(Client::builder().default_deadline(two)), two);
        let set = Client::builder().deadline(Duration::from_secs(30)).default_deadline(two);
        assert_eq!(deadline(set), Duration::from_secs(30));
    }
}
