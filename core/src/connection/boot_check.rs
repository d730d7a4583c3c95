//! The checks of a new connection, before the first job is trusted to its server.

use redis::Value;

use super::address::Address;
use super::classify;
use super::trouble::Trouble;
use crate::value::error::{Error, ErrorKind};

/// The uptime of a server, in seconds, that may have been away just now. It counts the time in which the data is loaded.
const JUST_BACK: u64 = 30;

/// What the sections `server`, `memory`, `replication` and `persistence` of INFO said. Empty when INFO is not permitted: a user
/// with few rights must be able to work, so everything unknown passes.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerFacts {
    product: Option<&'static str>,
    version: Option<String>,
    maxmemory: Option<u64>,
    maxmemory_policy: Option<String>,
    role: Option<String>,
    mode: Option<String>,
    uptime: Option<u64>,
    has_loaded: bool,
}

impl ServerFacts {
    /// Takes what it can from the replies to INFO; errors among them are left out.
    pub(super) fn read(replies: &[Value]) -> Self {
        let mut facts = Self::default();
        for reply in replies {
            let text = match reply {
                Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
                Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.as_str().into(),
                _ => continue,
            };
            for (key, value) in text.lines().filter_map(|line| line.trim_end().split_once(':')) {
                match key {
                    "redis_version" => {
                        facts.version.get_or_insert_with(|| value.to_owned());
                        facts.product.get_or_insert("Redis");
                    }
                    // Both say an old redis_version for compatibility; their own name is for the messages only.
                    "valkey_version" => facts.product = Some("Valkey"),
                    "dragonfly_version" => facts.product = Some("Dragonfly"),
                    "maxmemory" => facts.maxmemory = value.parse().ok(),
                    "maxmemory_policy" => facts.maxmemory_policy = Some(value.to_owned()),
                    "redis_mode" | "server_mode" => facts.mode = Some(value.to_owned()),
                    "uptime_in_seconds" => facts.uptime = value.parse().ok(),
                    // Keys of a dump (servers from 7.0 say so), or an append-only file that was there when it started.
                    "rdb_last_load_keys_loaded" | "aof_base_size" => {
                        facts.has_loaded |= value.parse().is_ok_and(|count: u64| count > 0);
                    }
                    "role" => facts.role = Some(value.to_owned()),
                    _ => {}
                }
            }
        }
        facts
    }

    /// Has it started a short time ago, with data of an earlier life? Then leases may be over that nobody could renew.
    pub(super) fn is_just_back(&self) -> bool {
        self.has_loaded && self.uptime.is_some_and(|seconds| seconds < JUST_BACK)
    }

    /// Refuses a sentinel, which holds no jobs.
    pub(super) fn check_mode(&self, server: &Address) -> Result<(), Trouble> {
        if self.mode.as_deref() == Some("sentinel") {
            return Err(Trouble::refused(Error::new(
                ErrorKind::WrongServer,
                format!("{server} is a sentinel: use redis+sentinel://host:port/master-name"),
            )));
        }
        Ok(())
    }

    /// Refuses a server that would lose jobs or cannot run the scripts.
    pub(super) fn check(&self, server: &Address, allow_eviction: bool) -> Result<(), Trouble> {
        let product = self.product.unwrap_or("the server");
        if let Some(version) = &self.version {
            let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(u32::MAX);
            if major < 5 {
                return Err(Trouble::refused(Error::new(
                    ErrorKind::Unsupported,
                    format!("{server} is {product} {version}: duly needs Redis 5.0 or later, or Valkey"),
                )));
            }
        }
        if self.role.as_deref() == Some("slave") {
            return Err(Trouble::wrong_server(classify::read_only(server)));
        }
        // Without a limit nothing is ever evicted, whatever the policy says.
        let limited = self.maxmemory.is_none_or(|bytes| bytes > 0);
        match &self.maxmemory_policy {
            Some(policy) if policy != "noeviction" && limited && !allow_eviction => Err(Trouble::refused(Error::new(
                ErrorKind::EvictionPolicy,
                format!(
                    "{product} at {server} may evict jobs when its memory is full (maxmemory-policy is {policy}): \
                         run `CONFIG SET maxmemory-policy noeviction` there, or accept the loss with \
                         allow_eviction (?allow_eviction=1 in the URL)"
                ),
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> ServerFacts {
        ServerFacts::read(&[Value::BulkString(text.replace('\n', "\r\n").into_bytes())])
    }

    #[test]
    fn old_servers_replicas_and_evicting_servers_are_refused() {
        let server = Address::Tcp { host: "h".into(), port: 1 };
        let kind = |text: &str, allow| facts(text).check(&server, allow).err().map(|trouble| trouble.error.kind());
        assert_eq!(kind("redis_version:4.0.14", false), Some(ErrorKind::Unsupported));
        assert_eq!(kind("redis_version:5.0.0\nrole:master", false), None);
        assert_eq!(kind("redis_version:7.2.4\nvalkey_version:8.0.1\nrole:slave", false), Some(ErrorKind::ReadOnly));
        let evicting = "maxmemory:1000\nmaxmemory_policy:volatile-lru";
        assert_eq!(kind(evicting, false), Some(ErrorKind::EvictionPolicy));
        assert_eq!(kind(evicting, true), None);
        assert_eq!(kind("maxmemory:0\nmaxmemory_policy:allkeys-lru", false), None);
        assert_eq!(kind("maxmemory:1000\nmaxmemory_policy:noeviction", false), None);
        assert_eq!(kind("", false), None, "INFO may be forbidden");
    }

    #[test]
    fn a_server_is_just_back_if_it_has_loaded_data_a_short_time_ago() {
        let is_just_back = |text: &str| facts(text).is_just_back();
        assert!(is_just_back("uptime_in_seconds:29\nrdb_last_load_keys_loaded:4"));
        assert!(is_just_back("uptime_in_seconds:0\nrdb_last_load_keys_loaded:0\naof_base_size:89"));
        assert!(!is_just_back("uptime_in_seconds:30\nrdb_last_load_keys_loaded:4"));
        assert!(!is_just_back("uptime_in_seconds:1\nrdb_last_load_keys_loaded:0\naof_base_size:0"), "it is new");
        assert!(!is_just_back("aof_base_size:89"), "INFO server may be forbidden");
    }
}
