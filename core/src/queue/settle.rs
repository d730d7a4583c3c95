//! Settling: what became of reserved jobs.

use std::time::Duration;

use crate::format::envelope::{Envelope, cut_error};
use crate::format::record::Record;
use crate::queue::job::Job;
use crate::queue::lease::DEFAULT_LEASE;
use crate::queue::{MAX_BATCH, Part, Queue};
use crate::script::{Declared, Outcomes, Settle, Verb};
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::retry::{Next, Outcome};
use crate::value::time::Millis;

/// A call that settles takes no more once it has so many bytes of results.
const MAX_RESULT_BYTES: usize = 4 * 1024 * 1024;

/// What becomes of an outcome on a server without memory, for a log.
pub(crate) const NOT_KEPT: &str = "its result, or the data that a failure hook changed, was not kept: the server has no memory left, \
                                   raise its maxmemory";

/// The outcome of one job, as a caller settles it.
pub(crate) struct OneOutcome {
    operation: &'static str,
    outcome: Outcomes,
}

/// One job's outcome in a batch.
#[derive(Debug, Clone)]
pub struct Settlement<'a> {
    /// The reserved job.
    pub job: &'a Job,
    /// How its run ended.
    pub outcome: Outcome,
    /// The error text, empty when there is none.
    pub error: &'a str,
    /// The envelope as a failure hook changed it.
    pub rewritten: Option<Envelope>,
    /// The result of a job that is done; `null` if one is to be kept and none is given.
    pub result: Option<Data>,
}

impl<'a> Settlement<'a> {
    /// This job is done.
    pub fn done(job: &'a Job) -> Self {
        Self { job, outcome: Outcome::Done, error: "", rewritten: None, result: None }
    }
}

