//! The owner of a lock: the call that holds it, or wants to.

use std::time::Duration;

use crate::process::host;
use crate::process::runtime::background;
use crate::queue::{Client, Part};
use crate::script::{Declared, LockFlag, Unlock};
use crate::value::error::{Error, ErrorKind};

/// How long giving up is tried in the background: until the time to live is over, but no shorter and no longer than this.
const SHORTEST_FAREWELL: Duration = Duration::from_secs(30);
const LONGEST_FAREWELL: Duration = Duration::from_secs(600);

/// One owner, and its ways to the server.
#[derive(Clone)]
pub(super) struct Owner {
    /// The caller's.
    pub(super) part: Part,
    /// Of the background: behind no large call, open when the caller's client is closed, and in a runtime that always runs.
    pub(super) beside: Part,
    /// 64 random bits, which no other has.
    pub(super) id: String,
}

impl Owner {
    /// Errors: `InvalidArgument` if the client is closed.
    pub(super) fn new(client: &Client, name: &str) -> Result<Self, Error> {
        let beside = Part::beside_queues(client.shared.beside.client(client)?, name);
        Ok(Self { part: Part::beside_queues(client.clone(), name), beside, id: host::random_id()? })
    }

    /// The same in the background alone, for whom the connections of the caller's client stand still.
    pub(super) fn in_background(client: &Client, name: &str) -> Result<Self, Error> {
        let part = Part::beside_queues(client.shared.beside.client(client)?, name);
        Ok(Self { beside: part.clone(), part, id: host::random_id()? })
    }

    /// Another one of the same lock.
    pub(super) fn renewed(&self) -> Result<Self, Error> {
        Ok(Self { id: host::random_id()?, ..self.clone() })
    }

    /// Gives whether it was held.
    pub(super) async fn give_up(&self) -> Result<bool, Error> {
        let unlock = Unlock { owner: self.id.clone() };
        if !self.part.client.is_closed() {
            let LockFlag(was_held) = self.part.run(unlock.with([])).await?;
            return Ok(was_held);
        }
        // A lock is held for longer than its client may be open, and others wait for it.
        let beside = self.beside.clone();
        let given_up = background()?.spawn(async move { beside.run(unlock.with([])).await });
        let LockFlag(was_held) =
            given_up.await.map_err(|_| Error::new(ErrorKind::Internal, "the background is gone"))??;
        Ok(was_held)
    }

    /// The same in the background, until the server has answered or it no longer matters.
    pub(super) async fn give_up_beside(&self, ttl: Duration) {
        let unlock = Unlock { owner: self.id.clone() };
        let given_up = self.beside.run(unlock.with([]).keep_trying(&|_| true));
        _ = tokio::time::timeout(ttl.clamp(SHORTEST_FAREWELL, LONGEST_FAREWELL), given_up).await;
    }

    /// The same as a task. Without a thread for it the time to live remains.
    pub(super) fn leave(self, ttl: Duration) {
        if let Ok(background) = background() {
            background.spawn(async move { self.give_up_beside(ttl).await });
        }
    }
}
