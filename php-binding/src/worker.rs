//! `Duly\WorkerEngine`: the engine of `Duly\Worker`, which is PHP. The engine's threads never call PHP; the worker pulls.

pub mod events;
mod waiting;
mod watchdog;
pub mod watched;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use duly::blocking::{self, Engine, Executor, NextRun, Run, Uninterrupted, process};
use duly::worker::{AboutJob, Ended, Interruption, WorkerSettings, outcome_of, words_of};
use duly::{Error, ErrorKind, Millis, Outcome};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::client::Client;
use crate::convert::{self, Text, given, millis, span, span_or_interval, utf8, whole};
use crate::error::Fault;
use crate::job::{Changes, Job, error_text, failure, wait_of};
use crate::record::of_report;
use crate::schedules::own_schedules;
use crate::select;
use events::FailedJobs;
use waiting::{UntilEvent, Waits};
use watchdog::Watchdog;
use watched::Since;

/// Fetches ahead, renews leases and settles on a native thread, for one process that runs one job at a time. Internal.
#[php_class]
#[php(name = "Duly\\WorkerEngine")]
#[php(flags = ClassFlags::Final)]
pub struct WorkerEngine {
    pid: u32,
    /// Left alone in a forked child: the thread is the parent's, and may have held any lock at the fork.
    inner: ManuallyDrop<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    executor: Rc<Executor>,
    watchdog: Arc<Watchdog>,
    /// The run that PHP is busy with.
    current: RefCell<Option<Run>>,
    /// Whether that run has worked.
    has_worked: Cell<bool>,
    failed: FailedJobs,
}

/// How long the last outcome may take.
const FAREWELL: Duration = Duration::from_secs(2);
const ENDED_IN_RUN: &str = "the process ended during the run";

