//! The client: settings, one connection layer, one session.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::connection::{self, Connection, Enough, Secret, Settings, WaitedBy, Woken};
use crate::embedded::{self, Attached};
use crate::queue::event::{ClientEvent, Listener};
use crate::queue::held_pulls::HeldPulls;
use crate::queue::known_queues::KnownQueues;
use crate::queue::other_connections::OtherConnections;
use crate::queue::session::Session;
use crate::queue::{Part, Queue};
use crate::script::{Call, Clock, Command, Reply, permissions_key, ping};
use crate::value::data::DEFAULT_MAX_DATA_BYTES;
use crate::value::durability::Durability;
use crate::value::error::{Error, ErrorKind};
use crate::value::id::IdGenerator;
use crate::value::name;

/// The beginning of all keys unless the builder sets another one.
pub const DEFAULT_PREFIX: &str = "duly:";
/// A worker says that the server does not answer when a call has been tried for this long.
const WORKER_DEADLINE: Duration = Duration::from_secs(2);
/// How often a call that goes on looks whether its embedded server is alive: a `PING` on its socket.
const LOOK_AFTER_EMBEDDED: Duration = Duration::from_millis(250);
/// How often a client that is closed lets others have the runtime.
const TURNS: usize = 4;
const DEFAULT_URL: &str = "redis://127.0.0.1:6379";

/// A client of the server that holds the queues. Cheap to clone; clones share their connections.
///
/// A client belongs to the tokio runtime of its first call, and to the process that created it: a forked child creates its
/// own (the blocking facade and the Python and PHP skins do that by themselves).
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    settings: Settings,
    embedded: Option<EmbeddedFolder>,
    server_hint: Option<PathBuf>,
    backend: OnceCell<Backend>,
    is_closed: AtomicBool,
    pub(crate) prefix: String,
    pub(crate) ids: IdGenerator,
    pub(crate) session: Session,
    pub(crate) queues: Mutex<KnownQueues>,
    pub(crate) pulls: HeldPulls,
    /// Over which locks are renewed.
    pub(crate) beside: OtherConnections,
    pub(crate) clock: Clock,
    pub(crate) max_data_bytes: usize,
    pub(crate) durability: Durability,
    pub(crate) listener: Listener,
}

/// Where an embedded server keeps its data.
#[derive(Clone)]
enum EmbeddedFolder {
    Default,
    Given(PathBuf),
}

/// What a program may set it to: every skin can say these numbers.
const MAX_DATA_BYTES: RangeInclusive<usize> = 1..=(1 << 53) - 1;

struct Backend {
    connection: Connection,
    attached: Option<Attached>,
}

/// Settings of a [`Client`].
#[derive(Debug, Clone)]
pub struct ClientBuilder {
    url: Option<Secret>,
    settings: Settings,
    deadline: Option<Duration>,
    prefix: String,
    server_hint: Option<PathBuf>,
    clock: Clock,
    max_data_bytes: usize,
    durability: Durability,
    listener: Listener,
}

