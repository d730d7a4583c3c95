//! Measures the engine on a running server and prints one JSON object a line: `duly-bench <part> <url>`.
//!
//! `bench/run.py` (`python -m bench.run`) starts the server, places server and client on their CPUs, and runs the parts. The server must be
//! nobody else's: it is flushed between runs.

mod alone;
mod bridge;
mod cycle;
mod engine;
mod figure;
mod floor;
mod memory;
mod schedules;
mod server;
mod stall;
mod topics;
mod waits;
mod worker;

use server::{Failure, Server};

/// How often each figure is taken.
const RUNS: usize = 5;

/// The parts, and what they measure.
const PARTS: &str = "cycle (server CPU and throughput), memory, stall (the longest call), alone (one call at a time), \
                     combined (the floor of a worker's rate), waits (the floor of its latencies), schedules, topics, \
                     bridge (between two servers)";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [part, url, queue, number] = arguments.as_slice() {
        let number = number.parse()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        return match part.as_str() {
            "worker" => runtime.block_on(worker::run(url, queue, number)),
            "hold" => runtime.block_on(worker::hold(url, queue, number)),
            "idle" => worker::idle(url, queue, number),
            _ => Err("the programs of bench/workers.py are: worker, hold, idle".into()),
        };
    }
    let [part, url] = arguments.as_slice() else {
        return Err(format!("usage: duly-bench <part> <url>; parts: {PARTS}").into());
    };
    let mut server = Server::connect(url)?;
    if part == "alone" {
        // The blocking facade brings its own runtime.
        alone::through_the_facade(&mut server)?;
    }
    if part == "waits" {
        return waits::measure(&mut server);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match part.as_str() {
            "cycle" => cycle::measure(&mut server).await,
            "memory" => memory::measure(&mut server).await,
            "stall" => stall::measure(&mut server).await,
            "schedules" => schedules::measure(&mut server).await,
            "topics" => topics::measure(&mut server).await,
            "bridge" => bridge::measure(&mut server).await,
            "alone" => alone::beside_set(&mut server).await,
            "combined" => worker::floor(&mut server).await,
            _ => Err(format!("no part '{part}'; parts: {PARTS}").into()),
        }
    })
}
