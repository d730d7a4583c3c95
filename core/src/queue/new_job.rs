//! A job before it is pushed: data and options.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::format::envelope::Envelope;
use crate::format::record::{CameBack, Record};
use crate::process::host;
use crate::script::Due;
use crate::value::data::Data;
use crate::value::durability::Durability;
use crate::value::error::Error;
use crate::value::id::JobId;
use crate::value::name;
use crate::value::retry::RetryPolicy;
use crate::value::seconds::Seconds;
use crate::value::time::{Millis, When};

/// The answer of a push when another job has the same id or key.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDuplicate {
    /// The push is refused with `Duplicate`, which carries the id of the job that is there.
    #[default]
    Refuse,
    /// The job that is there stays, and its id is returned.
    Keep,
    /// The other job is cancelled in whatever state it is, and this one replaces it. If one job has the id and another one the key, it
    /// replaces both.
    Replace,
}

impl FromStr for OnDuplicate {
    type Err = Error;

    /// `refuse`, `keep` or `replace`. Errors: `InvalidArgument`.
    fn from_str(word: &str) -> Result<Self, Error> {
        match word {
            "refuse" => Ok(Self::Refuse),
            "keep" => Ok(Self::Keep),
            "replace" => Ok(Self::Replace),
            _ => Err(Error::invalid("on_duplicate must be 'refuse', 'keep' or 'replace'")),
        }
    }
}

/// A job to be pushed.
///
/// ```
/// use std::time::Duration;
///
/// let job = duly::NewJob::new(&serde_json::json!({"order_id": 42}))?
///     .name("order.close")
///     .delay(Duration::from_secs(1800))
///     .key("close:42");
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewJob {
    data: Data,
    name: Option<String>,
    id: Option<String>,
    key: Option<String>,
    when: When,
    priority: u8,
    max_retries: Option<u32>,
    retry: Option<RetryPolicy>,
    timeout: Option<Millis>,
    headers: BTreeMap<String, String>,
    expires: Option<Expiry>,
    result_ttl: Option<Millis>,
    on_duplicate: OnDuplicate,
    durability: Option<Durability>,
    imported: Option<Box<Envelope>>,
    /// An id that was made for it: in a partitioned queue the id decides where it goes.
    made_id: Option<String>,
    /// A setter that cannot fail keeps its complaint for the push.
    fault: Option<Error>,
}

impl NewJob {
    /// A job with this data: any value that is JSON.
    ///
    /// Errors: `InvalidArgument` for values that JSON does not have (NaN, infinity, keys that are not strings).
    pub fn new<T: Serialize + ?Sized>(data: &T) -> Result<Self, Error> {
        Data::from_serialize(data, usize::MAX).map(Self::from_data)
    }

    /// A job whose data is already JSON; it is kept byte for byte.
    ///
    /// Errors: `InvalidArgument` if it is not one valid JSON value.
    pub fn from_json(json: impl Into<Vec<u8>>) -> Result<Self, Error> {
        Data::from_json(json, usize::MAX).map(Self::from_data)
    }

    /// A job with this data.
    pub fn from_data(data: Data) -> Self {
        Self {
            data,
            name: None,
            id: None,
            key: None,
            when: When::Now,
            priority: name::DEFAULT_PRIORITY,
            max_retries: None,
            retry: None,
            timeout: None,
            headers: BTreeMap::new(),
            expires: None,
            result_ttl: None,
            on_duplicate: OnDuplicate::Refuse,
            durability: None,
            imported: None,
            made_id: None,
            fault: None,
        }
    }

    /// A job from a package: one that an older `ThinkPHP`, Go or workerman queue wrote, or that
    /// [`Envelope::encode_complete`] returned.
    ///
    /// Everything in it is kept: the id if it has one, the time of the push, failures and last error (the next failure counts
    /// on from there), unknown fields. Due when its `delay` after its `time` is over, which for most is at once; the
    /// setters override that as everything else.
    ///
    /// ```
    /// let package = br#"{"id":"17","time":1690000000,"delay":0,"attempts":2,"max_attempts":5,"data":[42],"error":"no"}"#;
    /// let job = duly::NewJob::from_package(package)?.name("order.close");
    /// # Ok::<(), duly::Error>(())
    /// ```
    ///
    /// Errors: `Corrupt` with the reason and never the data; `FormatTooNew`.
    pub fn from_package(package: &[u8]) -> Result<Self, Error> {
        let envelope = Envelope::decode(package)?;
        let delay = envelope.delay.to_millis();
        let mut job = Self::from_data(envelope.data.clone());
        job.id = Some(envelope.id.clone()).filter(|id| !id.is_empty());
        job.name.clone_from(&envelope.name);
        job.key.clone_from(&envelope.key);
        job.priority = envelope.priority;
        job.max_retries = Some(envelope.max_attempts);
        job.retry.clone_from(&envelope.retry);
        // No run can end within no time; some packages say it so that there is no timeout.
        job.timeout = envelope.timeout.filter(|&timeout| timeout > Millis::ZERO);
        job.headers.clone_from(&envelope.headers);
        job.expires = envelope.expires.map(Expiry::At);
        job.result_ttl = envelope.result_ttl;
        job.when = match envelope.time {
            _ if delay == Millis::ZERO => When::Now,
            0 => When::After(delay),
            time => When::At(Millis::new(time.saturating_mul(1000).saturating_add(delay.get()))),
        };
        job.imported = Some(Box::new(envelope));
        Ok(job)
    }

