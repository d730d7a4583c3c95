//! The field `limits` in the metadata of a queue, which says that calls look at what else is set: limits, a length, a history.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    ByteStrings, Clock, Counts, CountsReply, Declared, Digits, Due, Extent, FireSchedules, FromReply as _, IfDuplicate,
    IfFull, JobKeys, KeepHistory, Key, Levels, MemoryRenewal, Numbering, Outcomes, Purge, Push, PushUnique,
    PutSchedules, QueueKeys, Reserve, ReserveReply, ReserveStatus, SetLimits, Shape, Variant,
};

const RECORD: &[u8] = br#"5;5;0;0;{"data":1}"#;

/// A queue, and the calls of one client to it.
pub(super) struct Queue {
    server: Server,
    keys: QueueKeys,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self { server: Server::start(), keys: queue_keys(0) }
    }

    /// Sets a field of its metadata, as if another client had.
    pub(super) fn set(&mut self, field: &str, value: &str) {
        self.command("HSET", Key::Meta, &[field, value]);
    }

    /// Of one of its keys; of the ready list of level 5.
    pub(super) fn command(&mut self, command: &str, key: Key, rest: &[&str]) -> Value {
        let key = if key == Key::Ready { self.keys.spell_ready(5) } else { self.keys.spell(key) };
        self.server.command(&[&[command, &key], rest].concat())
    }

    pub(super) fn has(&mut self, field: &str) -> Option<String> {
        let value = self.server.command(&["HGET", &self.keys.spell(Key::Meta), field]);
        redis::from_redis_value(value).unwrap()
    }

    pub(super) fn run<'i, D: Declared, I>(&mut self, script: D, items: I, number: Option<u64>) -> Value
    where
        I: IntoIterator<Item = D::Item<'i>>,
        I::IntoIter: Clone,
    {
        self.try_run(script, items, (number, Shape::Limited)).unwrap()
    }

    pub(super) fn try_run<'i, D: Declared, I>(
        &mut self,
        script: D,
        items: I,
        (number, shape): (Option<u64>, Shape),
    ) -> redis::RedisResult<Value>
    where
        I: IntoIterator<Item = D::Item<'i>>,
        I::IntoIter: Clone,
    {
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering =
            number.map(|number| Numbering { client: "c", slot: 0, number, renewal: &renewal, is_known: number > 1 });
        let variant = Variant { clock: Clock::Server, shape, extent: Extent::Usual };
        let call = script.with(items).call(variant, QUEUE, &self.keys, Levels::ALL, numbering.as_ref());
        self.server.run(&call)
    }

    pub(super) fn keep(&mut self, history_events: u64, number: u64) -> String {
        let said = self.run(KeepHistory { history_events, history_age_ms: 1000 }, [], Some(number));
        redis::from_redis_value(said).unwrap()
    }

    pub(super) fn reserve(&mut self, want: usize, call: (Option<u64>, Shape)) -> ReserveReply {
        let none = Outcomes::default();
        let reserve = Reserve {
            want,
            lease_ms: 1000,
            wait_ms: 0,
            max_bytes: 1000,
            promise: 0,
            ahead: 0,
            ack_count: 0,
            keyed: 0,
            result_count: JobKeys::default(),
        };
        ReserveReply::decode(self.try_run(reserve, [&none], call).unwrap()).unwrap()
    }

    /// Of its jobs, sorted.
    pub(super) fn ids(&mut self) -> Vec<String> {
        let mut ids: Vec<String> = redis::from_redis_value(self.command("HKEYS", Key::Jobs, &[])).unwrap();
        ids.sort();
        ids
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
    assert_eq!(queue.command("HLEN", Key::Jobs, &[]), Value::Int(0));
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
    assert_eq!(queue.ids(), ["s@1"]);
}

