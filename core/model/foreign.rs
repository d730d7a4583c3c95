//! What stands outside of the model: keys of a foreign type, and a server without memory.

use crate::script::{By, Due, IfDuplicate, Key, Levels, MemoryRenewal, QueueKeys, Shape, Verb};

use super::command::{Answer, Became, CallId, Command, Outcome, Passed, ReserveCall, Sent};
use super::dump::{self, Contents, Dump};
use super::limits::Limit;
use super::server::{Server, queue_keys};
use super::state::{Record, Returned};

const CLIENT: &str = "c0";
const START: u64 = 1_790_000_000_000;

struct Stage {
    server: Server,
    keys: QueueKeys,
    next_number: u64,
    /// All jobs have a name with a limit: three of it run, and the one that is ready is parked.
    is_limited: bool,
}

fn record(key: Option<&str>) -> Record {
    Record {
        level: 5,
        max_retries: 5,
        key: key.map(str::to_owned),
        name: Some("mail".to_owned()),
        body: "{}".to_owned(),
    }
}

/// What a client that knows of no limits passes.
fn passed(levels: Levels) -> Passed {
    Passed { levels, shape: Shape::Plain }
}

fn most(concurrency: u64) -> Limit {
    Limit { concurrency, ..Limit::default() }
}

impl Stage {
    fn new() -> Self {
        Self { server: Server::start(), keys: queue_keys(0), next_number: 1, is_limited: false }
    }

    fn call(&mut self) -> CallId {
        self.next_number += 1;
        CallId {
            client: CLIENT.to_owned(),
            slot: 0,
            number: self.next_number,
            renewal: MemoryRenewal::Asked(Vec::new()),
            is_known: false,
        }
    }

    fn send(&mut self, command: Command) -> Result<Answer, String> {
        let mut sent = Sent { command, passed: passed(Levels::ALL) };
        let answer = self.server.answer(&self.keys, &sent)?;
        if answer.text() != "shape limits" {
            return Ok(answer);
        }
        sent.passed.shape = Shape::Limited;
        self.server.answer(&self.keys, &sent)
    }

    fn push(&mut self, id: &str, key: Option<&str>, due: Due) {
        let call = self.call();
        let items = vec![(id.to_owned(), record(key), due, None)];
        self.send(Command::PushUnique { call, if_duplicate: IfDuplicate::Refuse, items }).unwrap();
    }

    fn reserve(&mut self, want: usize, lease_ms: u64, outcomes: Vec<Outcome>) -> Command {
        let call = self.call();
        let (wait_ms, max_bytes, promise, ahead, spares) = (0, 1 << 20, 0, false, false);
        Command::Reserve(ReserveCall { call, want, lease_ms, wait_ms, max_bytes, promise, ahead, spares, outcomes })
    }

    fn lease_one(&mut self, lease_ms: u64) -> u64 {
        let reserve = self.reserve(1, lease_ms, Vec::new());
        match self.send(reserve) {
            Ok(Answer::Reserved(reply)) if reply.jobs.len() == 1 => reply.token,
            other => panic!("no job: {other:?}"),
        }
    }

    /// A queue with jobs in every state; gives the tokens of the jobs `held` and `over`, the latter past its lease.
    fn fill(&mut self) -> (u64, u64) {
        self.server.command(&["FLUSHDB"]);
        self.server.set_clock(&self.keys, START);
        if self.is_limited {
            let call = self.call();
            let both = Limit { jobs: 100, per_us: 1_000_000, ..most(3) };
            self.send(Command::Limit { call, of_queue: None, names: vec![("mail".to_owned(), both)] }).unwrap();
        }
        for (id, key) in [("plain", None), ("failed", Some("f"))] {
            self.push(id, key, Due::Now);
            let token = self.lease_one(1000);
            let outcomes = vec![outcome(id, token, key, Verb::Failed)];
            let call = self.call();
            self.send(Command::Settle { call, outcomes }).unwrap();
        }
        self.push("held", Some("h"), Due::Now);
        let held = self.lease_one(100_000);
        self.push("over", Some("o"), Due::Now);
        let over = self.lease_one(10);
        let last = Record { max_retries: 0, ..record(Some("x")) };
        let (call, items) = (self.call(), vec![("last".to_owned(), last, Due::Now, None)]);
        self.send(Command::PushUnique { call, if_duplicate: IfDuplicate::Refuse, items }).unwrap();
        self.lease_one(10);
        self.push("ready", Some("r"), Due::Now);
        if self.is_limited {
            let reserve = self.reserve(1, 10, Vec::new());
            self.send(reserve).unwrap();
        }
        self.push("due", Some("d"), Due::After(5));
        self.push("later", Some("l"), Due::After(5000));
        self.push("gone", None, Due::Now);
        let call = self.call();
        self.send(Command::Cancel { call, by: By::Id, only: "", names: vec!["gone".to_owned()] }).unwrap();
        self.server.set_clock(&self.keys, START + 20);
        (held, over)
    }

