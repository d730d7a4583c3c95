//! What workers do with a queue: reserve jobs, and say what became of them.

use std::time::{Duration, Instant};

use crate::connection::Durability;
use crate::envelope::{Envelope, cut_error};
use crate::error::{Error, ErrorKind};
use crate::keys::Key;
use crate::queue::{MAX_BATCH, Queue};
use crate::record::{CameBack, Record};
use crate::retry::{Next, Outcome, RetryPolicy};
use crate::script::{self, ByteStrings, Digits, Extend, Outcomes, Reserve, ReserveReply, ReserveStatus, Settle, Verb};
use crate::session::CallNumber;
use crate::time::Millis;
use crate::unclaimed::{Granted, Outlive, Unclaimed};
use crate::waiting::Waiting;

/// How long a lease is unless the worker says otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(10);
/// The longest lease: longer ones would only hide dead workers. A worker extends its leases while it runs.
pub const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);
/// One script call leases at most this many jobs, so that none keeps the server busy for milliseconds; a reserve of
/// more takes several calls.
pub(crate) const MAX_RESERVED_A_CALL: usize = 250;
/// One reserve gives at most this many bytes of records (but always one job).
pub(crate) const MAX_RESERVE_BYTES: usize = 4 * 1024 * 1024;

/// One call of the reserve script.
pub(crate) struct ReserveCall {
    pub(crate) want: usize,
    pub(crate) lease: Duration,
    /// How long the caller waits for a job: until then it can promise to come back.
    pub(crate) wait: Duration,
    /// The server time at which it promised to come back, 0 for no promise.
    pub(crate) promise: u64,
}

impl ReserveCall {
    /// The most jobs that one call leases.
    pub(crate) const MOST: usize = MAX_RESERVED_A_CALL;
}

/// What to reserve.
#[derive(Debug, Clone)]
pub struct ReserveOptions {
    max: usize,
    wait: Duration,
    lease: Duration,
}

impl Default for ReserveOptions {
    fn default() -> Self {
        Self { max: 1, wait: Duration::ZERO, lease: DEFAULT_LEASE }
    }
}

impl ReserveOptions {
    /// One job, without waiting, for [`DEFAULT_LEASE`].
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many jobs (1 to 1,000, default 1).
    #[must_use]
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// How long to wait for a first job when there is none (default: not at all).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long the lease is (1 ms to 24 h, default 10 s): who neither settles nor extends by then has lost the job.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    pub(crate) fn wait_time(&self) -> Duration {
        self.wait
    }

    pub(crate) fn most(&self) -> usize {
        self.max
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.max == 0 || self.max > MAX_BATCH {
            return Err(Error::invalid(format!("a reserve takes 1 to {MAX_BATCH} jobs, not {}", self.max)));
        }
        check_lease(self.lease)
    }
}

pub(crate) fn check_lease(lease: Duration) -> Result<(), Error> {
    if lease < Duration::from_millis(1) || lease > MAX_LEASE {
        return Err(Error::invalid(format!("a lease lasts 1 ms to 24 h, not {} s", lease.as_secs_f64())));
    }
    Ok(())
}

fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A reserved job: the envelope, and the lease under which it may be run.
#[derive(Debug, Clone)]
pub struct Job {
    /// The whole package: id, data, name, headers, failures so far.
    pub envelope: Envelope,
    /// How often it came back from a worker before: failed, released, or its lease ended.
    pub returns: u32,
    token: u64,
    queue: Queue,
}

impl Job {
    pub(crate) fn granted(envelope: Envelope, returns: u32, token: u64, queue: &Queue) -> Self {
        Self { envelope, returns, token, queue: queue.clone() }
    }

    /// The job's id.
    pub fn id(&self) -> &str {
        &self.envelope.id
    }

    /// Which run this is, 1 for the first: failures so far and one.
    pub fn attempt(&self) -> u32 {
        self.envelope.attempts.saturating_add(1)
    }