impl Client {
    /// A client for this URL. Makes a first round trip to the server, so that a wrong address or password is an error here.
    ///
    /// `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://`, `redis+cluster://`, or `embedded:` for a private
    /// server that duly starts itself.
    ///
    /// Errors: `InvalidArgument`, `Unreachable`, `AuthenticationFailed`, `PermissionDenied`, `EvictionPolicy`,
    /// `Unsupported`, `ReadOnly`, `Embedded`.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let client = Self::builder().url(url).build()?;
        client.ping().await?;
        Ok(client)
    }

    /// Settings to choose from; `build` does no I/O.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            url: None,
            settings: Settings::new(DEFAULT_URL),
            deadline: None,
            prefix: DEFAULT_PREFIX.to_owned(),
            server_hint: None,
            clock: Clock::Server,
            max_data_bytes: DEFAULT_MAX_DATA_BYTES,
            durability: Durability::None,
            listener: Listener::default(),
        }
    }

    /// The queue of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Nothing is sent; a queue exists when it
    /// has a job.
    ///
    /// Errors: `InvalidArgument`.
    pub fn queue(&self, name: &str) -> Result<Queue, Error> {
        name::check_queue(name)?;
        Ok(Part::new(self.clone(), name).into())
    }

    /// A client with the same settings and connections of its own, for the thread of a worker: its calls fail early, and the
    /// worker makes them again. What it notices, the worker reports.
    pub(crate) fn for_worker(&self, listener: Listener) -> Result<Self, Error> {
        let shared = &self.shared;
        if shared.is_closed.load(Ordering::Relaxed) {
            return Err(client_closed());
        }
        let mut settings = shared.settings.clone();
        settings.deadline = settings.deadline.min(WORKER_DEADLINE);
        settings.command_timeout = settings.command_timeout.min(WORKER_DEADLINE);
        // What it asks for may be large and the line slow; nobody waits for it but its own loop.
        settings.patient = true;
        settings.fail_fast = Some(false);
        Ok(Self {
            shared: Arc::new(Shared {
                settings,
                embedded: shared.embedded.clone(),
                server_hint: shared.server_hint.clone(),
                backend: OnceCell::new(),
                is_closed: AtomicBool::new(false),
                prefix: shared.prefix.clone(),
                ids: IdGenerator::new(),
                session: Session::new()?,
                queues: Mutex::default(),
                pulls: HeldPulls::default(),
                beside: OtherConnections::default(),
                clock: shared.clock,
                max_data_bytes: shared.max_data_bytes,
                durability: Durability::None,
                listener,
            }),
        })
    }

    /// One round trip to the server.
    pub async fn ping(&self) -> Result<(), Error> {
        self.command("ping", 0, ping()).await.map(|_| ())
    }

    /// Closes the connections of this client, its clones and its queues. Calls that are under way end first; later ones are
    /// refused. Workers have connections of their own, and an embedded server is left when all of these are dropped.
    pub async fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        let Some(backend) = self.shared.backend.get() else { return };
        backend.connection.close();
        // The runtime drops the tasks of the connections, and with them their sockets, when it has its next turns.
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.is_closed.load(Ordering::Relaxed)
    }

    async fn backend(&self, operation: &'static str) -> Result<&Backend, Error> {
        if self.shared.is_closed.load(Ordering::Relaxed) {
            return Err(client_closed().during(operation));
        }
        if let Some(backend) = self.shared.backend.get() {
            return Ok(backend);
        }
        // A task of its own: a caller that is not polled for a while (in the middle of a `select`, or interrupted by a signal
        // handler that calls us too) must not hold up the others.
        let shared = Arc::clone(&self.shared);
        let open = async move { shared.backend.get_or_try_init(|| shared.open()).await.map(drop) };
        let opened = match tokio::spawn(open).await {
            Ok(opened) => opened.map_err(|error| error.during(operation)),
            Err(failed) => Err(Error::new(ErrorKind::Internal, "the opening of the connection broke off")
                .caused_by(failed)
                .during(operation)),
        };
        let missing = || Error::new(ErrorKind::Internal, "the connection was not opened").during(operation);
        opened.and_then(|()| self.shared.backend.get().ok_or_else(missing))
    }

    pub(crate) async fn run(
        &self,
        operation: &'static str,
        call: &Call<'_>,
        durability: Durability,
    ) -> Result<Reply, Error> {
        let backend = self.backend(operation).await?;
        let (connection, durability) = (&backend.connection, self.shared.confirmed(durability));
        match (&backend.attached, durability) {
            (None, connection::Durability::None) => connection.run(operation, call).await,
            (None, durability) => connection.run_durably(operation, call, durability).await,
            // On the heap, like all that is rare: this future is moved about on every call.
            (Some(attached), connection::Durability::None) => {
                Box::pin(kept_alive(attached, || connection.run(operation, call))).await
            }
            (Some(attached), durability) => {
                Box::pin(kept_alive(attached, || connection.run_durably(operation, call, durability))).await
            }
        }
    }

    /// Waits on these lists for a wake-up; see [`Connection::wait_for_wakes`].
    pub(crate) async fn wait_for_wakes(
        &self,
        operation: &'static str,
        slot: u16,
        wake_keys: &[&[u8]],
        wait: Duration,
        enough: Option<&Enough>,
    ) -> Result<Woken, Error> {
        let waited =
            self.backend(operation).await?.connection.wait_for_wakes(operation, slot, wake_keys, wait, enough).await;
        waited.map_err(|error| match (error.kind(), wake_keys) {
            (ErrorKind::Corrupt, [key]) => foreign_key(&String::from_utf8_lossy(key), None, "list").during(operation),
            _ => error,
        })
    }

    /// See [`Connection::waits_again`].
    pub(crate) fn waits_again(&self, by: WaitedBy, error: &Error) -> bool {
        self.shared.backend.get().is_some_and(|backend| backend.connection.waits_again(by, error))
    }

    /// May one wait be for several queues? Only where that is known: a client that was never called says no.
    pub(crate) fn waits_together(&self) -> bool {
        self.shared.backend.get().is_some_and(|backend| backend.connection.waits_together())
    }

    /// Waits until a list has an element, and leaves it there.
    pub(crate) async fn wait_for_element(
        &self,
        operation: &'static str,
        slot: u16,
        key: &[u8],
        wait: Duration,
    ) -> Result<Woken, Error> {
        self.backend(operation).await?.connection.wait_for_element(slot, key, wait).await
    }

    /// Waits for an entry of a stream; see [`Connection::wait_for_news`].
    pub(crate) async fn wait_for_news(
        &self,
        operation: &'static str,
        slot: u16,
        streams: &[&[u8]],
        after: &[u64],
        wait: Duration,
        enough: Option<&Enough>,
    ) -> Result<Woken, Error> {
        let backend = self.backend(operation).await?;
        backend.connection.wait_for_news(operation, slot, streams, after, wait, enough).await
    }

    pub(crate) async fn command(&self, operation: &'static str, slot: u16, command: Command) -> Result<Reply, Error> {
        let backend = self.backend(operation).await?;
        match &backend.attached {
            None => backend.connection.command(operation, slot, command).await,
            Some(attached) => {
                Box::pin(kept_alive(attached, || backend.connection.command(operation, slot, command.clone()))).await
            }
        }
    }
}

