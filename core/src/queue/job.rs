//! A reserved job: what its worker reads of it and says of it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::format::envelope::Envelope;
use crate::process::host;
use crate::queue::settle::Settlement;
use crate::queue::{Part, Queue};
use crate::script::Clock;
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::retry::{Next, Outcome, RetryPolicy};
use crate::value::time::Millis;

/// The token of a lease is the server's time in microseconds, or more.
pub(crate) const TOKENS_A_MS: u64 = 1_000;

/// A reserved job: the envelope, and the lease under which it may be run.
#[derive(Debug, Clone)]
pub struct Job {
    /// The whole package: id, data, name, headers, failures so far.
    pub envelope: Envelope,
    /// How often the job came back after a worker had started it: failed, released, or its lease ended. A worker that only
    /// prefetched it does not count; nor does the first one that died with it, because it is unknown whether it had started
    /// then: see [`redelivered`](Self::redelivered).
    pub returns: u32,
    token: u64,
    /// When it was reserved, by the server's clock.
    reserved_at: Millis,
    /// Not partitioned: of a partitioned queue it is the part.
    queue: Queue,
    is_suspect: bool,
    /// What its own verbs made of it, by whichever clone.
    hold: Arc<Hold>,
}

#[derive(Debug, Default)]
struct Hold {
    state: AtomicU32,
    /// What becomes of it by the verb that settled it, unless that was an ack.
    said: OnceLock<Next>,
}

/// What is known of our hold on a job, in the low bits; above them, how many verbs that settle it are under way.
const FATE: u32 = 0b11;
const OURS: u32 = 0;
const ACKED: u32 = 1;
const FAILED_OR_RELEASED: u32 = 2;
/// The server said that the lease is not ours.
const LOST: u32 = 3;
const UNDER_WAY: u32 = 4;

/// A verb that settles a job, on its way; without an answer the job is ours as before.
pub(crate) struct Settling<'a> {
    hold: &'a Hold,
}

impl Settling<'_> {
    /// The server has taken it.
    pub(crate) fn settled(self, next: Next) {
        if next == Next::Ack {
            return self.acked();
        }
        let _ = self.hold.said.set(next);
        self.becomes(FAILED_OR_RELEASED, &[OURS, LOST]);
    }

    /// The server has taken it, and it was an ack.
    pub(crate) fn acked(self) {
        self.becomes(ACKED, &[OURS, LOST]);
    }

    /// The server has refused it: it was settled by another verb, or is another's.
    pub(crate) fn lost(self) {
        self.becomes(LOST, &[OURS]);
    }

    /// This, if it was one of those before; and it is under way no more.
    fn becomes(self, fate: u32, from: &[u32]) {
        let change = |hold: u32| {
            let hold = hold - UNDER_WAY;
            Some(if from.contains(&(hold & FATE)) { hold & !FATE | fate } else { hold })
        };
        let _ = self.hold.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        std::mem::forget(self);
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.hold.state.fetch_sub(UNDER_WAY, Ordering::AcqRel);
    }
}

impl Job {
    pub(crate) fn granted(envelope: Envelope, returns: u32, token: u64, part: &Part, is_suspect: bool) -> Self {
        let reserved_at = Millis::new(token / TOKENS_A_MS);
        Self { envelope, returns, token, reserved_at, queue: part.clone().into(), is_suspect, hold: Arc::default() }
    }

    /// The same where the server's clock was set back behind the token: what it says, in milliseconds, or 0.
    pub(crate) fn behind_token(mut self, clock: u64) -> Self {
        if clock > 0 {
            self.reserved_at = Millis::new(clock);
        }
        self
    }

    /// A lease of it ended once: it may be what ended its worker.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// Has an earlier lease of this job ended without an answer, since it was pushed or requeued? Then its handler may have run before,
    /// to any point, also where [`attempt`](Self::attempt) is 1 and `returns` is 0.
    pub fn redelivered(&self) -> bool {
        self.is_suspect
    }

