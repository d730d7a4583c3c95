//! Jobs that failed while no hook was there to be called: what this worker hears of them, and how far its owner is with that.

use std::sync::Arc;

use super::{Desk, Phase, State};
use crate::queue::{Claim, Queue};
use crate::script::{BeatReply, HearReply};
use crate::worker::event::{AboutJob, FailedJob, WorkerEvent};

/// So many of a queue are its owner's to hear of at once.
const MOST_CLAIMED: usize = 100;

/// A job that is this worker's to tell of.
pub(super) struct Claimed {
    lane: usize,
    claim: Claim,
}

impl Desk {
    /// What to say of those that are claimed, and how many more may be.
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

    /// The answer to these claims. Tells of those that are new.
    pub(in crate::worker) fn heard_of(&self, lane: usize, sent: &[Claim], queue: &Queue, reply: &HearReply) {
        let mut state = self.lock();
        let is_done = |one: &Claimed| one.lane == lane && sent.iter().any(|sent| sent.is_heard && *sent == one.claim);
        state.claimed.retain(|one| !is_done(one));
        for one in state.claimed.iter_mut().filter(|one| one.lane == lane) {
            one.claim.until = reply.claimed_until;
        }
        for job in &reply.jobs {
            let failed = job.failed_of_queue(queue).map(|job| Arc::new(FailedJob { job: Arc::new(job), lane }));
            let about = match &failed {
                Some(failed) => AboutJob::of(&failed.job),
                None => AboutJob::unreadable(queue.name(), job.id.clone()),
            };
            // Of a record that cannot be read there is only this event.
            let is_heard = failed.is_none();
            if is_heard {
                self.tell_news(lane);
            }
            let claim = Claim { id: job.id_bytes().to_vec(), until: reply.claimed_until, is_heard };
            state.claimed.push(Claimed { lane, claim });
            state.tell(WorkerEvent::Failed { job: about, failed }, self);
        }
    }

    /// The owner has called its hooks.
    pub(in crate::worker) fn heard(&self, failed: &FailedJob) {
        let mut state = self.lock();
        let is_it = |one: &&mut Claimed| one.lane == failed.lane && one.claim.id == failed.job.id().as_bytes();
        if let Some(one) = state.claimed.iter_mut().find(is_it) {
            one.claim.is_heard = true;
        }
        drop(state);
        self.tell_news(failed.lane);
    }

    /// There may be something to hear before the next beat.
    pub(in crate::worker) fn tell_news(&self, lane: usize) {
        self.news[lane].notify_one();
    }

    /// Ready when there may be something to say or to hear before the next beat.
    pub(in crate::worker) async fn has_news(&self, lane: usize) {
        self.news[lane].notified().await;
    }

    /// What the server said when it was told that this worker is alive.
    pub(in crate::worker) fn beat_answered(&self, queue: &Queue, reply: BeatReply) {
        if reply.trimmed > 0 {
            let queue = queue.name().to_owned();
            self.lock().tell(WorkerEvent::Trimmed { queue, jobs: reply.trimmed }, self);
        }
    }
}

impl State {
    fn claimed_of(&self, lane: usize) -> impl Iterator<Item = &Claimed> {
        self.claimed.iter().filter(move |one| one.lane == lane)
    }

    /// Nobody reads what this worker tells: another one is to hear of it.
    pub(super) fn unclaim(&mut self, event: &WorkerEvent) {
        if let WorkerEvent::Failed { failed: Some(failed), .. } = event {
            self.claimed.retain(|one| one.lane != failed.lane || one.claim.id != failed.job.id().as_bytes());
        }
    }
}
