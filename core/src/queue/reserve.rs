//! Reserving: leases for jobs that are ready.

use std::time::{Duration, Instant};

use crate::connection::{Enough, Woken};
use crate::format::envelope::{Envelope, cut_error};
use crate::format::record::{CameBack, Record};
use crate::queue::job::Job;
use crate::queue::lease::{DEFAULT_LEASE, check_lease};
use crate::queue::several::{Selection, reserve_from_parts};
use crate::queue::unclaimed::{Granted, Outlive, Unclaimed};
use crate::queue::waiting::Waiting;
use crate::queue::{MAX_BATCH, Part, Queue, Whole};
use crate::script::{Declared, GrantedJob, KeepTrying, Key, Outcomes, Reserve, ReserveReply, ReserveStatus, Verb};
use crate::value::error::Error;
use crate::value::time::whole_ms;

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
    /// The most bytes of records; one job is given however large it is.
    pub(crate) max_bytes: usize,
    /// They are fetched ahead, and start later, if at all; else they have started as soon as the caller has them.
    pub(crate) ahead: bool,
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

    /// How long the lease is (1 ms to 24 h, default 10 s). A worker that has neither settled nor extended it by then has
    /// lost the job.
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

impl Queue {
    /// Leases jobs that are ready, the smallest priority number and then the oldest first; also promotes due jobs and takes
    /// back the jobs of dead workers.
    ///
    /// The list is empty if there was no job until the wait was over, or if the queue is paused. A job whose record cannot
    /// be decoded goes to `failed` with the reason, and blocks no other job. The parts of a split queue are asked in a new
    /// random order each time. Errors: `InvalidArgument`, and those of the connection; after `Timeout` the jobs that may have
    /// been leased come back when their lease ends.
    pub async fn reserve(&self, options: &ReserveOptions) -> Result<Vec<Job>, Error> {
        options.check().map_err(self.during("reserve"))?;
        match &self.whole {
            Whole::One(part) => part.reserve(options).await,
            Whole::Split(split) => {
                let queues = [(&*split.parts, 1)];
                Box::pin(async move { reserve_from_parts(&queues, Selection::Strict, options).await }).await
            }
        }
    }
}

impl Part {
    async fn reserve(&self, options: &ReserveOptions) -> Result<Vec<Job>, Error> {
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
            let mut reply = self.reserve_once(&all, &waiting, &Outcomes::default()).await?;
            while reply.status == ReserveStatus::None && reply.next_in == Some(Duration::ZERO) {
                // One call does a bounded amount of work: this one did not reach what is ready.
                reply = self.reserve_once(&all, &waiting, &Outcomes::default()).await?;
            }
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
            max_bytes: MAX_RESERVE_BYTES,
            ahead: false,
        };
        self.reserve_call(&call, outcomes, &|_| false).await
    }

    /// One call of the reserve script, made as the same call again, behind a pause, after the errors of which `keep_trying`
    /// says so.
    pub(crate) async fn reserve_call(
        &self,
        reserve: &ReserveCall,
        outcomes: &Outcomes,
        keep_trying: KeepTrying<'_>,
    ) -> Result<ReserveReply, Error> {
        let reserve = Reserve {
            want: reserve.want,
            lease_ms: whole_ms(reserve.lease),
            wait_ms: whole_ms(reserve.wait),
            max_bytes: reserve.max_bytes,
            promise: reserve.promise,
            ahead: usize::from(reserve.ahead),
            ack_count: outcomes.ack_count(),
            keyed: outcomes.keyed(),
            result_count: outcomes.result_keys(),
        };
        let reply = self.run(reserve.with([outcomes]).keep_trying(keep_trying)).await?;
        self.note_limits(reply.limited);
        if !reply.awaited.is_empty() {
            // On the heap: rare, and this future is moved about on every call.
            Box::pin(self.wake_waiters("reserve", &reply.awaited)).await;
        }
        Ok(reply)
    }

    /// Waits for a wake-up, and for `pause` at most. A wake-up is a hint: where waiting for it is not possible just now (a
    /// lost connection, a slot on the move), time alone ends the pause, and the reserve that follows says what is wrong.
    pub(crate) async fn wait_for_wake(&self, pause: Duration) -> Result<(), Error> {
        let waited = wait_for_wakes(&[self], pause, None).await;
        waited.map(drop).map_err(|error| error.in_queue(self.name()))
    }

    /// Decodes what was granted; what cannot be decoded is settled as failed right away, with its bytes kept.
    pub(crate) async fn decode_granted(&self, mut granted: Granted) -> Result<Vec<Job>, Error> {
        let token = granted.token;
        let mut jobs = Vec::with_capacity(granted.jobs.len());
        let mut undecodable = Outcomes::default();
        for job in &granted.jobs {
            match job.of_queue(self, token) {
                Ok(job) => jobs.push(job),
                Err(reason) => undecodable.other(Verb::Unheard, job.id_bytes(), token, None, 0, &reason, None),
            }
        }
        if undecodable.len() > 0 {
            self.settle_outcomes("reserve", &undecodable).await?;
        }
        granted.jobs.clear(); // nobody's any more but the caller's
        Ok(jobs)
    }
}

/// The same for several queues, where [`Client::waits_together`](crate::Client) says that it is possible. Gives the index of the
/// one that took a wake-up.
pub(crate) async fn wait_for_wakes(
    queues: &[&Part],
    pause: Duration,
    enough: Option<&Enough>,
) -> Result<Option<usize>, Error> {
    let Some(first) = queues.first() else { return Ok(None) };
    let until = tokio::time::Instant::now() + pause;
    let spelled: Vec<_> = queues.iter().map(|queue| queue.shared.keys.spell(Key::Wake)).collect();
    let keys: Vec<_> = spelled.iter().map(String::as_bytes).collect();
    match first.client.wait_for_wakes(first.shared.keys.slot(), &keys, pause, enough).await {
        Ok(Woken::Yes(index)) => Ok(Some(index)),
        Ok(_) => Ok(None),
        Err(error) if error.is_transient() => {
            tokio::time::sleep_until(until).await;
            Ok(None)
        }
        Err(error) => Err(error.during("reserve")),
    }
}

impl GrantedJob {
    /// The job for its worker; if it cannot be decoded, the error text with which it is to fail.
    pub(crate) fn of_queue(&self, queue: &Part, token: u64) -> Result<Job, String> {
        if self.foreign_id.is_some() {
            return Err("undecodable record: its id is not UTF-8".to_owned());
        }
        let (envelope, returns) = decode(&self.id, &self.record, &self.came_back)
            .map_err(|error| cut_error(&format!("undecodable record: {error}")).to_owned())?;
        Ok(Job::granted(envelope, returns, token, queue, CameBack::is_suspect(&self.came_back)))
    }
}

pub(crate) fn decode(id: &str, record: &[u8], came_back: &[u8]) -> Result<(Envelope, u32), Error> {
    let came_back = if came_back.is_empty() { None } else { Some(CameBack::decode(came_back)?) };
    let envelope = Record::decode(id, record, came_back.as_ref())?;
    Ok((envelope, came_back.map_or(0, |came_back| came_back.returns)))
}