    /// The fencing token of this lease: larger than that of every earlier lease of this job. A database that remembers the
    /// largest it has seen can refuse a worker that lost its lease without noticing.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// What becomes of it after this outcome, by the policy of its envelope (or of the one that a hook changed).
    pub(crate) fn next_after(&self, outcome: Outcome, envelope: &Envelope) -> Next {
        let default = RetryPolicy::default();
        let policy = envelope.retry.as_ref().unwrap_or(&default);
        outcome.next(policy, envelope.attempts, envelope.max_attempts, seed(self))
    }

    /// What would become of it after this outcome, changed by a failure hook or not. Nothing is sent.
    ///
    /// Errors: `InvalidArgument` and `TooLarge` for a change that cannot be stored.
    pub fn what_becomes(&self, outcome: Outcome, changed: Option<&Envelope>) -> Result<Next, Error> {
        let Some(changed) = changed else { return Ok(self.next_after(outcome, &self.envelope)) };
        changed.check()?;
        // What was pushed larger, by a client that may, can still fail.
        if changed.data != self.envelope.data {
            changed.data.check_size(self.queue.client.shared.max_data_bytes)?;
        }
        if changed.id != self.envelope.id
            || changed.key != self.envelope.key
            || changed.priority != self.envelope.priority
        {
            return Err(Error::invalid(
                "a failure hook may change data, attempts, max_attempts and error, not id, key or priority",
            ));
        }
        Ok(self.next_after(outcome, changed))
    }

    /// The queue that it came from.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Done: the job leaves the queue. Errors: `LeaseLost` when the lease is no longer ours; then another worker has the
    /// job, or it was cancelled.
    pub async fn ack(&self) -> Result<(), Error> {
        self.settle(Outcome::Done, "").await.map(|_| ())
    }

    /// Failed: the job's retry policy decides between another run later and `failed`. The text (cut to 8 KiB) is kept as
    /// the last error. Errors: `LeaseLost`.
    pub async fn fail(&self, error: &str) -> Result<Next, Error> {
        self.settle(Outcome::FAILURE, error).await
    }

    /// Says what became of it, in full. Errors: `LeaseLost`.
    pub async fn settle(&self, outcome: Outcome, error: &str) -> Result<Next, Error> {
        self.queue.settle_job(self, outcome, error, None).await
    }

    /// Like [`Job::settle`] for a failure whose hook changed the job: data, attempts, retries allowed or error.
    ///
    /// The changed envelope replaces the stored one before the outcome is decided. Errors: `LeaseLost`; `InvalidArgument`,
    /// `TooLarge` (nothing was changed).
    pub async fn settle_rewritten(&self, outcome: Outcome, changed: Envelope) -> Result<Next, Error> {
        let error = changed.error.clone();
        self.queue.settle_job(self, outcome, &error, Some(changed)).await
    }

    /// Gives it back without counting a failure, to be reserved again at once or after a while. Errors: `LeaseLost`.
    pub async fn release(&self, after: Duration) -> Result<(), Error> {
        let after =
            Millis::from_duration(after).map_err(|error| error.during("release").in_queue(self.queue.name()))?;
        self.settle(Outcome::Release { after }, "").await.map(|_| ())
    }

    /// Sets the lease to end this long from now. Errors: `LeaseLost`, also when it is over but nobody took the job yet.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.queue.extend_one(self, lease).await
    }
}

/// What one caller settles.
pub(crate) struct OneOutcome {
    operation: &'static str,
    outcome: Outcomes,
}

/// One job's outcome in a batch.
#[derive(Debug, Clone)]
pub struct Settlement<'a> {
    /// The reserved job.
    pub job: &'a Job,
    /// What became of it.
    pub outcome: Outcome,
    /// The error text, empty when there is none.
    pub error: &'a str,
    /// The envelope as a failure hook changed it.
    pub rewritten: Option<Envelope>,
}

impl<'a> Settlement<'a> {
    /// This job is done.
    pub fn done(job: &'a Job) -> Self {
        Self { job, outcome: Outcome::Done, error: "", rewritten: None }
    }
}

