//! Waiting for a wake-up: an element in a list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::resend::Shared;
use super::server::Server;
use super::trouble::{Next, Trouble};
use super::wake_line::{Waited, WakeLine};
use crate::value::error::{Error, ErrorKind};

/// How long a link may have no room for a word before its server counts as one that does not answer.
const CALLED_BACK: Duration = Duration::from_secs(1);

/// How a wait for a wake-up ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// It took the element, or saw it.
    Yes(Sign),
    /// A connection was lost or left, and perhaps an element with it: look.
    Perhaps,
    /// The time is over.
    No,
}

/// The element that woke a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sign {
    /// In the list at this index of those that are waited for.
    pub(crate) index: usize,
    /// It was put there for a schedule, and not for a job.
    pub(crate) is_of_schedule: bool,
}

impl Woken {
    /// Is there a reason to look?
    pub(crate) fn is_woken(self) -> bool {
        self != Self::No
    }
}

/// By which command somebody waits: each has a permission of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitedBy {
    /// `BLPOP`: for a job, or a lock.
    Taking,
    /// `BRPOPLPUSH`: for a result.
    Seeing,
    /// `XREAD`: for messages.
    Reading,
}

/// Which of these waits went well before.
#[derive(Default)]
pub(super) struct HasWaited {
    taking: AtomicBool,
    seeing: AtomicBool,
    reading: AtomicBool,
}

impl HasWaited {
    fn by(&self, by: WaitedBy) -> &AtomicBool {
        match by {
            WaitedBy::Taking => &self.taking,
            WaitedBy::Seeing => &self.seeing,
            WaitedBy::Reading => &self.reading,
        }
    }
}

/// Says to a wait that it is to end now, as if its time were over.
pub(crate) type Enough = watch::Receiver<bool>;

impl Shared {
    pub(super) async fn wait_for(
        &self,
        slot: u16,
        waited: Waited<'_>,
        wait: Duration,
        enough: Option<&Enough>,
    ) -> Result<Woken, Error> {
        let until = Instant::now() + wait;
        // A line that is lost again and again must not make its waiters look again and again without a pause.
        let mut backoff = Backoff::after(self.lost_waits.load(Ordering::Relaxed));
        let mut first = true;
        // Nobody who waits for a minute wants to hear only then that nothing answers.
        let mut give_up = None;
        loop {
            let trouble = match self.try_wait(slot, waited, until, enough).await {
                Ok(woken) => {
                    if woken != Woken::Perhaps {
                        self.lost_waits.store(0, Ordering::Relaxed);
                    }
                    return Ok(woken);
                }
                Err(trouble) => self.explain_redirect(trouble),
            };
            if trouble.next == Next::GiveUp || self.is_final(&trouble) {
                return Err(*trouble.error);
            }
            // The same, when the dialer saw the end first.
            if first && !trouble.may_have_run && Instant::now() >= until {
                return Ok(Woken::No);
            }
            first = false;
            let give_up = *give_up.get_or_insert_with(|| until.min(Instant::now() + self.dialer.settings.deadline));
            let pause = give_up.min(Instant::now() + backoff.next());
            tokio::time::sleep_until(pause).await;
            if trouble.may_have_run || matches!(trouble.next, Next::Ask { .. }) {
                self.lost_waits.fetch_add(1, Ordering::Relaxed);
                // The element may have been lost with the connection, or waits on the slot's next server: look.
                return Ok(Woken::Perhaps);
            }
            if Instant::now() >= give_up {
                return Err(*trouble.error);
            }
        }
    }

