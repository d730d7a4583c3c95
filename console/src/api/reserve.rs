//! Reserves jobs, and waits for them.

use std::time::Duration;

use duly::{Job, ReserveOptions, lease_from_seconds};
use serde::Serialize;
use tokio::sync::SemaphorePermit;

use super::Call;
use super::fields::Object;
use super::reply::{Refusal, Reply};
use super::written::Reserved;

/// The longest wait: proxies end a request that takes 30 s or 60 s.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

#[derive(Serialize)]
struct Jobs<'a> {
    jobs: Vec<Reserved<'a>>,
}

impl Call<'_> {
    pub(super) async fn reserve(&self, body: &[u8]) -> Result<Reply, Refusal> {
        self.query.only(&["partitions"])?;
        let mut object = Object::of_body(body)?;
        let max = object.whole("max")?.unwrap_or(1);
        let wait = wait(object.number("wait")?)?;
        let mut options = ReserveOptions::new().max(max).wait(wait);
        if let Some(lease) = object.number("lease")? {
            options = options.lease(lease_from_seconds(lease)?);
        }
        object.end()?;
        let _waiting = self.may_wait(wait)?;
        let queue = self.queue().await?;
        // Who goes away meanwhile drops this, and what it got goes back to the queue.
        let jobs: Vec<Job> = tokio::select! {
            biased;
            () = self.api.ended() => Vec::new(),
            jobs = queue.reserve(&options) => jobs?,
        };
        let written = jobs.iter().map(Reserved::of).collect::<Result<_, _>>().map(|jobs| Jobs { jobs });
        Reply::ok(&written?)
    }

    /// Errors: as many wait as may.
    pub(super) fn may_wait(&self, wait: Duration) -> Result<Option<SemaphorePermit<'_>>, Refusal> {
        if wait.is_zero() {
            return Ok(None);
        }
        let refused = |_| Refusal::busy("as many requests wait as may: ask again without a wait, or later");
        self.api.waiting.try_acquire().map(Some).map_err(refused)
    }
}

/// A wait in seconds; none if there is none.
pub(super) fn wait(seconds: Option<f64>) -> Result<Duration, Refusal> {
    let longest = LONGEST_WAIT.as_secs_f64();
    match seconds.unwrap_or(0.0) {
        wait if (0.0..=longest).contains(&wait) => Ok(Duration::from_secs_f64(wait)),
        _ => Err(Refusal::invalid(format!("`wait` must be 0 to {longest} seconds: ask again behind it"))),
    }
}