impl Queue {
    /// Leases jobs that are ready, the smallest priority number and then the oldest first; promotes what is due and takes
    /// back what dead workers held on the way.
    ///
    /// An empty list means that there was none until the wait was over, or that the queue is paused. A job whose record
    /// cannot be decoded goes to `failed` with the reason, and holds up nobody. Errors: `InvalidArgument`, and those of
    /// the connection; after `Timeout` the jobs that may have been leased come back when their lease ends.
    pub async fn reserve(&self, options: &ReserveOptions) -> Result<Vec<Job>, Error> {
        options.check().map_err(|error| error.during("reserve").in_queue(self.name()))?;
        let mut jobs = Unclaimed::default();
        jobs.extend(self.reserve_some(options).await?);
        while !jobs.is_empty() && jobs.len() % MAX_RESERVED_A_CALL == 0 && jobs.len() < options.max {
            let rest = ReserveOptions { max: options.max - jobs.len(), wait: Duration::ZERO, ..options.clone() };
            match self.reserve_some(&rest).await {
                Ok(more) if !more.is_empty() => jobs.extend(more),
                // What is leased already must reach the caller, whatever became of the rest.
                _ => break,
            }
        }
        Ok(jobs.claim())
    }

    /// What one script call gives at the most.
    async fn reserve_some(&self, options: &ReserveOptions) -> Result<Vec<Job>, Error> {
        while options.wait.is_zero() {
            let granted = self.reserve_now(options).await?;
            let had_entries = !granted.jobs.is_empty();
            let jobs = self.decode_granted(granted).await?;
            if !jobs.is_empty() || !had_entries {
                return Ok(jobs);
            }
        }
        let mut waiting = Waiting::new(Instant::now(), options.wait);
        loop {
            let (reply, granted) = self.reserve_round(options, &waiting).await?;
            let had_entries = !granted.jobs.is_empty();
            let jobs = self.decode_granted(granted).await?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
            if had_entries {
                continue; // all of them were undecodable: there may be more
            }
            if reply.status == ReserveStatus::None && reply.next_in == Some(Duration::ZERO) {
                continue; // one call does a bounded amount of work: this one did not reach what is ready
            }
            match waiting.pause(reply.next_in, reply.promised, reply.status == ReserveStatus::Paused) {
                Some(pause) => self.wait_for_wake(pause).await?,
                None => return Ok(Vec::new()),
            }
        }
    }

    /// Jobs for a caller that does not wait, reserved together with those of other tasks.
    async fn reserve_now(&self, options: &ReserveOptions) -> Result<Granted, Error> {
        let queue = self.clone();
        let send = move |callers: Vec<ReserveOptions>| {
            let queue = queue.clone();
            Outlive::new(async move { queue.reserve_for(&callers).await })
        };
        self.shared.reserves.call(options.clone(), send).await
    }

    /// One reserve for callers that want the same lease, handed out in the order in which they came.
    async fn reserve_for(&self, callers: &[ReserveOptions]) -> Result<Vec<Granted>, Error> {
        let mut granted = Vec::with_capacity(callers.len());
        let mut rest = callers;
        while let Some(first) = rest.first() {
            let mut want = 0;
            let together = rest.iter().take_while(|caller| {
                want += caller.max;
                caller.lease == first.lease && (want <= MAX_RESERVED_A_CALL || want == caller.max)
            });
            let (now, later) = rest.split_at(together.count());
            rest = later;
            let all = ReserveOptions { max: now.iter().map(|caller| caller.max).sum(), ..first.clone() };
            let waiting = Waiting::new(Instant::now(), Duration::ZERO);
            let reply = self.reserve_once(&all, &waiting, &Outcomes::default()).await?;
            let mut jobs = reply.jobs.into_iter();
            granted.extend(now.iter().map(|caller| Granted {
                token: reply.token,
                jobs: jobs.by_ref().take(caller.max).collect(),
                queue: self.clone(),
            }));
        }
        Ok(granted)
    }

