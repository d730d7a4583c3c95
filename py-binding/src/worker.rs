//! `duly._core.WorkerEngine`: fetches, renews and settles on a native thread, whatever Python does. `duly.Worker` runs the
//! handlers.

mod executor;
mod interruption;
mod run;
mod watchdog;

use std::sync::Arc;
use std::time::Duration;

use duly::OwnSchedules;
use duly::blocking;
use duly::blocking::process;
use duly::worker::{FailedJob, MAX_CONCURRENCY, WorkerSettings};
use pyo3::prelude::*;

use crate::client::Client;
use crate::convert::{self, Name, Text};
use crate::error::{Failure, OrRaise as _};
use crate::job::{Inner, Job};
use crate::queue::Queue;
use crate::schedules::list_of;
use crate::select;
use crate::waiting::wait as waited;

pub(crate) use executor::Executor;
pub(crate) use run::InRun;
use watchdog::Watchdog;

/// The queues of a worker, by name.
type Queues = Arc<Vec<(String, Py<Queue>)>>;

/// The engine of `duly.Worker`: fetches jobs, renews leases and sends outcomes on a native thread.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct WorkerEngine {
    engine: Arc<blocking::Engine>,
    watchdog: Arc<Watchdog>,
    queues: Queues,
}

#[pymethods]
impl WorkerEngine {
    #[new]
    #[pyo3(signature = (
        client, queues, *, concurrency, lease, grace, max_jobs=None, name=None, prefetch=None, timeout=None,
        schedules=Vec::new(), patience=None, signals_seen=None
    ))]
    #[allow(clippy::too_many_arguments)] // they have names
    fn new(
        client: &Bound<'_, Client>,
        queues: &Bound<'_, PyAny>,
        concurrency: &Bound<'_, PyAny>,
        lease: &Bound<'_, PyAny>,
        grace: &Bound<'_, PyAny>,
        max_jobs: Option<&Bound<'_, PyAny>>,
        name: Option<Text<Name>>,
        prefetch: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
        schedules: Vec<(String, String, Bound<'_, PyAny>)>,
        patience: Option<f64>,
        signals_seen: Option<u64>,
    ) -> PyResult<Self> {
        let py = client.py();
        let client = client.get().client();
        let limits = Limits { max_jobs, prefetch, timeout };
        let mut settings = settings(queues, concurrency, lease, grace, name, limits)?;
        for (queue, owner, list) in schedules {
            settings.schedules.push(OwnSchedules { queue, owner, list: list_of(&list)? });
        }
        let engine = Arc::new(py.detach(|| blocking::Engine::start(client, settings)).or_raise()?);
        let watchdog = Watchdog::start(&engine, patience.map(Duration::from_secs_f64), signals_seen).or_raise()?;
        let with_queue = |queue: &blocking::Queue| -> PyResult<_> {
            Ok((queue.name().to_owned(), Py::new(py, Queue::new(queue.clone()))?))
        };
        let queues = engine.queues().iter().map(with_queue).collect::<PyResult<_>>()?;
        Ok(Self { engine, watchdog, queues: Arc::new(queues) })
    }

    /// Raise InvalidArgumentError if these settings are wrong; starts nothing.
    #[staticmethod]
    #[pyo3(signature = (
        client, queues, *, concurrency, lease, grace, max_jobs=None, name=None, prefetch=None, timeout=None
    ))]
    #[allow(clippy::too_many_arguments)] // they have names
    fn check(
        client: &Bound<'_, Client>,
        queues: &Bound<'_, PyAny>,
        concurrency: &Bound<'_, PyAny>,
        lease: &Bound<'_, PyAny>,
        grace: &Bound<'_, PyAny>,
        max_jobs: Option<&Bound<'_, PyAny>>,
        name: Option<Text<Name>>,
        prefetch: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let limits = Limits { max_jobs, prefetch, timeout };
        let settings = settings(queues, concurrency, lease, grace, name, limits)?;
        blocking::Engine::check(client.get().client(), &settings).or_raise()
    }

    /// Return a new executor, in which one handler at a time runs.
    fn executor(&self) -> Executor {
        Executor::new(self.engine.executor(), Arc::clone(&self.queues))
    }

    /// Start no more jobs, and let running ones finish within the grace; a second call ends the grace.
    fn stop(&self) {
        self.engine.stop();
    }

    /// Start no more jobs, and end when the running ones have, however long they take.
    fn retire(&self) {
        self.engine.retire();
    }

    /// Count these signals from now on, which must have handlers; return how many came before.
    #[staticmethod]
    fn listen(signals: Vec<i64>) -> u64 {
        let before = process::came();
        for signal in signals {
            process::listen(signal);
        }
        before
    }

    /// Let these signals end the process at once and quietly, also in C code, until they get other handlers.
    #[staticmethod]
    fn leave_at(signals: Vec<i64>) {
        signals.into_iter().for_each(process::leave_at);
    }

    /// Handle the signals that came since the last call: stop once for each.
    fn handle_signals(&self) {
        self.watchdog.handle_signals(&self.engine);
    }

    /// Return the next event; None if there is none within the wait, or if the engine has ended.
    fn event(&self, py: Python<'_>, wait: f64) -> PyResult<Option<WorkerEvent>> {
        let wait = Duration::from_secs_f64(wait);
        let event = waited(py, |signals| {
            let event = self.engine.event(wait, signals);
            // Behind this the GIL is waited for.
            self.watchdog.handing_over(true);
            event
        });
        self.watchdog.handing_over(false);
        let event = event?;
        Ok(event.map(|event| WorkerEvent::new(&event)))
    }

    /// Return the failed job whose hooks are to be called now, and its error.
    ///
    /// None for any other event, and if the engine has ended: then another worker calls them.
    fn failed(&self, py: Python<'_>, event: &WorkerEvent) -> PyResult<Option<(Py<Job>, String)>> {
        let Some(failed) = event.failed.as_ref().filter(|failed| self.engine.may_call_hooks(failed)) else {
            return Ok(None);
        };
        let of_it = |(name, _): &&(String, Py<Queue>)| name == failed.job.queue().name();
        let queue = self.queues.iter().find(of_it);
        let Some((job, (_, queue))) = self.engine.failed_job(failed).zip(queue) else {
            self.engine.leave_hooks(failed);
            return Ok(None);
        };
        let job = Job::of(py, Inner::Blocking(job), queue.clone_ref(py).into_any())?;
        Ok(Some((job, failed.error().to_owned())))
    }

    /// Confirm that the hooks of the job of this event were called.
    fn heard(&self, event: &WorkerEvent) {
        if let Some(failed) = &event.failed {
            self.engine.heard(failed);
        }
    }

    /// Leave the job of this event to another worker: its hooks were not called to their end.
    fn leave_hooks(&self, event: &WorkerEvent) {
        if let Some(failed) = &event.failed {
            self.engine.leave_hooks(failed);
        }
    }

    /// Return its report once it has ended; None if it has not within the wait. Raises the error that ended it.
    fn ended(&self, py: Python<'_>, wait: f64) -> PyResult<Option<WorkerReport>> {
        let wait = Duration::from_secs_f64(wait);
        let report = waited(py, |signals| self.engine.ended(wait, signals))?;
        Ok(report.map(WorkerReport::from))
    }

    /// Return the exit status of a worker that stopped after these signals; `is_stuck`: a handler did not end.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes it")]
    fn exit_code(&self, signals: Vec<i32>, is_stuck: bool) -> i32 {
        process::exit_code(&self.engine, is_stuck, &signals)
    }

    /// Return what it has done so far.
    fn report(&self) -> WorkerReport {
        self.engine.report().into()
    }
}

