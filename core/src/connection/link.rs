//! One live connection to one server, ready for calls.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::address::Address;
use super::boot_check::ServerFacts;
use super::durability::Durability;
use super::patience::{self, Life, Patience};
use super::secret::Credentials;
use super::settings::Settings;
use super::stream::Observed;
use super::tls::Tls;
use super::trouble::{Next, Trouble};
use super::{classify, stream, wrong_kind};
use crate::script::{Call, permission_check, stored_nothing};
use crate::value::error::{Error, ErrorKind};

/// A digest that no script has: asked for only to hear whether this user may run EVALSHA.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// A request to be sent; kept as a description, so that it can be sent again.
#[derive(Clone, Copy)]
pub(super) enum Request<'a> {
    Script {
        call: &'a Call<'a>,
        /// A copy of a call that may have been executed: the server is to keep its answer, whatever it is.
        again: bool,
        /// A reserve that is to spare leases that are over.
        spares: bool,
    },
    /// A call that waits for durability behind it; `again` as above.
    Durable {
        call: &'a Call<'a>,
        durability: Durability,
        again: bool,
    },
    Plain(&'a Cmd),
}

impl<'a> Request<'a> {
    pub(super) fn script(call: &'a Call<'a>) -> Self {
        Self::Script { call, again: false, spares: false }
    }

    /// The same, behind an attempt that may have been executed.
    pub(super) fn again(self) -> Self {
        match self {
            Self::Script { call, spares, .. } => Self::Script { call, again: true, spares },
            Self::Durable { call, durability, .. } => Self::Durable { call, durability, again: true },
            Self::Plain(_) => self,
        }
    }

    /// Is it a call whose repetition does nothing, so that it matters whether it was ever executed?
    pub(super) fn changes_once(&self) -> bool {
        match self {
            Self::Script { call, .. } | Self::Durable { call, .. } => call.is_numbered,
            Self::Plain(_) => false,
        }
    }

    /// Is it a script of a queue?
    pub(super) fn is_of_queue(&self) -> bool {
        matches!(self, Self::Script { call, .. } | Self::Durable { call, .. } if call.flags.is_of_queue)
    }

    /// Does it reclaim leases that are over, unless it is to spare them?
    pub(super) fn reclaims(&self) -> bool {
        matches!(self, Self::Script { call, .. } if call.reclaims())
    }

    /// The same, which spares them or does not. If it does, the server keeps its answer whatever it is: a reserve that
    /// finds nothing would else write nothing, and be answered also where writes are refused.
    pub(super) fn sparing(self, spares: bool) -> Self {
        match self {
            Self::Script { call, again, .. } => Self::Script { call, again: again || spares, spares },
            other => other,
        }
    }

    /// Now that it is answered: has it surely written something?
    pub(super) fn has_written(&self) -> bool {
        self.changes_once() && (!self.reclaims() || matches!(self, Self::Script { spares: true, .. }))
    }
}

/// How to get from an address to a link.
pub(super) struct Dialer {
    pub(super) settings: Settings,
    pub(super) tls: Option<Tls>,
    pub(super) credentials: Credentials,
    pub(super) sentinel_credentials: Credentials,
    pub(super) db: u32,
    pub(super) in_cluster: bool,
    pub(super) allow_eviction: bool,
}

/// An error names the size of a call that is as large as this: a slow line may be why it got no answer.
const LARGE_CALL: usize = 64 * 1024;

/// The purpose of a link; only one for verbs must be a primary with the right settings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Verbs,
    AskCluster,
    AskSentinel,
}

/// One live connection. Dropping the last reference closes it.
pub(super) struct Link {
    pub(super) address: Address,
    connection: MultiplexedConnection,
    driver: AbortHandle,
    life: Life,
    ended: Arc<AtomicBool>,
    aof_works: AtomicBool,
    in_cluster: bool,
    /// When it was opened, the server had just started again.
    pub(super) is_just_back: bool,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Dialer {
    /// With the certificates that are in their files now.
    pub(super) fn tls(&self) -> Option<TlsConnector> {
        self.tls.as_ref().map(Tls::connector)
    }

    /// When a connection begun now must be ready.
    pub(super) fn ready_before(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.settings.connect_timeout)
    }

