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
//! | `back.rs` | the way back: `thinkphp`, `workerman` and `think_queue` |
//! | `report.rs` | what was counted |

mod back;
mod celery;
mod gmq;
mod instant;
mod old_queue;
mod package;
mod report;

pub use old_queue::{OldQueue, OldState, ScoreUnit};
pub use report::{BridgeReport, LaneReport, PushedCounts};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::old_queue::Lane;
use self::package::{Fate, Moved};
use crate::connection::Backoff;
use crate::lock::{Lock, LockOptions};
use crate::process::host;
use crate::queue::Client;
use crate::script::{self, Adopt, AdoptReply, Declared, Digits, Entries, Finished, Take, Taken, Target};
use crate::value::durability::Durability;
use crate::value::error::{Error, ErrorKind};
use crate::value::time::Millis;

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
    is_back: bool,
}

/// How far this bridge is with a lane.
struct Progress {
    /// Its name, which is kept beside its key.
    id: String,
    /// One bridge at a time; its token tells the old server which one that is.
    lock: Lock,
    /// The batch that is in, which the next call says.
    finished: Option<Finished>,
    /// Are there no more notices than jobs, but for those that came since?
    is_trimmed: bool,
    /// How many entries of those that it has dropped are counted.
    dropped: u64,
}

/// When a part of a batch was stored.
enum Stored {
    Now,
    /// By a call that nobody has heard the answer of.
    Before,
    /// A later one, of this sequence, is in.
    Behind(u64),
}

impl Bridge {
    /// From the server of `source` to that of `target`, which may be the same.
    pub fn new(source: &Client, target: &Client, old: OldQueue) -> Self {
        Self { source: source.clone(), target: target.clone(), old, is_back: false }
    }

