//! The scripts about a queue as a whole and its workers, call by call: what is sent again, comes late, or finds more than somebody has
//! counted.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    Adopt, Beat, Clock, ContentsReply, Declared, Delete, DeleteReply, Digits, Extent, FromReply, Key, Levels,
    MemoryRenewal, NoteAction, Numbering, QueueKeys, Register, Shape, Target, Unregister, Variant,
};

const VARIANT: Variant = Variant { clock: Clock::Server, shape: Shape::Plain, extent: Extent::Usual };

struct Stage {
    server: Server,
    keys: QueueKeys,
}

impl Stage {
    fn new() -> Self {
        Self { server: Server::start(), keys: queue_keys(0) }
    }

    fn count(&mut self, command: &str, key: Key) -> i64 {
        let key = self.keys.spell(key);
        match self.server.command(&[command, &key]) {
            Value::Int(count) => count,
            other => panic!("{command} {key}: {other:?}"),
        }
    }

    /// By a bridge, of which the queue knows what is in.
    fn store(&mut self, number: u64, id: &str) {
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "c", slot: 0, number, renewal: &renewal, is_known: false };
        let adopt = Adopt { lane: "lane".to_owned(), sequence: Digits(number) };
        let request = adopt.with([(id.as_bytes(), &b"{\"data\":1}"[..], Target::Ready, &b""[..])]);
        let call = request.call(VARIANT, QUEUE, &self.keys, Levels::one(5), Some(&numbering));
        self.server.run(&call).unwrap();
    }

    /// Of another client, whose numbers are its own.
    fn delete(&mut self, number: u64, expected: u64) -> Result<DeleteReply, String> {
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "d", slot: 0, number, renewal: &renewal, is_known: false };
        let request = Delete { expected }.with([]);
        let call = request.call(VARIANT, QUEUE, &self.keys, Levels::one(5), Some(&numbering));
        let reply = self.server.run(&call).map_err(|error| error.to_string())?;
        FromReply::decode(reply).map_err(|error| error.to_string())
    }

    fn leave(&mut self, worker: &str) {
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "w", slot: 0, number: 1, renewal: &renewal, is_known: false };
        let request = Beat { worker: worker.to_owned(), life_ms: 0, info: "{}".to_owned() }.with([]);
        let call = request.call(VARIANT, QUEUE, &self.keys, Levels::one(5), Some(&numbering));
        self.server.run(&call).unwrap();
    }

    fn note_action(&mut self, number: u64, entry: &str) {
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "a", slot: 0, number, renewal: &renewal, is_known: false };
        let request = NoteAction { most_actions: 2, entry: entry.to_owned() }.with([]);
        let call = request.call(VARIANT, QUEUE, &self.keys, Levels::one(5), Some(&numbering));
        self.server.run(&call).unwrap();
    }

    fn register(&mut self, partitions: usize) {
        let register = Register { name: "orders".to_owned(), partitions }.with([]);
        let call = register.call(VARIANT, QUEUE, &self.keys, Levels::one(5), None);
        self.server.run(&call).unwrap();
    }

    fn unregister(&mut self, used: &str) -> Value {
        let unregister = Unregister { name: "orders".to_owned(), used: used.to_owned() }.with([]);
        let call = unregister.call(VARIANT, QUEUE, &self.keys, Levels::one(5), None);
        self.server.run(&call).unwrap()
    }
}

fn kept(jobs: u64, schedules: u64) -> DeleteReply {
    DeleteReply::Kept(ContentsReply { jobs, schedules })
}

#[test]
fn a_queue_goes_with_what_was_counted_and_with_nothing_else() {
    let mut stage = Stage::new();
    stage.store(1, "a");
    stage.store(2, "b");
    let (schedules, meta) = (stage.keys.spell(Key::Schedules), stage.keys.spell(Key::Meta));
    assert_eq!(stage.delete(1, 1), Ok(kept(2, 0)));
    stage.server.command(&["HSET", &schedules, "nightly", "{}"]);
    // A full server says what is in it, too.
    stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(stage.delete(2, 2), Ok(kept(2, 1)));
    stage.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    stage.server.command(&["DEL", &schedules]);
    stage.server.command(&["HSET", &meta, "format", "9"]);
    assert!(stage.delete(3, 2).is_err());
    assert_eq!(stage.count("HLEN", Key::Jobs), 2);
    stage.server.command(&["HSET", &meta, "format", "2"]);
    stage.server.command(&["HSET", &stage.keys.spell(Key::Departed), "token", "7"]);
    assert_eq!(stage.delete(4, 2), Ok(DeleteReply::Deleted));
    assert_eq!([Key::Jobs, Key::Meta, Key::Stats].map(|key| stage.count("EXISTS", key)), [0, 0, 0]);
    // Its jobs may be in flight from a bridge yet, and a bridge back may be frozen.
    assert_eq!(stage.count("HLEN", Key::Adopted), 1);
    assert_eq!(stage.count("EXISTS", Key::Departed), 1);
    // A copy of that call comes late.
    stage.store(3, "c");
    stage.store(4, "d");
    assert_eq!(stage.delete(4, 2), Ok(DeleteReply::Deleted));
    assert_eq!(stage.count("HLEN", Key::Jobs), 2);
}

#[test]
fn a_queue_that_is_used_again_stays_on_the_list_with_all_its_parts() {
    let mut stage = Stage::new();
    stage.register(3);
    stage.register(1);
    let used = stage.keys.spell(Key::QueuesUsed);
    let said: String = redis::from_redis_value(stage.server.command(&["HGET", &used, "orders"])).unwrap();
    assert!(said.ends_with(" 3"), "{said}");
    assert_eq!(stage.unregister("1 3"), Value::Int(0));
    assert_eq!(stage.unregister(&said), Value::Int(1));
    assert_eq!(stage.count("EXISTS", Key::Queues), 0);
}

#[test]
fn the_log_of_actions_has_each_once_and_only_the_newest() {
    let mut stage = Stage::new();
    let log = stage.keys.spell(Key::Actions);
    for (number, entry) in [(1, "one"), (1, "one"), (2, "two"), (3, "three"), (1, "one")] {
        stage.note_action(number, entry);
    }
    let entries: Vec<String> = redis::from_redis_value(stage.server.command(&["LRANGE", &log, "0", "-1"])).unwrap();
    let texts: Vec<_> = entries.iter().filter_map(|entry| entry.split_once('\n')).map(|(_, text)| text).collect();
    assert_eq!(texts, ["two", "three"]);
}

/// One call removes a hundred dead ones.
#[test]
fn a_worker_that_leaves_is_gone_however_many_are_dead() {
    let mut stage = Stage::new();
    let (workers, infos) = (stage.keys.spell(Key::Workers), stage.keys.spell(Key::WorkerInfos));
    for number in 0..120 {
        let (name, at) = (format!("dead{number}"), number.to_string());
        stage.server.command(&["ZADD", &workers, &at, &name]);
        stage.server.command(&["HSET", &infos, &name, "{}"]);
    }
    stage.server.command(&["ZADD", &workers, "+inf", "leaves"]);
    stage.leave("leaves");
    assert_eq!(stage.count("ZCARD", Key::Workers), 20);
    assert_eq!(stage.server.command(&["ZSCORE", &workers, "leaves"]), Value::Nil);
}
