//! What locks are: a state of their own beside the queues, with steps in any order, and copies of calls that come late.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use redis::Value;

use super::differential::number_from;
use super::server::{Server, queue_keys};
use crate::script::{
    Clock, Declared, Digits, FromReply, Key, Levels, Lock, LockFlag, LockReply, QueueKeys, RenewLock, Unlock, Variant,
};
use crate::value::time::Millis;

const DEFAULT_CASES: u32 = 200;
const START: u64 = 1_790_000_000_000;
/// Of how many owners it is known that they have given the lock up.
const REMEMBERED: usize = 16;
/// How long a lock is remembered when nobody holds it.
const MEMORY_MS: u64 = 60_000;
const MANUAL: Variant =
    Variant { clock: Clock::Manual, shape: crate::script::Shape::Plain, extent: crate::script::Extent::Usual };

/// What one owner does. An owner that comes up again is a call that is sent again, or a copy that comes late.
#[derive(Debug, Clone)]
enum Step {
    Lock { owner: u8, ttl: u64, again: bool },
    Renew { owner: u8, ttl: u64 },
    Unlock { owner: u8 },
    Advance(u64),
    SetBack(u64),
}

use Step::{Advance, Renew, SetBack};

#[derive(Debug, Default, Clone, PartialEq)]
struct State {
    holder: Option<Holder>,
    last_token: u64,
    /// The last one first, and whether it held the lock until then.
    given_up: Vec<(bool, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Holder {
    owner: u8,
    until: u64,
    ttl: u64,
}

impl State {
    fn lock(&mut self, now: u64, owner: u8, ttl: u64, again: bool) -> LockReply {
        if self.has_given_up(owner).is_some() {
            return LockReply::GivenUp;
        }
        let now_ms = Millis::new(now);
        if let Some(holder) = &mut self.holder {
            // The clock was set back, and not only by the part of a millisecond that a span begins later than `now`.
            if holder.until > now + holder.ttl + 1 {
                holder.until = now + holder.ttl;
            }
            if holder.owner != owner && holder.until > now {
                let left = Millis::new(holder.until - now);
                if again {
                    self.give_up(false, owner);
                }
                return LockReply::Held { left, now: now_ms };
            }
        }
        if self.holder.is_none_or(|holder| holder.owner != owner) {
            self.last_token = (now * 1000).max(self.last_token + 1);
            if let Some(late) = self.holder {
                self.give_up(false, late.owner);
            }
        }
        self.holder = Some(Holder { owner, until: now + ttl, ttl });
        LockReply::Taken { token: self.last_token, now: now_ms }
    }

    fn renew(&mut self, now: u64, owner: u8, ttl: u64) -> LockFlag {
        let is_held = self.holder.is_some_and(|holder| holder.owner == owner);
        if is_held {
            self.holder = Some(Holder { owner, until: now + ttl, ttl });
        }
        LockFlag(is_held)
    }

    fn unlock(&mut self, owner: u8) -> LockFlag {
        if let Some(was_held) = self.has_given_up(owner) {
            return LockFlag(was_held);
        }
        let is_held = self.holder.is_some_and(|holder| holder.owner == owner);
        self.give_up(is_held, owner);
        if is_held {
            self.holder = None;
        }
        LockFlag(is_held)
    }

    fn has_given_up(&self, owner: u8) -> Option<bool> {
        self.given_up.iter().find(|(_, other)| *other == owner).map(|(was_held, _)| *was_held)
    }

    fn give_up(&mut self, was_held: bool, owner: u8) {
        self.given_up.insert(0, (was_held, owner));
        self.given_up.truncate(REMEMBERED);
    }
}

fn name(owner: u8) -> String {
    format!("{owner:016x}")
}

fn owner_of(name: &str) -> u8 {
    u8::from_str_radix(name, 16).unwrap()
}

/// The real scripts on a real server.
struct Real<'a> {
    server: &'a mut Server,
    keys: QueueKeys,
}

impl Real<'_> {
    fn run<D>(&mut self, script: D) -> redis::RedisResult<D::Reply>
    where
        D: for<'i> Declared<Item<'i> = ()>,
    {
        let request = script.with([]);
        let call = request.call(MANUAL, "q", &self.keys, Levels::one(5), None);
        Ok(D::Reply::decode(self.server.run(&call)?).unwrap())
    }

    fn lock(&mut self, owner: u8, ttl_ms: u64) -> LockReply {
        self.ask(owner, ttl_ms, false).unwrap()
    }

