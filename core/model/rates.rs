//! What a beat adds to what is kept of runs, and what it forgets, call by call.

use redis::Value;

use super::server::{QUEUE, Server, queue_keys};
use crate::script::{
    Beat, BeatReply, Clock, Counted, Declared, Extent, FromReply, Key, Levels, MemoryRenewal, Numbering, QueueKeys,
    RatesReply, Shape, Variant,
};

const MANUAL: Variant = Variant { clock: Clock::Manual, shape: Shape::Plain, extent: Extent::Usual };
const START: u64 = 1_790_000_000_000;
const MINUTE: u64 = 60_000;
const ONE: &str = "1 0 0 0 5 7;3:1;4:1";

struct Stage {
    server: Server,
    keys: QueueKeys,
    calls: u64,
}

impl Stage {
    fn new() -> Self {
        let mut stage = Self { server: Server::start(), keys: queue_keys(0), calls: 0 };
        // At the beginning of ten minutes.
        stage.at(0);
        stage
    }

    fn at(&mut self, minutes: u64) {
        let begin = START / (10 * MINUTE) * (10 * MINUTE);
        self.server.set_clock(&self.keys, begin + minutes * MINUTE);
    }

    fn beat(&mut self, tallies: &[(&str, &str)]) -> Result<BeatReply, String> {
        self.calls += 1;
        self.beat_again(tallies)
    }

    fn beat_again(&mut self, tallies: &[(&str, &str)]) -> Result<BeatReply, String> {
        let renewal = MemoryRenewal::Asked(Vec::new());
        let numbering = Numbering { client: "w", slot: 0, number: self.calls, renewal: &renewal, is_known: false };
        let items = tallies.iter().map(|(whose, tally)| (whose.as_bytes(), tally.as_bytes()));
        let request = Beat { worker: "w".to_owned(), life_ms: 1000, info: "{}".to_owned() }.with(items);
        let call = request.call(MANUAL, QUEUE, &self.keys, Levels::one(5), Some(&numbering));
        let reply = self.server.run(&call).map_err(|error| error.to_string())?;
        BeatReply::decode(reply).map_err(|error| error.to_string())
    }

    /// `<window's letter> <whose> <tally>` of each.
    fn counted(&mut self, minutes: u64, tens: u64, total: u64) -> Vec<String> {
        let request = Counted { minutes, tens, skip: 0, total }.with([]);
        let call = request.call(MANUAL, QUEUE, &self.keys, Levels::one(5), None);
        let reply = RatesReply::decode(self.server.run(&call).unwrap()).unwrap();
        let shown = |one: crate::script::KeptTally| {
            format!("{} {} {}", &one.window[..1], one.whose, String::from_utf8(one.tally).unwrap())
        };
        reply.tallies.into_iter().map(shown).collect()
    }

