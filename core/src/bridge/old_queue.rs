//! The other queues: which keys they have, and in which order their jobs lie there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::package::Format;
use super::purpose::Purpose;
use crate::script::{Layout, Order, Reading};
use crate::value::error::Error;
use crate::value::name;

/// A job is due before this moment, the first of the year 2200.
const YEAR_2200_MS: f64 = 7_258_118_400_000.0;

/// Where a package goes whose own queue cannot be told, or has a name that duly does not allow.
pub(super) const FALLBACK_QUEUE: &str = "default";

/// Another queue, whose jobs a [`Bridge`](super::Bridge) takes over.
#[derive(Debug, Clone)]
pub struct OldQueue {
    /// As it is called in options.
    pub(super) kind: &'static str,
    pub(super) format: Format,
    pub(super) lanes: Vec<Lane>,
    /// The handler's name of jobs that say none.
    pub(super) name: Option<String>,
    /// Can jobs go back there?
    pub(super) goes_back: bool,
    /// Those whose jobs come over, where a key has jobs of others too.
    pub(super) queues: Vec<String>,
}

/// The state of the jobs in a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldState {
    /// Jobs that are ready.
    Ready,
    /// Jobs that are due at their scores.
    Delayed,
    /// Jobs that a worker of the old queue has: they are left to it until their time is over.
    Reserved,
    /// Jobs that have failed.
    Failed,
}

impl OldState {
    /// Its name: `ready`, `delayed`, `reserved` or `failed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Reserved => "reserved",
            Self::Failed => "failed",
        }
    }
}

/// In what the scores of a sorted set count since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreUnit {
    /// Seconds, perhaps with decimals.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Nanoseconds.
    Nanos,
}

impl ScoreUnit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Nanos => "ns",
        }
    }

    fn to_ms(self, score: f64) -> f64 {
        match self {
            Self::Seconds => score * 1e3,
            Self::Millis => score,
            Self::Nanos => score / 1e6,
        }
    }
}

/// One key, whose jobs come over in order.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) reading: Reading,
    pub(super) state: OldState,
    unit: ScoreUnit,
    /// Where its jobs go, unless they say it themselves.
    pub(super) queue: String,
    /// Is it one of many that nobody may use? Reports leave it out while it is empty.
    pub(super) is_seldom: bool,
    /// A list that has an entry for each job, by which workers of the other queue wait.
    pub(super) notices: Option<String>,
}

impl Lane {
    fn new(key: impl Into<String>, order: Order, state: OldState, queue: &str) -> Self {
        let reading = Reading { source: key.into(), order, layout: Layout::Here, grace_s: 0 };
        Self { reading, state, unit: ScoreUnit::Seconds, queue: queue.to_owned(), is_seldom: false, notices: None }
    }

    fn layout(mut self, layout: Layout) -> Self {
        self.reading.layout = layout;
        self
    }

    fn seldom(self) -> Self {
        Self { is_seldom: true, ..self }
    }

    pub(super) fn key(&self) -> &str {
        &self.reading.source
    }

    /// What decides which of its jobs goes where, beside the jobs.
    pub(super) fn purpose(&self, old: &OldQueue, purpose: Purpose) -> Purpose {
        let purpose = purpose.with("from", old.kind).with("queue", &self.queue).with("unit", self.unit.as_str());
        // Of a key that several queues share, those that were not named stay in it.
        if self.reading.layout == Layout::Here || old.queues.is_empty() {
            return purpose;
        }
        let mut queues: Vec<&str> = old.queues.iter().map(String::as_str).collect();
        queues.sort_unstable();
        purpose.with("queues", &queues.join(", "))
    }

    /// When a job is due by its score, in ms since 1970.
    ///
    /// Errors: `InvalidArgument` for a score that is no time before the year 2200. No clock decides that: two bridges with different clocks must
    /// put a job into the same part of a batch, or the second one would leave it out.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    pub(super) fn due(&self, score: Option<f64>) -> Result<Option<u64>, Error> {
        let Some(score) = score.filter(|_| self.state == OldState::Delayed) else { return Ok(None) };
        let due = self.unit.to_ms(score).ceil();
        if due.is_finite() && due <= 0.0 {
            return Ok(Some(0));
        }
        if !(0.0..YEAR_2200_MS).contains(&due) {
            return Err(Error::invalid(format!("its score {score} is no time before the year 2200")));
        }
        Ok(Some(due as u64))
    }
}