/// What is in has the room of what a call has stored that the server has forgotten.
#[test]
fn a_push_that_is_in_by_half_is_not_refused_for_the_length_when_it_is_sent_again() {
    let mut queue = Queue::new();
    queue.set("limits", "");
    queue.set("max_length", "1");
    queue.command("HSET", Key::Jobs, &["a", r#"5;5;0;0;{"data":1}"#]);
    let jobs = [(&b"a"[..], RECORD), (&b"b"[..], RECORD)];
    let said = queue.run(Push { level: Digits(5), due: Due::Now }, jobs, Some(1));
    assert_eq!(said, Value::BulkString(b"created".to_vec()));
    assert_eq!(queue.ids(), ["a", "b"]);
}

#[test]
fn a_job_that_replaces_a_failed_one_takes_room() {
    let mut queue = Queue::new();
    queue.limit(Some(1), 1);
    queue.command("HSET", Key::Jobs, &["a", r#"5;5;0;0;{"data":1}"#, "b", r#"5;5;0;0;{"data":1}"#]);
    queue.command("ZADD", Key::Failed, &["1", "a"]);
    queue.command("RPUSH", Key::Ready, &["b"]);
    let push = |if_full| PushUnique { if_duplicate: IfDuplicate::Replace, if_full, result_count: JobKeys::default() };
    let job = || [(&b"a"[..], RECORD, Due::Now, &b""[..])];
    assert_eq!(queue.run(push(IfFull::Refuse), job(), Some(2)), Value::BulkString(b"queue_full 1 0".to_vec()));
    assert_eq!(queue.run(push(IfFull::Fill), job(), Some(3)), Value::BulkString(b"full 1".to_vec()));
    assert_eq!(queue.command("ZCARD", Key::Failed, &[]), Value::Int(1));
}

#[test]
fn a_queue_of_a_server_without_memory_gets_a_length_and_loses_it() {
    let mut queue = Queue::new();
    queue.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    queue.limit(Some(5), 1);
    assert_eq!((queue.has("limits").as_deref(), queue.has("max_length").as_deref()), (Some(""), Some("5")));
    queue.limit(None, 2);
    assert_eq!((queue.has("limits"), queue.has("max_length")), (None, None));
    queue.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
}

#[test]
fn a_queue_whose_limits_are_taken_away_keeps_its_history() {
    let mut queue = Queue::new();
    queue.keep(100, 1);
    queue.run(SetLimits { max_length: None }, [("n", "1;".to_owned())], Some(2));
    assert!(queue.has("limits").is_some_and(|limits| !limits.is_empty()));
    queue.run(SetLimits { max_length: None }, [("n", ";".to_owned())], Some(3));
    assert_eq!((queue.has("limits").as_deref(), queue.has("history").as_deref()), (Some(""), Some("100;1000")));
}

/// A waiting worker would look a second later.
#[test]
fn a_waiting_worker_is_woken_when_a_running_job_is_purged() {
    let mut queue = Queue::new();
    queue.run(SetLimits { max_length: None }, [("", "1;".to_owned())], Some(1));
    queue.command("HSET", Key::Jobs, &["a", r#"5;5;0;0;{"data":1}"#, "b", r#"5;5;0;0;{"data":1}"#]);
    queue.command("ZADD", Key::Reserved, &["1790000000000", "a"]);
    queue.command("HSET", Key::Leases, &["a", "1"]);
    queue.command("RPUSH", Key::Ready, &["b"]);
    queue.command("DEL", Key::Wake, &[]);
    queue.run(Purge { state: "reserved", cap: 10, latest: "+inf".to_owned() }, [], Some(2));
    assert_eq!((queue.ids(), queue.command("LLEN", Key::Wake, &[])), (vec!["b".to_owned()], Value::Int(1)));
}

#[test]
fn a_foreign_type_under_parked_stops_a_purge_before_it_begins() {
    let mut queue = Queue::new();
    queue.run(SetLimits { max_length: None }, [("n", "1;".to_owned())], Some(1));
    queue.command("HSET", Key::Jobs, &["a", r#"5;5;0;0;{"data":1}"#]);
    queue.command("RPUSH", Key::Ready, &["a"]);
    queue.command("SET", Key::Parked, &["foreign"]);
    let purge = Purge { state: "ready", cap: 10, latest: String::new() };
    let refused = queue.try_run(purge, [], (Some(2), Shape::Limited)).unwrap_err();
    assert!(refused.to_string().contains("WRONGTYPE"), "{refused}");
    assert_eq!((queue.ids(), queue.command("LLEN", Key::Ready, &[])), (vec!["a".to_owned()], Value::Int(1)));
}

#[test]
fn a_reserve_walks_through_a_bounded_number_of_entries_without_a_job() {
    let mut queue = Queue::new();
    let push = Push { level: Digits(5), due: Due::Now };
    queue.try_run(push, [(&b"a"[..], RECORD)], (Some(1), Shape::Plain)).unwrap();
    let gone: Vec<String> = (0..2000).map(|number| format!("gone{number}")).collect();
    queue.command("LPUSH", Key::Ready, &gone.iter().map(String::as_str).collect::<Vec<_>>());
    let mut calls = 1;
    loop {
        let reply = queue.reserve(1, (Some(1 + calls), Shape::Plain));
        match reply.status {
            ReserveStatus::Unfinished => calls += 1,
            _ => break assert_eq!(reply.jobs.iter().map(|job| &*job.id).collect::<Vec<_>>(), ["a"]),
        }
    }
    assert!((5..100).contains(&calls), "{calls}");
}
