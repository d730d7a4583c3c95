//! Jobs that have expired, call by call: what a reserve drops of them where a queue has limits, and what a push does to those that hold its
//! id or key.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    Clock, Declared, Due, Extent, FromReply, IfDuplicate, IfFull, JobKeys, Key, Levels, MemoryRenewal, Numbering,
    Outcomes, PushReply, PushUnique, PushUniqueReply, QueueKeys, Reserve, ReserveReply, ReserveStatus, Shape, Variant,
};

/// Its key is `k`.
const EXPIRED: &str = r#"5;5;1;0;k{"data":1,"v":2,"expires":1790000000}"#;
const LIVE: &str = r#"{"data":1}"#;

struct Stage {
    server: Server,
    keys: QueueKeys,
    calls: u64,
    clock: Clock,
    extent: Extent,
}

impl Stage {
    /// Of a queue with a limit, which holds back nothing here.
    fn new() -> Self {
        let mut stage = Self {
            server: Server::start(),
            keys: queue_keys(0),
            calls: 0,
            clock: Clock::Server,
            extent: Extent::Usual,
        };
        stage.command("HSET", Key::Meta, &["limits", "0;1000;;"]);
        stage
    }

    /// With a job that holds the key `k` and waits.
    fn waiting(record: &str) -> Self {
        let mut stage = Self::new();
        stage.add("a", record);
        stage.command("HSET", Key::Keys, &["k", "a"]);
        stage
    }

    /// The server's clock, in seconds.
    fn at(mut self, seconds: u64) -> Self {
        self.clock = Clock::Manual;
        self.server.set_clock(&self.keys, seconds * 1000);
        self
    }

    fn add(&mut self, id: &str, record: &str) {
        self.command("HSET", Key::Jobs, &[id, record]);
        let list = self.keys.spell_ready(5);
        self.server.command(&["RPUSH", &list, id]);
    }

    fn command(&mut self, command: &str, key: Key, more: &[&str]) -> Value {
        let key = self.keys.spell(key);
        self.server.command(&[&[command, &key], more].concat())
    }

    fn field(&mut self, key: Key, field: &str) -> Option<String> {
        match self.command("HGET", key, &[field]) {
            Value::BulkString(bytes) => Some(String::from_utf8(bytes).unwrap()),
            _ => None,
        }
    }

    /// Runs a numbered call, as a client that knows of options.
    fn run<'i, D: Declared>(&mut self, script: D, item: D::Item<'i>) -> D::Reply
    where
        D::Item<'i>: Clone,
    {
        self.calls += 1;
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "c", slot: 0, number: self.calls, renewal: &renewal, is_known: false };
        let variant = Variant { clock: self.clock, shape: Shape::Limited, extent: self.extent };
        let call = script.with([item]).call(variant, QUEUE, &self.keys, Levels::ALL, Some(&numbering));
        FromReply::decode(self.server.run(&call).unwrap()).unwrap()
    }

    fn keep(&mut self, id: &str) -> PushReply {
        let (if_duplicate, if_full, result_count) = (IfDuplicate::Keep, IfFull::Refuse, JobKeys::default());
        let record = &br#"5;5;1;0;k{"data":2}"#[..];
        let push = PushUnique { if_duplicate, if_full, result_count };
        let reply: PushUniqueReply = self.run(push, (id.as_bytes(), record, Due::Now, &b""[..]));
        reply.jobs.into_iter().next().unwrap()
    }

    fn reserve(&mut self, want: usize, max_bytes: usize) -> ReserveReply {
        let (lease_ms, wait_ms, promise, ahead, ack_count, keyed) = (10_000, 0, 0, 0, 0, 0);
        let result_count = JobKeys::default();
        let reserve = Reserve { want, lease_ms, wait_ms, max_bytes, promise, ahead, ack_count, keyed, result_count };
        self.run(reserve, &Outcomes::default())
    }

    /// What a reserve gives, and how many jobs it has dropped.
    fn reserved(&mut self) -> (Vec<String>, usize) {
        let reply = self.reserve(10, 1 << 20);
        (reply.jobs.into_iter().map(|job| job.id).collect(), reply.dropped.map_or(0, |dropped| dropped.count))
    }
}

