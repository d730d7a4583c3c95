//! `duly.Job`: a reserved job, and what its holder says became of it.

mod methods;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use duly::worker::Interruption;
use duly::{Data, Envelope, LockOptions, Millis, Next, Outcome, Renewal, blocking};
use pyo3::PyTraverseError;
use pyo3::PyVisit;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyMappingProxy, PyString};

use crate::aio::start_lock_of;
use crate::convert::{self, Name, Text};
use crate::error::{Failure, OrRaise as _, invalid};
use crate::lock::{Lock, release_for};
use crate::queue::object;
use crate::waiting::wait;
use crate::worker::InRun;

pub(crate) enum Inner {
    Blocking(blocking::Job),
    Async(Arc<duly::Job>),
    /// A worker runs it: what its verbs say is noted, and sent when the handler has ended.
    InRun(InRun),
    /// It came from a consumer: what its verbs say is decided at once, and sent with the engine's next call.
    Out(blocking::Delivery),
}

/// What a reserved job of a sync and of an asyncio queue have in common.
#[pyclass(frozen, subclass, weakref, module = "duly")]
pub(crate) struct ReservedJob {
    inner: Inner,
    queue: Py<PyAny>,
    /// As long as this object lives.
    _renewal: Option<Renewal>,
    /// Not Python's own lock: the garbage collector looks into it.
    data: OnceLock<Py<PyAny>>,
}

impl ReservedJob {
    pub(crate) fn new(inner: Inner, queue: Py<PyAny>) -> Self {
        Self::renewed(inner, queue, None)
    }

    pub(crate) fn renewed(inner: Inner, queue: Py<PyAny>, renewal: Option<Renewal>) -> Self {
        Self { inner, queue, _renewal: renewal, data: OnceLock::new() }
    }

    pub(crate) fn job(&self) -> &duly::Job {
        match &self.inner {
            Inner::Blocking(job) => job.reserved(),
            Inner::Async(job) => job,
            Inner::InRun(run) => run.job().reserved(),
            Inner::Out(delivery) => delivery.job().reserved(),
        }
    }

    /// The same, to be held without a copy.
    pub(crate) fn shared(&self) -> Arc<duly::Job> {
        match &self.inner {
            Inner::Blocking(job) => job.shared(),
            Inner::Async(job) => Arc::clone(job),
            Inner::InRun(run) => run.job().shared(),
            Inner::Out(delivery) => delivery.job().shared(),
        }
    }

    pub(crate) fn blocking(&self) -> PyResult<&blocking::Job> {
        match &self.inner {
            Inner::Blocking(job) => Ok(job),
            Inner::InRun(run) => Ok(run.job()),
            Inner::Out(delivery) => Ok(delivery.job()),
            Inner::Async(_) => {
                Err(Failure::from(invalid("this job came from an asyncio queue: use its own verbs")).into())
            }
        }
    }

    pub(crate) fn in_run(&self) -> Option<&InRun> {
        match &self.inner {
            Inner::InRun(run) => Some(run),
            _ => None,
        }
    }

    pub(crate) fn delivery(&self) -> Option<&blocking::Delivery> {
        match &self.inner {
            Inner::Out(delivery) => Some(delivery),
            _ => None,
        }
    }

    fn said(&self) -> Option<Outcome> {
        match &self.inner {
            Inner::InRun(run) => run.said(),
            Inner::Out(delivery) => delivery.said(),
            _ => None,
        }
    }

    fn envelope(&self) -> &Envelope {
        &self.job().envelope
    }
}

#[pymethods]
impl ReservedJob {
    #[getter]
    fn id(&self) -> &str {
        self.job().id()
    }

