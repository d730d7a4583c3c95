//! Reports to each queue that this worker is alive, and what it runs; and hears of jobs that failed while no hook was called.
//!
//! Beside the fetch loop and the renewal of leases, so that it holds up neither; and silent as long as the
//! loop reports an outage. Each queue by itself: one whose node does not answer must not make the others take this worker for dead.

use std::convert::Infallible;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::WorkerSettings;
use super::appetite::Appetite;
use super::desk::{Beside, Desk};
use super::event::BesideJobs;
use crate::operate::{MOST_RUNNING, WorkerInfo};
use crate::process::host;
use crate::queue::Part;
use crate::script::BeatReply;
use crate::value::error::{Error, ErrorKind};
use crate::value::id::IdGenerator;
use crate::value::time::whole_ms;

/// As often as others look for dead workers, which is as long as a lease, but no busier and no lazier than this.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// A worker that has missed so many is dead.
const PERIODS_OF_LIFE: u32 = 3;
/// How long a worker that stops tries to say so, and before that waits for hooks. If it cannot, it is taken for dead a little later.
const FAREWELL: Duration = Duration::from_millis(500);

pub(super) struct Presence {
    queues: Vec<Part>,
    /// The same with the user's client, for the jobs in events.
    queues_of_jobs: Vec<Part>,
    every: Duration,
    worker: WorkerInfo,
}

impl Presence {
    pub(super) fn new(queues: Vec<Part>, queues_of_jobs: Vec<Part>, settings: &WorkerSettings) -> Result<Self, Error> {
        let now = host::now();
        let worker = WorkerInfo {
            id: IdGenerator::new().next(now)?.into(),
            host: host::name(),
            pid: std::process::id(),
            language: settings.language.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: settings.name.clone(),
            queues: settings.queues.iter().map(|(name, _)| name.clone()).collect(),
            concurrency: settings.concurrency,
            started_at: now,
            running: Vec::new(),
        };
        Ok(Self { queues, queues_of_jobs, every: settings.lease.clamp(SHORTEST, LONGEST), worker })
    }

    /// A task for each queue, until the worker is over.
    pub(super) fn show(self: &Arc<Self>, desk: &Arc<Desk>) -> JoinSet<()> {
        let mut lanes = JoinSet::new();
        for lane in 0..self.queues.len() {
            lanes.spawn(Arc::clone(self).show_to(lane, Arc::clone(desk)));
        }
        lanes
    }

    async fn show_to(self: Arc<Self>, lane: usize, desk: Arc<Desk>) {
        let mut over = std::pin::pin!(desk.until_over());
        let life_ms = whole_ms(self.every * PERIODS_OF_LIFE);
        let mut next = Instant::now();
        let mut is_news = false;
        let mut appetite = Appetite::default();
        let mut presence = Beside::of(&desk, self.queues[lane].name(), BesideJobs::Presence);
        loop {
            if Instant::now() >= next {
                let running = desk.running(lane, MOST_RUNNING, host::now());
                let info = WorkerInfo { running, ..self.worker.clone() };
                // The next beat comes by itself.
                let reply = tokio::select! {
                    reply = self.beat(lane, &desk, &info, life_ms) => reply,
                    () = &mut over => break,
                };
                next = Instant::now() + self.every.mul_f64(0.8 + 0.2 * host::random_fraction());
                match reply {
                    Ok(reply) => {
                        presence.worked();
                        is_news |= desk.beat_answered(lane, &self.queues[lane], reply);
                    }
                    Err(error) => {
                        presence.failed(&error);
                        desk.not_heard(lane);
                    }
                }
            }
            is_news |= desk.look_at_hooks(lane);
            if is_news {
                // To its end: what the server gives to this worker, no other one gets.
                let too_late = async {
                    desk.until_over().await;
                    tokio::time::sleep(FAREWELL).await;
                };
                tokio::select! {
                    () = self.hear(lane, &desk, &mut appetite) => {}
                    () = too_late => break,
                }
            }
            let looks_at = desk.looks_at_hooks_at(lane).map_or(next, |at| next.min(at.into()));
            is_news = tokio::select! {
                () = tokio::time::sleep_until(looks_at) => false,
                () = desk.has_news(lane) => true,
                () = &mut over => break,
            };
        }
        self.leave(lane, &desk, &mut appetite).await;
    }

