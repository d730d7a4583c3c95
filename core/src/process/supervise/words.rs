//! What a supervisor logs, in every language.

use std::time::Duration;

use super::exit::{Exit, LastWord};
use super::{NO_PROCESS_PAUSE, OnExit};

/// How much a line of the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// It goes as it should, and often.
    Debug,
    /// It goes as it should.
    Info,
    /// It goes on.
    Warning,
    /// Somebody should look.
    Error,
}

/// A line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// One line, without an end.
    pub text: String,
}

fn line(level: LogLevel, text: String) -> LogLine {
    LogLine { level, text }
}

pub(super) fn no_process(why: &str) -> LogLine {
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    line(LogLevel::Error, format!("the system gives no process; trying again in {} s{why}", NO_PROCESS_PAUSE.as_secs()))
}

pub(super) fn stopping(grace: Duration) -> LogLine {
    let grace = grace.as_secs_f64();
    line(LogLevel::Info, format!("stopping: jobs that run may go on for {grace} s; a second signal ends that now"))
}

pub(super) fn reloading() -> LogLine {
    let text = "reloading: one worker process after the other ends after its jobs, and another takes its place";
    line(LogLevel::Info, text.to_owned())
}

pub(super) fn code_changed() -> LogLine {
    line(LogLevel::Info, "a source file has changed: the worker processes start again".to_owned())
}

pub(super) fn killed(id: u32) -> LogLine {
    let text = format!(
        "worker process {id} did not end within its grace and is killed; its jobs come back when their leases end"
    );
    line(LogLevel::Error, text)
}

/// Nothing where all is well, or where the process has said it.
pub(super) fn ended(id: u32, exit: &Exit, then: OnExit) -> Option<LogLine> {
    let (level, what) = match then {
        OnExit::Stopped | OnExit::Reloaded => return None,
        OnExit::StopAll if exit.word == Some(LastWord::Refused) => return None,
        OnExit::StopAll => {
            let what = "met a permanent error, which every other one would meet, too: all stop";
            (LogLevel::Error, what.to_owned())
        }
        OnExit::Recycled => (LogLevel::Debug, "has run its jobs; another one starts".to_owned()),
        OnExit::Replace(after) => {
            let (lived, after) = (exit.lived.as_secs_f64(), after.as_secs_f64());
            (LogLevel::Warning, format!("{} after {lived:.1} s; another one starts in {after:.1} s", how(exit)))
        }
        OnExit::Await => (LogLevel::Error, format!("{}; another one starts when a source file changes", how(exit))),
    };
    Some(line(level, format!("worker process {id} {what}")))
}

fn how(exit: &Exit) -> String {
    match exit.status {
        0 => "ended before it was ready".to_owned(),
        code @ 1.. => format!("ended with exit code {code}"),
        signal => format!("was killed by signal {}", signal.unsigned_abs()),
    }
}
