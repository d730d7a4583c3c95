//! Jobs that failed while no hook was there to be called: what this worker hears of them, and how far its owner is with that.

use std::sync::Arc;

use super::{Desk, Phase, State};
use crate::queue::{Claim, Part, Standing};
use crate::script::{BeatReply, HearReply};
use crate::worker::event::{AboutJob, FailedJob, WorkerEvent};

/// So many of a queue are its owner's to hear of at once.
const MOST_CLAIMED: usize = 100;

/// A job that this worker is to report.
pub(super) struct Claimed {
    lane: usize,
    claim: Claim,
    /// Its owner is about to call its hooks, or does.
    is_begun: bool,
}

impl Desk {
    /// What to say of those that are claimed, and how many more may be. A worker that stops claims no more.
    pub(in crate::worker) fn claims(&self, lane: usize) -> (Vec<Claim>, usize) {
        let state = self.lock();
        let claims: Vec<_> = state.claimed_of(lane).map(|one| one.claim.clone()).collect();
        let most = if state.phase == Phase::Working { MOST_CLAIMED.saturating_sub(claims.len()) } else { 0 };
        (claims, most)
    }

    /// Is there something to say, or to claim anew?
    pub(in crate::worker) fn has_claims(&self, lane: usize) -> bool {
        self.lock().claimed_of(lane).next().is_some()
    }

    /// The answer to these claims. Reports those that are new; what comes when the worker stops goes back.
    pub(in crate::worker) fn heard_of(&self, lane: usize, sent: &[Claim], queue: &Part, reply: &HearReply) {
        let mut state = self.lock();
        let is_done = |one: &Claimed| {
            let is_said = |sent: &Claim| sent.standing != Standing::Claimed && *sent == one.claim;
            one.lane == lane && sent.iter().any(is_said)
        };
        state.claimed.retain(|one| !is_done(one));
        for one in state.claimed.iter_mut().filter(|one| one.lane == lane) {
            one.claim.until = reply.claimed_until;
        }
        let stops = state.phase != Phase::Working;
        for job in &reply.jobs {
            let mut claim =
                Claim { id: job.id_bytes().to_vec(), until: reply.claimed_until, standing: Standing::Claimed };
            if stops {
                claim.standing = Standing::GivenBack;
                state.claimed.push(Claimed { lane, claim, is_begun: false });
                continue;
            }
            let failed = job.failed_of_queue(queue).map(|job| Arc::new(FailedJob { job: Arc::new(job), lane }));
            let about = match &failed {
                Some(failed) => AboutJob::of(&failed.job),
                None => AboutJob::unreadable(queue.name(), job.id.clone()),
            };
            // Of a record that cannot be read there is only this event.
            if failed.is_none() {
                claim.standing = Standing::Heard;
            }
            state.claimed.push(Claimed { lane, claim, is_begun: false });
            state.report(WorkerEvent::Failed { job: about, failed }, self);
        }
        if !reply.jobs.is_empty() && state.claimed_of(lane).any(|one| one.claim.standing != Standing::Claimed) {
            self.note_news(lane);
        }
    }

    /// The owner is about to call its hooks. False if it must not: they are another worker's to call.
    pub(in crate::worker) fn begins_hooks(&self, failed: &FailedJob) -> bool {
        let mut state = self.lock();
        let Some(one) = state.claim_of(failed) else { return false };
        one.is_begun = one.claim.standing == Standing::Claimed;
        one.is_begun
    }

    /// The owner has called its hooks.
    pub(in crate::worker) fn heard(&self, failed: &FailedJob) {
        let mut state = self.lock();
        if let Some(one) = state.claim_of(failed).filter(|one| one.claim.standing == Standing::Claimed) {
            one.claim.standing = Standing::Heard;
        }
        drop(state);
        self.claim_settled.notify_waiters();
        self.note_news(failed.lane);
    }

    /// Ready when the owner has called the hooks of all that are claimed.
    pub(in crate::worker) async fn all_heard(&self, lane: usize) {
        loop {
            let mut settled = std::pin::pin!(self.claim_settled.notified());
            settled.as_mut().enable();
            if !self.lock().claimed_of(lane).any(|one| one.claim.standing == Standing::Claimed) {
                return;
            }
            settled.await;
        }
    }

    /// The worker ends: another one is to call the hooks that its owner has not begun to call.
    pub(in crate::worker) fn give_claims_back(&self, lane: usize) {
        let mut state = self.lock();
        for one in state.claimed.iter_mut().filter(|one| one.lane == lane && !one.is_begun) {
            if one.claim.standing == Standing::Claimed {
                one.claim.standing = Standing::GivenBack;
            }
        }
    }

    /// There may be something to hear before the next beat.
    pub(in crate::worker) fn note_news(&self, lane: usize) {
        self.for_queues[lane].news.notify_one();
    }

    /// Ready when there may be something to say or to hear before the next beat.
    pub(in crate::worker) async fn has_news(&self, lane: usize) {
        self.for_queues[lane].news.notified().await;
    }

    /// What the server answered to the report that this worker is alive.
    pub(in crate::worker) fn beat_answered(&self, queue: &Part, reply: BeatReply) {
        if reply.trimmed > 0 {
            let queue = queue.name().to_owned();
            self.lock().report(WorkerEvent::Trimmed { queue, jobs: reply.trimmed }, self);
        }
    }
}

impl State {
    fn claimed_of(&self, lane: usize) -> impl Iterator<Item = &Claimed> {
        self.claimed.iter().filter(move |one| one.lane == lane)
    }

    fn claim_of(&mut self, failed: &FailedJob) -> Option<&mut Claimed> {
        let is_it = |one: &&mut Claimed| one.lane == failed.lane && one.claim.id == failed.job.id().as_bytes();
        self.claimed.iter_mut().find(is_it)
    }

    /// Nobody reads this worker's events: another one is to report it.
    pub(super) fn unclaim(&mut self, event: &WorkerEvent) {
        if let WorkerEvent::Failed { failed: Some(failed), .. } = event {
            self.claimed.retain(|one| one.lane != failed.lane || one.claim.id != failed.job.id().as_bytes());
        }
    }
}
