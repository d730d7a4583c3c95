//! The way over: jobs leave the other queue's keys in batches, and duly stores each batch once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::old_queue::Lane;
use super::package::{Fate, Format, Moved};
use super::purpose::{Foreign, Purpose, SERVER, id_of};
use super::report::{BridgeReport, LaneReport, PushedCounts};
use super::{BATCH_BYTES, BATCH_JOBS, Bridge, LOCK_TTL, LOOK_AGAIN, fenced, locked};
use crate::lock::{Lock, LockOptions};
use crate::process::host;
use crate::script::{
    self, Adopt, AdoptReply, Behind, Declared, Digits, Entries, Finished, Order, Refusal, Take, Taken, Target, crc16,
};
use crate::value::durability::Durability;
use crate::value::error::{Error, ErrorKind};
use crate::value::plural::{counted, verb};
use crate::value::time::Millis;

/// How often a key is tried again whose failed jobs have no room, while the others are followed.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// How far this bridge is with a lane.
struct Progress {
    /// Its name, which is kept beside its key.
    id: String,
    /// One bridge at a time; its token tells the old server which one that is.
    lock: Lock,
    /// What its batches are made for.
    purpose: String,
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

/// A job of a batch.
struct Coming<'a> {
    /// Its number in the batch, from 0.
    at: usize,
    new_id: &'a str,
    moved: &'a Moved,
}

/// What a call for a batch gave.
struct Given {
    /// None if there is no batch.
    sequence: Option<u64>,
    lane: String,
    more: bool,
    entries: Entries,
}

/// Was a part of a batch stored?
enum Stored {
    /// By this call, or by an earlier one.
    In,
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
            let server =
                self.server_id(&self.target, "", |id| script::target_id(&self.target.shared.prefix, id)).await?;
            for lane in &self.old.lanes {
                lanes.push(self.enter(lane, &server).await?);
            }
            // Of all of them, before anything moves: else what this one has in flight of one key, and another one of another, stops both.
            for (index, lane) in self.old.lanes.iter().enumerate() {
                self.take(&mut report.lanes[index], lane, &mut lanes[index], 0, None).await?;
            }
            self.move_all(report, progress, ends, &mut lanes).await?;
            // A copy of a call that comes late is to move nothing any more, and what stays in the old queue is to be there.
            for (lane, progress) in self.old.lanes.iter().zip(&lanes) {
                self.ask(lane, progress, progress.lock.token() + 1, 0, None).await?;
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
        let mut behind = None;
        loop {
            let Given { sequence, lane: id, more, entries } =
                self.take(&mut report.lanes[index], lane, progress, BATCH_JOBS, behind).await?;
            let Some(sequence) = sequence else {
                progress.finished = None;
                if !progress.is_trimmed {
                    self.trim_notices(lane, progress).await?;
                }
                return Ok(Batch::Done { more });
            };
            let fates = self.read(lane, entries, self.now(lane).await?)?;
            let mut without_room = WithoutRoom::default();
            // The jobs of a part in which a later batch is in, and of those behind that part.
            let (mut outrun, mut later) = (BTreeSet::new(), None);
            for (part, jobs) in self.parts_of(&fates) {
                // What goes to `failed` has its own sequence: the others are in, whether there is room for it or not. So has what may expire
                // before the batch is read again: a job is never in another part than before.
                let (failed, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.moved.may_fail);
                for (name, jobs) in [(id.clone(), others), (format!("{id}:failed"), failed)] {
                    if jobs.is_empty() {
                        continue;
                    }
                    if later.is_some() {
                        outrun.extend(jobs.iter().map(|job| job.at));
                        continue;
                    }
                    // The old server lost its last writes: what it gave out since is there again, and comes again. Or another bridge
                    // has taken over, which the next call finds out.
                    match self.store(report, &part, &name, sequence, &jobs).await? {
                        Stored::In => {}
                        Stored::Behind(known) => {
                            outrun.extend(jobs.iter().map(|job| job.at));
                            later = Some(known);
                        }
                        Stored::NoRoom(room) => without_room.note(&part, room, &jobs),
                    }
                }
            }
            for (at, (_, fate)) in fates.iter().enumerate() {
                // Behind an outage the last batch comes again, and was counted.
                let is_in = !without_room.jobs.contains(&at) && !outrun.contains(&at);
                if is_in && report.lanes[index].is_news(sequence, at) {
                    report.note_fate(index, fate);
                }
            }
            let stays = fates.iter().enumerate().filter(|(_, (_, fate))| matches!(fate, Fate::Stays(_)));
            let kept = stays.map(|(at, _)| at + 1).collect();
            let rest: Vec<usize> = without_room.jobs.union(&outrun).map(|at| at + 1).collect();
            let is_whole = rest.len() == fates.len();
            progress.finished = Some(Finished { sequence, kept, rest }).filter(|_| !is_whole);
            if let Some(known) = later {
                // What is in is in flight no more: a part that has it does not know it by the sequence that the others get.
                behind = Some(Behind { batch: sequence, known });
                continue;
            }
            let Some(reason) = without_room.reason() else {
                self.trim_notices(lane, progress).await?;
                return Ok(Batch::Done { more: more || !fates.is_empty() });
            };
            if !is_whole {
                // What is in is in flight no more, and what is not becomes a batch of its own.
                self.take(&mut report.lanes[index], lane, progress, BATCH_JOBS, None).await?;
                progress.finished = None;
                self.trim_notices(lane, progress).await?;
            }
            return Ok(Batch::Blocked(reason));
        }
    }