#[test]
fn a_reserve_drops_what_has_expired_and_says_so() {
    let mut stage = Stage::waiting(EXPIRED);
    stage.add("b", r#"{"data":1,"v":2,"expires":1790000000.5,"result_ttl":60}"#);
    stage.add("c", LIVE);
    let reply = stage.reserve(10, 1 << 20);
    assert_eq!(reply.jobs.iter().map(|job| &*job.id).collect::<Vec<_>>(), ["c"]);
    assert_eq!(reply.awaited, ["b"]);
    let dropped = reply.dropped.unwrap();
    assert_eq!((dropped.count, &*dropped.first.id, dropped.first.record), (2, "a", EXPIRED.into()));
    assert_eq!(stage.command("HKEYS", Key::Jobs, &[]), Value::Array(vec![Value::BulkString(b"c".to_vec())]));
    assert_eq!(stage.field(Key::Keys, "k"), None);
    assert_eq!(stage.field(Key::Stats, "expired").as_deref(), Some("2"));
    assert_eq!(stage.reserved(), (Vec::new(), 0));
}

#[test]
fn a_reserve_drops_nothing_that_may_run() {
    let runs = |mut stage: Stage| assert_eq!(stage.reserved(), (vec!["a".to_owned()], 0));
    // The server's clock is ahead of the caller's, or behind it.
    runs(Stage::waiting(r#"{"data":1,"v":2,"expires":4000000000}"#).at(4_000_000_001));
    runs(Stage::waiting(EXPIRED).at(1_700_000_000));
    runs(Stage::waiting(r#"{"data":{"v":2,"expires":1790000000}}"#));
    let mut begun = Stage::waiting(EXPIRED);
    begun.command("HSET", Key::Returned, &["a", "0;1;"]);
    runs(begun);
}

#[test]
fn without_limits_the_caller_is_given_what_has_expired() {
    let mut stage = Stage::waiting(EXPIRED);
    stage.command("HSET", Key::Meta, &["limits", "", "history", "1000;60000"]);
    assert_eq!(stage.reserved(), (vec!["a".to_owned()], 0));
}

/// Its worker drops it, so nobody pays for its lease, and it has not begun. But one that has begun before runs.
#[test]
fn a_job_that_had_expired_when_it_was_fetched_is_no_suspect_when_its_worker_dies() {
    const AS_IT_EXPIRES: u64 = 1_790_000_000_000_000;
    // A multiple of 16: it was fetched ahead.
    let too_early = (AS_IT_EXPIRES - 1000) / 16 * 16;
    let cases = [
        (EXPIRED, too_early, None, Some("0;00;")),
        (EXPIRED, AS_IT_EXPIRES, None, None),
        (LIVE, AS_IT_EXPIRES, None, Some("0;00;")),
        (EXPIRED, AS_IT_EXPIRES, Some("0;1;"), Some("0;01;")),
        (EXPIRED, AS_IT_EXPIRES, Some("1;1;x"), Some("1;01;")),
    ];
    for (record, token, came_back, then) in cases {
        let mut stage = Stage { extent: Extent::Full, ..Stage::new() };
        stage.command("HSET", Key::Jobs, &["a", record]);
        stage.command("HSET", Key::Leases, &["a", &token.to_string()]);
        stage.command("ZADD", Key::Reserved, &["1", "a"]);
        if let Some(note) = came_back {
            stage.command("HSET", Key::Returned, &["a", note]);
        }
        stage.reserve(0, 1 << 20);
        assert_eq!(stage.field(Key::Leases, "a"), None, "it was taken back");
        let noted = stage.field(Key::Returned, "a");
        let is_as_said = match (&noted, then) {
            (Some(noted), Some(then)) => noted.starts_with(then),
            (noted, then) => noted.is_none() == then.is_none(),
        };
        assert!(is_as_said, "{record} {token}: {noted:?}");
    }
}

#[test]
fn an_expired_job_is_dropped_where_another_has_come_back() {
    let mut stage = Stage::waiting(EXPIRED);
    stage.add("b", EXPIRED);
    stage.command("HSET", Key::Returned, &["b", "0;1;"]);
    assert_eq!(stage.reserved(), (vec!["b".to_owned()], 1));
}

#[test]
fn an_expired_job_frees_no_key_of_another() {
    let mut stage = Stage::waiting(EXPIRED);
    stage.command("HSET", Key::Keys, &["k", "b"]);
    assert_eq!(stage.reserved(), (Vec::new(), 1));
    assert_eq!(stage.field(Key::Keys, "k").as_deref(), Some("b"));
}

#[test]
fn a_reserve_reads_large_records_only_so_far_to_drop_them() {
    let mut stage = Stage::new();
    let large = format!(r#"{{"data":"{}","v":2,"expires":1790000000}}"#, "x".repeat(600));
    for id in ["a", "b", "c"] {
        stage.add(id, &large);
    }
    let reply = stage.reserve(1, 1000);
    assert_eq!((reply.status, reply.dropped.map(|dropped| dropped.count)), (ReserveStatus::Unfinished, Some(2)));
    assert_eq!(stage.reserved(), (Vec::new(), 1));
}

#[test]
fn a_reserve_drops_only_so_many_that_limits_of_names_held_back() {
    let mut stage = Stage::new();
    let limits = [1, 2, 3, 4, 5].map(|number| format!("{number};1;;n{number}")).join("\n");
    stage.command("HSET", Key::Meta, &["limits", &limits]);
    for number in 1..=5 {
        let record = format!(r#"5;5;0;2;n{number}{{"data":1,"v":2,"expires":1790000000}}"#);
        for index in 0..99 {
            let id = format!("{number}-{index}");
            let turn = (f64::from(number * 10 + 5) + 0.5).mul_add(4_398_046_511_104.0, f64::from(index));
            stage.command("HSET", Key::Jobs, &[&id, &record]);
            stage.command("ZADD", Key::Parked, &[&format!("{turn:.0}"), &id]);
        }
    }
    let reply = stage.reserve(1, 1 << 20);
    let dropped = reply.dropped.map_or(0, |dropped| dropped.count);
    assert!((110..=210).contains(&dropped), "{dropped}");
    assert_eq!(reply.status, ReserveStatus::Unfinished);
}

#[test]
fn what_nobody_will_run_keeps_nothing_out() {
    let mut stage = Stage::waiting(EXPIRED);
    assert!(matches!(stage.keep("b"), PushReply::Replaced(id) if id == "a"));
    assert_eq!((stage.field(Key::Jobs, "a"), stage.field(Key::Keys, "k").as_deref()), (None, Some("b")));
    assert_eq!(stage.field(Key::Stats, "expired").as_deref(), Some("1"));
}

#[test]
fn a_history_tells_an_expired_job_from_one_that_was_replaced() {
    let mut stage = Stage::waiting(EXPIRED);
    stage.command("HSET", Key::Meta, &["history", "1000;60000"]);
    stage.keep("b");
    let Value::Array(events) = stage.command("LRANGE", Key::History, &["0", "-1"]) else { panic!("no list") };
    let Value::BulkString(first) = &events[0] else { panic!("no text") };
    assert!(String::from_utf8_lossy(first).contains("\tV\t"), "{first:?}");
}

#[test]
fn each_expired_job_whose_place_is_taken_is_counted() {
    let mut stage = Stage::waiting(EXPIRED);
    stage.command("HSET", Key::Jobs, &["c", EXPIRED]);
    stage.command("HSET", Key::Keys, &["k", "c"]);
    assert!(matches!(stage.keep("a"), PushReply::Replaced(_)));
    assert_eq!((stage.field(Key::Jobs, "c"), stage.field(Key::Keys, "k").as_deref()), (None, Some("a")));
    assert_eq!(stage.field(Key::Stats, "expired").as_deref(), Some("2"));
}

#[test]
fn what_runs_or_has_begun_or_has_not_expired_keeps_its_key() {
    let kept = |stage: &mut Stage, id: &str| {
        assert!(matches!(stage.keep(id), PushReply::Kept(holder) if holder == "a"));
        assert_eq!(stage.field(Key::Keys, "k").as_deref(), Some(if id == "a" { "c" } else { "a" }));
    };
    let mut leased = Stage::waiting(EXPIRED);
    leased.command("HSET", Key::Leases, &["a", "7"]);
    leased.command("ZADD", Key::Reserved, &["4000000000000", "a"]);
    kept(&mut leased, "b");
    let mut begun = Stage::waiting(EXPIRED);
    begun.command("HSET", Key::Returned, &["a", "0;1;"]);
    kept(&mut begun, "b");
    kept(&mut Stage::waiting(r#"5;5;1;0;k{"data":1,"v":2,"expires":4000000000}"#), "b");
    kept(&mut Stage::waiting(r#"5;5;1;0;k{"data":{"v":2,"expires":1790000000}}"#), "b");
    // Its id is that of an expired job, and its key that of a live one.
    let mut both = Stage::waiting(EXPIRED);
    both.command("HSET", Key::Jobs, &["c", r#"5;5;1;0;k{"data":3}"#]);
    both.command("HSET", Key::Keys, &["k", "c"]);
    kept(&mut both, "a");
}
