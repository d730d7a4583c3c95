//! `duly._core.Executor`: runs one handler at a time for a worker, in a thread or on an event loop.
//!
//! The way from one job to the next keeps the GIL and waits for nothing as long as jobs are there.

use std::ffi::c_ulong;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duly::blocking::{self, NextRun, Uninterrupted, process};
use duly::worker::{Ended, Interruption, outcome_of, words_of};
use duly::{Error, Millis, Next};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::Queues;
use super::interruption::{self, A_PAUSE, Found, Looks, Uncollected};
use super::run::InRun;
use crate::convert;
use crate::error::OrRaise as _;
use crate::job::{Inner, Job};
use crate::waiting::{raise_in, this_thread, wait};

/// One wait for a job; another follows.
const A_WAIT: Duration = Duration::from_secs(3600);

/// How often in one call others get the GIL, to see whether a thread stands still: more than it takes where that does.
const MOST_PAUSES: u32 = 4;

const BROKE_OFF: &str = "the run broke off";

/// Runs one handler at a time, in a thread or on an event loop. A worker has `concurrency` of them.
#[pyclass(frozen, module = "duly._core")]
pub(crate) struct Executor {
    to_engine: Arc<blocking::Executor>,
    queues: Queues,
    /// A forked child has no engine.
    pid: u32,
    /// Never held while Python code runs.
    current: Mutex<Current>,
}

/// The run that has not ended.
#[derive(Default)]
struct Current {
    job: Option<Py<Job>>,
    /// The thread whose handler may be interrupted.
    thread: Option<c_ulong>,
    /// An exception is on its way to that thread, or was raised there.
    interrupting: bool,
    /// What was seen of that thread, if its run is to be interrupted. Never dropped while this is locked: that may be
    /// Python code.
    looks: Option<Looks>,
}

/// What became of one try to interrupt a run.
enum Tried {
    /// False if there is no such thread.
    Raised(bool),
    Not(Found),
}