    fn ask(&mut self, owner: u8, ttl_ms: u64, again: bool) -> redis::RedisResult<LockReply> {
        self.run(Lock { owner: name(owner), ttl_ms, again: Digits(again.into()) })
    }

    fn renew(&mut self, owner: u8, ttl_ms: u64) -> LockFlag {
        self.run(RenewLock { owner: name(owner), ttl_ms }).unwrap()
    }

    fn unlock(&mut self, owner: u8) -> LockFlag {
        self.run(Unlock { owner: name(owner) }).unwrap()
    }

    fn fields(&mut self) -> Vec<Option<String>> {
        let mut words = vec!["HMGET".to_owned(), self.keys.spell(Key::Lock)];
        words.extend(["owner", "until", "ttl", "token", "given_up"].map(str::to_owned));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        redis::from_redis_value(self.server.command(&words)).unwrap()
    }

    fn state(&mut self) -> State {
        let [owner, until, ttl, token, given_up] = <[_; 5]>::try_from(self.fields()).unwrap();
        let number = |text: Option<String>| text.map_or(0, |text| text.parse().unwrap());
        let (until, ttl) = (number(until), number(ttl));
        State {
            holder: owner.map(|owner| Holder { owner: owner_of(&owner), until, ttl }),
            last_token: number(token),
            given_up: given_up
                .unwrap_or_default()
                .as_bytes()
                .chunks(17)
                .map(|entry| (entry[0] == b'+', owner_of(std::str::from_utf8(&entry[1..]).unwrap())))
                .collect(),
        }
    }

    fn life_ms(&mut self, key: Key) -> i64 {
        let key = self.keys.spell(key);
        redis::from_redis_value(self.server.command(&["PTTL", &key])).unwrap()
    }

    fn wake_ups(&mut self) -> i64 {
        let key = self.keys.spell(Key::LockWake);
        redis::from_redis_value(self.server.command(&["LLEN", &key])).unwrap()
    }
}

/// Both do the same, and what they do is right.
fn agrees(server: &mut Server, case: u64, steps: &[Step]) -> Result<(), String> {
    let mut real = Real { keys: queue_keys(case), server };
    let (mut model, mut now) = (State::default(), START);
    real.server.set_clock(&real.keys, now);
    for (at, step) in steps.iter().enumerate() {
        let before = model.clone();
        let (expected, found) = match *step {
            Step::Lock { owner, ttl, again } => {
                let (expected, found) = (model.lock(now, owner, ttl, again), real.ask(owner, ttl, again).unwrap());
                // Whatever came before: who holds it and was not too late keeps it, and tokens grow.
                if let LockReply::Taken { token, .. } = expected {
                    let other = before.holder.filter(|holder| holder.owner != owner);
                    let is_stolen = other.is_some_and(|holder| holder.until.min(now + holder.ttl) > now);
                    if is_stolen || before.has_given_up(owner).is_some() || token < before.last_token {
                        return Err(format!("the model is wrong at step {at}: {before:?}"));
                    }
                }
                (format!("{expected:?}"), format!("{found:?}"))
            }
            Renew { owner, ttl } => {
                (format!("{:?}", model.renew(now, owner, ttl)), format!("{:?}", real.renew(owner, ttl)))
            }
            Step::Unlock { owner } => (format!("{:?}", model.unlock(owner)), format!("{:?}", real.unlock(owner))),
            Advance(ms) => {
                now += ms;
                real.server.set_clock(&real.keys, now);
                continue;
            }
            SetBack(ms) => {
                now -= ms;
                real.server.set_clock(&real.keys, now);
                continue;
            }
        };
        if expected != found {
            return Err(format!("step {at}, {step:?}: the model says {expected}, the script {found}"));
        }
        let state = real.state();
        if state != model {
            return Err(format!("step {at}, {step:?}: the model has {model:?}, the server {state:?}"));
        }
    }
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (owner, ttl) = (0..24_u8, prop_oneof![Just(10_u64), Just(100)]);
    let step = prop_oneof![
        6 => (owner.clone(), ttl.clone(), any::<bool>()).prop_map(|(owner, ttl, again)| Step::Lock { owner, ttl, again }),
        2 => (owner.clone(), ttl).prop_map(|(owner, ttl)| Renew { owner, ttl }),
        5 => owner.prop_map(|owner| Step::Unlock { owner }),
        3 => prop_oneof![Just(1_u64), Just(10), Just(60)].prop_map(Advance),
        1 => prop_oneof![Just(5_u64), Just(1000)].prop_map(SetBack),
    ];
    prop::collection::vec(step, 1..90)
}

