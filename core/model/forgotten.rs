//! Calls that come again when the server has forgotten them, as it does when its clock jumps forward by more than their
//! memory lasts.

use crate::script::{Due, Key, Levels, MemoryRenewal, QueueKeys, Shape};

use super::command::{Answer, CallId, Command, Passed, ReserveCall, Sent};
use super::dump;
use super::server::{Server, queue_keys};
use super::state::{Record, State};

const CLIENT: &str = "c0";
const START: u64 = 1_790_000_000_000;

struct Stage {
    server: Server,
    keys: QueueKeys,
    state: State,
    number: u64,
}

impl Stage {
    fn new() -> Self {
        let (mut server, keys) = (Server::start(), queue_keys(0));
        server.set_clock(&keys, START);
        Self { server, keys, state: State { clock: START, ..State::default() }, number: 0 }
    }

    fn call(&mut self, renewal: MemoryRenewal) -> CallId {
        self.number += 1;
        CallId { client: CLIENT.to_owned(), slot: 0, number: self.number, renewal, is_known: false }
    }

    /// Model and server do the same.
    fn send(&mut self, command: &Command) -> Answer {
        let sent = Sent { command: command.clone(), passed: Passed { levels: Levels::one(5), shape: Shape::Plain } };
        let answer = self.state.step(&sent);
        assert_eq!(self.server.answer(&self.keys, &sent).as_ref(), Ok(&answer), "{sent:?}");
        assert_eq!(dump::read(&mut self.server, &self.keys, &[CLIENT]), self.state.dump(), "{sent:?}");
        answer
    }

    fn forget(&mut self) {
        self.server.command(&["DEL", &format!("{}:{CLIENT}", self.keys.spell(Key::Call))]);
        self.state.calls.clear();
    }
}

fn push(call: CallId, ids: &[&str], due: Due) -> Command {
    let record =
        |id: &str| Record { level: 5, max_retries: 5, key: None, name: None, body: format!("{{\"data\":\"{id}\"}}") };
    let items = ids.iter().map(|id| ((*id).to_owned(), record(id))).collect();
    Command::Push { call, level: 5, due, items }
}

fn again(command: &Command) -> Command {
    let mut command = command.clone();
    if let Some(call) = command.call_mut() {
        call.renewal = MemoryRenewal::Asked(Vec::new());
    }
    command
}

#[test]
fn a_push_that_was_forgotten_stores_and_counts_nothing_twice() {
    for due in [Due::Now, Due::After(500)] {
        let mut stage = Stage::new();
        let call = stage.call(MemoryRenewal::No);
        let first = push(call, &["a", "b"], due);
        stage.send(&first);
        for copy in [again(&first), first] {
            stage.forget();
            assert_eq!(stage.send(&copy).text(), "created");
            assert_eq!(stage.state.stats["pushed"], 2);
        }
    }
}

#[test]
fn of_a_push_that_was_forgotten_a_running_job_stays_as_it_is_and_one_that_is_gone_comes_again() {
    let mut stage = Stage::new();
    let call = stage.call(MemoryRenewal::No);
    let first = push(call, &["a", "b", "c"], Due::Now);
    stage.send(&first);
    let (call, want, lease_ms, wait_ms) = (stage.call(MemoryRenewal::No), 1, 1000, 0);
    let (max_bytes, promise, outcomes) = (1 << 20, 0, Vec::new());
    stage.send(&Command::Reserve(ReserveCall {
        call,
        want,
        lease_ms,
        wait_ms,
        max_bytes,
        promise,
        ahead: false,
        spares: false,
        outcomes,
    }));
    let call = stage.call(MemoryRenewal::No);
    stage.send(&Command::Cancel { call, by: crate::script::By::Id, only: "", names: vec!["b".to_owned()] });
    stage.forget();
    assert_eq!(stage.send(&again(&first)).text(), "created");
    assert_eq!(stage.state.stats["pushed"], 4);
}

#[test]
fn a_client_that_must_be_remembered_and_is_not_hears_so_before_anything_is_done() {
    let mut stage = Stage::new();
    let next = |stage: &mut Stage, id, is_known, slot| {
        let call = CallId { slot, is_known, ..stage.call(MemoryRenewal::No) };
        let sent = push(call, &[id], Due::Now);
        (stage.send(&sent).text().to_owned(), sent)
    };
    assert_eq!(next(&mut stage, "a", false, 0).0, "created");
    assert_eq!(next(&mut stage, "b", true, 0).0, "created");
    assert_eq!(next(&mut stage, "c", true, 1).0, "created", "a slot that it never used");
    stage.forget();
    let (answer, mut sent) = next(&mut stage, "d", true, 0);
    assert_eq!(answer, "forgotten");
    // Also one that asks to be remembered again, as repeated calls do.
    assert_eq!(stage.send(&again(&sent)).text(), "forgotten");
    sent.call_mut().unwrap().is_known = false;
    assert_eq!(stage.send(&sent).text(), "created");
    assert_eq!(next(&mut stage, "e", true, 0).0, "created");
    assert_eq!(stage.state.stats["pushed"], 5);
}