    /// One call of each script, such that each does something.
    fn commands(&mut self, held: u64) -> Vec<Command> {
        let back = |verb| vec![outcome("held", held, Some("h"), verb)];
        let ack = vec![Outcome {
            became: Became::Done(Some("7".to_owned())),
            ..outcome("held", held, Some("h"), Verb::Retry)
        }];
        let retried_later = Became::Back { verb: Verb::Retry, delay_ms: 7, error: "boom".to_owned(), rewritten: None };
        let later = vec![Outcome { became: retried_later, ..outcome("held", held, Some("h"), Verb::Retry) }];
        let new = |id: &str, key| (id.to_owned(), record(key));
        let unique = |id: &str, key, due| (id.to_owned(), record(key), due, None);
        let id = |id: &str| vec![id.to_owned()];
        let item = |due| vec![unique("ready", Some("l"), due)];
        let (failed_max, failed_age_ms) = (5, 5);
        vec![
            Command::Push { call: self.call(), level: 5, due: Due::Now, items: vec![new("n1", None), new("n2", None)] },
            Command::Push { call: self.call(), level: 5, due: Due::After(50), items: vec![new("n1", None)] },
            Command::PushUnique {
                call: self.call(),
                if_duplicate: IfDuplicate::Refuse,
                items: vec![unique("n1", Some("n"), Due::Now)],
            },
            Command::PushUnique {
                call: self.call(),
                if_duplicate: IfDuplicate::Keep,
                items: vec![unique("n1", None, Due::After(9))],
            },
            Command::PushUnique { call: self.call(), if_duplicate: IfDuplicate::Replace, items: item(Due::Now) },
            Command::PushUnique { call: self.call(), if_duplicate: IfDuplicate::Replace, items: item(Due::After(9)) },
            Command::PushUnique {
                call: self.call(),
                if_duplicate: IfDuplicate::Refuse,
                items: vec![unique("n1", None, Due::Now), unique("n2", Some("n"), Due::After(9))],
            },
            Command::PushUnique {
                call: self.call(),
                if_duplicate: IfDuplicate::Refuse,
                items: vec![("n1".to_owned(), record(None), Due::Now, Some(Returned::default()))],
            },
            self.reserve(5, 100, Vec::new()),
            self.reserve(5, 100, ack.clone()),
            self.reserve(5, 100, back(Verb::Retry)),
            Command::Settle { call: self.call(), outcomes: ack },
            Command::Settle { call: self.call(), outcomes: back(Verb::Retry) },
            Command::Settle { call: self.call(), outcomes: back(Verb::Start) },
            Command::Settle { call: self.call(), outcomes: back(Verb::Failed) },
            Command::Settle { call: self.call(), outcomes: later },
            Command::Extend { lease_ms: 7, leases: vec![("held".to_owned(), held)] },
            Command::Cancel { call: self.call(), by: By::Id, only: "", names: id("ready") },
            Command::Cancel { call: self.call(), by: By::Key, only: "", names: id("h") },
            Command::Cancel { call: self.call(), by: By::Id, only: "", names: id("failed") },
            Command::Cancel { call: self.call(), by: By::Id, only: "", names: id("later") },
            Command::Cancel { call: self.call(), by: By::Id, only: "ready", names: id("ready") },
            Command::Reschedule { call: self.call(), by: By::Id, name: "ready".to_owned(), due: Due::After(7) },
            Command::Reschedule { call: self.call(), by: By::Key, name: "l".to_owned(), due: Due::Now },
            Command::Requeue { call: self.call(), ids: vec!["plain".to_owned(), "failed".to_owned()] },
            Command::Purge { call: self.call(), state: "ready", cap: 9, latest: None },
            Command::Purge { call: self.call(), state: "delayed", cap: 9, latest: None },
            Command::Purge { call: self.call(), state: "failed", cap: 9, latest: None },
            Command::Purge { call: self.call(), state: "reserved", cap: 9, latest: None },
            Command::Promote { cap: 9 },
            Command::Reclaim { cap: 9 },
            Command::Pause { call: self.call(), pause: true },
            Command::Pause { call: self.call(), pause: false },
            Command::Configure { call: self.call(), failed_max, failed_age_ms },
            Command::Limit { call: self.call(), of_queue: None, names: vec![("other".to_owned(), most(1))] },
            Command::Limit { call: self.call(), of_queue: None, names: Vec::new() },
            Command::Beat { call: self.call(), worker: "w1".to_owned(), life_ms: 500, info: "{}".to_owned() },
            Command::Hear { call: self.call(), claim_ms: 100, most: 10, max_bytes: 1000, claims: Vec::new() },
        ]
    }

