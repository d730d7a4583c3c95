//! Events that a worker reports, once per change.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::queue::{ClientEvent, Job, NOT_KEPT, UNDECODABLE};
use crate::value::error::Error;
use crate::value::time::Millis;

/// What the scripts write as the error of a job whose lease ended.
const LEASE_ENDED: [&str; 2] =
    ["lease ended: the worker died, hung or lost the server", "lease ended: worker died, outcome unknown"];

/// How the error begins that the engine writes of a run that was longer than its timeout.
const TIMED_OUT: &str = "ran longer than its timeout of ";

pub(super) fn timeout_error(timeout: Millis) -> String {
    format!("{TIMED_OUT}{timeout} s")
}

/// Something that the user of a worker may want to log or act on.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum WorkerEvent {
    /// The server does not answer as it should; the worker keeps trying. Reported once per outage.
    Trouble {
        /// The last error.
        error: Error,
    },
    /// The server answers again.
    Recovered {
        /// How long it did not.
        after: Duration,
    },
    /// The schedules that the worker was given cannot be stored now; it runs jobs, and keeps trying. Reported once.
    SchedulesWait {
        /// Why.
        error: Error,
    },
    /// They are stored now.
    SchedulesStored,
    /// Jobs run, but something beside them fails for seconds; the worker keeps trying. Reported once until it works again.
    HeldUp {
        /// The queue's name.
        queue: String,
        /// What fails.
        what: BesideJobs,
        /// The last error.
        error: Error,
    },
    /// It works again.
    GoesOn {
        /// The queue's name.
        queue: String,
        /// What works.
        what: BesideJobs,
    },
    /// A job's lease was over before the worker could say what became of it: another worker may have run it.
    LeaseLost {
        /// Which job.
        job: AboutJob,
    },
    /// The same of more jobs at once than are reported one by one: somebody emptied the server, or it forgot what it had.
    LeasesLost {
        /// The queue's name.
        queue: String,
        /// How many jobs, besides those that were reported.
        jobs: u64,
    },
    /// The server has none of what it kept of this queue some minutes ago; see [`ClientEvent::DataLost`].
    DataLost {
        /// The queue's name; of a partitioned queue that of the part.
        queue: String,
    },
    /// A job is settled, but the server has no memory left: its result was not kept, or, if it is run again, the data that a
    /// failure hook changed.
    NotKept {
        /// Which job.
        job: AboutJob,
    },
    /// A job is settled, but each call with its result, or with the data that a failure hook changed, was cut off: it was settled without.
    NotSent {
        /// Which job.
        job: AboutJob,
    },
    /// The worker ends, and the server has not confirmed how this job's run ended: it did not answer, or refused that. When the lease ends,
    /// the job is treated as if its worker had died.
    OutcomeNotStored {
        /// Which job.
        job: AboutJob,
    },
    /// The same of more jobs at once than are reported one by one.
    OutcomesNotStored {
        /// The queue's name.
        queue: String,
        /// How many jobs, besides those that were reported.
        jobs: usize,
    },
    /// A run must end now: what its handler still does is of no use.
    Interrupted {
        /// Which job.
        job: AboutJob,
        /// Which executor runs it (see [`Engine::executor`](super::Engine::executor)).
        executor: u64,
        /// Which of the executor's runs it is.
        run: u64,
        /// Why.
        why: Interruption,
        /// Was it decided before what becomes of the job: by its handler, or by a run whose hooks go on? Then that stays.
        was_settled: bool,
        /// Has the job no retries left? Then it goes to `failed`, which another event reports.
        is_last: bool,
    },
    /// A job is in `failed`, and no hook of a worker was called for it: a worker died with it, it ran longer than its timeout, its
    /// record cannot be read, or a direct call of `fail` ended it. It may have been another worker's.
    ///
    /// Ask [`Engine::may_call_hooks`](super::Engine::may_call_hooks) just before the hooks, and call
    /// [`Engine::heard`](super::Engine::heard) when they have run: until then, and if this process dies before, it is
    /// reported again, here or elsewhere. So each is reported at least once, and as a rule once.
    Failed {
        /// Which job.
        job: AboutJob,
        /// The job itself; nothing if its record cannot be read.
        failed: Option<Arc<FailedJob>>,
    },
    /// The hooks of a job in `failed` are called no more: three workers that had claimed it ended without a word. One of them may have
    /// been ended by the hook.
    HooksGivenUp {
        /// Which job.
        job: AboutJob,
    },
    /// A hook that was called for a job that failed elsewhere takes long, and this worker calls no other meanwhile. Reported once for each.
    SlowHook {
        /// Which job.
        job: AboutJob,
        /// How long the hook has run at least.
        after: Duration,
    },
    /// Jobs in `failed` were forgotten, because they were too many or too old. One worker of the queue reports it.
    Trimmed {
        /// The queue's name.
        queue: String,
        /// How many.
        jobs: u64,
    },
    /// Jobs expired before a handler was free for them, and are dropped.
    Expired {
        /// The first of them.
        job: AboutJob,
        /// How many more of its queue.
        others: usize,
    },
    /// The queue has jobs that a later version of duly has written: they are left to workers that know it. Reported once.
    TooNew {
        /// The first of them.
        job: AboutJob,
    },
    /// Jobs that waited in this worker while all its handlers were busy were given back, uncounted, for others to run.
    GivenBack {
        /// The queue's name.
        queue: String,
        /// How many.
        jobs: usize,
    },
    /// The worker stops while jobs run: these may end first. Reported once.
    Stopping {
        /// How many run.
        running: usize,
        /// How long they may run on.
        grace: Duration,
        /// The error with which it ends, if nobody has asked it to stop.
        error: Option<Error>,
    },
}

