//! The scripts of a bridge, call by call: what is sent again, comes late, or finds a key of a foreign type.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    Adopt, AdoptReply, Behind, Clock, Declared, Depart, DepartReply, Digits, Entries, Extent, Finished, FromReply,
    GiveBack, GiveBackReply, Key, Layout, Levels, MemoryRenewal, Numbering, Order, Publish, Published, QueueKeys,
    Reading, Refusal, Shape, Take, Taken, Target, Variant, Withdraw, is_published, jump,
};

const VARIANT: Variant = Variant { clock: Clock::Server, shape: Shape::Plain, extent: Extent::Usual };
const RECORD: &[u8] = b"{\"data\":1}";
const FAR_MS: u64 = 4_102_444_800_000;

struct Stage {
    server: Server,
    keys: QueueKeys,
    calls: u64,
    /// Of the bridge that calls.
    purpose: &'static str,
    /// What the last take said that this bridge has dropped.
    dropped: u64,
    /// As the bridge chooses it, at random.
    jump: fn() -> usize,
}

/// What a take gave: sequence, how many were kept, whether there is more, and the jobs as text.
type Batch = (Option<u64>, u64, bool, Vec<String>);

fn texts(entries: Entries) -> Vec<String> {
    entries.into_iter().map(|(entry, _)| String::from_utf8(entry).unwrap()).collect()
}

fn reading(source: &str, order: Order, layout: Layout) -> Reading {
    Reading { source: source.to_owned(), order, layout, grace_s: 0 }
}

fn list() -> Reading {
    reading("old", Order::Right, Layout::Here)
}

fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Fenced(_) => "fenced".to_owned(),
        Refusal::Other { elements, address, purpose } => {
            format!("other: {elements}, {address}, {}", purpose.trim_end())
        }
    }
}

/// So far above what was tried is what is in.
fn behind(batch: Option<u64>, by: u64) -> Option<Behind> {
    batch.map(|batch| Behind { batch, known: batch + by })
}

fn finished(sequence: Option<u64>, kept: &[usize]) -> Finished {
    Finished { sequence: sequence.unwrap(), kept: kept.to_vec(), rest: Vec::new() }
}

impl Stage {
    fn new() -> Self {
        Self { server: Server::start(), keys: queue_keys(0), calls: 0, purpose: "to orders\n", dropped: 0, jump }
    }

    fn number(&mut self, words: &[&str]) -> i64 {
        match self.server.command(words) {
            Value::Int(number) => number,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    fn lines(&mut self, words: &[&str]) -> Vec<String> {
        redis::from_redis_value(self.server.command(words)).unwrap()
    }

    fn spell(&self, key: Key) -> String {
        self.keys.spell(key)
    }

    /// With each a number of its own: as by another bridge.
    fn adopt(&mut self, sequence: u64, jobs: &[(&str, Target, &[u8])]) -> Result<AdoptReply, String> {
        self.calls += 1;
        self.adopt_again(sequence, jobs)
    }

    /// With the number of the last one.
    fn adopt_again(&mut self, sequence: u64, jobs: &[(&str, Target, &[u8])]) -> Result<AdoptReply, String> {
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "c", slot: 0, number: self.calls, renewal: &renewal, is_known: false };
        let adopt = Adopt { lane: "lane".to_owned(), sequence: Digits(sequence) };
        let items = jobs.iter().map(|(id, target, came_back)| (id.as_bytes(), RECORD, *target, *came_back));
        let request = adopt.with(items);
        let call = request.call(VARIANT, QUEUE, &self.keys, Levels::one(5), Some(&numbering));
        let reply = self.server.run(&call).map_err(|error| error.to_string())?;
        FromReply::decode(reply).map_err(|error| error.to_string())
    }

    fn take(
        &mut self,
        reading: &Reading,
        token: u64,
        finished: Option<&Finished>,
        most: usize,
    ) -> Result<Batch, String> {
        self.take_above(reading, token, finished, most, 1 << 20, None)
    }

    fn take_above(
        &mut self,
        reading: &Reading,
        token: u64,
        finished: Option<&Finished>,
        most: usize,
        most_bytes: usize,
        behind: Option<Behind>,
    ) -> Result<Batch, String> {
        let take = Take {
            reading,
            token,
            finished,
            lane: "lane",
            most,
            most_bytes,
            behind,
            purpose: self.purpose,
            address: "here",
        };
        let reply = self.server.run(&take.call()).map_err(|error| error.to_string())?;
        match Taken::decode(reply, reading.order).unwrap() {
            Taken::Batch { sequence, kept_before, more, dropped, entries, .. } => {
                self.dropped = dropped;
                Ok((sequence, kept_before, more, texts(entries)))
            }
            Taken::Refused(refusal) => Err(refused(&refusal)),
            Taken::Foreign(key) => Err(format!("foreign: {key}")),
        }
    }

    fn depart(
        &mut self,
        token: u64,
        finished: Option<u64>,
        cap: usize,
        behind: Option<Behind>,
    ) -> Result<Departed, String> {
        self.depart_from("ready", token, finished, cap, behind)
    }

    fn depart_from(
        &mut self,
        state: &'static str,
        token: u64,
        finished: Option<u64>,
        cap: usize,
        behind: Option<Behind>,
    ) -> Result<Departed, String> {
        let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let (above, tried) = (behind.map(|behind| behind.known), behind.map(|behind| behind.batch));
        let depart = Depart {
            state,
            token: Digits(token),
            finished: text(finished),
            lane: "lane".to_owned(),
            above: text(above),
            tried: text(tried),
            cap,
            purpose: self.purpose.to_owned(),
            address: "here".to_owned(),
            jump: (self.jump)(),
        };
        let request = depart.with([]);
        let call = request.call(VARIANT, QUEUE, &self.keys, Levels::one(5), None);
        let reply = self.server.run(&call).map_err(|error| error.to_string())?;
        match FromReply::decode(reply).unwrap() {
            DepartReply::Batch { sequence, more, jobs, .. } => {
                Ok((sequence, more, jobs.into_iter().map(|job| job.id).collect()))
            }
            DepartReply::Refused(refusal) => Err(refused(&refusal)),
        }
    }
}

impl Stage {
    fn give_back(&mut self, token: u64, sequence: Option<u64>) -> Result<GiveBackReply, String> {
        let give = GiveBack { token: Digits(token), sequence: Digits(sequence.unwrap()) };
        let request = give.with([]);
        let call = request.call(VARIANT, QUEUE, &self.keys, Levels::one(5), None);
        let reply = self.server.run(&call).map_err(|error| error.to_string())?;
        FromReply::decode(reply).map_err(|error| error.to_string())
    }

