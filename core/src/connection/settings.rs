//! The user's settings of connections.

use std::path::PathBuf;
use std::time::Duration;

use super::address::Address;
use super::secret::{Credentials, Secret};
use super::url::{Layout, ParsedUrl};
use crate::script::permissions_key;
use crate::value::error::Error;

/// A server remembers a call's answer for 15 minutes at least (`session.rs`, `lua/lib/call/once.lua`); a copy that is sent later
/// would be executed again.
const MAX_DEADLINE: Duration = Duration::from_secs(600);
/// Who sets a deadline as short as this answers requests that somebody waits for: then calls fail fast behind an outage.
const SHORT_DEADLINE: Duration = Duration::from_secs(5);

/// The user's settings of connections. They win over the URL.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Kept as a secret as a whole: it may hold a password.
    pub(crate) url: Secret,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    /// PEM file of the authorities to trust instead of the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// PEM files of our own certificate, for servers that ask for one. Both or none.
    pub(crate) client_cert_file: Option<PathBuf>,
    pub(crate) client_key_file: Option<PathBuf>,
    /// For one connection to be ready: name, TCP, TLS, user and checks.
    pub(crate) connect_timeout: Duration,
    /// How long an attempt of a call may hear nothing.
    pub(crate) command_timeout: Duration,
    /// For all attempts of a call.
    pub(crate) deadline: Duration,
    /// An answer that is on its way is waited for beyond the deadline.
    pub(crate) patient: bool,
    /// Behind a call that waited for the whole deadline in vain, fail at once (see `breaker.rs`); none for: if the deadline
    /// is short.
    pub(crate) fail_fast: Option<bool>,
    /// Work with a server that may evict keys, and so lose jobs.
    pub(crate) allow_eviction: bool,
    /// On which key a new connection tries whether its user may do all that scripts do.
    pub(crate) permissions_key: String,
    /// The name that `CLIENT LIST` shows.
    pub(crate) client_name: String,
}

impl Settings {
    pub(crate) const DEFAULT_DEADLINE: Duration = Duration::from_secs(15);

    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: Secret::new(url),
            username: None,
            password: None,
            ca_file: None,
            client_cert_file: None,
            client_key_file: None,
            connect_timeout: Duration::from_secs(3),
            command_timeout: Duration::from_secs(5),
            deadline: Self::DEFAULT_DEADLINE,
            patient: false,
            fail_fast: None,
            allow_eviction: false,
            permissions_key: permissions_key("duly:"),
            client_name: "duly".to_owned(),
        }
    }

    /// Where the URL leads, for people: without user and password.
    pub(crate) fn address(&self) -> String {
        let Ok(parsed) = self.resolve() else { return "an unknown address".to_owned() };
        let list = |addresses: &[Address]| addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(",");
        let server = match &parsed.layout {
            Layout::Single(address) => address.to_string(),
            Layout::Sentinel { sentinels, master_name } => format!("{}/{master_name}", list(sentinels)),
            Layout::Cluster { seeds } => list(seeds),
        };
        if parsed.db == 0 { server } else { format!("{server} (database {})", parsed.db) }
    }

    pub(super) fn fails_fast(&self) -> bool {
        self.fail_fast.unwrap_or(self.deadline <= SHORT_DEADLINE)
    }

    /// No attempt lasts longer than all of them may; and a moment that far away can be reckoned with.
    pub(super) fn cap_timeouts(&mut self) {
        self.connect_timeout = self.connect_timeout.min(MAX_DEADLINE);
        self.command_timeout = self.command_timeout.min(MAX_DEADLINE);
    }

    /// The URL's words with the settings laid over them.
    pub(crate) fn resolve(&self) -> Result<ParsedUrl, Error> {
        let mut target = ParsedUrl::parse(self.url.reveal())?;
        overlay(&mut target.credentials.username, self.username.as_ref());
        overlay(&mut target.credentials.password, self.password.as_ref());
        overlay(&mut target.ca_file, self.ca_file.as_ref());
        overlay(&mut target.client_cert_file, self.client_cert_file.as_ref());
        overlay(&mut target.client_key_file, self.client_key_file.as_ref());
        target.allow_eviction |= self.allow_eviction;

        check_credentials(&target.credentials)?;
        check_credentials(&target.sentinel_credentials)?;
        if !target.tls && (target.ca_file.is_some() || target.client_cert_file.is_some()) {
            return Err(Error::invalid("certificates are given, but the URL is not a TLS one: use rediss://"));
        }
        if target.client_cert_file.is_some() != target.client_key_file.is_some() {
            return Err(Error::invalid("a client certificate and its key go together: give both or none"));
        }
        if self.client_name.is_empty() || !self.client_name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid("the client name must be printable ASCII without spaces"));
        }
        for (name, value) in [
            ("connect_timeout", self.connect_timeout),
            ("command_timeout", self.command_timeout),
            ("deadline", self.deadline),
        ] {
            if value.is_zero() {
                return Err(Error::invalid(format!("{name} must be longer than zero")));
            }
        }
        if self.deadline > MAX_DEADLINE {
            return Err(Error::invalid(
                "a deadline lasts at most 10 minutes: for longer the server may forget that a call was executed",
            ));
        }
        Ok(target)
    }
}

fn overlay<T: Clone>(from_url: &mut Option<T>, setting: Option<&T>) {
    if let Some(value) = setting {
        *from_url = Some(value.clone());
    }
}

fn check_credentials(credentials: &Credentials) -> Result<(), Error> {
    if credentials.username.is_some() && credentials.password.is_none() {
        return Err(Error::invalid("a user is given without a password: redis://user:password@host"));
    }
    Ok(())
}