/// What a worker does for a queue beside running its jobs.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BesideJobs {
    /// It fires the schedules that are due.
    Schedules,
    /// It shows that it is alive, in the list of workers, and hears of jobs that failed where no hooks were called.
    Presence,
}

impl BesideJobs {
    const fn fails(self) -> &'static str {
        match self {
            Self::Schedules => "its schedules cannot fire",
            Self::Presence => "this worker cannot be listed, and hears of no job that failed elsewhere",
        }
    }

    const fn works(self) -> &'static str {
        match self {
            Self::Schedules => "its schedules fire again",
            Self::Presence => "this worker is listed again",
        }
    }
}

/// A job in `failed` whose hooks no worker has called yet.
#[derive(Debug)]
pub struct FailedJob {
    /// As its last run had it, but for the error, which is its last: the failures in it are those before that run. Nobody holds its
    /// lease any more.
    pub job: Arc<Job>,
    pub(super) lane: usize,
    /// The id as it is stored: that of the job is only for people, if somebody else put one in that is not UTF-8.
    pub(super) stored_id: Vec<u8>,
}

impl FailedJob {
    /// The text of its last error, which may hold data.
    pub fn error(&self) -> &str {
        &self.job.envelope.error
    }

    /// Why it failed, for a log.
    fn why(&self) -> &'static str {
        let error = self.error();
        if LEASE_ENDED.contains(&error) {
            "its worker died, hung or lost the server"
        } else if error.starts_with(TIMED_OUT) {
            "it ran longer than its timeout"
        } else if error.starts_with(UNDECODABLE) {
            "its record cannot be read, see its stored error"
        } else {
            "a direct call of `fail` ended it, see its stored error"
        }
    }
}

/// The job that an event is about.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AboutJob {
    /// The queue's name.
    pub queue: String,
    /// The job's id.
    pub id: String,
    /// The job's name, if it has one and its record could be read.
    pub name: Option<String>,
    /// Which attempt it was, from 1; 0 if its record could not be read.
    pub attempt: u32,
}

impl AboutJob {
    pub(crate) fn of(job: &Job) -> Self {
        let name = job.envelope.name.clone();
        Self { queue: job.part().name().to_owned(), id: job.id().to_owned(), name, attempt: job.attempt() }
    }

    pub(super) fn unreadable(queue: &str, id: String) -> Self {
        Self { queue: queue.to_owned(), id, name: None, attempt: 0 }
    }
}

impl fmt::Display for AboutJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, id, name, attempt } = self;
        match attempt {
            0 => write!(f, "job {id} of queue {queue}"),
            _ => write!(f, "job {id} ({}, attempt {attempt}) of queue {queue}", name.as_deref().unwrap_or("no name")),
        }
    }
}