    /// The data that was pushed, decoded on first access; the same object each time.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let data = if let Some(data) = self.data.get() {
            data
        } else {
            let made = convert::to_python(py, &self.envelope().data)?.unbind();
            self.data.get_or_init(|| made)
        };
        Ok(data.bind(py).clone())
    }

    /// The data that was pushed, byte for byte.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.envelope().data.as_bytes())
    }

    /// The complete JSON package, as an export or an older consumer reads it.
    #[getter]
    fn package<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.envelope().encode_complete())
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.envelope().name.as_deref()
    }

    #[getter]
    fn key(&self) -> Option<&str> {
        self.envelope().key.as_deref()
    }

    #[getter]
    fn priority(&self) -> u8 {
        self.envelope().priority
    }

    /// The number of this attempt, 1 for the first: one more than `attempts`.
    #[getter]
    fn attempt(&self) -> u32 {
        self.job().attempt()
    }

    /// How often it has failed so far.
    #[getter]
    fn attempts(&self) -> u32 {
        self.envelope().attempts
    }

    #[getter]
    fn max_retries(&self) -> u32 {
        self.envelope().max_attempts
    }

    /// The text of the last failure; empty if there was none.
    #[getter]
    fn error(&self) -> &str {
        &self.envelope().error
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        headers(py, self.envelope())
    }

    /// The fields of its package that duly does not know, decoded: another program or queue has written them.
    #[getter]
    fn extra<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMappingProxy>> {
        extra(py, self.envelope())
    }

    /// The fencing token of this lease, greater than that of every earlier lease of this job.
    ///
    /// Jobs that were fetched together have the same token, so compare the id too: `WHERE id = :id AND token < :token`.
    #[getter]
    fn token(&self) -> u64 {
        self.job().token()
    }

    /// How often the job came back after a worker had started it: failed, released, or its lease ended.
    #[getter]
    fn returns(&self) -> u32 {
        self.job().returns
    }

    /// Whether an earlier lease of this job ended without an answer, since it was pushed or requeued.
    ///
    /// Then its handler may have run before, to any point, also where `attempt` is 1 and `returns` is 0.
    #[getter]
    fn redelivered(&self) -> bool {
        self.job().redelivered()
    }

    /// The queue that the job came from.
    #[getter]
    fn queue(&self, py: Python<'_>) -> Py<PyAny> {
        self.queue.clone_ref(py)
    }

    /// The longest run, in seconds; None if there is no limit.
    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.envelope().timeout.map(Millis::as_seconds)
    }

    /// When it is dropped unless a run of it has started, in unix seconds; None if never.
    #[getter]
    fn expires(&self) -> Option<f64> {
        self.envelope().expires.map(Millis::as_seconds)
    }

    /// For how many seconds its result is kept; None if it is not kept.
    #[getter]
    fn result_ttl(&self) -> Option<f64> {
        self.envelope().result_ttl.map(Millis::as_seconds)
    }

    /// When it was pushed, in unix seconds by the clock of the host that pushed it.
    #[getter]
    fn pushed_at(&self) -> u64 {
        self.envelope().time
    }

    /// True once it was acked, failed or released through this object.
    #[getter]
    fn settled(&self) -> bool {
        self.said().is_some() || self.job().is_settled()
    }

    /// True once it was acked through this object.
    #[getter]
    fn acked(&self) -> bool {
        self.said() == Some(Outcome::Done) || self.job().is_acked()
    }

    /// Why its run is over though nothing was said of it: timed_out, lease_lost or stopped; None if it may go on.
    ///
    /// Only of a job of a worker or a consumer.
    #[getter]
    fn interrupted(&self) -> Option<&'static str> {
        let why = match &self.inner {
            Inner::InRun(run) => run.was_interrupted(),
            Inner::Out(delivery) => delivery.interrupted(),
            _ => None,
        };
        why.map(Interruption::as_str)
    }

    /// The data may hold the job, and a class of the user's that is in it much more.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.queue)?;
        self.data.get().map_or(Ok(()), |data| visit.call(data))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let class = slf.get_type().name()?.to_string();
        let job = slf.get();
        let name = job.name().map(|name| format!(", name {name:?}")).unwrap_or_default();
        Ok(format!(
            "<duly.{class} {:?} of queue {:?}{name}, attempt {}>",
            job.id(),
            job.job().queue().name(),
            job.attempt()
        ))
    }
}

pub(crate) fn headers<'py>(py: Python<'py>, envelope: &Envelope) -> PyResult<Bound<'py, PyDict>> {
    let headers = PyDict::new(py);
    for (name, value) in &envelope.headers {
        headers.set_item(name, value)?;
    }
    Ok(headers)
}

/// Each value as data is decoded; nobody can change it.
pub(crate) fn extra<'py>(py: Python<'py>, envelope: &Envelope) -> PyResult<Bound<'py, PyMappingProxy>> {
    let extra = PyDict::new(py);
    for field in &envelope.unknown {
        extra.set_item(&field.name, convert::to_python(py, &field.value)?)?;
    }
    Ok(PyMappingProxy::new(py, extra.as_mapping()))
}

