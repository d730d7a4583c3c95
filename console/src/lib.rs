//! The command `duly` for those who run queues: one function from arguments to output, which the binary and the skins call.
//!
//! | file | duty |
//! |---|---|
//! | `actions.rs` | `duly actions`, and how a command gets into that log |
//! | `api.rs` | `duly web --api`: the verbs of queues as JSON over HTTP |
//! | `audit.rs` | `duly audit`: is anything broken? |
//! | `bench.rs` | `duly bench`: how quick is the server? |
//! | `bridge.rs` | `duly bridge`: takes over the jobs of another queue |
//! | `change.rs` | `duly cancel`, `requeue`, `reschedule`, `purge`, `pause`, `resume` |
//! | `completions.rs` | `duly completions`: for shells |
//! | `confirm.rs` | asking before what cannot be undone |
//! | `doctor.rs` | `duly doctor`: what would lose, refuse or delay jobs |
//! | `each_queue.rs` | reads many queues, of which the node of some may be away |
//! | `jobs.rs` | `duly peek`, `find`, `why`, `push` |
//! | `limits.rs` | `duly limits` |
//! | `metrics.rs` | `duly metrics`: what the server knows now, for Prometheus |
//! | `queues.rs` | `duly queues`, `counts`, `delete` |
//! | `rates.rs` | `duly rates` |
//! | `schedules.rs` | `duly schedules` |
//! | `show.rs` | tables, JSON, times |
//! | `signals.rs` | the signals that end a command |
//! | `target.rs` | which server, which queue |
//! | `top.rs` | `duly top`: all of it live, in the terminal |
//! | `topics.rs` | `duly topics` |
//! | `trace.rs` | `duly trace`, `history` |
//! | `web.rs` | `duly web`: the page |
//! | `when.rs` | spans and times on the command line |
//! | `workers.rs` | `duly workers` |

mod actions;
mod api;
mod audit;
mod bench;
mod bridge;
mod change;
mod completions;
mod confirm;
mod doctor;
mod each_queue;
mod failed;
mod jobs;
mod limits;
mod matches;
mod metrics;
mod queues;
mod rates;
mod schedules;
mod show;
mod signals;
mod target;
mod top;
mod topics;
mod trace;
mod web;
mod when;
mod workers;

pub use metrics::{CONTENT_TYPE, Scrape, scrape};
pub use web::{Rights, Role, Visit, WebAnswer, WebPage};

use std::ffi::OsString;
use std::future::{Future, ready};
use std::io::{self, Write};
use std::pin::Pin;
use std::time::Duration;

use clap::{Parser, Subcommand};
use duly::{Error, ErrorKind, Stop};
use tokio::time::timeout;

use self::actions::Acting;
use self::signals::{End, Ends};

/// All went well.
pub const DONE: u8 = 0;
/// The server refused, or something is left to do.
pub const FAILED: u8 = 1;
/// A wrong command line.
pub const USAGE: u8 = 2;
/// Ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// How long a command that acts waits for the call that is under way when a signal comes.
const LONGEST_CALL: Duration = Duration::from_secs(1);

/// Shows queues, jobs, workers and schedules, and acts on them.
#[derive(Debug, Parser)]
#[command(name = "duly", version, about, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Queues(queues::Queues),
    Counts(queues::Counts),
    Peek(jobs::Peek),
    Find(Box<jobs::Find>),
    Why(Box<jobs::Why>),
    Trace(trace::Trace),
    Failed(failed::Failed),
    Push(Box<jobs::Push>),
    Cancel(Box<change::Cancel>),
    Requeue(Box<change::Requeue>),
    Reschedule(Box<change::Reschedule>),
    Purge(Box<change::Purge>),
    /// Pause a queue: running jobs finish, and no others start
    Pause(change::SetPaused),
    /// Resume a queue that is paused
    Resume(change::SetPaused),
    Limits(limits::Limits),
    History(trace::History),
    Workers(workers::Workers),
    Rates(rates::Rates),
    Schedules(schedules::Schedules),
    Topics(topics::Topics),
    Top(top::Top),
    Metrics(metrics::Metrics),
    Doctor(doctor::Doctor),
    Audit(audit::Audit),
    Actions(actions::Actions),
    Delete(queues::Delete),
    Bench(bench::Bench),
    Bridge(Box<bridge::Bridge>),
    Web(web::Web),
    Completions(completions::Completions),
    Worker(Worker),
}