    fn dump_without(&mut self, key: &str) -> Dump {
        let mut dump = dump::read_without(&mut self.server, &self.keys, &[CLIENT], key);
        dump.remove(key);
        dump
    }
}

fn outcome(id: &str, token: u64, key: Option<&str>, verb: Verb) -> Outcome {
    let became = Became::Back { verb, delay_ms: 0, error: "boom".to_owned(), rewritten: None };
    Outcome { id: id.to_owned(), token, key: key.map(str::to_owned), became }
}

/// A call that fails has changed nothing.
fn foreign_types_lose_no_job(is_limited: bool) {
    let mut stage = Stage { is_limited, ..Stage::new() };
    let mut names: Vec<String> = Key::FIXED.iter().map(|key| key.name().to_owned()).collect();
    names.extend(["ready:5".to_owned(), "ready:7".to_owned(), "done:held".to_owned(), format!("call:{CLIENT}")]);
    let mut half_done = Vec::new();
    let (held, _) = stage.fill();
    let filled = stage.server.snapshot();
    for name in names.iter().filter(|name| *name != "meta") {
        for index in 0.. {
            stage.server.pipeline(&filled);
            let Some(command) = stage.commands(held).into_iter().nth(index / 3) else { break };
            // Leases are over; a job is due; neither.
            stage.server.set_clock(&stage.keys, START + [20, 8, 1][index % 3]);
            let key = stage.keys.spell(Key::Jobs).replace("jobs", name);
            stage.server.command(&["SET", &key, "foreign"]);
            let before = stage.dump_without(name);
            let shown = format!("{command:?}");
            let result = stage.send(command);
            let after = stage.dump_without(name);
            if result.is_err() && before != after {
                half_done.push(format!("{name}: {shown}\n{}", dump::difference(&before, &after)));
            }
            if name == "wake" || name == "stats" || name == "done:held" {
                assert!(result.is_ok(), "{name} is only a hint and must not fail a call: {shown}: {result:?}");
            }
        }
    }
    assert!(half_done.is_empty(), "{} calls:\n{}", half_done.len(), half_done.join("\n"));
}

#[test]
fn a_foreign_type_loses_no_job() {
    foreign_types_lose_no_job(false);
}

#[test]
fn a_foreign_type_loses_no_job_of_a_name_with_a_limit() {
    foreign_types_lose_no_job(true);
}

#[test]
fn a_full_server_still_lets_work_end() {
    work_ends_on_a_full_server(false);
    work_ends_on_a_full_server(true);
}

fn leaves_a_result(command: &Command) -> bool {
    command.outcomes().iter().any(|outcome| matches!(outcome.became, Became::Done(Some(_))))
}

