//! Runs the scenarios of `conformance/` against a real server. `conformance/README.md` says what they mean.
//!
//! Each scenario is one test case with a name of its own, and so this file has its own `main`.

#![allow(clippy::unwrap_used)] // a test

#[path = "conformance/arguments.rs"]
mod arguments;
#[path = "conformance/schedules.rs"]
mod schedules;
#[path = "support/all.rs"]
mod support;
#[path = "conformance/topics.rs"]
mod topics;
#[path = "conformance/views.rs"]
mod views;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use duly::{Client, DEFAULT_RATES_WITHIN, Error, Job, Lock, LockOptions, Millis, Outcome, Queue, State};
use serde::Deserialize;
use serde_json::{Value, json};
use support::Server;

use arguments::{Target, Verb, even_null, lock_options, new_limits, reserve_options, span, when};
use views::{counts, found_view, limits, rates, requeued, shown, trace, view, worker};

const START: Millis = Millis::from_secs(1_790_000_000);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    #[serde(rename = "why")]
    _why: Option<String>,
    max_data_bytes: Option<usize>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    r#do: String,
    #[serde(default)]
    args: serde_json::Map<String, Value>,
    client: Option<String>,
    r#as: Option<String>,
    #[serde(default, deserialize_with = "even_null")]
    expect: Option<Value>,
    error: Option<String>,
    job_id: Option<Value>,
    job_state: Option<String>,
    says: Option<String>,
}

/// Why a step did not get as far as a result: duly refused it, or the scenario is wrong.
enum Stop {
    Refused(Error),
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// One scenario while it runs.
struct Run {
    server: Arc<Server>,
    prefix: String,
    max_data_bytes: Option<usize>,
    clock: Millis,
    clients: HashMap<String, Client>,
    kept: HashMap<String, Value>,
    /// By id and token.
    jobs: HashMap<(String, u64), Job>,
    /// By name and token.
    locks: HashMap<(String, u64), Lock>,
}

fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let scenarios = scenarios();
    let server = Arc::new(Server::start());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut passed, mut filtered, mut failures) = (0, 0, Vec::new());
    for (number, (name, scenario)) in scenarios.into_iter().enumerate() {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            filtered += 1;
            continue;
        }
        let task = run(server.clone(), number, scenario);
        // As a task of its own, so that a panic fails this scenario and not the run.
        let outcome =
            runtime.block_on(async { tokio::spawn(task).await }).unwrap_or_else(|panic| Err(panic.to_string()));
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        match outcome {
            Ok(()) => passed += 1,
            Err(reason) => failures.push(format!("{name}: {reason}")),
        }
    }
    for failure in &failures {
        println!("\n{failure}");
    }
    let good = failures.is_empty() && passed > 0;
    let word = if good { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {} failed; 0 ignored; {filtered} filtered out", failures.len());
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All scenarios, as `<topic>/<name>`, and the example in the definition of the format.
fn scenarios() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/scenarios");
    let definition = std::fs::read_to_string(folder.join("../README.md")).unwrap();
    let example = definition.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let examples: Vec<Scenario> = serde_json::from_str(example).unwrap();
    let mut all: Vec<_> = examples.into_iter().map(|example| (format!("README/{}", example.name), example)).collect();
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut names = std::collections::HashSet::new();
    for file in files {
        let topic = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let list: Vec<Scenario> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{topic}: {error}"));
        for scenario in list {
            assert!(names.insert(scenario.name.clone()), "two scenarios are called {}", scenario.name);
            all.push((format!("{topic}/{}", scenario.name), scenario));
        }
    }
    assert!(!names.is_empty(), "there are no scenarios in {}", folder.display());
    all
}

async fn run(server: Arc<Server>, number: usize, scenario: Scenario) -> Result<(), String> {
    let mut run = Run {
        server,
        prefix: format!("c{number}:"),
        max_data_bytes: scenario.max_data_bytes,
        clock: START,
        clients: HashMap::new(),
        kept: HashMap::new(),
        jobs: HashMap::new(),
        locks: HashMap::new(),
    };
    run.set_clock()?;
    for (index, step) in scenario.steps.into_iter().enumerate() {
        let verb = step.r#do.clone();
        run.step(step).await.map_err(|reason| format!("step {} ({verb}): {reason}", index + 1))?;
    }
    Ok(())
}

