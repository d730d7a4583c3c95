//! Clients, workers and operators around a queue: makes commands of steps, sends them to the model and to the server, and
//! compares.

mod events;

use std::collections::BTreeMap;

use crate::queue::{CallNumber, Claim, Session};
use crate::script::{By, Due, IfDuplicate, Key, Levels, MemoryRenewal, QueueKeys, Shape};

use super::command::{Answer, Became, CallId, Command, Outcome, Passed, ReserveCall, Sent};
use super::dump::{self, difference};
use super::generate::{Deed, Ending, Endings, Fate, Knows, Names, NewRecord, Pick, Step, Token, When, Who};
use super::invariants::History;
use super::limits::Limit;
use super::orders::Orders;
use super::server::{QUEUE, Server, queue_keys};
use super::state::{Calls, Meta, RESULT_TTL, Record, Returned, State};
use super::unheard;

const CLIENTS: [&str; 2] = ["c0", "c1"];
/// Ids that a user gives, again and again.
pub(super) const USERS_IDS: [&str; 3] = ["a", "b", "c"];
/// As many digits as a real one: numbers of this size are written as text by Lua.
const START: u64 = 1_790_000_000_000;

/// So many calls wait for their answers while others are made.
const MOST_SLOW: usize = 2;

/// How often something worth seeing was seen.
pub(super) type Seen = BTreeMap<&'static str, u64>;

struct Granted {
    client: usize,
    id: String,
    token: u64,
    record: Record,
}

impl Token {
    fn of(self, granted: u64) -> u64 {
        match self {
            Self::Granted => granted,
            // The job has had this one already, or never has it.
            Self::Smaller => granted - 1,
            // Far beyond all that a run grants, and not above 2^53.
            Self::Larger => granted + (1 << 52),
        }
    }
}

struct InFlight<'a> {
    client: usize,
    number: CallNumber<'a>,
    fate: Fate,
    is_executed: bool,
}

pub(super) struct World<'a> {
    server: &'a mut Server,
    keys: QueueKeys,
    state: State,
    history: History,
    seen: &'a mut Seen,
    sent: Vec<Sent>,
    granted: Vec<Granted>,
    claims: Vec<Claim>,
    last_batch: usize,
    last_pushed: Vec<String>,
    learnt: [Passed; 2],
    promises: [u64; 2],
    /// The engine's own, one a client: they choose slots and numbers.
    sessions: &'a [Session; 2],
    in_flight: Vec<InFlight<'a>>,
    orders: Orders,
    next_id: u64,
    latest: u64,
}

/// Runs steps from an empty queue on; the first difference or broken invariant is the error.
pub(super) fn run(server: &mut Server, seen: &mut Seen, case: u64, steps: &[Step]) -> Result<(), String> {
    let keys = queue_keys(case);
    let mut state = State { clock: START, ..State::default() };
    server.set_clock(&keys, START);
    let sessions = [session()?, session()?];
    for client in CLIENTS {
        state.calls.insert(client.to_owned(), Calls { slots: [(0, (1, String::new()))].into(), is_fresh: true });
        let key = format!("{}:{client}", keys.spell(Key::Call));
        server.command(&["HSET", &key, "0", "1 "]);
        server.command(&["PEXPIRE", &key, "1200000"]);
    }
    let mut world = World {
        server,
        keys,
        state,
        history: History::default(),
        seen,
        sent: Vec::new(),
        granted: Vec::new(),
        claims: Vec::new(),
        last_batch: 0,
        last_pushed: Vec::new(),
        learnt: [Passed { levels: Levels::one(5), shape: Shape::Plain }; 2],
        promises: [0; 2],
        sessions: &sessions,
        in_flight: Vec::new(),
        orders: Orders::default(),
        next_id: 0,
        latest: START,
    };
    let mut result = Ok(());
    for (index, step) in steps.iter().enumerate() {
        result = world.apply(step).map_err(|why| format!("step {index}, {step:?}: {why}"));
        if result.is_err() {
            break;
        }
    }
    world.forget_keys();
    result
}

/// One that has renewed its answers lately, so that steps decide which calls do. The server remembers it.
fn session() -> Result<Session, String> {
    let session = Session::new().map_err(|error| error.to_string())?;
    session.next_call(QUEUE, || {}).was_answered();
    Ok(session)
}