    /// The jobs that come over, by the queue or the part of one that each goes into.
    fn parts_of<'a>(&self, fates: &'a [(String, Fate)]) -> BTreeMap<String, Vec<Coming<'a>>> {
        let mut parts = BTreeMap::<String, Vec<Coming<'_>>>::new();
        for (at, (new_id, fate)) in fates.iter().enumerate() {
            if let Fate::Moves(moved) = fate {
                parts.entry(self.part(&moved.queue, at)).or_default().push(Coming { at, new_id, moved });
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
        let slot = self.target.queue_or_part_of(&self.part(&lane.queue, 0), self.partitions)?.shared.keys.slot();
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

    /// The next batch, or the one that is in flight, and with 0 for `most` none but that.
    async fn take(
        &self,
        report: &mut LaneReport,
        lane: &Lane,
        progress: &mut Progress,
        most: usize,
        behind: Option<Behind>,
    ) -> Result<Given, Error> {
        let of = || format!("the key '{}'", lane.key().escape_debug());
        match self.ask(lane, progress, progress.lock.token(), most, behind).await? {
            Taken::Batch { sequence, lane, kept_before, more, dropped, entries } => {
                progress.has_taken = true;
                report.dropped += dropped.saturating_sub(progress.dropped);
                progress.dropped = dropped;
                report.stay_at_most(kept_before);
                Ok(Given { sequence, lane, more, entries })
            }
            Taken::Refused(Refusal::Fenced(known)) => {
                Err(fenced(&progress.lock, known, progress.has_taken, &of(), &lane.reading.state_key()))
            }
            Taken::Foreign(key) => Err(lane.reading.foreign(&key)),
            Taken::Refused(Refusal::Other { elements, address, purpose }) => {
                let jobs = if lane.reading.order.has_scores() { elements / 2 } else { elements };
                // Without its sequence it gets another one: a part of the new target may know this one from its own part.
                let otherwise = format!(
                    "If that is not possible, and it runs no more, give up what is known of them: HDEL {} made_for sequence. Then all of \
                     them come to this one, also those that the other one has stored.",
                    lane.reading.state_key().escape_debug()
                );
                let foreign = Foreign { jobs, of: &of(), address: &address, purpose: &purpose, otherwise: &otherwise };
                Err(foreign.refused(&progress.purpose, &self.target.address()))
            }
        }
    }

    /// `token`: at the end of this bridge a larger one than it has, because no late copy of its calls is to move anything any more.
    async fn ask(
        &self,
        lane: &Lane,
        progress: &Progress,
        token: u64,
        most: usize,
        behind: Option<Behind>,
    ) -> Result<Taken, Error> {
        let take = Take {
            reading: &lane.reading,
            token,
            finished: progress.finished.as_ref(),
            lane: &progress.id,
            most,
            most_bytes: BATCH_BYTES,
            behind,
            purpose: &progress.purpose,
            address: &self.target.address(),
        };
        let reply = self.source.run("bridge", &take.call(), self.source.shared.durability).await?;
        Taken::decode(reply, lane.reading.order)
    }

    /// How many jobs a queue of duly counts as pushed, ever.
    pub(super) async fn pushed(&self, queue: &str) -> Result<u64, Error> {
        let counts = self.target.queue_or_part_of(queue, self.partitions)?.counts().await?;
        Ok(counts.totals.iter().find(|(name, _)| name == "pushed").map_or(0, |(_, total)| *total))
    }

    /// Stores a queue's part of a batch, once, and counts it.
    async fn store(
        &self,
        report: &mut BridgeReport,
        queue: &str,
        lane: &str,
        sequence: u64,
        jobs: &[Coming<'_>],
    ) -> Result<Stored, Error> {
        if !report.pushed.contains_key(queue) {
            let count = self.pushed(queue).await?;
            report.pushed.insert(queue.to_owned(), PushedCounts { before: count, after: count, stored: 0 });
        }
        let part = self.target.queue_or_part_of(queue, self.partitions)?;
        let items = jobs
            .iter()
            .map(|Coming { new_id, moved, .. }| (new_id.as_bytes(), &*moved.record, moved.target, &*moved.came_back));
        let adopt = Adopt { lane: lane.to_owned(), sequence: Digits(sequence) };
        let adopt = adopt.with(items).during("bridge").durably(self.target.shared.durability);
        Ok(match part.run(adopt).await? {
            AdoptReply::Adopted => {
                report.pushed.entry(queue.to_owned()).or_default().stored += jobs.len() as u64;
                Stored::In
            }
            AdoptReply::Known => Stored::In,
            AdoptReply::Behind(known) => Stored::Behind(known),
            AdoptReply::Room(room) => Stored::NoRoom(room),
        })
    }

    /// The first bridge gives a lane its name, which is the same under each address of its server. `server`: the id of duly's.
    async fn enter(&self, lane: &Lane, server: &str) -> Result<Progress, Error> {
        // Where jobs stay in a list. A script that may not run it would say so in the middle of a drain, with nothing lost.
        if self.old.format == Format::Celery && lane.reading.order == Order::Right {
            let (slot, lset) = script::try_lset(lane.key());
            match self.source.command("bridge", slot, lset).await {
                Err(error) if error.kind() == ErrorKind::PermissionDenied || error.is_transient() => return Err(error),
                _ => {}
            }
        }
        let id = id_of(&self.source, host::random_id()?, |id| script::lane_id(lane.key(), id)).await?;
        let lock = self.target.lock(&format!("bridge:{id}"), &LockOptions::new().ttl(LOCK_TTL)).await;
        let lock = lock.map_err(|error| locked(error, &format!("the key '{}'", lane.key().escape_debug())))?;
        let purpose = Purpose::default().with(SERVER, server).with("prefix", &self.target.shared.prefix);
        let purpose = lane.purpose(&self.old, purpose.with("partitions", &self.partitions.to_string())).written();
        Ok(Progress {
            id,
            lock,
            purpose,
            has_taken: false,
            finished: None,
            is_trimmed: false,
            dropped: 0,
            blocked: None,
        })
    }
}

/// What finds no room in `failed`.
#[derive(Default)]
struct WithoutRoom {
    /// The numbers of these jobs in their batch, from 0.
    jobs: BTreeSet<usize>,
    /// Of each queue, or each part of one.
    reasons: Vec<String>,
}

impl WithoutRoom {
    /// `room`: for so many there is some.
    fn note(&mut self, part: &str, room: usize, jobs: &[Coming<'_>]) {
        self.jobs.extend(jobs.iter().map(|job| job.at));
        let come = jobs.iter().filter(|job| job.moved.target == Target::Failed).count() as u64;
        let (come, comes) = (counted(come, "failed job"), verb(come, "comes", "come"));
        self.reasons.push(format!("{come} {comes}, and the queue '{part}' keeps {room} more"));
    }

    fn reason(&self) -> Option<String> {
        let (first, others) = self.reasons.split_first()?;
        let others = match others.len() as u64 {
            0 => String::new(),
            count => format!(" ({} {} no room either)", counted(count, "other queue"), verb(count, "has", "have")),
        };
        Some(format!("{first}{others}: raise that with keep_failed, or empty it, and run the bridge again"))
    }
}
