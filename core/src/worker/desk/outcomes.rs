//! Outcomes that wait for a call to ride along with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lanes::Lane;
use super::{Desk, State};
use crate::queue::{Decided, Job, MAX_BATCH, Settlement, Unread, add_expired};
use crate::script::{Outcomes, Verb};
use crate::value::error::Error;
use crate::value::retry::{Next, Outcome};
use crate::value::time::whole_ms;
use crate::worker::event::{AboutJob, WorkerEvent};

/// Outcomes that leave whether or not a fetch is due.
pub(super) const OUTCOMES_A_CALL: usize = MAX_BATCH / 2;

/// Leases, or outcomes, that were lost together are reported one by one up to so many.
const MOST_REPORTED_SINGLY: usize = 10;

/// Outcomes of one queue for one script call.
#[derive(Default)]
pub(in crate::worker) struct Batch {
    pub(in crate::worker) outcomes: Outcomes,
    /// When the call that takes it along began: the leases that it brings begin then or later.
    pub(in crate::worker) asked_at: Option<Instant>,
    /// How long these leases are, if not as long as the worker's.
    pub(in crate::worker) lease: Option<Duration>,
    /// What the outcomes are of, in order; undecodable jobs are none.
    acked: Vec<Arc<Job>>,
    others: Vec<(Noted, Option<Arc<Job>>)>,
    /// A job among them fails unheard.
    pub(in crate::worker) has_unheard: bool,
}

impl Batch {
    /// How many jobs it says of that they start.
    pub(super) fn starts(&self) -> usize {
        self.others.iter().filter(|(noted, _)| matches!(noted, Noted::Started(_))).count()
    }

    /// What it settles. A job whose start it notes is still leased, and none of its rows settles it.
    pub(super) fn settled_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        let others = self.others.iter().filter(|(noted, _)| !matches!(noted, Noted::Started(_)));
        self.acked.iter().chain(others.filter_map(|(_, job)| job.as_ref()))
    }

    /// Those whose runs have ended, well or not.
    fn ended_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        let ended = self.others.iter().filter(|(noted, _)| matches!(noted, Noted::Failed | Noted::Released));
        self.acked.iter().chain(ended.filter_map(|(_, job)| job.as_ref()))
    }

    /// None if its record could not be decoded.
    fn job(&self, index: usize) -> Option<&Arc<Job>> {
        match index.checked_sub(self.acked.len()) {
            None => self.acked.get(index),
            Some(behind) => self.others.get(behind).and_then(|(_, job)| job.as_ref()),
        }
    }

    fn about(&self, queue: &str, index: usize) -> AboutJob {
        self.job(index).map_or_else(|| AboutJob::unreadable(queue, self.outcomes.id_at(index)), |job| AboutJob::of(job))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    Failed,
    Released,
    /// Given back before it started.
    Unstarted,
    /// Dropped, as no run of it began in time.
    Expired,
    /// No outcome: the job that is held here is about to start.
    Started(usize),
}

impl Desk {
    pub(in crate::worker) fn has_outcomes(&self, lane: usize) -> bool {
        !self.lock().lanes.each[lane].batches.is_empty()
    }

    /// Of this outcome the server kept no result, or no changed record.
    pub(in crate::worker) fn not_kept(&self, queue: &str, batch: &Batch, index: usize) {
        self.lock().report(WorkerEvent::NotKept { job: batch.about(queue, index) }, self);
    }

    /// It was settled without its result, or its changed record, because these did not get through.
    pub(in crate::worker) fn not_sent(&self, queue: &str, batch: &Batch, index: usize) {
        self.lock().report(WorkerEvent::NotSent { job: batch.about(queue, index) }, self);
    }

    /// Of the jobs that came, these were written by a later version of duly.
    pub(in crate::worker) fn left_alone(&self, lane: usize, queue: &str, unread: &[(Vec<u8>, u64, Unread)]) {
        let Some((id, ..)) = unread.iter().find(|(.., why)| *why == Unread::TooNew) else { return };
        let mut state = self.lock();
        if !std::mem::replace(&mut state.lanes.each[lane].has_newer, true) {
            let job = AboutJob::unreadable(queue, String::from_utf8_lossy(id).into_owned());
            state.report(WorkerEvent::TooNew { job }, self);
        }
    }

    /// The server has dropped these when it was asked for jobs; `first` is one of them.
    pub(in crate::worker) fn dropped(&self, first: AboutJob, count: usize) {
        let mut state = self.lock();
        state.report.expired += count as u64;
        state.report(WorkerEvent::Expired { job: first, others: count - 1 }, self);
    }

    /// The answer to a batch of outcomes: one flag each, acks first.
    pub(in crate::worker) fn answered(&self, queue: &str, batch: &Batch, flags: &[bool]) {
        let mut state = self.lock();
        let acks = batch.acked.len();
        let (mut lost, mut startable) = (0_usize, 0);
        for (index, &settled) in flags.iter().enumerate() {
            let other = index.checked_sub(acks).and_then(|behind| batch.others.get(behind));
            if let Some((Noted::Started(at), Some(job))) = other {
                startable += usize::from(state.start_noted(*at, job, settled, self));
            } else if !settled && batch.job(index).is_some_and(|job| job.is_being_settled()) {
                // Its handler was first, or has a verb under way that reports it.
            } else if !settled {
                lost += 1;
                if lost <= MOST_REPORTED_SINGLY {
                    state.report(WorkerEvent::LeaseLost { job: batch.about(queue, index) }, self);
                }
            } else if index < acks {
                state.report.acked += 1;
            } else if other.is_some_and(|(noted, _)| *noted == Noted::Failed) {
                state.report.failed += 1;
            } else if other.is_some_and(|(noted, _)| *noted == Noted::Expired) {
                state.report.expired += 1;
            } else {
                state.report.released += 1;
            }
        }
        state.report.lost += lost as u64;
        if let Some(jobs) = lost.checked_sub(MOST_REPORTED_SINGLY).filter(|&jobs| jobs > 0) {
            state.report(WorkerEvent::LeasesLost { queue: queue.to_owned(), jobs: jobs as u64 }, self);
        }
        // Those behind it waited with it.
        let may_start = if startable > 0 { state.jobs.fetched.len() } else { 0 };
        self.wake_executors(state, may_start);
    }
}

