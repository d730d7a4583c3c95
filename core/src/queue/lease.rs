//! How long a reserved job belongs to its worker.

use std::time::Duration;

use crate::format::record::CameBack;
use crate::queue::job::Job;
use crate::queue::{MAX_BATCH, Part, Queue, decode};
use crate::script::{By, Declared, Extend, Find, FoundReply, KeepTrying};
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::state::State;
use crate::value::time::{Millis, whole_ms};

const LOST: &str = "the lease is lost: this job was settled already or cancelled, or the lease ended and another worker may run it; \
                    stop working on it, or use a longer lease or extend it in time";

/// How long a lease is unless the worker says otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(10);
/// The longest lease: longer ones would only hide dead workers. A worker extends its leases while it runs.
pub const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);

/// A lease given in seconds, rounded up to milliseconds.
///
/// Errors: `InvalidArgument` for what is not 1 ms to 24 h ([`MAX_LEASE`]).
pub fn lease_from_seconds(seconds: f64) -> Result<Duration, Error> {
    if seconds > 0.0 && seconds <= MAX_LEASE.as_secs_f64() {
        return Millis::from_seconds(seconds).map(Millis::to_duration);
    }
    Err(Error::invalid(format!("a lease lasts 1 ms to 24 h, not {seconds} s")))
}

pub(crate) fn check_lease(lease: Duration) -> Result<(), Error> {
    if lease < Duration::from_millis(1) || lease > MAX_LEASE {
        return Err(Error::invalid(format!("a lease lasts 1 ms to 24 h, not {} s", lease.as_secs_f64())));
    }
    Ok(())
}

/// A look that has no answer has changed nothing, whatever is to be done behind it.
fn nothing_done(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Timeout => Error::new(
            ErrorKind::Unreachable,
            "the server did not answer in time whether the lease is held: nothing was done, try again",
        ),
        _ => error,
    }
}

impl Queue {
    /// A job that is reserved under this token, for who knows no more of it than its id and its token: a holder in another process,
    /// which has them from [`Job::id`] and [`Job::token`]. It is settled and extended as the job that was reserved.
    ///
    /// Errors: `LeaseLost` if the job is not reserved, or under another token; `Corrupt`, `FormatTooNew` if it cannot be decoded.
    pub async fn held(&self, id: &str, token: u64) -> Result<Job, Error> {
        self.held_for("held", id, token).await
    }

    /// The same before this verb, which errors name.
    #[doc(hidden)] // for the API
    pub async fn held_for(&self, verb: &'static str, id: &str, token: u64) -> Result<Job, Error> {
        name::check_id(id).map_err(self.during(verb))?;
        for part in self.parts_by_id(id) {
            if let Some(job) = part.held(verb, id, token).await.map_err(|error| error.of_job(id))? {
                return Ok(job);
            }
        }
        Err(self.during(verb)(Error::new(ErrorKind::LeaseLost, LOST)).of_job(id))
    }

    /// Sets the leases of these jobs to end this long from now; `true` where the lease was still ours.
    pub async fn extend_all(&self, jobs: &[Job], lease: Duration) -> Result<Vec<bool>, Error> {
        let leases: Vec<_> = jobs.iter().map(|job| (job.id().to_owned(), job.token())).collect();
        if let [part] = self.each_part() {
            return part.extend_leases(&leases, lease).await;
        }
        let leases = jobs.iter().map(|job| self.index_of_job(job)).zip(leases).collect();
        let part_of = |(part, _): &(Option<usize>, _)| *part;
        self.by_part(leases, part_of, false, |part, leases| {
            let leases: Vec<_> = leases.into_iter().map(|(_, lease)| lease).collect();
            Box::pin(async move { part.extend_leases(&leases, lease).await })
        })
        .await
    }
}

impl Part {
    async fn held(&self, verb: &'static str, id: &str, token: u64) -> Result<Option<Job>, Error> {
        let found = self.run(Find { by: By::Id }.with([id]).during(verb)).await;
        let found = found.map_err(|error| self.during(verb)(nothing_done(error)))?;
        let is_held = |found: &FoundReply| found.state == State::Reserved.as_str() && found.token == Some(token);
        let Some(found) = found.filter(is_held) else { return Ok(None) };
        let stored = found.job;
        let decoded = decode(&stored.id, &stored.record, &stored.came_back);
        let (envelope, returns) = decoded.map_err(self.during(verb))?;
        Ok(Some(Job::granted(envelope, returns, token, self, CameBack::is_suspect(&stored.came_back))))
    }

    /// For leases given as (id, token).
    pub(crate) async fn extend_leases(&self, leases: &[(String, u64)], lease: Duration) -> Result<Vec<bool>, Error> {
        self.extend_leases_until(leases, lease, &|_| false).await
    }

    /// The same, with the call made again, behind a pause, after the errors of which `keep_trying` says so.
    pub(crate) async fn extend_leases_until(
        &self,
        leases: &[(String, u64)],
        lease: Duration,
        keep_trying: KeepTrying<'_>,
    ) -> Result<Vec<bool>, Error> {
        check_lease(lease).map_err(self.during("extend"))?;
        let mut held = Vec::with_capacity(leases.len());
        for batch in leases.chunks(MAX_BATCH) {
            let leases = batch.iter().map(|(id, token)| (id.as_bytes(), *token));
            let extend = Extend { lease_ms: whole_ms(lease) }.with(leases).keep_trying(keep_trying);
            held.extend(self.run(extend).await?);
        }
        Ok(held)
    }

    pub(crate) async fn extend_one(&self, job: &Job, lease: Duration) -> Result<(), Error> {
        let held = self.extend_leases(&[(job.id().to_owned(), job.token())], lease).await?;
        if held.first() == Some(&true) { Ok(()) } else { Err(self.lease_lost("extend", job)) }
    }

    pub(crate) fn lease_lost(&self, operation: &'static str, job: &Job) -> Error {
        self.during(operation)(Error::new(ErrorKind::LeaseLost, LOST)).of_job(job.id())
    }
}
