//! Stores the schedules that the worker was given: before its first job if the server can, else beside its jobs as soon as it can. An
//! outage or a full server is no reason to end: another process would meet it too.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::Notify;

use super::desk::Desk;
use super::event::WorkerEvent;
use crate::connection::Backoff;
use crate::queue::Client;
use crate::schedule::{OwnSchedules, Schedules};
use crate::value::error::Error;

/// How long the first job waits for the schedules. A process that stops after few jobs is to have stored them.
const FIRST: Duration = Duration::from_secs(1);

pub(super) struct AtStart {
    left: Vec<(Schedules, OwnSchedules)>,
    was_tried: Notify,
}

impl AtStart {
    /// Errors: `InvalidArgument`.
    pub(super) fn new(client: &Client, given: Vec<OwnSchedules>) -> Result<Self, Error> {
        let of_queue = |own: OwnSchedules| Ok((client.queue(&own.queue)?.schedules(), own));
        let left = given.into_iter().map(of_queue).collect::<Result<_, _>>()?;
        Ok(Self { left, was_tried: Notify::new() })
    }

    /// Ready when they are stored or have to wait.
    pub(super) async fn was_tried(&self) {
        if !self.left.is_empty() {
            tokio::select! { () = self.was_tried.notified() => {}, () = tokio::time::sleep(FIRST) => {} }
        }
    }

    /// Stores them. An error that waiting does not cure stops the worker, with the grace.
    pub(super) async fn store(&self, desk: &Desk) -> Infallible {
        if let Err(error) = self.store_all(desk).await {
            desk.fails(error);
        }
        self.was_tried.notify_one();
        std::future::pending().await
    }

    async fn store_all(&self, desk: &Desk) -> Result<(), Error> {
        let mut waits = false;
        let mut backoff = Backoff::default();
        for (schedules, OwnSchedules { owner, list, .. }) in &self.left {
            while let Err(error) = schedules.sync(owner, list).await {
                if !is_cured_by_waiting(&error, waits) {
                    return Err(error);
                }
                if !waits {
                    waits = true;
                    desk.tell(WorkerEvent::SchedulesWait { error });
                    self.was_tried.notify_one();
                }
                backoff.rest().await;
            }
        }
        if waits {
            desk.tell(WorkerEvent::SchedulesStored);
        }
        Ok(())
    }
}

/// A worker that goes on after an outage is not ended by a password that is being changed, or a permission that was taken away: see
/// `outlasts.rs`. What is wrong with the schedules themselves ends it at any time.
fn is_cured_by_waiting(error: &Error, waits: bool) -> bool {
    error.is_transient() || (waits && error.is_of_the_server())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;

    #[test]
    fn behind_an_outage_what_somebody_may_mend_at_the_server_is_waited_for() {
        for (kind, at_first, later) in [
            (ErrorKind::Unreachable, true, true),
            (ErrorKind::StorageFull, true, true),
            (ErrorKind::AuthenticationFailed, false, true),
            (ErrorKind::PermissionDenied, false, true),
            (ErrorKind::InvalidArgument, false, false),
            (ErrorKind::Corrupt, false, false),
        ] {
            let error = Error::new(kind, "no");
            assert_eq!((is_cured_by_waiting(&error, false), is_cured_by_waiting(&error, true)), (at_first, later));
        }
    }
}