    /// How long after it was reserved it expires; nothing if it does not, or if a run of it has begun. By the server's clock, and by this
    /// host's, whichever is behind: after a failover the server's may be ahead, and a live job must not go for that. A manual clock is the only
    /// one of its queue.
    pub(crate) fn expires_in(&self) -> Option<Millis> {
        let has_begun = self.returns > 0 || self.envelope.attempts > 0 || self.is_suspect;
        let expires = self.envelope.expires.filter(|_| !has_begun)?;
        let is_manual = self.queue.client().shared.clock == Clock::Manual;
        let now = if is_manual { self.reserved_at } else { self.reserved_at.min(host::now()) };
        Some(expires.saturating_sub(now))
    }

    /// Has no run of it begun, and had it expired by the server's clock alone? Then a reserve that takes back its lease believes that
    /// nobody has run it.
    pub(crate) fn seems_expired(&self) -> bool {
        self.expires_in().is_some()
            && self.envelope.expires.is_some_and(|expires| expires.get() <= self.token / TOKENS_A_MS)
    }

    /// Had it expired when it was reserved?
    pub(crate) fn has_expired(&self) -> bool {
        self.expires_in() == Some(Millis::ZERO)
    }

    /// Was it acked, failed or released with its own verbs, by whichever clone?
    pub fn is_settled(&self) -> bool {
        [ACKED, FAILED_OR_RELEASED].contains(&self.fate())
    }

    /// Was it acked with its own verb?
    pub fn is_acked(&self) -> bool {
        self.fate() == ACKED
    }

    /// What becomes of it, if one of its own verbs settled it.
    pub fn said(&self) -> Option<Next> {
        if self.is_acked() { Some(Next::Ack) } else { self.hold.said.get().copied().filter(|_| self.is_settled()) }
    }

    /// Has one of its verbs learned that the lease is not ours?
    pub(crate) fn is_lost(&self) -> bool {
        // Nor may one that is under way have been the reason.
        self.hold.state.load(Ordering::Acquire) == LOST
    }

    /// Is it settled, or may it be before long? That its lease is gone says nothing then.
    pub(crate) fn is_being_settled(&self) -> bool {
        let hold = self.hold.state.load(Ordering::Acquire);
        hold >= UNDER_WAY || [ACKED, FAILED_OR_RELEASED].contains(&(hold & FATE))
    }

    fn fate(&self) -> u32 {
        self.hold.state.load(Ordering::Acquire) & FATE
    }

    pub(crate) fn settling(&self) -> Settling<'_> {
        self.hold.state.fetch_add(UNDER_WAY, Ordering::AcqRel);
        Settling { hold: &self.hold }
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