pub(crate) fn settings(
    queues: &Bound<'_, PyAny>,
    concurrency: &Bound<'_, PyAny>,
    lease: &Bound<'_, PyAny>,
    grace: &Bound<'_, PyAny>,
    name: Option<Text<Name>>,
    limits: Limits<'_, '_>,
) -> Result<WorkerSettings, Failure> {
    let (names, selection) = select::names(queues)?;
    let mut settings = WorkerSettings::new(names);
    settings.selection = selection;
    settings.concurrency = convert::whole("concurrency", concurrency, 1..=MAX_CONCURRENCY as u64)?;
    settings.lease = convert::duration("lease", lease)?;
    settings.grace = convert::duration("grace", grace)?;
    let Limits { max_jobs, prefetch, timeout } = limits;
    settings.max_jobs = max_jobs.map(|count| convert::whole("max_jobs", count, 1..=u64::MAX)).transpose()?;
    settings.prefetch = prefetch.map(|most| convert::whole("prefetch", most, 0..=1000)).transpose()?;
    settings.timeout = timeout.map(|timeout| convert::duration("timeout", timeout)).transpose()?;
    settings.name = name.map(Text::into_string);
    settings.language = "python";
    Ok(settings)
}

/// What a worker or a consumer does at most, as Python says it.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a, 'py> {
    pub(crate) max_jobs: Option<&'a Bound<'py, PyAny>>,
    pub(crate) prefetch: Option<&'a Bound<'py, PyAny>>,
    pub(crate) timeout: Option<&'a Bound<'py, PyAny>>,
}

