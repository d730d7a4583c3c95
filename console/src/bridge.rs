//! `duly bridge`.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use duly::{BridgeReport, Client, Error, OldQueue, ScoreUnit};

use crate::{DONE, FAILED, INTERRUPTED, Output, Target};

/// How often a line says how far it is.
const SAY_AGAIN: Duration = Duration::from_secs(2);

/// Take over the jobs of another queue: nothing is lost and nothing doubled, wherever it is interrupted
#[derive(Debug, Args)]
#[command(after_help = "\
Begin with `dry-run`. Then stop the old consumers, run `follow` beside the old producers, and change these to duly one by one. When none \
is left, end `follow` with Ctrl-C, and run `drain` once: it must say that counts agree.

examples:
  duly bridge dry-run --from think-queue --queue orders --source redis://old:6379/0
  duly bridge follow  --from thinkphp --to orders --source redis://old:6379/0 --url redis://new:6379
  duly bridge drain   --from list --ready tasks --to orders --name order.close")]
pub(crate) struct Bridge {
    /// What to do
    mode: Mode,
    /// What the other queue is
    #[arg(long)]
    from: Kind,
    /// Where the other queue is [default: the server of duly]
    #[arg(long)]
    source: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Queues of think-queue, laravel or workerman; once for each
    #[arg(long = "queue")]
    queues: Vec<String>,
    /// The duly queue for the jobs of thinkphp, list and sorted-set
    #[arg(long, default_value = "default")]
    to: String,
    /// The old list of ready jobs (thinkphp, list)
    #[arg(long)]
    ready: Option<String>,
    /// The old sorted set of delayed jobs (thinkphp, sorted-set)
    #[arg(long)]
    delayed: Option<String>,
    /// The old list of failed jobs (thinkphp)
    #[arg(long)]
    failed: Option<String>,
    /// What the old keys begin with (laravel, workerman)
    #[arg(long, default_value = "")]
    key_prefix: String,
    /// The handler's name of jobs that say none
    #[arg(long)]
    name: Option<String>,
    /// In what the scores of a sorted set count
    #[arg(long, default_value = "s")]
    unit: Unit,
    /// New entries of the list come in at the beginning (LPUSH), and not at the end
    #[arg(long)]
    newest_first: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    /// Count and read all of it, and move nothing
    DryRun,
    /// Take over all that is there
    Drain,
    /// The same, and go on until Ctrl-C
    Follow,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// `ThinkPHP`'s Queue.php and its Go twin
    Thinkphp,
    /// think-queue 3
    ThinkQueue,
    /// Laravel's driver `redis`
    Laravel,
    /// workerman's and webman's redis-queue
    Workerman,
    /// any list: each entry is a job's data
    List,
    /// any sorted set: each member is a job's data, due at its score
    SortedSet,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Unit {
    S,
    Ms,
    Ns,
}

impl Bridge {
    fn old(&self) -> Result<OldQueue, Error> {
        let given = |key: &Option<String>, otherwise: &str| key.clone().unwrap_or_else(|| otherwise.to_owned());
        let needed = |key: &Option<String>, option: &str| {
            let missing = || Error::new(duly::ErrorKind::InvalidArgument, format!("say which key it is: {option} KEY"));
            key.clone().ok_or_else(missing)
        };
        if self.queues.is_empty() && matches!(self.from, Kind::ThinkQueue | Kind::Laravel | Kind::Workerman) {
            let message = "say which queues: --queue NAME, once for each";
            return Err(Error::new(duly::ErrorKind::InvalidArgument, message));
        }
        let old = match self.from {
            Kind::Thinkphp => OldQueue::thinkphp_with_keys(
                &self.to,
                &given(&self.ready, "redis:queue:ready"),
                &given(&self.delayed, "redis:queue:delay"),
                &given(&self.failed, "redis:queue:failed"),
            ),
            Kind::ThinkQueue => OldQueue::think_queue(&self.queues),
            Kind::Laravel => OldQueue::laravel(&self.key_prefix, &self.queues),
            Kind::Workerman => OldQueue::workerman(&self.key_prefix, &self.queues),
            Kind::List => OldQueue::list(&needed(&self.ready, "--ready")?, !self.newest_first, &self.to),
            Kind::SortedSet => {
                let unit = match self.unit {
                    Unit::S => ScoreUnit::Seconds,
                    Unit::Ms => ScoreUnit::Millis,
                    Unit::Ns => ScoreUnit::Nanos,
                };
                OldQueue::sorted_set(&needed(&self.delayed, "--delayed")?, unit, &self.to)
            }
        }?;
        match &self.name {
            Some(name) => old.name(name),
            None => Ok(old),
        }
    }

    pub(crate) async fn run(&self, output: Output<'_>) -> Result<u8, Error> {
        let target = self.target.client()?;
        let source = match &self.source {
            // It may be a cache that forgets: what it holds is still worth taking.
            Some(url) => Client::builder().url(url).allow_eviction(true).build()?,
            None => target.clone(),
        };
        let bridge = duly::Bridge::new(&source, &target, self.old()?);
        let Output { out, err } = output;
        let mut progress = Progress { err, said_at: Instant::now(), said: None };
        let report = match self.mode {
            Mode::DryRun => bridge.count().await?,
            Mode::Follow => bridge.follow(interrupted()?, |report| progress.say(report)).await?,
            Mode::Drain => {
                let interrupted = interrupted()?;
                tokio::select! {
                    report = bridge.drain(|report| progress.say(report)) => report?,
                    () = interrupted => {
                        _ = writeln!(err, "duly: interrupted: what is in flight waits beside its key; run it again");
                        return Ok(INTERRUPTED);
                    }
                }
            }
        };
        _ = writeln!(out, "{report}");
        Ok(if report.is_dry || report.is_complete() || matches!(self.mode, Mode::Follow) { DONE } else { FAILED })
    }
}

/// Ready at Ctrl-C, and at a SIGTERM.
fn interrupted() -> Result<impl Future<Output = ()>, Error> {
    let failed = |error| Error::new(duly::ErrorKind::Internal, format!("signals cannot be heard of: {error}"));
    let mut ctrl_c = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = ctrl_c.recv() => {}
            _ = term.recv() => {}
        }
    })
}

struct Progress<'a> {
    err: &'a mut dyn Write,
    said_at: Instant,
    /// What the last line said that it waits for.
    said: Option<String>,
}

impl Progress<'_> {
    fn say(&mut self, report: &BridgeReport) {
        if self.said != report.trouble {
            _ = match &report.trouble {
                Some(trouble) => writeln!(self.err, "duly: it waits: {trouble}"),
                None => writeln!(self.err, "duly: it goes on"),
            };
            self.said.clone_from(&report.trouble);
        }
        if self.said_at.elapsed() >= SAY_AGAIN {
            self.said_at = Instant::now();
            _ = writeln!(self.err, "duly: {} jobs are moved", report.moved());
        }
    }
}
