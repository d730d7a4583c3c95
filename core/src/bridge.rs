//! The way over from another queue, without a flag day and without a lost job.
//!
//! A *lane* is one key of the other queue. Its jobs leave it in batches: a script on its server moves a batch into a list of the bridge
//! beside the key, under a sequence that rises; a script in the slot of each duly queue stores that queue's part of the batch and
//! the sequence with it; then the list is deleted, by the call that asks for the next batch. Whoever dies in between, and whatever is
//! sent again, a batch that is in flight is found there by the next bridge, and a part whose sequence is stored is not stored again. Ids
//! are no help in that: the other queues give the same one twice.
//!
//! | file | duty |
//! |---|---|
//! | `old_queue.rs` | which keys other queues have |
//! | `package.rs` | what they keep of a job, and what duly makes of it |
//! | `celery.rs`, `gmq.rs` | what Celery and gmq keep of a job |
//! | `instant.rs` | moments as text |
//! | `over.rs` | the way over |
//! | `back.rs` | the way back: `thinkphp`, `workerman` and `think_queue` |
//! | `purpose.rs` | what a batch is made for: nobody goes on with it for something else |
//! | `report.rs` | what was counted |
//! | `checks.rs` | what must hold of any entry of another queue: for tests |

mod back;
mod celery;
#[cfg(any(test, fuzzing))]
mod checks;
mod gmq;
mod instant;
mod old_queue;
mod over;
mod package;
mod purpose;
mod report;

#[cfg(any(test, fuzzing))]
pub(crate) use checks::check_entry;
pub use old_queue::{OldQueue, OldState, ScoreUnit};
pub use report::{BridgeReport, GivenBack, LaneReport, PushedCounts};

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::connection::Backoff;
use crate::lock::Lock;
use crate::queue::{Client, MAX_PARTITIONS};
use crate::value::error::{Error, ErrorKind};

/// What one batch has at most: jobs, and bytes but for the last job.
const BATCH_JOBS: usize = 500;
const BATCH_BYTES: usize = 1024 * 1024;
/// How long another bridge waits behind one that was killed.
const LOCK_TTL: Duration = Duration::from_secs(15);
/// How often empty keys are looked at while old producers run.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a bridge that was ended may go on with its batch, and how long it may count what is left.
const LONGEST_LAST_BATCH: Duration = Duration::from_secs(2);
const LONGEST_COUNT: Duration = Duration::from_secs(3);

/// Takes over the jobs of another queue.
///
/// ```no_run
/// # async fn doc() -> Result<(), duly::Error> {
/// use duly::{Bridge, Client, OldQueue};
///
/// let (old, new) = (Client::connect("redis://old:6379").await?, Client::connect("redis://new:6379").await?);
/// let bridge = Bridge::new(&old, &new, OldQueue::think_queue(&["orders"])?);
/// println!("{}", bridge.count().await?); // nothing is moved
/// let report = bridge.drain(|_| {}).await?;
/// assert!(report.is_complete());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Bridge {
    source: Client,
    target: Client,
    old: OldQueue,
    is_back: bool,
    /// How many parts each of duly's queues has.
    partitions: u16,
    /// The ids of the servers that jobs go to.
    server_ids: Mutex<BTreeMap<String, String>>,
}

impl Bridge {
    /// From the server of `source` to that of `target`, which may be the same.
    pub fn new(source: &Client, target: &Client, old: OldQueue) -> Self {
        let (source, target) = (source.clone(), target.clone());
        Self { source, target, old, is_back: false, partitions: 1, server_ids: Mutex::default() }
    }

    /// Duly's queues have this many partitions (1 to 256), as those of [`Client::partitioned_queue`]. It must be the same in each run.
    ///
    /// Errors: `InvalidArgument`.
    pub fn partitions(mut self, count: u16) -> Result<Self, Error> {
        if count == 0 || count > MAX_PARTITIONS {
            return Err(Error::invalid(format!("a queue has 1 to {MAX_PARTITIONS} partitions, not {count}")));
        }
        self.partitions = count;
        Ok(self)
    }

    /// The name of the part that the `at`-th job of a batch goes into: the same whenever the batch is read.
    fn part(&self, queue: &str, at: usize) -> String {
        match self.partitions {
            1 => queue.to_owned(),
            count => format!("{queue}/{}", at % usize::from(count)),
        }
    }

    /// Counts what is there and reads all of it, and moves nothing: says what would become of it.
    ///
    /// Errors: those of any call.
    pub async fn count(&self) -> Result<BridgeReport, Error> {
        if self.is_back { self.count_back().await } else { self.count_over().await }
    }

    /// Takes over all that is there now, and ends. `progress` hears of each batch.
    ///
    /// A key whose failed jobs have no room in `failed` waits for that with the rest of its jobs, and the report says so; all other
    /// keys come over.
    ///
    /// Errors: `Locked` if another bridge of these keys runs, or one did whose token is larger; `LeaseLost` if one has taken over; those
    /// of any call. What was taken out and not stored by then waits beside the old queue's keys: run it again.
    pub async fn drain(&self, progress: impl FnMut(&BridgeReport)) -> Result<BridgeReport, Error> {
        let mut report = self.begin().await?;
        self.run(&mut report, progress, None).await?;
        self.end(report).await
    }

