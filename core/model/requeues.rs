//! What a requeue leaves of a failed job, call by call: with another record, and of one that expires.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    Clock, Declared, Extent, FromReply, Key, Levels, MemoryRenewal, Numbering, QueueKeys, Requeue, RequeueReply, Shape,
    Variant,
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