#[test]
fn the_scripts_of_locks_do_what_the_model_does() {
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

fn ask(owner: u8) -> Step {
    Step::Lock { owner, ttl: 100, again: false }
}

#[test]
fn seventeen_owners_later_a_late_copy_takes_a_free_lock_for_its_time_to_live() {
    let mut steps: Vec<Step> = (0..17).flat_map(|owner| [ask(owner), Step::Unlock { owner }]).collect();
    steps.extend([ask(1), ask(0), Advance(100), ask(20)]);
    assert_eq!(agrees(&mut Server::start(), 0, &steps), Ok(()));
}

#[test]
fn a_clock_that_is_set_back_makes_a_lock_last_no_longer_than_a_millisecond_more() {
    for back in [1, 2, 1000] {
        assert_eq!(agrees(&mut Server::start(), 0, &[ask(1), SetBack(back), ask(2), Advance(101), ask(3)]), Ok(()));
    }
}

/// Its first copy may come when the lock is free.
#[test]
fn a_call_that_was_sent_again_and_found_the_lock_held_has_given_it_up() {
    let again = Step::Lock { owner: 2, ttl: 100, again: true };
    let steps = [ask(1), again, Step::Unlock { owner: 1 }, ask(2), ask(3)];
    let mut server = Server::start();
    assert_eq!(agrees(&mut server, 0, &steps), Ok(()));
    let mut real = Real { keys: queue_keys(1), server: &mut server };
    real.lock(1, 100);
    real.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(matches!(real.ask(2, 100, true).unwrap(), LockReply::Held { .. }), "also where memory is short");
    real.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    real.unlock(1);
    assert_eq!(real.lock(2, 100), LockReply::GivenUp);
}

#[test]
fn a_release_that_is_sent_again_behind_that_of_another_one_says_what_it_has_done() {
    let steps = [ask(1), Step::Unlock { owner: 1 }, ask(2), Step::Unlock { owner: 2 }, Step::Unlock { owner: 1 }];
    let mut server = Server::start();
    assert_eq!(agrees(&mut server, 0, &steps), Ok(()));
    let mut real = Real { keys: queue_keys(0), server: &mut server };
    assert_eq!((real.unlock(1), real.unlock(2), real.unlock(3)), (LockFlag(true), LockFlag(true), LockFlag(false)));
}

#[test]
fn a_lock_is_forgotten_a_minute_after_its_end_and_a_wake_up_sooner() {
    let mut server = Server::start();
    let mut real = Real { keys: queue_keys(0), server: &mut server };
    let within = |life: i64, most: u64| life > 0 && life <= i64::try_from(most).unwrap();
    for ttl in [100_000, 50_000] {
        real.lock(1, ttl);
        let life = real.life_ms(Key::Lock);
        assert!(within(life, ttl + MEMORY_MS) && !within(life, ttl), "{life}");
    }
    real.renew(1, 100_000);
    assert!(!within(real.life_ms(Key::Lock), 90_000 + MEMORY_MS));
    real.unlock(2);
    assert!(!within(real.life_ms(Key::Lock), 100_000), "it is held by another one");
    real.unlock(1);
    for owner in 3..6 {
        assert!(within(real.life_ms(Key::Lock), MEMORY_MS) && within(real.life_ms(Key::LockWake), 3000));
        assert_eq!(real.wake_ups(), 1);
        real.lock(owner, 1000);
        real.unlock(owner);
    }
    let mut other = Real { keys: queue_keys(1), server: real.server };
    other.unlock(1);
    assert!(within(other.life_ms(Key::Lock), MEMORY_MS) && other.wake_ups() == 0, "nobody held it");
}

#[test]
fn a_server_without_memory_lets_holders_go_on() {
    let mut server = Server::start();
    let mut real = Real { keys: queue_keys(0), server: &mut server };
    real.lock(1, 1000);
    real.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(real.ask(2, 1000, false).is_ok(), "it is held");
    assert_eq!(real.renew(1, 2000), LockFlag(true));
    assert_eq!(real.unlock(1), LockFlag(true));
    assert!(real.ask(2, 1000, false).is_err(), "nothing new is stored");
}

#[test]
fn a_foreign_wake_list_fails_no_release() {
    let mut server = Server::start();
    let mut real = Real { keys: queue_keys(0), server: &mut server };
    let key = real.keys.spell(Key::LockWake);
    real.server.command(&["SET", &key, "x"]);
    real.lock(1, 1000);
    assert_eq!(real.unlock(1), LockFlag(true));
    assert_eq!(real.server.command(&["GET", &key]), Value::BulkString(b"x".to_vec()));
}
