//! The workers of a queue: each one reports every few seconds, and never anything of a job's data.

use serde::{Deserialize, Serialize};

use crate::queue::{Part, Queue};
use crate::script::{Alive, AliveReply, Beat, BeatReply, Declared};
use crate::value::error::Error;
use crate::value::time::Millis;

/// The most runs that a worker reports.
pub(crate) const MOST_RUNNING: usize = 20;

/// A worker that is alive. All times are of its host's clock.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerInfo {
    /// The worker's own id, new at each start.
    #[serde(skip)]
    pub id: String,
    /// The host on which it runs, and its process there.
    pub host: String,
    /// See `host`.
    pub pid: u32,
    /// `rust`, `python` or `php`.
    pub language: String,
    /// The version of duly.
    pub version: String,
    /// The name given to the worker.
    pub name: Option<String>,
    /// All queues that it serves.
    pub queues: Vec<String>,
    /// How many handlers it runs at once.
    pub concurrency: usize,
    /// When it started.
    pub started_at: Millis,
    /// The jobs of this queue that it runs, at most 20, as of its last report, up to 10 s ago.
    pub running: Vec<RunningJob>,
}

/// A job that a worker runs.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunningJob {
    /// The job's id.
    pub id: String,
    /// Its handler's name.
    pub name: Option<String>,
    /// When this run began.
    pub started_at: Millis,
}

impl Queue {
    /// The workers that are alive, 1,000 at most. A worker that died disappears after three of its periods without a report,
    /// usually 30 s; one that stops disappears at once. A worker that serves several parts of a partitioned queue is there once.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let mut all = Vec::new();
        for part in self.each_part() {
            merge(&mut all, part.workers().await?);
        }
        Ok(all)
    }
}

impl Part {
    pub(super) async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let alive = self.run(Alive {}.with([])).await?;
        // What cannot be read, another version's perhaps, is alive all the same.
        let read = |AliveReply { id, info }| WorkerInfo { id, ..serde_json::from_slice(&info).unwrap_or_default() };
        Ok(alive.into_iter().map(read).collect())
    }

    /// Reports that this worker is alive for so many milliseconds from now, 0: that it leaves; and what its runs came to. Gives what it
    /// should know.
    pub(crate) async fn beat(
        &self,
        worker: &WorkerInfo,
        life_ms: u64,
        tallies: &[(String, String)],
    ) -> Result<BeatReply, Error> {
        let info = serde_json::to_string(worker).unwrap_or_default();
        let tallies = tallies.iter().map(|(whose, tally)| (whose.as_bytes(), tally.as_bytes()));
        self.run(Beat { worker: worker.id.clone(), life_ms, info }.with(tallies)).await
    }
}

fn merge(all: &mut Vec<WorkerInfo>, more: Vec<WorkerInfo>) {
    for worker in more {
        match all.iter_mut().find(|known| known.id == worker.id) {
            Some(known) => {
                known.running.extend(worker.running);
                known.running.truncate(MOST_RUNNING);
            }
            None => all.push(worker),
        }
    }
}
