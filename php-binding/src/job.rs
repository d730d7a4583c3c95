//! `Duly\Job`: a reserved job.

use std::cell::Cell;
use std::time::Duration;

use duly::{Millis, Outcome, blocking};
use ext_php_rs::boxed::ZBox;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert;
use crate::error::Fault;
use crate::interrupt::Signals;
use crate::queue::headers_table;
use crate::when::span;

/// A reserved job: what was pushed, and the lease under which it may be run.
#[php_class]
#[php(name = "Duly\\Job")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct Job {
    pub job: blocking::Job,
    /// Acked, failed or released through this object.
    pub settled: Cell<bool>,
}

impl Job {
    pub fn new(job: blocking::Job) -> Self {
        Self { job, settled: Cell::new(false) }
    }

    fn settle(&self, outcome: Outcome, error: &str) -> Result<duly::Next, Fault> {
        let next = self.job.settle(outcome, error, &mut Signals)?;
        self.settled.set(true);
        Ok(next)
    }

    fn envelope(&self) -> &duly::Envelope {
        &self.job.reserved().envelope
    }
}

#[php_impl]
impl Job {
    /// The job's id.
    #[php(getter)]
    pub fn get_id(&self) -> String {
        self.envelope().id.clone()
    }

    /// The data exactly as it was pushed, as JSON.
    #[php(getter)]
    pub fn get_raw(&self) -> String {
        self.envelope().data.as_str().to_owned()
    }

    /// Which handler runs it.
    #[php(getter)]
    pub fn get_name(&self) -> Option<String> {
        self.envelope().name.clone()
    }

    /// The business key.
    #[php(getter)]
    pub fn get_key(&self) -> Option<String> {
        self.envelope().key.clone()
    }

    /// 0 (first) to 9 (last).
    #[php(getter)]
    pub fn get_priority(&self) -> i64 {
        self.envelope().priority.into()
    }

    /// Which run this is, 1 for the first.
    #[php(getter)]
    pub fn get_attempt(&self) -> i64 {
        self.job.reserved().attempt().into()
    }

    /// Failures so far.
    #[php(getter)]
    pub fn get_attempts(&self) -> i64 {
        self.envelope().attempts.into()
    }

    /// How many retries it may have.
    #[php(getter)]
    pub fn get_max_retries(&self) -> i64 {
        self.envelope().max_attempts.into()
    }

    /// The text of the last failure, or the empty string.
    #[php(getter)]
    pub fn get_error(&self) -> String {
        self.envelope().error.clone()
    }

    /// The fencing token of this lease: larger than that of every earlier lease of this job.
    #[php(getter)]
    pub fn get_token(&self) -> i64 {
        i64::try_from(self.job.reserved().token()).unwrap_or(i64::MAX)
    }

    /// The queue's name.
    #[php(getter)]
    pub fn get_queue(&self) -> String {
        self.job.queue().name().to_owned()
    }

    /// The longest run in seconds, if one is set.
    #[php(getter)]
    pub fn get_timeout(&self) -> Option<f64> {
        self.envelope().timeout.map(Millis::as_seconds)
    }

    /// When it was pushed, in unix seconds by the producer's clock.
    #[php(getter)]
    pub fn get_pushed_at(&self) -> i64 {
        i64::try_from(self.envelope().time).unwrap_or(0)
    }

    /// The headers that travel with the job.
    #[php(getter)]
    pub fn get_headers(&self) -> PhpResult<ZBox<ZendHashTable>> {
        Ok(headers_table(self.envelope())?)
    }

    /// Whether it was acked, failed or released through this object: a worker then leaves it alone.
    #[php(getter)]
    pub fn get_settled(&self) -> bool {
        self.settled.get()
    }

    /// The data as `json_decode` gives it: arrays, or objects with `assoc: false`.
    #[php(defaults(assoc = true))]
    pub fn data(&self, assoc: bool) -> PhpResult<Zval> {
        Ok(convert::decode(self.envelope().data.as_str(), assoc)?)
    }

    /// Done: the job leaves the queue.
    pub fn ack(&self) -> PhpResult<()> {
        self.settle(Outcome::Done, "")?;
        Ok(())
    }

    /// Failed. The job's policy decides between another run later and `failed`, unless `retryAfter` (seconds) says when,
    /// `counted: false` keeps the count of failures, or `final: true` gives up now. Says which: `retry` or `failed`.
    #[php(optional = retryAfter)]
    #[php(defaults(counted = true, r#final = false))]
    pub fn fail(&self, error: String, retryAfter: Option<&Zval>, counted: bool, r#final: bool) -> PhpResult<String> {
        let outcome = || -> Result<Outcome, Fault> {
            if r#final {
                return Ok(Outcome::FailNow);
            }
            let after = match retryAfter.filter(|after| !after.is_null()) {
                Some(after) => Some(Millis::from_seconds(convert::seconds("retryAfter", after)?)?),
                None => None,
            };
            Ok(Outcome::Retry { after, counted })
        };
        let next = self.settle(outcome()?, &error)?;
        Ok(match next {
            duly::Next::Failed { .. } => "failed".to_owned(),
            _ => "retry".to_owned(),
        })
    }

    /// Gives it back, not counted as a failure, to be reserved again at once or after so many seconds.
    #[php(optional = after)]
    pub fn release(&self, after: Option<&Zval>) -> PhpResult<()> {
        let after = span("after", after, Duration::ZERO)?;
        let after = Millis::from_duration(after).map_err(Fault::from)?;
        self.settle(Outcome::Release { after }, "")?;
        Ok(())
    }

    /// Sets the lease to end so many seconds from now.
    #[php(optional = lease)]
    pub fn extend(&self, lease: Option<&Zval>) -> PhpResult<()> {
        Ok(self.job.extend(span("lease", lease, duly::DEFAULT_LEASE)?, &mut Signals)?)
    }
}
