//! `Duly\Job`: a reserved job.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use duly::blocking::{Executor, process};
use duly::worker::Interruption;
use duly::{Error, ErrorKind, Millis, Next, Outcome, Renewal, blocking};
use ext_php_rs::binary::Binary;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, ZendObject, Zval};
use ext_php_rs::zend::ce;

use crate::call;
use crate::consumer::Out;
use crate::convert::{self, Text, given, lease_span, millis, number, utf8, whole};
use crate::error::Fault;
use crate::lock::Lock;
use crate::new_job::headers as headers_of;
use crate::queue::Queue;
use crate::record::signed;
use crate::waiting::Signals;

/// A reserved job: what was pushed, and the lease under which it may be run.
#[php_class]
#[php(name = "Duly\\Job")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
#[allow(clippy::struct_field_names)] // it is the core's of the same name
pub struct Job {
    pub job: blocking::Job,
    /// By this host's clock; nothing where a worker's engine renews the lease.
    lease_ends_at: Rc<Cell<Option<SystemTime>>>,
    /// What settles it, if a consumer gave it.
    out: Option<Rc<Out>>,
    /// The run of a worker that it is in.
    run: Option<InRun>,
    /// What renews its lease, for as long as the object lives.
    _renewal: Option<Rc<Renewal>>,
}

/// A run of a worker of this process.
#[derive(Clone)]
struct InRun {
    executor: Rc<Executor>,
    number: u64,
    pid: u32,
}

impl InRun {
    /// What a handler says behind that no longer counts. A forked process asks nothing of its parent's worker.
    fn was_interrupted(&self) -> Option<Interruption> {
        if self.pid == process::id() { self.executor.interruption_of(self.number) } else { None }
    }
}

impl Job {
    /// A job that a worker tells of.
    pub fn new(job: blocking::Job) -> Self {
        Self { job, lease_ends_at: Rc::default(), out: None, run: None, _renewal: None }
    }

    /// A job that a worker runs.
    pub fn in_run(job: blocking::Job, executor: Rc<Executor>, number: u64) -> Self {
        Self { run: Some(InRun { executor, number, pid: process::id() }), ..Self::new(job) }
    }

    /// Errors: `LeaseLost` if its run was interrupted: what becomes of it was decided then.
    fn may_settle(&self) -> Result<(), Fault> {
        let Some(why) = self.run.as_ref().and_then(InRun::was_interrupted) else { return Ok(()) };
        let text =
            format!("the run of job '{}' was interrupted ({}): its outcome no longer counts", self.id(), why.as_str());
        Err(Fault::from(Error::new(ErrorKind::LeaseLost, text)))
    }

    /// A job of a consumer.
    pub fn out(out: Rc<Out>) -> Self {
        let job = out.delivery().job().clone();
        Self { job, lease_ends_at: Rc::default(), out: Some(out), run: None, _renewal: None }
    }

    /// A job that has arrived just now.
    pub fn leased(job: blocking::Job, lease: Duration) -> Self {
        let ends_at = SystemTime::now().checked_add(lease);
        Self { job, lease_ends_at: Rc::new(Cell::new(ends_at)), out: None, run: None, _renewal: None }
    }

    /// The same, and its lease is renewed by a native thread from now on.
    pub fn renewed(job: blocking::Job, lease: Duration) -> Result<Self, Fault> {
        let renewal = Some(Rc::new(job.renew(lease)?));
        Ok(Self { job, lease_ends_at: Rc::default(), out: None, run: None, _renewal: renewal })
    }

    fn settle(&self, outcome: Outcome, error: &str, changed: Option<duly::Envelope>) -> Result<Next, Fault> {
        self.may_settle()?;
        match (&self.out, changed) {
            (Some(out), changed) => Ok(out.delivery().settle(outcome, error, changed)?),
            (None, Some(mut changed)) => {
                error.clone_into(&mut changed.error);
                self.job.settle_rewritten(outcome, changed, &mut Signals)
            }
            (None, None) => self.job.settle(outcome, error, &mut Signals),
        }
    }

    /// Acks these jobs, with few calls; false where the lease was lost.
    pub fn ack_all(queue: &blocking::Queue, jobs: &[&Self]) -> Result<Vec<bool>, Fault> {
        let are_sent: Vec<bool> = jobs.iter().map(|job| job.out.is_none() && job.may_settle().is_ok()).collect();
        let sent = jobs.iter().zip(&are_sent).filter(|(_, is_sent)| **is_sent);
        let reserved: Vec<blocking::Job> = sent.map(|(job, _)| job.job.clone()).collect();
        let mut acked = queue.ack_all(&reserved, &mut Signals)?.into_iter();
        let of_job = |(job, is_sent): (&&Self, &bool)| match &job.out {
            Some(out) => out.delivery().ack(None).is_ok(),
            None => *is_sent && acked.next().unwrap_or_default(),
        };
        Ok(jobs.iter().zip(&are_sent).map(of_job).collect())
    }