/// Its client has made calls since, through another slot: so the server has a memory of the client, and none of this call.
#[test]
fn a_late_copy_of_a_push_that_the_server_has_forgotten_stores_no_job_twice() {
    for due in [Due::Now, Due::After(50)] {
        let mut stage = Stage::new();
        stage.server.set_clock(&stage.keys, START);
        let memory = stage.keys.spell(Key::Jobs).replace("jobs", &format!("call:{CLIENT}"));
        stage.server.command(&["HSET", &memory, "1", "9 created"]);
        let push = |stage: &mut Stage| {
            let call = CallId { number: 5, renewal: MemoryRenewal::No, is_known: true, ..stage.call() };
            stage.send(Command::Push { call, level: 5, due, items: vec![("a".to_owned(), record(None))] })
        };
        assert_eq!(push(&mut stage), Ok(Answer::Text("created".to_owned())));
        stage.server.command(&["HDEL", &memory, "0"]);
        let before = (stage.contents(Key::Delayed), stage.dump_without("").remove("ready:5"));
        assert_eq!(push(&mut stage), Ok(Answer::Text("created".to_owned())));
        assert_eq!((stage.contents(Key::Delayed), stage.dump_without("").remove("ready:5")), before);
    }
}

#[test]
fn a_full_server_takes_no_replacements() {
    let mut stage = Stage::new();
    let (held, _) = stage.fill();
    let replaces =
        |command: &Command| matches!(command, Command::PushUnique { if_duplicate: IfDuplicate::Replace, .. });
    let commands: Vec<_> = stage.commands(held).into_iter().filter(replaces).collect();
    assert_eq!(commands.len(), 2);
    stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = stage.dump_without("");
    for command in commands {
        let shown = format!("{command:?}");
        let result = stage.send(command);
        assert!(result.as_ref().is_err_and(|error| error.contains("memory")), "{shown}: {result:?}");
        assert_eq!(stage.dump_without(""), before, "{shown}");
    }
}

/// What would take memory is not kept, and the job is settled all the same.
#[test]
fn a_full_server_keeps_no_results_and_no_larger_records() {
    let mut stage = Stage::new();
    for index in 0..2 {
        let (held, _) = stage.fill();
        let command = stage.commands(held).into_iter().filter(leaves_a_result).nth(index).unwrap();
        stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let answer = stage.send(command);
        stage.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        let flags = match &answer {
            Ok(Answer::Reserved(reply)) => reply.settled.clone(),
            answer => answer.as_ref().unwrap().text().to_owned(),
        };
        assert_eq!(flags, "2");
        let dump = stage.dump_without("");
        assert_eq!(dump["result:held"], Contents::Text(String::new()));
        assert_eq!(dump["done:held"], Contents::List(vec!["1".to_owned()]));
        assert!(matches!(&dump["jobs"], Contents::Hash(jobs) if !jobs.contains_key("held")));
        assert_eq!(stage.holder("h"), None, "its key is free");
    }
    for (data, flag) in [("{\"data\":12345678901234567890}", "2"), ("{}", "1")] {
        let (held, _) = stage.fill();
        let changed = Record { body: data.to_owned(), ..record(Some("h")) };
        let rewritten = Some((3, changed.clone()));
        let became = Became::Back { verb: Verb::Retry, delay_ms: 0, error: "boom".to_owned(), rewritten };
        let outcomes = vec![Outcome { became, ..outcome("held", held, Some("h"), Verb::Retry) }];
        let call = stage.call();
        stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let answer = stage.send(Command::Settle { call, outcomes });
        stage.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(answer.as_ref().map(Answer::text), Ok(flag));
        let expected = if flag == "1" { changed } else { record(Some("h")) };
        let dump = stage.dump_without("");
        let of = |key: &str| match &dump[key] {
            Contents::Hash(hash) => hash["held"].clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("jobs").into_bytes(), expected.bytes());
        assert!(of("returned").starts_with("4;"), "the failures that the hook set count: {}", of("returned"));
    }
}

fn work_ends_on_a_full_server(is_limited: bool) {
    let mut stage = Stage { is_limited, ..Stage::new() };
    let works = |command: &Command| {
        !matches!(
            command,
            Command::Push { .. } | Command::PushUnique { .. } | Command::Reschedule { .. } | Command::Requeue { .. }
        )
    };
    for index in 0.. {
        let (held, _) = stage.fill();
        let Some(command) = stage.commands(held).into_iter().nth(index) else { break };
        let works = works(&command);
        let shown = format!("{command:?}");
        stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let before = stage.dump_without("");
        let result = stage.send(command);
        let after = stage.dump_without("");
        stage.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        assert!(!works || result.is_ok(), "{shown}: {result:?}");
        assert!(result.is_ok() || before == after, "{shown}\n{}", dump::difference(&before, &after));
    }
}

impl Stage {
    fn key(&self, key: Key) -> String {
        self.keys.spell(key)
    }