/// A reserved job. One call settles it: ack, fail or release. Each raises LeaseLostError if the lease is lost.
///
/// In a handler of a `duly.Worker` these calls send nothing: the outcome is noted, and sent when the handler has ended.
/// There they raise LeaseLostError if the run was interrupted or the job is already settled; a lease that is lost later
/// is logged. For a job of a `duly.Consumer` it is the same, but what they say is sent soon, not at the end of a run.
#[pyclass(frozen, extends = ReservedJob, module = "duly")]
pub(crate) struct Job {}

impl Job {
    pub(crate) fn new(py: Python<'_>, job: blocking::Job, queue: Py<PyAny>) -> PyResult<Py<Self>> {
        Self::of(py, Inner::Blocking(job), queue)
    }

    /// With a lease that is renewed.
    pub(crate) fn renewed(py: Python<'_>, job: blocking::Job, lease: Duration, queue: Py<PyAny>) -> PyResult<Py<Self>> {
        let renewal = job.renew(lease).or_raise()?;
        let reserved = ReservedJob::renewed(Inner::Blocking(job), queue, Some(renewal));
        Py::new(py, PyClassInitializer::from(reserved).add_subclass(Self {}))
    }

    pub(crate) fn of(py: Python<'_>, inner: Inner, queue: Py<PyAny>) -> PyResult<Py<Self>> {
        Py::new(py, PyClassInitializer::from(ReservedJob::new(inner, queue)).add_subclass(Self {}))
    }
}

impl Job {
    fn done(slf: &Bound<'_, Self>, result: Option<Data>) -> PyResult<Py<PyAny>> {
        let reserved = slf.as_super().get();
        match &reserved.inner {
            Inner::InRun(run) => run.note_done(result).map_err(Failure::from)?,
            Inner::Out(delivery) => delivery.ack(result).map_err(Failure::from)?,
            _ => {
                let job = reserved.blocking()?;
                wait(slf.py(), |signals| job.ack_with_data(result, signals))?;
            }
        }
        Ok(slf.py().None())
    }