    /// Opens a connection, says who we are, and checks the server: one round trip after TCP and TLS.
    pub(super) async fn link(&self, address: &Address, purpose: Purpose, deadline: Instant) -> Result<Link, Trouble> {
        let until = self.ready_before(deadline);
        let (socket, signs) = Observed::new(stream::open(address, self.tls().as_ref(), until).await?);
        // The crate's own handshake is left empty: it hides the server's words when a password is refused.
        let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
        // Its timeouts are off, because every wait here ends at the caller's own instant.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let (connection, driver) = MultiplexedConnection::new_with_config(&nobody, socket, config)
            .await
            .map_err(|error| Trouble { may_have_run: false, ..classify::broken_link(error, address) })?;
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        let driver = tokio::spawn(async move {
            driver.await;
            has_ended.store(true, Ordering::Release);
        })
        .abort_handle();
        let mut link = Link {
            address: address.clone(),
            connection,
            driver,
            life: Life::new(signs),
            ended,
            aof_works: AtomicBool::new(false),
            in_cluster: self.in_cluster,
            is_just_back: false,
        };
        let facts = self.introduce(&link, purpose, until).await.map_err(Trouble::of_a_new_connection)?;
        link.is_just_back = facts.is_just_back();
        Ok(link)
    }

    /// The commands that begin every connection; the first ones must succeed, the others may fail.
    pub(super) fn introduction(&self, purpose: Purpose) -> (Vec<Cmd>, Vec<Cmd>) {
        let credentials = if purpose == Purpose::AskSentinel { &self.sentinel_credentials } else { &self.credentials };
        let mut needed = Vec::new();
        if let Some(password) = &credentials.password {
            let mut auth = redis::cmd("AUTH");
            auth.arg(credentials.username.as_deref()).arg(password.reveal());
            needed.push(auth);
        }
        if purpose == Purpose::Verbs && self.db != 0 {
            needed.push(words(&["SELECT", &self.db.to_string()]));
        }
        (needed, vec![words(&["CLIENT", "SETNAME", &self.settings.client_name])])
    }

    async fn introduce(&self, link: &Link, purpose: Purpose, until: Instant) -> Result<ServerFacts, Trouble> {
        let (needed, welcome) = self.introduction(purpose);
        let mut pipeline = redis::pipe();
        let mut count = needed.len() + welcome.len();
        for cmd in needed.iter().chain(&welcome) {
            pipeline.add_command(cmd.clone());
        }
        if purpose == Purpose::Verbs {
            pipeline.add_command(words(&["CLIENT", "SETINFO", "LIB-NAME", "duly"]));
            pipeline.add_command(words(&["CLIENT", "SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")]));
            // One section each: servers before 7.0 take only one.
            for section in ["server", "memory", "replication", "persistence"] {
                pipeline.add_command(words(&["INFO", section]));
            }
            pipeline.add_command(words(&["EVALSHA", NO_SCRIPT, "0"]));
            // On every new connection, because a script that is stopped by a missing permission leaves half of its work behind.
            // Declared, its key would have to be in a slot of this server, and in the user's pattern.
            pipeline.add_command(words(&["EVAL", &permission_check().text, "0", &self.settings.permissions_key]));
            count += 8;
        }
        let mut connection = link.connection.clone();
        let replies = match tokio::time::timeout_at(until, connection.send_packed_commands(&pipeline, 0, count)).await {
            Ok(Ok(replies)) => replies,
            Ok(Err(error)) => return Err(self.no_introduction(&link.address, error, until).await),
            Err(_) => return Err(stream::says_nothing(&link.address)),
        };
        let facts = ServerFacts::read(&replies);
        if purpose == Purpose::Verbs {
            // First of all: a sentinel refuses the password too, which would be the wrong thing to say.
            facts.check_mode(&link.address)?;
        }
        for (at, reply) in replies.iter().enumerate() {
            if let Value::ServerError(said) = reply {
                // A server that wants a password says so to whatever comes first.
                if at < needed.len() || matches!(said.code(), "NOAUTH" | "DENIED") {
                    return Err(classify::server_error(said, &link.address));
                }
            }
        }
        if purpose == Purpose::Verbs {
            facts.check(&link.address, self.allow_eviction)?;
            check_permissions(&link.address, &replies)?;
        }
        Ok(facts)
    }

    /// The server hung up, or answered nonsense, when we said who we are.
    async fn no_introduction(&self, address: &Address, error: RedisError, until: Instant) -> Trouble {
        if let Some(trouble) = Box::pin(wrong_kind::instead_of_a_welcome(address, self.tls().as_ref(), until)).await {
            return trouble;
        }
        if error.kind() == redis::ErrorKind::Parse {
            return wrong_kind::not_redis(address);
        }
        Trouble::no_connection(
            Error::new(ErrorKind::Unreachable, format!("{address} closed a new connection")).caused_by(error),
        )
    }
}

