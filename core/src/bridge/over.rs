//! The way over: jobs leave the other queue's keys in batches, and duly stores each batch once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::old_queue::Lane;
use super::package::{Fate, Moved};
use super::report::{BridgeReport, LaneReport, PushedCounts};
use super::{BATCH_BYTES, BATCH_JOBS, Bridge, LOCK_TTL, LOOK_AGAIN, fenced, locked};
use crate::lock::{Lock, LockOptions};
use crate::process::host;
use crate::script::{self, Adopt, AdoptReply, Declared, Digits, Entries, Finished, Take, Taken, Target, crc16};
use crate::value::durability::Durability;
use crate::value::error::{Error, ErrorKind};
use crate::value::time::Millis;

/// How often a key is tried again whose failed jobs have no room, while the others are followed.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// How far this bridge is with a lane.
struct Progress {
    /// Its name, which is kept beside its key.
    id: String,
    /// One bridge at a time; its token tells the old server which one that is.
    lock: Lock,
    /// Has it had an answer that was not refused?
    has_taken: bool,
    /// The batch that is in, which the next call says.
    finished: Option<Finished>,
    /// Are there no more notices than jobs, but for those that came since?
    is_trimmed: bool,
    /// How many entries of those that it has dropped are counted.
    dropped: u64,
    /// When its failed jobs have found no room in `failed`.
    blocked: Option<Instant>,
}

/// What became of a batch.
enum Batch {
    /// There was none, or it is in. `more`: there may be another one.
    Done { more: bool },
    /// Its failed jobs have no room, and all others are in. It stays in flight.
    Blocked(String),
}

/// When a part of a batch was stored.
enum Stored {
    Now,
    /// By a call that nobody has heard the answer of.
    Before,
    /// A later one, of this sequence, is in.
    Behind(u64),
    /// Not at all: so many more failed jobs fit into `failed`.
    NoRoom(usize),
}

impl Bridge {
    pub(super) async fn begin_over(&self) -> Result<BridgeReport, Error> {
        let mut report = BridgeReport::default();
        for lane in &self.old.lanes {
            let mut counts = [0; 2];
            let order = lane.reading.order;
            let (slot, lengths) = script::old_length(lane.key(), order);
            for (count, length) in counts.iter_mut().zip(lengths) {
                *count = script::length(self.source.command("bridge", slot, length).await?)?;
            }
            let [length, in_flight] = counts;
            let in_flight = if order.has_scores() { in_flight / 2 } else { in_flight };
            report.lanes.push(LaneReport::new(lane, length, in_flight));
        }
        Ok(report)
    }

    pub(super) async fn count_over(&self) -> Result<BridgeReport, Error> {
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
        for queue in self.old.lanes.iter().map(|lane| &lane.queue) {
            let count = self.departing(queue).await?.into_iter().map(|(count, _)| count).sum();
            if count > 0 {
                report.departing.insert(queue.clone(), count);
            }
        }
        report.is_dry = true;
        Ok(report)
    }