    fn contents(&mut self, key: Key) -> Option<Contents> {
        self.dump_without("").remove(key.name())
    }

    fn peak_memory(&mut self) -> usize {
        let info: String = redis::from_redis_value(self.server.command(&["INFO", "memory"])).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory_peak:"));
        line.unwrap().parse().unwrap()
    }

    fn holder(&mut self, key: &str) -> Option<String> {
        match self.contents(Key::Keys)? {
            Contents::Hash(holders) => holders.get(key).cloned(),
            _ => None,
        }
    }
}

#[test]
fn a_key_that_another_job_holds_is_not_freed() {
    for verb in [None, Some(Verb::Failed)] {
        let mut stage = Stage::new();
        let (held, _) = stage.fill();
        stage.server.command(&["HSET", &stage.key(Key::Keys), "h", "ready"]);
        let back = outcome("held", held, Some("h"), verb.unwrap_or(Verb::Retry));
        let outcomes = vec![if verb.is_none() { Outcome { became: Became::Done(None), ..back } } else { back }];
        let call = stage.call();
        assert_eq!(stage.send(Command::Settle { call, outcomes }), Ok(Answer::Text("1".to_owned())));
        assert_eq!(stage.holder("h").as_deref(), Some("ready"));
    }
}

#[test]
fn a_late_ack_beside_another_one_frees_no_key() {
    let mut stage = Stage::new();
    let (held, _) = stage.fill();
    let ack = |id, token, key| Outcome { became: Became::Done(None), ..outcome(id, token, Some(key), Verb::Retry) };
    let outcomes = vec![ack("ready", held, "r"), ack("held", held, "h")];
    let call = stage.call();
    assert_eq!(stage.send(Command::Settle { call, outcomes }), Ok(Answer::Text("01".to_owned())));
    assert_eq!((stage.holder("r").as_deref(), stage.holder("h")), (Some("ready"), None));
}

#[test]
fn a_key_whose_job_is_gone_blocks_nobody() {
    let mut stage = Stage::new();
    stage.fill();
    stage.server.command(&["HDEL", &stage.key(Key::Jobs), "later"]);
    let items = vec![("n".to_owned(), record(Some("l")), Due::Now, None)];
    let call = stage.call();
    let push = Command::PushUnique { call, if_duplicate: IfDuplicate::Refuse, items };
    assert_eq!(stage.send(push), Ok(Answer::Text("created".to_owned())));
    assert_eq!(stage.holder("l").as_deref(), Some("n"));
    stage.server.command(&["HSET", &stage.key(Key::Keys), "f", "gone"]);
    let requeue = Command::Requeue { call: stage.call(), ids: vec!["failed".to_owned()] };
    assert_eq!(stage.send(requeue), Ok(Answer::Text("requeued".to_owned())));
    assert_eq!(stage.holder("f").as_deref(), Some("failed"));
}

#[test]
fn a_failed_job_frees_the_key_of_its_record_also_when_its_worker_could_not_read_it() {
    let mut stage = Stage::new();
    let (held, _) = stage.fill();
    let outcomes = vec![outcome("held", held, None, Verb::Failed)];
    let call = stage.call();
    assert_eq!(stage.send(Command::Settle { call, outcomes }), Ok(Answer::Text("1".to_owned())));
    assert_eq!(stage.holder("h"), None);
}

#[test]
fn a_missing_record_holds_up_nobody() {
    let mut stage = Stage::new();
    stage.fill();
    stage.server.command(&["HDEL", &stage.key(Key::Jobs), "over", "ready", "due"]);
    stage.push("n", None, Due::Now);
    let reserve = stage.reserve(5, 1000, Vec::new());
    let Ok(Answer::Reserved(reply)) = stage.send(reserve) else { panic!("no answer") };
    let granted: Vec<_> = reply.jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(granted, ["n"]);
    assert_eq!(stage.contents(Key::Ready), None);
    let Some(Contents::Hash(leases)) = stage.contents(Key::Leases) else { panic!("no leases") };
    assert_eq!(leases.keys().collect::<Vec<_>>(), ["held", "n"]);
}

