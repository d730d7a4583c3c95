//! What schedules are: a state of their own beside the jobs, with steps in any order, and callers that have read something else.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use redis::Value;

use super::differential::number_from;
use super::server::{Server, queue_keys};
use crate::script::{
    Beat, BeatReply, ByteStrings, Clock, Declared, DueReply, DueSchedules, Extent, FireReply, FireSchedules, FromReply,
    Key, Levels, MemoryRenewal, Numbering, PutSchedules, QueueKeys, ReadSchedules, SchedulesReply, Shape, Variant,
};

const DEFAULT_CASES: u32 = 200;
const START: u64 = 1_790_000_000_000;
const MOST_FIRES: usize = 20;
const LARGE: usize = 41_943;
/// The promise of a caller that does not come back.
const NEVER: u64 = 1;
const MANUAL: Variant = Variant { clock: Clock::Manual, shape: Shape::Plain, extent: Extent::Usual };

/// What a caller has read of a schedule that it changes or fires.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Expects {
    WhatIsThere,
    Nothing,
    SomethingElse,
}

#[derive(Debug, Clone)]
enum Step {
    Put {
        name: u8,
        expects: Expects,
        fires_in: Option<u64>,
        removes: bool,
    },
    Due {
        is_mine: bool,
        comes_back: bool,
        most: usize,
    },
    Fire {
        name: u8,
        expects: Expects,
        overlap: &'static str,
        slots: Vec<Slot>,
        fires_in: Option<u64>,
    },
    /// The job of a slot leaves.
    Finish(usize),
    TakeWakeUps,
    Advance(u64),
}

#[derive(Debug, Clone)]
struct Slot {
    number: u64,
    key: Option<u8>,
    is_awaited: bool,
}

impl Slot {
    fn id(&self, name: u8) -> String {
        format!("{name}@{}", self.number)
    }

