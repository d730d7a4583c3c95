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
//! | `report.rs` | what was counted |

mod old_queue;
mod package;
mod report;

pub use old_queue::{OldQueue, OldState, ScoreUnit};
pub use report::{BridgeReport, LaneReport};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::old_queue::Lane;
use self::package::Moved;
use crate::connection::Backoff;
use crate::lock::{Lock, LockOptions};
use crate::process::host;
use crate::queue::Client;
use crate::script::{self, Adopt, AdoptReply, Declared, Digits, Place, Take, Taken};
use crate::value::error::{Error, ErrorKind};

/// What one batch has at most: jobs, and bytes but for the last job.
const BATCH_JOBS: usize = 500;
const BATCH_BYTES: usize = 1024 * 1024;
/// How long another bridge waits behind one that was killed.
const LOCK_TTL: Duration = Duration::from_secs(15);
/// How often empty keys are looked at while old producers run.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

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
}

/// How far this bridge is with a lane.
struct Progress {
    /// Its name, which is kept beside its key.
    id: String,
    /// One bridge at a time; its token tells the old server which one that is.
    lock: Lock,
    /// The sequence of the batch that is in, which the next call says.
    finished: Option<u64>,
}

impl Bridge {
    /// From the server of `source` to that of `target`, which may be the same.
    pub fn new(source: &Client, target: &Client, old: OldQueue) -> Self {
        Self { source: source.clone(), target: target.clone(), old }
    }

    /// Counts what is there and reads all of it, and moves nothing: says what would become of it.
    ///
    /// Errors: those of any call.
    pub async fn count(&self) -> Result<BridgeReport, Error> {
        let mut report = self.begin().await?;
        for (index, lane) in self.old.lanes.iter().enumerate() {
            let mut from = 0;
            loop {
                let (slot, page) = script::entries(&lane.key, lane.order, from, BATCH_JOBS);
                let entries = lane.order.read(self.source.command("bridge", slot, page).await?)?;
                from += entries.len();
                if entries.is_empty() {
                    break;
                }
                for (entry, score) in entries {
                    report.note(index, &self.read(lane, entry, score, "0"));
                }
            }
        }
        report.is_dry = true;
        Ok(report)
    }

    /// Takes over all that is there now, and ends. `progress` hears of each batch.
    ///
    /// Errors: `Locked` if another bridge of these keys runs; `LeaseLost` if one has taken over; `TooLarge` if more failed jobs come
    /// than the queue keeps; those of any call. What was taken out and not stored by then waits beside the old queue's keys: run it again.
    pub async fn drain(&self, progress: impl FnMut(&BridgeReport)) -> Result<BridgeReport, Error> {
        let mut report = self.begin().await?;
        self.run(&mut report, progress, None).await?;
        self.end(report).await
    }