/// Refuses a user that may not run all commands of the scripts, by the last two replies of an introduction. A server that
/// does not say so now (it is loading, a script runs there) is asked again: the check is never left out.
fn check_permissions(server: &Address, replies: &[Value]) -> Result<(), Trouble> {
    let [.., evalsha, permissions] = replies else { return Err(wrong_kind::not_redis(server)) };
    let mut denied = Vec::new();
    for (command, reply) in [("EVALSHA", evalsha), ("EVAL", permissions)] {
        match reply {
            Value::ServerError(said) if classify::is_denied(said, command) => denied.push(command.to_owned()),
            Value::ServerError(said) if classify::is_unknown_script(said) => {}
            Value::ServerError(said) => return Err(classify::server_error(said, server)),
            _ => {}
        }
    }
    let names = match permissions {
        Value::BulkString(names) => String::from_utf8_lossy(names),
        Value::SimpleString(names) => names.as_str().into(),
        Value::ServerError(_) => "".into(),
        _ => return Err(wrong_kind::not_redis(server)),
    };
    let (unknown, more): (Vec<&str>, _) = names.split_ascii_whitespace().partition(|name| name.starts_with('?'));
    denied.extend(more.into_iter().map(str::to_owned));
    if !denied.is_empty() {
        return Err(classify::denied(server, &denied));
    }
    if !unknown.is_empty() {
        return Err(classify::renamed(server, &unknown.join(" ").replace('?', "")));
    }
    Ok(())
}

impl Link {
    /// The server, or the network, has closed it.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Sends one request and waits for its answer. `asking`: this server is only importing the slot.
    pub(super) async fn send(&self, request: Request<'_>, asking: bool, patience: Patience) -> Result<Value, Trouble> {
        match request {
            Request::Plain(cmd) => self.answer_of(self.exchange(cmd, asking, patience).await?),
            Request::Script { call, again, spares } => self.script(call, (again, spares), asking, patience).await,
            Request::Durable { call, durability, again } => {
                let Some(wait) = durability.wait_command() else {
                    return self.script(call, (again, false), asking, patience).await;
                };
                if matches!(durability, Durability::Fsync { .. }) {
                    self.check_aof(patience).await?;
                }
                let value = self.script(call, (again, false), asking, patience).await?;
                // What stored nothing has nothing to confirm. So it is no part of the same write: behind a script that the server does
                // not know yet it would hold up the next attempt for as long as a replica is away.
                if !stored_nothing(&value) {
                    let waited = self.exchange(&wait, false, patience.and(durability.timeout())).await;
                    let confirmed = waited.and_then(|confirmed| self.check_confirmed(durability, confirmed));
                    confirmed.map_err(|trouble| Trouble { may_have_run: true, ..trouble })?;
                }
                Ok(value)
            }
        }
    }

    /// Sends a command whose answer nobody waits for, if there is room to send it at once.
    pub(super) async fn try_send_only(&self, mut cmd: Cmd) -> bool {
        cmd.set_no_response(true);
        let mut connection = self.connection.clone();
        let mut sending = pin!(connection.send_packed_command(&cmd));
        std::future::poll_fn(|context| std::task::Poll::Ready(sending.as_mut().poll(context).is_ready())).await
    }

    /// The same, when there is room. False when the connection is broken.
    pub(super) async fn send_only(&self, mut cmd: Cmd) -> bool {
        cmd.set_no_response(true);
        self.connection.clone().send_packed_command(&cmd).await.is_ok()
    }

    async fn script(
        &self,
        call: &Call<'_>,
        (again, spares): (bool, bool),
        asking: bool,
        patience: Patience,
    ) -> Result<Value, Trouble> {
        let how = (self.in_cluster, again, spares);
        let mut value =
            self.exchange(&script_command("EVALSHA", call.script.sha(), call, how), asking, patience).await?;
        if matches!(&value, Value::ServerError(said) if classify::is_unknown_script(said)) {
            // Not SCRIPT LOAD: one command less, and nothing to do on any other server.
            value = self.exchange(&script_command("EVAL", &call.script.text, call, how), asking, patience).await?;
        }
        self.answer_of(value)
    }

