//! `Duly\Client`.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use duly::{ClientBuilder, MAX_PARTITIONS, blocking};
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert::{Text, utf8, whole};
use crate::error::Fault;
use crate::interrupt::Signals;
use crate::job::Job;
use crate::queue::{Partitions, Queue};
use crate::select;
use crate::when::{reserve_options, span};

/// Clients outlive the request that made them, so that php-fpm reuses their connections: one for each set of arguments.
static CLIENTS: LazyLock<Mutex<HashMap<String, Client>>> = LazyLock::new(Mutex::default);

/// The way to the queues of one server.
#[php_class]
#[php(name = "Duly\\Client")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct Client {
    client: blocking::Client,
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

impl Client {
    /// The engine's client.
    pub fn blocking(&self) -> &blocking::Client {
        &self.client
    }
}

impl Arguments<'_> {
    fn client(self) -> Result<Client, Fault> {
        let connect = patience("connectTimeout", self.connectTimeout, 3)?;
        let command = patience("commandTimeout", self.commandTimeout, 5)?;
        let deadline = patience("deadline", self.deadline, 15)?;
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
        let client = Client { client: blocking::Client::new(builder)? };
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
            builder = builder.durability(word.parse()?);
        }
        if self.manualClock {
            builder = builder.manual_clock();
        }
        Ok(builder)
    }
}

fn patience(name: &str, given: Option<&Zval>, default_s: u64) -> Result<Duration, Fault> {
    let patience = span(name, given, Duration::from_secs(default_s))?;
    if patience.is_zero() { Err(Fault::invalid(format!("{name} must be more than 0"))) } else { Ok(patience) }
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
            manualClock,
        };
        Ok(arguments.client()?)
    }

    /// The queue of this name.
    pub fn queue(&self, name: Text) -> PhpResult<Queue> {
        Ok(Queue::new(self.client.queue(&name.utf8("name")?).map_err(Fault::from)?))
    }

    /// The queue of this name in this many parts (1 to 256), each with a hash tag of its own.
    pub fn partitions(&self, name: Text, count: i64) -> PhpResult<Partitions> {
        let parts = || {
            let count = whole("count", count, MAX_PARTITIONS.into())?;
            Ok::<_, Fault>(self.client.partitioned_queue(&name.utf8("name")?, count)?)
        };
        Ok(Partitions::new(parts()?))
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
        let options = reserve_options(max, wait, lease)?;
        let (queues, selection) = select::queues(&self.client, queues)?;
        let jobs = self.client.reserve_from(&queues, selection, &options, &mut Signals)?;
        Ok(jobs.into_iter().map(Job::new).collect())
    }

    /// One round trip to the server.
    pub fn ping(&self) -> PhpResult<()> {
        Ok(self.client.ping(&mut Signals)?)
    }
}
