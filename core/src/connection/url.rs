//! The URL: which servers, which user, which database.
//!
//! Parsed here and not by a URL crate, because a sentinel or cluster URL names several hosts, and because a message
//! must never repeat a part of the URL: a badly escaped password can end up in any of them.

use std::path::PathBuf;

use super::address::Address;
use super::secret::{Credentials, Secret};
use crate::value::error::Error;

const FORMS: &str = "accepted forms: redis://[user[:password]@]host[:port][/db], rediss://... (TLS), \
     unix:///path/to.sock[?db=n], redis+sentinel://host:port,host:port/master-name[/db], \
     redis+cluster://host:port,host:port (both also as rediss+...), \
     embedded: or embedded:/a/folder (a private server that duly starts)";

/// How the servers behind the URL are arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Single(Address),
    Sentinel { sentinels: Vec<Address>, master_name: String },
    Cluster { seeds: Vec<Address> },
}

/// Everything that a URL can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedUrl {
    pub(crate) layout: Layout,
    pub(crate) tls: bool,
    pub(crate) credentials: Credentials,
    pub(crate) sentinel_credentials: Credentials,
    pub(crate) db: u32,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) client_cert_file: Option<PathBuf>,
    pub(crate) client_key_file: Option<PathBuf>,
    pub(crate) allow_eviction: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Single,
    Unix,
    Sentinel,
    Cluster,
}

impl ParsedUrl {
    /// Reads the URL; [`InvalidArgument`](crate::ErrorKind::InvalidArgument) says what is wrong without quoting it.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(|| refused("it has no scheme"))?;
        let (scheme, tls) = read_scheme(scheme)?;
        if let Some((_, fragment)) = rest.split_once('#') {
            return Err(if fragment == "insecure" {
                Error::invalid(
                    "the server's URL asks for '#insecure': duly always verifies the server's certificate; \
                     name your own authority with ?ca=/path/ca.pem",
                )
            } else {
                refused("it has a '#' (write it as %23 in a password)")
            });
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A unix path starts at the first slash too: unix://user:password@/path.
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (user_info, hosts) = match authority.rsplit_once('@') {
            Some((user_info, hosts)) => (Some(user_info), hosts),
            None => (None, authority),
        };

        // The '@' of a URL whose password has a '/' of its own is found in the path.
        let ends_too_early = match scheme {
            Scheme::Unix => !hosts.is_empty(),
            Scheme::Single => true,
            Scheme::Sentinel | Scheme::Cluster => read_hosts(hosts, 1).is_err(),
        };
        // With an '@' before it, too, what looks like a host may be the rest of a password.
        let has_two = user_info.is_some() && scheme != Scheme::Unix;
        if path.contains('@') && (has_two || ends_too_early) {
            return Err(refused("a '/' stands before the '@' (write it as %2F in a user or password)"));
        }

        let mut parsed = Self {
            layout: Layout::Cluster { seeds: Vec::new() },
            tls,
            credentials: user_info.map(read_credentials).transpose()?.unwrap_or_default(),
            sentinel_credentials: Credentials::default(),
            db: 0,
            ca_file: None,
            client_cert_file: None,
            client_key_file: None,
            allow_eviction: false,
        };
        parsed.read_query(query, scheme)?;

        parsed.layout = parsed.layout_of(scheme, hosts, path)?;
        Ok(parsed)
    }

    /// Also reads the database, where the path names it.
    fn layout_of(&mut self, scheme: Scheme, hosts: &str, path: &str) -> Result<Layout, Error> {
        Ok(match scheme {
            Scheme::Unix => {
                if !hosts.is_empty() {
                    return Err(refused("a unix URL has a host (it needs three slashes: unix:///path/to.sock)"));
                }
                let path = decode(path)?;
                if path.len() < 2 {
                    return Err(refused("the path of the unix socket is missing"));
                }
                Layout::Single(Address::Unix(PathBuf::from(path)))
            }
            Scheme::Single => {
                self.read_db(path)?;
                let mut addresses = read_hosts(hosts, 6379)?;
                match (addresses.pop(), addresses.is_empty()) {
                    (Some(address), true) => Layout::Single(address),
                    _ => return Err(refused("it names several hosts (use redis+sentinel:// or redis+cluster://)")),
                }
            }
            Scheme::Sentinel => {
                let (name, db) = path.trim_matches('/').split_once('/').unwrap_or((path.trim_matches('/'), ""));
                let master_name = decode(name)?;
                if master_name.is_empty() {
                    return Err(refused("the master's name is missing (redis+sentinel://host:port/master-name)"));
                }
                self.read_db(db)?;
                Layout::Sentinel { sentinels: read_hosts(hosts, 26379)?, master_name }
            }
            Scheme::Cluster => {
                self.read_db(path)?;
                if self.db != 0 {
                    return Err(refused("a cluster has only database 0"));
                }
                Layout::Cluster { seeds: read_hosts(hosts, 6379)? }
            }
        })
    }