impl Drop for WorkerEngine {
    fn drop(&mut self) {
        if self.pid == process::id() {
            self.inner.watchdog.end();
            let was_broken_off = self.inner.break_off();
            // The thread beside it may keep the engine for a moment: nothing is to start, and what it holds is to go back.
            self.inner.engine.stop();
            self.inner.engine.stop();
            if let Some((job, has_worked)) = was_broken_off {
                // If it fails, the end of the lease counts the run.
                let _ = self.inner.engine.ended(FAREWELL, &mut Uninterrupted);
                if !has_worked {
                    process::last_words(format!(
                        "duly: {job}: the process ended during its run, which counts as failed\n"
                    ));
                }
            }
            // SAFETY: dropped here only, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

impl WorkerEngine {
    /// Nothing in a process that was forked from the engine's.
    fn inner(&self) -> Option<&Inner> {
        (self.pid == process::id()).then_some(&*self.inner)
    }

    /// The same for a call of the worker's own code, between what it calls of the program.
    fn called(&self) -> Option<&Inner> {
        self.inner().inspect(|inner| inner.watchdog.sign_of_life())
    }
}

impl Inner {
    /// PHP is gone, and with it the run that is under way, if none of its shutdown functions has ended that: the program's own may
    /// have ended them by `exit`, an exception or a second fatal error. Gives the job, and whether its run had worked.
    fn break_off(&self) -> Option<(AboutJob, bool)> {
        let run = self.current.try_borrow_mut().ok()?.take()?;
        let is_over = run.job().reserved().is_settled() || self.executor.was_interrupted(&run).is_some();
        if is_over || self.engine.is_over() {
            return None;
        }
        let has_worked = self.has_worked.get();
        let job = run.about();
        let ended = || if has_worked { Ended::DONE } else { Ended::failed(ENDED_IN_RUN) };
        // No hook was called: another worker does it.
        self.executor.end(&run, false, ended).ok()?.map(|_| (job, has_worked))
    }

    /// Ends the run that is under way, if there is one: as was noted, else as one that worked.
    fn done(&self) -> Result<(), Fault> {
        self.has_worked.set(false);
        if let Some(run) = self.current.take() {
            self.watchdog.running(0);
            self.executor.end(&run, true, || Ended::DONE)?;
        }
        Ok(())
    }

    /// Does the producer want what the run gives? Seldom: nothing is copied to find it out.
    fn keeps_result(&self) -> bool {
        self.current.borrow().as_ref().is_some_and(|run| run.job().reserved().keeps_result())
    }

    /// The job of the run that is under way. PHP code that is called may come back here: nothing is borrowed meanwhile.
    fn job(&self) -> Option<blocking::Job> {
        self.current.borrow().as_ref().map(|run| run.job().clone())
    }
}

#[php_impl]
impl WorkerEngine {
    /// Starts the engine. A run that was interrupted has `patience` seconds to end, then the process ends.
    pub fn __construct(
        client: &Client,
        queues: &ZendHashTable,
        lease: &Zval,
        grace: &Zval,
        patience: &Zval,
        name: Option<Text>,
        maxJobs: Option<i64>,
        schedules: Option<&ZendHashTable>,
        timeout: Option<&Zval>,
        prefetch: Option<i64>,
    ) -> PhpResult<Self> {
        let start = || -> Result<Self, Fault> {
            let settings = settings(queues, lease, grace, name, maxJobs, schedules, timeout, prefetch)?;
            let grace = settings.grace;
            let patience = millis("patience", patience)?.to_duration();
            let engine = Arc::new(Engine::start(&*client.blocking()?, settings)?);
            let watchdog = Watchdog::start(&engine, grace, patience)?;
            let executor = Rc::new(engine.executor());
            let inner = ManuallyDrop::new(Inner {
                engine,
                executor,
                watchdog,
                current: RefCell::default(),
                has_worked: Cell::default(),
                failed: FailedJobs::default(),
            });
            Ok(Self { pid: process::id(), inner })
        };
        Ok(start()?)
    }

    /// Refuses what a worker cannot be started with; starts nothing.
    pub fn check(
        client: &Client,
        queues: &ZendHashTable,
        lease: &Zval,
        grace: &Zval,
        name: Option<Text>,
        maxJobs: Option<i64>,
        schedules: Option<&ZendHashTable>,
        timeout: Option<&Zval>,
        prefetch: Option<i64>,
    ) -> PhpResult<()> {
        let check = || -> Result<(), Fault> {
            Ok(Engine::check(
                &*client.blocking()?,
                &settings(queues, lease, grace, name, maxJobs, schedules, timeout, prefetch)?,
            )?)
        };
        Ok(check()?)
    }

    /// Refuses a name that no job can have.
    pub fn check_name(name: Text) -> PhpResult<()> {
        let check = || -> Result<(), Fault> {
            let name = name.utf8("the name of a handler")?;
            Ok(duly::name::check_handler(&name)?)
        };
        Ok(check()?)
    }

    /// Refuses seconds that no job can wait.
    pub fn check_after(after: &Zval) -> PhpResult<()> {
        millis("after", after)?;
        Ok(())
    }

    /// The next job, waited for so many seconds. What ran before is done with that, unless it was ended otherwise.
    ///
    /// Null when there is none, when something happened (see `events`), and when there will be none (see `isOver`).
    pub fn next(&self, wait: f64) -> PhpResult<Option<Job>> {
        let Some(inner) = self.called() else { return Ok(None) };
        let next = || -> Result<Option<Job>, Fault> {
            inner.done()?;
            if watched::SIGPROCMASK.was_called(Since::Next) {
                inner.watchdog.let_signals_through(); // also while there is nothing to run
            }
            if inner.watchdog.has_events() {
                return Ok(None);
            }
            let wait = Duration::try_from_secs_f64(wait).unwrap_or(Duration::ZERO);
            let NextRun::Run(run) = inner.executor.next(wait, &mut UntilEvent(&inner.watchdog))? else {
                return Ok(None);
            };
            inner.watchdog.running(run.number());
            let job = Job::in_run(run.job().clone(), Rc::clone(&inner.executor), run.number());
            // The watchdog looks at what is running behind its mark: whichever is first, one of both sees the other.
            let is_over = inner.executor.was_interrupted(&run).is_some();
            inner.current.replace(Some(run));
            if is_over {
                inner.done()?;
                return Ok(None);
            }
            Ok(Some(job))
        };
        match next() {
            Err(Fault::Duly(error)) if error.kind() == ErrorKind::Interrupted => Ok(None),
            next => Ok(next?),
        }
    }

    /// The handler gave this, which is kept if the producer wants it. Whether the handler has settled the job itself; null in a process
    /// that the handler has forked: the job is its parent's.
    pub fn keep(&self, result: &Zval) -> PhpResult<Option<bool>> {
        let Some(inner) = self.called() else { return Ok(None) };
        let kept = || inner.has_worked.set(inner.current.borrow().is_some());
        let is_settled = inner.current.borrow().as_ref().is_some_and(|run| run.job().reserved().is_settled());
        if is_settled || !inner.keeps_result() {
            kept();
            return Ok(Some(is_settled));
        }
        let Some(job) = inner.job() else { return Ok(Some(false)) };
        // Runs PHP code, so nothing may be borrowed.
        let result = convert::result(job.reserved(), Some(result))?;
        if let Some(run) = inner.current.borrow().as_ref().filter(|run| is_run_of(run, &job)) {
            inner.executor.keep(run, result);
        }
        kept();
        Ok(Some(job.reserved().is_settled()))
    }

    /// The run has worked, and hooks are called: its job is done, however long they take.
    pub fn worked(&self) {
        if let Some(inner) = self.called()
            && let Some(run) = inner.current.borrow().as_ref()
        {
            inner.executor.decide(run);
        }
    }

    /// The run has ended: sends what was noted, or that it is done; nothing when it has ended before.
    pub fn done(&self) -> PhpResult<()> {
        if let Some(inner) = self.called() {
            inner.done()?;
        }
        Ok(())
    }

    /// The worker ends between two runs: one that has worked is done, and the job of one that has not begun goes back, uncounted.
    pub fn abandon(&self) -> PhpResult<()> {
        let Some(inner) = self.called() else { return Ok(()) };
        if !inner.has_worked.get()
            && let Some(run) = inner.current.borrow().as_ref()
        {
            // It is refused only where it is settled already.
            let _ = inner.executor.note(run, Outcome::GIVEN_BACK, String::new(), None);
        }
        Ok(inner.done()?)
    }

    /// Notes that the run failed, with the arguments of `Job::fail`. Gives the wait until the next one, or null if there is none.
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
        let is_over = || Fault::from(Error::new(ErrorKind::LeaseLost, "this run has ended"));
        let Some(inner) = self.called() else { return Ok(None) };
        let job = inner.job().ok_or_else(is_over)?;
        let outcome = failure(given(retryAfter), counted, r#final)?;
        let error = error_text(error)?;
        let of_job = Changes { data: given(data), attempts, max_retries: maxRetries, raw: given(raw), headers, name };
        let changed = of_job.of(&job.reserved().envelope)?;
        let current = inner.current.borrow();
        let run = current.as_ref().filter(|run| is_run_of(run, &job)).ok_or_else(is_over)?;
        Ok(wait_of(inner.executor.note(run, outcome, error, changed).map_err(Fault::from)?))
    }

    /// The run has ended, and its job is given back, not counted, to run again after so many seconds.
    #[php(optional = after)]
    pub fn release(&self, after: Option<&Zval>, reason: Option<Text>) -> PhpResult<()> {
        let Some(inner) = self.called() else { return Ok(()) };
        let after = given(after).map_or(Ok(Millis::ZERO), |after| millis("after", after))?;
        let reason = utf8("reason", reason)?.unwrap_or_default();
        if let Some(run) = inner.current.borrow().as_ref() {
            // It is refused only where it is settled already.
            let _ = inner.executor.note(run, Outcome::Release { after, counted: false }, reason, None);
        }
        Ok(inner.done()?)
    }

    /// What the handler itself made of this job, by one of its verbs: `ack`, `retry`, `failed` or `release`, and after how many seconds
    /// it runs again.
    pub fn said(job: &Job) -> Option<Vec<Zval>> {
        let (outcome, after) = outcome_of(job.job.reserved().said()?);
        let words = [outcome.into_zval(false), after.map(Millis::as_seconds).into_zval(false)];
        words.into_iter().collect::<Result<_, _>>().ok()
    }

    /// Why the current run must end: `timed_out`, `lease_lost` or `stopped`; null when it need not.
    pub fn interruption(&self) -> Option<&'static str> {
        let inner = self.inner()?;
        let current = inner.current.borrow();
        inner.executor.was_interrupted(current.as_ref()?).map(Interruption::as_str)
    }

    /// What a job did that was interrupted for this reason; nothing of a word that is none.
    pub fn describe(interruption: Text) -> PhpResult<Option<String>> {
        let word = interruption.utf8("the interruption")?;
        Ok(Interruption::ALL.iter().find(|why| why.as_str() == word).map(Interruption::to_string))
    }

    /// What the log says of an outcome (`ack`, `release`, `failed`) behind the name of the job: how loudly, and the words. A failure is
    /// for good if the job does not run again after so many seconds.
    pub fn says(outcome: &str, after: Option<f64>) -> PhpResult<Vec<String>> {
        let says = || -> Result<Vec<String>, Fault> {
            let (level, words) = words_of(outcome, after.map(Millis::from_seconds).transpose()?);
            Ok(vec![level.as_str().to_owned(), words])
        };
        Ok(says()?)
    }

    /// The exit code of a worker that has stopped after these signals.
    pub fn exit_code(&self, signals: &ZendHashTable) -> i32 {
        let signals: Vec<i32> =
            crate::convert::values(signals).filter_map(|signal| i32::try_from(signal.long()?).ok()).collect();
        self.inner().map_or(0, |inner| process::exit_code(&inner.engine, false, &signals))
    }

    /// What happened since the last call: `level` of a log, `text`, and if it is about a job `queue`, `id`, `name` and `attempt`;
    /// of a job that failed while no hook was called also the job itself, `failed`, and its `error`.
    pub fn events(&self) -> PhpResult<Vec<BTreeMap<&'static str, Zval>>> {
        let Some(inner) = self.called() else { return Ok(Vec::new()) };
        inner.watchdog.take_events().iter().map(|event| Ok(inner.failed.array_of(event, &inner.engine)?)).collect()
    }

    /// The hooks of this failed job, which `events` gave, were called. False if another worker calls them, too: the engine had ended.
    pub fn heard(&self, job: &Job) -> bool {
        let Some(inner) = self.called() else { return true };
        inner.failed.heard(job, &inner.engine)
    }

    /// To be asked just before the hooks of a failed job that `events` gave: false if another worker calls them.
    pub fn may_call_hooks(&self, job: &Job) -> bool {
        let Some(inner) = self.called() else { return false };
        inner.failed.may_call_hooks(job, &inner.engine)
    }

    /// Starts nothing more, and lets the current run end within the grace; the second call ends the grace.
    pub fn stop(&self) {
        if let Some(inner) = self.inner() {
            inner.engine.stop();
        }
    }

    /// Stops it as this process ends by itself: a request to stop before or behind it asks for nothing more.
    pub fn stop_to_exit(&self) {
        if let Some(inner) = self.inner() {
            inner.engine.stop_to_exit();
        }
    }

    /// Starts nothing more, and ends when the current run has, however long that takes, until somebody asks for a stop.
    pub fn retire(&self) {
        if let Some(inner) = self.inner() {
            inner.engine.retire();
        }
    }

    /// The worker's `run` is over: what the program does from now on is not the worker's.
    pub fn leave(&self) {
        if let Some(inner) = self.inner() {
            inner.watchdog.end();
        }
    }

    /// PHP ends, and from now on the worker says its last words; behind them is `mustEnd`.
    pub fn leaves(&self) {
        if let Some(inner) = self.inner() {
            inner.watchdog.leaves();
        }
    }

    /// Ends this process five seconds from now, if shutdown functions or destructors of the program keep it.
    pub fn must_end() {
        watchdog::must_end();
    }

    /// Will there be no more jobs? Always so in a process that was forked from the engine's.
    pub fn is_over(&self) -> bool {
        self.inner().is_none_or(|inner| inner.engine.is_stopping())
    }

    /// Has a handler called a function whose effect is to end with its run, since this was asked before? True the first time, and where
    /// nobody can know.
    pub fn touched() -> bool {
        watched::was_any_called()
    }

    /// Takes back what a handler may have done to its alarm since the last call of this; PHP has no handler for SIGALRM then.
    pub fn clear_alarm() {
        // Both are asked: each notes that.
        if watched::ALARM.was_called(Since::ClearAlarm) | watched::SIGPROCMASK.was_called(Since::ClearAlarm) {
            watchdog::clear_alarm();
        }
    }

    /// Is SIGALRM blocked?
    pub fn blocks_alarm() -> bool {
        watchdog::blocks_alarm()
    }

    /// Waits until the engine has sent all that it had to send; false when it has not within the wait.
    #[php(optional = wait)]
    pub fn ended(&self, wait: Option<&Zval>) -> PhpResult<bool> {
        let Some(inner) = self.called() else { return Ok(true) };
        let wait = span("wait", wait, Duration::ZERO)?;
        inner.watchdog.let_signals_through();
        let ended = inner.engine.ended(wait, &mut Waits(&inner.watchdog))?.is_some();
        if ended {
            inner.watchdog.hear_all();
        }
        Ok(ended)
    }

    /// How many jobs are done (`acked`), `failed`, `released`, `lost` and `expired` so far.
    pub fn report(&self) -> BTreeMap<&'static str, i64> {
        self.inner().map(|inner| of_report(inner.engine.report())).unwrap_or_default()
    }