    fn said(&self) -> Option<Outcome> {
        self.out.as_ref().and_then(|out| out.delivery().said())
    }

    /// The jobs of an array.
    pub fn list(jobs: &ZendHashTable) -> Result<Vec<&Self>, Fault> {
        let jobs: Option<_> = convert::values(jobs).map(Zval::extract::<&Self>).collect();
        jobs.ok_or_else(|| Fault::invalid("jobs must be a list of Duly\\Job"))
    }

    fn envelope(&self) -> &duly::Envelope {
        &self.job.reserved().envelope
    }
}

#[php_impl]
impl Job {
    /// The job's id.
    #[php(getter)]
    pub fn id(&self) -> String {
        self.envelope().id.clone()
    }

    /// The data exactly as it was pushed, as JSON.
    #[php(getter)]
    pub fn raw(&self) -> String {
        self.envelope().data.as_str().to_owned()
    }

    /// Which handler runs it.
    #[php(getter)]
    pub fn name(&self) -> Option<String> {
        self.envelope().name.clone()
    }

    /// The business key.
    #[php(getter)]
    pub fn key(&self) -> Option<String> {
        self.envelope().key.clone()
    }

    /// 0 (first) to 9 (last).
    #[php(getter)]
    pub fn priority(&self) -> i64 {
        self.envelope().priority.into()
    }

    /// Failures so far.
    #[php(getter)]
    pub fn attempts(&self) -> i64 {
        self.envelope().attempts.into()
    }

    /// How many retries it may have.
    #[php(getter)]
    pub fn max_retries(&self) -> i64 {
        self.envelope().max_attempts.into()
    }

    /// The text of the last failure, or the empty string.
    #[php(getter)]
    pub fn error(&self) -> String {
        self.envelope().error.clone()
    }

    /// The headers that travel with the job.
    #[php(getter)]
    pub fn headers(&self) -> BTreeMap<String, String> {
        self.envelope().headers.clone()
    }

    /// How often it came back from a worker: failed, released, or its lease ended.
    #[php(getter)]
    pub fn returns(&self) -> i64 {
        self.job.reserved().returns.into()
    }

    /// The longest run in seconds, if one is set.
    #[php(getter)]
    pub fn timeout(&self) -> Option<f64> {
        self.envelope().timeout.map(Millis::as_seconds)
    }

    /// When it is dropped unless a run of it has started, in unix seconds; null if never.
    #[php(getter)]
    pub fn expires(&self) -> Option<f64> {
        self.envelope().expires.map(Millis::as_seconds)
    }

    /// For how many seconds its result is kept; null when none is.
    #[php(getter)]
    pub fn result_ttl(&self) -> Option<f64> {
        self.envelope().result_ttl.map(Millis::as_seconds)
    }

    /// When it was pushed, in unix seconds by the producer's clock.
    #[php(getter)]
    pub fn pushed_at(&self) -> i64 {
        signed(self.envelope().time)
    }

    /// The data as `json_decode` gives it: arrays, or objects with `assoc: false`.
    #[php(defaults(assoc = true))]
    pub fn data(&self, assoc: bool) -> PhpResult<Zval> {
        Ok(convert::decode(self.envelope().data.as_str(), assoc)?)
    }

    /// The fields of its package that duly does not know, each as `json_decode` gives it: another program, or another queue, has written
    /// them.
    #[php(defaults(assoc = true))]
    pub fn extra(&self, assoc: bool) -> PhpResult<BTreeMap<String, Zval>> {
        Ok(convert::extra(self.envelope(), assoc)?)
    }

    /// The complete JSON package, as an export or an older consumer reads it.
    #[php(getter)]
    pub fn package(&self) -> Binary<u8> {
        self.envelope().encode_complete().into_iter().collect()
    }

    /// Which run this is, 1 for the first.
    #[php(getter)]
    pub fn attempt(&self) -> i64 {
        self.job.reserved().attempt().into()
    }

    /// Has an earlier lease of this job ended without an answer?
    #[php(getter)]
    pub fn redelivered(&self) -> bool {
        self.job.reserved().redelivered()
    }

    /// The fencing token of this lease: larger than that of every earlier lease of this job.
    #[php(getter)]
    pub fn token(&self) -> i64 {
        signed(self.job.reserved().token())
    }

    /// The queue that it came from.
    #[php(getter)]
    pub fn queue(&self) -> Queue {
        Queue::new(self.job.queue().clone())
    }

    /// When its lease ends, in unix seconds by this host's clock; null in a worker, whose engine renews it.
    #[php(getter)]
    pub fn lease_ends_at(&self) -> Option<f64> {
        self.end_of_lease()
    }