impl State {
    /// What has not been sent, was not answered, or was refused, is given up: the leases of these jobs end by themselves.
    pub(super) fn report_not_stored(&mut self, desk: &Desk) {
        let jobs = |lane: &Lane| {
            let called = lane.refused.iter().chain(&lane.under_way);
            let batches = called.map(|batch| &**batch).chain(&lane.batches);
            batches.flat_map(Batch::ended_jobs).map(|job| AboutJob::of(job)).collect::<Vec<_>>()
        };
        for mut jobs in self.lanes.each.iter().map(jobs).collect::<Vec<_>>() {
            let more = jobs.split_off(jobs.len().min(MOST_REPORTED_SINGLY));
            let queue = more.first().map(|job| job.queue.clone());
            for job in jobs {
                self.report(WorkerEvent::OutcomeNotStored { job }, desk);
            }
            if let Some(queue) = queue {
                self.report(WorkerEvent::OutcomesNotStored { queue, jobs: more.len() }, desk);
            }
        }
    }

    /// Lets the policy decide, and notes that.
    pub(super) fn note(
        &mut self,
        lane: usize,
        job: &Arc<Job>,
        settlement: &Settlement<'_>,
        started: Option<Instant>,
    ) -> Result<Next, Error> {
        Decided::of(settlement).map(|decided| self.note_decided(lane, job, decided, started))
    }

    /// Notes an outcome for the next call to its queue. `started`: when its run did.
    pub(super) fn note_decided(
        &mut self,
        lane: usize,
        job: &Arc<Job>,
        decided: Decided,
        started: Option<Instant>,
    ) -> Next {
        let took = started.filter(|_| self.lanes.each[lane].has_options).map(|started| started.elapsed());
        let decided = decided.behind(took);
        let batch = self.open_batch(lane, decided.payload_bytes());
        let next = decided.next;
        batch.has_unheard |= decided.is_unheard();
        decided.add_to(&mut batch.outcomes, job);
        match next {
            Next::Ack => batch.acked.push(Arc::clone(job)),
            Next::ReleaseAfter(_) => batch.others.push((Noted::Released, Some(Arc::clone(job)))),
            Next::RetryAfter { .. } | Next::Failed { .. } => batch.others.push((Noted::Failed, Some(Arc::clone(job)))),
        }
        self.count_outcome(lane, Instant::now());
        next
    }

    /// Notes what is said of a job that no policy decides about. `after`: when it is due again, if it is given back.
    pub(super) fn note_other(&mut self, lane: usize, job: &Arc<Job>, verb: Verb, noted: Noted, after: Duration) {
        let batch = self.open_batch(lane, 0);
        let key = job.envelope.key.as_deref();
        batch.outcomes.other(verb, job.id(), job.token(), key, whole_ms(after), "", None);
        batch.others.push((noted, Some(Arc::clone(job))));
        self.count_outcome(lane, Instant::now());
    }

    /// Notes that a job expired before a run of it began.
    pub(super) fn note_expired(&mut self, lane: usize, job: &Arc<Job>) {
        let batch = self.open_batch(lane, 0);
        add_expired(&mut batch.outcomes, job);
        batch.others.push((Noted::Expired, Some(Arc::clone(job))));
        self.count_outcome(lane, Instant::now());
    }

    /// Notes what becomes of a job that no handler gets.
    pub(super) fn note_unread(&mut self, lane: usize, id: &[u8], token: u64, why: &Unread) {
        let fails = matches!(why, Unread::Undecodable(_));
        let batch = self.open_batch(lane, why.error().len());
        why.add_to(&mut batch.outcomes, id, token);
        batch.others.push((if fails { Noted::Failed } else { Noted::Unstarted }, None));
        batch.has_unheard |= fails;
        self.count_outcome(lane, Instant::now());
    }

    /// The batch that takes an outcome with so many bytes of results, errors and records.
    fn open_batch(&mut self, lane: usize, bytes: usize) -> &mut Batch {
        let most = self.lanes.each[lane].uploads.bytes();
        let batches = &mut self.lanes.each[lane].batches;
        let is_full = |outcomes: &Outcomes| {
            let there = outcomes.payload_bytes();
            outcomes.len() >= OUTCOMES_A_CALL || (there > 0 && there.saturating_add(bytes) > most)
        };
        if batches.back().is_none_or(|batch| is_full(&batch.outcomes)) {
            batches.push_back(Batch::default());
        }
        let last = batches.len() - 1;
        &mut batches[last]
    }

    fn count_outcome(&mut self, lane: usize, now: Instant) {
        if self.lanes.each[lane].is_silent {
            return;
        }
        self.lanes.outcomes += 1;
        self.lanes.oldest_outcome.get_or_insert(now);
    }
}

pub(super) fn give_back(job: &Job) -> Settlement<'_> {
    Settlement { outcome: Outcome::GIVEN_BACK, ..Settlement::done(job) }
}

pub(super) fn failure<'a>(job: &'a Job, error: &'a str) -> Settlement<'a> {
    Settlement { outcome: Outcome::FAILURE, error, ..Settlement::done(job) }
}