#[test]
fn a_missing_record_does_not_hold_back_the_large_one_behind_it() {
    let mut stage = Stage::new();
    stage.server.set_clock(&stage.keys, START);
    stage.push("gone", None, Due::Now);
    stage.push("left", None, Due::Now);
    stage.server.command(&["HDEL", &stage.key(Key::Jobs), "gone"]);
    let Command::Reserve(reserve) = stage.reserve(2, 1000, Vec::new()) else { panic!("no reserve") };
    let Ok(Answer::Reserved(reply)) = stage.send(Command::Reserve(ReserveCall { max_bytes: 3, ..reserve })) else {
        panic!("no answer")
    };
    let granted: Vec<_> = reply.jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(granted, ["left"]);
}

#[test]
fn a_note_and_a_lease_that_duly_did_not_write_hold_up_nobody() {
    let mut stage = Stage::new();
    for (key, value) in [(Key::Returned, "no note"), (Key::Leases, "no token")] {
        stage.fill();
        stage.server.command(&["HSET", &stage.key(key), "over", value]);
        let reserve = stage.reserve(9, 1000, Vec::new());
        let Ok(Answer::Reserved(reply)) = stage.send(reserve) else { panic!("no answer: {value}") };
        assert!(reply.jobs.iter().any(|job| job.id == "over"), "{value}: {reply:?}");
    }
}

#[test]
fn a_malformed_member_of_delayed_holds_up_nobody() {
    let mut stage = Stage::new();
    stage.server.command(&["HSET", &stage.key(Key::Meta), "format", "2", "levels", "57", "clock", &START.to_string()]);
    let records = [("a", "{}"), ("b", "7;5;0;0;{}"), ("c", "3;5;0;0;{}"), ("d", "{}"), ("e", "7;5;0;0;{}")];
    for (id, record) in records {
        stage.server.command(&["HSET", &stage.key(Key::Jobs), id, record]);
    }
    // Two digits; no digit; a level that is not in use, by the record neither; nothing wrong; a level that is not in use,
    // but that of the record is; no record.
    for member in ["a\t55", "b\tx", "c\t3", "d\t7", "e\t3", "gone\t", "gone\t\t5"] {
        stage.server.command(&["ZADD", &stage.key(Key::Delayed), "1", member]);
    }
    let levels = Levels::parse("57").unwrap();
    let promoted =
        stage.server.answer(&stage.keys, &Sent { command: Command::Promote { cap: 9 }, passed: passed(levels) });
    assert_eq!(promoted, Ok(Answer::Count(7)));
    let mut list = |level| stage.server.command(&["LRANGE", &stage.keys.spell_ready(level), "0", "-1"]);
    let ready: Vec<Vec<String>> =
        [5, 7].map(|level| redis::from_redis_value(list(level)).unwrap()).into_iter().collect();
    assert_eq!(ready, [vec!["a", "c"], vec!["b", "d", "e"]]);
    assert_eq!(stage.contents(Key::Delayed), None);
}

#[test]
fn a_record_with_a_level_that_nobody_uses_stops_nobody_elses_job() {
    let levels = Levels::one(5);
    for how in ["reclaim", "release", "requeue"] {
        let mut stage = Stage::new();
        stage.server.set_clock(&stage.keys, START);
        stage.push("a", None, Due::Now);
        stage.push("b", None, Due::Now);
        let reserve = stage.reserve(2, 10, Vec::new());
        let Ok(Answer::Reserved(reply)) = stage.send(reserve) else { panic!("no answer") };
        let both = |verb| ["a", "b"].map(|id| outcome(id, reply.token, None, verb)).to_vec();
        if how == "requeue" {
            let call = stage.call();
            stage.send(Command::Settle { call, outcomes: both(Verb::Failed) }).unwrap();
        }
        stage.server.command(&["HSET", &stage.key(Key::Jobs), "b", "7;5;0;0;{}"]);
        stage.server.command(&["HSET", &stage.key(Key::Meta), "levels", "5"]);
        stage.server.set_clock(&stage.keys, START + 10);
        let call = stage.call();
        let command = match how {
            "reclaim" => Command::Reclaim { cap: 9 },
            "release" => Command::Settle { call, outcomes: both(Verb::Release) },
            _ => Command::Requeue { call, ids: vec!["a".to_owned(), "b".to_owned()] },
        };
        stage.server.answer(&stage.keys, &Sent { command, passed: passed(levels) }).unwrap();
        let ready = stage.server.command(&["LRANGE", &stage.keys.spell_ready(5), "0", "-1"]);
        assert_eq!(redis::from_redis_value::<Vec<String>>(ready).unwrap(), ["a", "b"], "{how}");
    }
}

