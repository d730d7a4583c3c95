//! The other queues: which keys they have, and in which order their jobs lie there.

use super::package::Format;
use crate::script::Order;
use crate::value::error::Error;
use crate::value::name;

/// Where a package goes whose own queue cannot be told, or has a name that duly does not allow.
pub(super) const FALLBACK_QUEUE: &str = "default";

/// Another queue, whose jobs a [`Bridge`](super::Bridge) takes over.
#[derive(Debug, Clone)]
pub struct OldQueue {
    pub(super) format: Format,
    pub(super) lanes: Vec<Lane>,
    /// The handler's name of jobs that say none.
    pub(super) name: Option<String>,
}

/// What lies in a key.
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
    pub(super) key: String,
    pub(super) order: Order,
    pub(super) state: OldState,
    unit: ScoreUnit,
    /// Where its jobs go, unless they say it themselves.
    pub(super) queue: String,
}

impl Lane {
    fn new(key: impl Into<String>, order: Order, state: OldState, queue: &str) -> Self {
        Self { key: key.into(), order, state, unit: ScoreUnit::Seconds, queue: queue.to_owned() }
    }

    /// When a job is due, in ms since 1970; what cannot be a time is due now.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    pub(super) fn due(&self, score: Option<f64>) -> Option<u64> {
        let due = self.unit.to_ms(score.filter(|_| self.state == OldState::Delayed)?).ceil();
        (0.0..9_007_199_254_740_992.0).contains(&due).then_some(due as u64)
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
        Self { format: Format::Package, lanes, name: None }.distinct()
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
        Self { format: Format::PackageWithQueue, lanes, name: None }.distinct()
    }

    /// think-queue 3: of each queue a list `{queues:<queue>}` and the sorted sets `…:delayed` and `…:reserved`. The whole payload is the
    /// job's data, and its `job` the handler's name.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn think_queue(queues: &[impl AsRef<str>]) -> Result<Self, Error> {
        Self::payloads(queues, |queue| format!("{{queues:{queue}}}"))
    }

    /// Laravel: of each queue a list `queues:<queue>` and the sorted sets `…:delayed` and `…:reserved`, behind `prefix` (an application's
    /// is `<app>_database_` unless it says otherwise). The whole payload is the job's data, byte for byte, and its `job` the handler's name.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn laravel(prefix: &str, queues: &[impl AsRef<str>]) -> Result<Self, Error> {
        Self::payloads(queues, |queue| format!("{prefix}queues:{queue}"))
    }

    fn payloads(queues: &[impl AsRef<str>], key: impl Fn(&str) -> String) -> Result<Self, Error> {
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
        Self { format: Format::Payload, lanes, name: None }.distinct()
    }

    /// Any list: each entry is the data of a job. JSON is kept byte for byte, other text becomes a JSON string. `oldest_first`: entries
    /// come in at the end (`RPUSH`), and not at the beginning (`LPUSH`).
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn list(key: &str, oldest_first: bool, to: &str) -> Result<Self, Error> {
        name::check_queue(to)?;
        let order = if oldest_first { Order::Left } else { Order::Right };
        Ok(Self { format: Format::Data, lanes: vec![Lane::new(key, order, OldState::Ready, to)], name: None })
    }

    /// Any sorted set: each member is the data of a job, as in [`list`](Self::list), which is due at its score.
    ///
    /// Errors: `InvalidArgument` for the name of a queue.
    pub fn sorted_set(key: &str, unit: ScoreUnit, to: &str) -> Result<Self, Error> {
        name::check_queue(to)?;
        let lane = Lane { unit, ..Lane::new(key, Order::Score, OldState::Delayed, to) };
        Ok(Self { format: Format::Data, lanes: vec![lane], name: None })
    }

    /// The handler's name of jobs that say none.
    ///
    /// Errors: `InvalidArgument` if no job can have it.
    pub fn name(mut self, name: &str) -> Result<Self, Error> {
        name::check_handler(name)?;
        self.name = Some(name.to_owned());
        Ok(self)
    }

    /// Errors: `InvalidArgument` for a key that is there twice.
    fn distinct(self) -> Result<Self, Error> {
        let mut keys: Vec<&str> = self.lanes.iter().map(|lane| lane.key.as_str()).collect();
        keys.sort_unstable();
        match keys.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(Error::invalid(format!("the key '{}' is there twice: name each queue once", two[0]))),
            None => Ok(self),
        }
    }
}