    async fn try_wait(
        &self,
        slot: u16,
        waited: Waited<'_>,
        until: Instant,
        enough: Option<&Enough>,
    ) -> Result<Woken, Trouble> {
        let found = async {
            let server = self.topology.server_for(slot, &self.dialer, until).await?;
            let left = Arc::clone(&server.left).notified_owned();
            let line = self.line_to(&server, slot, waited, until).await;
            Ok((server, left, line))
        };
        // Only to find a line: one that waits is called back at the end, and must not be dropped by another timer of the same moment.
        let Ok(found) = tokio::time::timeout_at(until, found).await else {
            // A short wait ended before its connection was made: for the caller that is an ordinary end.
            return Ok(Woken::No);
        };
        let (server, left, line) = found?;
        let result = match line {
            Ok((line, None)) => wait_at(&server, line, waited, until, enough, left).await,
            Ok((line, Some(sign))) => {
                server.keep_line(line);
                Ok(Woken::Yes(sign))
            }
            Err(trouble) => Err(trouble),
        };
        match &result {
            Ok(Woken::Perhaps) => {}
            Ok(_) => self.has_waited.by(waited.by()).store(true, Ordering::Relaxed),
            Err(trouble) => self.learn(trouble, &server),
        }
        result
    }

    /// May a wait that failed like this go well later? What ends that of a new client is an outage for one that has worked; who may
    /// call may lack the permission to wait, or to wait by this command.
    pub(super) fn waits_again(&self, by: WaitedBy, error: &Error) -> bool {
        let went_well = match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::EvictionPolicy => &self.has_worked,
            ErrorKind::PermissionDenied | ErrorKind::Unsupported => self.has_waited.by(by),
            _ => return error.is_transient(),
        };
        went_well.load(Ordering::Relaxed)
    }

    /// A line to wait on, and the element if one that was kept had it already.
    async fn line_to(
        &self,
        server: &Arc<Server>,
        slot: u16,
        waited: Waited<'_>,
        until: Instant,
    ) -> Result<(WakeLine, Option<Sign>), Trouble> {
        let kept = match server.take_line(waited) {
            Some(line) => line.settle(waited, until).await,
            None => None,
        };
        if let Some(settled) = kept {
            return Ok(settled);
        }
        // The shared link first: it checks the server (role, version, eviction), and calls the wait back.
        self.link_to(server, slot, until).await?;
        Box::pin(WakeLine::dial(&self.dialer, &server.address, until)).await.map(|line| (line, None))
    }
}

/// Until the element comes or the wait is over.
async fn wait_at(
    server: &Arc<Server>,
    mut line: WakeLine,
    waited: Waited<'_>,
    until: Instant,
    enough: Option<&Enough>,
    left: impl Future<Output = ()>,
) -> Result<Woken, Trouble> {
    let enough = async {
        match enough {
            Some(enough) => enough.clone().wait_for(|is_enough| *is_enough).await.is_ok(),
            None => std::future::pending().await,
        }
    };
    let sign = tokio::select! {
        biased; // what has come counts
        sign = line.wait(waited, until) => sign?,
        // Whoever pushes now pushes elsewhere: look there.
        () = left => return Ok(Woken::Perhaps),
        _ = tokio::time::timeout_at(until, enough) => {
            call_back(server, line).await;
            return Ok(Woken::No);
        }
    };
    server.keep_line(line);
    Ok(sign.map_or(Woken::No, Woken::Yes))
}

/// Asks the server, on the shared link, to end the wait, and keeps the line. The answer is not waited for: the caller is in a
/// hurry, for a job has just come due. What the server then says on the line is read before the line is used again.
async fn call_back(server: &Arc<Server>, line: WakeLine) {
    let (Some(id), Some(shared)) = (line.client_id, server.open_link()) else { return };
    let mut cmd = redis::cmd("CLIENT");
    cmd.arg("UNBLOCK").arg(id);
    if shared.try_send_only(cmd.clone()).await {
        return server.keep_line(line);
    }
    // Many calls are on their way to the link: behind the caller's back, as soon as there is room.
    let server = Arc::clone(server);
    tokio::spawn(async move {
        if tokio::time::timeout(CALLED_BACK, shared.send_only(cmd)).await.is_ok_and(|is_sent| is_sent) {
            server.keep_line(line);
        }
    });
}

/// Nothing came in time while the line was being made.
pub(super) fn no_line(message: String) -> Trouble {
    Trouble::no_connection(Error::new(ErrorKind::Unreachable, message))
}
