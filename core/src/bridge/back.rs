//! The way back: jobs of duly go into the keys of another queue, in its format, so that its consumers go on or a shop returns.

use std::fmt::Write as _;

use serde_json::json;

use super::old_queue::{OldQueue, OldState};
use super::package::{Format, WITHOUT_END};
use super::purpose::{Foreign, Purpose, SERVER};
use super::report::{BridgeReport, GivenBack, LaneReport};
use super::{BATCH_JOBS, Bridge, LOCK_TTL, fenced, locked};
use crate::format::envelope::{Envelope, UnknownField, members};
use crate::format::record::{CameBack, Record};
use crate::lock::{Lock, LockOptions};
use crate::process::host;
use crate::queue::{MAX_BATCH, Queue};
use crate::script::{
    self, Behind, Declared, Depart, DepartReply, DepartingJob, Digits, GiveBack, GiveBackReply, Order, Publish,
    Published, Refusal, Withdraw,
};
use crate::value::data::Data;
use crate::value::durability::Durability;
use crate::value::error::Error;
use crate::value::plural::{counted, verb};
use crate::value::retry::DEFAULT_MAX_RETRIES;
use crate::value::state::State;

/// What goes back, in this order: what is due is older than what is ready.
const STATES: [OldState; 3] = [OldState::Delayed, OldState::Ready, OldState::Failed];

/// A key that jobs of a state go into.
struct Way<'a> {
    key: &'a str,
    order: Order,
}

impl OldQueue {
    /// The duly queues whose jobs go back.
    fn queues_back(&self) -> Vec<&str> {
        let ready = self.lanes.iter().filter(|lane| lane.state == OldState::Ready);
        ready.map(|lane| lane.queue.as_str()).collect()
    }

    /// None if the other queue keeps none of that state.
    fn way(&self, queue: &str, state: OldState) -> Option<Way<'_>> {
        let of_state = || self.lanes.iter().filter(move |lane| lane.state == state);
        let lane = of_state().find(|lane| lane.queue == queue);
        // Those of workerman are for all queues.
        let lane = lane.or_else(|| of_state().next().filter(|_| self.format == Format::PackageWithQueue))?;
        Some(Way { key: lane.key(), order: lane.reading.order })
    }
}

/// How far this bridge is with a queue, or with a part of one.
struct Progress {
    queue: String,
    part: String,
    lock: Lock,
    id: String,
    /// What its batches are made for.
    purpose: String,
    /// Has it had an answer that was not refused?
    has_taken: bool,
    finished: Option<u64>,
}

/// A batch on its way.
struct Leaving<'a> {
    sequence: u64,
    lane: String,
    state: OldState,
    way: Way<'a>,
    jobs: Vec<DepartingJob>,
}

/// What a queue has for the other one.
enum Next<'a> {
    Batch(Leaving<'a>),
    /// None now. `more`: the next call may find one.
    Nothing {
        more: bool,
    },
}

/// Why jobs do not go back to think-queue.
const NAMELESS: &str = "a job has no name, which think-queue needs: say its handler with --name";

impl Bridge {
    /// The same bridge the other way: jobs that are delayed, ready and failed in duly's queues go into the other queue's keys. Its methods
    /// are the same. Jobs that a worker of duly has come when it gives them back.
    ///
    /// Errors: `InvalidArgument` for a queue whose format duly does not write: only that of `thinkphp`, `workerman` and `think_queue`.
    pub fn back(mut self) -> Result<Self, Error> {
        let is_known = matches!(self.old.format, Format::Package | Format::PackageWithQueue | Format::Payload);
        if !is_known || !self.old.goes_back {
            return Err(Error::invalid(
                "jobs go back to thinkphp, workerman and think-queue alone: what others keep of a job, such as PHP's serialize or \
                 Python's pickle, duly does not write",
            ));
        }
        self.is_back = true;
        Ok(self)
    }