impl OldQueue {
    /// `ThinkPHP`'s `Queue.php` and its Go twin: the lists `redis:queue:ready` and `redis:queue:failed`, the sorted set
    /// `redis:queue:delay`, and the package of seven fields. All jobs go into the queue `to`.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn thinkphp(to: &str) -> Result<Self, Error> {
        Self::thinkphp_with_keys(to, "redis:queue:ready", "redis:queue:delay", "redis:queue:failed")
    }

    /// The same with other keys.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn thinkphp_with_keys(to: &str, ready: &str, delayed: &str, failed: &str) -> Result<Self, Error> {
        name::check_queue(to)?;
        // New ones come in at the left, and a consumer takes the last.
        let lanes = vec![
            Lane::new(delayed, Order::Score, OldState::Delayed, to),
            Lane::new(ready, Order::Right, OldState::Ready, to),
            Lane::new(failed, Order::Right, OldState::Failed, to),
        ];
        Self { kind: "thinkphp", format: Format::Package, lanes, name: None, goes_back: true, queues: Vec::new() }
            .distinct()
    }

    /// workerman's and webman's `redis-queue`: a list `{redis-queue}-waiting<queue>` each, and for all of them `{redis-queue}-delayed`
    /// and `{redis-queue}-failed`, behind `prefix`. A job goes into the queue that its package names.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn workerman(prefix: &str, queues: &[impl AsRef<str>]) -> Result<Self, Error> {
        let key = |name: &str| format!("{prefix}{{redis-queue}}-{name}");
        let mut lanes = vec![Lane::new(key("delayed"), Order::Score, OldState::Delayed, FALLBACK_QUEUE)];
        for queue in queues.iter().map(AsRef::as_ref) {
            name::check_queue(queue)?;
            lanes.push(Lane::new(key(&format!("waiting{queue}")), Order::Right, OldState::Ready, queue));
        }
        lanes.push(Lane::new(key("failed"), Order::Right, OldState::Failed, FALLBACK_QUEUE));
        Self {
            kind: "workerman",
            format: Format::PackageWithQueue,
            lanes,
            name: None,
            goes_back: true,
            queues: Vec::new(),
        }
        .distinct()
    }

    /// think-queue 3: of each queue a list `{queues:<queue>}` and the sorted sets `…:delayed` and `…:reserved`. The whole payload is the
    /// job's data, and its `job` the handler's name.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn think_queue(queues: &[impl AsRef<str>]) -> Result<Self, Error> {
        let old = Self::payloads("think-queue", queues, |queue| format!("{{queues:{queue}}}"))?;
        Ok(Self { goes_back: true, ..old })
    }

    /// Laravel: of each queue a list `queues:<queue>` and the sorted sets `…:delayed` and `…:reserved`, behind `prefix` (an application's
    /// is `<app>_database_` unless it says otherwise). The list `…:notify` becomes as short as that of the jobs. The whole payload is the job's data, byte for byte, and its `job` the handler's name.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn laravel(prefix: &str, queues: &[impl AsRef<str>]) -> Result<Self, Error> {
        let mut old = Self::payloads("laravel", queues, |queue| format!("{prefix}queues:{queue}"))?;
        for lane in old.lanes.iter_mut().filter(|lane| lane.state == OldState::Ready) {
            lane.notices = Some(format!("{}:notify", lane.key()));
        }
        Ok(old)
    }

    fn payloads(kind: &'static str, queues: &[impl AsRef<str>], key: impl Fn(&str) -> String) -> Result<Self, Error> {
        let mut lanes = Vec::new();
        for queue in queues.iter().map(AsRef::as_ref) {
            // Laravel Cluster users write `{orders}`: duly has its own hash tag.
            let to = queue.trim_matches(['{', '}']);
            name::check_queue(to)?;
            let key = key(queue);
            lanes.push(Lane::new(format!("{key}:reserved"), Order::Over, OldState::Reserved, to));
            lanes.push(Lane::new(format!("{key}:delayed"), Order::Score, OldState::Delayed, to));
            lanes.push(Lane::new(key, Order::Left, OldState::Ready, to));
        }
        Self { kind, format: Format::Payload, lanes, name: None, goes_back: false, queues: Vec::new() }.distinct()
    }

    /// Celery with Redis as its broker: of each queue a list, and one more for each priority from 1 to 9, and of all of them what their
    /// workers have: the hash `unacked` and its index, behind `prefix` (`global_keyprefix`). What a worker has is left to it until
    /// `visibility_timeout` is over, whose default is an hour in Celery.
    ///
    /// Messages of the protocol of version 2 with a JSON body come over: the task is the name, and the data is
    /// `{"args":[…],"kwargs":{…}}`. All others stay in the old queue, and the report says why.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn celery(prefix: &str, queues: &[impl AsRef<str>], visibility_timeout: Duration) -> Result<Self, Error> {
        let index = format!("{prefix}unacked_index");
        let mut unacked = Lane::new(index, Order::Over, OldState::Reserved, FALLBACK_QUEUE)
            .layout(Layout::Field(format!("{prefix}unacked")));
        unacked.reading.grace_s = visibility_timeout.as_secs() + u64::from(visibility_timeout.subsec_nanos() > 0);
        let mut lanes = vec![unacked];
        for queue in queues.iter().map(AsRef::as_ref) {
            name::check_queue(queue)?;
            let key = format!("{prefix}{queue}");
            lanes.push(Lane::new(&key, Order::Right, OldState::Ready, queue));
            // 0 is the first and the default; kombu writes 3, 6 and 9 unless it is told otherwise.
            for priority in 1..=9 {
                let key = format!("{key}\u{6}\u{16}{priority}");
                lanes.push(Lane::new(key, Order::Right, OldState::Ready, queue).seldom());
            }
        }
        let queues = queues.iter().map(|queue| queue.as_ref().to_owned()).collect();
        Self { kind: "celery", format: Format::Celery, lanes, name: None, goes_back: false, queues }.distinct()
    }

    /// gmq: of each topic a ready list `gmq:readyqueue:<topic>`, and of all of them the sorted sets `gmq:bucket:0` and so on, and
    /// `gmq:bucket:TTR:A` and so on; its configuration says how many of each (3). A job goes into the queue of its topic; its body is
    /// the data, and what is no JSON becomes a JSON string.
    ///
    /// Errors: `InvalidArgument` for the name of a queue, and for more than 26 buckets.
    pub fn gmq(topics: &[impl AsRef<str>], buckets: u8, ttr_buckets: u8) -> Result<Self, Error> {
        if buckets > 26 || ttr_buckets > 26 {
            return Err(Error::invalid("gmq has at most 26 buckets of each kind here"));
        }
        let pool = || Layout::Hash("gmq:jobpool".to_owned());
        let bucket = |id: &dyn std::fmt::Display, order, state| {
            Lane::new(format!("gmq:bucket:{id}"), order, state, FALLBACK_QUEUE).layout(pool())
        };
        let mut lanes = Vec::new();
        for letter in ('A'..='Z').take(ttr_buckets.into()) {
            lanes.push(bucket(&format_args!("TTR:{letter}"), Order::Over, OldState::Reserved));
        }
        for number in 0..buckets {
            lanes.push(bucket(&number, Order::Score, OldState::Delayed));
        }
        for topic in topics.iter().map(AsRef::as_ref) {
            name::check_queue(topic)?;
            let key = format!("gmq:readyqueue:{topic}");
            lanes.push(Lane::new(key, Order::Right, OldState::Ready, topic).layout(pool()));
        }
        Self { kind: "gmq", format: Format::Gmq, lanes, name: None, goes_back: false, queues: Vec::new() }.distinct()
    }

    /// Any list: each entry is the data of a job. JSON is kept byte for byte, other text becomes a JSON string. `oldest_first`: entries
    /// come in at the end (`RPUSH`), and not at the beginning (`LPUSH`).
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn list(key: &str, oldest_first: bool, to: &str) -> Result<Self, Error> {
        name::check_queue(to)?;
        let order = if oldest_first { Order::Left } else { Order::Right };
        Ok(Self {
            kind: "list",
            format: Format::Data,
            lanes: vec![Lane::new(key, order, OldState::Ready, to)],
            name: None,
            goes_back: false,
            queues: Vec::new(),
        })
    }

    /// Any sorted set: each member is the data of a job, as in [`list`](Self::list), which is due at its score.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn sorted_set(key: &str, unit: ScoreUnit, to: &str) -> Result<Self, Error> {
        name::check_queue(to)?;
        let lane = Lane { unit, ..Lane::new(key, Order::Score, OldState::Delayed, to) };
        Ok(Self {
            kind: "sorted-set",
            format: Format::Data,
            lanes: vec![lane],
            name: None,
            goes_back: false,
            queues: Vec::new(),
        })
    }

    /// The queues that its jobs go to, but for those that only a job itself names.
    #[doc(hidden)] // for the command
    pub fn named_queues(&self) -> BTreeSet<&str> {
        let says_its_queue = matches!(self.format, Format::PackageWithQueue | Format::Celery | Format::Gmq);
        let is_named = |lane: &&Lane| !says_its_queue || lane.state == OldState::Ready;
        self.lanes.iter().filter(is_named).map(|lane| &*lane.queue).collect()
    }

    /// The handler's name of jobs that say none.
    ///
    /// Errors: `InvalidArgument` if no job can have it.
    pub fn name(mut self, name: &str) -> Result<Self, Error> {
        name::check_handler(name)?;
        self.name = Some(name.to_owned());
        Ok(self)
    }

    /// Errors: `InvalidArgument` for a key that is there twice, and for two whose bridge has one key.
    fn distinct(self) -> Result<Self, Error> {
        let mut keys = BTreeMap::new();
        for lane in &self.lanes {
            let key = lane.key();
            match keys.insert(lane.reading.state_key(), key) {
                None => {}
                Some(other) if other == key => {
                    return Err(Error::invalid(format!("the key '{key}' is there twice: name each queue once")));
                }
                // `orders` and `{orders}`.
                Some(other) => {
                    let message = format!(
                        "a bridge would keep its state of '{other}' and of '{key}' in one key: run one for each"
                    );
                    return Err(Error::invalid(message));
                }
            }
        }
        Ok(self)
    }
}
