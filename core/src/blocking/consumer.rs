//! The consumer for languages whose frameworks run the handlers.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use super::worker::sliced;
use super::{Client, Interrupt, Job, Queue};
use crate::format::envelope::Envelope;
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::retry::{Next, Outcome};
use crate::value::time::LONGEST_WAIT;
use crate::worker::{self, Interruption, WorkerEvent, WorkerReport, WorkerSettings};

/// See [`worker::Consumer`]. Any thread may pull and settle.
///
/// ```no_run
/// use std::time::Duration;
/// use duly::blocking::{Client, Consumer, Uninterrupted};
/// use duly::worker::WorkerSettings;
///
/// let client = Client::connect("redis://127.0.0.1:6379")?;
/// let consumer = Consumer::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)]))?;
/// while let Some(delivery) = consumer.next(Duration::from_secs(60), &mut Uninterrupted)? {
///     println!("running {}", delivery.job().reserved().id());
///     delivery.ack(None)?;
/// }
/// consumer.close(None, &mut Uninterrupted)?;
/// # Ok::<(), duly::Error>(())
/// ```
pub struct Consumer {
    consumer: worker::Consumer,
    queues: Arc<[Queue]>,
}

/// See [`worker::Delivery`].
pub struct Delivery {
    delivery: worker::Delivery,
    job: Job,
}

impl Consumer {
    /// See [`worker::Consumer::start`].
    pub fn start(client: &Client, settings: WorkerSettings) -> Result<Self, Error> {
        let queues = settings.queues.iter().map(|(name, _)| client.queue_or_part(name)).collect::<Result<_, _>>()?;
        Ok(Self { consumer: worker::Consumer::start(&*client.inner()?, settings)?, queues })
    }

    /// The queues that it pulls from.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// See [`worker::Consumer::next`].
    pub fn next<I: Interrupt>(&self, wait: Duration, interrupt: &mut I) -> Result<Option<Delivery>, I::Error> {
        if wait.is_zero() {
            return Ok(self.consumer.next_within(wait)?.and_then(|delivery| self.with_job(delivery)));
        }
        let next = sliced(wait, interrupt, |slice| match self.consumer.next_within(slice) {
            // Over: there will be none.
            Ok(None) if self.consumer.is_stopping() => Some(Ok(None)),
            Ok(None) => None,
            delivered => Some(delivered),
        })?;
        Ok(next.transpose()?.flatten().and_then(|delivery| self.with_job(delivery)))
    }

    /// A job that is here already, without a wait and without asking for more.
    #[doc(hidden)] // for the skins
    pub fn take(&self) -> Result<Option<Delivery>, Error> {
        Ok(self.consumer.take()?.and_then(|delivery| self.with_job(delivery)))
    }

    /// See [`worker::Consumer::next`].
    #[doc(hidden)] // for the skins
    pub async fn next_async(&self, wait: Duration) -> Result<Option<Delivery>, Error> {
        Ok(self.consumer.next(wait).await?.and_then(|delivery| self.with_job(delivery)))
    }

    /// See [`worker::Consumer::close`].
    #[doc(hidden)] // for the skins
    pub async fn close_async(&self, within: Option<Duration>) -> Result<WorkerReport, Error> {
        self.consumer.close(within).await
    }

    fn with_job(&self, delivery: worker::Delivery) -> Option<Delivery> {
        // A job comes from one of the queues that the engine was started with.
        let queue = self.queues.iter().find(|queue| queue.name() == delivery.job().queue().name())?.clone();
        let job = Job { job: Arc::clone(delivery.shared_job()), queue };
        Some(Delivery { delivery, job })
    }

    /// See [`worker::Consumer::event`]: none within the wait, or when it has ended.
    pub fn event<I: Interrupt>(&self, wait: Duration, interrupt: &mut I) -> Result<Option<WorkerEvent>, I::Error> {
        let event = sliced(wait, interrupt, |slice| {
            // Asked first: what happened before the end must not be missed.
            let over = self.consumer.is_over();
            match self.consumer.event_within(if over { Duration::ZERO } else { slice }) {
                None if over => Some(None),
                event => event.map(Some),
            }
        })?;
        Ok(event.flatten())
    }

    /// See [`worker::Consumer::sign`].
    pub fn sign(&self) -> Result<RawFd, Error> {
        self.consumer.sign()
    }

    /// See [`worker::Consumer::stop`].
    pub fn stop(&self) {
        self.consumer.stop();
    }

    /// As [`Self::close`] begins.
    #[doc(hidden)] // for the skins
    pub fn stop_within(&self, within: Option<Duration>) {
        self.consumer.stop_within(within);
    }

    /// Was it stopped, or has it ended by itself?
    pub fn is_stopping(&self) -> bool {
        self.consumer.is_stopping()
    }

    /// Has it ended?
    pub fn is_over(&self) -> bool {
        self.consumer.is_over()
    }

    /// See [`worker::Consumer::close`]. What is out may be settled meanwhile by other threads only.
    pub fn close<I: Interrupt>(&self, within: Option<Duration>, interrupt: &mut I) -> Result<WorkerReport, I::Error> {
        self.consumer.stop_within(within);
        let ended = sliced(LONGEST_WAIT, interrupt, |slice| self.consumer.ended_within(slice))?;
        ended.unwrap_or_else(|| Ok(self.consumer.report())).map_err(I::Error::from)
    }

    /// Its work so far.
    pub fn report(&self) -> WorkerReport {
        self.consumer.report()
    }
}

impl Delivery {
    /// The job, with the verbs of a thread: those that settle it make a call each.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// As events name it.
    pub fn number(&self) -> u64 {
        self.delivery.number()
    }

    /// The job as a log names it.
    pub fn about(&self) -> worker::AboutJob {
        self.delivery.about()
    }

    /// See [`worker::Delivery::ack`]: no I/O.
    pub fn ack(&self, result: Option<Data>) -> Result<(), Error> {
        self.delivery.ack(result)
    }

    /// See [`worker::Delivery::settle`]: no I/O.
    pub fn settle(&self, outcome: Outcome, error: &str, changed: Option<Envelope>) -> Result<Next, Error> {
        self.delivery.settle(outcome, error, changed)
    }

    /// See [`worker::Delivery::note_start`].
    pub fn note_start<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        let starting = self.delivery.starting()?;
        self.job.note_start(interrupt)?;
        Ok(starting.started()?)
    }

    /// See [`worker::Delivery::note_start`].
    #[doc(hidden)] // for the skins
    pub fn note_start_async(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.delivery.note_start()
    }

    /// What was said of it with the verbs above.
    pub fn said(&self) -> Option<Outcome> {
        self.delivery.said()
    }

    /// See [`worker::Delivery::interrupted`].
    pub fn interrupted(&self) -> Option<Interruption> {
        self.delivery.interrupted()
    }
}
