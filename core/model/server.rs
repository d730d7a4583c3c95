//! The real scripts on a real server: one private `redis-server`, one connection.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, Value};

use crate::script::{
    Alive, Awaited, Beat, ByteStrings, Call, Cancel, Clock, Configure, Counts, CountsReply, Declared, Digits, Extend,
    Extent, Find, FromReply, Hear, IfFull, JobKeys, Key, NoteProgress, Outcomes, Pause, Peek, ProgressOf, Promote,
    Purge, Push, PushUnique, QueueKeys, Reclaim, Requeue, Reschedule, Reserve, SetLimits, Settle, Variant, Verb,
    WakeWaiters,
};
use crate::value::data::Data;

use super::command::{Answer, Became, CallId, Command, Outcome, Sent, gives_ids};
use super::state::Returned;

pub(super) const QUEUE: &str = "q";
/// Longer than any test.
const RESULT_TTL_MS: u64 = 3_600_000;

pub(super) struct Server {
    child: Child,
    connection: Connection,
    loaded: HashSet<String>,
    folder: tempfile::TempDir,
    /// As Redis 5 and 6.0 do, it knows no `MINID`.
    pub(super) trims_by_count: bool,
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
        Self { child, connection, loaded: HashSet::new(), folder, trims_by_count: false }
    }

    /// For a client of duly.
    pub(super) fn url(&self) -> String {
        format!("unix://{}", self.folder.path().join("s").display())
    }

    pub(super) fn command(&mut self, words: &[&str]) -> Value {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The commands that the server runs meanwhile, those of scripts too, as `MONITOR` shows them.
    pub(super) fn monitor(&mut self, act: impl FnOnce(&mut Self)) -> Vec<String> {
        let mut child = Process::new("redis-cli")
            .arg("-s")
            .arg(self.folder.path().join("s"))
            .arg("MONITOR")
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli must be installed: run tools/setup.sh");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("OK"));
        act(self);
        self.command(&["ECHO", "the end"]);
        let seen = lines.take_while(|line| !line.contains("the end")).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        seen
    }

    pub(super) fn pipeline(&mut self, pipeline: &redis::Pipeline) -> Vec<Value> {
        pipeline.query(&mut self.connection).unwrap()
    }

    /// What makes all keys again what they are now.
    pub(super) fn snapshot(&mut self) -> redis::Pipeline {
        let mut back = redis::pipe();
        back.cmd("FLUSHDB").ignore();
        for key in redis::from_redis_value::<Vec<String>>(self.command(&["KEYS", "*"])).unwrap() {
            let content: Vec<u8> = redis::from_redis_value(self.command(&["DUMP", &key])).unwrap();
            let left: i64 = redis::from_redis_value(self.command(&["PTTL", &key])).unwrap();
            back.cmd("RESTORE").arg(&key).arg(left.max(0)).arg(content).ignore();
        }
        back
    }

    /// Sends a call of a script as it is.
    pub(super) fn run(&mut self, call: &Call<'_>) -> redis::RedisResult<Value> {
        let is_known = self.loaded.contains(call.script.sha()) && !self.trims_by_count;
        let mut command = redis::cmd(if is_known { "EVALSHA" } else { "EVAL" });
        if self.trims_by_count {
            command.arg(call.script.text.replace("'MINID'", "'NONE'"));
        } else {
            command.arg(if is_known { call.script.sha() } else { &call.script.text });
        }
        command.arg(call.keys.len());
        for item in call.keys.iter().chain(call.args.iter()) {
            command.arg(item);
        }
        let reply = command.query(&mut self.connection);
        self.loaded.insert(call.script.sha().to_owned());
        reply
    }

    /// What the real script answers, read as the engine reads it.
    pub(super) fn answer(&mut self, keys: &QueueKeys, sent: &Sent) -> Result<Answer, String> {
        let mut run = |extent| self.run(&real_call(keys, sent, extent)).map_err(|error| error.to_string());
        let reply = match run(Extent::Usual)? {
            // As the engine does.
            Value::BulkString(text) if text == b"full" => run(Extent::Full)?,
            reply => reply,
        };
        let read = |error: crate::Error| format!("{error:?}");
        Ok(match (&sent.command, reply) {
            (_, Value::BulkString(text)) => Answer::Text(String::from_utf8(text).map_err(|error| error.to_string())?),
            (_, Value::SimpleString(text)) => Answer::Text(text),
            (_, Value::Int(count)) => Answer::Count(u64::try_from(count).map_err(|error| error.to_string())?),
            (Command::Reserve(_), reply) => Answer::Reserved(FromReply::decode(reply).map_err(read)?),
            (Command::Peek { .. }, reply) => Answer::Page(FromReply::decode(reply).map_err(read)?),
            (Command::ProgressOf { .. }, reply) => Answer::Progress(FromReply::decode(reply).map_err(read)?),
            (Command::Beat { .. }, reply) => Answer::Beat(FromReply::decode(reply).map_err(read)?),
            (Command::Hear { .. }, reply) => Answer::Heard(FromReply::decode(reply).map_err(read)?),
            (Command::Alive, reply) => Answer::Alive(FromReply::decode(reply).map_err(read)?),
            (Command::Awaited { .. }, reply) => Answer::Awaited(FromReply::decode(reply).map_err(read)?),
            (Command::Find { .. }, reply) => Answer::Found(FromReply::decode(reply).map_err(read)?),
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
                let delay_ms = if matches!(verb, Verb::Failed | Verb::Unheard | Verb::Expired) { 0 } else { *delay_ms };
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
fn real_call<'a>(keys: &QueueKeys, sent: &Sent, extent: Extent) -> Call<'a> {
    let numbering = sent.command.call().map(CallId::numbering);
    let variant = Variant { clock: Clock::Manual, shape: sent.passed.shape, extent };
    macro_rules! call {
        ($request:expr) => {
            $request.call(variant, QUEUE, keys, sent.passed.levels, numbering.as_ref())
        };
    }
    match &sent.command {
        Command::Push { level, due, items, .. } => {
            let records: Vec<_> = items.iter().map(|(_, record)| record.bytes()).collect();
            let items = items.iter().zip(&records).map(|((id, _), record)| (id.as_bytes(), &**record));
            call!(Push { level: Digits((*level).into()), due: *due }.with(items))
        }
        Command::PushUnique { if_duplicate, items, .. } => {
            let ids: Vec<_> = items.iter().filter(|_| gives_ids(items)).map(|(id, ..)| id.clone()).collect();
            let texts = |note: &Option<Returned>| note.as_ref().map(Returned::text).unwrap_or_default();
            let texts: Vec<_> = items.iter().map(|(_, record, _, note)| (record.bytes(), texts(note))).collect();
            let items = items.iter().zip(&texts);
            let items =
                items.map(|((id, _, due, _), (record, note))| (id.as_bytes(), &**record, *due, note.as_bytes()));
            let result_count = job_keys(&ids);
            call!(PushUnique { if_duplicate: *if_duplicate, if_full: IfFull::Refuse, result_count }.with(items))
        }
        Command::Reserve(reserve) => {
            let outcomes = outcomes(&reserve.outcomes);
            let script = Reserve {
                want: reserve.want,
                lease_ms: reserve.lease_ms,
                wait_ms: reserve.wait_ms,
                max_bytes: reserve.max_bytes,
                promise: reserve.promise,
                ahead: usize::from(reserve.ahead) + 2 * usize::from(reserve.spares),
                ack_count: outcomes.ack_count(),
                keyed: outcomes.keyed(),
                result_count: outcomes.result_keys(),
            };
            call!(script.with([&outcomes]))
        }
        Command::Settle { outcomes: list, .. } => {
            let outcomes = outcomes(list);
            let (ack_count, keyed, result_count) = (outcomes.ack_count(), outcomes.keyed(), outcomes.result_keys());
            call!(Settle { ack_count, keyed, result_count }.with([&outcomes]))
        }
        Command::Extend { lease_ms, leases } => {
            call!(Extend { lease_ms: *lease_ms }.with(leases.iter().map(|(id, token)| (id.as_bytes(), *token))))
        }
        Command::Cancel { by, only, names, .. } => {
            call!(Cancel { by: *by, only: (*only).to_owned() }.with(names.iter().map(String::as_str)))
        }
        Command::Reschedule { by, name, due, .. } => {
            call!(Reschedule { by: *by, only: "" }.with([(name.as_str(), *due)]))
        }
        Command::Requeue { ids, .. } => call!(Requeue::as_they_are().with(ids.iter().map(String::as_bytes))),
        Command::Purge { state, cap, latest, .. } => {
            let latest = latest.map_or_else(|| "+inf".to_owned(), |latest| latest.to_string());
            call!(Purge { state, cap: *cap, latest }.with([]))
        }
        Command::Promote { cap } => call!(Promote { promote_cap: *cap }.with([])),
        Command::Reclaim { cap } => call!(Reclaim { reclaim_cap: *cap }.with([])),
        Command::Pause { pause, .. } => call!(Pause { pause: if *pause { "1" } else { "0" } }.with([])),
        Command::Configure { failed_max, failed_age_ms, .. } => {
            call!(Configure { failed_max: *failed_max, failed_age_ms: *failed_age_ms }.with([]))
        }
        Command::Limit { of_queue, names, .. } => {
            let of_queue = of_queue.iter().map(|limit| ("", limit.text()));
            call!(
                SetLimits { max_length: None }
                    .with(of_queue.chain(names.iter().map(|(name, limit)| (name.as_str(), limit.text()))))
            )
        }
        Command::Counts => call!(Counts {}.with([])),
        Command::Peek { state, offset, limit } => {
            call!(Peek { state, offset: *offset, limit: *limit, cursor: Vec::new() }.with([]))
        }
        Command::Beat { worker, life_ms, info, .. } => {
            call!(Beat { worker: worker.clone(), life_ms: *life_ms, info: info.clone() }.with([]))
        }
        Command::Hear { claim_ms, most, max_bytes, claims, .. } => {
            let claims = claims.iter().map(|claim| (&*claim.id, claim.until, claim.standing.as_bytes()));
            call!(Hear { claim_ms: *claim_ms, most: *most, max_bytes: *max_bytes }.with(claims))
        }
        Command::Alive => call!(Alive {}.with([])),
        Command::Progress { id, token, fraction, text } => {
            let (fraction, text) = ((*fraction).to_owned(), (*text).to_owned());
            let progress_count = JobKeys::one(id);
            call!(NoteProgress { token: Digits(*token), fraction, text, progress_count }.with([id.as_str()]))
        }
        Command::ProgressOf { ids } => {
            call!(ProgressOf { progress_count: job_keys(ids) }.with(ids.iter().map(String::as_bytes)))
        }
        Command::Awaited { id } => call!(Awaited { result_count: JobKeys::one(id) }.with([id.as_str()])),
        Command::WakeWaiters { ids } => {
            call!(WakeWaiters { life_ms: RESULT_TTL_MS, done_count: job_keys(ids) }.with([]))
        }
        Command::Find { by, name } => call!(Find { by: *by }.with([name.as_str()])),
    }
}

fn job_keys(ids: &[String]) -> JobKeys {
    let mut list = ByteStrings::default();
    for id in ids {
        list.push(id.as_bytes());
    }
    JobKeys(list)
}