    fn record(&self) -> String {
        let data = if self.is_awaited { r#"{"data":1,"result_ttl":1}"# } else { r#"{"data":1}"# };
        self.key.map_or_else(|| data.to_owned(), |key| format!("5;5;1;0;{key}{data}"))
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    schedules: BTreeMap<String, One>,
    timer: u64,
    next: Option<u64>,
    wake: Vec<&'static str>,
    ready: Vec<String>,
    records: BTreeMap<String, String>,
    keys: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct One {
    state: String,
    definition: String,
    fires_at: Option<u64>,
    fires: Vec<String>,
}

impl State {
    fn is_as(&self, name: u8, expected: &str) -> bool {
        match self.schedules.get(&name.to_string()) {
            Some(one) => !expected.is_empty() && one.state.starts_with(expected),
            None => expected.is_empty(),
        }
    }

    fn note_head(&mut self) {
        self.next = self.schedules.values().filter_map(|one| one.fires_at).min();
    }

    fn wake_for_head(&mut self, now: u64) {
        if self.next.is_some_and(|next| self.timer <= now || next < self.timer) && self.wake.len() < 3 {
            self.wake.insert(0, "schedules");
        }
    }

    fn put(&mut self, now: u64, name: u8, expected: &str, after: Option<One>) -> bool {
        let is_done = self.is_as(name, expected);
        match after {
            _ if !is_done => {}
            Some(one) => {
                let fires = self.schedules.remove(&name.to_string()).map(|one| one.fires).unwrap_or_default();
                self.schedules.insert(name.to_string(), One { fires, ..one });
            }
            None => drop(self.schedules.remove(&name.to_string())),
        }
        self.note_head();
        self.wake_for_head(now);
        is_done
    }

    fn due(&mut self, now: u64, promise: u64, most: usize) -> (Vec<String>, u64) {
        let mut due: Vec<_> = self.schedules.iter().filter_map(|(name, one)| Some((one.fires_at?, name))).collect();
        due.sort();
        let firing: Vec<String> =
            due.iter().filter(|(at, _)| *at <= now).take(most).map(|(_, name)| (*name).clone()).collect();
        let mut promised = 0;
        if let (true, Some(&(next, _))) = (firing.is_empty(), due.first())
            && promise != NEVER
            && (self.timer <= now || next < self.timer || self.timer == promise)
        {
            (self.timer, promised) = (next, next);
        }
        (firing, promised)
    }

    fn holder(&self, id: &str, key: Option<u8>) -> Option<String> {
        if self.records.contains_key(id) {
            return Some(id.to_owned());
        }
        self.keys.get(&key?.to_string()).cloned()
    }

    fn leave(&mut self, id: &str) {
        self.records.remove(id);
        self.ready.retain(|other| other != id);
        self.keys.retain(|_, holder| holder != id);
    }

    fn fire(
        &mut self,
        now: u64,
        name: u8,
        (expected, after, overlap): (&str, &One, &str),
        slots: &[Slot],
    ) -> (Option<Vec<String>>, Vec<String>) {
        let mut awaited = Vec::new();
        if expected.is_empty() || !self.is_as(name, expected) {
            self.note_head();
            return (None, awaited);
        }
        let mut outcomes = Vec::new();
        for slot in slots {
            let id = slot.id(name);
            let mut holder = self.holder(&id, slot.key);
            let outcome = match &holder {
                Some(other) if overlap != "replace" || *other == id => "skipped",
                Some(_) => "replaced",
                None => "pushed",
            };
            if outcome != "skipped" {
                while let Some(other) = holder {
                    if other != id && self.records[&other].contains("result_ttl") {
                        awaited.push(other.clone());
                    }
                    self.leave(&other);
                    holder = self.holder(&id, slot.key);
                }
                self.records.insert(id.clone(), slot.record());
                if let Some(key) = slot.key {
                    self.keys.insert(key.to_string(), id.clone());
                }
                self.ready.push(id);
            }
            outcomes.push(outcome.to_owned());
        }
        let one = self.schedules.get_mut(&name.to_string()).unwrap();
        (one.state, one.fires_at) = (after.state.clone(), after.fires_at);
        one.fires.extend(slots.iter().zip(&outcomes).map(|(slot, what)| format!("{};{now};{what}", slot.number)));
        one.fires.drain(..one.fires.len().saturating_sub(MOST_FIRES));
        self.note_head();
        if outcomes.iter().any(|outcome| outcome != "skipped") && self.wake.len() < 2 {
            self.wake.insert(0, "1");
        }
        (Some(outcomes), awaited)
    }
}

/// The real scripts on a real server.
struct Real<'a> {
    server: &'a mut Server,
    keys: QueueKeys,
    calls: u64,
}

fn numbering(number: u64) -> Numbering<'static> {
    Numbering { client: "c", slot: 0, number, renewal: &MemoryRenewal::No, is_known: false }
}

fn text_of(at: Option<u64>) -> String {
    at.map_or_else(|| "+inf".to_owned(), |at| at.to_string())
}

impl<'a> Real<'a> {
    fn new(server: &'a mut Server, case: u64) -> Self {
        let real = Self { keys: queue_keys(case), server, calls: 0 };
        real.server.set_clock(&real.keys, START);
        real
    }

    fn put_as(&mut self, number: u64, name: &str, expected: &str, after: Option<&One>) -> redis::RedisResult<Value> {
        let at = after.map_or_else(String::new, |one| text_of(one.fires_at));
        let (definition, state) = after.map_or(("", ""), |one| (&one.definition, &one.state));
        let request = PutSchedules {}.with([(name, expected, definition.as_bytes(), state, at.as_str())]);
        let numbering = numbering(number);
        let call = request.call(MANUAL, "q", &self.keys, Levels::one(5), Some(&numbering));
        self.server.run(&call)
    }

    fn put(&mut self, name: u8, expected: &str, after: Option<&One>) -> bool {
        self.calls += 1;
        let reply = self.put_as(self.calls, &name.to_string(), expected, after).unwrap();
        Vec::<bool>::decode(reply).unwrap() == [true]
    }

    fn run<D>(&mut self, script: D) -> redis::RedisResult<Value>
    where
        D: for<'i> Declared<Item<'i> = ()>,
    {
        let request = script.with([]);
        let call = request.call(MANUAL, "q", &self.keys, Levels::one(5), None);
        self.server.run(&call)
    }

    fn due(&mut self, promise: u64, most: usize, max_bytes: usize) -> DueReply {
        DueReply::decode(self.run(DueSchedules { promise, offset: 0, most, max_bytes }).unwrap()).unwrap()
    }