    /// Puts jobs back into duly that an interrupted bridge has left on their way, those of this bridge's queues. The old queue is asked
    /// first: what it has stays there.
    ///
    /// Errors: `InvalidArgument` if this is not the way [`back`](Self::back), and if the interrupted bridge had another old queue; those of
    /// [`drain`](Self::drain).
    pub async fn give_back(&self) -> Result<GivenBack, Error> {
        if !self.is_back {
            return Err(Error::invalid(
                "jobs that come over wait beside the old queue's keys: only those that go back are given back",
            ));
        }
        let mut total = GivenBack::default();
        let mut held = self.enter_back().await?;
        let run = async {
            self.look_at_all(&mut held).await?;
            for progress in &mut held {
                while let Next::Batch(leaving) = self.leave(progress, OldState::Ready, 0, None).await? {
                    let count = leaving.jobs.len() as u64;
                    match self.withdraw(progress, &leaving).await? {
                        Some(given) => total.given += given,
                        None => total.published += count,
                    }
                }
                self.leave_no_more(progress).await?;
            }
            Ok(())
        };
        let ended = run.await;
        for progress in &held {
            _ = progress.lock.release().await;
        }
        ended.map(|()| total)
    }

    pub(super) async fn begin_back(&self) -> Result<BridgeReport, Error> {
        let mut report = BridgeReport { is_back: true, ..BridgeReport::default() };
        for queue in self.old.queues_back() {
            let counts = self.queue(queue)?.counts().await?;
            let leaving = self.departing(queue).await?;
            for (state, count) in [
                (OldState::Delayed, counts.delayed),
                (OldState::Ready, counts.ready),
                (OldState::Failed, counts.failed),
                (OldState::Reserved, counts.reserved),
            ] {
                let in_flight = leaving.iter().filter(|(_, of)| of == state.as_str()).map(|(count, _)| count).sum();
                let mut lane = LaneReport::of_queue(queue, state, count, in_flight);
                if count > 0 && state == OldState::Failed && self.old.way(queue, state).is_none() {
                    lane.stays.insert("the other queue keeps no failed jobs in Redis".to_owned(), count);
                }
                report.lanes.push(lane);
            }
        }
        Ok(report)
    }

    /// How many jobs of a queue are on their way back, and out of which states.
    pub(super) async fn departing(&self, queue: &str) -> Result<Vec<(u64, String)>, Error> {
        let mut leaving = Vec::new();
        for at in 0..usize::from(self.partitions) {
            let part = self.target.queue_or_part_of(&self.part(queue, at), self.partitions)?;
            let keys = &part.shared.keys;
            let [length, state] = script::departing(keys);
            let length = self.target.command("bridge", keys.slot(), length).await?;
            let state = self.target.command("bridge", keys.slot(), state).await?;
            leaving.push(script::departing_of([length, state])?);
        }
        leaving.retain(|(count, _)| *count > 0);
        Ok(leaving)
    }

    pub(super) async fn count_back(&self) -> Result<BridgeReport, Error> {
        let mut report = self.begin_back().await?;
        for at in 0..report.lanes.len() {
            let (queue, state) = (report.lanes[at].key.clone(), report.lanes[at].state);
            if let Some(way) = self.old.way(&queue, state).filter(|_| state != OldState::Reserved) {
                let nameless = self.nameless(&queue, state).await?;
                report.note_back(at, way.key, report.lanes[at].before.saturating_sub(nameless));
                if nameless > 0 {
                    report.lanes[at].stays.insert(NAMELESS.to_owned(), nameless);
                }
            }
        }
        report.is_dry = true;
        Ok(report)
    }

    /// How many jobs of a state think-queue could not run.
    async fn nameless(&self, queue: &str, state: OldState) -> Result<u64, Error> {
        if self.old.format != Format::Payload || self.old.name.is_some() {
            return Ok(0);
        }
        let state = match state {
            OldState::Delayed => State::Delayed,
            OldState::Failed => State::Failed,
            OldState::Ready | OldState::Reserved => State::Ready,
        };
        let (queue, mut from, mut nameless) = (self.queue(queue)?, 0, 0);
        loop {
            let jobs = queue.peek(state, from, MAX_BATCH).await?;
            from += jobs.len();
            nameless +=
                jobs.iter().filter(|job| job.undecodable.is_none() && job.envelope.name.is_none()).count() as u64;
            if jobs.len() < MAX_BATCH {
                return Ok(nameless);
            }
        }
    }

    fn queue(&self, queue: &str) -> Result<Queue, Error> {
        match self.partitions {
            1 => self.target.queue(queue),
            count => self.target.partitioned_queue(queue, count),
        }
    }