impl Queue {
    /// Settles any number of outcomes, up to 1,000 and about 4 MiB of results, errors and rewritten records a script call; `true`
    /// where the lease was still ours.
    ///
    /// Errors: those of the connection, `InvalidArgument` for a rewritten envelope that is none, `TooLarge` for rewritten
    /// data. A lost lease is no error here.
    pub async fn settle_all(&self, settlements: &[Settlement<'_>]) -> Result<Vec<bool>, Error> {
        if let [part] = self.each_part() {
            return part.settle_all(settlements).await;
        }
        let part_of = |one: &&Settlement<'_>| self.index_of_job(one.job);
        self.by_part(settlements.iter().collect(), part_of, false, |part, settlements| {
            let settlements: Vec<_> = settlements.into_iter().cloned().collect();
            Box::pin(async move { part.settle_all(&settlements).await })
        })
        .await
    }

    /// Acks any number of jobs; `true` where the lease was still ours.
    pub async fn ack_all(&self, jobs: &[Job]) -> Result<Vec<bool>, Error> {
        let done: Vec<_> = jobs.iter().map(Settlement::done).collect();
        self.settle_all(&done).await
    }
}

impl Part {
    async fn settle_all(&self, settlements: &[Settlement<'_>]) -> Result<Vec<bool>, Error> {
        let mut settled = Vec::with_capacity(settlements.len());
        while settled.len() < settlements.len() {
            let mut outcomes = Outcomes::default();
            let (mut are_acks, mut others) = (Vec::new(), Vec::new());
            let rest = &settlements[settled.len()..];
            for one in rest.iter().take(MAX_BATCH) {
                let next = add_outcome(&mut outcomes, one)?;
                are_acks.push(next == Next::Ack);
                if next != Next::Ack {
                    others.push(next);
                }
                if outcomes.payload_bytes() >= MAX_RESULT_BYTES {
                    break;
                }
            }
            let settling: Vec<_> = rest.iter().zip(&are_acks).map(|(one, _)| one.job.settling()).collect();
            let flags = in_given_order(&are_acks, self.settle_outcomes("settle", &outcomes).await?);
            let mut others = others.into_iter();
            for ((settling, is_ack), &is_ours) in settling.into_iter().zip(are_acks).zip(&flags) {
                let other = if is_ack { None } else { others.next() };
                match other {
                    _ if !is_ours => settling.lost(),
                    None => settling.acked(),
                    Some(next) => settling.settled(next),
                }
            }
            settled.extend(flags);
        }
        Ok(settled)
    }

    pub(crate) async fn settle_job(&self, settlement: Settlement<'_>) -> Result<Next, Error> {
        let job = settlement.job;
        let operation = match settlement.outcome {
            Outcome::Done => "ack",
            Outcome::Release { .. } => "release",
            _ => "fail",
        };
        let mut outcomes = Outcomes::default();
        let next =
            add_outcome(&mut outcomes, &settlement).map_err(|error| self.during(operation)(error).of_job(job.id()))?;
        let queue = self.clone();
        let send = move |parts: Vec<OneOutcome>| {
            let queue = queue.clone();
            async move { queue.settle_together(&parts).await }
        };
        let settling = job.settling();
        let settled = self.shared.settles.call(OneOutcome { operation, outcome: outcomes }, send).await;
        if !settled.map_err(|error| error.of_job(job.id()))? {
            settling.lost();
            return Err(self.lease_lost(operation, job));
        }
        settling.settled(next);
        Ok(next)
    }

    pub(crate) async fn note_start(&self, job: &Job) -> Result<(), Error> {
        let mut outcomes = Outcomes::default();
        let lease = Millis::from_duration(DEFAULT_LEASE).map_err(self.during("note_start"))?;
        outcomes.other(Verb::Start, job.id(), job.token(), None, lease.get(), "", None);
        let noted = self.settle_outcomes("note_start", &outcomes).await.map_err(|error| error.of_job(job.id()))?;
        if noted.first() == Some(&true) { Ok(()) } else { Err(self.lease_lost("note_start", job)) }
    }

    async fn settle_together(&self, mut parts: &[OneOutcome]) -> Result<Vec<bool>, Error> {
        let mut settled = Vec::with_capacity(parts.len());
        while !parts.is_empty() {
            let mut bytes = 0;
            let together = parts.iter().take_while(|part| {
                let fits = bytes < MAX_RESULT_BYTES;
                bytes += part.outcome.payload_bytes();
                fits
            });
            let (now, later) = parts.split_at(together.count());
            settled.extend(self.settle_at_once(now).await?);
            parts = later;
        }
        Ok(settled)
    }

    async fn settle_at_once(&self, parts: &[OneOutcome]) -> Result<Vec<bool>, Error> {
        let operation = parts.first().map_or("settle", |part| part.operation);
        let mut all = Outcomes::default();
        for part in parts {
            all.take(&part.outcome);
        }
        let are_acks: Vec<bool> = parts.iter().map(|part| part.outcome.ack_count() > 0).collect();
        let flags = self.settle_outcomes(operation, &all).await?;
        Ok(in_given_order(&are_acks, flags))
    }

    pub(crate) async fn settle_outcomes(
        &self,
        operation: &'static str,
        outcomes: &Outcomes,
    ) -> Result<Vec<bool>, Error> {
        let settle =
            Settle { ack_count: outcomes.ack_count(), keyed: outcomes.keyed(), result_count: outcomes.result_keys() };
        let reply = self.run(settle.with([outcomes]).during(operation)).await?;
        for index in reply.not_kept {
            let (queue, id) = (self.name(), outcomes.id_at(index));
            tracing::warn!(queue, id, "settled, but {NOT_KEPT}");
        }
        Ok(reply.settled)
    }
}

/// The job expired before a run of it began.
pub(crate) fn add_expired(outcomes: &mut Outcomes, job: &Job) {
    outcomes.other(Verb::Expired, job.id(), job.token(), job.envelope.key.as_deref(), 0, "", None);
    if job.keeps_result() {
        outcomes.note_awaited();
    }
}

/// The script takes acks first, and so do its flags: puts them back into the order in which the outcomes were given.
fn in_given_order(are_acks: &[bool], flags: Vec<bool>) -> Vec<bool> {
    let acks = (0..are_acks.len()).filter(|&index| are_acks[index]);
    let others = (0..are_acks.len()).filter(|&index| !are_acks[index]);
    let mut in_order = vec![false; are_acks.len()];
    for (index, flag) in acks.chain(others).zip(flags) {
        in_order[index] = flag;
    }
    in_order
}

/// What the scripts are to do about one job.
pub(crate) struct Decided {
    pub(crate) next: Next,
    row: Row,
    took: Option<Duration>,
}

enum Row {
    Ack { result: Option<(u64, Data)> },
    Other { verb: Verb, delay: Millis, error: String, rewritten: Option<(u32, Vec<u8>)> },
}

impl Decided {
    /// Lets the policy decide. Errors: `InvalidArgument`, `TooLarge`.
    pub(crate) fn of(settlement: &Settlement<'_>) -> Result<Self, Error> {
        let Settlement { job, outcome, error, rewritten, result } = settlement;
        let attempts_before = rewritten.as_ref().unwrap_or(&job.envelope).attempts;
        let next = job.what_becomes(*outcome, rewritten.as_ref())?;
        let other = |verb, delay| Row::Other {
            verb,
            delay,
            error: cut_error(error).to_owned(),
            rewritten: rewritten.as_ref().map(|changed| (changed.attempts, Record::encode(changed))),
        };
        let row = match next {
            Next::Ack => Row::Ack { result: job.kept_result(result.as_ref())? },
            Next::RetryAfter { after, attempts } => {
                other(if attempts > attempts_before { Verb::Retry } else { Verb::Again }, after)
            }
            Next::Failed { .. } => other(Verb::Unheard, Millis::ZERO),
            Next::ReleaseAfter(after) => other(Verb::Release, after),
        };
        Ok(Self { next, row, took: None })
    }