    /// Whether it was acked, failed or released through this object: a worker then leaves it alone.
    #[php(getter)]
    pub fn settled(&self) -> bool {
        self.said().is_some() || self.job.reserved().is_settled()
    }

    /// Whether it was acked through this object.
    #[php(getter)]
    pub fn acked(&self) -> bool {
        self.said() == Some(Outcome::Done) || self.job.reserved().is_acked()
    }

    /// Why its run is over though nothing was said of it: `timed_out`, `lease_lost` or `stopped`; null if it may go on. Only of a job of a
    /// consumer: in a worker the handler gets a `JobInterruptedException`.
    #[php(getter)]
    pub fn interrupted(&self) -> Option<&'static str> {
        self.out.as_ref().and_then(|out| out.delivery().interrupted()).map(Interruption::as_str)
    }

    /// Done: the job leaves the queue. `result`, any value that JSON has, is kept if the producer asked for it (`resultTtl`).
    #[php(optional = result)]
    pub fn ack(&self, result: Option<&Zval>) -> PhpResult<()> {
        Ok(self.done(result)?)
    }

    /// Failed: gives the wait in seconds until it runs again, or null when it is in `failed` now. The job's policy decides,
    /// unless `retryAfter` (seconds) says when, `counted: false` keeps the count of failures, or `final: true` gives up.
    /// `data` or `raw`, `attempts` (failures before this one), `maxRetries` and `name` change the job before that is decided, and `headers`
    /// come to those that it has.
    #[php(optional = retryAfter)]
    #[php(defaults(counted = true, r#final = false))]
    pub fn fail(
        &self,
        error: &Zval,
        retryAfter: Option<&Zval>,
        counted: bool,
        r#final: bool,
        data: Option<&Zval>,
        attempts: Option<i64>,
        maxRetries: Option<i64>,
        raw: Option<&Zval>,
        headers: Option<&ZendHashTable>,
        name: Option<Text>,
    ) -> PhpResult<Option<f64>> {
        let of_job = Changes { data: given(data), attempts, max_retries: maxRetries, raw: given(raw), headers, name };
        let changed = of_job.of(self.envelope())?;
        Ok(self.failed(failure(given(retryAfter), counted, r#final)?, error_text(error)?, changed)?)
    }

    /// Gives it back, to be reserved again at once or after so many seconds. The reason is kept as its last error. It counts as an
    /// attempt only if `counted`.
    #[php(optional = after)]
    #[php(defaults(counted = false))]
    pub fn release(&self, after: Option<&Zval>, reason: Option<Text>, counted: bool) -> PhpResult<()> {
        Ok(self.given_back(given(after), reason, counted)?)
    }

    /// Takes a lock for this run. If another one holds it, throws `Duly\Release`, so that the job runs again after so many
    /// seconds.
    #[php(optional = ttl)]
    pub fn lock(&self, name: Text, retryAfter: &Zval, ttl: Option<&Zval>, wait: Option<&Zval>) -> PhpResult<Lock> {
        Ok(self.take_lock(name, retryAfter, ttl, wait)?)
    }

    /// Notes how far the run has come, from 0 to 1, with a text, for `find` and `peek`.
    #[php(optional = text)]
    pub fn progress(&self, fraction: &Zval, text: Option<Text>) -> PhpResult<()> {
        Ok(self.note_progress(fraction, text)?)
    }

    /// Tells the server that the run starts.
    pub fn note_start(&self) -> PhpResult<()> {
        match &self.out {
            Some(out) => Ok(out.delivery().note_start(&mut Signals)?),
            None => Ok(self.job.note_start(&mut Signals)?),
        }
    }

    /// Sets the lease to end so many seconds from now.
    #[php(optional = lease)]
    pub fn extend(&self, lease: Option<&Zval>) -> PhpResult<()> {
        Ok(self.extended(lease)?)
    }
}

impl Job {
    fn end_of_lease(&self) -> Option<f64> {
        let since = self.lease_ends_at.get()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(since.as_secs_f64())
    }

    fn done(&self, result: Option<&Zval>) -> Result<(), Fault> {
        let result = convert::result(self.job.reserved(), result)?;
        self.may_settle()?;
        match &self.out {
            Some(out) => Ok(out.delivery().ack(result)?),
            None => self.job.ack_with_data(result, &mut Signals),
        }
    }

    fn failed(&self, failed: Outcome, error: String, changed: Option<duly::Envelope>) -> Result<Option<f64>, Fault> {
        let next = self.settle(failed, &error, changed)?;
        Ok(wait_of(next))
    }

    fn given_back(&self, after: Option<&Zval>, reason: Option<Text>, counted: bool) -> Result<(), Fault> {
        let after = after.map_or(Ok(Millis::ZERO), |after| millis("after", after))?;
        let reason = utf8("reason", reason)?.unwrap_or_default();
        self.settle(Outcome::Release { after, counted }, &reason, None).map(drop)
    }

    fn note_progress(&self, fraction: &Zval, text: Option<Text>) -> Result<(), Fault> {
        let text = utf8("text", text)?.unwrap_or_default();
        self.job.progress(number("fraction", fraction)?, &text, &mut Signals)
    }

    fn extended(&self, lease: Option<&Zval>) -> Result<(), Fault> {
        let lease = lease_span(lease)?;
        let asked_at = SystemTime::now();
        self.job.extend(lease, &mut Signals)?;
        if self.lease_ends_at.get().is_some() {
            self.lease_ends_at.set(asked_at.checked_add(lease));
        }
        Ok(())
    }
}

/// What a failure changes of its job.
pub struct Changes<'a> {
    pub data: Option<&'a Zval>,
    pub attempts: Option<i64>,
    pub max_retries: Option<i64>,
    pub raw: Option<&'a Zval>,
    pub headers: Option<&'a ZendHashTable>,
    pub name: Option<Text>,
}

impl Changes<'_> {
    /// The changed envelope; nothing if it stays as it is.
    pub fn of(self, envelope: &duly::Envelope) -> Result<Option<duly::Envelope>, Fault> {
        let Self { data, attempts, max_retries, raw, headers, name } = self;
        let is_other = data.is_some() || raw.is_some() || headers.is_some() || name.is_some();
        if !is_other && attempts.is_none() && max_retries.is_none() {
            return Ok(None);
        }
        let mut changed = envelope.clone();
        if data.is_some() || raw.is_some() {
            changed.data = convert::data(data, raw)?;
        }
        if let Some(attempts) = attempts {
            changed.attempts = whole("attempts", attempts, u32::MAX.into())?;
        }
        if let Some(max_retries) = max_retries {
            changed.max_attempts = whole("maxRetries", max_retries, u32::MAX.into())?;
        }
        if headers.is_some() {
            changed.headers.extend(headers_of(headers)?);
        }
        changed.name = utf8("name", name)?.or(changed.name);
        Ok(Some(changed))
    }
}