#[test]
fn a_full_server_answers_calls_that_find_nothing_to_do() {
    let mut stage = Stage::new();
    stage.server.set_clock(&stage.keys, START);
    stage.push("held", Some("k"), Due::Now);
    stage.lease_one(100_000);
    let lost = vec![outcome("held", 1, Some("k"), Verb::Release)];
    let none = || vec!["none".to_owned()];
    let commands = vec![
        stage.reserve(1, 10, lost.clone()),
        Command::Settle { call: stage.call(), outcomes: lost },
        Command::Cancel { call: stage.call(), by: By::Id, only: "", names: none() },
        Command::Cancel { call: stage.call(), by: By::Id, only: "ready", names: vec!["held".to_owned()] },
        Command::Requeue { call: stage.call(), ids: none() },
        Command::Purge { call: stage.call(), state: "ready", cap: 9, latest: None },
        Command::Reschedule { call: stage.call(), by: By::Key, name: "k".to_owned(), due: Due::Now },
        Command::PushUnique {
            call: stage.call(),
            if_duplicate: IfDuplicate::Keep,
            items: vec![("n".to_owned(), record(Some("k")), Due::Now, None)],
        },
    ];
    stage.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for command in commands {
        let shown = format!("{command:?}");
        assert!(stage.send(command).is_ok(), "{shown}");
    }
}

impl Stage {
    fn keep_failed(&mut self, failed_max: u64) {
        let call = self.call();
        self.send(Command::Configure { call, failed_max, failed_age_ms: 1_000_000 }).unwrap();
    }

    /// Pushes so many jobs, fails them in one call, and gives how many are in `failed` then.
    fn fail_at_once(&mut self, count: usize) -> usize {
        let round = self.next_number;
        let ids: Vec<String> = (0..count).map(|index| format!("j{round}-{index}")).collect();
        let items = ids.iter().map(|id| (id.clone(), record(None))).collect();
        let call = self.call();
        self.send(Command::Push { call, level: 5, due: Due::Now, items }).unwrap();
        let reserve = self.reserve(count, 1000, Vec::new());
        let Ok(Answer::Reserved(reply)) = self.send(reserve) else { panic!("no answer") };
        let outcomes = ids.iter().map(|id| outcome(id, reply.token, None, Verb::Failed)).collect();
        let call = self.call();
        self.send(Command::Settle { call, outcomes }).unwrap();
        let failed = self.server.command(&["ZCARD", &self.key(Key::Failed)]);
        redis::from_redis_value(failed).unwrap()
    }
}

#[test]
fn jobs_that_fail_by_the_hundred_do_not_outgrow_the_bound() {
    let mut stage = Stage::new();
    stage.keep_failed(10);
    for round in 0..3 {
        assert_eq!(stage.fail_at_once(250), 10, "round {round}");
    }
}

#[test]
fn one_failure_lets_a_hundred_go_at_most() {
    let mut stage = Stage::new();
    stage.keep_failed(1000);
    assert_eq!(stage.fail_at_once(250), 250);
    stage.keep_failed(10);
    assert_eq!(stage.fail_at_once(1), 151);
}

#[test]
fn large_records_are_not_read_only_to_be_left_behind() {
    const LARGE: usize = 1 << 20;
    for (small_first, are_parked) in [(false, false), (true, false), (true, true)] {
        let mut stage = Stage::new();
        if are_parked {
            let call = stage.call();
            stage.send(Command::Limit { call, of_queue: None, names: vec![("mail".to_owned(), most(1))] }).unwrap();
            stage.push("running", None, Due::Now);
            stage.lease_one(100_000);
        }
        let items = |index: usize| {
            let size = if small_first && index == 0 { 1 } else { LARGE };
            (format!("j{index}"), Record { body: format!("\"{}\"", "x".repeat(size)), ..record(None) })
        };
        for index in 0..60 {
            let (call, (id, record)) = (stage.call(), items(index));
            let items = vec![(id, record, Due::Now, None)];
            stage.send(Command::PushUnique { call, if_duplicate: IfDuplicate::Refuse, items }).unwrap();
        }
        let take = |stage: &mut Stage| {
            let Command::Reserve(reserve) = stage.reserve(60, 1000, Vec::new()) else { panic!("no reserve") };
            let reserve = Command::Reserve(ReserveCall { max_bytes: 4 * LARGE, ..reserve });
            let Ok(Answer::Reserved(reply)) = stage.send(reserve) else { panic!("no answer") };
            reply.jobs.len()
        };
        if are_parked {
            while stage.dump_without("").contains_key("ready:5") {
                assert_eq!(take(&mut stage), 0);
            }
            let call = stage.call();
            stage.send(Command::Limit { call, of_queue: None, names: vec![("mail".to_owned(), most(90))] }).unwrap();
        }
        let before = stage.peak_memory();
        assert_eq!(take(&mut stage), if small_first { 4 } else { 3 });
        let grown = stage.peak_memory() - before;
        assert!(grown < 40 * LARGE, "a reply of 3 MiB took {grown} bytes ({small_first}, {are_parked})");
    }
}

