//! Reads queue after queue, or several at once: what cannot be read of one is said, and keeps nobody from the others.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duly::{Client, Error, ErrorKind};
use tokio::time::{Instant, timeout};

/// How many queues, or topics, are read at once.
pub(crate) const AT_ONCE: usize = 16;
/// How long the node of a queue is waited for when that of another one has not answered; and so many times as long as the slowest read
/// has taken, for lines that are slow.
const BEHIND_AN_OUTAGE: Duration = Duration::from_secs(1);
const TIMES_THE_SLOWEST: u32 = 4;

/// Does the error say nothing of the other queues, or topics?
///
/// - Somebody else, or a newer version, has written under the keys of this one, or its name into the list.
/// - Its node of a cluster is away.
pub(crate) fn is_of_one_queue(client: &Client, error: &Error) -> bool {
    use ErrorKind::{Corrupt, FormatTooNew, Internal, InvalidArgument, PermissionDenied};
    let kind = error.kind();
    matches!(kind, Corrupt | FormatTooNew | InvalidArgument | PermissionDenied | Internal)
        || is_of_a_node(client, error)
}

/// Is it that of a node of a cluster, while others may answer?
pub(crate) fn is_of_a_node(client: &Client, error: &Error) -> bool {
    error.kind().is_transient() && client.is_of_cluster()
}

/// Reads of many queues, which do not wait anew for each queue of a node that is away.
pub(crate) struct Reads<'a> {
    client: &'a Client,
    is_hasty: bool,
    seen: Mutex<Seen>,
}

/// What reads have come to.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// A node has not answered.
    is_outage: bool,
    /// How long the slowest one took that gave something.
    slowest: Duration,
}

impl<'a> Reads<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, is_hasty: false, seen: Mutex::default() }
    }

    /// In a cluster each waits no longer than behind an outage, also on a slow line: what is late is read again.
    pub(crate) fn in_haste(client: &'a Client) -> Self {
        Self { is_hasty: client.is_of_cluster(), ..Self::new(client) }
    }

    /// What a read of one queue gives.
    ///
    /// Errors: those of the read; `Timeout` if it takes too long.
    pub(crate) async fn read<T>(&self, read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let Seen { is_outage, slowest } = *self.seen();
        let longest = match (self.is_hasty, is_outage) {
            (true, _) => BEHIND_AN_OUTAGE,
            (false, true) => BEHIND_AN_OUTAGE.max(slowest * TIMES_THE_SLOWEST),
            (false, false) => Duration::MAX,
        };
        let late =
            || Error::new(ErrorKind::Timeout, format!("its node did not answer within {:.1} s", longest.as_secs_f64()));
        let began = Instant::now();
        let read = timeout(longest, read).await.unwrap_or_else(|_| Err(late()));
        let mut seen = self.seen();
        match &read {
            Ok(_) => seen.slowest = seen.slowest.max(began.elapsed()),
            Err(error) => seen.is_outage |= is_of_a_node(self.client, error),
        }
        drop(seen);
        read
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn behind_an_outage_a_read_has_a_second() {
        let client = Client::builder().build().unwrap();
        let reads = Reads::new(&client);
        let away = || async { Err::<u32, _>(Error::new(ErrorKind::Unreachable, "away")) };
        assert_eq!(reads.read(away()).await.unwrap_err().kind(), ErrorKind::Unreachable);
        assert!(!reads.seen().is_outage, "it has one server only, as far as it knows");
        reads.seen().is_outage = true;
        let late = reads.read(std::future::pending::<Result<u32, _>>()).await.unwrap_err();
        assert_eq!(
            (late.kind(), late.to_string()),
            (ErrorKind::Timeout, "its node did not answer within 1.0 s".to_owned())
        );
        assert_eq!(reads.read(async { Ok(2) }).await.unwrap(), 2);
        // A line on which a read takes longer.
        reads.seen().slowest = Duration::from_millis(400);
        let slow = async {
            tokio::time::sleep(Duration::from_millis(1200)).await;
            Ok(3)
        };
        assert_eq!(reads.read(slow).await.unwrap(), 3);
    }
}
