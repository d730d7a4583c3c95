//! The plain path, a few calls of each kind, for whoever counts what they cost: `duly-guard <url> [--monitor]`.
//!
//! `bench/guard.py` (`python -m bench.guard`) starts it and the server. Before and behind the calls of a phase it prints a line and
//! waits for one, so that instructions can be counted between the two. The server must be nobody else's: it is flushed.
#![allow(unsafe_code)] // the counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duly::{Job, NewJob, Queue, ReserveOptions, Settlement};
use serde_json::json;

type Failure = Box<dyn std::error::Error>;

/// Longer than any phase under a tool that slows it down fifty times.
const LEASE: Duration = Duration::from_secs(3600);
const DELAY: Duration = Duration::from_secs(86_400);
/// Calls of one job in a phase, and of a batch. Both are multiples of 50: as often the server has its Lua tidy up, and where in a
/// shorter phase that falls is chance.
const SINGLE_CALLS: usize = 100;
const BATCH_CALLS: usize = 50;
const BATCH: usize = 100;

/// Counts what this process allocates.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What one call of a phase does, and how many of them are made.
#[derive(Clone, Copy)]
struct Phase {
    name: &'static str,
    verb: Verb,
    jobs: usize,
}

#[derive(Clone, Copy)]
enum Verb {
    Push,
    PushDelayed,
    Reserve,
    Ack,
    Settle,
}

const PHASES: [Phase; 7] = [
    Phase { name: "push", verb: Verb::Push, jobs: 1 },
    Phase { name: "reserve", verb: Verb::Reserve, jobs: 1 },
    Phase { name: "ack", verb: Verb::Ack, jobs: 1 },
    Phase { name: "push_delayed", verb: Verb::PushDelayed, jobs: 1 },
    Phase { name: "push_many_100", verb: Verb::Push, jobs: BATCH },
    Phase { name: "reserve_100", verb: Verb::Reserve, jobs: BATCH },
    Phase { name: "settle_100", verb: Verb::Settle, jobs: BATCH },
];

impl Phase {
    fn calls(self) -> usize {
        if self.jobs == 1 { SINGLE_CALLS } else { BATCH_CALLS }
    }
}

