//! The servers themselves, for those who look after them: what they say of themselves, and what queues take there.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use crate::queue::{Client, Part, Queue};
use crate::script;
use crate::value::error::{Error, ErrorKind};
use crate::value::time::Millis;

/// A server that holds queues: the one of the URL, the primary that sentinels name, or one of the primaries of a cluster.
///
/// All calls only read.
#[derive(Debug, Clone)]
pub struct ServerView {
    client: Client,
    /// By which it is found, as its owner.
    slot: u16,
    address: String,
}

impl Client {
    /// The servers that hold the queues: one, or the primaries of a cluster.
    pub async fn servers(&self) -> Result<Vec<ServerView>, Error> {
        let of = |(address, slot)| ServerView { client: self.clone(), slot, address };
        // A server whose disk is full refuses a PING.
        self.command("servers", 0, script::time()).await?;
        if self.waits_together() {
            return Ok(vec![of((self.address(), 0))]);
        }
        let slots = self.command("servers", 0, script::cluster_slots()).await?;
        Ok(script::owners(slots)?.into_iter().map(of).collect())
    }

    /// Tries what the check of a new connection leaves out: the commands that list and delete queues, and whether the user may touch keys
    /// of this prefix. Nothing is changed.
    ///
    /// Errors: `PermissionDenied`.
    pub async fn check_permissions(&self) -> Result<(), Error> {
        let list = Part::list_of_queues(self.clone());
        let nobodys = script::permissions_key(&format!("{}{{queues}}:", self.shared.prefix));
        for command in script::tries(&nobodys) {
            list.command("check", command).await?;
        }
        Ok(())
    }
}

impl ServerView {
    /// Where it is, without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The fields of `INFO`.
    ///
    /// Errors: `PermissionDenied`, as of the other calls.
    pub async fn info(&self) -> Result<BTreeMap<String, String>, Error> {
        script::server_info(self.ask("info", script::info()).await?)
    }

    /// The fields of `CLUSTER INFO`.
    pub async fn cluster_info(&self) -> Result<BTreeMap<String, String>, Error> {
        script::server_info(self.ask("cluster_info", script::cluster_info()).await?)
    }

    /// A setting, as `CONFIG GET` gives it; `None` if the server knows none of this name.
    pub async fn setting(&self, name: &str) -> Result<Option<String>, Error> {
        Ok(script::server_setting(self.ask("setting", script::setting(name)).await?))
    }

    /// What its clock says. A server answers this one whatever its state.
    pub async fn time(&self) -> Result<Millis, Error> {
        let unexpected = || Error::new(ErrorKind::Protocol, "the server's time is no time").during("time");
        script::server_time(self.ask("time", script::time()).await?).ok_or_else(unexpected)
    }

    async fn ask(&self, operation: &'static str, command: script::Command) -> Result<script::Reply, Error> {
        self.client.command(operation, self.slot, command).await
    }
}

impl Queue {
    /// How many bytes of the server's memory the queue takes, as samples let guess: what its jobs have, and all else, but results and the
    /// progress of single jobs. 33 small calls for each part.
    pub async fn memory(&self) -> Result<u64, Error> {
        let mut bytes = 0;
        for part in self.each_part() {
            let keys = part.shared.keys.of_queue();
            let calls = keys.map(|key| part.command("memory", script::memory_usage(&key)));
            let calls: Vec<_> = calls.collect();
            for reply in join_all(calls).await {
                bytes += script::used_memory(reply?);
            }
        }
        Ok(bytes)
    }
}