    /// Which handler runs it: 1 to 128 bytes without control characters.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// An id of your own, 1 to 128 bytes without control characters. Without it duly makes one.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// A business key, 1 to 256 bytes without control characters, by which the job can be found and cancelled. At most one
    /// live job has it: it is free again once the job is acked, cancelled or failed.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Due after this span on the server's clock; at most 100 years.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        match Millis::from_duration(delay) {
            Ok(delay) => self.when = When::After(delay),
            Err(error) => self.fault = Some(error),
        }
        self
    }

    /// When it is due.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }

    /// 0 (first) to 9 (last); 5 unless set. Within a priority the oldest goes first.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// How often it is run again after a failure (default 5).
    #[must_use]
    pub fn max_retries(mut self, max_retries: u32) -> Self {
        self.max_retries = Some(max_retries);
        self
    }

    /// How long to wait before each retry (default 5 s times the number of failures).
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// The longest that one run may take, more than zero; left out: as long as it likes. A worker stops renewing the lease
    /// then.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        match Millis::from_duration(timeout) {
            Ok(Millis::ZERO) => {
                self.fault = Some(Error::invalid("a timeout must be longer than 0: leave it out for none"));
            }
            Ok(timeout) => self.timeout = Some(timeout),
            Err(error) => self.fault = Some(error),
        }
        self
    }

    /// When it expires: so long after the server received the push, or at this unix time, by the server's clock; later than it is due. A job
    /// that no worker has started by then is dropped, and its queue counts it as `expired`; one that has begun keeps its retries.
    ///
    /// The push asks the server for its time first. Workers that do not know of it put such jobs into `failed`: update them first.
    #[must_use]
    pub fn expires(mut self, expires: When) -> Self {
        self.expires = Some(Expiry::Given(expires));
        self
    }

    /// Keeps the job's result for this long after it is done, for [`Queue::wait_result`](crate::Queue::wait_result).
    #[must_use]
    pub fn result_ttl(mut self, ttl: Duration) -> Self {
        match Millis::from_duration(ttl) {
            Ok(ttl) => self.result_ttl = Some(ttl),
            Err(error) => self.fault = Some(error),
        }
        self
    }

    /// A header that travels with the job, such as W3C `traceparent`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets what happens when another job has the same id or key.
    #[must_use]
    pub fn on_duplicate(mut self, on_duplicate: OnDuplicate) -> Self {
        self.on_duplicate = on_duplicate;
        self
    }

    /// How sure the push must be before it returns, instead of the client's durability.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The same for a job that says nothing of it.
    #[must_use]
    pub fn durability_unless_given(mut self, durability: Option<Durability>) -> Self {
        self.durability = self.durability.or(durability);
        self
    }

    pub(crate) fn given_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(crate) fn given_key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    pub(crate) fn with_made_id(mut self, id: JobId) -> Self {
        self.made_id = Some(id.into());
        self
    }

    /// Is the server to be asked for its time first?
    pub(crate) fn asks_for_time(&self) -> bool {
        matches!(self.expires, Some(Expiry::Given(_)))
    }

    /// Settles when it expires; `now` is the server's time. Errors: `InvalidArgument` if it would not be due by then.
    pub(crate) fn settle_expiry(&mut self, now: Millis) -> Result<(), Error> {
        let Some(Expiry::Given(expires)) = self.expires else { return Ok(()) };
        let moment = |when: When| match when {
            When::Now => now,
            When::After(span) => now.saturating_add(span),
            When::At(at) => at.max(now),
        };
        let expires = moment(expires);
        if expires <= moment(self.when) {
            return Err(Error::invalid(
                "expires must be later than the job is due, or it is dropped before a worker can start it",
            ));
        }
        self.expires = Some(Expiry::At(expires));
        Ok(())
    }

    /// Would a push refuse it, whatever the queue and the client?
    ///
    /// Errors: `InvalidArgument`.
    pub fn check(&self) -> Result<(), Error> {
        self.clone().prepare("check", host::now(), usize::MAX).map(drop)
    }

    /// What it says of each job that a schedule pushes: without an id, a time and a due time.
    ///
    /// Errors: `InvalidArgument`.
    pub(crate) fn into_template(self) -> Result<Envelope, Error> {
        let refused = |what: &str| Err(Error::invalid(format!("the job of a schedule has no {what}: leave it out")));
        if self.id.is_some() {
            return refused("id of its own, as each one gets that of its slot");
        }
        if self.when != When::Now {
            return refused("delay, as it is due at its slot");
        }
        if self.expires.is_some() {
            return refused("expires: catch_up and grace say how late it may be");
        }
        if self.on_duplicate != OnDuplicate::Refuse || self.durability.is_some() || self.imported.is_some() {
            return refused("on_duplicate, durability or package; the schedule's overlap stands for the first");
        }
        let prepared = self.made("template", Millis::ZERO, usize::MAX, false)?;
        let mut envelope = Record::decode(&prepared.id, &prepared.record, None)?;
        (envelope.id, envelope.time) = (String::new(), 0);
        // The trace of who puts the schedule, and not of its jobs; and it would be another schedule each time.
        envelope.headers.retain(|name, _| name != "traceparent" && name != "tracestate");
        Ok(envelope)
    }

    /// Checks it and makes it what the script takes. `made_id` is used when the user gave none.
    pub(crate) fn prepare(self, made_id: &str, now: Millis, max_data_bytes: usize) -> Result<Prepared, Error> {
        self.made(made_id, now, max_data_bytes, true)
    }

    fn made(mut self, made_id: &str, now: Millis, max_data_bytes: usize, is_traced: bool) -> Result<Prepared, Error> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.settle_expiry(now)?;
        self.data.check_size(max_data_bytes)?;
        let (has_own_id, unique) = (self.id.is_some(), self.id.is_some() || self.key.is_some());
        let id = self.id.or(self.made_id).unwrap_or_else(|| made_id.to_owned());
        let mut envelope = Envelope::new(id, self.data);
        envelope.time = now.whole_seconds();
        envelope.name = self.name;
        envelope.key = self.key;
        envelope.priority = self.priority;
        envelope.retry = self.retry;
        envelope.timeout = self.timeout;
        envelope.headers = self.headers;
        if let Some(Expiry::At(at)) = self.expires {
            envelope.expires = Some(at);
        }
        envelope.result_ttl = self.result_ttl;
        #[cfg(not(feature = "opentelemetry"))]
        let _ = is_traced;
        #[cfg(feature = "opentelemetry")]
        if is_traced && self.imported.is_none() {
            crate::queue::telemetry::add_trace(&mut envelope.headers);
        }
        if let Some(max_retries) = self.max_retries {
            envelope.max_attempts = max_retries;
        }
        let (mut came_back, mut imported_delay) = (Vec::new(), None);
        if let Some(imported) = self.imported {
            // Kept beside the record, as if it had failed here; a requeue by hand then begins with a clean count.
            came_back = CameBack::of(&imported).map(|beside| beside.encode()).unwrap_or_default();
            if imported.time > 0 {
                envelope.time = imported.time;
            }
            envelope.unknown = imported.unknown;
            imported_delay = Some(imported.delay);
        }
        let due = match self.when {
            When::Now => Due::Now,
            When::After(delay) => {
                envelope.delay = Seconds::from(delay);
                Due::After(delay.get())
            }
            When::At(at) => {
                envelope.delay = Seconds::from(at.saturating_sub(now));
                Due::At(at.get())
            }
        };
        if let Some(delay) = imported_delay {
            envelope.delay = delay;
        }
        envelope.check()?;
        let record = Record::encode(&envelope);
        let level = envelope.priority;
        Ok(Prepared {
            id: envelope.id,
            record,
            due,
            level,
            has_own_id,
            unique,
            on_duplicate: self.on_duplicate,
            durability: self.durability,
            came_back,
        })
    }
}

/// When a job expires.
#[derive(Debug, Clone, Copy)]
enum Expiry {
    /// As it was given: by the server's clock, which is to be asked.
    Given(When),
    /// In milliseconds since 1970.
    At(Millis),
}

/// A job as the push script takes it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) id: String,
    pub(crate) record: Vec<u8>,
    pub(crate) due: Due,
    pub(crate) level: u8,
    /// Its id is the user's, so another job may have it.
    pub(crate) has_own_id: bool,
    /// It has an id or a key that another job may have.
    pub(crate) unique: bool,
    pub(crate) on_duplicate: OnDuplicate,
    pub(crate) durability: Option<Durability>,
    /// What is kept beside the record of a job that failed before it was imported; empty for others.
    pub(crate) came_back: Vec<u8>,
}
