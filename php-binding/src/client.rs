//! `Duly\Client`.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use duly::blocking::{self, process};
use duly::{ClientBuilder, ClientEvent, MAX_PARTITIONS};
use duly_php_shared::kept::{Key, key_of};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::call;
use crate::convert::{Text, given, millis, utf8, whole};
use crate::error::Fault;
use crate::job::Job;
use crate::lock::Lock;
use crate::message::Message;
use crate::operate::{QueuePage, TopicPage};
use crate::queue::{Queue, reserve_options};
use crate::select;
use crate::settings;
use crate::topic::Topic;
use crate::waiting::{Signals, unless_interrupted};

/// Clients outlive the request that made them, so that php-fpm reuses their connections: one for each set of arguments.
static CLIENTS: Mutex<Vec<(Key, Shared)>> = Mutex::new(Vec::new());
/// So many are kept that no object has any more; of the others the one that was asked for first goes.
const MOST_KEPT: usize = 16;

type Shared = Arc<blocking::Client>;

/// The way to the queues of one server.
#[php_class]
#[php(name = "Duly\\Client")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct Client {
    /// None when it was closed.
    client: RefCell<Option<Shared>>,
}

struct Arguments<'a> {
    url: Option<String>,
    prefix: Option<String>,
    username: Option<String>,
    password: Option<String>,
    caFile: Option<String>,
    clientCertFile: Option<String>,
    clientKeyFile: Option<String>,
    connectTimeout: Option<&'a Zval>,
    commandTimeout: Option<&'a Zval>,
    deadline: Option<&'a Zval>,
    allowEviction: bool,
    maxDataBytes: Option<i64>,
    durability: Option<String>,
    failFast: Option<bool>,
    manualClock: bool,
}

impl Client {
    /// The engine's client.
    pub fn blocking(&self) -> Result<Shared, Fault> {
        let closed = || Fault::invalid("the client was closed: make a new one");
        self.client.borrow().clone().ok_or_else(closed)
    }
}

/// The clients that are kept. What is done under the lock cannot panic half-way through a change.
fn kept() -> MutexGuard<'static, Vec<(Key, Shared)>> {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arguments<'_> {
    fn client(mut self) -> Result<Client, Fault> {
        let connect = duration("connectTimeout", self.connectTimeout)?;
        let command = duration("commandTimeout", self.commandTimeout)?;
        let deadline = duration("deadline", self.deadline)?;
        let default_deadline = settings::deadline()?.unwrap_or_else(settings::default_deadline);
        let environment = |name| std::env::var(name).unwrap_or_default();
        let in_environment = (environment("DULY_URL"), environment("DULY_DEADLINE"));
        if self.url.is_none() && in_environment.0.is_empty() {
            self.url = settings::url()?;
        }
        if self.prefix.is_none() {
            self.prefix = settings::prefix()?;
        }
        let arguments = (
            (&self.url, &in_environment, &self.prefix, &self.username, &self.password, &self.caFile),
            (&self.clientCertFile, &self.clientKeyFile, connect, command, deadline, default_deadline),
            (self.allowEviction, self.maxDataBytes, &self.durability, self.failFast, self.manualClock),
        );
        let key = key_of(arguments);
        let found = |kept: &mut Vec<(Key, Shared)>| {
            let at = kept.iter().position(|(other, _)| *other == key)?;
            let entry = kept.remove(at);
            let client = Arc::clone(&entry.1);
            kept.push(entry);
            Some(client)
        };
        let known = found(&mut kept());
        let client = if let Some(client) = known {
            client
        } else {
            let builder = self.builder(connect, command, deadline, default_deadline)?;
            let client = Arc::new(blocking::Client::new(builder)?);
            kept().push((key, Arc::clone(&client)));
            client
        };
        let gone = surplus(&mut kept());
        if !gone.is_empty() {
            drop(gone);
            process::end_what_is_gone();
        }
        Ok(Client { client: RefCell::new(Some(client)) })
    }

    fn builder(
        self,
        connect: Option<Duration>,
        command: Option<Duration>,
        deadline: Option<Duration>,
        default_deadline: Duration,
    ) -> Result<ClientBuilder, Fault> {
        PHP.get_or_init(|| thread::current().id());
        let mut builder = duly::Client::builder()
            .language("php")
            .default_deadline(default_deadline)
            .allow_eviction(self.allowEviction)
            .on_event(log);
        if let Some(timeout) = connect {
            builder = builder.connect_timeout(timeout);
        }
        if let Some(timeout) = command {
            builder = builder.command_timeout(timeout);
        }
        if let Some(deadline) = deadline {
            builder = builder.deadline(deadline);
        }
        if let Some(fail_fast) = self.failFast {
            builder = builder.fail_fast(fail_fast);
        }
        if let Some(url) = self.url {
            builder = builder.url(&url);
        }
        if let Some(prefix) = self.prefix {
            builder = builder.prefix(&prefix);
        }
        if let Some(username) = self.username {
            builder = builder.username(&username);
        }
        if let Some(password) = self.password {
            builder = builder.password(&password);
        }
        if let Some(file) = self.caFile {
            builder = builder.ca_file(file);
        }
        match (self.clientCertFile, self.clientKeyFile) {
            (Some(certificate), Some(key)) => builder = builder.client_certificate(certificate, key),
            (None, None) => {}
            _ => return Err(Fault::invalid("clientCertFile and clientKeyFile go together: give both or none")),
        }
        if let Some(max) = self.maxDataBytes {
            // What is out of range, and negative, the core refuses.
            builder = builder.max_data_bytes(usize::try_from(max).unwrap_or_default());
        }
        if let Some(word) = self.durability {
            builder = builder.durability(word.parse()?);
        }
        if self.manualClock {
            builder = builder.manual_clock();
        }
        Ok(builder)
    }
}