/// A job with 200 bytes of JSON, and nothing else that is not made for it.
fn plain_job() -> Result<NewJob, Failure> {
    Ok(NewJob::from_json(format!(r#"{{"order_id":42,"body":"{}"}}"#, "x".repeat(173)))?)
}

/// The calls of one phase. `held` has the leases of the phases before, and takes those of this one.
async fn calls(queue: &Queue, phase: Phase, calls: usize, held: &mut Vec<Vec<Job>>) -> Result<(), Failure> {
    let options = ReserveOptions::new().max(phase.jobs).lease(LEASE);
    for _ in 0..calls {
        match phase.verb {
            Verb::Push if phase.jobs == 1 => drop(queue.push(plain_job()?).await?),
            Verb::Push => drop(queue.push_batch(vec![plain_job()?; phase.jobs]).await?),
            Verb::PushDelayed => drop(queue.push(plain_job()?.delay(DELAY)).await?),
            Verb::Reserve => {
                let jobs = queue.reserve(&options).await?;
                if jobs.len() != phase.jobs {
                    return Err(format!("{}: reserved {} of {} jobs", phase.name, jobs.len(), phase.jobs).into());
                }
                held.push(jobs);
            }
            Verb::Ack => held.pop().and_then(|mut jobs| jobs.pop()).ok_or("no lease is left")?.ack().await?,
            Verb::Settle => {
                let jobs = held.pop().ok_or("no lease is left")?;
                let done: Vec<_> = jobs.iter().map(Settlement::done).collect();
                if queue.settle_all(&done).await?.contains(&false) {
                    return Err("a lease was lost".into());
                }
            }
        }
    }
    Ok(())
}

/// Tells that something is to begin or has ended, and waits until the caller is ready for it.
fn meet(line: &serde_json::Value) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// The server as an onlooker sees it.
struct Onlooker {
    connection: redis::Connection,
    url: String,
}

/// What the server has done so far.
struct Done {
    commands: BTreeMap<String, u64>,
    bytes_in: u64,
    bytes_out: u64,
}

impl Onlooker {
    fn look(&mut self) -> Result<Done, Failure> {
        let stats: String = redis::cmd("INFO").arg("stats").query(&mut self.connection)?;
        let commands: String = redis::cmd("INFO").arg("commandstats").query(&mut self.connection)?;
        let number = |name: &str| -> Result<u64, Failure> {
            let found = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(found.ok_or_else(|| format!("the server's INFO has no {name}"))?.trim().parse()?)
        };
        let mut calls = BTreeMap::new();
        for line in commands.lines() {
            let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(":calls=")) else {
                continue;
            };
            if !matches!(name, "info" | "monitor") {
                calls.insert(name.to_owned(), rest.split(',').next().unwrap_or_default().parse()?);
            }
        }
        Ok(Done {
            commands: calls,
            bytes_in: number("total_net_input_bytes")?,
            bytes_out: number("total_net_output_bytes")?,
        })
    }

    /// The keys that script calls are given: how many each, all calls of `make` together.
    fn keys_of(&self, make: impl FnOnce() -> Result<(), Failure>) -> Result<u64, Failure> {
        const END: &str = "the calls have ended";
        let mut monitor = redis::Client::open(self.url.as_str())?.get_connection()?;
        redis::cmd("MONITOR").exec(&mut monitor)?;
        make()?;
        redis::cmd("ECHO").arg(END).exec(&mut redis::Client::open(self.url.as_str())?.get_connection()?)?;
        let mut keys = 0;
        loop {
            let redis::Value::SimpleString(line) = monitor.recv_response()? else { continue };
            if line.contains(END) {
                return Ok(keys);
            }
            // `1700000000.123456 [0 127.0.0.1:5] "EVALSHA" "<digest>" "<number of keys>" ...`
            let mut words = line.split('"').skip(1).step_by(2);
            if words.next().is_some_and(|word| word.eq_ignore_ascii_case("evalsha")) {
                keys += words.nth(1).ok_or("a script call without a number of keys")?.parse::<u64>()?;
            }
        }
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (url, counts_keys) = match arguments.as_slice() {
        [url] => (url, false),
        [url, option] if option == "--monitor" => (url, true),
        _ => return Err("usage: duly-guard <url> [--monitor]".into()),
    };
    let mut onlooker = Onlooker { connection: redis::Client::open(url.as_str())?.get_connection()?, url: url.clone() };
    redis::cmd("FLUSHALL").arg("SYNC").exec(&mut onlooker.connection)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let queue = duly::Client::builder().url(url).deadline(Duration::from_secs(120)).build()?.queue("guard")?;
    let mut held = Vec::new();
    // The first calls connect and bring the scripts to the server.
    for phase in PHASES {
        runtime.block_on(calls(&queue, phase, 2, &mut held))?;
    }
    for phase in PHASES {
        let (count, name) = (phase.calls(), phase.name);
        if counts_keys {
            let keys = onlooker.keys_of(|| runtime.block_on(calls(&queue, phase, count, &mut held)))?;
            meet(&json!({ "phase": name, "calls": count, "keys": keys }))?;
            continue;
        }
        // What looking itself costs is between the first two looks.
        let first = onlooker.look()?;
        let before = onlooker.look()?;
        meet(&json!({ "begin": name }))?;
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        runtime.block_on(calls(&queue, phase, count, &mut held))?;
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        meet(&json!({ "end": name }))?;
        let after = onlooker.look()?;
        let mut commands = after.commands;
        for (command, calls) in before.commands {
            commands.entry(command).and_modify(|all| *all -= calls);
        }
        commands.retain(|_, calls| *calls > 0);
        meet(&json!({
            "phase": name,
            "calls": count,
            "commands": commands,
            "bytes_in": after.bytes_in - before.bytes_in - (before.bytes_in - first.bytes_in),
            "bytes_out": after.bytes_out - before.bytes_out - (before.bytes_out - first.bytes_out),
            "allocations": allocations,
        }))?;
    }
    Ok(())
}
