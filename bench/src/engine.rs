//! Jobs that live in duly.

use std::time::Duration;

use duly::{Job, NewJob, Queue, ReserveOptions};

use crate::cycle::Way;
use crate::server::{Failure, Server};

/// Longer than a lease must be while a run lasts, on a slow machine too.
const LEASE: Duration = Duration::from_secs(600);
const DELAY: Duration = Duration::from_millis(30);
const DATA_BYTES: usize = 200;

/// A queue, and the job that is pushed again and again.
pub(crate) struct Engine {
    queue: Queue,
    job: NewJob,
    delay: Option<Duration>,
    keeps_history: bool,
}

/// A job with 200 bytes of JSON, and nothing else that is not made for it.
pub(crate) fn plain_job() -> Result<NewJob, Failure> {
    Ok(NewJob::from_json(data())?)
}

/// 200 bytes of JSON.
pub(crate) fn data() -> String {
    let start = r#"{"order_id":42,"to":"someone@example.org","body":""#;
    let end = r#""}"#;
    format!("{start}{}{end}", "x".repeat(DATA_BYTES - start.len() - end.len()))
}

impl Engine {
    pub(crate) fn ready(server: &Server) -> Result<Self, Failure> {
        Ok(Self { queue: server.client()?.queue("ready")?, job: plain_job()?, delay: None, keeps_history: false })
    }

    /// The same in a queue that keeps a history of the default size.
    pub(crate) fn with_history(server: &Server) -> Result<Self, Failure> {
        Ok(Self { queue: server.client()?.queue("noted")?, keeps_history: true, ..Self::ready(server)? })
    }

    /// The jobs are delayed by a moment, and reserving promotes them.
    pub(crate) fn delayed(server: &Server) -> Result<Self, Failure> {
        let job = plain_job()?.delay(DELAY);
        Ok(Self { queue: server.client()?.queue("delayed")?, job, delay: Some(DELAY), keeps_history: false })
    }

    pub(crate) async fn push_many(&self, jobs: usize) -> Result<(), Failure> {
        let summary = self.queue.push_many(std::iter::repeat_n(self.job.clone(), jobs), |_| ()).await?;
        if usize::try_from(summary.created)? == jobs { Ok(()) } else { Err("not all jobs were created".into()) }
    }

    /// Promotes all of them.
    pub(crate) async fn promote(&self, jobs: usize) -> Result<(), Failure> {
        let promoted = self.queue.promote().await?;
        if usize::try_from(promoted)? == jobs { Ok(()) } else { Err(format!("{promoted} of {jobs} were due").into()) }
    }
}

impl Way for Engine {
    type Held = Vec<Job>;

    async fn begin(&self) -> Result<(), Failure> {
        if self.keeps_history {
            self.queue.keep_history(duly::DEFAULT_HISTORY_JOBS, duly::DEFAULT_HISTORY_AGE).await?;
        }
        Ok(())
    }

    async fn push(&self, jobs: usize) -> Result<(), Failure> {
        if jobs == 1 {
            self.queue.push(self.job.clone()).await?;
        } else {
            self.queue.push_batch(vec![self.job.clone(); jobs]).await?;
        }
        Ok(())
    }

    async fn until_due(&self) -> Result<(), Failure> {
        if let Some(delay) = self.delay {
            tokio::time::sleep(delay + Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn reserve(&self, jobs: usize) -> Result<Vec<Job>, Failure> {
        let held = self.queue.reserve(&ReserveOptions::new().max(jobs).lease(LEASE)).await?;
        if held.len() == jobs { Ok(held) } else { Err(format!("reserved {} of {jobs} jobs", held.len()).into()) }
    }

    async fn ack(&self, held: Vec<Job>) -> Result<(), Failure> {
        if let [job] = held.as_slice() {
            job.ack().await?;
        } else if self.queue.ack_all(&held).await?.contains(&false) {
            return Err("a lease was lost".into());
        }
        Ok(())
    }
}
