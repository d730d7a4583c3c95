//! Tells each queue that this worker is alive, and what it runs.
//!
//! Beside the fetch loop and the renewal of leases, so that it holds up neither; and silent, because trouble is told by the
//! loop.

use std::convert::Infallible;
use std::time::Duration;

use super::WorkerSettings;
use super::desk::Desk;
use crate::error::Error;
use crate::host;
use crate::id::IdGenerator;
use crate::queue::Queue;
use crate::registry::{MOST_RUNNING, WorkerInfo};
use crate::time::whole_ms;

/// As often as others look for dead workers, which is as long as a lease, but no busier and no lazier than this.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// Who has missed so many is dead.
const PERIODS_OF_LIFE: u32 = 3;
/// How long a worker that stops tries to say so. If it cannot, it is taken for dead a little later.
const FAREWELL: Duration = Duration::from_millis(500);

pub(super) struct Presence {
    queues: Vec<Queue>,
    every: Duration,
    worker: WorkerInfo,
}

impl Presence {
    pub(super) fn new(queues: Vec<Queue>, settings: &WorkerSettings) -> Result<Self, Error> {
        let now = host::now();
        let worker = WorkerInfo {
            id: IdGenerator::new().next(now)?.into(),
            host: host_name(),
            pid: std::process::id(),
            language: settings.language.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: settings.name.clone(),
            queues: settings.queues.iter().map(|(name, _)| name.clone()).collect(),
            concurrency: settings.concurrency,
            started_at: now,
            running: Vec::new(),
        };
        Ok(Self { queues, every: settings.lease.clamp(SHORTEST, LONGEST), worker })
    }

    /// Never ends.
    pub(super) async fn show(&self, desk: &Desk) -> Infallible {
        let life = self.every * PERIODS_OF_LIFE;
        let life_ms = whole_ms(life);
        loop {
            for (lane, queue) in self.queues.iter().enumerate() {
                let running = desk.running(lane, MOST_RUNNING, host::now());
                // An outage is told by the fetch loop, and the next beat comes by itself.
                let _ = queue.beat(&WorkerInfo { running, ..self.worker.clone() }, life_ms).await;
            }
            tokio::time::sleep(self.every.mul_f64(0.9 + 0.2 * host::random_fraction())).await;
        }
    }

    /// The worker has stopped.
    pub(super) async fn leave(&self) {
        let leave = async {
            for queue in &self.queues {
                let _ = queue.beat(&self.worker, 0).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, leave).await;
    }
}

fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: it writes at most as many bytes as the buffer has.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0;
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    if failed { String::new() } else { String::from_utf8_lossy(&name[..length]).into_owned() }
}
