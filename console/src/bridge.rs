//! `duly bridge`.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use duly::{BridgeReport, Client, Durability, Error, OldQueue, ScoreUnit, Stop};
use tokio::sync::oneshot;

use crate::actions::{Acting, Action};
use crate::signals::Ends;
use crate::target::{Target, all, chosen};
use crate::{DONE, FAILED, INTERRUPTED, Output, invalid};

/// How often a line says how far it is.
const SAY_AGAIN: Duration = Duration::from_secs(2);

/// Take over the jobs of another queue: wherever it is interrupted, no job is lost and none is doubled
#[derive(Debug, Args)]
#[command(after_help = "\
Begin with `dry-run`. Then stop the old consumers, run `follow` beside the old producers, and change these to duly one by one. When none \
is left, end `follow` with Ctrl-C, and run `drain` once: it must say that counts agree. With --back jobs go the other way.

examples:
  duly bridge dry-run --from think-queue --queue orders --source redis://old:6379/0
  duly bridge follow  --from thinkphp --to orders --source redis://old:6379/0 --url redis://new:6379
  duly bridge follow  --back --from thinkphp --to orders --source redis://old:6379/0
  duly bridge give-back --from thinkphp --to orders --source redis://old:6379/0
  duly bridge drain   --from list --ready tasks --to orders --name order.close")]
pub(crate) struct Bridge {
    /// How to take over the jobs
    mode: Mode,
    /// The kind of the other queue
    #[arg(long)]
    from: Kind,
    /// URL of the other queue's server [default: duly's server]
    #[arg(long, env = "DULY_SOURCE_URL", hide_env_values = true)]
    source: Option<String>,
    #[command(flatten)]
    target: Target,
    /// The other way: duly's jobs go into the keys of thinkphp, workerman or think-queue
    #[arg(long)]
    back: bool,
    /// Number of partitions of duly's queues, the same in each run; 0 if they have none [default: what the list of queues says]
    #[arg(long)]
    partitions: Option<u16>,
    /// When a job counts as taken over: `none`, `wait:<n>` (so many replicas have it) or `fsync` (it is on the disk)
    #[arg(long, default_value = "none")]
    durability: Durability,
    #[command(flatten)]
    old: Old,
}

/// What the other queue's keys are. Each option belongs to some kinds of queues.
#[derive(Debug, Args)]
struct Old {
    /// Queues of think-queue, laravel, workerman or celery, and topics of gmq; once for each
    #[arg(long = "queue")]
    queues: Vec<String>,
    /// The duly queue for the jobs of thinkphp, list and sorted-set [default: default]
    #[arg(long)]
    to: Option<String>,
    /// The old list of ready jobs (thinkphp, list)
    #[arg(long)]
    ready: Option<String>,
    /// The old sorted set of delayed jobs (thinkphp, sorted-set)
    #[arg(long)]
    delayed: Option<String>,
    /// The old list of failed jobs (thinkphp)
    #[arg(long)]
    failed: Option<String>,
    /// The beginning of the old keys (laravel, workerman, celery)
    #[arg(long)]
    key_prefix: Option<String>,
    /// The name of jobs that have none, which selects their handler (all but celery)
    #[arg(long)]
    name: Option<String>,
    /// The unit of the scores in a sorted set [default: s]
    #[arg(long)]
    unit: Option<Unit>,
    /// New entries are added at the beginning of the list (LPUSH), and not at the end
    #[arg(long)]
    newest_first: bool,
    /// Seconds after which celery gives the job of a worker to another one [default: 3600]
    #[arg(long)]
    visibility_timeout: Option<u64>,
    /// Number of buckets of each kind in gmq [default: 3]
    #[arg(long)]
    buckets: Option<u8>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    /// Count and read all jobs, and move nothing
    DryRun,
    /// Take over all jobs that are there
    Drain,
    /// The same, and go on until Ctrl-C
    Follow,
    /// Put back into duly what a bridge --back that was interrupted has left on its way
    GiveBack,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// `ThinkPHP`'s Queue.php and its Go twin
    Thinkphp,
    /// think-queue 3
    ThinkQueue,
    /// Laravel's driver `redis`
    Laravel,
    /// workerman's and webman's redis-queue
    Workerman,
    /// Celery with Redis as its broker
    Celery,
    /// gmq
    Gmq,
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

impl Old {
    /// Which options are given, and to which kinds each belongs.
    fn check(&self, from: Kind) -> Result<(), Error> {
        use Kind::{Celery, Gmq, Laravel, List, SortedSet, ThinkQueue, Thinkphp, Workerman};
        let named = [ThinkQueue, Laravel, Workerman, Celery, Gmq];
        let options: [(&str, bool, &[Kind]); 11] = [
            ("--queue", !self.queues.is_empty(), &named),
            ("--to", self.to.is_some(), &[Thinkphp, List, SortedSet]),
            ("--ready", self.ready.is_some(), &[Thinkphp, List]),
            ("--delayed", self.delayed.is_some(), &[Thinkphp, SortedSet]),
            ("--failed", self.failed.is_some(), &[Thinkphp]),
            ("--key-prefix", self.key_prefix.is_some(), &[Laravel, Workerman, Celery]),
            ("--name", self.name.is_some(), &[Thinkphp, ThinkQueue, Laravel, Workerman, Gmq, List, SortedSet]),
            ("--unit", self.unit.is_some(), &[SortedSet]),
            ("--newest-first", self.newest_first, &[List]),
            ("--visibility-timeout", self.visibility_timeout.is_some(), &[Celery]),
            ("--buckets", self.buckets.is_some(), &[Gmq]),
        ];
        for (option, is_given, kinds) in options {
            if is_given && !kinds.contains(&from) {
                let kinds: Vec<String> = kinds.iter().map(|kind| kind.word()).collect();
                let from = from.word();
                return Err(invalid(format!("{option} is no option of --from {from}, but of {}", kinds.join(", "))));
            }
        }
        if self.queues.is_empty() && named.contains(&from) {
            return Err(invalid("say which queues: --queue NAME, once for each"));
        }
        Ok(())
    }