/// The work of a worker in numbers, as `Worker.run` returns it.
#[pyclass(frozen, get_all, eq, module = "duly")]
#[derive(PartialEq)]
pub(crate) struct WorkerReport {
    acked: u64,
    failed: u64,
    released: u64,
    lost: u64,
    expired: u64,
}

impl From<duly::worker::WorkerReport> for WorkerReport {
    fn from(report: duly::worker::WorkerReport) -> Self {
        let duly::worker::WorkerReport { acked, failed, released, lost, expired, .. } = report;
        Self { acked, failed, released, lost, expired }
    }
}

#[pymethods]
impl WorkerReport {
    fn __repr__(&self) -> String {
        let Self { acked, failed, released, lost, expired } = self;
        format!(
            "<duly.WorkerReport: {acked} acked, {failed} failed, {released} released, {lost} lost, {expired} expired>"
        )
    }
}

/// An event of the engine, which the worker logs.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct WorkerEvent {
    /// Of an interruption: timed_out, lease_lost or stopped.
    #[pyo3(get)]
    why: Option<&'static str>,
    #[pyo3(get)]
    text: String,
    #[pyo3(get)]
    is_warning: bool,
    #[pyo3(get)]
    is_error: bool,
    /// Are hooks to be called for its job, unless another worker does that?
    #[pyo3(get)]
    is_claimed: bool,
    #[pyo3(get)]
    queue: Option<String>,
    /// Of the job that it is about.
    #[pyo3(get)]
    id: Option<String>,
    #[pyo3(get)]
    name: Option<String>,
    #[pyo3(get)]
    attempt: Option<u32>,
    /// Of an interruption: which executor, and which run of it.
    #[pyo3(get)]
    executor: Option<u64>,
    #[pyo3(get)]
    run: Option<u64>,
    /// Of a failure that no hook has heard of.
    failed: Option<Arc<FailedJob>>,
}

impl WorkerEvent {
    pub(crate) fn new(event: &duly::worker::WorkerEvent) -> Self {
        use duly::worker::{EventLevel, WorkerEvent as Event};
        let job = event.job();
        let common = Self {
            why: None,
            text: event.to_string(),
            is_warning: event.level() != EventLevel::Info,
            is_error: event.level() == EventLevel::Error,
            queue: event.queue().map(str::to_owned),
            is_claimed: matches!(event, Event::Failed { failed: Some(_), .. }),
            id: job.map(|job| job.id.clone()),
            name: job.and_then(|job| job.name.clone()),
            attempt: job.map(|job| job.attempt),
            executor: None,
            run: None,
            failed: None,
        };
        match event {
            Event::Interrupted { executor, run, why, .. } => {
                Self { executor: Some(*executor), run: Some(*run), why: Some(why.as_str()), ..common }
            }
            Event::Failed { failed, .. } => Self { failed: failed.clone(), ..common },
            _ => common,
        }
    }
}