    /// Where the jobs of a queue go to, and from all states: a batch of one state is gone on with by a bridge that asks for another.
    async fn purpose_back(&self, queue: &str) -> Result<String, Error> {
        let key = |state| self.old.way(queue, state).map_or("", |way| way.key);
        let ready = key(OldState::Ready);
        let server = self.server_id(&self.source, ready, |id| script::published_id(ready, id)).await?;
        let purpose = Purpose::default().with(SERVER, &server).with("from", self.old.kind);
        Ok(STATES.into_iter().fold(purpose, |purpose, state| purpose.with(state.as_str(), key(state))).written())
    }

    /// Takes the lock of each queue.
    async fn enter_back(&self) -> Result<Vec<Progress>, Error> {
        let mut held = Vec::new();
        for queue in self.old.queues_back() {
            let purpose = self.purpose_back(queue).await?;
            for at in 0..usize::from(self.partitions) {
                let (queue, part, purpose) = (queue.to_owned(), self.part(queue, at), purpose.clone());
                // A name of a lock has no `/`, and is no longer than that of a queue.
                let name = format!("bridge:back:{}", sha1_smol::Sha1::from(&part).digest());
                let lock = self.target.lock(&name, &LockOptions::new().ttl(LOCK_TTL)).await;
                let lock = lock.map_err(|error| locked(error, &format!("the jobs of '{part}'")))?;
                let id = host::random_id()?;
                held.push(Progress { queue, part, lock, id, purpose, has_taken: false, finished: None });
            }
        }
        Ok(held)
    }

    pub(super) async fn run_back(
        &self,
        report: &mut BridgeReport,
        progress: impl FnMut(&BridgeReport),
        ends: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<(), Error> {
        // Before anything leaves: what leaves is in no state of duly.
        for queue in self.old.queues_back() {
            for state in STATES.into_iter().filter(|&state| self.old.way(queue, state).is_some()) {
                let nameless = self.nameless(queue, state).await?;
                if nameless > 0 {
                    let jobs = counted(nameless, &format!("{} job", state.as_str()));
                    let message = format!("{jobs} of '{queue}': {NAMELESS}, and run the bridge again");
                    return Err(Error::invalid(message).during("bridge"));
                }
            }
        }
        let mut held = self.enter_back().await?;
        let run = async {
            self.look_at_all(&mut held).await?;
            self.send_all(report, progress, ends, &mut held).await?;
            for progress in &mut held {
                self.leave_no_more(progress).await?;
            }
            Ok(())
        };
        let ended = run.await;
        for progress in &held {
            _ = progress.lock.release().await;
        }
        ended
    }

    /// Errors: `InvalidArgument` if a batch of another bridge is on its way to somewhere else, before anything moves.
    async fn look_at_all(&self, held: &mut [Progress]) -> Result<(), Error> {
        for progress in held {
            self.leave(progress, OldState::Ready, 0, None).await?;
        }
        Ok(())
    }

    async fn send_all(
        &self,
        report: &mut BridgeReport,
        mut progress: impl FnMut(&BridgeReport),
        ends: Option<&(dyn Fn() -> bool + Sync)>,
        held: &mut [Progress],
    ) -> Result<(), Error> {
        loop {
            let mut more = false;
            for held in &mut *held {
                for state in STATES {
                    if self.old.way(&held.queue, state).is_none() {
                        continue;
                    }
                    more |= self.send(report, state, held).await?;
                    if more || report.trouble.is_some() {
                        report.trouble = None;
                        progress(report);
                    }
                }
            }
            if ends.map_or(!more, |ends| ends()) {
                return Ok(());
            }
            if !more {
                tokio::time::sleep(super::LOOK_AGAIN).await;
            }
        }
    }

    /// One batch of a queue. Says whether there may be another one.
    async fn send(&self, report: &mut BridgeReport, state: OldState, progress: &mut Progress) -> Result<bool, Error> {
        let mut behind = None;
        loop {
            let leaving = match self.leave(progress, state, BATCH_JOBS, behind).await? {
                Next::Batch(leaving) => leaving,
                Next::Nothing { more } => return Ok(more),
            };
            let Leaving { sequence, lane, state, way, jobs } = &leaving;
            let entries: Result<Vec<_>, _> = jobs.iter().map(|job| self.entry(&progress.queue, way, job)).collect();
            let entries = match entries {
                Ok(entries) => entries,
                // It came since: a job that does not go would hold up the others of its batch on their way.
                Err(error) => {
                    self.withdraw(progress, &leaving).await?;
                    return Err(error);
                }
            };
            let publish = Publish { target: way.key, order: way.order, lane, sequence: *sequence, jobs: &entries };
            let reply = self.source.run("bridge", &publish.call(), self.source.shared.durability).await?;
            if let Published::Behind(known) = Published::decode(reply)? {
                behind = Some(Behind { batch: *sequence, known });
                continue;
            }
            let at =
                report.lanes.iter().position(|lane| lane.key == progress.queue && lane.state == *state).unwrap_or(0);
            // Behind an outage the last batch comes again, and was counted.
            if report.lanes[at].is_news(*sequence, 0) {
                report.note_back(at, way.key, jobs.len() as u64);
            }
            progress.finished = Some(*sequence);
            return Ok(true);
        }
    }

    /// The next batch on its way. `cap`: 0 for none but one that is on its way already.
    async fn leave(
        &self,
        progress: &mut Progress,
        state: OldState,
        cap: usize,
        behind: Option<Behind>,
    ) -> Result<Next<'_>, Error> {
        let reply = self.depart(progress, progress.lock.token(), state, cap, behind).await?;
        progress.has_taken |= matches!(reply, DepartReply::Batch { .. });
        let (sequence, lane, state, jobs) = match reply {
            DepartReply::Batch { sequence: Some(sequence), lane, state, jobs, .. } => (sequence, lane, state, jobs),
            DepartReply::Batch { more, .. } => {
                progress.finished = None;
                return Ok(Next::Nothing { more });
            }
            DepartReply::Refused(refusal) => return Err(self.refused_back(progress, refusal)?),
        };
        // Of a batch that an earlier bridge has left behind it may be another state than the one that was asked for.
        let state = STATES.into_iter().find(|each| each.as_str() == state).unwrap_or(OldState::Ready);
        let way = self.old.way(&progress.queue, state).ok_or_else(|| {
            let jobs = jobs.len() as u64;
            let (is, jobs) =
                (verb(jobs, "is on its", "are on their"), counted(jobs, &format!("{} job", state.as_str())));
            let message = format!("{jobs} {is} way to another kind of queue");
            Error::invalid(format!("{message}: run the bridge with the options that it had")).during("bridge")
        })?;
        Ok(Next::Batch(Leaving { sequence, lane, state, way, jobs }))
    }

