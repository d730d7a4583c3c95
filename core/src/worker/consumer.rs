//! Gives jobs to an owner that pulls them: the ground on which framework drivers stand.
//!
//! The engine is the one loop that fetches, renews and settles. A worker is its executors, which run a handler each and are always
//! there for the next job; a consumer is its questions and its deliveries, which come when their owner likes. Both stand on the engine, and
//! neither on the other: an executor is asked to end its run and is busy until it has, while a delivery is over at once, as nobody can ask
//! a stranger's code to end.

use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::desk::{Run, Taken};
use super::engine::Engine;
use super::event::{AboutJob, Interruption, WorkerEvent};
use super::executor::Executor;
use super::{WorkerReport, WorkerSettings};
use crate::format::envelope::Envelope;
use crate::process::id::id;
use crate::queue::{Client, Decided, Job, Settlement};
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::retry::{Next, Outcome};
use crate::value::time::Millis;

/// Gives jobs of some queues to an owner that pulls them, and runs them as it likes: in threads, as tasks, one at a time.
///
/// Leases are renewed natively while a job is out, and what becomes of it is sent without a round trip for each. Up to
/// `concurrency` jobs may be out at once; more are fetched ahead as for a worker (`prefetch`) while the owner keeps asking, and go back
/// uncounted when nobody takes them. It calls no hooks, and so hears of no jobs that failed elsewhere: the workers of the queue do.
///
/// Dropped, it is stopped, and ends when no delivery is left. It belongs to the process that started it: in a forked child it gives nothing.
///
/// ```no_run
/// use std::time::Duration;
/// use duly::Client;
/// use duly::worker::{Consumer, WorkerSettings};
///
/// # async fn doc() -> Result<(), duly::Error> {
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
/// let consumer = Consumer::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)]))?;
/// while let Some(delivery) = consumer.next(Duration::from_secs(60)).await? {
///     println!("running {}", delivery.job().id());
///     delivery.ack(None)?;
/// }
/// consumer.close(None).await?;
/// # Ok(())
/// # }
/// ```
pub struct Consumer {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    grace: Duration,
    pid: u32,
}

/// A job that is out: settled once, by any thread, in any order.
///
/// Its time is over after the `timeout` of the job or else of the consumer: then its lease is not renewed any more, the run has failed,
/// and settling it is refused. Dropped before it was settled, it is given back, uncounted: that its owner has lost it says nothing of the
/// job. (A worker whose handler ends without a word knows that the run broke off; here nobody does.)
pub struct Delivery {
    shared: Arc<Shared>,
    executor: Executor,
    run: Run,
    said: OnceLock<Outcome>,
}

/// A delivery whose owner asks the server whether it may start.
pub(crate) struct Starting {
    executor: Executor,
    run: Option<Run>,
}

impl Consumer {
    /// Starts the engine, which makes connections of its own with the client's settings. Nothing is fetched before somebody asks.
    ///
    /// Errors: `InvalidArgument` for settings out of range, `Internal` when the system gives no thread.
    pub fn start(client: &Client, settings: WorkerSettings) -> Result<Self, Error> {
        let grace = settings.grace;
        let engine = Engine::for_consumer(client, settings)?;
        Ok(Self { shared: Arc::new(Shared { engine, grace, pid: id() }) })
    }

    /// The next job. None when the wait is over, and for ever once it was stopped. What came before need not be settled, but while
    /// `concurrency` jobs are out this waits until one is.
    ///
    /// Without a wait it gives what one look at the queues brings, if the server answers within a second; once [`Self::sign`] was asked for,
    /// and while the server is known not to answer, what is here.
    ///
    /// Errors: what waiting does not cure, as `AuthenticationFailed` at the start, `FormatTooNew`, `Corrupt`: then it has ended.
    pub async fn next(&self, wait: Duration) -> Result<Option<Delivery>, Error> {
        if self.is_parents() {
            return Ok(None);
        }
        let executor = self.shared.engine.executor();
        let taken = executor.desk.pull(&executor.shared, wait).await;
        self.delivered(executor, taken)
    }

    /// The same, waited for by a thread.
    pub fn next_within(&self, wait: Duration) -> Result<Option<Delivery>, Error> {
        if self.is_parents() {
            return Ok(None);
        }
        let executor = self.shared.engine.executor();
        let taken = executor.desk.pull_within(&executor.shared, wait);
        self.delivered(executor, taken)
    }

    /// One that is here already, at once; it does not ask for more.
    pub(crate) fn take(&self) -> Result<Option<Delivery>, Error> {
        if self.is_parents() {
            return Ok(None);
        }
        let executor = self.shared.engine.executor();
        let taken = executor.desk.pull_now(&executor.shared);
        self.delivered(executor, taken)
    }

