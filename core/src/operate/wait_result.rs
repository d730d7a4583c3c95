//! Waiting for the result of a job that was pushed with `result_ttl`.

use std::time::Duration;

use tokio::time::Instant;

use crate::connection::{WaitedBy, Woken};
use crate::format::record::CameBack;
use crate::operate::JobView;
use crate::queue::{Part, Queue};
use crate::script::{Awaited, AwaitedReply, By, Declared, JobKeys, Key};
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::time::LONGEST_WAIT;

/// A waiter looks again after this long at the latest: a wake-up is a hint that can get lost.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The same after a hint that came to nothing: it was about an earlier job of this id, and stays for a while.
const AFTER_NOTHING: Duration = Duration::from_millis(100);
impl Queue {
    /// Waits until the job is done and returns its result. Without a timeout it waits as long as that takes.
    ///
    /// Any number of callers may wait for one job. They are woken when it is acked, fails for good, is cancelled,
    /// purged or replaced, and check again each second in case a wake-up was lost.
    ///
    /// Errors: `JobFailed` with the last error once the job has failed for good; `NoResult` if there will be no result;
    /// `Timeout` if the job is not done in time.
    ///
    /// ```no_run
    /// # async fn doc(orders: duly::Queue) -> Result<(), duly::Error> {
    /// use std::time::Duration;
    ///
    /// let job = duly::NewJob::new(&42)?.name("order.total").result_ttl(Duration::from_secs(60));
    /// let id = orders.push(job).await?.id().to_owned();
    /// let total: f64 = orders.wait_result(&id, Some(Duration::from_secs(5))).await?.deserialize()?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_result(&self, id: &str, timeout: Option<Duration>) -> Result<Data, Error> {
        let in_wait = |error: Error| self.during("wait_result")(error).of_job(id);
        name::check_id(id).map_err(in_wait)?;
        let until = Instant::now() + timeout.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        let part = self.part_of_result(id).await.map_err(in_wait)?;
        part.wait_result_until(id, until).await.map_err(in_wait)
    }

    /// The part that has this job or its result; where none has, the likely one says so.
    async fn part_of_result(&self, id: &str) -> Result<&Part, Error> {
        if self.each_part().len() > 1 {
            for part in self.parts_by_id(id) {
                if !part.is_gone(id).await? {
                    return Ok(part);
                }
            }
        }
        Ok(self.part_of(id))
    }
}

impl Part {
    /// Is there neither such a job nor a result of it?
    async fn is_gone(&self, id: &str) -> Result<bool, Error> {
        Ok(self.look_for_result(id).await? == AwaitedReply::Gone)
    }

    async fn wait_result_until(&self, id: &str, until: Instant) -> Result<Data, Error> {
        let mut first = true;
        let mut was_woken = false;
        loop {
            match self.look_for_result(id).await? {
                AwaitedReply::Done(result) => return Data::from_json(result, usize::MAX),
                AwaitedReply::Failed(came_back) => return Err(failed(&came_back)),
                AwaitedReply::NotKept => return Err(not_kept()),
                AwaitedReply::Gone => return Err(no_result()),
                AwaitedReply::Live => {}
            }
            if std::mem::take(&mut first) {
                let found = self.find(By::Id, id).await?;
                let keeps_none = |job: &JobView| job.undecodable.is_none() && job.envelope.result_ttl.is_none();
                if found.is_some_and(|found| keeps_none(&found.job)) {
                    let message = "this job was pushed without result_ttl: nothing of it will be kept";
                    return Err(Error::new(ErrorKind::NoResult, message));
                }
            }
            let now = Instant::now();
            if now >= until {
                let message = "the job is not done yet: wait again, or look with find where it is";
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            if std::mem::take(&mut was_woken) {
                tokio::time::sleep_until(until.min(now + AFTER_NOTHING)).await;
            }
            was_woken = self.wait_until_done(id, until.min(Instant::now() + LOOK_AGAIN)).await?;
        }
    }

    async fn look_for_result(&self, id: &str) -> Result<AwaitedReply, Error> {
        let look = Awaited { result_count: JobKeys::one(id) };
        self.run(look.with([id]).during("wait_result")).await
    }

    /// Where waiting is not possible just now, time alone ends it, and the look that follows says what is wrong.
    async fn wait_until_done(&self, id: &str, until: Instant) -> Result<bool, Error> {
        let keys = &self.shared.keys;
        let done = keys.spell_of_job(Key::Done, id);
        let wait = until.saturating_duration_since(Instant::now());
        match self.client.wait_for_element("wait_result", keys.slot(), done.as_bytes(), wait).await {
            Err(error) if self.client.waits_again(WaitedBy::Seeing, &error) => {
                tokio::time::sleep_until(until).await;
                Ok(false)
            }
            waited => waited.map(Woken::is_woken),
        }
    }
}

fn failed(came_back: &[u8]) -> Error {
    let last = CameBack::decode(came_back).map(|came_back| came_back.error).unwrap_or_default();
    let said = if last.is_empty() { "it left no error text" } else { &last };
    Error::new(ErrorKind::JobFailed, format!("the job has failed for good, requeue it to run it again: {said}"))
}

fn not_kept() -> Error {
    Error::new(
        ErrorKind::NoResult,
        "the job is done, but its result was not kept: the server had no memory left (raise its maxmemory), or it could not be sent, \
         because each call with it was cut off (the worker's log says so)",
    )
}

fn no_result() -> Error {
    Error::new(
        ErrorKind::NoResult,
        "there is no such job and no result: it was cancelled, purged or pushed without result_ttl, its result was kept no longer, or it never was in this queue",
    )
}