    /// Takes along what runs came to, with further calls if they have many names. What nobody knows whether the server has it is left
    /// out: rather too few than too many.
    async fn beat(&self, lane: usize, desk: &Desk, info: &WorkerInfo, life_ms: u64) -> Result<BeatReply, Error> {
        let mut unreported = desk.unreported(lane);
        let mut told: Option<BeatReply> = None;
        loop {
            let tallies = unreported.tallies.split();
            match self.queues[lane].beat(info, life_ms, &tallies.rows()).await {
                // The number of trimmed jobs is reported once.
                Ok(reply) => {
                    let trimmed = reply.trimmed + told.map_or(0, |before| before.trimmed);
                    told = Some(BeatReply { trimmed, ..reply });
                }
                Err(error) => {
                    if error.kind() != ErrorKind::Timeout {
                        unreported.tallies.add_all(tallies);
                    }
                    return told.ok_or(error);
                }
            }
            if let Some(reply) = told.filter(|_| unreported.tallies.is_empty()) {
                return Ok(reply);
            }
        }
    }

    /// Says which failed jobs were heard of, and hears of more. Jobs come over the same connection, and wait behind an answer.
    async fn hear(&self, lane: usize, desk: &Desk, appetite: &mut Appetite) {
        loop {
            let (claims, most) = desk.claims(lane);
            if claims.is_empty() && most == 0 {
                return;
            }
            let asked_at = Instant::now();
            let Ok(reply) = self.queues[lane].hear(&claims, most, appetite.bytes()).await else {
                appetite.learn(0, asked_at.elapsed(), self.every);
                desk.not_heard(lane);
                return;
            };
            appetite.learn(reply.jobs.iter().map(|job| job.record.len()).sum(), asked_at.elapsed(), self.every);
            desk.heard_of(lane, &claims, &self.queues_of_jobs[lane], &reply);
            if reply.more == 0 || desk.claims(lane).1 == 0 {
                return;
            }
        }
    }

    /// The worker has stopped.
    async fn leave(&self, lane: usize, desk: &Desk, appetite: &mut Appetite) {
        let _ = tokio::time::timeout(FAREWELL, desk.all_heard(lane)).await;
        desk.give_claims_back(lane);
        let last_words = async {
            if desk.has_claims(lane) {
                self.hear(lane, desk, appetite).await;
            }
            self.beat(lane, desk, &self.worker, 0).await
        };
        let _ = tokio::time::timeout(FAREWELL, last_words).await;
    }
}

/// Only if one of the tasks panics.
pub(super) async fn never_ends(lanes: &mut JoinSet<()>) -> Infallible {
    loop {
        match lanes.join_next().await {
            Some(Err(panicked)) => resume_unwind(panicked.into_panic()),
            Some(Ok(())) => {}
            None => pending().await,
        }
    }
}

/// Ready when all queues know that the worker has stopped, as far as they answer.
pub(super) async fn all_left(mut lanes: JoinSet<()>) {
    while let Some(left) = lanes.join_next().await {
        if let Err(panicked) = left {
            resume_unwind(panicked.into_panic());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::queue::Client;

    #[tokio::test]
    async fn a_silent_node_does_not_keep_the_others_from_hearing_of_the_worker() {
        let (silent, other) =
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let queue = |node: &TcpListener, name: &str| {
            let url = format!("redis://{}", node.local_addr().unwrap());
            Client::builder().url(&url).build().unwrap().queue_or_part(name).unwrap()
        };
        let settings = WorkerSettings::new(vec![("a".to_owned(), 1), ("b".to_owned(), 1)]);
        let queues = vec![queue(&silent, "a"), queue(&other, "b")];
        let presence = Arc::new(Presence::new(queues.clone(), queues, &settings).unwrap());
        let desk = Arc::new(Desk::new(&settings));
        let mut shown = presence.show(&desk);
        tokio::select! {
            never = never_ends(&mut shown) => match never {},
            // Neither of them ever answers, and both are called at once, long before a call to the first is given up.
            both = tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(silent.accept(), other.accept()) }) => {
                both.unwrap().1.unwrap();
            }
        }
    }
}