    fn fields(&mut self) -> i64 {
        match self.server.command(&["HLEN", &self.keys.spell(Key::Rates)]) {
            Value::Int(count) => count,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_several_beats_say_is_added_up_once_each() {
    let mut stage = Stage::new();
    let tallies = [("=", "3 0 0 0 5 7;3:1;4:2"), (":mail", ONE), (":", ONE), ("+", ONE)];
    stage.beat(&tallies).unwrap();
    stage.beat_again(&tallies).unwrap();
    stage.beat(&[("=", "1 2 0 1 10 20;5:1,3:9;4:1"), (":mail", "0 1 0 0 0 9;;")]).unwrap();
    let (whole, mail) = ("4 2 0 1 15 27;3:10,5:1;4:3", "1 1 0 0 5 16;3:1;4:1");
    assert_eq!(stage.counted(1, 0, 0), [format!("m = {whole}")]);
    for (tens, total, letter) in [(1, 0, "t"), (0, 1, "a")] {
        let all = stage.counted(0, tens, total);
        let expected = [("=", whole), ("+", ONE), (":mail", mail), (":", ONE)];
        assert_eq!(all, expected.map(|(whose, tally)| format!("{letter} {whose} {tally}")));
    }
    stage.beat(&[]).unwrap();
    assert_eq!(stage.counted(1, 0, 0).len(), 1);
}

#[test]
fn a_queue_keeps_two_hundred_names() {
    let mut stage = Stage::new();
    let names: Vec<_> = (0..250).map(|number| format!(":n{number}")).collect();
    for some in names.chunks(25) {
        let tallies: Vec<_> = some.iter().map(|name| (name.as_str(), ONE)).collect();
        stage.beat(&tallies).unwrap();
    }
    for all in [stage.counted(0, 1, 0), stage.counted(0, 0, 1)] {
        assert_eq!(all.len(), 201);
        assert!(all.iter().any(|one| one.ends_with(" + 50 0 0 0 250 350;3:50;4:50")), "{all:?}");
    }
    // Those that are known are counted by themselves.
    stage.beat(&[(":n7", ONE)]).unwrap();
    assert!(stage.counted(0, 1, 0).contains(&"t :n7 2 0 0 0 10 14;3:2;4:2".to_owned()));
}

#[test]
fn what_is_old_is_forgotten_and_no_more_than_that() {
    let mut stage = Stage::new();
    let beat = [("=", ONE), (":a", ONE)];
    stage.beat(&beat).unwrap();
    stage.at(479);
    stage.beat(&beat).unwrap();
    assert_eq!(stage.counted(480, 0, 0).len(), 2);
    stage.at(480);
    stage.beat(&beat).unwrap();
    assert_eq!(stage.counted(480, 0, 0).len(), 2);
    // Three windows of ten minutes, three fields each, the totals, three minutes but one, and three of bookkeeping.
    let fields = stage.fields();
    assert_eq!(fields, 3 * 3 + 3 + 2 + 3);
    stage.at(4319);
    stage.beat(&beat).unwrap();
    assert_eq!(stage.fields(), 4 * 3 + 3 + 1 + 3, "some minutes are left, or ten minutes went too early");
    stage.at(4320);
    stage.beat(&beat).unwrap();
    assert_eq!(stage.fields(), 4 * 3 + 3 + 2 + 3, "the first ten minutes are left");
    // A clock that was set back takes nothing away, and what is later is forgotten in its time.
    stage.at(4000);
    stage.beat(&beat).unwrap();
    assert_eq!(stage.counted(1, 0, 0), [format!("m = {ONE}")]);
    let expires = stage.server.command(&["PTTL", &stage.keys.spell(Key::Rates)]);
    assert!(matches!(expires, Value::Int(1..=259_800_000)), "{expires:?}");
}

#[test]
fn many_names_with_long_histograms_stay_below_four_megabytes() {
    let mut stage = Stage::new();
    let buckets: Vec<_> = (0..160).map(|bucket| format!("{bucket}:123456")).collect();
    let long = format!("1 0 0 0 1 1;{0};{0}", buckets.join(","));
    let names: Vec<_> = (0..200).map(|number| format!(":n{number}")).collect();
    let tallies: Vec<_> = names.iter().map(|name| (name.as_str(), long.as_str())).collect();
    for window in 0..12 {
        stage.at(10 * window);
        stage.beat(&tallies).unwrap();
    }
    let used = stage.server.command(&["MEMORY", "USAGE", &stage.keys.spell(Key::Rates), "SAMPLES", "0"]);
    // The totals, which have no window to go, and the newest one are as long again.
    assert!(matches!(used, Value::Int(1_000_000..=6_000_000)), "{used:?}");
    let rows = stage.counted(0, 10, 0).len();
    assert!((200..=1400).contains(&rows), "{rows}");
}

#[test]
fn neither_a_foreign_type_nor_a_foreign_text_stops_a_beat() {
    let mut stage = Stage::new();
    stage.beat(&[("=", ONE)]).unwrap();
    let key = stage.keys.spell(Key::Rates);
    for foreign in ["", "x", "1 2;;;", "1 0 0 0 5 7;3:1;4:1;"] {
        let Value::Array(fields) = stage.server.command(&["HKEYS", &key]) else { panic!("no list") };
        for field in fields {
            let field: String = redis::from_redis_value(field).unwrap();
            stage.server.command(&["HSET", &key, &field, foreign]);
        }
        stage.beat(&[("=", ONE)]).unwrap();
        assert_eq!(stage.counted(1, 0, 0), [format!("m = {ONE}")], "{foreign}");
    }
    stage.server.command(&["SET", &key, "foreign"]);
    stage.beat(&[("=", ONE)]).unwrap();
    assert_eq!(stage.server.command(&["TYPE", &key]), Value::SimpleString("string".to_owned()));
}
