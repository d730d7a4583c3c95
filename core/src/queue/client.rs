//! The client: settings, one connection layer, one session.

mod builder;
mod stop;

pub use builder::{ClientBuilder, DEFAULT_PREFIX};
pub use stop::Stop;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OnceCell, RwLock};

use crate::connection::{self, Connection, Enough, Secret, Settings, WaitedBy, Woken};
use crate::embedded::{self, Attached};
use crate::queue::event::Listener;
use crate::queue::held_pulls::HeldPulls;
use crate::queue::known_queues::KnownQueues;
use crate::queue::other_connections::OtherConnections;
use crate::queue::registration::Registration;
use crate::queue::session::Session;
use crate::queue::{Part, Queue};
use crate::script::{Call, Clock, Command, Reply, ping};
use crate::value::durability::Durability;
use crate::value::error::{Error, ErrorKind};
use crate::value::id::IdGenerator;
use crate::value::name;

/// A worker says that the server does not answer when a call has been tried for this long.
const WORKER_DEADLINE: Duration = Duration::from_secs(2);
/// How often a call that goes on looks whether its embedded server is alive: a `PING` on its socket.
const LOOK_AFTER_EMBEDDED: Duration = Duration::from_millis(250);
/// How often a client that is closed lets others have the runtime.
const TURNS: usize = 4;

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
    /// The deadline, if that is known only when a call is made.
    late_deadline: Option<fn() -> Option<Duration>>,
    embedded: Option<EmbeddedFolder>,
    server_hint: Option<PathBuf>,
    backend: OnceCell<Backend>,
    /// Has the server ever answered it, or a client that was made of it for a worker?
    has_worked: Arc<AtomicBool>,
    is_closed: AtomicBool,
    pub(crate) prefix: String,
    pub(crate) ids: IdGenerator,
    pub(crate) session: Session,
    pub(crate) queues: Mutex<KnownQueues>,
    /// The topics, in the same way.
    pub(crate) topics: Mutex<KnownQueues>,
    /// Held by each call that puts a queue on the list of queues.
    pub(crate) registering: Arc<RwLock<()>>,
    pub(crate) pulls: HeldPulls,
    /// Over which locks are renewed.
    pub(crate) beside: OtherConnections,
    pub(crate) clock: Clock,
    pub(crate) max_data_bytes: usize,
    pub(crate) durability: Durability,
    pub(crate) listener: Listener,
    /// Of the program that calls: `rust`, `python` or `php`.
    pub(crate) language: &'static str,
    /// Of a command which a signal may end.
    stop: Option<Stop>,
}

/// Where an embedded server keeps its data.
#[derive(Clone)]
enum EmbeddedFolder {
    Default,
    Given(PathBuf),
}

