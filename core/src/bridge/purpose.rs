//! What a batch is made for: a bridge that goes on with it must be made for the same. Parts of it may be there already, and another
//! target would not know which.

use std::fmt::Write as _;
use std::sync::PoisonError;

use super::Bridge;
use crate::process::host;
use crate::queue::Client;
use crate::script::{self, Command};
use crate::value::error::Error;
use crate::value::plural::{counted, verb};

/// The id of the server among the names of a purpose.
pub(super) const SERVER: &str = "server";

/// Where something goes to, as names and values that are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Purpose(Vec<(String, String)>);

impl Purpose {
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.to_owned(), value.escape_debug().to_string()));
        self
    }

    /// A line each.
    pub(super) fn written(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.0 {
            _ = writeln!(text, "{name} {value}");
        }
        text
    }

    fn read(text: &str) -> Self {
        let line = |line: &str| line.split_once(' ').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(text.lines().filter_map(line).collect())
    }

    fn value(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// How it differs from what a batch was made for, which went to `other_address`.
    fn differences(&self, other: &Self, [address, other_address]: [&str; 2]) -> String {
        let shown = |value: &str| if value.is_empty() { "none".to_owned() } else { format!("'{value}'") };
        let mut differences = Vec::new();
        for (name, value) in self.0.iter().filter(|(name, _)| name != SERVER) {
            let was = other.value(name);
            if was != value {
                differences.push(format!("{name}: {} there, {} here", shown(was), shown(value)));
            }
        }
        if other.value(SERVER) != self.value(SERVER) {
            if address != other_address {
                differences.push(format!("server: {other_address} there, {address} here"));
            } else if differences.is_empty() {
                // Else it may be the same: of an old queue each ready key has an id.
                differences.push(format!("server: another one than this at {address}, or this has lost its data"));
            }
        }
        if differences.is_empty() {
            differences.push("a newer version made it".to_owned());
        }
        differences.join("; ")
    }
}

/// A batch that was made for something else than this bridge.
pub(super) struct Foreign<'a> {
    /// How many jobs it has, and of which key or queue.
    pub(super) jobs: u64,
    pub(super) of: &'a str,
    /// Where it goes to.
    pub(super) address: &'a str,
    pub(super) purpose: &'a str,
    /// How it can be gone on with all the same, and what happens then.
    pub(super) otherwise: &'a str,
}

impl Foreign<'_> {
    /// What a bridge says that goes to `address` for `purpose`.
    pub(super) fn refused(&self, purpose: &str, address: &str) -> Error {
        let Self { jobs, of, otherwise, .. } = self;
        let differences = Purpose::read(purpose).differences(&Purpose::read(self.purpose), [address, self.address]);
        let is = verb(*jobs, "is", "are");
        let message = format!(
            "{} of {of} {is} in flight from a bridge with other options ({differences}). Run that one again, with the options that it \
             had, until it has ended, and then this one. {otherwise}",
            counted(*jobs, "job")
        );
        Error::invalid(message).during("bridge")
    }
}

/// The id that something has, or gets now; `named` gives it an id if it has none, and asks which it has.
pub(super) async fn id_of(
    client: &Client,
    new_id: String,
    named: impl FnOnce(&str) -> (u16, [Command; 2]),
) -> Result<String, Error> {
    let (slot, [give, get]) = named(&new_id);
    let mut known = script::known_id(client.command("bridge", slot, get.clone()).await?)?;
    // Not at once: a server without memory refuses it.
    if known.is_none() {
        client.command("bridge", slot, give).await?;
        known = script::known_id(client.command("bridge", slot, get).await?)?;
    }
    Ok(known.unwrap_or(new_id))
}

impl Bridge {
    /// The id of the server that jobs go to: random, kept in `key` there, and the same under each of its addresses. While this bridge runs, a server
    /// that has lost it in a failover gets it again.
    pub(super) async fn server_id(
        &self,
        client: &Client,
        key: &str,
        named: impl FnOnce(&str) -> (u16, [Command; 2]),
    ) -> Result<String, Error> {
        let known = self.server_ids.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let id = match known {
            Some(id) => id,
            None => host::random_id()?,
        };
        let id = id_of(client, id, named).await?;
        self.server_ids.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), id.clone());
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_said_of_both() {
        let made = Purpose::default().with("server", "1").with("queue", "orders").with("partitions", "1");
        let own = |server: &str, queue: &str, partitions: &str| {
            Purpose::default().with("server", server).with("queue", queue).with("partitions", partitions)
        };
        let said = |own: &Purpose, address: &str| {
            let (purpose, of, otherwise) = (&*made.written(), "the key 'x'", "Or else.");
            let foreign = Foreign { jobs: 2, of, address: "old:1", purpose, otherwise };
            foreign.refused(&own.written(), address).to_string()
        };
        let other = said(&own("2", "mail", "3"), "new:1");
        for part in [
            "2 jobs of the key 'x' are in flight",
            "; server: old:1 there, new:1 here)",
            "queue: 'orders' there, 'mail' here",
            "partitions: '1' there, '3' here",
        ] {
            assert!(other.contains(part), "{other}");
        }
        assert!(
            said(&own("2", "orders", "1"), "old:1")
                .contains("server: another one than this at old:1, or this has lost")
        );
        assert!(!said(&own("1", "orders", "3"), "new:1").contains("server:"));
    }
}
