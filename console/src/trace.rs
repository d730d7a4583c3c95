//! `duly trace` and `duly history`: what happened to a job, also if it is gone.

use std::time::Duration;

use clap::Args;
use duly::{DEFAULT_HISTORY_AGE, DEFAULT_HISTORY_JOBS, Error, Millis, TraceEvent, TraceRun};
use serde_json::{Value, json};

use crate::show::{Shown, argument, or_dash};
use crate::target::One;
use crate::when::span;
use crate::{DONE, FAILED, Output};

/// Show the life of one job: who pushed it, each of its runs, and what became of it
#[derive(Debug, Args)]
#[command(after_help = "\
Of a job that is gone this is known if the queue keeps a history: see `duly history`.

examples:
  duly trace orders order-42
  duly trace orders order-42 --json")]
pub(crate) struct Trace {
    #[command(flatten)]
    one: One,
    /// The id of the job
    id: String,
    #[command(flatten)]
    shown: Shown,
}

/// Show or change how much history a queue keeps, for `duly trace`
#[derive(Debug, Args)]
#[command(after_help = "\
An event takes 20 bytes on the server in a batch, about 60 and the host's name in a call of its own, and a job has three to five.
The server works a tenth longer for batches of a hundred, a quarter for single calls. Off unless switched on.

examples:
  duly history orders
  duly history orders --on
  duly history orders --jobs 20000 --age 3d
  duly history orders --off")]
pub(crate) struct History {
    #[command(flatten)]
    one: One,
    /// Keep a history, of 1,000 jobs and 24 hours
    #[arg(long, conflicts_with = "off")]
    on: bool,
    /// Keep a history, of about so many jobs, 1 to 1,000,000
    #[arg(long, conflicts_with = "off", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    jobs: Option<u64>,
    /// Keep a history for so long, such as 90m, 24h or 3d
    #[arg(long, conflicts_with = "off", value_parser = span)]
    age: Option<Duration>,
    /// Keep no history any more; what was kept is removed
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    shown: Shown,
}

impl Trace {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let queue = self.one.open(&output).await?;
        let Some(trace) = queue.trace(&self.id).await? else {
            let more = match queue.history().await? {
                Some(_) => "it was never there, or longer ago than its history goes",
                None => {
                    "it is done, was cancelled, or never was there; `duly history` says how to keep what happens to jobs"
                }
            };
            output.complain(&format!("nothing is known of a job of {} with this id: {more}", self.one.queue));
            return Ok(FAILED);
        };
        let runs = trace.runs();
        if self.shown.json {
            let state = trace.job.as_ref().map(|job| job.state.as_str());
            output.json(&json!({
                "id": trace.id,
                "state": state,
                "kept": trace.is_kept,
                "complete": trace.is_complete,
                "events": trace.events.iter().map(value_of).collect::<Vec<_>>(),
                "runs": runs.iter().map(value_of_run).collect::<Vec<_>>(),
            }))?;
            return Ok(DONE);
        }
        let rows = trace.events.iter().map(|event| {
            vec![precise(event.at), event.what.as_str().replace('_', " "), or_dash(told(event)), or_dash(who(event))]
        });
        output.table(&["AT (UTC)", "WHAT", "MORE", "BY"], rows.collect());
        output.line("");
        let known = if trace.is_complete { "" } else { " that is known" };
        let counted = format!("{}{known}", times(runs.len()));
        match &trace.job {
            Some(job) if !trace.is_complete && runs.is_empty() => {
                let failures = job.envelope.attempts;
                let times = if failures == 1 { "time" } else { "times" };
                output.line(&format!("it is {} now, and has failed {failures} {times}", job.state.as_str()));
            }
            Some(job) => output.line(&format!("it is {} now, after {counted}", job.state.as_str())),
            None => output.line(&format!("it is gone, after {counted}")),
        }
        if !trace.is_kept {
            output.line(
                "the queue keeps no history, so this is what the stored job tells: `duly history` says how to keep one",
            );
        } else if !trace.is_complete {
            output.line("what happened before is not kept, or no longer: `duly history` says how to keep more");
        }
        Ok(DONE)
    }
}

impl History {
    pub(crate) fn changes(&self) -> bool {
        self.on || self.off || self.jobs.is_some() || self.age.is_some()
    }

    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let queue = self.one.open(&output).await?;
        let mut kept = queue.history().await?;
        if self.changes() {
            let jobs = self.jobs.or(kept.map(|kept| kept.jobs)).unwrap_or(DEFAULT_HISTORY_JOBS);
            let age = self.age.or(kept.map(|kept| kept.age)).unwrap_or(DEFAULT_HISTORY_AGE);
            let kept_jobs = if self.off { "none".to_owned() } else { jobs.to_string() };
            output.acting.begin(self.one.action("history", &[("jobs", &kept_jobs)]));
            queue.keep_history(if self.off { 0 } else { jobs }, age).await?;
            kept = queue.history().await?;
        }
        if self.shown.json {
            output.json(&kept.map(|kept| json!({"jobs": kept.jobs, "age": kept.age.as_secs_f64()})))?;
            return Ok(DONE);
        }
        let (name, queue) = (&self.one.queue, argument(&self.one.queue));
        match kept {
            Some(kept) => {
                let age = crate::show::span(Millis::from_duration(kept.age).unwrap_or(Millis::ZERO));
                output.line(&format!("{name} keeps what happens to about {} jobs, for {age}", kept.jobs));
            }
            None => output.line(&format!("{name} keeps no history: `duly history --on {queue}` switches it on")),
        }
        Ok(DONE)
    }
}

fn times(runs: usize) -> String {
    match runs {
        0 => "no run".to_owned(),
        1 => "one run".to_owned(),
        runs => format!("{runs} runs"),
    }
}

/// A time of the server in UTC, to the millisecond.
pub(crate) fn precise(at: Millis) -> String {
    let at = i64::try_from(at.get()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string())
}

/// What there is to say of it beside its name.
pub(crate) fn told(event: &TraceEvent) -> Option<String> {
    let parts = [
        event.attempt.map(|attempt| format!("attempt {attempt}")),
        event.token.map(|token| format!("token {token}")),
        event.took.map(|took| format!("took {} s", took.as_secs_f64())),
        event.due.map(|due| format!("due {}", precise(due))),
        event.error.clone(),
        event.detail.clone(),
    ];
    let said = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    (!said.is_empty()).then_some(said)
}

/// The process whose call it was.
pub(crate) fn who(event: &TraceEvent) -> Option<String> {
    (!event.language.is_empty()).then(|| format!("{} {}:{}", event.language, event.host, event.pid))
}

fn value_of(event: &TraceEvent) -> Value {
    json!({
        "at": event.at.as_seconds(),
        "what": event.what.as_str(),
        "language": event.language,
        "pid": event.pid,
        "host": event.host,
        "due": event.due.map(Millis::as_seconds),
        "token": event.token,
        "attempt": event.attempt,
        "took": event.took.map(|took| took.as_secs_f64()),
        "error": event.error,
        "detail": event.detail,
    })
}

fn value_of_run(run: &TraceRun) -> Value {
    json!({
        "attempt": run.attempt,
        "token": run.token,
        "language": run.language,
        "pid": run.pid,
        "host": run.host,
        "reserved_at": run.reserved_at.map(Millis::as_seconds),
        "started_at": run.started_at.map(Millis::as_seconds),
        "ended_at": run.ended_at.map(Millis::as_seconds),
        "outcome": run.outcome.map(duly::Happening::as_str),
        "error": run.error,
        "error_class": run.error_class(),
    })
}
