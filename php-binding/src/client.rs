//! `Duly\Client`.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use duly::{ClientBuilder, Durability, Selection, blocking};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert;
use crate::error::Fault;
use crate::interrupt::Signals;
use crate::job::Job;
use crate::queue::{Queue, reserve_options};
use crate::when::span;

/// Clients outlive the request that made them, so that php-fpm reuses their connections: one for each set of arguments.
static CLIENTS: LazyLock<Mutex<HashMap<String, Client>>> = LazyLock::new(Mutex::default);

/// The way to the queues of one server.
#[php_class]
#[php(name = "Duly\\Client")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct Client {
    client: blocking::Client,
    /// For what needs connections of its own.
    pub builder: ClientBuilder,
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
    manualClock: bool,
}

impl Arguments<'_> {
    fn client(self) -> Result<Client, Fault> {
        let connect = span("connectTimeout", self.connectTimeout, Duration::from_secs(3))?;
        let command = span("commandTimeout", self.commandTimeout, Duration::from_secs(5))?;
        let deadline = span("deadline", self.deadline, Duration::from_secs(15))?;
        let environment = std::env::var("DULY_URL").unwrap_or_default();
        let key = format!(
            "{:?}",
            (
                (&self.url, environment, &self.prefix, &self.username, &self.password, &self.caFile),
                (&self.clientCertFile, &self.clientKeyFile, connect, command, deadline),
                (self.allowEviction, self.maxDataBytes, &self.durability, self.manualClock),
            )
        );
        // What is done under the lock cannot panic half-way through a change.
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let builder = self.builder(connect, command, deadline)?;
        let client = Client { client: blocking::Client::new(builder.clone())?, builder };
        clients.insert(key, client.clone());
        Ok(client)
    }

    fn builder(self, connect: Duration, command: Duration, deadline: Duration) -> Result<ClientBuilder, Fault> {
        let mut builder = duly::Client::builder()
            .connect_timeout(connect)
            .command_timeout(command)
            .deadline(deadline)
            .allow_eviction(self.allowEviction);
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
            let positive = usize::try_from(max).ok().filter(|&max| max > 0);
            builder = builder.max_data_bytes(positive.ok_or_else(|| Fault::invalid("maxDataBytes must be positive"))?);
        }
        if let Some(word) = self.durability {
            builder = builder.durability(durability(&word)?);
        }
        if self.manualClock {
            builder = builder.manual_clock();
        }
        Ok(builder)
    }
}

/// `none`, `fsync`, or `replicas:<n>`.
fn durability(word: &str) -> Result<Durability, Fault> {
    let timeout = Duration::from_secs(1);
    match word.split_once(':') {
        None if word == "none" => Ok(Durability::None),
        None if word == "fsync" => Ok(Durability::Fsync { timeout }),
        Some(("replicas", count)) if count.parse::<u32>().is_ok_and(|count| count > 0) => {
            Ok(Durability::Replicas { count: count.parse().unwrap_or(1), timeout })
        }
        _ => Err(Fault::invalid("durability must be 'none', 'fsync' or 'replicas:<n>'")),
    }
}

#[php_impl]
impl Client {
    /// A client for this URL; without one the environment's `DULY_URL`, else `redis://127.0.0.1:6379`. Nothing is sent: the
    /// first call connects. Spans are seconds.
    #[php(optional = url)]
    #[php(defaults(allowEviction = false, manualClock = false))]
    pub fn __construct(
        url: Option<String>,
        prefix: Option<String>,
        username: Option<String>,
        password: Option<String>,
        caFile: Option<String>,
        clientCertFile: Option<String>,
        clientKeyFile: Option<String>,
        connectTimeout: Option<&Zval>,
        commandTimeout: Option<&Zval>,
        deadline: Option<&Zval>,
        allowEviction: bool,
        maxDataBytes: Option<i64>,
        durability: Option<String>,
        manualClock: bool,
    ) -> PhpResult<Self> {
        let arguments = Arguments {
            url,
            prefix,
            username,
            password,
            caFile,
            clientCertFile,
            clientKeyFile,
            connectTimeout,
            commandTimeout,
            deadline,
            allowEviction,
            maxDataBytes,
            durability,
            manualClock,
        };
        Ok(arguments.client()?)
    }

    /// The queue of this name.
    pub fn queue(&self, name: String) -> PhpResult<Queue> {
        Ok(Queue { queue: self.client.queue(&name).map_err(Fault::from)? })
    }

    /// Leases the next job of these queues, a list of `Duly\\Queue` of this client: a later queue gets a turn when the earlier
    /// ones are empty. Null when there is none until `wait` seconds are over.
    #[php(optional = wait)]
    pub fn reserve_from(
        &self,
        queues: &ZendHashTable,
        wait: Option<&Zval>,
        lease: Option<&Zval>,
    ) -> PhpResult<Option<Job>> {
        let queues: Vec<(blocking::Queue, u32)> = convert::values(queues)
            .map(|queue| queue.extract::<&Queue>().map(|queue| (queue.queue.clone(), 1)))
            .collect::<Option<_>>()
            .ok_or_else(|| Fault::invalid("queues must be a list of Duly\\Queue"))?;
        let options = reserve_options(1, wait, lease)?;
        let jobs = self.client.reserve_from(&queues, Selection::Strict, &options, &mut Signals)?;
        Ok(jobs.into_iter().next().map(Job::new))
    }

    /// One round trip to the server.
    pub fn ping(&self) -> PhpResult<()> {
        Ok(self.client.ping(&mut Signals)?)
    }
}