pub fn failure(retry_after: Option<&Zval>, counted: bool, last: bool) -> Result<Outcome, Fault> {
    let after = retry_after.map(|after| millis("retryAfter", after)).transpose()?;
    Ok(Outcome::failure(after, counted, last)?)
}

pub fn wait_of(next: Next) -> Option<f64> {
    next.wait().map(Millis::as_seconds)
}

/// A text, or an exception with its causes: `DomainException: what it says at file:line; caused by ...`. What `Duly\\Retry` and
/// `Duly\\Fail` say is said alone. A message may hold any bytes, and an error must be UTF-8.
pub fn error_text(error: &Zval) -> Result<String, Fault> {
    const MOST_CAUSES: usize = 10;
    let error = error.dereference();
    if let Some(text) = error.zend_str().filter(|_| error.is_string()) {
        return Ok(String::from_utf8_lossy(text.as_bytes()).into_owned());
    }
    if !error.object().is_some_and(|object| object.instance_of(ce::throwable())) {
        let found = convert::type_name(error);
        return Err(Fault::invalid(format!("the error must be a text or a Throwable, not {found}")));
    }
    let mut text = String::new();
    let mut cause = Some(error.shallow_clone());
    for _ in 0..MOST_CAUSES {
        let Some(thrown) = cause.as_ref().and_then(Zval::object) else { break };
        if !text.is_empty() {
            text.push_str("; caused by ");
        }
        text.push_str(&description(thrown)?);
        cause = call::method(thrown, "getPrevious", Vec::new())?;
    }
    Ok(text)
}

fn description(thrown: &ZendObject) -> Result<String, Fault> {
    let class = thrown.get_class_name().unwrap_or_default();
    let text = |method| -> Result<String, Fault> {
        let said = call::method(thrown, method, Vec::new())?;
        let said = said.as_ref().and_then(Zval::zend_str);
        Ok(said.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned()).unwrap_or_default())
    };
    let message = text("getMessage")?;
    if ["Duly\\Retry", "Duly\\Fail"].contains(&class.as_str()) {
        return Ok(message);
    }
    // An anonymous class has a name with the file behind a zero byte.
    let class = class.split('\0').next().unwrap_or_default();
    let line = call::method(thrown, "getLine", Vec::new())?.and_then(|line| line.long()).unwrap_or_default();
    let colon = if message.is_empty() { "" } else { ": " };
    Ok(format!("{class}{colon}{message} at {}:{line}", text("getFile")?))
}