    fn delivered(&self, executor: Executor, taken: Taken) -> Result<Option<Delivery>, Error> {
        match taken {
            Taken::Run(run) => {
                Ok(Some(Delivery { shared: Arc::clone(&self.shared), executor, run, said: OnceLock::new() }))
            }
            Taken::None => Ok(None),
            Taken::Over => match executor.desk.failure() {
                Some(error) => Err(error),
                None => self.shared.engine.ended_within(Duration::ZERO).transpose().map(|_| None),
            },
        }
    }

    /// Gives nothing more, and gives back what was fetched ahead. What is out may be settled within the settings' grace, and then goes
    /// back, uncounted. Returns at once; a second call changes nothing.
    pub fn stop(&self) {
        self.shared.stop(self.shared.grace);
    }

    /// Was it stopped, or has it ended by itself?
    pub fn is_stopping(&self) -> bool {
        self.is_parents() || self.shared.engine.is_stopping()
    }

    /// Has it said all it had to say?
    pub fn is_over(&self) -> bool {
        self.is_parents() || self.shared.engine.is_over()
    }

    /// Stops it, waits for what is out within this time (default: the settings' grace), gives back the rest, uncounted, and ends the engine
    /// when the server knows all that. A second call changes nothing and gives the same.
    ///
    /// Errors: that with which it ended by itself.
    pub async fn close(&self, within: Option<Duration>) -> Result<WorkerReport, Error> {
        if self.is_parents() {
            return Ok(WorkerReport::default());
        }
        self.shared.stop(within.unwrap_or(self.shared.grace));
        self.shared.engine.ended().await
    }

    /// Has it ended, as after [`Self::close`]? Waited for by a thread; nothing when it has not within the wait.
    pub(crate) fn ended_within(&self, wait: Duration) -> Option<Result<WorkerReport, Error>> {
        if self.is_parents() {
            return Some(Ok(WorkerReport::default()));
        }
        self.shared.engine.ended_within(wait)
    }

    pub(crate) fn stop_within(&self, within: Option<Duration>) {
        self.shared.stop(within.unwrap_or(self.shared.grace));
    }

    /// The next event; it never comes when there is none. One that nobody reads is forgotten when there are many.
    pub async fn event(&self) -> WorkerEvent {
        if self.is_parents() {
            return std::future::pending().await;
        }
        self.shared.engine.event().await
    }

    /// The same, waited for by a thread; none within the wait, or when the engine has ended.
    pub fn event_within(&self, wait: Duration) -> Option<WorkerEvent> {
        if self.is_parents() { None } else { self.shared.engine.event_within(wait) }
    }

    /// A descriptor for event loops (an eventfd on Linux), which stays open as long as this and its deliveries live. Nobody but
    /// this reads from it.
    ///
    /// It is readable when a job can be taken, when an event can be read, and for ever once this has stopped. It stays readable until
    /// `next` without a wait gives none: so take until there is none, and then read the events.
    ///
    /// Errors: `Internal` when the process has too many files open.
    pub fn sign(&self) -> Result<RawFd, Error> {
        let refused = |error: io::Error| {
            Error::new(ErrorKind::Internal, "the system gives no descriptor: are there too many open files?")
                .caused_by(error)
        };
        if self.is_parents() {
            return Err(Error::invalid("this consumer is that of the process that forked this one: start one here"));
        }
        self.shared.engine.desk.sign().map_err(refused)
    }

    /// What it did so far.
    pub fn report(&self) -> WorkerReport {
        if self.is_parents() { WorkerReport::default() } else { self.shared.engine.report() }
    }

    fn is_parents(&self) -> bool {
        self.shared.pid != id()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn stop(&self, within: Duration) {
        if self.pid == id() {
            self.engine.stop_within(within);
        }
    }
}

impl Delivery {
    /// The job. Its own verbs that settle it make a call each.
    pub fn job(&self) -> &Job {
        &self.run.job
    }

    /// The same, to be held without a copy.
    pub(crate) fn shared_job(&self) -> &Arc<Job> {
        &self.run.job
    }

    /// As events name it: see [`WorkerEvent::Interrupted`].
    pub fn number(&self) -> u64 {
        self.run.number
    }

    /// The job as a log names it.
    pub fn about(&self) -> AboutJob {
        AboutJob::of(&self.run.job)
    }

    /// Done. The result is kept if the producer asked for it.
    ///
    /// Nothing is sent: the engine does that with its next call, at once when it is idle. That the lease was lost meanwhile is an event
    /// then. Errors: `LeaseLost` when it is decided already what becomes of the job, also because its time is over; `TooLarge` for a result, and
    /// nothing is decided.
    pub fn ack(&self, result: Option<Data>) -> Result<(), Error> {
        self.settle_as(&Settlement { result, ..Settlement::done(self.job()) }).map(|_| ())
    }

    /// Failed: its policy decides. Errors: as of [`Self::ack`].
    pub fn fail(&self, error: &str) -> Result<Next, Error> {
        self.settle(Outcome::FAILURE, error, None)
    }