    /// Puts a batch back into its state, and says how many jobs that were. None if the other queue has it: then it has left.
    async fn withdraw(&self, progress: &mut Progress, leaving: &Leaving<'_>) -> Result<Option<u64>, Error> {
        let withdraw = Withdraw { target: leaving.way.key, lane: &leaving.lane, sequence: leaving.sequence };
        let reply = self.source.run("bridge", &withdraw.call(), self.source.shared.durability).await?;
        if script::is_published(reply)? {
            progress.finished = Some(leaving.sequence);
            return Ok(None);
        }
        let give = GiveBack { token: Digits(progress.lock.token()), sequence: Digits(leaving.sequence) };
        let part = self.target.queue_or_part_of(&progress.part, self.partitions)?;
        match part.run(give.with([]).during("bridge").durably(Durability::None)).await? {
            // None, if its answer was lost and it was sent again: the batch is in duly then as well.
            GiveBackReply::Given(_) => Ok(Some(leaving.jobs.len() as u64)),
            GiveBackReply::Fenced(known) => Err(self.refused_back(progress, Refusal::Fenced(known))?),
        }
    }

    fn refused_back(&self, progress: &Progress, refusal: Refusal) -> Result<Error, Error> {
        let part = self.target.queue_or_part_of(&progress.part, self.partitions)?;
        let key = script::departed_key(&part.shared.keys);
        Ok(match refusal {
            Refusal::Fenced(known) => {
                let of = format!("the jobs of '{}'", progress.part);
                fenced(&progress.lock, known, progress.has_taken, &of, &key)
            }
            Refusal::Other { elements, address, purpose } => {
                let of = format!("the queue '{}'", progress.part);
                let otherwise = format!(
                    "If that is not possible, and it runs no more, give up what is known of them: HDEL {key} made_for. Then this one goes on \
                     with them, also if that old queue has them.",
                );
                let jobs = script::jobs_departing(elements);
                let foreign = Foreign { jobs, of: &of, address: &address, purpose: &purpose, otherwise: &otherwise };
                foreign.refused(&progress.purpose, &self.source.address())
            }
        })
    }