    /// The next state of the job after this outcome, changed by a failure hook or not. Nothing is sent.
    ///
    /// Errors: `InvalidArgument` and `TooLarge` for a change that cannot be stored.
    pub fn what_becomes(&self, outcome: Outcome, changed: Option<&Envelope>) -> Result<Next, Error> {
        let Some(changed) = changed else { return Ok(self.next_after(outcome, &self.envelope)) };
        changed.check()?;
        // What was pushed larger, by a client that may, can still fail.
        if changed.data != self.envelope.data {
            changed.data.check_size(self.part().client.shared.max_data_bytes)?;
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

    /// The queue that it came from; of a partitioned queue that part.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn part(&self) -> &Part {
        self.queue.first_and_others().0
    }

    /// Done: the job leaves the queue. Errors: `LeaseLost` when the lease is no longer ours; then another worker has the
    /// job, or it was cancelled.
    ///
    /// A job that was pushed with a `result_ttl` leaves `null` as its result; [`Job::ack_with`] leaves another.
    pub async fn ack(&self) -> Result<(), Error> {
        self.settle(Outcome::Done, "").await.map(|_| ())
    }

    /// Acks the job with this result, which is kept if the producer asked for it (`result_ttl`).
    ///
    /// Errors: `LeaseLost`; `TooLarge` beyond the client's `max_data_bytes`, `InvalidArgument` if it is not JSON (nothing
    /// was sent, and the lease is still held).
    pub async fn ack_with<T: serde::Serialize + ?Sized>(&self, result: &T) -> Result<(), Error> {
        let result = self.result(result).map_err(|error| self.in_ack(error))?;
        self.ack_with_data(result).await
    }

    /// The same with JSON that is ready.
    pub async fn ack_with_data(&self, result: Option<Data>) -> Result<(), Error> {
        let settlement = Settlement { result, ..Settlement::done(self) };
        self.part().settle_job(settlement).await.map(|_| ())
    }

    /// Whether the producer asked for the result.
    pub fn keeps_result(&self) -> bool {
        self.envelope.result_ttl.is_some()
    }

    /// The result as JSON; `None` if the producer did not ask for it.
    ///
    /// Errors: `TooLarge`, `InvalidArgument`.
    pub fn result<T: serde::Serialize + ?Sized>(&self, value: &T) -> Result<Option<Data>, Error> {
        if !self.keeps_result() {
            return Ok(None);
        }
        let result = Data::from_serialize(value, usize::MAX)?;
        self.check_result(&result)?;
        Ok(Some(result))
    }

    /// Refuses a result that is larger than data may be. Errors: `TooLarge`.
    pub fn check_result(&self, result: &Data) -> Result<(), Error> {
        let (size, most) = (result.as_bytes().len(), self.part().client.shared.max_data_bytes);
        if size > most {
            let message = format!(
                "the result has {size} bytes and the limit is {most} (max_data_bytes): store it elsewhere and give where it is"
            );
            return Err(self.in_ack(Error::new(ErrorKind::TooLarge, message)));
        }
        Ok(())
    }

    fn in_ack(&self, error: Error) -> Error {
        self.part().during("ack")(error).of_job(self.id())
    }

    /// What is kept of it when it is done, and for how long.
    pub(crate) fn kept_result(&self, result: Option<&Data>) -> Result<Option<(u64, Data)>, Error> {
        let Some(ttl) = self.envelope.result_ttl else { return Ok(None) };
        let result = result.cloned().unwrap_or_else(|| Data::trusted("null"));
        self.check_result(&result)?;
        // What others wrote may say 0; the server takes no such lifetime.
        Ok(Some((ttl.get().max(1), result)))
    }

    /// Fails the run: the job's retry policy decides between a retry and `failed`. The text (cut to 8 KiB) is kept as the
    /// last error. Errors: `LeaseLost`.
    pub async fn fail(&self, error: &str) -> Result<Next, Error> {
        self.settle(Outcome::FAILURE, error).await
    }

    /// Says what became of it, in full. Errors: `LeaseLost`.
    pub async fn settle(&self, outcome: Outcome, error: &str) -> Result<Next, Error> {
        self.part().settle_job(Settlement { job: self, outcome, error, rewritten: None, result: None }).await
    }

    /// Like [`Job::settle`] for a failure whose hook changed the job: data, attempts, retries allowed or error.
    ///
    /// The changed envelope replaces the stored one before the outcome is decided. Errors: `LeaseLost`; `InvalidArgument`,
    /// `TooLarge` (nothing was changed).
    pub async fn settle_rewritten(&self, outcome: Outcome, changed: Envelope) -> Result<Next, Error> {
        let error = changed.error.clone();
        let settlement = Settlement { job: self, outcome, error: &error, rewritten: Some(changed), result: None };
        self.part().settle_job(settlement).await
    }

    /// Gives it back without counting a failure, to be reserved again at once or after a while. Errors: `LeaseLost`.
    ///
    /// One that counts as an attempt is [`Job::settle`] with `Outcome::Release { after, counted: true }`.
    pub async fn release(&self, after: Duration) -> Result<(), Error> {
        let after = Millis::from_duration(after).map_err(self.part().during("release"))?;
        self.settle(Outcome::Release { after, counted: false }, "").await.map(|_| ())
    }

    /// Tells the server that its run starts: should its worker die from now on, this run counts. Without it, the first death of a
    /// [`Consumer`](crate::worker::Consumer) does not count for a job with retries: it may only have been fetched ahead. A job that was
    /// reserved by hand is charged in any case. A lease that is over, as behind an outage, is ours until somebody takes the job back: it
    /// goes on for [`DEFAULT_LEASE`](crate::DEFAULT_LEASE) then, if nothing renews it before. Errors: `LeaseLost`: do not run it.
    pub async fn note_start(&self) -> Result<(), Error> {
        self.part().note_start(self).await
    }

    /// Sets the lease to end this long from now. One that is over is ours until somebody takes the job back. Errors: `LeaseLost`.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.part().extend_one(self, lease).await
    }
}

/// Spreads jitter without another source of randomness: the token differs from lease to lease, the id from job to job.
fn seed(job: &Job) -> u64 {
    job.id().bytes().fold(job.token, |seed, byte| seed.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(byte))
}