    /// One round trip: `[ASKING] command`, in one write, so that nothing comes between on a shared link.
    async fn exchange(&self, cmd: &Cmd, asking: bool, patience: Patience) -> Result<Value, Trouble> {
        let mut connection = self.connection.clone();
        let answered = if asking {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ASKING").add_command(cmd.clone());
            // On the heap, because it is rare, and every call's future would have to have room for it.
            let mut sending = Box::pin(connection.send_packed_commands(&pipeline, 0, 2));
            let answer = self.life.wait(sending.as_mut(), cmd, patience).await;
            answer.map(|sent| sent.map(|replies| replies.into_iter().nth(1).unwrap_or(Value::Nil)))
        } else {
            self.life.wait(pin!(connection.send_packed_command(cmd)), cmd, patience).await
        };
        match answered {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => Err(classify::broken_link(error, &self.address)),
            None => Err(self.no_answer_to(cmd)),
        }
    }

    fn no_answer_to(&self, cmd: &Cmd) -> Trouble {
        let (address, bytes) = (&self.address, patience::size(cmd));
        let message = if bytes < LARGE_CALL {
            format!("{address} did not answer in time")
        } else {
            format!(
                "{address} did not answer in time to a call of {} KB: if the line is slow, set a longer deadline, or \
                 send less at once",
                bytes / 1000
            )
        };
        Trouble::no_answer(Error::new(ErrorKind::Timeout, message))
    }

    fn answer_of(&self, value: Value) -> Result<Value, Trouble> {
        match value {
            Value::ServerError(said) => Err(classify::server_error(&said, &self.address)),
            value => Ok(value),
        }
    }

    /// Asks before the push whether the server can wait for its disk at all. A new connection has written nothing,
    /// so the answer comes at once.
    async fn check_aof(&self, patience: Patience) -> Result<(), Trouble> {
        if self.aof_works.load(Ordering::Relaxed) {
            return Ok(());
        }
        let value = self.exchange(&words(&["WAITAOF", "1", "0", "1"]), false, patience).await?;
        self.answer_of(value).map_err(|trouble| {
            if trouble.error.kind() == ErrorKind::Unsupported {
                Trouble::refused(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "{} cannot confirm that a job is on its disk: that takes Redis or Valkey 7.2 or later with \
                         `appendonly yes`; nothing was pushed",
                        self.address
                    ),
                ))
            } else {
                trouble
            }
        })?;
        self.aof_works.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn check_confirmed(&self, durability: Durability, confirmed: Value) -> Result<(), Trouble> {
        let error = |message: String| {
            Error::new(
                ErrorKind::NotDurable,
                format!(
                    "{message}; the job is in all the same, not yet as safe as asked for: pushed again with the same id \
                     or key it is a duplicate"
                ),
            )
        };
        let not_durable = |message: String| Trouble::refused(error(message));
        let confirmed = self.answer_of(confirmed).map_err(|trouble| match trouble.next {
            // As for a user who may not wait.
            Next::GiveUp => {
                let message = format!("{} refuses to say whether it is as safe as that", self.address);
                Trouble::refused(error(message).caused_by(*trouble.error))
            }
            _ => trouble,
        })?;
        match (durability, confirmed) {
            (Durability::Replicas { count, .. }, Value::Int(replicas)) if replicas >= i64::from(count) => Ok(()),
            (Durability::Replicas { count, timeout }, Value::Int(replicas)) => Err(not_durable(format!(
                "{replicas} of {count} replicas of {} confirmed within {} ms",
                self.address,
                timeout.as_millis()
            ))),
            (Durability::Fsync { timeout }, Value::Array(numbers)) => match numbers.first() {
                Some(Value::Int(disks)) if *disks >= 1 => Ok(()),
                _ => Err(not_durable(format!(
                    "{} did not confirm that its disk has the job within {} ms",
                    self.address,
                    timeout.as_millis()
                ))),
            },
            _ => Err(not_durable(format!("{} answered a wait for durability with something odd", self.address))),
        }
    }
}

fn words(words: &[&str]) -> Cmd {
    let mut cmd = Cmd::new();
    for word in words {
        cmd.arg(*word);
    }
    cmd
}

fn script_command(name: &str, script: &str, call: &Call<'_>, (in_cluster, again, spares): (bool, bool, bool)) -> Cmd {
    let more = if in_cluster { call.keys_in_cluster() } else { None };
    let keys = more.as_ref().unwrap_or(&call.keys);
    let bytes = script.len() + keys.total_bytes() + call.args.total_bytes() + 16;
    let mut cmd = Cmd::with_capacity(3 + keys.len() + call.args.len(), bytes);
    cmd.arg(name).arg(script).arg(keys.len());
    for word in keys.iter() {
        cmd.arg(word);
    }
    for word in call.args(again, spares) {
        cmd.arg(word);
    }
    cmd
}