    /// Counts what is there and reads all of it, and moves nothing: says what would become of it.
    ///
    /// Errors: those of any call.
    pub async fn count(&self) -> Result<BridgeReport, Error> {
        if self.is_back {
            return self.count_back().await;
        }
        let mut report = self.begin().await?;
        for (index, lane) in self.old.lanes.iter().enumerate() {
            let mut from = 0;
            loop {
                let look = lane.reading.look(from, BATCH_JOBS, BATCH_BYTES);
                let reply = self.source.run("bridge", &look, Durability::None).await?;
                let (seen, entries) = lane.reading.looked(reply)?;
                if seen == 0 {
                    break;
                }
                from += seen;
                let now = self.now(lane).await?;
                report.lanes[index].dropped += (seen - entries.len()) as u64;
                for (entry, score) in entries {
                    report.note_fate(index, &Fate::read(&self.old, lane, entry, score, "0", now));
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
        // A server that is not there at the start is a mistake, and one that goes away later an outage.
        self.source.ping().await?;
        self.target.ping().await?;
        let (mut report, mut has_begun) = (BridgeReport::default(), false);
        let follow = async {
            let (mut backoff, ends) = (Backoff::default(), || has_ended.load(Ordering::Relaxed));
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
        if !has_begun {
            return self.begin().await;
        }
        self.end(report).await
    }

    async fn begin(&self) -> Result<BridgeReport, Error> {
        if self.is_back {
            return self.begin_back().await;
        }
        let mut report = BridgeReport::default();
        for lane in &self.old.lanes {
            let mut counts = [0; 3];
            let order = lane.reading.order;
            let (slot, lengths) = script::old_length(lane.key(), order);
            for (count, length) in counts.iter_mut().zip(lengths) {
                *count = script::length(self.source.command("bridge", slot, length).await?)?;
            }
            let [length, in_flight, aside] = counts;
            let in_flight = if order.has_scores() { in_flight / 2 } else { in_flight };
            report.lanes.push(LaneReport::new(lane, length + aside, in_flight));
        }
        Ok(report)
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

    /// Until all lanes are empty, or, if there is such a thing, until `ends` says so.
    async fn run(
        &self,
        report: &mut BridgeReport,
        progress: impl FnMut(&BridgeReport),
        ends: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<(), Error> {
        if self.is_back {
            return self.run_back(report, progress, ends).await;
        }
        let mut lanes = Vec::new();
        let run = async {
            for lane in &self.old.lanes {
                lanes.push(self.enter(lane).await?);
            }
            self.move_all(report, progress, ends, &mut lanes).await?;
            // A copy of a call that comes late is to move nothing any more, and what stays in the old queue is to be there.
            for (lane, progress) in self.old.lanes.iter().zip(&lanes) {
                while matches!(self.take(lane, progress, 0, None).await?, Taken::Batch { more: true, .. }) {}
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
            let mut more = false;
            for (index, lane) in self.old.lanes.iter().enumerate() {
                more |= self.batch(report, index, lane, &mut lanes[index]).await?;
                if more || report.trouble.is_some() {
                    report.trouble = None;
                    progress(report);
                }
            }
            if ends.map_or(!more, |ends| ends()) {
                return Ok(());
            }
            if !more {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// One batch of a lane. Says whether there may be another one.
    async fn batch(
        &self,
        report: &mut BridgeReport,
        index: usize,
        lane: &Lane,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let mut above = None;
        'again: loop {
            let taken = self.take(lane, progress, BATCH_JOBS, above).await?;
            if let Taken::Batch { dropped, .. } = taken {
                report.lanes[index].dropped += dropped.saturating_sub(progress.dropped);
                progress.dropped = dropped;
            }
            let (sequence, id, kept_before, more, entries) = match taken {
                Taken::Batch { sequence: Some(sequence), lane, kept_before, more, entries, .. } => {
                    (sequence, lane, kept_before, more, entries)
                }
                Taken::Batch { more, .. } => {
                    progress.finished = None;
                    if !progress.is_trimmed {
                        self.trim_notices(lane, progress).await?;
                    }
                    return Ok(more);
                }
                Taken::Fenced => {
                    let message = "another bridge of these keys has taken over";
                    return Err(Error::new(ErrorKind::LeaseLost, message).during("bridge"));
                }
            };
            let fates = self.read(lane, entries, self.now(lane).await?)?;
            let mut parts = BTreeMap::<&str, Vec<(&str, &Moved)>>::new();
            for (new_id, fate) in &fates {
                if let Fate::Moves(moved) = fate {
                    parts.entry(&moved.queue).or_default().push((new_id, moved));
                }
            }
            for (queue, jobs) in parts {
                if !report.pushed.contains_key(queue) {
                    let count = self.pushed(queue).await?;
                    report.pushed.insert(queue.to_owned(), PushedCounts { before: count, after: count, stored: 0 });
                }
                let counted = report.pushed.entry(queue.to_owned()).or_default();
                // The old server lost its last writes: what it gave out since is there again, and comes again. Or another bridge has
                // taken over, which the next call finds out.
                match self.adopt(queue, &id, sequence, &jobs).await? {
                    Stored::Now => counted.stored += jobs.len() as u64,
                    Stored::Before => {}
                    Stored::Behind(known) => {
                        above = Some(known);
                        continue 'again;
                    }
                }
            }
            // Behind an outage the last batch comes again, and was counted.
            let counted = &mut report.lanes[index];
            if counted.counted.replace(sequence) != Some(sequence) {
                if kept_before == 0 {
                    counted.stays.clear();
                }
                for (_, fate) in &fates {
                    report.note_fate(index, fate);
                }
            }
            let stays = fates.iter().enumerate().filter(|(_, (_, fate))| matches!(fate, Fate::Stays(_)));
            progress.finished = Some(Finished { sequence, kept: stays.map(|(at, _)| at + 1).collect() });
            self.trim_notices(lane, progress).await?;
            return Ok(more || !fates.is_empty());
        }
    }

    /// A job that came over leaves its notice behind: without this there would be one for each job that ever was. A producer that adds a
    /// job in between may lose its notice; a worker of the other queue then finds that job when its wait is over.
    async fn trim_notices(&self, lane: &Lane, progress: &mut Progress) -> Result<(), Error> {
        if let Some(notices) = &lane.notices {
            let (slot, [length, ..]) = script::old_length(lane.key(), lane.reading.order);
            let length = script::length(self.source.command("bridge", slot, length).await?)?;
            let (slot, trim) = script::trimmed(notices, length);
            self.source.command("bridge", slot, trim).await?;
        }
        progress.is_trimmed = true;
        Ok(())
    }

    /// By the clock of the server that gets the jobs. That of this machine may be minutes off.
    async fn now(&self, lane: &Lane) -> Result<Millis, Error> {
        let slot = self.target.queue_or_part(&lane.queue)?.shared.keys.slot();
        let time = self.target.command("bridge", slot, script::time()).await?;
        script::server_time(time)
            .ok_or_else(|| Error::new(ErrorKind::Protocol, "the server's answer to TIME is no time"))
    }

    /// What becomes of the jobs of a batch, each with its new id.
    fn read(&self, lane: &Lane, entries: Entries, now: Millis) -> Result<Vec<(String, Fate)>, Error> {
        let fate = |(entry, score)| {
            let new_id = self.target.shared.ids.next(host::now())?.as_str().to_owned();
            let fate = Fate::read(&self.old, lane, entry, score, &new_id, now);
            Ok((new_id, fate))
        };
        entries.into_iter().map(fate).collect()
    }

    /// `most`: 0 at the end of this bridge, when no late copy of its calls is to move anything any more.
    async fn take(&self, lane: &Lane, progress: &Progress, most: usize, above: Option<u64>) -> Result<Taken, Error> {
        let take = Take {
            reading: &lane.reading,
            token: progress.lock.token() + u64::from(most == 0),
            finished: progress.finished.as_ref(),
            lane: &progress.id,
            most,
            most_bytes: BATCH_BYTES,
            above,
        };
        let reply = self.source.run("bridge", &take.call(), self.source.shared.durability).await?;
        Taken::decode(reply, lane.reading.order)
    }

    /// How many jobs a queue of duly counts as pushed, ever.
    async fn pushed(&self, queue: &str) -> Result<u64, Error> {
        let counts = self.target.queue_or_part(queue)?.counts().await?;
        Ok(counts.totals.iter().find(|(name, _)| name == "pushed").map_or(0, |(_, total)| *total))
    }

    /// Stores a queue's part of a batch, once.
    async fn adopt(&self, queue: &str, lane: &str, sequence: u64, jobs: &[(&str, &Moved)]) -> Result<Stored, Error> {
        let part = self.target.queue_or_part(queue)?;
        let items = jobs.iter().map(|(id, moved)| (id.as_bytes(), &*moved.record, moved.target, &*moved.came_back));
        let adopt = Adopt { lane: lane.to_owned(), sequence: Digits(sequence) };
        let adopt = adopt.with(items).during("bridge").durably(self.target.shared.durability);
        match part.run(adopt).await? {
            AdoptReply::Adopted => Ok(Stored::Now),
            AdoptReply::Known => Ok(Stored::Before),
            AdoptReply::Behind(known) => Ok(Stored::Behind(known)),
            AdoptReply::Room(room) => {
                let failed = jobs.iter().filter(|(_, moved)| moved.target == Target::Failed).count();
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

    /// The first bridge gives a lane its name, which is the same under each address of its server.
    async fn enter(&self, lane: &Lane) -> Result<Progress, Error> {
        let new_id = host::random_id()?;
        let (slot, [give, get]) = script::lane_id(lane.key(), &new_id);
        let mut known = script::lane(self.source.command("bridge", slot, get.clone()).await?)?;
        // Not at once: a server without memory refuses it.
        if known.is_none() {
            self.source.command("bridge", slot, give).await?;
            known = script::lane(self.source.command("bridge", slot, get).await?)?;
        }
        let id = known.unwrap_or(new_id);
        let lock = self.target.lock(&format!("bridge:{id}"), &LockOptions::new().ttl(LOCK_TTL)).await;
        let lock = lock.map_err(|error| locked(error, &format!("the key '{}'", lane.key().escape_debug())))?;
        Ok(Progress { id, lock, finished: None, is_trimmed: false, dropped: 0 })
    }
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
