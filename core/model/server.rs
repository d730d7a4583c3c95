//! The real scripts on a real server: one private `redis-server`, one connection.

use std::collections::HashSet;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::script::{
    Alive, Awaited, AwaitedReply, Beat, BeatReply, ByteStrings, Call, Cancel, Clock, Configure, Counts, CountsReply,
    Declared, Digits, Extend, Find, FoundReply, Hear, HearReply, JobKeys, Key, Limit, NoteProgress, Outcomes,
    PageReply, Pause, Peek, ProgressOf, Promote, Purge, Push, PushUnique, QueueKeys, Reclaim, Requeue, Reschedule,
    Reserve, ReserveReply, Settle, Verb, WakeWaiters, alive, noted,
};
use crate::value::data::Data;

use super::command::{Answer, Became, Command, Outcome, Sent};
use super::limits::Limits;
use super::names;
use super::state::Returned;

pub(super) const QUEUE: &str = "q";
/// Longer than any test.
const RESULT_TTL_MS: u64 = 3_600_000;

pub(super) struct Server {
    child: Child,
    connection: Connection,
    loaded: HashSet<String>,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let program = std::env::var_os("DULY_TEST_SERVER").unwrap_or_else(|| "redis-server".into());
        let child = Process::new(program)
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server must be installed: run tools/setup.sh");
        let client = redis::Client::open(format!("unix://{}", socket.display())).unwrap();
        let started = Instant::now();
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) => assert!(started.elapsed() < Duration::from_secs(20), "no server: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Self { child, connection, loaded: HashSet::new(), _folder: folder }
    }

    pub(super) fn command(&mut self, words: &[&str]) -> Value {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub(super) fn pipeline(&mut self, pipeline: &redis::Pipeline) -> Vec<Value> {
        pipeline.query(&mut self.connection).unwrap()
    }

    /// Sends a call of a script as it is.
    pub(super) fn run(&mut self, call: &Call<'_>) -> redis::RedisResult<Value> {
        let is_known = self.loaded.contains(call.script.sha());
        let mut command = redis::cmd(if is_known { "EVALSHA" } else { "EVAL" });
        command.arg(if is_known { call.script.sha() } else { &call.script.text }).arg(call.keys.len());
        for item in call.keys.iter().chain(call.args.iter()) {
            command.arg(item);
        }
        let reply = command.query(&mut self.connection);
        self.loaded.insert(call.script.sha().to_owned());
        reply
    }

    /// What the real script answers, read as the engine reads it.
    pub(super) fn answer(&mut self, keys: &QueueKeys, sent: &Sent) -> Result<Answer, String> {
        let reply = self.run(&real_call(keys, sent)).map_err(|error| error.to_string())?;
        let read = |error: crate::Error| format!("{error:?}");
        Ok(match (&sent.command, reply) {
            (_, Value::BulkString(text)) => Answer::Text(String::from_utf8(text).map_err(|error| error.to_string())?),
            (_, Value::SimpleString(text)) => Answer::Text(text),
            (_, Value::Int(count)) => Answer::Count(u64::try_from(count).map_err(|error| error.to_string())?),
            (Command::Reserve(_), reply) => Answer::Reserved(ReserveReply::decode(reply).map_err(read)?),
            (Command::Peek { .. }, reply) => Answer::Page(PageReply::decode(reply).map_err(read)?),
            (Command::ProgressOf { .. }, reply) => Answer::Progress(noted(reply).map_err(read)?),
            (Command::Beat { .. }, reply) => Answer::Beat(BeatReply::decode(reply).map_err(read)?),
            (Command::Hear { .. }, reply) => Answer::Heard(HearReply::decode(reply).map_err(read)?),
            (Command::Alive, reply) => Answer::Alive(alive(reply).map_err(read)?),
            (Command::Awaited { .. }, reply) => Answer::Awaited(AwaitedReply::decode(reply).map_err(read)?),
            (Command::Find { .. }, reply) => Answer::Found(FoundReply::decode(reply).map_err(read)?),
            (Command::Counts, reply) => {
                let mut counts = CountsReply::decode(reply).map_err(read)?;
                counts.stats.sort();
                Answer::Counts(counts)
            }
            (_, reply) => return Err(format!("an unexpected reply: {reply:?}")),
        })
    }

    pub(super) fn set_clock(&mut self, keys: &QueueKeys, now: u64) {
        self.command(&["HSET", &keys.spell(Key::Meta), "clock", &now.to_string()]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn queue_keys(case: u64) -> QueueKeys {
    QueueKeys::new(&format!("model{case}:"), QUEUE)
}

fn outcomes(list: &[Outcome]) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for one in list {
        let key = one.key.as_deref();
        match &one.became {
            Became::Done(result) => {
                let result = result.as_ref().map(|result| (RESULT_TTL_MS, Data::trusted(result)));
                outcomes.ack(&one.id, one.token, key, result);
            }
            Became::Back { verb, delay_ms, error, rewritten } => {
                let record =
                    rewritten.as_ref().map(|(failures, record)| (u32::try_from(*failures).unwrap(), record.bytes()));
                let rewritten = record.as_ref().map(|(failures, record)| (*failures, record.as_slice()));
                // Of a failure for good that column says something else.
                let delay_ms = if matches!(verb, Verb::Failed | Verb::Unheard) { 0 } else { *delay_ms };
                outcomes.other(*verb, &one.id, one.token, key, delay_ms, error, rewritten);
                if one.is_awaited() {
                    outcomes.note_awaited();
                }
            }
        }
    }
    outcomes
}

/// The command as the engine would send it.
#[allow(clippy::too_many_lines)] // one arm a script
fn real_call<'a>(keys: &QueueKeys, sent: &Sent) -> Call<'a> {
    let levels = sent.levels;
    let client = sent.command.call().map_or("", |call| &call.client);
    macro_rules! call {
        ($script:expr, $items:expr) => {
            ($script).call(Clock::Manual, QUEUE, keys, client, levels, $items)
        };
        ($name:ident, $call:ident { $($field:ident: $value:expr),* }, $items:expr) => {
            call!($name {
                call_slot: $call.slot, call_number: Digits($call.number), call_renew: $call.renewal.clone(), $($field: $value),*
            }, $items)
        };
    }
    match &sent.command {
        Command::Push { call, level, due, items } => {
            call!(Push, call { level: Digits((*level).into()), due: *due }, |out| {
                for (id, record) in items {
                    out.push(id.as_bytes());
                    out.push(&record.bytes());
                }
            })
        }
        Command::PushUnique { call, if_duplicate, items } => {
            call!(PushUnique, call { if_duplicate: if_duplicate.as_str() }, |out| {
                for (id, record, due, note) in items {
                    out.push(id.as_bytes());
                    out.push(&record.bytes());
                    crate::script::Argument::append(due, out);
                    out.push(note.as_ref().map(Returned::text).unwrap_or_default().as_bytes());
                }
            })
        }
        Command::Reserve(reserve) => {
            let outcomes = outcomes(&reserve.outcomes);
            let call = &reserve.call;
            call!(
                Reserve,
                call {
                    want: reserve.want,
                    lease_ms: reserve.lease_ms,
                    wait_ms: reserve.wait_ms,
                    max_bytes: reserve.max_bytes,
                    promise: reserve.promise,
                    ahead: usize::from(reserve.ahead) + 2 * usize::from(reserve.spares),
                    ack_count: outcomes.ack_count(),
                    keyed: outcomes.keyed(),
                    result_count: outcomes.result_keys()
                },
                |out| outcomes.append(out)
            )
        }
        Command::Settle { call, outcomes: list } => {
            let outcomes = outcomes(list);
            call!(
                Settle,
                call { ack_count: outcomes.ack_count(), keyed: outcomes.keyed(), result_count: outcomes.result_keys() },
                |out| outcomes.append(out)
            )
        }
        Command::Extend { lease_ms, leases } => call!(Extend { lease_ms: *lease_ms }, |out| {
            for (id, token) in leases {
                out.push(id.as_bytes());
                out.push_display(token);
            }
        }),
        Command::Cancel { call, by, names } => call!(Cancel, call { by: by.as_str() }, |out| {
            for name in names {
                out.push(name.as_bytes());
            }
        }),
        Command::Reschedule { call, by, name, due } => call!(Reschedule, call { by: by.as_str() }, |out| {
            out.push(name.as_bytes());
            crate::script::Argument::append(due, out);
        }),
        Command::Requeue { call, ids } => call!(Requeue, call {}, |out| {
            for id in ids {
                out.push(id.as_bytes());
            }
        }),
        Command::Purge { call, state, cap } => call!(Purge, call { state: *state, cap: *cap }, |_| ()),
        Command::Promote { cap } => call!(Promote { promote_cap: *cap }, |_| ()),
        Command::Reclaim { cap } => call!(Reclaim { reclaim_cap: *cap }, |_| ()),
        Command::Pause { call, pause } => call!(Pause, call { pause: if *pause { "1" } else { "0" } }, |_| ()),
        Command::Configure { call, failed_max, failed_age_ms } => {
            call!(Configure, call { failed_max: *failed_max, failed_age_ms: *failed_age_ms }, |_| ())
        }
        Command::Limit { call, limits, names } => {
            call!(Limit, call { limits: limits.map_or(String::new(), Limits::text) }, |out| {
                for (name, limits) in names {
                    out.push(name.as_bytes());
                    out.push(names::text(*limits).as_bytes());
                }
            })
        }
        Command::Counts => call!(Counts {}, |_| ()),
        Command::Peek { state, offset, limit } => {
            call!(Peek { state, offset: *offset, limit: *limit }, |_| ())
        }
        Command::Beat { worker, life_ms, info } => {
            call!(Beat { worker: worker.clone(), life_ms: *life_ms, info: info.clone() }, |_| ())
        }
        Command::Hear { claim_ms, most, max_bytes, claims } => {
            call!(Hear { claim_ms: *claim_ms, most: *most, max_bytes: *max_bytes }, |out| {
                for claim in claims {
                    out.push(&claim.id);
                    out.push_display(claim.until);
                    out.push(claim.standing.as_bytes());
                }
            })
        }
        Command::Alive => call!(Alive {}, |_| ()),
        Command::Progress { id, token, fraction, text } => {
            let (fraction, text) = ((*fraction).to_owned(), (*text).to_owned());
            let progress_count = JobKeys::one(id);
            call!(NoteProgress { token: Digits(*token), fraction, text, progress_count }, |out| out.push(id.as_bytes()))
        }
        Command::ProgressOf { ids } => {
            let mut list = ByteStrings::default();
            for id in ids {
                list.push(id.as_bytes());
            }
            call!(ProgressOf { progress_count: JobKeys(list.clone()) }, |out| out.extend(&list))
        }
        Command::Awaited { id } => {
            call!(Awaited { result_count: JobKeys::one(id) }, |out| out.push(id.as_bytes()))
        }
        Command::WakeWaiters { ids } => {
            let mut list = ByteStrings::default();
            for id in ids {
                list.push(id.as_bytes());
            }
            call!(WakeWaiters { life_ms: RESULT_TTL_MS, done_count: JobKeys(list) }, |_| ())
        }
        Command::Find { by, name } => call!(Find { by: by.as_str() }, |out| out.push(name.as_bytes())),
    }
}