impl WorkerEvent {
    /// The job that it is about, if it is about one.
    pub fn job(&self) -> Option<&AboutJob> {
        match self {
            Self::LeaseLost { job }
            | Self::NotKept { job }
            | Self::NotSent { job }
            | Self::OutcomeNotStored { job }
            | Self::HooksGivenUp { job }
            | Self::Expired { job, .. }
            | Self::TooNew { job }
            | Self::SlowHook { job, .. }
            | Self::Interrupted { job, .. }
            | Self::Failed { job, .. } => Some(job),
            _ => None,
        }
    }

    /// The queue that it is about, if it is about one.
    pub fn queue(&self) -> Option<&str> {
        match self {
            Self::LeasesLost { queue, .. }
            | Self::DataLost { queue }
            | Self::OutcomesNotStored { queue, .. }
            | Self::HeldUp { queue, .. }
            | Self::GoesOn { queue, .. }
            | Self::Trimmed { queue, .. }
            | Self::GivenBack { queue, .. } => Some(queue),
            _ => self.job().map(|job| &*job.queue),
        }
    }

    /// How loudly it is to be reported.
    pub fn level(&self) -> EventLevel {
        match self {
            Self::Failed { .. } | Self::HooksGivenUp { .. } => EventLevel::Error,
            Self::GivenBack { .. } | Self::Stopping { error: None, .. } => EventLevel::Info,
            // The end of an outage as loudly as its beginning.
            _ => EventLevel::Warning,
        }
    }
}

/// How loudly an event is to be reported.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventLevel {
    /// It is of use to who looks for a mistake.
    Debug,
    /// It is good to know.
    Info,
    /// Somebody should look at it.
    Warning,
    /// A job is lost unless somebody cares for it.
    Error,
}