/// What became of a job: ack, retry, failed or release, and after how long it runs again.
type Settled = Option<(&'static str, Option<f64>)>;

#[pymethods]
impl Executor {
    /// Its number, as events give it.
    #[getter]
    fn number(&self) -> u64 {
        self.to_engine.number()
    }

    /// The job that it runs.
    #[getter]
    fn job(&self, py: Python<'_>) -> Option<Py<Job>> {
        self.lock().job.as_ref().map(|job| job.clone_ref(py))
    }

    /// Wait for the next job and return it; None if there will be no more. A run that was not ended has failed.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<Job>>> {
        if self.is_parents() {
            return Ok(None);
        }
        // It raised where no handler runs; an interrupted run is settled.
        let _ = self.finish(py, false, || Ended::failed(BROKE_OFF));
        loop {
            // While jobs are there, others wait for the GIL no shorter than in any Python program.
            let mut next = self.now();
            if matches!(next, NextRun::None) {
                next = wait(py, |signals| self.to_engine.next(A_WAIT, signals))?;
            }
            match next {
                NextRun::Run(run) => {
                    if let Some(job) = self.begin(py, run, Some(this_thread()))? {
                        return Ok(Some(job));
                    }
                }
                NextRun::None => {}
                NextRun::Over => return Ok(None),
            }
        }
    }

    /// Keep the handler's result, if the producer wants it and the handler has not settled the job.
    ///
    /// Hooks may follow: what becomes of the job is known.
    fn keep(&self, py: Python<'_>, result: &Bound<'_, PyAny>) -> PyResult<()> {
        self.kept(py, result, InRun::decide)
    }

    /// End the run as done with this result, or as the handler settled it; return the next job as `next` does.
    fn done(&self, py: Python<'_>, result: &Bound<'_, PyAny>) -> PyResult<Option<Py<Job>>> {
        if !self.is_parents() {
            self.kept(py, result, |_| ())?;
            self.finish(py, false, || Ended::DONE).or_raise()?;
        }
        self.next(py)
    }

    /// End the run as done or as the handler settled it; return the outcome and the wait.
    ///
    /// The outcome is ack, retry, failed or release. Returns None if the run was interrupted. `heard`: if the job has
    /// failed for good, its hooks were called.
    #[pyo3(signature = (heard=false))]
    fn end(&self, py: Python<'_>, heard: bool) -> PyResult<Settled> {
        if self.is_parents() {
            return Ok(None);
        }
        Ok(self.finish(py, heard, || Ended::DONE).or_raise()?.map(|next| {
            let (outcome, after) = outcome_of(next);
            (outcome, after.map(Millis::as_seconds))
        }))
    }

    /// Return how loudly a log says an outcome, `debug` to `error`, and its words behind the name of the job.
    #[staticmethod]
    fn says(outcome: &str, after: Option<f64>) -> PyResult<(&'static str, String)> {
        let after = after.map(Millis::from_seconds).transpose().or_raise()?;
        let (level, words) = words_of(outcome, after);
        Ok((level.as_str(), words))
    }

    /// Return the next job if there is one now, to run on an event loop. A run that was not ended has failed.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<Job>>> {
        if self.is_parents() {
            return Ok(None);
        }
        let _ = self.finish(py, false, || Ended::failed(BROKE_OFF));
        while let NextRun::Run(run) = self.now() {
            if let Some(job) = self.begin(py, run, None)? {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    /// Allow interruptions of this thread from now on; False if the run was already interrupted.
    fn enter(&self, py: Python<'_>) -> bool {
        let mut current = self.lock();
        current.thread = Some(this_thread());
        !current.was_interrupted(py)
    }

    /// Allow no more interruptions, as the handler has ended; False if the run was interrupted.
    fn leave(&self, py: Python<'_>) -> bool {
        let mut current = self.lock();
        current.leave();
        !current.was_interrupted(py)
    }

    /// Why the run was interrupted: timed_out, lease_lost or stopped; None if it was not.
    #[getter]
    fn interrupted(&self, py: Python<'_>) -> Option<&'static str> {
        self.lock()
            .job
            .as_ref()
            .and_then(|job| in_run(job.bind(py)).and_then(InRun::was_interrupted))
            .map(Interruption::as_str)
    }

    /// Return whether the thread of this run is in an `except` or `finally` to which such an exception has led.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes it")]
    fn handles(&self, py: Python<'_>, run: u64, exception: Bound<'_, PyType>) -> PyResult<bool> {
        let Some(thread) = self.lock().thread_of(py, run) else { return Ok(false) };
        let _uncollected = Uncollected::begin(py);
        interruption::handles(py, thread, &exception)
    }

    /// Raise the exception in the thread of this run; False if there is no such thread.
    ///
    /// None, and nothing is raised, while the thread is where it could do harm: ask again soon. `places` is what is
    /// known of Python's code, a `duly._places.Places`; None raises it wherever the thread is.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes it")]
    fn interrupt(
        slf: Bound<'_, Self>,
        run: u64,
        exception: Bound<'_, PyType>,
        places: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Option<bool>> {
        if !exception.is_subclass_of::<PyBaseException>()? {
            return Ok(Some(false));
        }
        let mut pauses = 0..MOST_PAUSES;
        loop {
            match (slf.get().try_to_interrupt(run, &exception, places.as_ref())?, &places) {
                (Tried::Raised(is_raised), _) => return Ok(Some(is_raised)),
                (Tried::Not(Found::Unread(code)), Some(places)) => {
                    places.as_any().get_item(code)?; // reads it
                }
                (Tried::Not(Found::MayStand), _) if pauses.next().is_some() => {
                    exception.py().detach(|| std::thread::sleep(A_PAUSE));
                }
                (Tried::Not(Found::InALoop(code)), _) => return Self::raise_in_loop(&slf, run, &exception, &code),
                _ => return Ok(None),
            }
        }
    }

    /// Return whether this thread is in that run.
    fn runs(&self, py: Python<'_>, run: u64) -> bool {
        let current = self.lock();
        current.thread_of(py, run).is_some_and(|thread| thread == this_thread())
    }
}

impl Executor {
    pub(super) fn new(executor: blocking::Executor, queues: Queues) -> Self {
        Self { to_engine: Arc::new(executor), queues, pid: process::id(), current: Mutex::default() }
    }

    fn try_to_interrupt(
        &self,
        run: u64,
        exception: &Bound<'_, PyType>,
        places: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Tried> {
        let py = exception.py();
        let (thread, looks) = {
            let mut current = self.lock();
            let Some(thread) = current.thread_of(py, run) else { return Ok(Tried::Raised(false)) };
            (thread, current.looks.take())
        };
        let mut looks = looks.map_or_else(|| Looks::begin(run), |looks| looks.of(py, run));
        let uncollected = Uncollected::begin(py);
        let found = places.map_or(Ok(Found::MayCome), |places| looks.look(py, thread, places));
        let is_raised = {
            let mut current = self.lock();
            // No Python code has run since the end of the look, so the thread stays where it is until it has the
            // exception, or is in C code.
            let is_raised = matches!(found, Ok(Found::MayCome)) && current.thread_of(py, run) == Some(thread) && {
                current.interrupting = true;
                raise_in(thread, Some(exception))
            };
            looks.has_raised = is_raised;
            // The run may have ended if the program's own code ran in the look: then the next one drops them.
            current.looks = Some(looks);
            is_raised
        };
        drop(uncollected);
        Ok(match found? {
            Found::MayCome => Tried::Raised(is_raised),
            found => Tried::Not(found),
        })
    }

    /// Nothing if it is to be tried again.
    fn raise_in_loop(
        slf: &Bound<'_, Self>,
        run: u64,
        exception: &Bound<'_, PyType>,
        code: &Py<PyAny>,
    ) -> PyResult<Option<bool>> {
        let py = slf.py();
        let Some(thread) = slf.get().lock().thread_of(py, run) else { return Ok(Some(false)) };
        let loops = py.import(pyo3::intern!(py, "duly._loops"))?;
        let is_raised = loops.call_method1(pyo3::intern!(py, "raise_in_loop"), (slf, run, thread, exception, code))?;
        Ok(is_raised.is_truthy()?.then(|| {
            if let Some(looks) = &mut slf.get().lock().looks {
                looks.has_raised = true;
            }
            true
        }))
    }

    fn kept(&self, py: Python<'_>, result: &Bound<'_, PyAny>, then: impl FnOnce(&InRun)) -> PyResult<()> {
        let job = self.lock().job.as_ref().map(|job| job.clone_ref(py));
        let Some(run) = job.as_ref().and_then(|job| in_run(job.bind(py))) else { return Ok(()) };
        let reserved = run.job().reserved();
        if reserved.keeps_result() && run.said().is_none() {
            run.keep(convert::result(reserved, result).or_raise()?);
        }
        then(run);
        Ok(())
    }

    fn is_parents(&self) -> bool {
        self.pid != process::id()
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> NextRun {
        self.to_engine.next(Duration::ZERO, &mut Uninterrupted).unwrap_or(NextRun::None)
    }

    /// Nothing if the run was interrupted before it was one here: nobody would end its handler.
    fn begin(&self, py: Python<'_>, run: blocking::Run, thread: Option<c_ulong>) -> PyResult<Option<Py<Job>>> {
        let name = run.job().queue().name();
        // A job comes from one of the queues that the engine was started with.
        let index = self.queues.iter().position(|(queue, _)| queue == name).unwrap_or_default();
        let queue = self.queues[index].1.clone_ref(py).into_any();
        let job = Job::of(py, Inner::InRun(InRun::new(run, Arc::clone(&self.to_engine))), queue)?;
        {
            let mut current = self.lock();
            (current.job, current.thread, current.interrupting) = (Some(job.clone_ref(py)), thread, false);
        }
        // Who interrupts it from here on finds it; who did before has marked it.
        if self.lock().was_interrupted(py) {
            let _ = self.finish(py, false, || Ended::failed(BROKE_OFF));
            return Ok(None);
        }
        Ok(Some(job))
    }

    /// Ends the run, if there is one. Behind this nothing of it interrupts the thread.
    fn finish(&self, py: Python<'_>, heard: bool, otherwise: impl FnOnce() -> Ended) -> Result<Option<Next>, Error> {
        let (job, looks) = {
            let mut current = self.lock();
            current.leave();
            (current.job.take(), current.looks.take())
        };
        let Some(job) = job else { return Ok(None) };
        let Some(run) = in_run(job.bind(py)) else { return Ok(None) };
        let next = run.end(heard, otherwise);
        drop(looks); // the frames of the run, in its own thread
        next
    }
}

impl Current {
    /// Takes back an exception that has not been raised yet.
    fn leave(&mut self) {
        if let Some(thread) = self.thread.take()
            && std::mem::take(&mut self.interrupting)
        {
            raise_in(thread, None);
        }
    }

    /// In which this run is, if it is the current one.
    fn thread_of(&self, py: Python<'_>, run: u64) -> Option<c_ulong> {
        let current = self.job.as_ref().and_then(|job| in_run(job.bind(py)));
        self.thread.filter(|_| current.is_some_and(|current| current.number() == run))
    }

    fn was_interrupted(&self, py: Python<'_>) -> bool {
        let run = self.job.as_ref().and_then(|job| in_run(job.bind(py)));
        run.is_some_and(|run| run.was_interrupted().is_some())
    }
}

fn in_run<'a>(job: &'a Bound<'_, Job>) -> Option<&'a InRun> {
    job.as_super().get().in_run()
}