    /// Given back, uncounted, and due again after this long. Errors: as of [`Self::ack`].
    pub fn release(&self, after: Duration) -> Result<(), Error> {
        let after = Millis::from_duration(after).map_err(|error| self.in_call("release", error))?;
        self.settle(Outcome::Release { after, counted: false }, "", None).map(|_| ())
    }

    /// Says what becomes of it, in full, and gives what that comes to: see [`Job::settle`] and [`Job::settle_rewritten`]. Errors: as of
    /// [`Self::ack`]; `InvalidArgument` and `TooLarge` for a change that cannot be stored, and nothing is decided.
    pub fn settle(&self, outcome: Outcome, error: &str, mut changed: Option<Envelope>) -> Result<Next, Error> {
        if let Some(changed) = &mut changed {
            error.clone_into(&mut changed.error);
        }
        self.settle_as(&Settlement { outcome, error, rewritten: changed, ..Settlement::done(self.job()) })
    }

    /// Tells the server that its run starts, as [`Job::note_start`] does. The time that this takes is not the run's, which begins behind it.
    /// Errors: `LeaseLost`: do not run it; or the error of a call without an answer: then run it, or give it back.
    pub fn note_start(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (starting, job) = (self.starting(), Arc::clone(&self.run.job));
        async move {
            let starting = starting?;
            job.note_start().await?;
            starting.started()
        }
    }

    /// The time of its run does not count until this is dropped.
    pub(crate) fn starting(&self) -> Result<Starting, Error> {
        if self.is_parents() || !self.executor.desk.hold_time(&self.run) {
            return Err(self.in_call("note_start", Error::new(ErrorKind::LeaseLost, self.why_refused())));
        }
        let executor = Executor { desk: Arc::clone(&self.executor.desk), shared: Arc::clone(&self.executor.shared) };
        Ok(Starting { executor, run: Some(self.run.again()) })
    }

    fn settle_as(&self, settlement: &Settlement<'_>) -> Result<Next, Error> {
        let operation = match settlement.outcome {
            Outcome::Done => "ack",
            Outcome::Release { .. } => "release",
            _ => "fail",
        };
        let decided = Decided::of(settlement).map_err(|error| self.in_call(operation, error))?;
        let noted = if self.is_parents() { None } else { self.executor.desk.settle(&self.run, decided) };
        let Some(next) = noted else {
            return Err(self.in_call(operation, Error::new(ErrorKind::LeaseLost, self.why_refused())));
        };
        let _ = self.said.set(settlement.outcome);
        Ok(next)
    }

    fn in_call(&self, operation: &'static str, error: Error) -> Error {
        in_call(self.job(), operation, error)
    }

    fn why_refused(&self) -> &'static str {
        if self.is_parents() {
            return "this job is that of the process that forked this one: settle it there";
        }
        why_over(self.interrupted())
    }

    /// What was said of it with the verbs above.
    pub fn said(&self) -> Option<Outcome> {
        self.said.get().copied()
    }

    /// Why it is over though nothing was said of it: what its owner still does is of no use.
    pub fn interrupted(&self) -> Option<Interruption> {
        if self.said().is_some() {
            return None;
        }
        self.executor.was_interrupted(&self.run)
    }

    /// Ready when it is.
    pub async fn until_interrupted(&self) -> Interruption {
        self.executor.interrupted(&self.run).await
    }

    fn is_parents(&self) -> bool {
        self.shared.pid != id()
    }
}

fn in_call(job: &Job, operation: &'static str, error: Error) -> Error {
    job.part().during(operation)(error).of_job(job.id())
}

fn why_over(interrupted: Option<Interruption>) -> &'static str {
    match interrupted {
        Some(Interruption::TimedOut) => {
            "its time is over, and the run has failed: raise its timeout if it needs longer"
        }
        Some(Interruption::Stopped) => "its consumer was closed before, and the job was given back",
        Some(Interruption::LeaseLost) => {
            "the lease is lost: the job was cancelled, or another worker may run it; stop working on it"
        }
        None => "it is decided already what becomes of this job",
    }
}

impl Starting {
    /// The server has answered. Errors: `LeaseLost` if the run is over all the same.
    pub(crate) fn started(mut self) -> Result<(), Error> {
        let Some(run) = self.run.take() else { return Ok(()) };
        // In a forked child the desk's lock may be held for ever.
        if self.executor.shared.pid != id() || self.executor.desk.begin_time(&run, true) {
            return Ok(());
        }
        let why = why_over(self.executor.was_interrupted(&run));
        Err(in_call(&run.job, "note_start", Error::new(ErrorKind::LeaseLost, why)))
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(run) = self.run.as_ref().filter(|_| self.executor.shared.pid == id()) {
            self.executor.desk.begin_time(run, false);
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.is_parents() || self.said().is_some() {
            return;
        }
        let back = Settlement { outcome: Outcome::GIVEN_BACK, ..Settlement::done(self.job()) };
        if let Ok(decided) = Decided::of(&back) {
            self.executor.desk.settle(&self.run, decided);
        }
    }
}
