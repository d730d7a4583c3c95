//! A job before it is pushed: data and options.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::data::Data;
use crate::envelope::Envelope;
use crate::error::{Error, ErrorKind};
use crate::name;
use crate::record::Record;
use crate::retry::RetryPolicy;
use crate::script::Due;
use crate::seconds::Seconds;
use crate::time::{Millis, When};

/// What a push does when another job has the same id or key.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDuplicate {
    /// The push is refused with [`ErrorKind::Duplicate`], which carries the id of the job that is there.
    #[default]
    Refuse,
    /// The job that is there stays, and its id is returned.
    Keep,
    /// The job that is there is cancelled, whatever state it is in, and this one takes its place.
    Replace,
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
    on_duplicate: OnDuplicate,
    /// A setter that cannot fail keeps its complaint for the push.
    fault: Option<Error>,
}

impl NewJob {
    /// A job with this data: any value that is JSON.
    ///
    /// Errors: `InvalidArgument` for what JSON cannot say (NaN, infinity, keys that are not strings).
    pub fn new<T: Serialize + ?Sized>(data: &T) -> Result<Self, Error> {
        Data::from_serialize(data, usize::MAX).map(Self::from_data)
    }

    /// A job with data that is JSON already; it is kept byte for byte.
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
            on_duplicate: OnDuplicate::Refuse,
            fault: None,
        }
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

    /// The longest that one run may take. A worker stops renewing the lease then.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        match Millis::from_duration(timeout) {
            Ok(timeout) => self.timeout = Some(timeout),
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

    /// What to do when another job has the same id or key.
    #[must_use]
    pub fn on_duplicate(mut self, on_duplicate: OnDuplicate) -> Self {
        self.on_duplicate = on_duplicate;
        self
    }

    /// Checks it and makes it what the script takes. `made_id` is used when the user gave none.
    pub(crate) fn prepare(self, made_id: &str, now: Millis, max_data_bytes: usize) -> Result<Prepared, Error> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.data.as_bytes().len() > max_data_bytes {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the data has {} bytes, more than the {max_data_bytes} that are allowed: store it elsewhere and push where it is, or raise max_data_bytes",
                    self.data.as_bytes().len()
                ),
            ));
        }
        let unique = self.id.is_some() || self.key.is_some();
        let id = self.id.unwrap_or_else(|| made_id.to_owned());
        let mut envelope = Envelope::new(id.clone(), self.data);
        envelope.time = now.whole_seconds();
        envelope.name = self.name;
        envelope.key = self.key;
        envelope.priority = self.priority;
        envelope.retry = self.retry;
        envelope.timeout = self.timeout;
        envelope.headers = self.headers;
        if let Some(max_retries) = self.max_retries {
            envelope.max_attempts = max_retries;
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
        envelope.check()?;
        let record = Record::encode(&envelope);
        Ok(Prepared { id, record, due, level: envelope.priority, unique, on_duplicate: self.on_duplicate })
    }
}

/// A job as the push script takes it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) id: String,
    pub(crate) record: Vec<u8>,
    pub(crate) due: Due,
    pub(crate) level: u8,
    /// It has an id or a key that another job may have.
    pub(crate) unique: bool,
    pub(crate) on_duplicate: OnDuplicate,
}