    fn try_fire(
        &mut self,
        name: u8,
        (expected, after, overlap): (&str, &One, &str),
        slots: &[(String, String, String)],
    ) -> redis::RedisResult<Value> {
        let mut item = ByteStrings::default();
        let (name, at, count) = (name.to_string(), text_of(after.fires_at), slots.len().to_string());
        for word in [&name, expected, &after.state, &at, overlap, &count] {
            item.push(word.as_bytes());
        }
        for (slot, id, record) in slots {
            for word in [slot, id, record] {
                item.push(word.as_bytes());
            }
        }
        let request = FireSchedules {}.with([&item]);
        let call = request.call(MANUAL, "q", &self.keys, Levels::one(5), None);
        self.server.run(&call)
    }

    fn fire(&mut self, name: u8, what: (&str, &One, &str), slots: &[Slot]) -> FireReply {
        let slots: Vec<_> = slots.iter().map(|slot| (slot.number.to_string(), slot.id(name), slot.record())).collect();
        FireReply::decode(self.try_fire(name, what, &slots).unwrap()).unwrap()
    }

    fn read<T: redis::FromRedisValue>(&mut self, command: &str, key: Key, rest: &[&str]) -> T {
        let key = if key == Key::Ready { self.keys.spell_ready(5) } else { self.keys.spell(key) };
        let words: Vec<&str> = [command, &key].into_iter().chain(rest.iter().copied()).collect();
        redis::from_redis_value(self.server.command(&words)).unwrap()
    }