impl EventLevel {
    /// Its word in every language: `debug`, `info`, `warning` or `error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for WorkerEvent {
    #[allow(clippy::too_many_lines)] // one arm an event
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trouble { error } => write!(f, "the server cannot be used: {error}; the worker keeps trying"),
            Self::Recovered { after } => write!(f, "the server answers again, after {:.1} s", after.as_secs_f64()),
            Self::SchedulesWait { error } => {
                write!(f, "the schedules cannot be stored now, the worker goes on and keeps trying: {error}")
            }
            Self::SchedulesStored => f.write_str("the schedules are stored"),
            Self::HeldUp { queue, what, error } => {
                write!(f, "jobs of queue {queue} run, but {}: {error}; the worker keeps trying", what.fails())
            }
            Self::GoesOn { queue, what } => write!(f, "queue {queue}: {}", what.works()),
            Self::LeaseLost { job } => {
                write!(
                    f,
                    "the lease of {job} ended before its outcome was stored: unless it was cancelled, it may run again in \
                     another worker"
                )
            }
            Self::NotKept { job } => write!(f, "{job} is settled, but {NOT_KEPT}"),
            Self::NotSent { job } => write!(
                f,
                "{job} is settled, but its result, or the data that a failure hook changed, could not be sent: each call with it was \
                 cut off; make it smaller, or check the network"
            ),
            Self::LeasesLost { queue, jobs } => {
                write!(
                    f,
                    "the leases of {jobs} more jobs of queue {queue} ended too: check whether the server lost its data"
                )
            }
            Self::DataLost { queue } => ClientEvent::DataLost { queue: queue.clone() }.fmt(f),
            Self::OutcomeNotStored { job } => write!(
                f,
                "the run of {job} has ended, but the server has not confirmed that, and the worker ends: unless it was stored, the job may \
                 run again, or is kept in failed if it has no retries"
            ),
            Self::OutcomesNotStored { queue, jobs } => {
                write!(f, "{jobs} more jobs of queue {queue} have ended whose outcomes may not be stored either")
            }
            Self::Failed { job, failed } => {
                let why = failed.as_ref().map_or("its record cannot be read", |failed| failed.why());
                write!(f, "{job} failed for good: {why}; find the cause, then requeue or cancel it")
            }
            Self::HooksGivenUp { job } => write!(
                f,
                "{job} is in failed and no hook is called for it any more: three workers that were to call one ended without a \
                 word; check whether an on_failed hook ends its process"
            ),
            Self::SlowHook { job, after } => write!(
                f,
                "the on_failed hook for {job} has run for {:.0} s, and this worker calls no other until it ends: give what it waits for \
                 a timeout, or let it push a job that does the work",
                after.as_secs_f64()
            ),
            Self::Trimmed { queue, jobs } => {
                write!(
                    f,
                    "{jobs} failed jobs of queue {queue} were deleted: too many or too old; to keep more, raise the limits of keep_failed"
                )
            }
            Self::Interrupted { job, why, was_settled, is_last, .. } => {
                let why = match (why, was_settled) {
                    (Interruption::TimedOut, false) if *is_last => {
                        "it ran longer than its timeout and has no retries left: it goes to `failed`"
                    }
                    (Interruption::TimedOut, false) => "it ran longer than its timeout, which counts as a failure",
                    (Interruption::TimedOut, true) => {
                        "it ran longer than its timeout, but what becomes of the job was decided before"
                    }
                    (Interruption::LeaseLost, _) => {
                        "its lease was lost: it was cancelled, or another worker may run it"
                    }
                    (Interruption::Stopped, false) => "the grace of the stopping worker is over: the job goes back",
                    (Interruption::Stopped, true) => {
                        "the grace of the stopping worker is over, but what becomes of the job was decided before"
                    }
                };
                write!(f, "{job} is interrupted: {why}")
            }
            Self::Expired { job, others: 0 } => {
                write!(f, "{job} expired before a handler was free for it, and is dropped")
            }
            Self::Expired { job, others } => {
                write!(f, "{job} and {others} more expired before a handler was free for them, and are dropped")
            }
            Self::TooNew { job } => write!(
                f,
                "{job} was written by a later version of duly: jobs like it are left to workers of that version; update duly here"
            ),
            Self::GivenBack { queue, jobs } => {
                let jobs_word = if *jobs == 1 { "job" } else { "jobs" };
                write!(
                    f,
                    "{jobs} prefetched {jobs_word} of queue {queue} went back, for other workers: all handlers here are busy"
                )
            }
            Self::Stopping { running, grace, error } => {
                let (jobs, grace) = (if *running == 1 { "job" } else { "jobs" }, grace.as_secs_f64());
                if let Some(error) = error {
                    write!(f, "waiting does not cure this error: {error}; ")?;
                }
                write!(f, "the worker stops: {running} {jobs} may run on for {grace} s; a second signal ends that now")
            }
        }
    }
}

/// Why a run was interrupted.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// It ran longer than its job's timeout, which counts as a failure.
    TimedOut,
    /// Its lease was lost: the job was cancelled, or is another worker's now.
    LeaseLost,
    /// The worker's grace is over: the job goes back.
    Stopped,
}

impl Interruption {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::TimedOut, Self::LeaseLost, Self::Stopped];

    /// Its word in every language: `timed_out`, `lease_lost` or `stopped`.
    ///
    /// ```
    /// assert_eq!(duly::worker::Interruption::TimedOut.as_str(), "timed_out");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::LeaseLost => "lease_lost",
            Self::Stopped => "stopped",
        }
    }
}

/// What an exception in the handler says of the job.
impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "ran longer than its timeout",
            Self::LeaseLost => "lost its lease: it was cancelled, or another worker may run it",
            Self::Stopped => "is interrupted, because the grace of its worker is over",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_its_queue_and_how_loud_it_is() {
        let queue = || "q".to_owned();
        let job = AboutJob::unreadable("q", "a".to_owned());
        for (event, level) in [
            (WorkerEvent::GivenBack { queue: queue(), jobs: 1 }, "info"),
            (WorkerEvent::OutcomesNotStored { queue: queue(), jobs: 1 }, "warning"),
            (WorkerEvent::LeaseLost { job: job.clone() }, "warning"),
            (WorkerEvent::Failed { job, failed: None }, "error"),
        ] {
            assert_eq!((event.queue(), event.level().as_str()), (Some("q"), level), "{event}");
        }
        assert_eq!(WorkerEvent::Recovered { after: Duration::ZERO }.queue(), None);
    }
}
