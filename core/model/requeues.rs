//! What a requeue leaves of a failed job, call by call: with another record, and of one that expires; and what a push does to jobs that
//! have expired, and hold its id or key.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    Clock, Declared, Due, Extent, FromReply, IfDuplicate, IfFull, JobKeys, Key, Levels, MemoryRenewal, Numbering,
    PushReply, PushUnique, PushUniqueReply, QueueKeys, Requeue, RequeueReply, Shape, Variant,
};

const VARIANT: Variant = Variant { clock: Clock::Server, shape: Shape::Plain, extent: Extent::Usual };
const RECORD: &str = r#"{"data":1}"#;
const FAILED_ONCE: &str = "1;1;no answer";

struct Stage {
    server: Server,
    keys: QueueKeys,
    calls: u64,
}

impl Stage {
    /// With one failed job.
    fn of(record: &str) -> Self {
        let mut stage = Self { server: Server::start(), keys: queue_keys(0), calls: 0 };
        stage.command("HSET", Key::Jobs, &["a", record]);
        stage.command("HSET", Key::Returned, &["a", FAILED_ONCE]);
        stage.command("ZADD", Key::Failed, &["5", "a"]);
        stage
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

    fn requeue(&mut self, known: &str, new: &str) -> Vec<RequeueReply> {
        self.calls += 1;
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "c", slot: 0, number: self.calls, renewal: &renewal, is_known: false };
        let request = Requeue { known_record: known.into(), new_record: new.into() }.with([&b"a"[..]]);
        let call = request.call(VARIANT, QUEUE, &self.keys, Levels::ALL, Some(&numbering));
        FromReply::decode(self.server.run(&call).unwrap()).unwrap()
    }
}

#[test]
fn a_job_that_expires_has_begun_when_it_is_requeued() {
    for (record, left) in [
        (r#"{"data":1,"v":2,"expires":1790000000}"#, Some("0;1;")),
        (r#"{"data":1,"v":2,"expires":4000000000.123,"result_ttl":3153600000}"#, Some("0;1;")),
        (RECORD, None),
    ] {
        let mut stage = Stage::of(record);
        assert!(matches!(stage.requeue("", "")[..], [RequeueReply::Requeued]));
        assert_eq!(stage.field(Key::Returned, "a").as_deref(), left, "{record}");
    }
}

#[test]
fn a_new_record_takes_the_place_of_the_one_that_is_known() {
    let large = format!(r#"{{"data":"{}"}}"#, "x".repeat(50_000));
    for (new, is_large) in [(r#"{"data":2}"#, None), (&*large, Some("1"))] {
        let mut stage = Stage::of(RECORD);
        assert!(matches!(stage.requeue(r#"{"data":0}"#, new)[..], [RequeueReply::Absent]), "it is another one by now");
        assert_eq!(stage.field(Key::Jobs, "a").as_deref(), Some(RECORD));
        assert_eq!(stage.command("ZCARD", Key::Failed, &[]), Value::Int(1));
        assert!(matches!(stage.requeue(RECORD, new)[..], [RequeueReply::Requeued]));
        assert_eq!(stage.field(Key::Jobs, "a").as_deref(), Some(new));
        assert_eq!(stage.field(Key::Meta, "large").as_deref(), is_large);
        assert_eq!(stage.command("ZCARD", Key::Failed, &[]), Value::Int(0));
        assert_eq!(stage.field(Key::Returned, "a"), None);
    }
}

const EXPIRED: &str = r#"5;5;1;0;k{"data":1,"v":2,"expires":1790000000}"#;

impl Stage {
    /// With a job that holds the key `k` and waits.
    fn waiting(record: &str) -> Self {
        let mut stage = Self { server: Server::start(), keys: queue_keys(0), calls: 0 };
        stage.command("HSET", Key::Jobs, &["a", record]);
        stage.command("HSET", Key::Keys, &["k", "a"]);
        stage
    }

    fn keep(&mut self, id: &str) -> PushReply {
        self.calls += 1;
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "c", slot: 0, number: self.calls, renewal: &renewal, is_known: false };
        let (if_duplicate, if_full, result_count) = (IfDuplicate::Keep, IfFull::Refuse, JobKeys::default());
        let record = &br#"5;5;1;0;k{"data":2}"#[..];
        let push = PushUnique { if_duplicate, if_full, result_count };
        let request = push.with([(id.as_bytes(), record, Due::Now, &b""[..])]);
        // Nothing says of this queue that it has no limits.
        let variant = Variant { shape: Shape::Limited, ..VARIANT };
        let call = request.call(variant, QUEUE, &self.keys, Levels::ALL, Some(&numbering));
        let reply: PushUniqueReply = FromReply::decode(self.server.run(&call).unwrap()).unwrap();
        reply.jobs.into_iter().next().unwrap()
    }
}

#[test]
fn what_nobody_will_run_keeps_nothing_out() {
    let mut stage = Stage::waiting(EXPIRED);
    assert!(matches!(stage.keep("b"), PushReply::Replaced(id) if id == "a"));
    assert_eq!((stage.field(Key::Jobs, "a"), stage.field(Key::Keys, "k").as_deref()), (None, Some("b")));
    assert_eq!(stage.field(Key::Stats, "expired").as_deref(), Some("1"));
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