    /// One round for a caller of its own; what it grants is in the second part, not in the reply.
    pub(crate) async fn reserve_round(
        &self,
        options: &ReserveOptions,
        waiting: &Waiting,
    ) -> Result<(ReserveReply, Granted), Error> {
        let (queue, options, waiting) = (self.clone(), options.clone(), waiting.clone());
        let round = async move {
            let mut reply = queue.reserve_once(&options, &waiting, &Outcomes::default()).await?;
            let granted = Granted { token: reply.token, jobs: std::mem::take(&mut reply.jobs), queue };
            Ok((reply, granted))
        };
        Outlive::new(round).await
    }

    /// The reserve script once.
    pub(crate) async fn reserve_once(
        &self,
        options: &ReserveOptions,
        waiting: &Waiting,
        outcomes: &Outcomes,
    ) -> Result<ReserveReply, Error> {
        let call = ReserveCall {
            want: options.max.min(ReserveCall::MOST),
            lease: options.lease,
            wait: waiting.left(),
            promise: waiting.promise(),
        };
        self.reserve_call(&call, outcomes, &|_| false).await
    }

    /// One call of the reserve script, made as the same call again after an outage for as long as `keep_trying` says.
    pub(crate) async fn reserve_call(
        &self,
        reserve: &ReserveCall,
        outcomes: &Outcomes,
        keep_trying: &(dyn Fn(&Error) -> bool + Sync),
    ) -> Result<ReserveReply, Error> {
        let declare = |call: &CallNumber<'_>| Reserve {
            call_slot: call.slot,
            call_number: Digits(call.number),
            call_renew: Digits(u64::from(call.renew)),
            want: reserve.want,
            lease_ms: whole_ms(reserve.lease),
            wait_ms: whole_ms(reserve.wait),
            max_bytes: MAX_RESERVE_BYTES,
            promise: reserve.promise,
            ack_count: outcomes.ack_count(),
            keyed: outcomes.keyed(),
        };
        let items = |out: &mut ByteStrings| outcomes.append(out);
        let reply = self.run_numbered_until("reserve", Durability::None, declare, items, keep_trying).await?;
        ReserveReply::decode(reply).map_err(|error| error.during("reserve").in_queue(self.name()))
    }

    /// Waits for a wake-up, and for `pause` at most. A wake-up is a hint: where waiting for it is not possible just now (a
    /// lost connection, a slot on the move), time alone ends the pause, and the reserve that follows says what is wrong.
    pub(crate) async fn wait_for_wake(&self, pause: Duration) -> Result<(), Error> {
        let until = tokio::time::Instant::now() + pause;
        let keys = &self.shared.keys;
        let wake = keys.spell(Key::Wake);
        match self.client.wait_for_wake(keys.slot(), wake.as_bytes(), pause).await {
            Err(error) if error.is_transient() => {
                tokio::time::sleep_until(until).await;
                Ok(())
            }
            waited => waited.map(|_| ()),
        }
    }

    /// Decodes what was granted; what cannot be decoded is settled as failed right away, with its bytes kept.
    pub(crate) async fn decode_granted(&self, mut granted: Granted) -> Result<Vec<Job>, Error> {
        let token = granted.token;
        let mut jobs = Vec::with_capacity(granted.jobs.len());
        let mut undecodable = Outcomes::default();
        for job in &granted.jobs {
            let decoded = decode(&job.id, &job.record, &job.came_back);
            match decoded {
                Ok((envelope, returns)) => jobs.push(Job::granted(envelope, returns, token, self)),
                Err(error) => {
                    let reason = format!("undecodable record: {error}");
                    undecodable.other(Verb::Failed, &job.id, token, None, 0, cut_error(&reason), None);
                }
            }
        }
        if undecodable.len() > 0 {
            self.settle_outcomes("reserve", &undecodable).await?;
        }
        granted.jobs.clear(); // nobody's any more but the caller's
        Ok(jobs)
    }

    /// Settles any number of outcomes, up to 1,000 a script call; `true` where the lease was still ours.
    ///
    /// Errors: those of the connection, `InvalidArgument` for a rewritten envelope that is none, `TooLarge` for rewritten
    /// data. A lost lease is no error here.
    pub async fn settle_all(&self, settlements: &[Settlement<'_>]) -> Result<Vec<bool>, Error> {
        let mut settled = Vec::with_capacity(settlements.len());
        for batch in settlements.chunks(MAX_BATCH) {
            let mut outcomes = Outcomes::default();
            // The script takes acks first: remember which flag belongs to whom.
            let (mut ack_places, mut other_places) = (Vec::new(), Vec::new());
            for (place, one) in batch.iter().enumerate() {
                let next = add_outcome(&mut outcomes, one)?;
                if next == Next::Ack { ack_places.push(place) } else { other_places.push(place) }
            }
            let flags = self.settle_outcomes("settle", &outcomes).await?;
            let mut in_order = vec![false; batch.len()];
            for (place, flag) in ack_places.into_iter().chain(other_places).zip(flags) {
                in_order[place] = flag;
            }
            settled.extend(in_order);
        }
        Ok(settled)
    }

    /// Acks any number of jobs; `true` where the lease was still ours.
    pub async fn ack_all(&self, jobs: &[Job]) -> Result<Vec<bool>, Error> {
        let done: Vec<_> = jobs.iter().map(Settlement::done).collect();
        self.settle_all(&done).await
    }

    /// Sets the leases of these jobs to end this long from now; `true` where the lease was still ours.
    pub async fn extend_all(&self, jobs: &[Job], lease: Duration) -> Result<Vec<bool>, Error> {
        let leases: Vec<_> = jobs.iter().map(|job| (job.id().to_owned(), job.token)).collect();
        self.extend_leases(&leases, lease).await
    }

    /// The same for leases given as (id, token).
    async fn extend_leases(&self, leases: &[(String, u64)], lease: Duration) -> Result<Vec<bool>, Error> {
        self.extend_leases_until(leases, lease, &|_| false).await
    }

    /// The same, with the call made again after an error that passes, as long as `keep_trying` says.
    pub(crate) async fn extend_leases_until(
        &self,
        leases: &[(String, u64)],
        lease: Duration,
        keep_trying: &(dyn Fn(&Error) -> bool + Sync),
    ) -> Result<Vec<bool>, Error> {
        check_lease(lease).map_err(|error| error.during("extend").in_queue(self.name()))?;
        let mut held = Vec::with_capacity(leases.len());
        for batch in leases.chunks(MAX_BATCH) {
            let items = |out: &mut ByteStrings| {
                for (id, token) in batch {
                    out.push(id.as_bytes());
                    out.push_display(token);
                }
            };
            let declared = Extend { lease_ms: whole_ms(lease) };
            let reply = self.run_plain_until("extend", declared, items, keep_trying).await?;
            let flags = script::text(reply).and_then(|text| script::flags(&text, batch.len()));
            held.extend(flags.map_err(|error| error.during("extend").in_queue(self.name()))?);
        }
        Ok(held)
    }

    pub(crate) async fn extend_one(&self, job: &Job, lease: Duration) -> Result<(), Error> {
        let held = self.extend_all(std::slice::from_ref(job), lease).await?;
        if held.first() == Some(&true) { Ok(()) } else { Err(self.lease_lost("extend", job)) }
    }

    pub(crate) async fn settle_job(
        &self,
        job: &Job,
        outcome: Outcome,
        error: &str,
        rewritten: Option<Envelope>,
    ) -> Result<Next, Error> {
        let operation = match outcome {
            Outcome::Done => "ack",
            Outcome::Release { .. } => "release",
            _ => "fail",
        };
        let mut outcomes = Outcomes::default();
        let next = add_outcome(&mut outcomes, &Settlement { job, outcome, error, rewritten })
            .map_err(|error| error.during(operation).in_queue(self.name()).of_job(job.id()))?;
        let queue = self.clone();
        let send = move |parts: Vec<OneOutcome>| {
            let queue = queue.clone();
            async move { queue.settle_together(&parts).await }
        };
        let settled = self.shared.settles.call(OneOutcome { operation, outcome: outcomes }, send).await;
        if settled.map_err(|error| error.of_job(job.id()))? { Ok(next) } else { Err(self.lease_lost(operation, job)) }
    }

    async fn settle_together(&self, parts: &[OneOutcome]) -> Result<Vec<bool>, Error> {
        let operation = parts.first().map_or("settle", |part| part.operation);
        let mut all = Outcomes::default();
        // The script takes acks first: so do the flags.
        let acks = parts.iter().enumerate().filter(|(_, part)| part.outcome.ack_count() > 0);
        let others = parts.iter().enumerate().filter(|(_, part)| part.outcome.ack_count() == 0);
        let places: Vec<usize> = acks
            .chain(others)
            .map(|(place, part)| {
                all.take(&part.outcome);
                place
            })
            .collect();
        let flags = self.settle_outcomes(operation, &all).await?;
        let mut in_order = vec![false; parts.len()];
        for (place, flag) in places.into_iter().zip(flags) {
            in_order[place] = flag;
        }
        Ok(in_order)
    }

    pub(crate) async fn settle_outcomes(
        &self,
        operation: &'static str,
        outcomes: &Outcomes,
    ) -> Result<Vec<bool>, Error> {
        let declare = |call: &CallNumber<'_>| Settle {
            call_slot: call.slot,
            call_number: Digits(call.number),
            call_renew: Digits(u64::from(call.renew)),
            ack_count: outcomes.ack_count(),
            keyed: outcomes.keyed(),
        };
        let reply = self.run_numbered(operation, Durability::None, declare, |out| outcomes.append(out)).await?;
        let flags = script::text(reply).and_then(|text| script::flags(&text, outcomes.len()));
        flags.map_err(|error| error.during(operation).in_queue(self.name()))
    }

    fn lease_lost(&self, operation: &'static str, job: &Job) -> Error {
        Error::new(
            ErrorKind::LeaseLost,
            "the lease is over: the job was cancelled, or another worker may run it; stop working on it, or use a longer lease or extend it in time",
        )
        .during(operation)
        .in_queue(self.name())
        .of_job(job.id())
    }
}