    fn queue(&self, from: Kind) -> Result<OldQueue, Error> {
        self.check(from)?;
        let given = |key: &Option<String>, otherwise: &str| key.clone().unwrap_or_else(|| otherwise.to_owned());
        let needed = |key: &Option<String>, option: &str| {
            key.clone().ok_or_else(|| invalid(format!("say which key it is: {option} KEY")))
        };
        let (to, prefix) = (given(&self.to, "default"), given(&self.key_prefix, ""));
        let buckets = self.buckets.unwrap_or(3);
        let old = match from {
            Kind::Thinkphp => OldQueue::thinkphp_with_keys(
                &to,
                &given(&self.ready, "redis:queue:ready"),
                &given(&self.delayed, "redis:queue:delay"),
                &given(&self.failed, "redis:queue:failed"),
            ),
            Kind::ThinkQueue => OldQueue::think_queue(&self.queues),
            Kind::Laravel => OldQueue::laravel(&prefix, &self.queues),
            Kind::Workerman => OldQueue::workerman(&prefix, &self.queues),
            Kind::Celery => {
                let timeout = Duration::from_secs(self.visibility_timeout.unwrap_or(3600));
                OldQueue::celery(&prefix, &self.queues, timeout)
            }
            Kind::Gmq => OldQueue::gmq(&self.queues, buckets, buckets),
            Kind::List => OldQueue::list(&needed(&self.ready, "--ready")?, !self.newest_first, &to),
            Kind::SortedSet => {
                let unit = match self.unit {
                    None | Some(Unit::S) => ScoreUnit::Seconds,
                    Some(Unit::Ms) => ScoreUnit::Millis,
                    Some(Unit::Ns) => ScoreUnit::Nanos,
                };
                OldQueue::sorted_set(&needed(&self.delayed, "--delayed")?, unit, &to)
            }
        }?;
        match &self.name {
            Some(name) => old.name(name),
            None => Ok(old),
        }
    }
}

impl Kind {
    /// As it is written.
    fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Bridge {
    /// Until it is ended, or all is moved?
    pub(crate) fn takes_over(&self) -> bool {
        matches!(self.mode, Mode::Follow | Mode::Drain)
    }

    pub(crate) async fn run(&self, output: Output<'_>) -> Result<u8, Error> {
        let Output { out, err, stop, acting } = output;
        let mut progress = Progress { err, said_at: Instant::now(), said: None, moved: 0 };
        // Until the report is written: a signal does not cut it off.
        let mut ends;
        let report = match self.mode {
            Mode::DryRun => self.bridge(&stop).await?.count().await?,
            Mode::GiveBack => {
                let bridge = self.bridge(&stop).await?;
                acting.begin(self.action());
                let given = bridge.give_back().await?;
                _ = writeln!(out, "{given}");
                return Ok(DONE);
            }
            Mode::Follow | Mode::Drain => {
                ends = Ends::hear()?;
                let ended = match self.mode {
                    Mode::Follow => self.follow(&stop, &mut ends, &mut progress).await,
                    _ => self.drain(&stop, &mut ends, &mut progress).await,
                };
                self.note(&acting, progress.moved);
                let Some(report) = ended.inspect_err(|_| progress.say_what_was_moved())? else {
                    progress.say_that_it_was_interrupted();
                    // A second signal waits for nothing.
                    if matches!(self.mode, Mode::Follow) {
                        acting.cut_off();
                    }
                    return Ok(INTERRUPTED);
                };
                self.note(&acting, report.moved());
                report
            }
        };
        _ = writeln!(out, "{report}");
        Ok(if report.is_dry || report.is_complete() || matches!(self.mode, Mode::Follow) { DONE } else { FAILED })
    }

    /// What moves nothing is no action.
    fn note(&self, acting: &Acting, moved: u64) {
        if moved > 0 {
            acting.begin(self.action());
            acting.done_to(moved);
        }
    }

    /// For the log of actions.
    fn action(&self) -> Action {
        let mode = self.mode.to_possible_value().map(|mode| format!("bridge {}", mode.get_name())).unwrap_or_default();
        let (from, queues) = (self.from.word(), self.old.queues.join(","));
        let back = if self.back { "1" } else { "" };
        let to = self.old.to.as_deref().unwrap_or("");
        self.target.action(&mode, &[("from", &from), ("queue", &queues), ("to", to), ("back", back)])
    }

    async fn bridge(&self, stop: &Stop) -> Result<duly::Bridge, Error> {
        let old = self.old.queue(self.from)?;
        let is_back = self.back || matches!(self.mode, Mode::GiveBack);
        // What comes in is waited for, and not what goes out.
        let (into_old, into_duly) =
            if is_back { (self.durability, Durability::None) } else { (Durability::None, self.durability) };
        let target = self.target.builder().stopped_by(stop).durability(into_duly).build()?;
        let source = match self.source.as_ref().filter(|url| !url.is_empty()) {
            // It may be a cache that forgets: what it holds is still worth taking.
            Some(url) => Client::builder().url(url).allow_eviction(!is_back),
            None => self.target.builder(),
        };
        let source = source.stopped_by(stop).durability(into_old).build()?;
        let mut bridge = duly::Bridge::new(&source, &target, old.clone());
        if is_back {
            bridge = bridge.back()?;
        }
        bridge.partitions(self.partitions_of(&target, &old.named_queues()).await?)
    }

    /// Nothing if a signal has ended it.
    async fn drain(
        &self,
        stop: &Stop,
        ends: &mut Ends,
        progress: &mut Progress<'_>,
    ) -> Result<Option<BridgeReport>, Error> {
        let drained = async { self.bridge(stop).await?.drain(|report| progress.say(report)).await };
        tokio::select! {
            drained = Box::pin(drained) => drained.map(Some),
            _ = ends.come() => Ok(None),
        }
    }

    /// Nothing if a second signal has ended it.
    async fn follow(
        &self,
        stop: &Stop,
        ends: &mut Ends,
        progress: &mut Progress<'_>,
    ) -> Result<Option<BridgeReport>, Error> {
        let bridge = tokio::select! {
            bridge = self.bridge(stop) => bridge?,
            _ = ends.come() => {
                let mut report = BridgeReport::default();
                report.uncounted = Some("it had not begun".to_owned());
                return Ok(Some(report));
            }
        };
        let (is_to_end, ended) = oneshot::channel::<()>();
        let twice = async {
            ends.come().await;
            drop(is_to_end);
            ends.come().await
        };
        let ended = async { _ = ended.await };
        tokio::select! {
            followed = Box::pin(bridge.follow(ended, |report| progress.say(report))) => followed.map(Some),
            _ = twice => Ok(None),
        }
    }

    /// How many parts duly's queues have: 1 also if they have none. In parts of another number nobody would look for the jobs.
    ///
    /// Errors: `InvalidArgument` if the list of queues says another number.
    async fn partitions_of(&self, duly: &Client, queues: &BTreeSet<&str>) -> Result<u16, Error> {
        let given = self.partitions.map(|given| if given == 1 { 0 } else { given });
        let listed = all(duly).await;
        let mut number = given;
        for queue in queues {
            let of_queue = chosen(duly, queue, given, listed.as_deref()).await?;
            if of_queue == 1 {
                return Err(invalid(format!("the queue {queue} has 1 partition: a bridge needs none, or 2 or more")));
            }
            if *number.get_or_insert(of_queue) != of_queue {
                return Err(invalid(format!(
                    "the queue {queue} has another number of partitions than those before it: run a bridge for each number; for a queue \
                     that is new, say it with --partitions"
                )));
            }
        }
        Ok(number.unwrap_or(0).max(1))
    }
}

fn jobs_are(count: u64) -> String {
    if count == 1 { "1 job is".to_owned() } else { format!("{count} jobs are") }
}

struct Progress<'a> {
    err: &'a mut dyn Write,
    said_at: Instant,
    /// What the last line said that it waits for.
    said: Option<String>,
    moved: u64,
}

impl Progress<'_> {
    fn say(&mut self, report: &BridgeReport) {
        self.moved = report.moved();
        if self.said != report.trouble {
            _ = match &report.trouble {
                Some(trouble) => writeln!(self.err, "duly: it waits: {trouble}"),
                None => writeln!(self.err, "duly: it goes on"),
            };
            self.said.clone_from(&report.trouble);
        }
        if self.said_at.elapsed() >= SAY_AGAIN {
            self.said_at = Instant::now();
            _ = writeln!(self.err, "duly: {} moved", jobs_are(self.moved));
        }
    }

    fn say_that_it_was_interrupted(&mut self) {
        _ = writeln!(self.err, "duly: interrupted: what is in flight waits beside its key; run it again");
    }

    /// Before an error, which has no report.
    fn say_what_was_moved(&mut self) {
        if self.moved > 0 {
            _ = writeln!(self.err, "duly: {} moved, and then it ended with an error", jobs_are(self.moved));
        }
    }
}