/// Run the jobs of an application: a command of each language
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
struct Worker {
    #[arg(hide = true, num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Worker {
    fn run(&self) -> Error {
        _ = &self.arguments;
        invalid(
            "workers run the code of an application: `duly worker app` of `pip install duly` runs the tasks of Python, and \
             `vendor/bin/duly-worker` those of PHP",
        )
    }
}

/// A wrong command line, beyond what its parser sees.
fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// The outputs of a command. Whoever reads them may have gone.
struct Output<'a> {
    out: &'a mut dyn Write,
    /// Progress and errors.
    err: &'a mut dyn Write,
    /// Set when a signal ends the command.
    stop: Stop,
    /// What it does, for the log of actions.
    acting: Acting,
}

impl Output<'_> {
    fn line(&mut self, text: &str) {
        _ = writeln!(self.out, "{text}");
    }

    /// What went wrong.
    fn complain(&mut self, text: &str) {
        _ = writeln!(self.err, "duly: {text}");
    }
}

/// Notes the first thing that could not be written, unless whoever reads has gone.
struct Noting<'a> {
    out: &'a mut dyn Write,
    failed: Option<io::Error>,
}

impl Noting<'_> {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::BrokenPipe {
                self.failed.get_or_insert(error);
            }
            kind.into()
        })
    }
}

impl Write for Noting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.note(result)
    }
}

/// A command under way.
type Running<'a> = Pin<Box<dyn Future<Output = Result<u8, Error>> + 'a>>;

/// Runs the command and gives its exit status, which is no success if its output could not be written. `arguments`: without the name of the
/// program.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString>>, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut out = Noting { out, failed: None };
    let status = run_noting(arguments, &mut out, err);
    _ = out.flush();
    let Some(error) = out.failed else { return status };
    _ = writeln!(err, "duly: the output could not be written: {error}");
    if status == DONE { FAILED } else { status }
}

/// What is not understood may be a URL, and its password is nobody's to read.
fn without_passwords(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(without_password).collect()
}

/// A word may be a URL, or hold one. Of a password that is not escaped nothing is known but that it ends before the last `@`.
fn without_password(word: &str) -> String {
    let begin = word.find("://").map(|scheme| scheme + 3);
    match begin.and_then(|begin| Some((begin, begin + word[begin..].find(':')?, word.rfind('@')?))) {
        Some((begin, colon, at)) if colon < at => format!("{}:***{}", &word[..colon.max(begin)], &word[at..]),
        _ => word.to_owned(),
    }
}

fn run_noting(
    arguments: impl IntoIterator<Item = impl Into<OsString>>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let all = std::iter::once("duly".into()).chain(arguments.into_iter().map(Into::into));
    let arguments = match Arguments::try_parse_from(all) {
        Ok(arguments) => arguments,
        Err(said) => {
            let text = without_passwords(&said.render().to_string());
            // Who asks for help gets it on the output.
            let is_error = said.use_stderr();
            _ = if is_error { err.write_all(text.as_bytes()) } else { out.write_all(text.as_bytes()) };
            return if is_error { USAGE } else { DONE };
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            _ = writeln!(err, "duly: the system gives no thread: {error}");
            return FAILED;
        }
    };
    let stop = Stop::default();
    let acting = Acting::default();
    let output = Output { out, err: &mut *err, stop: stop.clone(), acting: acting.clone() };
    let running = arguments.command.run(output);
    let (ended, end) = runtime.block_on(until_ended(running, &arguments.command, &stop, &acting));
    let noted = runtime.block_on(acting.end(ended.as_ref()));
    // What resolves a name cannot be ended, and is not waited for.
    runtime.shutdown_background();
    if let Err(why) = noted {
        _ = writeln!(err, "duly: {why}");
    }
    let status = match (ended, end) {
        (Some(Ok(status)), _) => status,
        (Some(Err(error)), end) => {
            _ = writeln!(err, "duly: {error}");
            match (error.kind(), end) {
                (ErrorKind::Interrupted, Some(end)) => end.status_before_the_end(),
                (ErrorKind::InvalidArgument | ErrorKind::WrongServer, _) => USAGE,
                _ => FAILED,
            }
        }
        (None, end) => {
            _ = writeln!(err, "duly: interrupted");
            end.map_or(INTERRUPTED, End::status_before_the_end)
        }
    };
    if let Some(end) = end {
        end.pass_on();
    }
    status
}

