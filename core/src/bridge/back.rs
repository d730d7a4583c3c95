//! The way back: jobs of duly go into the keys of another queue, in its format, so that its consumers go on or a shop returns.

use std::fmt::Write as _;

use serde_json::json;

use super::old_queue::{OldQueue, OldState};
use super::package::Format;
use super::report::{BridgeReport, LaneReport};
use super::{BATCH_JOBS, Bridge, LOCK_TTL, locked};
use crate::format::envelope::{Envelope, UnknownField, members};
use crate::format::record::{CameBack, Record};
use crate::lock::{Lock, LockOptions};
use crate::process::host;
use crate::script::{Declared, Depart, DepartReply, DepartingJob, Digits, Order, Publish, Published};
use crate::value::data::Data;
use crate::value::durability::Durability;
use crate::value::error::{Error, ErrorKind};
use crate::value::retry::DEFAULT_MAX_RETRIES;

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

/// How far this bridge is with a queue.
struct Progress {
    lock: Lock,
    id: String,
    finished: Option<u64>,
}

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

    pub(super) async fn begin_back(&self) -> Result<BridgeReport, Error> {
        let mut report = BridgeReport { is_back: true, ..BridgeReport::default() };
        for queue in self.old.queues_back() {
            let counts = self.target.queue_or_part(queue)?.counts().await?;
            for (state, count) in [
                (OldState::Delayed, counts.delayed),
                (OldState::Ready, counts.ready),
                (OldState::Failed, counts.failed),
                (OldState::Reserved, counts.reserved),
            ] {
                let mut lane = LaneReport::of_queue(queue, state, count);
                if count > 0 && state == OldState::Failed && self.old.way(queue, state).is_none() {
                    lane.stays.insert("the other queue keeps no failed jobs in Redis".to_owned(), count);
                }
                report.lanes.push(lane);
            }
        }
        Ok(report)
    }

    pub(super) async fn count_back(&self) -> Result<BridgeReport, Error> {
        let mut report = self.begin_back().await?;
        for at in 0..report.lanes.len() {
            let (queue, state) = (report.lanes[at].key.clone(), report.lanes[at].state);
            if let Some(way) = self.old.way(&queue, state).filter(|_| state != OldState::Reserved) {
                report.note_back(at, way.key, report.lanes[at].before);
            }
        }
        report.is_dry = true;
        Ok(report)
    }

    pub(super) async fn run_back(
        &self,
        report: &mut BridgeReport,
        progress: impl FnMut(&BridgeReport),
        ends: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<(), Error> {
        let queues = self.old.queues_back();
        let mut held = Vec::new();
        let run = async {
            for queue in &queues {
                let lock = self.target.lock(&format!("bridge:{queue}:back"), &LockOptions::new().ttl(LOCK_TTL)).await;
                let lock = lock.map_err(|error| locked(error, &format!("the jobs of '{queue}'")))?;
                held.push(Progress { lock, id: host::random_id()?, finished: None });
            }
            self.send_all(report, progress, ends, &queues, &mut held).await?;
            // A copy of a call that comes late is to take out nothing any more.
            for (queue, progress) in queues.iter().zip(&held) {
                self.depart(queue, OldState::Ready, progress, 0, None).await?;
            }
            Ok(())
        };
        let ended = run.await;
        for progress in &held {
            _ = progress.lock.release().await;
        }
        ended
    }

    async fn send_all(
        &self,
        report: &mut BridgeReport,
        mut progress: impl FnMut(&BridgeReport),
        ends: Option<&(dyn Fn() -> bool + Sync)>,
        queues: &[&str],
        held: &mut [Progress],
    ) -> Result<(), Error> {
        loop {
            let mut more = false;
            for (queue, held) in queues.iter().zip(held.iter_mut()) {
                for state in STATES.into_iter().filter(|&state| self.old.way(queue, state).is_some()) {
                    more |= self.send(report, queue, state, held).await?;
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
    async fn send(
        &self,
        report: &mut BridgeReport,
        queue: &str,
        state: OldState,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let mut above = None;
        loop {
            let (sequence, lane, state, jobs) = match self.depart(queue, state, progress, BATCH_JOBS, above).await? {
                DepartReply::Batch { sequence: Some(sequence), lane, state, jobs, .. } => (sequence, lane, state, jobs),
                DepartReply::Batch { more, .. } => {
                    progress.finished = None;
                    return Ok(more);
                }
                DepartReply::Fenced => {
                    let message = "another bridge of these queues has taken over";
                    return Err(Error::new(ErrorKind::LeaseLost, message).during("bridge"));
                }
            };
            // Of a batch that an earlier bridge has left behind it may be another state than the one that was asked for.
            let state = STATES.into_iter().find(|each| each.as_str() == state).unwrap_or(OldState::Ready);
            let way = self.old.way(queue, state).ok_or_else(|| {
                let message =
                    format!("{} {} jobs are on their way to another kind of queue", jobs.len(), state.as_str());
                Error::invalid(format!("{message}: run the bridge with the options that it had")).during("bridge")
            })?;
            let entries = jobs.iter().map(|job| self.entry(queue, &way, job)).collect::<Result<Vec<_>, _>>()?;
            let publish = Publish { target: way.key, order: way.order, lane: &lane, sequence, jobs: &entries };
            let reply = self.source.run("bridge", &publish.call(), self.source.shared.durability).await?;
            if let Published::Behind(known) = Published::decode(reply)? {
                above = Some(known);
                continue;
            }
            let at = report.lanes.iter().position(|lane| lane.key == queue && lane.state == state).unwrap_or(0);
            // Behind an outage the last batch comes again, and was counted.
            if report.lanes[at].counted.replace(sequence) != Some(sequence) {
                report.note_back(at, way.key, jobs.len() as u64);
            }
            progress.finished = Some(sequence);
            return Ok(true);
        }
    }

    async fn depart(
        &self,
        queue: &str,
        state: OldState,
        progress: &Progress,
        cap: usize,
        above: Option<u64>,
    ) -> Result<DepartReply, Error> {
        let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let depart = Depart {
            state: state.as_str(),
            token: Digits(progress.lock.token() + u64::from(cap == 0)),
            finished: text(progress.finished),
            lane: progress.id.clone(),
            above: text(above),
            cap,
        };
        self.target.queue_or_part(queue)?.run(depart.with([]).during("bridge").durably(Durability::None)).await
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
            let message =
                "a job has no name, which think-queue needs: say its handler with --name, and run the bridge again";
            Error::invalid(message).during("bridge").of_job(&envelope.id)
        })?;
        let (id, attempts) = (json!(envelope.id).to_string(), envelope.attempts.to_string());
        let fields = members(envelope.data.as_str()).ok().filter(|fields| {
            let job = fields.iter().find(|(name, _)| name == "job");
            job.is_some_and(|(_, job)| same_text(job, name)) && fields.iter().any(|(name, _)| name == "data")
        });
        let Some(mut fields) = fields else {
            let tries = envelope.max_attempts.saturating_add(1);
            let tries = if envelope.max_attempts == DEFAULT_MAX_RETRIES { json!(null) } else { json!(tries) };
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