    /// Until all lanes are empty, or, if there is such a thing, until `ends` says so.
    pub(super) async fn run_over(
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
            // A copy of a call that comes late is to move nothing any more, and what stays in the old queue is to be there.
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
            let mut has_more = false;
            for (index, lane) in self.old.lanes.iter().enumerate() {
                if lanes[index].blocked.is_some_and(|at| ends.is_none() || at.elapsed() < TRY_AGAIN) {
                    continue;
                }
                let batch = self.batch(report, index, lane, &mut lanes[index]).await?;
                let (more, blocked) = match batch {
                    Batch::Done { more } => (more, None),
                    Batch::Blocked(reason) => (false, Some(reason)),
                };
                lanes[index].blocked = blocked.as_ref().map(|_| Instant::now());
                let is_news = more || report.trouble.is_some() || blocked != report.lanes[index].blocked;
                report.lanes[index].blocked = blocked;
                has_more |= more;
                if is_news {
                    report.trouble = None;
                    progress(report);
                }
            }
            if ends.map_or(!has_more, |ends| ends()) {
                return Ok(());
            }
            if !has_more {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// One batch of a lane.
    async fn batch(
        &self,
        report: &mut BridgeReport,
        index: usize,
        lane: &Lane,
        progress: &mut Progress,
    ) -> Result<Batch, Error> {
        let mut above = None;
        'again: loop {
            let taken = self.take(lane, progress, BATCH_JOBS, above).await?;
            if let Taken::Batch { dropped, kept_before, .. } = taken {
                progress.has_taken = true;
                report.lanes[index].dropped += dropped.saturating_sub(progress.dropped);
                progress.dropped = dropped;
                report.lanes[index].stay_at_most(kept_before);
            }
            let (sequence, id, more, entries) = match taken {
                Taken::Batch { sequence: Some(sequence), lane, more, entries, .. } => (sequence, lane, more, entries),
                Taken::Batch { more, .. } => {
                    progress.finished = None;
                    if !progress.is_trimmed {
                        self.trim_notices(lane, progress).await?;
                    }
                    return Ok(Batch::Done { more });
                }
                Taken::Fenced(known) => {
                    let of = format!("the key '{}'", lane.key().escape_debug());
                    return Err(fenced(&progress.lock, known, progress.has_taken, &of, &lane.reading.state_key()));
                }
            };
            let fates = self.read(lane, entries, self.now(lane).await?)?;
            for (part, jobs) in self.parts_of(&fates) {
                // What goes to `failed` has its own sequence: the others are in, whether there is room for it or not. So has what may expire
                // before the batch is read again: a job is never in another part than before.
                let (failed, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(_, moved)| moved.may_fail);
                for (name, jobs) in [(id.clone(), others), (format!("{id}:failed"), failed)] {
                    if jobs.is_empty() {
                        continue;
                    }
                    // The old server lost its last writes: what it gave out since is there again, and comes again. Or another bridge
                    // has taken over, which the next call finds out.
                    match self.store(report, &part, &name, sequence, &jobs).await? {
                        Stored::Now | Stored::Before => {}
                        Stored::Behind(known) => {
                            above = Some(known);
                            continue 'again;
                        }
                        Stored::NoRoom(room) => {
                            let come = jobs.iter().filter(|(_, moved)| moved.target == Target::Failed).count();
                            return Ok(Batch::Blocked(format!(
                                "{come} failed jobs come, and the queue '{part}' keeps {room} more: raise that with keep_failed, or \
                                 empty it, and run the bridge again"
                            )));
                        }
                    }
                }
            }
            // Behind an outage the last batch comes again, and was counted.
            let counted = &mut report.lanes[index];
            if counted.counted.replace(sequence) != Some(sequence) {
                for (_, fate) in &fates {
                    report.note_fate(index, fate);
                }
            }
            let stays = fates.iter().enumerate().filter(|(_, (_, fate))| matches!(fate, Fate::Stays(_)));
            progress.finished = Some(Finished { sequence, kept: stays.map(|(at, _)| at + 1).collect() });
            self.trim_notices(lane, progress).await?;
            return Ok(Batch::Done { more: more || !fates.is_empty() });
        }
    }

    /// The jobs that come over, by the queue or the part of one that each goes into.
    fn parts_of<'a>(&self, fates: &'a [(String, Fate)]) -> BTreeMap<String, Vec<(&'a str, &'a Moved)>> {
        let mut parts = BTreeMap::<String, Vec<(&str, &Moved)>>::new();
        for (at, (new_id, fate)) in fates.iter().enumerate() {
            if let Fate::Moves(moved) = fate {
                parts.entry(self.part(&moved.queue, at)).or_default().push((new_id, moved));
            }
        }
        parts
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
        let slot = self.target.queue_or_part(&self.part(&lane.queue, 0))?.shared.keys.slot();
        let time = self.target.command("bridge", slot, script::time()).await?;
        script::server_time(time)
            .ok_or_else(|| Error::new(ErrorKind::Protocol, "the server's answer to TIME is no time"))
    }

    /// What becomes of the jobs of a batch, each with its new id.
    fn read(&self, lane: &Lane, entries: Entries, now: Millis) -> Result<Vec<(String, Fate)>, Error> {
        let fate = |(at, (entry, score))| {
            let new_id = self.new_id(at)?;
            let fate = Fate::read(&self.old, lane, entry, score, &new_id, now);
            Ok((new_id, fate))
        };
        entries.into_iter().enumerate().map(fate).collect()
    }

    /// By which a job is found in the part that the `at`-th one of a batch goes into.
    fn new_id(&self, at: usize) -> Result<String, Error> {
        let count = usize::from(self.partitions);
        loop {
            let id = self.target.shared.ids.next(host::now())?;
            if count == 1 || usize::from(crc16(id.as_str().as_bytes())) % count == at % count {
                return Ok(id.as_str().to_owned());
            }
        }
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
    pub(super) async fn pushed(&self, queue: &str) -> Result<u64, Error> {
        let counts = self.target.queue_or_part(queue)?.counts().await?;
        Ok(counts.totals.iter().find(|(name, _)| name == "pushed").map_or(0, |(_, total)| *total))
    }

    /// Stores a queue's part of a batch, once, and counts it.
    async fn store(
        &self,
        report: &mut BridgeReport,
        queue: &str,
        lane: &str,
        sequence: u64,
        jobs: &[(&str, &Moved)],
    ) -> Result<Stored, Error> {
        if !report.pushed.contains_key(queue) {
            let count = self.pushed(queue).await?;
            report.pushed.insert(queue.to_owned(), PushedCounts { before: count, after: count, stored: 0 });
        }
        let part = self.target.queue_or_part(queue)?;
        let items = jobs.iter().map(|(id, moved)| (id.as_bytes(), &*moved.record, moved.target, &*moved.came_back));
        let adopt = Adopt { lane: lane.to_owned(), sequence: Digits(sequence) };
        let adopt = adopt.with(items).during("bridge").durably(self.target.shared.durability);
        Ok(match part.run(adopt).await? {
            AdoptReply::Adopted => {
                report.pushed.entry(queue.to_owned()).or_default().stored += jobs.len() as u64;
                Stored::Now
            }
            AdoptReply::Known => Stored::Before,
            AdoptReply::Behind(known) => Stored::Behind(known),
            AdoptReply::Room(room) => Stored::NoRoom(room),
        })
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
        Ok(Progress { id, lock, has_taken: false, finished: None, is_trimmed: false, dropped: 0, blocked: None })
    }
}