/// Runs a command to its end, or until a signal for which the program has a handler. Nothing if it was then dropped.
async fn until_ended(
    mut running: Running<'_>,
    command: &Command,
    stop: &Stop,
    acting: &Acting,
) -> (Option<Result<u8, Error>>, Option<End>) {
    if command.hears_of_signals() {
        return (Some(running.await), None);
    }
    let mut ends = match Ends::hear_for_program() {
        Ok(ends) => ends,
        Err(error) => return (Some(Err(error)), None),
    };
    let end = tokio::select! {
        // A signal first: an answer to a question may have come behind it.
        biased;
        end = ends.come() => end,
        ended = &mut running => return (Some(ended), None),
    };
    if !command.acts() {
        return (None, Some(end));
    }
    // Between two calls it ends by itself, and says what was done until then. A server that does not answer is not waited for.
    stop.before_next_call();
    if let Ok(ended) = timeout(LONGEST_CALL, &mut running).await {
        return (Some(ended), Some(end));
    }
    stop.at_once();
    acting.cut_off();
    (timeout(LONGEST_CALL, running).await.ok(), Some(end))
}

impl Command {
    /// Does it take signals itself, as it runs until it is ended?
    fn hears_of_signals(&self) -> bool {
        match self {
            Self::Bench(_) | Self::Web(_) => true,
            Self::Top(top) => top.is_live(),
            Self::Bridge(bridge) => bridge.takes_over(),
            _ => false,
        }
    }

    /// Does it change anything? Others end wherever they are.
    fn acts(&self) -> bool {
        matches!(
            self,
            Self::Push(_)
                | Self::Cancel(_)
                | Self::Requeue(_)
                | Self::Reschedule(_)
                | Self::Purge(_)
                | Self::Pause(_)
                | Self::Resume(_)
                | Self::Limits(_)
                | Self::History(_)
                | Self::Schedules(_)
                | Self::Audit(_)
                | Self::Delete(_)
                | Self::Bridge(_)
        )
    }

    fn run<'a>(&'a self, mut output: Output<'a>) -> Running<'a> {
        // Boxed: the runtime's own code would have a copy of each in several places.
        match self {
            Self::Queues(command) => Box::pin(command.run(output)),
            Self::Counts(command) => Box::pin(command.run(output)),
            Self::Peek(command) => Box::pin(command.run(output)),
            Self::Find(command) => Box::pin(command.run(output)),
            Self::Why(command) => Box::pin(command.run(output)),
            Self::Trace(command) => Box::pin(command.run(output)),
            Self::Failed(command) => Box::pin(command.run(output)),
            Self::Push(command) => Box::pin(command.run(output)),
            Self::Cancel(command) => Box::pin(command.run(output)),
            Self::Requeue(command) => Box::pin(command.run(output)),
            Self::Reschedule(command) => Box::pin(command.run(output)),
            Self::Purge(command) => Box::pin(command.run(output)),
            Self::Pause(command) => Box::pin(command.run(true, output)),
            Self::Resume(command) => Box::pin(command.run(false, output)),
            Self::Limits(command) => Box::pin(command.run(output)),
            Self::History(command) => Box::pin(command.run(output)),
            Self::Workers(command) => Box::pin(command.run(output)),
            Self::Rates(command) => Box::pin(command.run(output)),
            Self::Schedules(command) => Box::pin(command.run(output)),
            Self::Topics(command) => Box::pin(command.run(output)),
            Self::Top(command) => Box::pin(command.run(output)),
            Self::Metrics(command) => Box::pin(command.run(output)),
            Self::Doctor(command) => Box::pin(command.run(output)),
            Self::Audit(command) => Box::pin(command.run(output)),
            Self::Actions(command) => Box::pin(command.run(output)),
            Self::Delete(command) => Box::pin(command.run(output)),
            Self::Bench(command) => Box::pin(command.run(output)),
            Self::Bridge(command) => Box::pin(command.run(output)),
            Self::Web(command) => Box::pin(command.run(output)),
            Self::Completions(command) => Box::pin(ready(Ok(command.run(&mut output)))),
            Self::Worker(command) => Box::pin(ready(Err(command.run()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_is_not_understood_is_not_shown() {
        for (text, shown) in [
            ("'redis://user:pass@host:1/0' found", "'redis://user:***@host:1/0' found"),
            ("redis://:p@s/s@host, rediss://u:x@h", "redis://:***@host, rediss://u:***@h"),
            ("redis://host:6379/0 and http://a/b", "redis://host:6379/0 and http://a/b"),
            ("redis://me@corp:secret@host", "redis://me@corp:***@host"),
            ("redis://me/corp:sec/ret@host", "redis://me/corp:***@host"),
            ("'redis://me:a://b:c@host'", "'redis://me:***@host'"),
            ("no URL: a@b", "no URL: a@b"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }
}