/// What is zero or too long, the core refuses.
fn duration(name: &str, value: Option<&Zval>) -> Result<Option<Duration>, Fault> {
    Ok(given(value).map(|value| millis(name, value)).transpose()?.map(duly::Millis::to_duration))
}

#[php_impl]
impl Client {
    /// A client for this URL; without one the environment's `DULY_URL`, else `redis://127.0.0.1:6379`. Nothing is sent: the
    /// first call connects. Spans are seconds.
    #[php(optional = url)]
    #[php(defaults(allowEviction = false, manualClock = false))]
    pub fn __construct(
        url: Option<Text>,
        prefix: Option<Text>,
        username: Option<Text>,
        password: Option<Text>,
        caFile: Option<Text>,
        clientCertFile: Option<Text>,
        clientKeyFile: Option<Text>,
        connectTimeout: Option<&Zval>,
        commandTimeout: Option<&Zval>,
        deadline: Option<&Zval>,
        allowEviction: bool,
        maxDataBytes: Option<i64>,
        durability: Option<Text>,
        manualClock: bool,
        failFast: Option<bool>,
    ) -> PhpResult<Self> {
        let arguments = Arguments {
            url: utf8("url", url)?,
            prefix: utf8("prefix", prefix)?,
            username: utf8("username", username)?,
            password: utf8("password", password)?,
            caFile: utf8("caFile", caFile)?,
            clientCertFile: utf8("clientCertFile", clientCertFile)?,
            clientKeyFile: utf8("clientKeyFile", clientKeyFile)?,
            connectTimeout,
            commandTimeout,
            deadline,
            allowEviction,
            maxDataBytes,
            durability: utf8("durability", durability)?,
            failFast,
            manualClock,
        };
        Ok(arguments.client()?)
    }

    /// The queue of this name.
    pub fn queue(&self, name: Text) -> PhpResult<Queue> {
        Ok(Queue::new(self.blocking()?.queue(&name.utf8("name")?).map_err(Fault::from)?))
    }

    /// The queue of this name in this many parts (1 to 256), each with a hash tag of its own.
    pub fn partitions(&self, name: Text, count: i64) -> PhpResult<Queue> {
        let split = || {
            let count = whole("count", count, MAX_PARTITIONS.into())?;
            Ok::<_, Fault>(self.blocking()?.partitioned_queue(&name.utf8("name")?, count)?)
        };
        Ok(Queue::new(split()?))
    }

    /// Leases up to `max` jobs that are ready in any of these queues: a list of names is a strict order, weights are given by
    /// name. An empty list when there is none until `wait` seconds are over.
    #[php(defaults(max = 1))]
    pub fn reserve_from(
        &self,
        queues: &ZendHashTable,
        max: i64,
        wait: Option<&Zval>,
        lease: Option<&Zval>,
    ) -> PhpResult<Vec<Job>> {
        let (options, lease) = reserve_options(max, wait, lease)?;
        let client = self.blocking()?;
        let (queues, selection) = select::queues(&client, queues)?;
        let jobs = unless_interrupted(client.reserve_from(&queues, selection, &options, &mut Signals)?)?;
        Ok(jobs.into_iter().map(|job| Job::leased(job, lease)).collect())
    }