    /// Its run took so long; none where nobody wants to know.
    pub(crate) fn behind(self, took: Option<Duration>) -> Self {
        Self { took, ..self }
    }

    /// The hooks of its worker were called, should it have failed for good.
    pub(crate) fn heard(mut self) -> Self {
        if let Row::Other { verb: verb @ Verb::Unheard, .. } = &mut self.row {
            *verb = Verb::Failed;
        }
        self
    }

    /// Does the job fail for good without a hook that was called?
    pub(crate) fn is_unheard(&self) -> bool {
        matches!(self.row, Row::Other { verb: Verb::Unheard, .. })
    }

    /// Of results, errors and records.
    pub(crate) fn payload_bytes(&self) -> usize {
        match &self.row {
            Row::Ack { result } => result.as_ref().map_or(0, |(_, value)| value.as_bytes().len()),
            Row::Other { error, rewritten, .. } => {
                error.len() + rewritten.as_ref().map_or(0, |(_, record)| record.len())
            }
        }
    }

    /// Writes it down for the next call.
    pub(crate) fn add_to(self, outcomes: &mut Outcomes, job: &Job) {
        let key = job.envelope.key.as_deref();
        match self.row {
            Row::Ack { result } => outcomes.ack(job.id(), job.token(), key, result),
            Row::Other { verb, delay, error, rewritten } => {
                let rewritten = rewritten.as_ref().map(|(failures, record)| (*failures, &**record));
                outcomes.other(verb, job.id(), job.token(), key, delay.get(), &error, rewritten);
                if matches!(verb, Verb::Failed | Verb::Unheard) && job.keeps_result() {
                    outcomes.note_awaited();
                }
            }
        }
        if let Some(took) = self.took {
            outcomes.note_took(self.next == Next::Ack, took);
        }
    }
}

/// Lets the policy decide and writes down what the script is to do.
fn add_outcome(outcomes: &mut Outcomes, settlement: &Settlement<'_>) -> Result<Next, Error> {
    let decided = Decided::of(settlement)?;
    let next = decided.next;
    decided.add_to(outcomes, settlement.job);
    Ok(next)
}
