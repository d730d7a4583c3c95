//! The life of a job: `Duly\Trace` and its parts.

use duly::Millis;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;

use crate::inspect::JobView;
use crate::record::{record, signed};

record! {
    /// The life of a job.
    Trace = "Duly\\Trace" {
        /// Its id.
        id: String,
        /// The job, if it is still in the queue.
        job: Option<JobView>,
        /// Does the queue keep a history?
        kept: bool,
        /// Do the events begin with the push?
        complete: bool,
        /// What happened, the first first.
        events: Vec<TraceEvent>,
        /// The runs among these events, the first first.
        runs: Vec<TraceRun>,
    }
}

record! {
    /// One thing that happened to a job.
    TraceEvent = "Duly\\TraceEvent" {
        /// When, in unix seconds by the server's clock.
        at: f64,
        /// What.
        what: String,
        /// The language of the process that did it.
        language: String,
        /// The number of that process.
        pid: i64,
        /// Its host.
        host: String,
        /// When it was due since then.
        due: Option<f64>,
        /// The token of the lease.
        token: Option<i64>,
        /// Which attempt the run is.
        attempt: Option<i64>,
        /// How many seconds the run took.
        took: Option<f64>,
        /// The beginning of the error.
        error: Option<String>,
        /// What else there is to say.
        detail: Option<String>,
    }
}

record! {
    /// One run of a job, as its events tell it.
    TraceRun = "Duly\\TraceRun" {
        /// Which attempt, from 1 on.
        attempt: Option<i64>,
        /// The token of its lease.
        token: Option<i64>,
        /// The language of the process that ran it.
        language: String,
        /// The number of that process.
        pid: i64,
        /// Its host.
        host: String,
        /// When the worker got the job.
        reserved_at: Option<f64>,
        /// When the run started.
        started_at: Option<f64>,
        /// When the server heard of its end.
        ended_at: Option<f64>,
        /// What came of it.
        outcome: Option<String>,
        /// The beginning of its error.
        error: Option<String>,
        /// The class of its error.
        error_class: Option<String>,
    }
}

impl From<duly::Trace> for Trace {
    fn from(trace: duly::Trace) -> Self {
        let runs = trace.runs().into_iter().map(TraceRun::from).collect();
        Self {
            id: trace.id,
            job: trace.job.map(JobView::new),
            kept: trace.is_kept,
            complete: trace.is_complete,
            events: trace.events.into_iter().map(TraceEvent::from).collect(),
            runs,
        }
    }
}

impl From<duly::TraceEvent> for TraceEvent {
    fn from(event: duly::TraceEvent) -> Self {
        Self {
            at: event.at.as_seconds(),
            what: event.what.as_str().to_owned(),
            language: event.language,
            pid: event.pid.into(),
            host: event.host,
            due: event.due.map(Millis::as_seconds),
            token: event.token.map(signed),
            attempt: event.attempt.map(i64::from),
            took: event.took.map(|took| took.as_secs_f64()),
            error: event.error,
            detail: event.detail,
        }
    }
}

impl From<duly::TraceRun> for TraceRun {
    fn from(run: duly::TraceRun) -> Self {
        Self {
            attempt: run.attempt.map(i64::from),
            token: run.token.map(signed),
            reserved_at: run.reserved_at.map(Millis::as_seconds),
            started_at: run.started_at.map(Millis::as_seconds),
            ended_at: run.ended_at.map(Millis::as_seconds),
            outcome: run.outcome.map(|outcome| outcome.as_str().to_owned()),
            error_class: run.error_class().map(str::to_owned),
            error: run.error,
            language: run.language,
            pid: run.pid.into(),
            host: run.host,
        }
    }
}
