//! The field `limits` in the metadata of a queue, which says that calls look at what else is set: limits, a length, a history.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    ByteStrings, Clock, Counts, CountsReply, Declared, Digits, Due, Extent, FireSchedules, FromReply as _, IfDuplicate,
    IfFull, JobKeys, KeepHistory, Key, Levels, MemoryRenewal, Numbering, Push, PushUnique, PutSchedules, QueueKeys,
    SetLimits, Shape, Variant,
};

const RECORD: &[u8] = br#"5;5;0;0;{"data":1}"#;

/// A queue, and the calls of one client to it.
struct Queue {
    server: Server,
    keys: QueueKeys,
}

impl Queue {
    fn new() -> Self {
        Self { server: Server::start(), keys: queue_keys(0) }
    }

    /// Sets a field of its metadata, as if another client had.
    fn set(&mut self, field: &str, value: &str) {
        self.server.command(&["HSET", &self.keys.spell(Key::Meta), field, value]);
    }

    fn has(&mut self, field: &str) -> Option<String> {
        let value = self.server.command(&["HGET", &self.keys.spell(Key::Meta), field]);
        redis::from_redis_value(value).unwrap()
    }

    fn run<'i, D: Declared, I>(&mut self, script: D, items: I, number: Option<u64>) -> Value
    where
        I: IntoIterator<Item = D::Item<'i>>,
        I::IntoIter: Clone,
    {
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering =
            number.map(|number| Numbering { client: "c", slot: 0, number, renewal: &renewal, is_known: number > 1 });
        let variant = Variant { clock: Clock::Server, shape: Shape::Limited, extent: Extent::Usual };
        let call = script.with(items).call(variant, QUEUE, &self.keys, Levels::ALL, numbering.as_ref());
        self.server.run(&call).unwrap()
    }

    fn keep(&mut self, history_events: u64, number: u64) -> String {
        let said = self.run(KeepHistory { history_events, history_age_ms: 1000 }, [], Some(number));
        redis::from_redis_value(said).unwrap()
    }

    fn limit(&mut self, max_length: Option<u64>, number: u64) {
        self.run(SetLimits { max_length: max_length.map(Digits) }, [], Some(number));
    }
}

#[test]
fn a_queue_that_keeps_a_history_has_options_until_it_keeps_none() {
    let mut queue = Queue::new();
    assert_eq!((queue.keep(100, 1).as_str(), queue.has("limits").as_deref()), ("ok", Some("")));
    assert_eq!(queue.has("history").as_deref(), Some("100;1000"));
    assert_eq!((queue.keep(0, 2).as_str(), queue.has("limits")), ("ok", None));
    assert_eq!(queue.has("history"), None);
}

#[test]
fn a_length_stays_when_the_history_goes() {
    let mut queue = Queue::new();
    queue.limit(Some(5), 1);
    queue.keep(100, 2);
    queue.keep(0, 3);
    assert_eq!((queue.has("limits").as_deref(), queue.has("max_length").as_deref()), (Some(""), Some("5")));
}

#[test]
fn a_late_copy_of_a_switch_of_the_history_changes_nothing() {
    let mut queue = Queue::new();
    queue.keep(100, 1);
    queue.keep(0, 2);
    assert_eq!((queue.keep(100, 1).as_str(), queue.has("history")), ("superseded", None));
}

#[test]
fn an_old_client_keeps_no_history_of_a_queue_of_a_newer_format() {
    let mut queue = Queue::new();
    queue.set("format", "3");
    assert_eq!((queue.keep(100, 1).as_str(), queue.has("history")), ("format 3", None));
}

/// A client of a version that knows of no length takes `limits` away alone.
#[test]
fn a_length_that_was_taken_away_with_the_limits_is_none() {
    let mut queue = Queue::new();
    queue.set("max_length", "1");
    let counts = queue.run(Counts {}, [], None);
    assert_eq!(CountsReply::decode(counts).unwrap().limits.text, "");
    queue.keep(100, 1);
    assert_eq!(queue.has("max_length"), None);
}

#[test]
fn a_queue_takes_no_more_than_its_length_of_one_call() {
    let mut queue = Queue::new();
    queue.limit(Some(1), 1);
    let jobs = [(&b"a"[..], RECORD), (&b"b"[..], RECORD)];
    let said = queue.run(Push { level: Digits(5), due: Due::Now }, jobs, Some(2));
    assert_eq!(said, Value::BulkString(b"queue_full 1 1".to_vec()));
    let (if_duplicate, result_count) = (IfDuplicate::Refuse, JobKeys::default());
    let push = PushUnique { if_duplicate, if_full: IfFull::Refuse, result_count };
    let said = queue.run(push, jobs.map(|(id, record)| (id, record, Due::Now, &b""[..])), Some(3));
    assert_eq!(said, Value::BulkString(b"queue_full 1 1".to_vec()));
    let jobs = queue.keys.spell(Key::Jobs);
    assert_eq!(queue.server.command(&["HLEN", &jobs]), Value::Int(0));
}

#[test]
fn a_schedule_fires_no_more_slots_than_the_length_of_a_queue() {
    let mut queue = Queue::new();
    queue.limit(Some(1), 1);
    queue.run(PutSchedules {}, [("s", "", &b"{}"[..], "1;1;", "1000")], Some(2));
    let mut item = ByteStrings::default();
    for word in ["s", "1;1;", "1;3;", "3000", "allow", "2", "1", "s@1"] {
        item.push(word.as_bytes());
    }
    for word in [RECORD, b"2", b"s@2", RECORD] {
        item.push(word);
    }
    let said = queue.run(FireSchedules {}, [&item], None);
    assert_eq!(said, Value::BulkString(b"fired pushed skipped".to_vec()));
    let jobs = queue.keys.spell(Key::Jobs);
    assert_eq!(queue.server.command(&["HKEYS", &jobs]), Value::Array(vec![Value::BulkString(b"s@1".to_vec())]));
}