    fn read_db(&mut self, text: &str) -> Result<(), Error> {
        let text = text.trim_matches('/');
        if !text.is_empty() {
            self.db = text.parse().map_err(|_| refused("the database is not a number (0, 1, 2, ...)"))?;
        }
        Ok(())
    }

    fn read_query(&mut self, query: &str, scheme: Scheme) -> Result<(), Error> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value)?;
            match key {
                "db" if scheme == Scheme::Unix => self.read_db(&value)?,
                "user" | "username" if scheme == Scheme::Unix => self.credentials.username = Some(value),
                "password" | "pass" if scheme == Scheme::Unix => {
                    self.credentials.password = Some(Secret::new(value));
                }
                "sentinel_user" | "sentinel_username" if scheme == Scheme::Sentinel => {
                    self.sentinel_credentials.username = Some(value);
                }
                "sentinel_password" if scheme == Scheme::Sentinel => {
                    self.sentinel_credentials.password = Some(Secret::new(value));
                }
                "ca" if self.tls => self.ca_file = Some(value.into()),
                "cert" if self.tls => self.client_cert_file = Some(value.into()),
                "key" if self.tls => self.client_key_file = Some(value.into()),
                "allow_eviction" => {
                    self.allow_eviction = match value.as_str() {
                        "" | "1" | "true" | "yes" => true,
                        "0" | "false" | "no" => false,
                        _ => return Err(refused("allow_eviction is neither 1 nor 0")),
                    }
                }
                _ => {
                    return Err(refused(
                        "it has an option that is not known for this form: there are ?allow_eviction; \
                         ca, cert and key with TLS; db, user and password with unix; sentinel_user and \
                         sentinel_password with sentinels",
                    ));
                }
            }
        }
        Ok(())
    }
}

fn refused(why: &str) -> Error {
    Error::invalid(format!("the server's URL cannot be used: {why}; {FORMS}"))
}

fn read_scheme(scheme: &str) -> Result<(Scheme, bool), Error> {
    Ok(match scheme {
        "redis" | "valkey" => (Scheme::Single, false),
        "rediss" | "valkeys" => (Scheme::Single, true),
        "unix" | "redis+unix" | "valkey+unix" => (Scheme::Unix, false),
        "redis+sentinel" | "valkey+sentinel" => (Scheme::Sentinel, false),
        "rediss+sentinel" | "valkeys+sentinel" => (Scheme::Sentinel, true),
        "redis+cluster" | "valkey+cluster" => (Scheme::Cluster, false),
        "rediss+cluster" | "valkeys+cluster" => (Scheme::Cluster, true),
        _ => return Err(refused("its scheme is not known")),
    })
}

fn read_credentials(user_info: &str) -> Result<Credentials, Error> {
    let (username, password) = match user_info.split_once(':') {
        Some((username, password)) => (username, Some(Secret::new(decode(password)?))),
        None => (user_info, None),
    };
    let username = decode(username)?;
    Ok(Credentials { username: (!username.is_empty()).then_some(username), password })
}

fn read_hosts(hosts: &str, default_port: u16) -> Result<Vec<Address>, Error> {
    hosts.split(',').map(|host| read_host(host.trim(), default_port)).collect()
}

fn read_host(text: &str, default_port: u16) -> Result<Address, Error> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or_else(|| refused("an IPv6 address lacks its ']'"))?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(refused("there is something odd after an IPv6 address")),
        }
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(refused("an IPv6 address needs brackets: [::1]:6379")),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err(refused("the host is empty"));
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(refused("the port is not a number from 1 to 65535")),
        },
    };
    Ok(Address::Tcp { host: decode(host)?, port })
}

/// Percent-decoding; a lone `%` is refused, because it is a password that was not encoded.
fn decode(text: &str) -> Result<String, Error> {
    let bad = || refused("a '%' is not followed by two hexadecimal digits (write % as %25)");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()).ok_or_else(bad)?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(bad());
            }
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| refused("a percent-encoded part is not UTF-8"))
}