    fn publish(&mut self, sequence: u64, job: &str) -> Published {
        let jobs = [(None, job.as_bytes().to_vec())];
        let publish = Publish { target: "old", order: Order::Right, lane: "lane", sequence, jobs: &jobs };
        Published::decode(self.server.run(&publish.call()).unwrap()).unwrap()
    }

    fn withdraw(&mut self, sequence: u64) -> bool {
        let withdraw = Withdraw { target: "old", lane: "lane", sequence };
        is_published(self.server.run(&withdraw.call()).unwrap()).unwrap()
    }
}

/// What a depart gave: sequence, whether there is more, and the ids.
type Departed = (Option<u64>, bool, Vec<String>);

/// How many changes the server has made, as it counts them for its next snapshot.
fn changes(stage: &mut Stage) -> u64 {
    let info: String = redis::from_redis_value(stage.server.command(&["INFO", "persistence"])).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:")).unwrap();
    line.trim().parse().unwrap()
}

/// A newer server confirms at once to a connection that has written nothing: what is confirmed must be a write, on a full server too.
#[test]
fn a_batch_that_is_known_is_a_write_that_can_be_confirmed() {
    let mut stage = Stage::new();
    assert_eq!(stage.adopt(5, &[("a", Target::Ready, b"")]), Ok(AdoptReply::Adopted));
    assert_eq!(stage.publish(5, "a"), Published::In);
    stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = changes(&mut stage);
    assert_eq!(stage.adopt(5, &[("a", Target::Ready, b"")]), Ok(AdoptReply::Known));
    let between = changes(&mut stage);
    assert!(between > before);
    assert_eq!(stage.publish(5, "a"), Published::In);
    let behind = changes(&mut stage);
    assert!(behind > between);
    assert!(stage.withdraw(5));
    let published = changes(&mut stage);
    assert!(published > behind);
    assert!(!stage.withdraw(4));
    assert!(changes(&mut stage) > published);
}

#[test]
fn a_batch_is_stored_once_whoever_sends_it() {
    let mut stage = Stage::new();
    assert_eq!(stage.adopt(5, &[("a", Target::Ready, b"2;2;x"), ("b", Target::Due(1), b"")]), Ok(AdoptReply::Adopted));
    assert_eq!(stage.adopt(5, &[("c", Target::Ready, b"")]), Ok(AdoptReply::Known));
    assert_eq!(stage.adopt(4, &[("d", Target::Ready, b"")]), Ok(AdoptReply::Behind(5)));
    assert_eq!(stage.adopt(6, &[("e", Target::Due(FAR_MS), b"")]), Ok(AdoptReply::Adopted));
    let ready = stage.keys.spell_ready(5);
    // What is due already waits for nobody.
    assert_eq!(stage.lines(&["LRANGE", &ready, "0", "-1"]), ["a", "b"]);
    let (jobs, returned) = (stage.spell(Key::Jobs), stage.spell(Key::Returned));
    assert_eq!(stage.number(&["HLEN", &jobs]), 3);
    assert_eq!(stage.lines(&["HGETALL", &returned]), ["a", "2;2;x"]);
}

#[test]
fn failed_jobs_that_come_push_out_no_others() {
    let mut stage = Stage::new();
    let meta = stage.spell(Key::Meta);
    assert_eq!(stage.adopt(1, &[("a", Target::Failed, b"1;1;x")]), Ok(AdoptReply::Adopted));
    stage.server.command(&["HSET", &meta, "failed_max", "2"]);
    let two = [("b", Target::Failed, &b"1;1;x"[..]), ("c", Target::Failed, b"1;1;x")];
    stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(stage.adopt(2, &two), Ok(AdoptReply::Room(1)));
    stage.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    // A copy of that call comes late: what had no room has become a batch of its own.
    stage.server.command(&["HSET", &meta, "failed_max", "9"]);
    assert_eq!(stage.adopt_again(2, &two), Ok(AdoptReply::Room(1)));
    stage.server.command(&["HSET", &meta, "failed_max", "2"]);
    assert_eq!(stage.adopt(2, &two[..1]), Ok(AdoptReply::Adopted));
    stage.server.command(&["HSET", &meta, "format", "9"]);
    assert!(stage.adopt(3, &[("d", Target::Ready, b"")]).is_err());
    let jobs = stage.spell(Key::Jobs);
    assert_eq!(stage.number(&["HLEN", &jobs]), 2);
}

#[test]
fn a_foreign_type_stores_no_batch_by_half() {
    let all = [("a", Target::Due(FAR_MS), &b""[..]), ("b", Target::Ready, b"1;1;x"), ("c", Target::Failed, b"1;1;x")];
    for name in ["jobs", "delayed", "returned", "failed", "adopted", "ready:5"] {
        let mut stage = Stage::new();
        let key = stage.spell(Key::Jobs).replace("jobs", name);
        stage.server.command(&["SET", &key, "foreign"]);
        // In either order.
        for jobs in [all.to_vec(), all.iter().rev().copied().collect()] {
            assert!(stage.adopt(1, &jobs).is_err(), "{name}");
            let (jobs, returned) = (stage.spell(Key::Jobs), stage.spell(Key::Returned));
            let stored = stage.number(&["EXISTS", &jobs, &returned]);
            assert_eq!(stored, i64::from(key == jobs || key == returned), "{name}");
        }
    }
}

#[test]
fn a_batch_stays_in_flight_until_it_is_named() {
    let mut stage = Stage::new();
    stage.server.command(&["LPUSH", "old", "a", "b", "c", "d"]);
    let (first, _, more, jobs) = stage.take(&list(), 2, None, 2).unwrap();
    assert_eq!((more, jobs), (true, vec!["a".to_owned(), "b".to_owned()]));
    let again = stage.take(&list(), 2, None, 2).unwrap();
    assert_eq!((again.0, again.3), (first, vec!["a".to_owned(), "b".to_owned()]));
    let end = finished(first, &[]);
    let (second, _, _, jobs) = stage.take(&list(), 2, Some(&end), 2).unwrap();
    assert_eq!((second > first, jobs), (true, vec!["c".to_owned(), "d".to_owned()]));
    // A late copy of the call that named the first one.
    let late = stage.take(&list(), 2, Some(&end), 2).unwrap();
    assert_eq!((late.0, late.3.len()), (second, 2));
    // A later one of this lane is in.
    let above = second.unwrap() + 1_000_000_000;
    let raised = stage.take_above(&list(), 2, None, 2, 1 << 20, behind(second, 1_000_000_000)).unwrap();
    assert!(raised.0 > Some(above) && raised.3.len() == 2, "{raised:?}");
    // A copy of that call, or one of a bridge that was frozen with that batch in its hands: it is another batch now.
    let again = stage.take_above(&list(), 2, None, 2, 1 << 20, behind(second, 2_000_000_000)).unwrap();
    assert_eq!((again.0, again.3.len()), (raised.0, 2));
    // Another bridge has taken over.
    assert!(stage.take(&list(), 3, None, 2).is_ok());
    assert_eq!(stage.take(&list(), 2, None, 2), Err("fenced".to_owned()));
}

/// Parts of it may be in where it was made for, and nobody else knows which.
#[test]
fn nobody_goes_on_with_a_batch_for_another_purpose() {
    for (order, elements) in [(Order::Right, 1), (Order::Score, 2)] {
        let mut stage = Stage::new();
        let old = reading("old", order, Layout::Here);
        let add = |stage: &mut Stage, job| match order {
            Order::Right => stage.server.command(&["LPUSH", "old", job]),
            _ => stage.server.command(&["ZADD", "old", "1", job]),
        };
        add(&mut stage, "a");
        let (first, _, _, jobs) = stage.take(&old, 1, None, 9).unwrap();
        assert_eq!(jobs, ["a"]);
        let hash = stage.lines(&["HGETALL", "{old}:duly:state"]);
        stage.purpose = "to mail\n";
        let refused = Err(format!("other: {elements}, here, to orders"));
        // Nor does it end it, and it changes nothing.
        assert_eq!(stage.take(&old, 2, None, 9), refused);
        assert_eq!(stage.take(&old, 2, Some(&finished(first, &[])), 9), refused);
        assert_eq!(stage.lines(&["HGETALL", "{old}:duly:state"]), hash);
        stage.purpose = "to orders\n";
        assert_eq!(stage.take(&old, 2, None, 9).unwrap().0, first);
        stage.take(&old, 2, Some(&finished(first, &[])), 0).unwrap();
        // What comes next is for anybody.
        stage.purpose = "to mail\n";
        add(&mut stage, "b");
        assert_eq!(stage.take(&old, 2, None, 9).unwrap().3, ["b"]);
        stage.purpose = "to orders\n";
        assert_eq!(stage.take(&old, 2, None, 9), Err(format!("other: {elements}, here, to mail")));
    }
}

/// An older bridge has noted no purpose, and leaves that of an earlier batch where it is.
#[test]
fn a_batch_of_an_older_bridge_is_gone_on_with_and_has_a_purpose_then() {
    for made_for in [None, Some("17\nhere\nto mail\n")] {
        let mut stage = Stage::new();
        stage.server.command(&["LPUSH", "old", "a"]);
        let (first, ..) = stage.take(&list(), 1, None, 9).unwrap();
        stage.server.command(&["HDEL", "{old}:duly:state", "made_for"]);
        if let Some(made_for) = made_for {
            stage.server.command(&["HSET", "{old}:duly:state", "made_for", made_for]);
        }
        assert_eq!(stage.take(&list(), 1, None, 9).unwrap().0, first);
        stage.purpose = "to mail\n";
        assert_eq!(stage.take(&list(), 1, None, 9), Err("other: 1, here, to orders".to_owned()));
        // What the error says: then it has another sequence, and all of it comes.
        stage.server.command(&["HDEL", "{old}:duly:state", "made_for", "sequence"]);
        let (second, _, _, jobs) = stage.take(&list(), 1, None, 9).unwrap();
        assert_eq!((second > first, jobs), (true, vec!["a".to_owned()]));

        stage.adopt(1, &[("a", Target::Ready, b"")]).unwrap();
        let (first, _, _) = stage.depart(1, None, 9, None).unwrap();
        let departed = stage.spell(Key::Departed);
        stage.server.command(&["HDEL", &departed, "made_for"]);
        if let Some(made_for) = made_for {
            stage.server.command(&["HSET", &departed, "made_for", made_for]);
        }
        assert_eq!(stage.depart(1, None, 9, None).unwrap().0, first);
        stage.purpose = "to orders\n";
        assert_eq!(stage.depart(1, None, 9, None), Err("other: 4, here, to mail".to_owned()));
        let hash = stage.lines(&["HGETALL", &departed]);
        assert_eq!(stage.depart(2, first, 9, None), Err("other: 4, here, to mail".to_owned()));
        assert_eq!(stage.lines(&["HGETALL", &departed]), hash);
        stage.server.command(&["HDEL", &departed, "made_for"]);
        assert_eq!(stage.depart(2, None, 9, None).unwrap().0, first);
    }
}

#[test]
fn what_finds_no_room_becomes_a_batch_of_its_own() {
    for order in [Order::Left, Order::Score] {
        let mut stage = Stage::new();
        let old = reading("old", order, Layout::Here);
        for (score, job) in ["a", "b", "c", "d", "e"].iter().enumerate() {
            match order {
                Order::Left => stage.server.command(&["RPUSH", "old", job]),
                _ => stage.server.command(&["ZADD", "old", &score.to_string(), job]),
            };
        }
        let (first, _, _, _) = stage.take(&old, 1, None, 4).unwrap();
        let rest = Finished { rest: vec![2, 4], ..finished(first, &[]) };
        let (second, _, _, jobs) = stage.take(&old, 1, Some(&rest), 9).unwrap();
        assert_eq!((second > first, jobs.as_slice()), (true, &["b".to_owned(), "d".to_owned()][..]), "{order:?}");
        // A copy of that call.
        assert_eq!(stage.take(&old, 1, Some(&rest), 9).unwrap().0, second);
        assert_eq!(stage.take(&old, 1, Some(&finished(second, &[])), 9).unwrap().3, ["e"]);
    }
    // What stays in the old queue goes back at once.
    let mut stage = Stage::new();
    stage.server.command(&["LPUSH", "old", "a", "b", "c"]);
    let (first, ..) = stage.take(&list(), 1, None, 9).unwrap();
    let rest = Finished { rest: vec![3], ..finished(first, &[1]) };
    assert_eq!(stage.take(&list(), 1, Some(&rest), 9).unwrap().3, ["c"]);
    assert_eq!(stage.lines(&["LRANGE", "old", "0", "-1"]), ["a"]);
}

#[test]
fn entries_without_a_job_are_counted_for_the_bridge_that_has_dropped_them() {
    let mut stage = Stage::new();
    stage.server.command(&["LPUSH", "topic", "gone", "gone too"]);
    let topic = reading("topic", Order::Right, Layout::Hash("pool".to_owned()));
    stage.take(&topic, 1, None, 1).unwrap();
    assert_eq!(stage.dropped, 1);
    // Its answer may have been lost: the next one says so, too.
    stage.take(&topic, 1, None, 9).unwrap();
    assert_eq!(stage.dropped, 2);
    stage.take(&topic, 1, None, 9).unwrap();
    assert_eq!(stage.dropped, 2);
    stage.take(&topic, 2, None, 9).unwrap();
    assert_eq!(stage.dropped, 0);
    stage.server.command(&["LPUSH", "topic", "gone"]);
    stage.take(&topic, 2, None, 9).unwrap();
    assert_eq!(stage.dropped, 1);
}

#[test]
fn a_batch_has_its_bytes_and_a_full_server_can_be_emptied() {
    let mut stage = Stage::new();
    let large = "x".repeat(600);
    stage.server.command(&["LPUSH", "old", &large, &large, &large]);
    stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let (_, _, _, jobs) = stage.take_above(&list(), 1, None, 500, 1000, None).unwrap();
    assert_eq!(jobs.len(), 1);
}

#[test]
fn what_stays_goes_back_to_where_workers_take_it() {
    let mut stage = Stage::new();
    stage.server.command(&["LPUSH", "old", "a", "b", "c", "d"]);
    let (first, kept, _, _) = stage.take(&list(), 1, None, 9).unwrap();
    assert_eq!(kept, 0);
    let end = finished(first, &[2, 4]);
    assert_eq!(stage.take(&list(), 1, Some(&end), 9).unwrap(), (None, 2, false, vec![]));
    // A copy of the call puts nothing back again.
    assert_eq!(stage.take(&list(), 1, Some(&end), 9).unwrap(), (None, 2, false, vec![]));
    assert_eq!(stage.lines(&["LRANGE", "old", "0", "-1"]), ["d", "b"]);
    // More than one batch comes behind them: the oldest is the first to be taken.
    stage.server.command(&["LPUSH", "old", "e", "f", "g"]);
    let (second, kept, _, jobs) = stage.take(&list(), 1, None, 2).unwrap();
    assert_eq!((kept, jobs), (2, vec!["e".to_owned(), "f".to_owned()]));
    // What was behind a batch, and what was before it, is where it was.
    assert_eq!(stage.lines(&["LRANGE", "old", "0", "-1"]), ["g", "d", "b"]);
    let (third, kept, _, jobs) = stage.take(&list(), 1, Some(&finished(second, &[1])), 3).unwrap();
    assert_eq!((kept, jobs), (3, vec!["g".to_owned()]));
    assert_eq!(stage.take(&list(), 1, Some(&finished(third, &[])), 3).unwrap().3.len(), 0);
    assert_eq!(stage.lines(&["LRANGE", "old", "0", "-1"]), ["d", "b", "e"]);
    // A worker takes one, and another one comes: it is not taken for the one that is gone.
    stage.server.command(&["RPOP", "old"]);
    stage.server.command(&["LPUSH", "old", "h"]);
    let (fourth, kept, _, jobs) = stage.take(&list(), 1, None, 9).unwrap();
    assert_eq!((kept, jobs), (2, vec!["h".to_owned()]));
    stage.take(&list(), 1, Some(&finished(fourth, &[1])), 9).unwrap();
    assert_eq!(stage.lines(&["LRANGE", "old", "0", "-1"]), ["d", "b", "h"]);
    // Somebody has taken the newest of them: all are read anew.
    stage.server.command(&["LREM", "old", "1", "d"]);
    assert_eq!(stage.take(&list(), 1, None, 1).unwrap().3, ["h"]);
    stage.server.command(&["DEL", "{old}:duly:in_flight"]);
    // The next bridge reads what stayed, and says so.
    let (fifth, _, _, jobs) = stage.take(&list(), 1, None, 9).unwrap();
    assert_eq!(jobs, ["b"]);
    assert_eq!(stage.take(&list(), 1, Some(&finished(fifth, &[1])), 9).unwrap(), (None, 1, false, vec![]));
    assert_eq!(stage.take(&list(), 2, None, 9).unwrap().3, ["b"]);
}

#[test]
fn a_foreign_type_beside_the_old_key_loses_no_batch() {
    for name in ["{old}:duly:in_flight", "{old}:duly:state"] {
        let mut stage = Stage::new();
        stage.server.command(&["LPUSH", "old", "a"]);
        stage.server.command(&["SET", name, "foreign"]);
        assert!(stage.take(&list(), 1, None, 9).is_err(), "{name}");
        assert_eq!(stage.lines(&["LRANGE", "old", "0", "-1"]), ["a"], "{name}");
    }
}

#[test]
fn jobs_that_lie_elsewhere_leave_it_when_they_come() {
    let mut stage = Stage::new();
    stage.server.command(&["ZADD", "index", "1", "t1", "2", "t2"]);
    stage.server.command(&["HSET", "unacked", "t1", "a", "t2", "b"]);
    let unacked = reading("index", Order::Over, Layout::Field("unacked".to_owned()));
    let (sequence, _, _, jobs) = stage.take(&unacked, 1, None, 9).unwrap();
    assert_eq!((jobs.len(), stage.number(&["HLEN", "unacked"])), (2, 0));
    stage.take(&unacked, 1, Some(&finished(sequence, &[2])), 9).unwrap();
    assert_eq!(stage.lines(&["HGETALL", "unacked"]), ["t2", "b"]);
    assert_eq!(stage.lines(&["ZRANGE", "index", "0", "-1", "WITHSCORES"]), ["t2", "2"]);

    stage.server.command(&["HSET", "pool:j", "id", "j", "status", "2"]);
    stage.server.command(&["LPUSH", "topic", "j", "j"]);
    let topic = reading("topic", Order::Right, Layout::Hash("pool".to_owned()));
    assert_eq!(stage.take(&topic, 1, None, 9).unwrap().3, ["2:id1:j6:status1:2"]);
    assert_eq!(stage.number(&["EXISTS", "pool:j"]), 0);
}

/// Lua's `%s` ends at a NUL.
#[test]
fn a_job_of_gmq_has_all_its_bytes() {
    let mut stage = Stage::new();
    stage.server.command(&["HSET", "pool:j", "id", "j", "body", "a\0b"]);
    stage.server.command(&["LPUSH", "topic", "j"]);
    let topic = reading("topic", Order::Right, Layout::Hash("pool".to_owned()));
    let looked = stage.server.run(&topic.look(0, 9, 1 << 20)).unwrap();
    let all = "2:id1:j4:body3:a\0b";
    assert_eq!(texts(topic.looked(looked).unwrap().1), [all]);
    assert_eq!(stage.take(&topic, 1, None, 9).unwrap().3, [all]);
}

#[test]
fn a_key_that_is_no_job_loses_none_beside_it() {
    let mut stage = Stage::new();
    for job in ["a", "b", "d"] {
        stage.server.command(&["HSET", &format!("pool:{job}"), "id", job, "status", "1"]);
    }
    stage.server.command(&["SET", "pool:c", "no job"]);
    stage.server.command(&["ZADD", "bucket", "1", "a", "2", "b", "3", "c", "4", "d"]);
    let bucket = reading("bucket", Order::Score, Layout::Hash("pool".to_owned()));
    for _ in 0..2 {
        assert_eq!(stage.take(&bucket, 1, None, 9), Err("foreign: pool:c".to_owned()));
        let looked = stage.server.run(&bucket.look(0, 9, 1 << 20)).unwrap();
        let said = bucket.looked(looked).unwrap_err().to_string();
        assert!(said.contains("an entry of the key 'bucket' names the key 'pool:c'"), "{said}");
        assert_eq!(stage.number(&["ZCARD", "bucket"]), 4);
        assert_eq!(stage.number(&["EXISTS", "pool:a", "pool:b", "pool:c", "pool:d"]), 4);
        assert_eq!(stage.number(&["EXISTS", "{bucket}:duly:in_flight"]), 0);
    }
    stage.server.command(&["ZREM", "bucket", "c"]);
    assert_eq!(stage.take(&bucket, 1, None, 9).unwrap().3.len(), 3);
    assert_eq!(stage.number(&["EXISTS", "pool:a", "pool:b", "pool:c", "pool:d"]), 1);
}

/// The clock of the server that takes over is behind: the batch that was lost and the one that comes instead must not have one sequence.
#[test]
fn a_server_that_lost_its_last_writes_gives_no_sequence_twice() {
    let mut stage = Stage::new();
    let jobs = [("a", Target::Ready, &b""[..])];
    let departed = stage.spell(Key::Departed);
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    // One of 65,536 pairs is equal.
    for number in 0..4 {
        stage.server.command(&["LPUSH", "old", "a"]);
        stage.server.command(&["DEL", "{old}:duly:in_flight"]);
        stage.server.command(&["HSET", "{old}:duly:state", "sequence", "8000000000000000"]);
        taken.push(stage.take(&list(), 1, None, 1).unwrap().0.unwrap());
        stage.adopt(number + 1, &jobs).unwrap();
        let departing = stage.spell(Key::Departing);
        stage.server.command(&["DEL", &departing]);
        stage.server.command(&["HSET", &departed, "sequence", "8000000000000000"]);
        left.push(stage.depart(1, None, 1, None).unwrap().0.unwrap());
    }
    for sequences in [taken, left] {
        assert!(sequences.iter().any(|one| *one != sequences[0]), "{sequences:?}");
        assert!(sequences.iter().all(|one| *one > 8_000_000_000_000_000), "{sequences:?}");
    }
}

#[test]
fn jobs_that_go_back_are_on_their_way_until_the_other_queue_has_them() {
    let mut stage = Stage::new();
    let all: Vec<String> = (0..4).map(|number| format!("j{number}")).collect();
    let jobs: Vec<_> = all.iter().map(|id| (id.as_str(), Target::Ready, &b""[..])).collect();
    stage.adopt(1, &jobs).unwrap();
    let (first, more, ids) = stage.depart(2, None, 2, None).unwrap();
    assert_eq!((more, ids.as_slice()), (true, &all[..2]));
    assert_eq!(stage.depart(2, None, 2, None).unwrap().0, first);
    let (second, _, ids) = stage.depart(2, first, 2, None).unwrap();
    assert_eq!((second > first, ids.as_slice()), (true, &all[2..]));
    let late = stage.depart(2, first, 2, None).unwrap();
    assert_eq!((late.0, late.2.as_slice()), (second, &all[2..]));
    let above = second.unwrap() + 1_000_000_000;
    let raised = stage.depart(2, None, 2, behind(second, 1_000_000_000)).unwrap().0;
    assert!(raised > Some(above));
    // As of a batch that comes over.
    assert_eq!(stage.depart(2, None, 2, behind(second, 2_000_000_000)).unwrap().0, raised);
    assert_eq!(stage.depart(3, raised, 2, None).unwrap(), (None, false, vec![]));
    assert_eq!(stage.depart(2, None, 2, None), Err("fenced".to_owned()));
    let jobs = stage.spell(Key::Jobs);
    assert_eq!(stage.number(&["EXISTS", &jobs]), 0);
}

#[test]
fn a_job_that_goes_back_leaves_nothing_but_the_key_of_another() {
    let mut stage = Stage::new();
    stage.adopt(1, &[("a", Target::Failed, b"1;1;x"), ("b", Target::Failed, b"1;1;y")]).unwrap();
    // The one that failed had a key, which a live job holds now.
    let (jobs, keys, returned) = (stage.spell(Key::Jobs), stage.spell(Key::Keys), stage.spell(Key::Returned));
    stage.server.command(&["HSET", &jobs, "a", "5;5;1;0;k{\"data\":1}", "b", "5;5;1;0;m{\"data\":1}"]);
    stage.server.command(&["HSET", &keys, "k", "live", "m", "b"]);
    assert_eq!(stage.depart_from("failed", 1, None, 9, None).unwrap().2, ["a", "b"]);
    assert_eq!(stage.lines(&["HGETALL", &keys]), ["k", "live"]);
    assert_eq!(stage.number(&["EXISTS", &returned]), 0);
    // Entries that no longer count are no end.
    let mut stage = Stage::new();
    stage.adopt(1, &[("a", Target::Ready, b""), ("b", Target::Ready, b"")]).unwrap();
    let (jobs, skipped, meta) = (stage.spell(Key::Jobs), stage.spell(Key::Stale), stage.spell(Key::Meta));
    stage.server.command(&["HDEL", &jobs, "a"]);
    stage.server.command(&["HSET", &skipped, "5:a", "1"]);
    stage.server.command(&["HSET", &meta, "stale_entries", "1"]);
    assert_eq!(stage.depart(1, None, 1, None).unwrap(), (None, true, vec![]));
    assert_eq!(stage.depart(1, None, 1, None).unwrap().2, ["b"]);
}

#[test]
fn a_foreign_type_loses_no_job_that_goes_back() {
    for name in ["departing", "departed", "returned", "keys", "stale"] {
        let mut stage = Stage::new();
        stage.adopt(1, &[("a", Target::Ready, b"")]).unwrap();
        let key = stage.spell(Key::Jobs).replace("jobs", name);
        stage.server.command(&["SET", &key, "foreign"]);
        assert!(stage.depart(1, None, 9, None).is_err(), "{name}");
        let (jobs, ready) = (stage.spell(Key::Jobs), stage.keys.spell_ready(5));
        assert_eq!((stage.number(&["HLEN", &jobs]), stage.number(&["LLEN", &ready])), (1, 1), "{name}");
    }
}

#[test]
fn a_batch_goes_into_the_other_queue_once() {
    let mut stage = Stage::new();
    assert_eq!(stage.publish(5, "a"), Published::In);
    assert_eq!(stage.publish(5, "a"), Published::In);
    assert_eq!(stage.publish(4, "b"), Published::Behind(5));
    assert_eq!(stage.publish(6, "c"), Published::In);
    assert_eq!(stage.lines(&["LRANGE", "old", "0", "-1"]), ["c", "a"]);
}

#[test]
fn a_batch_that_was_withdrawn_never_comes_and_one_that_is_in_stays_there() {
    let mut stage = Stage::new();
    assert!(!stage.withdraw(5));
    assert!(!stage.withdraw(5));
    assert_eq!(stage.publish(5, "late"), Published::Behind(6));
    assert_eq!(stage.publish(7, "a"), Published::In);
    assert!(stage.withdraw(7));
    // What comes behind a withdrawn batch is no copy of it.
    assert!(!stage.withdraw(8));
    assert_eq!(stage.publish(10, "b"), Published::In);
    // A late copy of an earlier one forgets no later one.
    assert!(!stage.withdraw(5));
    assert_eq!(stage.publish(10, "b"), Published::In);
    assert_eq!(stage.lines(&["LRANGE", "old", "0", "-1"]), ["b", "a"]);
}

#[test]
fn what_is_given_back_is_where_it_was_and_comes_once() {
    let mut stage = Stage::new();
    let all = ["a", "b", "c"];
    let jobs: Vec<_> = all.iter().map(|id| (*id, Target::Ready, &b"2;3;x"[..])).collect();
    stage.adopt(1, &jobs).unwrap();
    let keys = stage.spell(Key::Keys);
    let (jobs, returned, wake) = (stage.spell(Key::Jobs), stage.spell(Key::Returned), stage.spell(Key::Wake));
    stage.server.command(&["HSET", &jobs, "a", "5;5;1;0;k{\"data\":1}"]);
    stage.server.command(&["HSET", &keys, "k", "a"]);
    stage.server.command(&["DEL", &wake]);
    let (first, _, _) = stage.depart(2, None, 2, None).unwrap();
    // Ahead of the clock, as behind a failover.
    let (first, _, _) = stage.depart(2, None, 2, behind(first, 1_000_000_000)).unwrap();
    assert_eq!(stage.give_back(1, first).unwrap(), GiveBackReply::Fenced(2));
    assert_eq!(stage.give_back(2, first.map(|sequence| sequence - 1)).unwrap(), GiveBackReply::Given(0));
    assert_eq!(stage.give_back(2, first).unwrap(), GiveBackReply::Given(2));
    assert_eq!(stage.give_back(2, first).unwrap(), GiveBackReply::Given(0));
    let ready = stage.keys.spell_ready(5);
    assert_eq!(stage.lines(&["LRANGE", &ready, "0", "-1"]), all);
    assert_eq!(stage.lines(&["HGETALL", &keys]), ["k", "a"]);
    assert_eq!((stage.number(&["HLEN", &returned]), stage.number(&["LLEN", &wake])), (3, 1));
    // A search of ready jobs goes by it.
    let meta = stage.spell(Key::Meta);
    assert_eq!(stage.lines(&["HMGET", &meta, "put_first"]), ["2"]);
    // The next batch is another one than that which never came, whatever is chosen at random.
    stage.jump = || 0;
    let (second, _, _) = stage.depart(2, None, 2, None).unwrap();
    assert!(second.unwrap() > first.unwrap() + 1);
    assert_eq!(stage.give_back(2, first).unwrap(), GiveBackReply::Given(0));

    // Meanwhile its key and its id belong to others.
    stage.server.command(&["HSET", &jobs, "other", "5;5;1;0;k{\"data\":1}", "b", "{\"data\":2}"]);
    stage.server.command(&["HSET", &keys, "k", "other"]);
    assert_eq!(stage.give_back(2, second).unwrap(), GiveBackReply::Given(2));
    let failed = stage.spell(Key::Failed);
    assert_eq!(stage.lines(&["ZRANGE", &failed, "0", "-1"]), ["a"]);
    assert!(stage.lines(&["HMGET", &returned, "a"])[0].starts_with("2;3;its key belongs to another job"));
    // Workers hear of it.
    let stats = stage.spell(Key::Stats);
    assert_eq!(stage.lines(&["HMGET", &meta, "unheard_last", "unheard:1"]), ["1", "a"]);
    assert_eq!(stage.lines(&["HMGET", &stats, "failed"]), ["1"]);
    let given = format!("b.{}", second.unwrap());
    assert_eq!(stage.lines(&["LRANGE", &ready, "0", "-1"]), [given.as_str(), "c"]);
    assert_eq!(stage.lines(&["HMGET", &keys, "k"]), ["other"]);
}

#[test]
fn delayed_and_failed_jobs_are_given_back_with_their_times() {
    for (state, target, score) in [("delayed", Target::Due(FAR_MS), FAR_MS), ("failed", Target::Failed, 0)] {
        let mut stage = Stage::new();
        stage.adopt(1, &[("a", target, b"")]).unwrap();
        let (set, wake) =
            (stage.spell(if state == "delayed" { Key::Delayed } else { Key::Failed }), stage.spell(Key::Wake));
        let before = stage.lines(&["ZRANGE", &set, "0", "-1", "WITHSCORES"]);
        stage.server.command(&["DEL", &wake]);
        let (sequence, _, _) = stage.depart_from(state, 2, None, 9, None).unwrap();
        assert_eq!(stage.give_back(2, sequence).unwrap(), GiveBackReply::Given(1));
        assert_eq!(stage.lines(&["ZRANGE", &set, "0", "-1", "WITHSCORES"]), before, "{state}");
        assert_eq!(stage.number(&["LLEN", &wake]), i64::from(score > 0), "{state}");
    }
}

#[test]
fn a_foreign_type_gives_no_batch_back_by_half() {
    for name in ["delayed", "returned", "failed", "keys", "ready:5", "jobs"] {
        let mut stage = Stage::new();
        stage.adopt(1, &[("a", Target::Ready, b"1;1;x"), ("b", Target::Ready, b"")]).unwrap();
        let (sequence, _, _) = stage.depart(1, None, 9, None).unwrap();
        let key = stage.spell(Key::Jobs).replace("jobs", name);
        stage.server.command(&["DEL", &key]);
        stage.server.command(&["SET", &key, "foreign"]);
        assert!(stage.give_back(1, sequence).is_err(), "{name}");
        let departing = stage.spell(Key::Departing);
        assert_eq!(stage.number(&["LLEN", &departing]), 8, "{name}");
        if name != "jobs" {
            let jobs = stage.spell(Key::Jobs);
            assert_eq!(stage.number(&["EXISTS", &jobs]), 0, "{name}");
        }
    }
}