    /// Has the engines of this process stop at these signals too, even while PHP is busy and sees none; PHP must have handlers
    /// for them. False if it has none.
    pub fn listen(signals: &ZendHashTable) -> bool {
        let mut all = true;
        for signal in crate::convert::values(signals) {
            all &= signal.long().is_some_and(process::listen);
        }
        all
    }

    /// How many of them have come so far.
    pub fn came() -> i64 {
        crate::record::signed(process::came())
    }

    /// Has this process get SIGTERM when its parent is gone; false where the system cannot do that.
    pub fn follow_parent(parent: i64) -> bool {
        watchdog::follow_parent(parent)
    }
}

/// The run that is under way may be another one, after PHP code was called.
fn is_run_of(run: &Run, job: &blocking::Job) -> bool {
    let (running, job) = (run.job().reserved(), job.reserved());
    (running.id(), running.token()) == (job.id(), job.token())
}

#[allow(clippy::too_many_arguments)] // those of the constructor
fn settings(
    queues: &ZendHashTable,
    lease: &Zval,
    grace: &Zval,
    name: Option<Text>,
    max_jobs: Option<i64>,
    schedules: Option<&ZendHashTable>,
    timeout: Option<&Zval>,
    prefetch: Option<i64>,
) -> Result<WorkerSettings, Fault> {
    let (names, selection) = select::names(queues)?;
    let mut settings = WorkerSettings::new(names);
    settings.selection = selection;
    settings.lease = millis("lease", lease)?.to_duration();
    settings.grace = millis("grace", grace)?.to_duration();
    settings.name = utf8("name", name)?;
    settings.max_jobs = max_jobs.map(|jobs| u64::try_from(jobs).unwrap_or(0));
    if settings.max_jobs == Some(0) {
        return Err(Fault::invalid("maxJobs must be 1 or more, or null for no limit"));
    }
    settings.timeout = given(timeout).map(|timeout| span_or_interval("timeout", timeout)).transpose()?;
    settings.prefetch = prefetch.map(|prefetch| whole("prefetch", prefetch, u32::MAX.into())).transpose()?;
    settings.schedules = schedules.map(own_schedules).transpose()?.unwrap_or_default();
    settings.hooks_between_runs = true;
    settings.language = "php";
    Ok(settings)
}