    /// The same, and goes on until `ends` is ready, for as long as old producers run. It waits out servers that do not answer, and
    /// another bridge.
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
            std::future::pending::<()>().await;
        };
        let mut report = self.begin().await?;
        let follow = async {
            let (mut backoff, ends) = (Backoff::default(), || has_ended.load(Ordering::Relaxed));
            loop {
                match self.run(&mut report, &mut progress, Some(&ends)).await {
                    Ok(()) => break Ok(()),
                    Err(_) if ends() => break Ok(()),
                    Err(error) if error.is_transient() || error.kind() == ErrorKind::LeaseLost => {
                        report.trouble = Some(error.to_string());
                        progress(&report);
                        backoff.rest().await;
                    }
                    Err(error) if error.kind() == ErrorKind::Locked => {
                        report.trouble = Some(error.to_string());
                        progress(&report);
                        tokio::time::sleep(LOOK_AGAIN * 5).await;
                    }
                    Err(error) => break Err(error),
                }
            }
        };
        tokio::select! {
            followed = follow => followed?,
            () = ends => {}
        }
        self.end(report).await
    }

    async fn begin(&self) -> Result<BridgeReport, Error> {
        let mut report = BridgeReport::default();
        for lane in &self.old.lanes {
            let mut counts = [0; 2];
            let (slot, lengths) = script::old_length(&lane.key, lane.order);
            for (count, length) in counts.iter_mut().zip(lengths) {
                *count = script::length(self.source.command("bridge", slot, length).await?)?;
            }
            if lane.order.has_scores() {
                counts[1] /= 2;
            }
            report.lanes.push(LaneReport::new(&lane.key, lane.state, counts[0], counts[1]));
        }
        Ok(report)
    }

    async fn end(&self, mut report: BridgeReport) -> Result<BridgeReport, Error> {
        let after = self.begin().await?;
        for (lane, after) in report.lanes.iter_mut().zip(after.lanes) {
            (lane.left, lane.in_flight) = (after.before, after.in_flight);
        }
        Ok(report)
    }

    /// Until all lanes are empty, or, if there is such a thing, until `ends` says so.
    async fn run(
        &self,
        report: &mut BridgeReport,
        progress: impl FnMut(&BridgeReport),
        ends: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<(), Error> {
        let mut lanes = Vec::new();
        let run = async {
            for lane in &self.old.lanes {
                lanes.push(self.enter(lane).await?);
            }
            self.move_all(report, progress, ends, &mut lanes).await?;
            // A copy of a call that comes late is to move nothing any more.
            for (lane, progress) in self.old.lanes.iter().zip(&lanes) {
                self.take(lane, progress, 0, None).await?;
            }
            Ok(())
        };
        let ended = run.await;
        for progress in &lanes {
            // It is given up in the background else, or ends by itself.
            _ = progress.lock.release().await;
        }
        ended
    }

    async fn move_all(
        &self,
        report: &mut BridgeReport,
        mut progress: impl FnMut(&BridgeReport),
        ends: Option<&(dyn Fn() -> bool + Sync)>,
        lanes: &mut [Progress],
    ) -> Result<(), Error> {
        loop {
            let mut moved = 0;
            for (index, lane) in self.old.lanes.iter().enumerate() {
                moved += self.batch(report, index, lane, &mut lanes[index]).await?;
                if moved > 0 {
                    report.trouble = None;
                    progress(report);
                }
            }
            if ends.map_or(moved == 0, |ends| ends()) {
                return Ok(());
            }
            if moved == 0 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// One batch of a lane. Gives how many jobs it had.
    async fn batch(
        &self,
        report: &mut BridgeReport,
        index: usize,
        lane: &Lane,
        progress: &mut Progress,
    ) -> Result<usize, Error> {
        let mut above = None;
        'again: loop {
            let (sequence, id, entries) = match self.take(lane, progress, BATCH_JOBS, above).await? {
                Taken::Batch { sequence: Some(sequence), lane, entries } => (sequence, lane, entries),
                Taken::Batch { .. } => {
                    progress.finished = None;
                    return Ok(0);
                }
                Taken::Fenced => {
                    let message = "another bridge of these keys has taken over";
                    return Err(Error::new(ErrorKind::LeaseLost, message).during("bridge"));
                }
            };
            let count = entries.len();
            let mut parts = BTreeMap::<String, Vec<(String, Moved)>>::new();
            for (entry, score) in entries {
                let new_id = self.target.shared.ids.next(host::now())?.as_str().to_owned();
                let moved = self.read(lane, entry, score, &new_id);
                parts.entry(moved.queue.clone()).or_default().push((new_id, moved));
            }
            for (queue, part) in &parts {
                // The old server lost its last writes: what it gave out since is there again, and comes again. Or another bridge has
                // taken over, which the next call finds out.
                if let Some(known) = self.adopt(queue, &id, sequence, part).await? {
                    above = Some(known);
                    continue 'again;
                }
            }
            for (_, moved) in parts.values().flatten() {
                report.note(index, moved);
            }
            progress.finished = Some(sequence);
            return Ok(count);
        }
    }

    /// `most`: 0 at the end of this bridge, when no late copy of its calls is to move anything any more.
    async fn take(&self, lane: &Lane, progress: &Progress, most: usize, above: Option<u64>) -> Result<Taken, Error> {
        let take = Take {
            source: &lane.key,
            order: lane.order,
            token: progress.lock.token() + u64::from(most == 0),
            finished: progress.finished,
            lane: &progress.id,
            most,
            most_bytes: BATCH_BYTES,
            above,
        };
        let reply = self.source.run("bridge", &take.call(), self.source.shared.durability).await?;
        Taken::decode(reply, lane.order)
    }

    /// Stores a queue's part of a batch, once. Gives the sequence of a later one that is there.
    async fn adopt(
        &self,
        queue: &str,
        lane: &str,
        sequence: u64,
        jobs: &[(String, Moved)],
    ) -> Result<Option<u64>, Error> {
        let part = self.target.queue_or_part(queue)?;
        let items = jobs.iter().map(|(id, moved)| (id.as_bytes(), &*moved.record, moved.place, &*moved.came_back));
        let adopt = Adopt { lane: lane.to_owned(), sequence: Digits(sequence) };
        let adopt = adopt.with(items).during("bridge").durably(self.target.shared.durability);
        match part.run(adopt).await? {
            AdoptReply::Adopted | AdoptReply::Known => Ok(None),
            AdoptReply::Behind(known) => Ok(Some(known)),
            AdoptReply::Room(room) => {
                let failed = jobs.iter().filter(|(_, moved)| moved.place == Place::Failed).count();
                Err(part.during("bridge")(Error::new(
                    ErrorKind::TooLarge,
                    format!(
                        "{failed} failed jobs come, and the queue keeps {room} more: raise that with keep_failed, or empty it, \
                         and run the bridge again"
                    ),
                )))
            }
        }
    }

    fn read(&self, lane: &Lane, entry: Vec<u8>, score: Option<f64>, id: &str) -> Moved {
        Moved::read(self.old.format, lane, self.old.name.as_deref(), entry, score, id)
    }

    /// The first bridge gives a lane its name, which is the same under each address of its server.
    async fn enter(&self, lane: &Lane) -> Result<Progress, Error> {
        let new_id = host::random_id()?;
        let (slot, [give, get]) = script::lane_id(&lane.key, &new_id);
        let mut known = script::lane(self.source.command("bridge", slot, get.clone()).await?)?;
        // Not at once: a server without memory refuses it.
        if known.is_none() {
            self.source.command("bridge", slot, give).await?;
            known = script::lane(self.source.command("bridge", slot, get).await?)?;
        }
        let id = known.unwrap_or(new_id);
        let lock = self.target.lock(&format!("bridge:{id}"), &LockOptions::new().ttl(LOCK_TTL)).await;
        let lock = lock.map_err(|error| {
            if error.kind() != ErrorKind::Locked {
                return error;
            }
            let message = format!(
                "another bridge of the key '{}' runs, or was killed less than {} s ago",
                lane.key,
                LOCK_TTL.as_secs()
            );
            Error::new(ErrorKind::Locked, message).during("bridge")
        })?;
        Ok(Progress { id, lock, finished: None })
    }
}