fn decoded<V: serde::de::DeserializeOwned>(verb: &str, args: &Value) -> Result<V, String> {
    serde_json::from_value(json!({ verb: args })).map_err(|error| error.to_string())
}

impl Run {
    async fn step(&mut self, step: Step) -> Result<(), String> {
        let args = self.resolved(Value::Object(step.args))?;
        let client = step.client.unwrap_or_else(|| "a".to_owned());
        let called = if topics::has(&step.r#do) {
            self.queue(&client, "q").map_err(|error| error.to_string())?; // makes the client
            let verb = decoded(&step.r#do, &args)?;
            topics::call(&self.clients[&client], verb).await.map_err(Stop::Refused)
        } else {
            self.call(&client, decoded(&step.r#do, &args)?).await
        };
        let result = match (called, step.error) {
            (Err(Stop::Wrong(reason)), _) => return Err(reason),
            (Err(Stop::Refused(error)), Some(kind)) => {
                let job_id = step.job_id.map(|id| self.resolved(id)).transpose()?;
                let as_said = error.kind().as_str() == kind
                    && job_id.is_none_or(|id| id.as_str() == error.job_id())
                    && step.job_state.is_none_or(|state| error.job_state().is_some_and(|is| is.as_str() == state))
                    && step.says.is_none_or(|text| error.to_string().contains(&text));
                return if as_said { Ok(()) } else { Err(format!("not the expected error: {error:?}")) };
            }
            (Err(Stop::Refused(error)), None) => return Err(format!("{}: {error}", error.kind().as_str())),
            (Ok(result), Some(kind)) => return Err(format!("gave {result} instead of the error {kind}")),
            (Ok(result), None) => result,
        };
        if let Some(expected) = step.expect {
            let expected = self.resolved(expected)?;
            matches(&expected, &result, "")?;
        }
        if let Some(name) = step.r#as {
            self.kept.insert(name, result);
        }
        Ok(())
    }

    /// The value with references and repeated texts replaced.
    fn resolved(&self, value: Value) -> Result<Value, String> {
        match value {
            Value::String(text) if text.starts_with('$') => {
                let mut path = text[1..].split('.');
                let name = path.next().unwrap_or_default();
                let mut found = self.kept.get(name).ok_or_else(|| format!("nothing is kept as {text}"))?;
                for part in path {
                    let inner = part.parse::<usize>().map_or_else(|_| found.get(part), |index| found.get(index));
                    found = inner.ok_or_else(|| format!("there is no {text}"))?;
                }
                Ok(found.clone())
            }
            Value::Object(fields) => match (fields.get("repeat"), fields.get("times").and_then(Value::as_u64)) {
                (Some(Value::String(text)), Some(times)) => {
                    Ok(text.repeat(usize::try_from(times).unwrap_or_default()).into())
                }
                _ => fields.into_iter().map(|(name, inner)| Ok((name, self.resolved(inner)?))).collect(),
            },
            Value::Array(list) => list.into_iter().map(|inner| self.resolved(inner)).collect(),
            plain => Ok(plain),
        }
    }

    fn queue(&mut self, client: &str, name: &str) -> Result<Queue, Error> {
        if !self.clients.contains_key(client) {
            let builder = self.server.builder().prefix(&self.prefix).manual_clock();
            let builder = match self.max_data_bytes {
                Some(max) => builder.max_data_bytes(max),
                None => builder,
            };
            self.clients.insert(client.to_owned(), builder.build()?);
        }
        self.clients[client].queue(name)
    }

    fn job(&self, reserved: &Value) -> Result<&Job, Stop> {
        let id = reserved["id"].as_str().unwrap_or_default().to_owned();
        let token = reserved["token"].as_u64().unwrap_or_default();
        self.jobs.get(&(id, token)).ok_or_else(|| Stop::Wrong(format!("{reserved} is no reserved job")))
    }

    fn keep(&mut self, job: Job) -> Value {
        let mut shown = shown(&job.envelope);
        shown["attempt"] = json!(job.attempt());
        shown["token"] = json!(job.token());
        shown["returns"] = json!(job.returns);
        shown["redelivered"] = json!(job.redelivered());
        self.jobs.insert((job.id().to_owned(), job.token()), job);
        shown
    }

    fn keep_lock(&mut self, lock: Lock) -> Value {
        let whole_seconds = lock.waited().as_secs(); // so that one that was not waited for has waited 0
        let shown = json!({ "name": lock.name(), "token": lock.token(), "waited": whole_seconds });
        self.locks.insert((lock.name().to_owned(), lock.token()), lock);
        shown
    }

    fn lock(&self, shown: &Value) -> Result<&Lock, Stop> {
        let name = shown["name"].as_str().unwrap_or_default().to_owned();
        let token = shown["token"].as_u64().unwrap_or_default();
        self.locks.get(&(name, token)).ok_or_else(|| Stop::Wrong(format!("{shown} is no lock")))
    }

    async fn lock_for_job(
        &mut self,
        job: &Value,
        name: &str,
        retry_after: f64,
        options: &LockOptions,
    ) -> Result<Value, Stop> {
        let job = self.job(job)?;
        match job.lock(name, options).await? {
            Ok(lock) => Ok(self.keep_lock(lock)),
            Err(taken) => {
                let outcome = Outcome::Release { after: Millis::from_seconds(retry_after)?, counted: false };
                Ok(job.settle(outcome, &taken.to_string()).await.map(|_| Value::Null)?)
            }
        }
    }

    #[allow(clippy::too_many_lines)] // one arm a verb
    async fn call(&mut self, client: &str, verb: Verb) -> Result<Value, Stop> {
        let queue = self.queue(client, "q")?;
        Ok(match verb {
            Verb::Queue { name } => self.queue(client, &name).map(|_| Value::Null)?,
            Verb::Push(job) => json!(queue.push(job.made("")?).await?.id()),
            Verb::PushMany { jobs, times } => {
                let mut all = Vec::new();
                for round in 0..times.unwrap_or(1) {
                    for job in &jobs {
                        all.push(job.clone().made(&round.to_string())?);
                    }
                }
                let summary = queue.push_many(all, |_| {}).await?;
                json!({
                    "created": summary.created, "kept": summary.kept, "replaced": summary.replaced,
                    "duplicates": summary.duplicates,
                })
            }
            Verb::Reserve { lease } => {
                let mut jobs = queue.reserve(&reserve_options(1, lease)?).await?;
                jobs.pop().map_or(Value::Null, |job| self.keep(job))
            }
            Verb::ReserveMany { max, lease } => {
                let jobs = queue.reserve(&reserve_options(max, lease)?).await?;
                jobs.into_iter().map(|job| self.keep(job)).collect()
            }
            Verb::Ack { job, result: None } => self.job(&job)?.ack().await.map(|()| Value::Null)?,
            Verb::Ack { job, result } => self.job(&job)?.ack_with(&result).await.map(|()| Value::Null)?,
            Verb::AckMany { jobs } => {
                let jobs: Vec<Job> = jobs.iter().map(|job| self.job(job).cloned()).collect::<Result<_, _>>()?;
                json!(queue.ack_all(&jobs).await?)
            }
            Verb::Fail { job, error, retry_after, counted, r#final, attempts, max_retries, headers, name } => {
                let after = retry_after.map(Millis::from_seconds).transpose()?;
                let outcome = if r#final == Some(true) {
                    Outcome::FailNow
                } else {
                    Outcome::Retry { after, counted: counted.unwrap_or(true) }
                };
                let job = self.job(&job)?;
                let mut changed = job.envelope.clone();
                changed.attempts = attempts.unwrap_or(changed.attempts);
                changed.max_attempts = max_retries.unwrap_or(changed.max_attempts);
                changed.headers.extend(headers.unwrap_or_default());
                changed.name = name.or(changed.name);
                let settled = if changed == job.envelope {
                    job.settle(outcome, &error).await
                } else {
                    changed.error = error;
                    job.settle_rewritten(outcome, changed).await
                };
                settled.map(|_| Value::Null)?
            }
            Verb::Release { job, after, reason, counted } => {
                let after = Millis::from_seconds(after.unwrap_or(0.0))?;
                let release = Outcome::Release { after, counted: counted.unwrap_or(false) };
                let reason = reason.unwrap_or_default();
                self.job(&job)?.settle(release, &reason).await.map(|_| Value::Null)?
            }
            Verb::NoteStart { job } => self.job(&job)?.note_start().await.map(|()| Value::Null)?,
            Verb::Extend { job, lease } => self.job(&job)?.extend(span(lease)?).await.map(|()| Value::Null)?,
            Verb::Cancel { id, key, only } => {
                let states = |only: Vec<String>| only.iter().map(|state| State::parse(state)).collect();
                let only: Option<Vec<State>> = only.map(states).transpose()?;
                let cancelled = match (id, key, only) {
                    (Some(id), None, None) => queue.cancel(&id).await?,
                    (Some(id), None, Some(only)) => queue.cancel_only(&id, &only).await?,
                    (None, Some(key), None) => queue.cancel_key(&key).await?,
                    (None, Some(key), Some(only)) => queue.cancel_key_only(&key, &only).await?,
                    _ => return Err(Stop::Wrong("either id or key".to_owned())),
                };
                cancelled.map_or(Value::Null, |job| json!({ "id": job.id, "was": job.was.as_str() }))
            }
            Verb::Reschedule { id, key, delay, at } => match (id, key) {
                (Some(id), None) => json!(queue.reschedule(&id, when(delay, at)?).await?),
                (None, Some(key)) => json!(queue.reschedule_key(&key, when(delay, at)?).await?),
                _ => return Err(Stop::Wrong("either id or key".to_owned())),
            },
            Verb::Requeue { ids } => queue.requeue(&ids).await?.iter().map(requeued).collect(),
            Verb::RequeueAll {} => json!(queue.requeue_all().await?),
            Verb::Purge { state } => json!(queue.purge(State::parse(&state)?).await?),
            Verb::Clear {} => json!(queue.clear().await?),
            Verb::Pause {} => queue.pause().await.map(|()| Value::Null)?,
            Verb::Resume {} => queue.resume().await.map(|()| Value::Null)?,
            Verb::Promote {} => json!(queue.promote().await?),
            Verb::Reclaim {} => json!(queue.reclaim().await?),
            Verb::KeepFailed { max, age } => queue.keep_failed(max, span(age)?).await.map(|()| Value::Null)?,
            Verb::KeepHistory { jobs, age } => {
                let age = age.map_or(Ok(duly::DEFAULT_HISTORY_AGE), span)?;
                let jobs = jobs.unwrap_or(duly::DEFAULT_HISTORY_JOBS);
                queue.keep_history(jobs, age).await.map(|()| Value::Null)?
            }
            Verb::Trace { id } => queue.trace(&id).await?.map_or(Value::Null, |known| trace(&known)),
            Verb::SetLimits { concurrency, rate, names, max_length } => {
                let mut limits = new_limits(concurrency, rate, names.unwrap_or_default())?;
                limits.max_length = max_length;
                queue.set_limits(&limits).await.map(|()| Value::Null)?
            }
            Verb::Limits {} => limits(&queue).await?,
            Verb::Counts {} => counts(&queue).await?,
            Verb::Peek { state, offset, limit } => {
                let page = queue.peek(State::parse(&state)?, offset.unwrap_or(0), limit.unwrap_or(100)).await?;
                page.iter().map(view).collect()
            }
            Verb::Search(search) => {
                let (state, limit) = (State::parse(&search.state)?, search.limit.unwrap_or(100));
                let page = queue.search(state, &search.filter()?, search.cursor.as_deref(), limit).await?;
                let jobs: Value = page.jobs.iter().map(view).collect();
                json!({"jobs": jobs, "looked_at": page.looked_at, "cursor": page.cursor})
            }
            Verb::Find(target) => match target {
                Target::Id(id) => queue.find(&id).await?,
                Target::Key(key) => queue.find_key(&key).await?,
            }
            .map_or(Value::Null, |found| found_view(&found)),
            Verb::Progress { job, fraction, text } => {
                let noted = self.job(&job)?.progress(fraction, &text.unwrap_or_default()).await;
                noted.map(|()| Value::Null)?
            }
            Verb::Lock { name, ttl, wait } => {
                let lock = self.clients[client].lock(&name, &lock_options(ttl, wait)?).await?;
                self.keep_lock(lock)
            }
            Verb::Unlock { lock } => json!(self.lock(&lock)?.release().await?),
            Verb::LockForJob { job, name, retry_after, ttl, wait } => {
                self.lock_for_job(&job, &name, retry_after, &lock_options(ttl, wait)?).await?
            }
            Verb::Queues { limit, cursor } => {
                json!(self.clients[client].queues(limit.unwrap_or(100), cursor.as_deref()).await?)
            }
            Verb::Delete { jobs } => queue.delete(jobs).await.map(|()| Value::Null)?,
            Verb::Workers {} => queue.workers().await?.iter().map(worker).collect(),
            Verb::Rates { within } => rates(&queue.rates(within.map_or(Ok(DEFAULT_RATES_WITHIN), span)?).await?),
            Verb::WaitResult { id, timeout } => {
                queue.wait_result(&id, timeout.map(span).transpose()?).await?.deserialize()?
            }
            Verb::PutSchedule { name, schedule } => schedules::put(&queue, &name, *schedule).await?,
            Verb::RemoveSchedule(of) => json!(queue.schedules().remove(&of.name).await?),
            Verb::GetSchedule(of) => {
                queue.schedules().get(&of.name).await?.as_ref().map_or(Value::Null, schedules::view)
            }
            Verb::PauseSchedule(of) => json!(queue.schedules().pause(&of.name).await?),
            Verb::ResumeSchedule(of) => json!(queue.schedules().resume(&of.name).await?),
            Verb::RunSchedule(of) => json!(queue.schedules().run_now(&of.name).await?),
            Verb::NextSlots { name, count } => {
                let slots = queue.schedules().next(&name, count).await?;
                slots.into_iter().map(Millis::as_seconds).collect()
            }
            Verb::ListSchedules { offset, limit } => {
                let list = queue.schedules().list(offset.unwrap_or(0), limit.unwrap_or(100)).await?;
                list.iter().map(schedules::view).collect()
            }
            Verb::SyncSchedules { owner, schedules } => schedules::sync(&queue, &owner, schedules).await?,
            Verb::FireDue {} => json!(queue.schedules().fire_due().await?),
            Verb::Advance { seconds } => {
                self.clock = self.clock.saturating_add(Millis::from_seconds(seconds)?);
                self.set_clock().map(|()| Value::Null).map_err(Stop::Wrong)?
            }
            Verb::Redis { command } => json!(self.redis(&command).map_err(Stop::Wrong)?),
        })
    }

    fn set_clock(&self) -> Result<(), String> {
        let set = ["HSET", "{q}:meta", "clock", &self.clock.get().to_string()].map(str::to_owned);
        self.redis(&set).map(|_| ())
    }

    fn redis(&self, args: &[String]) -> Result<String, String> {
        let spelled =
            args.iter().map(|arg| if arg.starts_with("{q}:") { format!("{}{arg}", self.prefix) } else { arg.clone() });
        let port = self.server.port().to_string();
        let output = Command::new("redis-cli").args(["-e", "-p", &port]).args(spelled).output().unwrap();
        if !output.status.success() {
            return Err(format!("redis-cli: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

fn matches(expected: &Value, came: &Value, path: &str) -> Result<(), String> {
    let differs = || Err(format!("the result{path} is {came} and not {expected}"));
    let holds = match (expected, came) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, inner) in fields {
                let Some(part) = came.get(name) else { return Err(format!("the result{path} has no {name}: {came}")) };
                matches(inner, part, &format!("{path}.{name}"))?;
            }
            true
        }
        (Value::Object(fields), Value::Array(list)) => {
            for (name, inner) in fields {
                let part = match name.as_str() {
                    "length" => Some(json!(list.len())),
                    index => index.parse::<usize>().ok().and_then(|index| list.get(index).cloned()),
                };
                let Some(part) = part else { return Err(format!("the result{path} has no {name}: {came}")) };
                matches(inner, &part, &format!("{path}.{name}"))?;
            }
            true
        }
        (Value::Array(wanted), Value::Array(list)) => {
            if wanted.len() != list.len() {
                return differs();
            }
            for (index, (inner, part)) in wanted.iter().zip(list).enumerate() {
                matches(inner, part, &format!("{path}.{index}"))?;
            }
            true
        }
        (Value::Object(matcher), Value::String(text)) => {
            matcher.len() == 1
                && matcher.get("contains").and_then(Value::as_str).is_some_and(|part| text.contains(part))
        }
        (Value::Object(matcher), Value::Number(number)) => {
            matcher.len() == 1
                && matcher.get("greater_than").and_then(Value::as_f64) < number.as_f64()
                && matcher.contains_key("greater_than")
        }
        (Value::Number(wanted), Value::Number(number)) => wanted == number || wanted.as_f64() == number.as_f64(),
        (wanted, value) => wanted == value,
    };
    if holds { Ok(()) } else { differs() }
}