#[test]
fn names_do_not_outgrow_their_numbers() {
    let mut stage = Stage::new();
    stage.push("a", None, Due::Now);
    let limit = |stage: &mut Stage, name: &str| {
        let call = stage.call();
        stage.send(Command::Limit { call, of_queue: None, names: vec![(name.to_owned(), most(1))] })
    };
    // Of all numbers but one a job still runs.
    let (names, places) = (stage.key(Key::Meta), stage.key(Key::Places));
    let lines: Vec<_> = (1..200).map(|number| format!("{number};;;n{number}")).collect();
    stage.server.command(&["HSET", &names, "limits", &lines.join("\n")]);
    for number in 1..200 {
        stage.server.command(&["ZADD", &places, &number.to_string(), &format!("j{number}")]);
    }
    assert_eq!(limit(&mut stage, "first"), Ok(Answer::Text("ok".to_owned())));
    stage.server.command(&["ZADD", &places, "200", "j200"]);
    let before = stage.dump_without("call:c0");
    assert_eq!(limit(&mut stage, "second"), Ok(Answer::Text("busy".to_owned())));
    assert_eq!(stage.dump_without("call:c0"), before);
    // One ends: its number is free again.
    stage.server.command(&["ZREM", &places, "j7"]);
    assert_eq!(limit(&mut stage, "second"), Ok(Answer::Text("ok".to_owned())));
    let Some(Contents::Hash(meta)) = stage.contents(Key::Meta) else { panic!("no meta") };
    assert!(meta["limits"].ends_with("200;;;first\n7;1;;second"), "{}", meta["limits"]);
}

#[test]
fn jobs_that_run_when_a_limit_is_set_are_counted_as_far_as_one_call_may_read() {
    const LARGE: usize = 1 << 20;
    let mut stage = Stage::new();
    for index in 0..6 {
        let large = Record { body: "x".repeat(LARGE), ..record(None) };
        let call = stage.call();
        let items = vec![(format!("j{index}"), large, Due::Now, None)];
        stage.send(Command::PushUnique { call, if_duplicate: IfDuplicate::Refuse, items }).unwrap();
        stage.lease_one(1000 + index);
    }
    let call = stage.call();
    stage.send(Command::Limit { call, of_queue: None, names: vec![("mail".to_owned(), most(9))] }).unwrap();
    let Some(Contents::Sorted(places)) = stage.contents(Key::Places) else { panic!("no places") };
    assert_eq!(places.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["j0", "j1", "j2"]);
}

#[test]
fn an_ack_that_frees_a_place_is_done_whatever_is_parked() {
    let mut stage = Stage::new();
    stage.server.set_clock(&stage.keys, START);
    let call = stage.call();
    let both = Limit { jobs: 1, per_us: 1_000_000, ..most(2) };
    stage.send(Command::Limit { call, of_queue: None, names: vec![("mail".to_owned(), both)] }).unwrap();
    stage.push("a", None, Due::Now);
    let token = stage.lease_one(1000);
    stage.server.command(&["SET", &stage.key(Key::Parked), "foreign"]);
    let done = Outcome { id: "a".to_owned(), token, key: None, became: Became::Done(None) };
    let call = stage.call();
    assert_eq!(stage.send(Command::Settle { call, outcomes: vec![done] }), Ok(Answer::Text("1".to_owned())));
}