pub(crate) fn client_closed() -> Error {
    Error::invalid("the client was closed: make a new one")
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("prefix", &self.shared.prefix).finish_non_exhaustive()
    }
}

impl Shared {
    async fn open(&self) -> Result<Backend, Error> {
        let Some(folder) = &self.embedded else {
            return Ok(Backend { connection: Connection::new(self.settings.clone())?, attached: None });
        };
        let folder = match folder {
            EmbeddedFolder::Default => None,
            EmbeddedFolder::Given(folder) => Some(folder.as_path()),
        };
        let attached = embedded::attach(folder, self.server_hint.as_deref()).await?;
        let mut settings = self.settings.clone();
        settings.url = Secret::new(format!("unix://{}", attached.socket().display()));
        Ok(Backend { connection: Connection::new(settings)?, attached: Some(attached) })
    }

    /// What to ask of the server, with the time that it has.
    fn confirmed(&self, durability: Durability) -> connection::Durability {
        let timeout = self.settings.command_timeout.min(self.settings.deadline);
        match durability {
            Durability::None => connection::Durability::None,
            Durability::Replicas { count } => connection::Durability::Replicas { count, timeout },
            Durability::Fsync => connection::Durability::Fsync { timeout },
        }
    }
}

/// Makes a call, and starts the embedded server again when it has died meanwhile or before: nobody else would.
async fn kept_alive<T, F>(attached: &Attached, call: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let keep_alive = async {
        loop {
            tokio::time::sleep(LOOK_AFTER_EMBEDDED).await;
            // What is wrong is said by whoever finds no server at all.
            let _ = attached.revive().await;
        }
    };
    let answered = tokio::select! {
        biased;
        answered = call() => answered,
        never = keep_alive => never,
    };
    match answered {
        // A new client's first call does not try again: a wrong address is no outage. This address is right.
        Err(error) if error.kind() == ErrorKind::Unreachable => {
            attached.revive().await.map_err(|failure| match error.operation() {
                Some(operation) => failure.during(operation),
                None => failure,
            })?;
            call().await
        }
        answered => answered,
    }
}

/// A key of duly's that holds what somebody else put there.
pub(crate) fn foreign_key(spelled: &str, found: Option<&str>, ours: &str) -> Error {
    let found = found.unwrap_or("value");
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "the key '{spelled}' holds a {found} that duly did not write (it keeps a {ours} there): rename or delete it, or \
             give duly another prefix; nothing was changed"
        ),
    )
}

impl ClientBuilder {
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
        self.settings.ca_file = Some(path.into());
        self
    }

    /// PEM files of the client's certificate and key, for servers that ask for one.
    #[must_use]
    pub fn client_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.settings.client_cert_file = Some(certificate.into());
        self.settings.client_key_file = Some(key.into());
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

    /// A server program to fall back on for `embedded:` when the machine has none.
    #[must_use]
    pub fn server_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.server_hint = Some(program.into());
        self
    }

    /// For tests: due times, leases and ages follow a clock that stands still until [`Queue::set_clock`] moves it. Such a
    /// client's queues must not be shared with normal clients.
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
        let mut settings = self.settings;
        let url = self.url.or_else(from_environment).unwrap_or_else(|| Secret::new(DEFAULT_URL));
        let embedded = url.reveal().strip_prefix("embedded:").map(|folder| match folder {
            "" => EmbeddedFolder::Default,
            folder => EmbeddedFolder::Given(PathBuf::from(folder)),
        });
        settings.url = url;
        if let Some(deadline) = self.deadline.map_or_else(deadline_of_environment, |deadline| Ok(Some(deadline)))? {
            settings.deadline = deadline;
        }
        settings.permissions_key = permissions_key(&self.prefix);
        if embedded.is_none() {
            // Says now, not at the first call, what is wrong with the URL or the certificates.
            Connection::new(settings.clone())?;
        }
        Ok(Client {
            shared: Arc::new(Shared {
                settings,
                embedded,
                server_hint: self.server_hint,
                backend: OnceCell::new(),
                is_closed: AtomicBool::new(false),
                prefix: self.prefix,
                ids: IdGenerator::new(),
                session: Session::new()?,
                queues: Mutex::default(),
                pulls: HeldPulls::default(),
                beside: OtherConnections::default(),
                clock: self.clock,
                max_data_bytes: self.max_data_bytes,
                durability: self.durability,
                listener: self.listener,
            }),
        })
    }
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