impl World<'_> {
    fn apply(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Advance(ms) => self.set_clock_us(self.state.now_us() + ms * 1000),
            Step::AdvanceMicros(us) => self.set_clock_us(self.state.now_us() + us),
            Step::SetBack(ms) => self.set_clock_us(self.state.now_us() - ms * 1000),
            Step::TakeWakes => {
                self.state.wakes = 0;
                self.server.command(&["DEL", &self.keys.spell(Key::Wake)]);
            }
            Step::AgeCalls { client } => {
                let key = format!("{}:{}", self.keys.spell(Key::Call), CLIENTS[*client]);
                self.server.command(&["PEXPIRE", &key, &dump::AGED_MS.to_string()]);
                if let Some(calls) = self.state.calls.get_mut(CLIENTS[*client]) {
                    calls.is_fresh = false;
                }
            }
            Step::Crash { client } => {
                self.granted.retain(|granted| granted.client != *client);
                self.last_batch = 0;
            }
            Step::LoseMeta => self.lose_meta(),
            Step::NewerFormat { who } => return self.use_newer_format(*who),
            Step::Resend { back } => {
                let Some(index) = self.sent.len().checked_sub(1 + back) else { return Ok(()) };
                let sent = self.sent[index].clone();
                self.see("a call was sent again");
                self.send(&sent)?;
            }
            Step::ResendGivenUp => {
                let given_up = |sent: &&Sent| sent.command.call().is_some_and(|call| self.orders.is_given_up(call));
                let Some(sent) = self.sent.iter().rev().find(given_up).cloned() else { return Ok(()) };
                self.see("a call that was given up came late");
                self.send(&sent)?;
            }
            Step::Repeat { back, who } => {
                let Some(index) = self.sent.len().checked_sub(1 + back) else { return Ok(()) };
                let mut command = self.sent[index].command.clone();
                // The ids of `push` are new in every call.
                if !matches!(command, Command::Push { .. }) {
                    if let Some(call) = command.call_mut() {
                        *call = self.next_call(*who);
                    }
                    return self.call(*who, command);
                }
            }
            step => {
                let (who, command) = self.command_of(step);
                return self.call(who, command);
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_lines)] // one arm a step
    fn command_of(&mut self, step: &Step) -> (Who, Command) {
        let nobody = Who { client: 0, fate: Fate::Answered, renew: false, knows: Knows::All };
        match step {
            Step::Push { who, count, record, when } => {
                let record = NewRecord { key: None, ..record.clone() };
                let items: Vec<_> = (0..*count).map(|_| (self.fresh_id(), self.record(&record))).collect();
                self.last_pushed = items.iter().map(|(id, _)| id.clone()).collect();
                let call = self.next_call(*who);
                (*who, Command::Push { call, level: record.level, due: self.due(*when), items })
            }
            Step::PushUnique { who, if_duplicate, items } => {
                let mut list = Vec::new();
                for (pick, record, when) in items {
                    let id = USERS_IDS.get(*pick).map_or_else(|| self.fresh_id(), |id| (*id).to_owned());
                    let note = record.failures.map(|attempts| Returned {
                        attempts,
                        returns: attempts + 1,
                        error: "7;odd".to_owned(),
                        ..Returned::default()
                    });
                    list.push((id, self.record(record), self.due(*when), note));
                }
                (*who, Command::PushUnique { call: self.next_call(*who), if_duplicate: *if_duplicate, items: list })
            }
            Step::Reserve { who, want, lease_ms, wait_ms, max_bytes, keeps_promise, ahead, spares, endings } => {
                let promise = if *keeps_promise { self.promises[who.client] } else { 0 };
                let outcomes = self.outcomes(endings);
                let reserve = ReserveCall {
                    call: self.next_call(*who),
                    want: *want,
                    lease_ms: *lease_ms,
                    wait_ms: *wait_ms,
                    max_bytes: *max_bytes,
                    promise,
                    ahead: *ahead,
                    spares: *spares,
                    outcomes,
                };
                (*who, Command::Reserve(reserve))
            }
            Step::Settle { who, endings } => {
                (*who, Command::Settle { call: self.next_call(*who), outcomes: self.outcomes(endings) })
            }
            Step::Extend { lease_ms, leases } => {
                let leases = leases.iter().map(|&(lease, which)| {
                    let (id, token, _) = self.lease(lease);
                    (id, which.of(token))
                });
                (nobody, Command::Extend { lease_ms: *lease_ms, leases: leases.collect() })
            }
            Step::Cancel { who, only, names } => {
                let (by, names) = match names {
                    Names::Ids(picks) => (By::Id, picks.iter().map(|&pick| self.pick(pick)).collect()),
                    Names::Keys(keys) => (By::Key, keys.iter().map(|&key| key.to_owned()).collect()),
                    Names::LastPushed if self.last_pushed.is_empty() => (By::Id, vec!["a".to_owned()]),
                    Names::LastPushed => (By::Id, self.last_pushed.clone()),
                };
                (*who, Command::Cancel { call: self.next_call(*who), by, only, names })
            }
            Step::Reschedule { who, by_key, pick, when } => {
                let (by, name) = self.name(*by_key, *pick);
                (*who, Command::Reschedule { call: self.next_call(*who), by, name, due: self.due(*when) })
            }
            Step::Requeue { who, picks, all_failed } => {
                let mut ids: Vec<_> = picks.iter().map(|&pick| self.pick(pick)).collect();
                if *all_failed {
                    ids.extend(self.state.failed.keys().cloned());
                }
                (*who, Command::Requeue { call: self.next_call(*who), ids })
            }
            Step::Purge { who, state, cap, asked_ago } => {
                let latest = asked_ago.map(|ago| self.state.clock.saturating_sub(ago));
                (*who, Command::Purge { call: self.next_call(*who), state, cap: *cap, latest })
            }
            Step::Promote { who, cap } => (*who, Command::Promote { cap: *cap }),
            Step::Reclaim { who, cap } => (*who, Command::Reclaim { cap: *cap }),
            Step::Pause { who, pause } => (*who, Command::Pause { call: self.next_call(*who), pause: *pause }),
            Step::Configure { who, failed_max, failed_age_ms } => {
                let (failed_max, failed_age_ms) = (*failed_max, *failed_age_ms);
                (*who, Command::Configure { call: self.next_call(*who), failed_max, failed_age_ms })
            }
            Step::Limit { who, limits, names } => {
                let names = names.iter().map(|&(name, limits)| (name.to_owned(), limits)).collect();
                (*who, Command::Limit { call: self.next_call(*who), of_queue: *limits, names })
            }
            Step::Peek { state, offset, limit } => (nobody, Command::Peek { state, offset: *offset, limit: *limit }),
            Step::Find { by_key, pick } => {
                let (by, name) = self.name(*by_key, *pick);
                (nobody, Command::Find { by, name })
            }
            Step::Beat { .. } | Step::Hear { .. } => self.command_of_worker(nobody, step),
            Step::Progress { lease, token, fraction, text } => {
                let (id, granted, _) = self.lease(*lease);
                (nobody, Command::Progress { id, token: token.of(granted), fraction, text })
            }
            Step::ProgressOf { leases } => {
                (nobody, Command::ProgressOf { ids: leases.iter().map(|&lease| self.lease(lease).0).collect() })
            }
            Step::Alive => (nobody, Command::Alive),
            Step::Await { pick } => (nobody, Command::Awaited { id: self.pick(*pick) }),
            Step::WakeWaiters { pick } => (nobody, Command::WakeWaiters { ids: vec![self.pick(*pick)] }),
            _ => (nobody, Command::Counts),
        }
    }

    /// What a worker's engine says beside its jobs.
    fn command_of_worker(&mut self, nobody: Who, step: &Step) -> (Who, Command) {
        match step {
            Step::Hear { who, most, max_bytes, heard, kept, given_back } => {
                let claims = unheard::picked(&self.claims, heard, kept, given_back);
                let call = self.next_call(*who);
                (*who, Command::Hear { call, claim_ms: 40, most: *most, max_bytes: *max_bytes, claims })
            }
            Step::Beat { who, worker, life_ms } => {
                self.next_id += 1;
                let (worker, info) = (format!("w{worker}"), format!("{{\"n\":{}}}", self.next_id));
                (*who, Command::Beat { call: self.next_call(*who), worker, life_ms: *life_ms, info })
            }
            _ => (nobody, Command::Alive),
        }
    }

    /// As a client does: passes the levels and calls for the shape that it knows of, learns of others and then calls again under the
    /// same number.
    fn call(&mut self, who: Who, command: Command) -> Result<(), String> {
        let number = command.call().map(|call| call.number);
        let is_answered = self.call_until_admitted(who, command)?;
        if let Some(number) = number {
            self.end(who, number, is_answered);
        }
        Ok(())
    }

    /// Gives whether it was executed.
    fn call_until_admitted(&mut self, who: Who, command: Command) -> Result<bool, String> {
        let needed = match &command {
            Command::Push { level, .. } => Levels::one(*level),
            Command::PushUnique { items, .. } => {
                items.iter().fold(Levels::from_bits(0), |levels, (_, r, _, _)| levels.with(Levels::one(r.level)))
            }
            _ => Levels::one(5),
        };
        let only_looks =
            matches!(command, Command::Counts | Command::Peek { .. } | Command::Find { .. } | Command::Awaited { .. });
        let learnt = self.learnt[who.client];
        let (levels, shape) = match who.knows {
            _ if only_looks => (Levels::ALL, learnt.shape),
            Knows::Learnt => (learnt.levels.with(needed), learnt.shape),
            Knows::All => (Levels::ALL, Shape::Limited),
            Knows::Little => (needed, Shape::Plain),
        };
        let mut sent = Sent { command, passed: Passed { levels, shape } };
        for _ in 0..4 {
            if !only_looks {
                self.learnt[who.client] = Passed { levels: learnt.levels.with(sent.passed.levels), ..sent.passed };
            }
            self.sent.push(sent.clone());
            if who.fate == Fate::LostRequest {
                return Ok(false);
            }
            let answer = self.send(&sent)?;
            if let Answer::Reserved(reply) = &answer {
                self.learnt[who.client].shape = if reply.limited { Shape::Limited } else { Shape::Plain };
            }
            if answer.text() == "shape limits" {
                self.see("a caller learnt of the shape");
                sent.passed.shape = Shape::Limited;
            } else if let Some(more) = answer.text().strip_prefix("levels ").and_then(Levels::parse) {
                self.see("a caller learnt of levels");
                sent.passed.levels = sent.passed.levels.with(more);
            } else {
                return Ok(!answer.text().starts_with("format ") && answer.text() != "superseded");
            }
        }
        Err("the script asks for something else again and again".to_owned())
    }

    /// The client has its answer, or gives up, or waits a while.
    fn end(&mut self, who: Who, number: u64, is_executed: bool) {
        let is_it = |one: &&mut InFlight<'_>| one.client == who.client && one.number.number == number;
        if let Some(one) = self.in_flight.iter_mut().find(is_it) {
            one.is_executed = is_executed;
        }
        let slow = self.in_flight.iter().filter(|one| one.fate == Fate::Slow).count();
        let index = match who.fate {
            Fate::Slow if slow <= MOST_SLOW => None,
            Fate::Slow => self.in_flight.iter().position(|one| one.fate == Fate::Slow),
            _ => self.in_flight.iter().position(|one| one.client == who.client && one.number.number == number),
        };
        let Some(one) = index.map(|index| self.in_flight.remove(index)) else { return };
        let is_answered = one.is_executed && matches!(one.fate, Fate::Answered | Fate::Slow);
        if is_answered {
            one.number.was_answered();
        }
        self.orders.ended(CLIENTS[one.client], one.number.number, is_answered);
    }

    /// Sends it to both and compares all that can be seen.
    fn send(&mut self, sent: &Sent) -> Result<Answer, String> {
        let before = self.state.clone();
        let answer = self.state.step(sent);
        let real = self.server.answer(&self.keys, sent);
        if real.as_ref() != Ok(&answer) {
            return Err(format!("{sent:?}\n model answers: {answer:?}\nserver answers: {real:?}"));
        }
        let (expected, found) = (self.state.dump(), dump::read(self.server, &self.keys, &CLIENTS));
        if expected != found {
            return Err(format!("{sent:?}\nanswer: {answer:?}\n{}", difference(&expected, &found)));
        }
        if let Some(call) = sent.command.call() {
            let text = answer.text();
            let is_refused =
                ["superseded", "forgotten", "format ", "levels ", "shape "].iter().any(|word| text.starts_with(word));
            let is_executed = !is_refused && before.earlier(call) == Ok(None);
            self.orders.check(call, is_executed, text == "superseded").map_err(|why| format!("{sent:?}: {why}"))?;
        }
        self.history.check(&before, sent, &answer, &self.state).map_err(|why| format!("{sent:?}: {why}"))?;
        self.note(&before, sent, &answer);
        Ok(answer)
    }

    fn note(&mut self, before: &State, sent: &Sent, answer: &Answer) {
        self.see_events(before, sent, answer);
        let (Command::Reserve(reserve), Answer::Reserved(reply)) = (&sent.command, answer) else { return };
        let client = CLIENTS.iter().position(|name| *name == reserve.call.client).unwrap();
        if reply.promised > 0 {
            self.promises[client] = reply.promised;
        }
        if !reply.jobs.is_empty() {
            self.last_batch = reply.jobs.len();
        }
        for job in &reply.jobs {
            let record = self.state.records[&job.id].clone();
            self.granted.push(Granted { client, id: job.id.clone(), token: reply.token, record });
        }
    }

    fn see(&mut self, event: &'static str) {
        *self.seen.entry(event).or_default() += 1;
    }

    fn set_clock(&mut self, now: u64) {
        self.set_clock_us(now * 1000);
    }

    fn set_clock_us(&mut self, now_us: u64) {
        (self.state.clock, self.state.clock_rest) = (now_us / 1000, now_us % 1000);
        self.latest = self.latest.max(self.state.clock);
        self.server.command(&["HSET", &self.keys.spell(Key::Meta), "clock", &self.state.clock_text()]);
    }

    /// Only where no stale entries are counted: how many there are is known from `meta` alone.
    fn lose_meta(&mut self) {
        if self.state.stale_entries().is_empty() {
            self.server.command(&["DEL", &self.keys.spell(Key::Meta)]);
            self.state.meta = Meta::default();
            self.history.lose_meta();
            // Tokens follow the clock then, so it must not stand still.
            self.set_clock(self.latest + 1000);
            self.see("meta was lost");
        }
    }

    /// Everything that could write is refused, and nothing is written.
    fn use_newer_format(&mut self, who: Who) -> Result<(), String> {
        let meta = self.keys.spell(Key::Meta);
        let old = self.state.meta.format;
        self.state.meta.format = Some(3);
        self.server.command(&["HSET", &meta, "format", "3"]);
        let plain = NewRecord { level: 5, max_retries: 5, key: None, name: None, padding: 0, failures: None };
        let last = || Endings::OfLastBatch(Deed::Ack);
        let steps = [
            Step::Push { who, count: 1, record: plain.clone(), when: When::Now },
            Step::PushUnique { who, if_duplicate: IfDuplicate::Replace, items: vec![(0, plain, When::After(5))] },
            Step::Reserve {
                who,
                want: 1,
                lease_ms: 10,
                wait_ms: 0,
                max_bytes: 1,
                keeps_promise: false,
                ahead: false,
                spares: false,
                endings: last(),
            },
            Step::Settle { who, endings: last() },
            Step::Extend { lease_ms: 100, leases: vec![(0, Token::Granted)] },
            Step::Cancel { who, only: "", names: Names::Ids(vec![0, 1, 2]) },
            Step::Reschedule { who, by_key: None, pick: 0, when: When::After(5) },
            Step::Requeue { who, picks: vec![0], all_failed: true },
            Step::Purge { who, state: "ready", cap: 10, asked_ago: None },
            Step::Promote { who, cap: 10 },
            Step::Reclaim { who, cap: 10 },
            Step::Pause { who, pause: true },
            Step::Configure { who, failed_max: 1, failed_age_ms: 1 },
            Step::Limit { who, limits: None, names: vec![("mail", Limit { concurrency: 1, ..Limit::default() })] },
            Step::Beat { who, worker: 0, life_ms: 10 },
            Step::Hear { who, most: 1, max_bytes: 1, heard: vec![0], kept: vec![1], given_back: vec![0] },
            Step::Progress { lease: 0, token: Token::Granted, fraction: "1", text: "" },
        ];
        for step in &steps {
            self.apply(step)?;
        }
        self.see("a newer format was refused");
        self.state.meta.format = old;
        match old {
            Some(format) => self.server.command(&["HSET", &meta, "format", &format.to_string()]),
            None => self.server.command(&["HDEL", &meta, "format"]),
        };
        Ok(())
    }

    fn next_call(&mut self, who: Who) -> CallId {
        let number = self.sessions[who.client].next_call(QUEUE, || {});
        let renewal = match number.renewal.clone() {
            MemoryRenewal::No if who.renew => MemoryRenewal::Asked(Vec::new()),
            renewal => renewal,
        };
        if matches!(&renewal, MemoryRenewal::Asked(given_up) if !given_up.is_empty()) {
            self.see("a call named what was given up in other slots");
        }
        let is_known = number.numbering().is_known;
        let client = CLIENTS[who.client].to_owned();
        let call = CallId { client, slot: number.slot, number: number.number, renewal, is_known };
        self.orders.begun(&call);
        self.in_flight.push(InFlight { client: who.client, number, fate: who.fate, is_executed: false });
        call
    }

    fn fresh_id(&mut self) -> String {
        self.next_id += 1;
        format!("f{:04}", self.next_id)
    }

    fn record(&mut self, new: &NewRecord) -> Record {
        self.next_id += 1;
        let end = if self.next_id.is_multiple_of(3) { RESULT_TTL } else { "}" };
        let body = format!("{{\"n\":{}{}{end}", self.next_id, " ".repeat(new.padding));
        Record {
            level: new.level,
            max_retries: new.max_retries,
            key: new.key.map(str::to_owned),
            name: new.name.map(str::to_owned),
            body,
        }
    }

    fn due(&self, when: When) -> Due {
        match when {
            When::Now => Due::Now,
            When::After(ms) => Due::After(ms),
            When::At(ms) => Due::At(self.state.clock.saturating_add_signed(ms)),
        }
    }

    fn pick(&self, pick: Pick) -> String {
        let ids = self.state.ids();
        let latest = ids.iter().rev().take(5).copied();
        let known: Vec<&str> = USERS_IDS.into_iter().chain(latest).collect();
        known[pick % known.len()].to_owned()
    }

    fn name(&self, by_key: Option<&str>, pick: Pick) -> (By, String) {
        by_key.map_or_else(|| (By::Id, self.pick(pick)), |key| (By::Key, key.to_owned()))
    }

    /// The lease that was granted so many grants ago.
    fn lease(&self, back: usize) -> (String, u64, Option<Record>) {
        let index = self.granted.len().checked_sub(1 + back);
        index.map_or(("a".to_owned(), 1, None), |index| {
            let granted = &self.granted[index];
            (granted.id.clone(), granted.token, Some(granted.record.clone()))
        })
    }

    fn outcomes(&mut self, endings: &Endings) -> Vec<Outcome> {
        let endings = match endings {
            Endings::Some(endings) => endings.clone(),
            Endings::OfLastBatch(deed) => {
                let all = 0..self.last_batch.min(self.granted.len());
                all.map(|lease| Ending { lease, token: Token::Granted, deed: deed.clone() }).collect()
            }
        };
        let mut outcomes: Vec<_> = endings.iter().map(|ending| self.outcome(ending)).collect();
        outcomes.sort_by_key(|outcome| !matches!(outcome.became, Became::Done(_)));
        outcomes
    }

    fn outcome(&mut self, ending: &Ending) -> Outcome {
        let (id, token, record) = self.lease(ending.lease);
        let became = match &ending.deed {
            Deed::Ack => Became::Done(None),
            Deed::AckWith(result) => Became::Done(Some((*result).to_owned())),
            Deed::Back { verb, delay_ms, error, rewrite } => {
                // A failure hook changes what it may: not the level, not the key.
                let rewritten = record.clone().filter(|_| *rewrite).map(|record| {
                    self.next_id += 1;
                    (
                        self.next_id % 3,
                        Record { body: format!("{{\"new\":{}}}", self.next_id), max_retries: 1, ..record },
                    )
                });
                Became::Back { verb: *verb, delay_ms: *delay_ms, error: (*error).to_owned(), rewritten }
            }
        };
        Outcome { id, token: ending.token.of(token), key: record.and_then(|record| record.key), became }
    }

    fn forget_keys(&mut self) {
        // Also those with a lifetime: each comparison would look through what earlier cases left.
        self.server.command(&["FLUSHALL"]);
    }
}