    fn state(&mut self) -> State {
        let definitions: BTreeMap<String, String> = self.read("HGETALL", Key::Schedules, &[]);
        let states: BTreeMap<String, String> = self.read("HGETALL", Key::ScheduleState, &[]);
        let due: Vec<(String, String)> = self.read("ZRANGE", Key::ScheduleDue, &["0", "-1", "WITHSCORES"]);
        let fires: BTreeMap<String, String> = self.read("HGETALL", Key::ScheduleFires, &[]);
        assert!(fires.keys().chain(states.keys()).all(|name| definitions.contains_key(name)), "{fires:?} {states:?}");
        assert_eq!((definitions.len(), states.len()), (due.len(), due.len()));
        let one = |(name, at): &(String, String)| {
            let fires = fires.get(name).map_or_else(Vec::new, |text| text.lines().map(str::to_owned).collect());
            let (state, definition) = (states[name].clone(), definitions[name].clone());
            (name.clone(), One { state, definition, fires_at: at.parse().ok(), fires })
        };
        let [next, timer]: [Option<u64>; 2] = self.read("HMGET", Key::Meta, &["schedule_next", "schedule_timer"]);
        let wake: Vec<String> = self.read("LRANGE", Key::Wake, &["0", "-1"]);
        State {
            schedules: due.iter().map(one).collect(),
            timer: timer.unwrap_or(0),
            next,
            wake: wake.iter().map(|word| if word == "1" { "1" } else { "schedules" }).collect(),
            ready: self.read("LRANGE", Key::Ready, &["0", "-1"]),
            records: self.read("HGETALL", Key::Jobs, &[]),
            keys: self.read("HGETALL", Key::Keys, &[]),
        }
    }
}

fn expected(state: &State, name: u8, expects: Expects) -> String {
    match expects {
        Expects::WhatIsThere => {
            let one = state.schedules.get(&name.to_string());
            one.map(|one| one.state.trim_end_matches('x').to_owned()).unwrap_or_default()
        }
        Expects::Nothing => String::new(),
        Expects::SomethingElse => "1;1;".to_owned(),
    }
}

/// Both do the same.
fn agrees(server: &mut Server, case: u64, steps: &[Step]) -> Result<(), String> {
    let mut real = Real::new(server, case);
    let (mut model, mut now, mut promise) = (State::default(), START, 0);
    for (at, step) in steps.iter().enumerate() {
        let one = |fires_in: Option<u64>| One {
            state: format!("{};{};x", at + 2, at),
            definition: format!("{{\"step\":{at}}}"),
            fires_at: fires_in.map(|ms| now + ms),
            fires: Vec::new(),
        };
        let (wanted, found) = match step {
            Step::Put { name, expects, fires_in, removes } => {
                let (expected, after) = (expected(&model, *name, *expects), (!removes).then(|| one(*fires_in)));
                let found = real.put(*name, &expected, after.as_ref());
                (format!("{}", model.put(now, *name, &expected, after)), format!("{found}"))
            }
            Step::Due { is_mine, comes_back, most } => {
                let asked = match (comes_back, is_mine) {
                    (false, _) => NEVER,
                    (true, true) => promise,
                    (true, false) => 0,
                };
                let reply = real.due(asked, *most, 1 << 20);
                if *comes_back {
                    promise = reply.promised;
                }
                let names: Vec<_> = reply.due.into_iter().map(|one| one.name).collect();
                (format!("{:?}", model.due(now, asked, *most)), format!("{:?}", (names, reply.promised)))
            }
            Step::Fire { name, expects, overlap, slots, fires_in } => {
                let expected = match expected(&model, *name, *expects) {
                    nothing if nothing.is_empty() => "9;9;".to_owned(),
                    expected => expected,
                };
                let after = one(*fires_in);
                let found = real.fire(*name, (&expected, &after, overlap), slots);
                let wanted = model.fire(now, *name, (&expected, &after, overlap), slots);
                (format!("{wanted:?}"), format!("{:?}", (&found.fired[0], &found.awaited)))
            }
            Step::Finish(index) => {
                let Some(id) = model.ready.get(*index).cloned() else { continue };
                real.read::<i64>("HDEL", Key::Jobs, &[&id]);
                real.read::<i64>("LREM", Key::Ready, &["1", &id]);
                let held: Vec<_> = model.keys.iter().filter(|(_, holder)| **holder == id).map(|(key, _)| key).collect();
                for key in held {
                    real.read::<i64>("HDEL", Key::Keys, &[key]);
                }
                model.leave(&id);
                continue;
            }
            Step::TakeWakeUps => {
                real.read::<i64>("DEL", Key::Wake, &[]);
                model.wake.clear();
                continue;
            }
            Step::Advance(ms) => {
                now += ms;
                real.server.set_clock(&real.keys, now);
                continue;
            }
        };
        // A job that was replaced while it was ready leaves a stale entry.
        let mut state = real.state();
        let mut seen = std::collections::BTreeSet::new();
        let entries = std::mem::take(&mut state.ready);
        state.ready =
            entries.into_iter().rev().filter(|id| state.records.contains_key(id) && seen.insert(id.clone())).collect();
        state.ready.reverse();
        if wanted != found {
            return Err(format!("step {at}, {step:?}: the model says {wanted}, the script {found}"));
        }
        if state != model {
            return Err(format!("step {at}, {step:?}: the model has {model:?}, the server {state:?}"));
        }
    }
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..3_u8;
    let expects = prop_oneof![
        6 => Just(Expects::WhatIsThere), 1 => Just(Expects::Nothing), 1 => Just(Expects::SomethingElse)
    ];
    let fires_in = prop_oneof![1 => Just(None), 5 => (0..60_u64).prop_map(Some)];
    let slot = (0..5_u64, prop::option::of(0..2_u8), any::<bool>()).prop_map(|(number, key, is_awaited)| Slot {
        number,
        key,
        is_awaited,
    });
    let overlap = prop_oneof![Just("allow"), Just("skip"), Just("replace")];
    let put = (name.clone(), expects.clone(), fires_in.clone(), prop::bool::weighted(0.2));
    let fire = (name, expects, overlap, prop::collection::vec(slot, 0..4), fires_in);
    let step = prop_oneof![
        5 => put.prop_map(|(name, expects, fires_in, removes)| Step::Put { name, expects, fires_in, removes }),
        4 => (any::<bool>(), prop::bool::weighted(0.8), 1..3_usize)
            .prop_map(|(is_mine, comes_back, most)| Step::Due { is_mine, comes_back, most }),
        8 => fire.prop_map(|(name, expects, overlap, slots, fires_in)| {
            Step::Fire { name, expects, overlap, slots, fires_in }
        }),
        2 => (0..4_usize).prop_map(Step::Finish),
        2 => Just(Step::TakeWakeUps),
        3 => prop_oneof![Just(1_u64), Just(10), Just(60)].prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..60)
}

#[test]
fn the_scripts_of_schedules_do_what_the_model_does() {
    let cases = number_from("DULY_MODEL_CASES").map_or(DEFAULT_CASES, |cases| u32::try_from(cases).unwrap());
    let seed = number_from("DULY_MODEL_SEED").unwrap_or(0x5eed);
    let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let (server, number) = (RefCell::new(Server::start()), Cell::new(0));
    let result = TestRunner::new(config).run(&steps(), |list| {
        number.set(number.get() + 1);
        agrees(&mut server.borrow_mut(), number.get(), &list).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => panic!("DULY_MODEL_SEED={seed}\n{why}\nsteps: {steps:#?}"),
        Err(abort) => panic!("DULY_MODEL_SEED={seed}: {abort}"),
    }
}

fn put_one() -> One {
    let (state, definition) = ("1;1;x".to_owned(), "{}".to_owned());
    One { state, definition, fires_at: Some(START), fires: Vec::new() }
}

fn slot(key: Option<u8>) -> Slot {
    Slot { number: 1, key, is_awaited: false }
}

#[test]
fn more_than_twenty_fires_are_not_kept() {
    let numbers = |from: u64| (from..from + 15).map(|number| Slot { number, key: None, is_awaited: false }).collect();
    let fire = |from| Step::Fire {
        name: 0,
        expects: Expects::WhatIsThere,
        overlap: "allow",
        slots: numbers(from),
        fires_in: Some(5),
    };
    let put = Step::Put { name: 0, expects: Expects::Nothing, fires_in: Some(0), removes: false };
    assert_eq!(agrees(&mut Server::start(), 0, &[put, fire(0), fire(15), fire(30)]), Ok(()));
}

#[test]
fn a_put_that_is_sent_again_is_done_once_and_a_late_copy_not_at_all() {
    let mut server = Server::start();
    let mut real = Real::new(&mut server, 0);
    let (put, flag) = (put_one(), |text: &str| Value::BulkString(text.into()));
    for _ in 0..2 {
        assert_eq!(real.put_as(2, "0", "", Some(&put)).unwrap(), flag("1"));
    }
    assert_eq!(real.put_as(3, "0", "1;1;", None).unwrap(), flag("1"));
    assert_eq!(real.put_as(2, "0", "", Some(&put)).unwrap(), flag("superseded"));
    assert!(real.state().schedules.is_empty());
}

#[test]
fn a_queue_of_a_newer_format_is_left_alone() {
    let mut server = Server::start();
    let mut real = Real::new(&mut server, 0);
    real.put(0, "", Some(&put_one()));
    real.read::<i64>("HSET", Key::Meta, &["format", "3"]);
    let before = real.state();
    let refused = Value::BulkString(b"format 3".to_vec());
    assert_eq!(real.put_as(9, "0", "1;1;", None).unwrap(), refused);
    assert_eq!(real.run(DueSchedules { promise: 0, offset: 0, most: 9, max_bytes: 99 }).unwrap(), refused);
    let slots = [("1".to_owned(), "a".to_owned(), slot(None).record())];
    assert_eq!(real.try_fire(0, ("1;1;", &put_one(), "allow"), &slots).unwrap(), refused);
    assert_eq!(real.state(), before);
}

#[test]
fn large_schedules_come_a_few_at_a_time_and_a_large_job_is_noted() {
    let mut server = Server::start();
    let mut real = Real::new(&mut server, 0);
    for name in 0..3 {
        real.put(name, "", Some(&One { definition: "x".repeat(60), ..put_one() }));
    }
    assert_eq!([10, 119, 120, 180].map(|most| real.due(0, 9, most).due.len()), [1, 1, 2, 3]);
    let page = ReadSchedules { offset: 0, limit: 9, max_bytes: 130 }.with([]);
    let call = page.call(MANUAL, "q", &real.keys, Levels::one(5), None);
    let page = real.server.run(&call).unwrap();
    let page = SchedulesReply::decode(page).unwrap();
    assert_eq!((page.total, page.schedules.len()), (3, 2));
    let large = format!("{{\"data\":\"{}\"}}", "x".repeat(LARGE));
    let slots = [("1".to_owned(), "a".to_owned(), large)];
    real.try_fire(0, ("1;1;", &put_one(), "allow"), &slots).unwrap();
    assert_eq!(real.read::<Option<String>>("HGET", Key::Meta, &["large"]).as_deref(), Some("1"));
}

#[test]
fn a_foreign_type_under_a_key_stops_each_script_before_it_has_changed_anything() {
    let mut server = Server::start();
    let of_put = [Key::Schedules, Key::ScheduleDue, Key::ScheduleFires, Key::ScheduleState];
    let of_fire = [Key::ScheduleDue, Key::ScheduleFires, Key::Jobs, Key::Keys, Key::Ready];
    for (case, (key, puts)) in
        of_put.map(|key| (key, true)).into_iter().chain(of_fire.map(|key| (key, false))).enumerate()
    {
        let mut real = Real::new(&mut server, case as u64);
        real.put(0, "", Some(&put_one()));
        let kept =
            |key: Key| [Key::Schedules, Key::ScheduleState, Key::Jobs].into_iter().filter(move |other| *other != key);
        let spelled = if key == Key::Ready { real.keys.spell_ready(5) } else { real.keys.spell(key) };
        real.server.command(&["SET", &spelled, "x"]);
        let dump = |real: &mut Real<'_>| -> Vec<BTreeMap<String, String>> {
            kept(key).map(|other| real.read("HGETALL", other, &[])).collect()
        };
        let before = dump(&mut real);
        if puts {
            assert!(real.put_as(9, "0", "1;1;", None).is_err(), "{key:?}");
            assert!(real.put_as(10, "1", "", Some(&put_one())).is_err(), "{key:?}");
        } else {
            let slots = [("1".to_owned(), "a".to_owned(), slot(Some(1)).record())];
            let after = One { state: "1;2;x".to_owned(), ..put_one() };
            assert!(real.try_fire(0, ("1;1;", &after, "allow"), &slots).is_err(), "{key:?}");
        }
        assert_eq!(dump(&mut real), before, "{key:?}");
    }
}

/// A removal may go on there, and would let all behind it in.
#[test]
fn a_full_server_fires_no_slot_that_replaces_a_job() {
    let mut server = Server::start();
    let mut real = Real::new(&mut server, 0);
    real.put(0, "", Some(&put_one()));
    let first = One { state: "1;2;x".to_owned(), ..put_one() };
    assert_eq!(real.fire(0, ("1;1;", &first, "replace"), &[slot(Some(1))]).fired, [Some(vec!["pushed".to_owned()])]);
    let before = real.state();
    real.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let second = One { state: "1;3;x".to_owned(), ..put_one() };
    let slots = [("2".to_owned(), "0@2".to_owned(), slot(Some(1)).record())];
    assert!(real.try_fire(0, ("1;2;", &second, "replace"), &slots).is_err());
    assert_eq!(real.state(), before);
}

#[test]
fn a_beat_says_when_the_next_schedule_fires() {
    let mut server = Server::start();
    let mut real = Real::new(&mut server, 0);
    let beat = |real: &mut Real<'_>| {
        real.calls += 1;
        let numbering = numbering(real.calls);
        let request = Beat { worker: "w".to_owned(), life_ms: 1000, info: String::new() }.with([]);
        let call = request.call(MANUAL, "q", &real.keys, Levels::one(5), Some(&numbering));
        BeatReply::decode(real.server.run(&call).unwrap()).unwrap().schedule_in
    };
    assert_eq!(beat(&mut real), None);
    real.put(0, "", Some(&One { fires_at: Some(START + 70), ..put_one() }));
    assert_eq!(beat(&mut real), Some(Duration::from_millis(70)));
    real.server.set_clock(&real.keys, START + 100);
    assert_eq!(beat(&mut real), Some(Duration::ZERO));
    real.put(0, "1;1;", Some(&One { fires_at: None, ..put_one() }));
    assert_eq!(beat(&mut real), None);
}

#[test]
fn a_foreign_wake_list_fails_no_put_and_no_fire() {
    let mut server = Server::start();
    let mut real = Real::new(&mut server, 0);
    let key = real.keys.spell(Key::Wake);
    real.server.command(&["SET", &key, "x"]);
    assert!(real.put(0, "", Some(&put_one())));
    assert_eq!(real.fire(0, ("1;1;", &put_one(), "allow"), &[slot(None)]).fired, [Some(vec!["pushed".to_owned()])]);
}