    /// A copy of a call that comes late is to take out nothing any more.
    async fn leave_no_more(&self, progress: &Progress) -> Result<(), Error> {
        self.depart(progress, progress.lock.token() + 1, OldState::Ready, 0, None).await.map(drop)
    }

    async fn depart(
        &self,
        progress: &Progress,
        token: u64,
        state: OldState,
        cap: usize,
        behind: Option<Behind>,
    ) -> Result<DepartReply, Error> {
        let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let depart = Depart {
            state: state.as_str(),
            token: Digits(token),
            finished: text(progress.finished),
            lane: progress.id.clone(),
            above: text(behind.map(|behind| behind.known)),
            tried: text(behind.map(|behind| behind.batch)),
            cap,
            purpose: progress.purpose.clone(),
            address: self.source.address(),
            jump: script::jump(),
        };
        let part = self.target.queue_or_part_of(&progress.part, self.partitions)?;
        part.run(depart.with([]).during("bridge").durably(Durability::None)).await
    }

    /// The job as the other queue has it, and its score.
    fn entry(&self, queue: &str, way: &Way<'_>, job: &DepartingJob) -> Result<(Option<u64>, Vec<u8>), Error> {
        // Never early: the other queue counts in seconds.
        let score = way.order.has_scores().then(|| job.at.unwrap_or_default().div_ceil(1000));
        let came_back = CameBack::decode(&job.came_back).ok();
        let Ok(envelope) = Record::decode(&job.id, &job.record, came_back.as_ref()) else {
            let mut bytes = job.record.clone();
            if score.is_some() {
                // Two equal members of a sorted set would be one.
                bytes.extend_from_slice(format!("\n{}", job.id).as_bytes());
            }
            return Ok((score, bytes));
        };
        let entry = match self.old.format {
            Format::Payload => self.payload(&envelope)?,
            Format::PackageWithQueue => with_queue(envelope, queue)?.encode_complete(),
            _ => envelope.encode_complete(),
        };
        Ok((score, entry))
    }

    /// What think-queue reads. A job that came from there is its whole payload already.
    fn payload(&self, envelope: &Envelope) -> Result<Vec<u8>, Error> {
        let name = envelope.name.as_deref().or(self.old.name.as_deref()).ok_or_else(|| {
            Error::invalid(format!("{NAMELESS}, and run the bridge again")).during("bridge").of_job(&envelope.id)
        })?;
        let (id, attempts) = (json!(envelope.id).to_string(), envelope.attempts.to_string());
        let fields = members(envelope.data.as_str()).ok().filter(|fields| {
            let job = fields.iter().find(|(name, _)| name == "job");
            job.is_some_and(|(_, job)| same_text(job, name)) && fields.iter().any(|(name, _)| name == "data")
        });
        let Some(mut fields) = fields else {
            let tries = match envelope.max_attempts {
                DEFAULT_MAX_RETRIES => json!(null),
                WITHOUT_END => json!(0),
                retries => json!(retries + 1),
            };
            let timeout = envelope.timeout.map(|timeout| timeout.get().div_ceil(1000));
            let (name, data) = (json!(name), envelope.data.as_str());
            let timeout = json!(timeout);
            return Ok(format!(
                r#"{{"job":{name},"maxTries":{tries},"timeout":{timeout},"data":{data},"id":{id},"attempts":{attempts}}}"#
            )
            .into_bytes());
        };
        for (name, value) in [("id", &id), ("attempts", &attempts)] {
            match fields.iter_mut().find(|(field, _)| field == name) {
                Some((_, known)) => known.clone_from(value),
                None => fields.push((name.to_owned(), value.clone())),
            }
        }
        let mut payload = String::from("{");
        for (at, (name, value)) in fields.iter().enumerate() {
            _ = write!(payload, "{}{}:{value}", if at == 0 { "" } else { "," }, json!(name));
        }
        payload.push('}');
        Ok(payload.into_bytes())
    }
}

/// PHP writes `\/` for a slash.
fn same_text(value: &str, text: &str) -> bool {
    serde_json::from_str::<String>(value).is_ok_and(|value| value == text)
}

fn with_queue(mut envelope: Envelope, queue: &str) -> Result<Envelope, Error> {
    envelope.unknown.retain(|field| field.name != "queue");
    let value = Data::from_serialize(queue, usize::MAX)?;
    envelope.unknown.push(UnknownField { name: "queue".to_owned(), value });
    Ok(envelope)
}
