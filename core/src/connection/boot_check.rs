//! The checks of a new connection, before the first job is trusted to its server.

use redis::Value;

use super::address::Address;
use super::classify;
use super::trouble::Trouble;
use crate::value::error::{Error, ErrorKind};

/// What the sections `server`, `memory` and `replication` of INFO said. Empty when INFO is not permitted: a user
/// with few rights must be able to work, so everything unknown passes.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerFacts {
    product: Option<&'static str>,
    version: Option<String>,
    maxmemory: Option<u64>,
    maxmemory_policy: Option<String>,
    role: Option<String>,
    mode: Option<String>,
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
                    "role" => facts.role = Some(value.to_owned()),
                    _ => {}
                }
            }
        }
        facts
    }

    /// Refuses a sentinel, which holds no jobs.
    pub(super) fn check_mode(&self, server: &Address) -> Result<(), Trouble> {
        if self.mode.as_deref() == Some("sentinel") {
            return Err(Trouble::refused(Error::invalid(format!(
                "{server} is a sentinel: use redis+sentinel://host:port/master-name"
            ))));
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
}