    /// The same, and goes on until `ends` is ready, for as long as old producers run. It waits out servers that do not answer, and
    /// another bridge. From then on it takes a few seconds at most: of servers that do not answer, the report says that the rest is not
    /// counted.
    ///
    /// Errors: as [`drain`](Self::drain), but for those that pass.
    pub async fn follow(
        &self,
        ends: impl Future<Output = ()>,
        mut progress: impl FnMut(&BridgeReport),
    ) -> Result<BridgeReport, Error> {
        let has_ended = AtomicBool::new(false);
        let ends = async {
            ends.await;
            has_ended.store(true, Ordering::Relaxed);
            tokio::time::sleep(LONGEST_LAST_BATCH).await;
        };
        let (mut report, mut has_begun) = (BridgeReport::default(), false);
        let follow = async {
            let (mut backoff, ends) = (Backoff::default(), || has_ended.load(Ordering::Relaxed));
            // A server that is not there at the start is a mistake, and one that goes away later an outage.
            let is_there = async {
                self.source.ping().await?;
                self.target.ping().await
            };
            match is_there.await {
                Err(_) if ends() => return Ok(()),
                is_there => is_there?,
            }
            loop {
                let run = async {
                    if !has_begun {
                        let trouble = report.trouble.take();
                        report = BridgeReport { trouble, ..self.begin().await? };
                        has_begun = true;
                    }
                    self.run(&mut report, &mut progress, Some(&ends)).await
                };
                match run.await {
                    Ok(()) => return Ok(()),
                    Err(_) if ends() => return Ok(()),
                    // What no replica has yet is still in flight: it is sent again, and waited for again.
                    Err(error)
                        if error.is_transient()
                            || matches!(error.kind(), ErrorKind::LeaseLost | ErrorKind::NotDurable) =>
                    {
                        report.trouble = Some(error.to_string());
                        progress(&report);
                        backoff.rest().await;
                    }
                    Err(error) if error.kind() == ErrorKind::Locked => {
                        report.trouble = Some(error.to_string());
                        progress(&report);
                        tokio::time::sleep(LOOK_AGAIN * 5).await;
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        tokio::select! {
            followed = follow => followed?,
            () = ends => {}
        }
        Ok(self.end_soon(report, has_begun).await)
    }

    /// Whoever has ended it waits for this.
    async fn end_soon(&self, report: BridgeReport, has_begun: bool) -> BridgeReport {
        let counting = async { if has_begun { self.end(report.clone()).await } else { self.begin().await } };
        match tokio::time::timeout(LONGEST_COUNT, counting).await {
            Ok(Ok(counted)) => counted,
            Ok(Err(error)) => BridgeReport { uncounted: Some(error.to_string()), ..report },
            Err(_) => {
                let why = format!("that took longer than {} s", LONGEST_COUNT.as_secs());
                BridgeReport { uncounted: Some(why), ..report }
            }
        }
    }

    /// Until there is nothing left, or, if there is such a thing, until `ends` says so.
    async fn run(
        &self,
        report: &mut BridgeReport,
        progress: impl FnMut(&BridgeReport),
        ends: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<(), Error> {
        if self.is_back {
            self.run_back(report, progress, ends).await
        } else {
            self.run_over(report, progress, ends).await
        }
    }

    async fn begin(&self) -> Result<BridgeReport, Error> {
        if self.is_back { self.begin_back().await } else { self.begin_over().await }
    }

    async fn end(&self, mut report: BridgeReport) -> Result<BridgeReport, Error> {
        let after = self.begin().await?;
        for (lane, after) in report.lanes.iter_mut().zip(after.lanes) {
            (lane.left, lane.in_flight) = (after.before, after.in_flight);
            if self.is_back {
                lane.stays = after.stays;
            }
        }
        for (queue, pushed) in &mut report.pushed {
            pushed.after = self.pushed(queue).await?;
        }
        Ok(report)
    }
}

/// What it says when the other side knows a token that is larger than this bridge's. `has_taken`: it had let this bridge in before.
/// `key`: where that token is.
fn fenced(lock: &Lock, known: u64, has_taken: bool, of: &str, key: &str) -> Error {
    let ours = lock.token();
    if has_taken {
        let message = format!("another bridge of {of} has taken over: its token is {known}, and this one's {ours}");
        return Error::new(ErrorKind::LeaseLost, message).during("bridge");
    }
    // Tokens follow the clock, in microseconds.
    let seconds = known.saturating_sub(ours) / 1_000_000 + 1;
    let message = format!(
        "a bridge of {of} had the token {known}, and this one has {ours}: it runs, or the clock of duly's server is {seconds} s behind \
         the clock that gave the other token, which was that of another server or was set back. If no other bridge runs, wait for \
         {seconds} s, or give up that token: HDEL {} token",
        key.escape_debug()
    );
    Error::new(ErrorKind::Locked, message).during("bridge")
}

/// What it says when another bridge has the lock.
fn locked(error: Error, of: &str) -> Error {
    if error.kind() != ErrorKind::Locked {
        return error;
    }
    let seconds = LOCK_TTL.as_secs();
    let message = format!("another bridge of {of} runs, or was killed less than {seconds} s ago");
    Error::new(ErrorKind::Locked, message).during("bridge")
}