    /// Takes the lock of this name, or waits until it is free.
    #[php(optional = ttl)]
    pub fn lock(&self, name: Text, ttl: Option<&Zval>, wait: Option<&Zval>) -> PhpResult<Lock> {
        Ok(self.take_lock(name, ttl, wait)?)
    }

    /// Calls this with the lock, and releases it. Gives what it returns.
    #[php(optional = ttl)]
    pub fn with_lock(&self, name: Text, run: &Zval, ttl: Option<&Zval>, wait: Option<&Zval>) -> PhpResult<Zval> {
        Ok(self.run_with_lock(name, run, ttl, wait)?)
    }

    /// A page of the queues that were used under this client's prefix, by name.
    #[php(defaults(limit = 100))]
    pub fn queues(&self, limit: i64, cursor: Option<Text>) -> PhpResult<QueuePage> {
        let page = || {
            let limit = whole("limit", limit, i64::MAX)?;
            let cursor = cursor.map(|cursor| cursor.utf8("cursor")).transpose()?;
            self.blocking()?.queues(limit, cursor.as_deref(), &mut Signals)
        };
        Ok(page()?.into())
    }

    /// The topic of this name.
    pub fn topic(&self, name: Text) -> PhpResult<Topic> {
        Ok(self.topic_of(name)?)
    }

    /// A page of the topics that were used under this client's prefix, by name.
    #[php(defaults(limit = 100))]
    pub fn topics(&self, limit: i64, cursor: Option<Text>) -> PhpResult<TopicPage> {
        let page = || {
            let limit = whole("limit", limit, i64::MAX)?;
            let cursor = cursor.map(|cursor| cursor.utf8("cursor")).transpose()?;
            self.blocking()?.topics(limit, cursor.as_deref(), &mut Signals)
        };
        Ok(page()?.into())
    }

    /// The topics that this member has subscribed to, by name.
    pub fn topics_of(&self, member: Text) -> PhpResult<Vec<String>> {
        Ok(self.names_of_topics(member)?)
    }

    /// Leases up to `max` messages of all topics of a member. An empty list when there is none until `wait` seconds are over.
    #[php(defaults(max = 100))]
    pub fn pull(&self, member: Text, max: i64, wait: Option<&Zval>, lease: Option<&Zval>) -> PhpResult<Vec<Message>> {
        Ok(self.pull_all(member, max, wait, lease)?)
    }

    /// One round trip to the server.
    pub fn ping(&self) -> PhpResult<()> {
        Ok(self.blocking()?.ping(&mut Signals)?)
    }

    /// How it reaches its server, for the extension `duly_console`: a text that has the password. Internal.
    pub fn settings(&self) -> PhpResult<String> {
        let settings = self.blocking()?.hand_over();
        Ok(settings.map_err(Fault::from)?)
    }

    /// Lets go of the connections, which end as soon as no queue, job or other client with the same settings uses them.
    pub fn close(&self) {
        let Some(client) = self.client.take() else { return };
        let mut kept = kept();
        let at = kept.iter().position(|(_, other)| Arc::ptr_eq(other, &client));
        // One is ours, and one is kept for the next.
        let is_last = Arc::strong_count(&client) == 2;
        let entry = if is_last { at.map(|at| kept.remove(at)) } else { None };
        drop(kept);
        drop((client, entry));
        process::end_what_is_gone();
    }
}

/// The thread on which PHP runs. A forked child goes on with it.
static PHP: OnceLock<ThreadId> = OnceLock::new();

/// Says what the client notices in PHP's error log: a warning of PHP would end the call in frameworks that throw them.
fn log(event: &ClientEvent) {
    let text = format!("duly: {event}");
    if PHP.get() == Some(&thread::current().id()) {
        // What is wrong with the log is said by PHP itself.
        let _ = call::function("error_log", vec![&text]);
    } else {
        eprintln!("{text}");
    }
}

/// Those that nobody uses beyond [`MOST_KEPT`], the ones that were used longest ago: they are kept no more. Many may have been in use at once.
fn surplus(kept: &mut Vec<(Key, Shared)>) -> Vec<(Key, Shared)> {
    let is_idle = |(_, client): &(Key, Shared)| Arc::strong_count(client) == 1;
    let mut surplus = kept.iter().filter(|entry| is_idle(entry)).count().saturating_sub(MOST_KEPT);
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    if surplus == 0 {
        return gone;
    }
    for entry in kept.drain(..) {
        let goes = surplus > 0 && is_idle(&entry);
        surplus -= usize::from(goes);
        if goes { gone.push(entry) } else { left.push(entry) }
    }
    *kept = left;
    gone
}
