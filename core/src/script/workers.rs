//! `beat.lua` and `workers.lua`: who works on a queue.

use redis::Value;

use super::declare::script;
use super::reply::{array, bytes, lossy, next};
use crate::error::Error;

script! {
    /// A worker is alive, or leaves.
    Beat = "beat",
    keys: [Meta, Workers, WorkerInfos],
    arguments: { worker: String, life_ms: u64, info: String }
}

script! {
    /// Who is alive.
    Alive = "workers",
    keys: [Meta, Workers, WorkerInfos],
    arguments: {}
}

/// Id and info of each worker.
pub(crate) fn alive(reply: Value) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut items = array(reply)?.into_iter();
    let mut workers = Vec::new();
    while let Some(id) = items.next() {
        workers.push((lossy(id)?, bytes(next(&mut items, "what a worker says of itself")?)?));
    }
    Ok(workers)
}