struct Backend {
    connection: Connection,
    /// What is done around each call, if anything is.
    around: Option<Around>,
    /// The longest wait for a confirmation that a push is durable.
    confirmed_within: Duration,
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
        ClientBuilder::new()
    }

    /// The queue of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Nothing is sent; a queue exists when it
    /// has a job.
    ///
    /// Errors: `InvalidArgument`.
    pub fn queue(&self, name: &str) -> Result<Queue, Error> {
        name::check_queue(name)?;
        Ok(Part::new(self.clone(), name, Registration::of(name)).into())
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
                late_deadline: None,
                embedded: shared.embedded.clone(),
                server_hint: shared.server_hint.clone(),
                backend: OnceCell::new(),
                // A handler's first call may come in an outage.
                has_worked: Arc::clone(&shared.has_worked),
                is_closed: AtomicBool::new(false),
                prefix: shared.prefix.clone(),
                ids: IdGenerator::new(),
                session: Session::new()?,
                queues: Mutex::default(),
                topics: Mutex::default(),
                registering: Arc::default(),
                pulls: HeldPulls::default(),
                beside: OtherConnections::default(),
                clock: shared.clock,
                max_data_bytes: shared.max_data_bytes,
                durability: Durability::None,
                listener,
                language: shared.language,
                // What ends a command's calls ends none of a worker, nor those that give up its locks.
                stop: None,
            }),
        })
    }

    /// Where its server is, for people: without user and password.
    pub(crate) fn address(&self) -> String {
        if self.shared.embedded.is_some() { "an embedded server".to_owned() } else { self.shared.settings.address() }
    }

    /// The beginning of all keys.
    #[doc(hidden)] // for the page
    pub fn prefix(&self) -> &str {
        &self.shared.prefix
    }

    /// One round trip to the server.
    pub async fn ping(&self) -> Result<(), Error> {
        self.command("ping", 0, ping()).await.map(|_| ())
    }

    /// Closes the connections of this client, its clones and its queues. Calls that are under way end first; later ones are
    /// refused. Workers have connections of their own, and an embedded server is left when all of these are dropped.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        // Now, and not with the first poll: a task that is cancelled before never polls.
        self.shared.is_closed.store(true, Ordering::Relaxed);
        let backend = self.shared.backend.get();
        if let Some(backend) = backend {
            backend.connection.close();
        }
        let turns = if backend.is_some() { TURNS } else { 0 };
        async move {
            // The runtime drops the tasks of the connections, and with them their sockets, when it has its next turns.
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
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
        let (connection, durability) = (&backend.connection, backend.confirmed(durability));
        match (&backend.around, durability) {
            (None, connection::Durability::None) => connection.run(operation, call).await,
            (None, durability) => connection.run_durably(operation, call, durability).await,
            // On the heap, like all that is rare: this future is moved about on every call.
            (Some(around), connection::Durability::None) => {
                Box::pin(around.call(operation, || connection.run(operation, call))).await
            }
            (Some(around), durability) => {
                Box::pin(around.call(operation, || connection.run_durably(operation, call, durability))).await
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

    /// Are its queues on several servers, of which one may be away while others answer? A client that was never called says no.
    #[doc(hidden)] // for the commands and the page
    pub fn is_of_cluster(&self) -> bool {
        self.shared.backend.get().is_some_and(|backend| !backend.connection.waits_together())
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
        match &backend.around {
            None => backend.connection.command(operation, slot, command).await,
            Some(around) => {
                let call = || backend.connection.command(operation, slot, command.clone());
                Box::pin(around.call(operation, call)).await
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
        let mut settings = self.settings.clone();
        if let Some(deadline) = self.late_deadline.and_then(|deadline| deadline()) {
            settings.deadline = deadline;
        }
        let confirmed_within = settings.command_timeout.min(settings.deadline);
        let Some(folder) = &self.embedded else {
            let around = self.stop.clone().map(|stop| Around { attached: None, stop: Some(stop) });
            let connection = Connection::sharing(settings, Arc::clone(&self.has_worked))?;
            return Ok(Backend { connection, around, confirmed_within });
        };
        let folder = match folder {
            EmbeddedFolder::Default => None,
            EmbeddedFolder::Given(folder) => Some(folder.as_path()),
        };
        let attached = embedded::attach(folder, self.server_hint.as_deref()).await?;
        settings.url = Secret::new(format!("unix://{}", attached.socket().display()));
        let around = Around { attached: Some(attached), stop: self.stop.clone() };
        let connection = Connection::sharing(settings, Arc::clone(&self.has_worked))?;
        Ok(Backend { connection, around: Some(around), confirmed_within })
    }
}

/// What goes with each call: who answers it, and what ends it.
struct Around {
    /// The embedded server that answers.
    attached: Option<Attached>,
    stop: Option<Stop>,
}

impl Around {
    async fn call<T, F>(&self, operation: &'static str, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let called = async {
            match &self.attached {
                None => call().await,
                Some(attached) => kept_alive(attached, call).await,
            }
        };
        match &self.stop {
            None => called.await,
            Some(stop) => stop.bound(operation, called).await,
        }
    }
}

impl Backend {
    /// What to ask of the server, with the time that it has.
    fn confirmed(&self, durability: Durability) -> connection::Durability {
        let timeout = self.confirmed_within;
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