    fn settle(
        slf: &Bound<'_, Self>,
        outcome: Outcome,
        error: String,
        changed: Option<Envelope>,
        finish: impl FnOnce(Python<'_>, Next) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let reserved = slf.as_super().get();
        let next = match (&reserved.inner, changed) {
            (Inner::InRun(run), changed) => run.note(outcome, error, changed).map_err(Failure::from)?,
            (Inner::Out(delivery), changed) => delivery.settle(outcome, &error, changed).map_err(Failure::from)?,
            (_, None) => {
                let job = reserved.blocking()?;
                wait(slf.py(), |signals| job.settle(outcome, &error, signals))?
            }
            (_, Some(mut changed)) => {
                changed.error = error;
                let job = reserved.blocking()?;
                wait(slf.py(), |signals| job.settle_rewritten(outcome, changed, signals))?
            }
        };
        finish(slf.py(), next)
    }

    fn take_lock(
        slf: &Bound<'_, Self>,
        name: String,
        options: LockOptions,
        retry_after: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let reserved = slf.as_super().get();
        let job = reserved.blocking()?;
        // Other handlers of the loop run while it waits.
        if reserved.in_run().is_some() && is_on_a_loop(slf.py())? {
            return start_lock_of(retry_after, job.lock_in_background(name, options).or_raise()?);
        }
        match wait(slf.py(), |signals| job.lock(&name, &options, signals))? {
            Ok(lock) => object(slf.py(), Lock::new(lock)),
            Err(taken) => Err(release_for(retry_after, &taken)?),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "the calls of asyncio take it with them")]
    fn note_progress(slf: &Bound<'_, Self>, fraction: f64, text: String) -> PyResult<Py<PyAny>> {
        let job = slf.as_super().get().blocking()?;
        wait(slf.py(), |signals| job.progress(fraction, &text, signals)).map(|()| slf.py().None())
    }

    fn tell_start(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let reserved = slf.as_super().get();
        if let Some(delivery) = reserved.delivery() {
            return wait(slf.py(), |signals| delivery.note_start(signals)).map(|()| slf.py().None());
        }
        let job = reserved.blocking()?;
        wait(slf.py(), |signals| job.note_start(signals)).map(|()| slf.py().None())
    }

    fn set_lease(slf: &Bound<'_, Self>, lease: Duration) -> PyResult<Py<PyAny>> {
        let job = slf.as_super().get().blocking()?;
        wait(slf.py(), |signals| job.extend(lease, signals)).map(|()| slf.py().None())
    }
}

/// Is this the thread of an event loop that runs?
fn is_on_a_loop(py: Python<'_>) -> PyResult<bool> {
    Ok(!py.import("asyncio")?.call_method0("_get_running_loop")?.is_none())
}

/// What a job gives, of which nothing said is `null`.
pub(crate) fn result_of(job: &duly::Job, result: Option<&Bound<'_, PyAny>>) -> Result<Option<Data>, Failure> {
    let about = |error: duly::Error| error.during("ack").in_queue(job.queue().name()).of_job(job.id());
    Ok(result.map_or(Ok(None), |result| convert::result(job, result)).map_err(about)?)
}

/// A number; the engine says which ones it takes.
pub(crate) fn fraction_of(fraction: &Bound<'_, PyAny>) -> Result<f64, Failure> {
    let refused = || invalid(format!("progress is a number from 0 to 1, not {}", convert::type_name(fraction)));
    if fraction.is_instance_of::<PyBool>() {
        return Err(refused().into());
    }
    Ok(fraction.extract().map_err(|_| refused())?)
}

pub(crate) fn extension(lease: Option<&Bound<'_, PyAny>>) -> Result<Duration, Failure> {
    lease.map_or(Ok(duly::DEFAULT_LEASE), convert::lease)
}

/// What a failure changes of its job.
pub(crate) struct Changes<'a, 'py> {
    pub(crate) data: Option<Bound<'py, PyAny>>,
    pub(crate) attempts: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_retries: Option<&'a Bound<'py, PyAny>>,
    pub(crate) headers: Option<&'a Bound<'py, PyAny>>,
    pub(crate) name: Option<Text<Name>>,
}

impl Changes<'_, '_> {
    /// The changed envelope; nothing if it stays as it is.
    pub(crate) fn of(self, job: &ReservedJob) -> Result<Option<Envelope>, Failure> {
        let Self { data, attempts, max_retries, headers, name } = self;
        if data.is_none() && attempts.is_none() && max_retries.is_none() && headers.is_none() && name.is_none() {
            return Ok(None);
        }
        let mut changed = job.envelope().clone();
        if let Some(data) = data {
            changed.data = Data::from_json(convert::to_json(&data)?, usize::MAX)?;
        }
        if let Some(attempts) = attempts {
            changed.attempts = convert::whole("attempts", attempts, 0..=u32::MAX.into())?;
        }
        if let Some(max_retries) = max_retries {
            changed.max_attempts = convert::whole("max_retries", max_retries, 0..=u32::MAX.into())?;
        }
        if let Some(headers) = headers {
            changed.headers.extend(convert::headers(headers)?);
        }
        if let Some(name) = name {
            changed.name = Some(name.into_string());
        }
        Ok(Some(changed))
    }
}

/// The default of an argument of which None is a value.
pub(crate) fn unchanged<'py>() -> Option<Bound<'py, PyAny>> {
    None
}

#[expect(clippy::unnecessary_wraps, reason = "the form that pyo3 calls")]
pub(crate) fn given<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(Some(value.clone()))
}

pub(crate) fn release(after: Option<&Bound<'_, PyAny>>, counted: bool) -> Result<Outcome, Failure> {
    let after = after.map_or(Ok(Millis::ZERO), |after| convert::span("after", after))?;
    Ok(Outcome::Release { after, counted })
}

pub(crate) fn failure(retry_after: Option<&Bound<'_, PyAny>>, counted: bool, last: bool) -> Result<Outcome, Failure> {
    let after = retry_after.map(|after| convert::span("retry_after", after)).transpose()?;
    Ok(Outcome::failure(after, counted, last)?)
}

pub(crate) fn wait_of(next: Next) -> Option<f64> {
    next.wait().map(Millis::as_seconds)
}

/// A text, or an exception as `ValueError: what it says`.
pub(crate) fn error_text(error: &Bound<'_, PyAny>) -> Result<String, Failure> {
    if let Ok(text) = error.cast::<PyString>() {
        return Ok(text.to_string_lossy().into_owned());
    }
    if error.is_instance_of::<PyBaseException>() {
        let text = error.str()?;
        let class = convert::type_name(error);
        let said = text.to_string_lossy();
        return Ok(if said.is_empty() { class } else { format!("{class}: {said}") });
    }
    Err(invalid(format!("the error must be a text or an exception, not {}", convert::type_name(error))).into())
}