pub(crate) fn decode(id: &str, record: &[u8], came_back: &[u8]) -> Result<(Envelope, u32), Error> {
    let came_back = if came_back.is_empty() { None } else { Some(CameBack::decode(came_back)?) };
    let envelope = Record::decode(id, record, came_back.as_ref())?;
    Ok((envelope, came_back.map_or(0, |came_back| came_back.returns)))
}

/// Lets the policy decide and writes down what the script is to do.
pub(crate) fn add_outcome(outcomes: &mut Outcomes, settlement: &Settlement<'_>) -> Result<Next, Error> {
    let Settlement { job, outcome, error, rewritten } = settlement;
    let envelope = rewritten.as_ref().unwrap_or(&job.envelope);
    let next = job.what_becomes(*outcome, rewritten.as_ref())?;
    let record = rewritten.as_ref().map(Record::encode);
    let key = job.envelope.key.as_deref();
    let error = cut_error(error);
    let rewritten = record.as_deref().map(|record| (envelope.attempts, record));
    let mut add = |verb, delay: Millis| {
        outcomes.other(verb, job.id(), job.token, key, delay.get(), error, rewritten);
    };
    match next {
        Next::Ack => outcomes.ack(job.id(), job.token, key),
        Next::RetryAfter { after, attempts } => {
            add(if attempts > envelope.attempts { Verb::Retry } else { Verb::Again }, after);
        }
        Next::Failed { .. } => add(Verb::Failed, Millis::ZERO),
        Next::ReleaseAfter(after) => add(Verb::Release, after),
    }
    Ok(next)
}

/// Spreads jitter without another source of randomness: the token differs from lease to lease, the id from job to job.
fn seed(job: &Job) -> u64 {
    job.id().bytes().fold(job.token, |seed, byte| seed.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(byte))
}
