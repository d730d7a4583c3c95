//! The fetch loop and its server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock::{FAR, SOON, past};
use super::owners::{Doing, Owner};
use super::{Fate, Kind, World};
use crate::format::envelope::Envelope;
use crate::queue::Job;
use crate::value::data::Data;
use crate::value::time::Millis;
use crate::worker::desk::{Batch, Step};
use crate::worker::event::Interruption;

pub(super) const LEASE: Duration = Duration::from_secs(24 * 3600);

/// A lease, as its server and its worker know it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "what has happened to it, each by itself")]
pub(super) struct Lease {
    pub(super) kind: Kind,
    pub(super) token: u64,
    /// The server takes its token.
    pub(super) is_held: bool,
    pub(super) start_is_noted: bool,
    /// What the server made of the job.
    pub(super) settled_as: Option<Fate>,
    /// By the handler itself.
    pub(super) is_settled_by_handler: bool,
    /// What the worker must say of it, once something has decided that.
    pub(super) decided_as: Option<Fate>,
    /// The worker has heard that it is lost.
    pub(super) is_known_as_lost: bool,
    pub(super) is_sent: bool,
    pub(super) is_started: bool,
}

pub(super) struct Call {
    pub(super) lane: usize,
    pub(super) want: usize,
    pub(super) batch: Arc<Batch>,
    pub(super) flags: Vec<bool>,
    pub(super) granted: Vec<usize>,
}

/// What the fetch loop does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loop {
    Looks,
    /// It wakes by itself, or is to be woken.
    Sleeps {
        wakes: bool,
    },
    /// It waits for the answer to a call.
    Waits,
    Over,
}

impl World<'_> {
    pub(super) fn calls_of(&self, lane: usize) -> usize {
        self.calls.iter().filter(|call| call.lane == lane).count()
    }

    pub(super) fn wakes_fetcher(&mut self) {
        if self.fetcher != Loop::Over {
            self.fetcher = Loop::Looks;
        }
    }

    pub(super) fn look(&mut self, they_ride: bool) -> Result<(), String> {
        self.desk.awake();
        let takes_a_call = |lane: usize| !self.is_silent[lane] && self.calls_of(lane) < self.scenario.calls_at_once;
        let due = (0..self.scenario.lanes).any(|lane| takes_a_call(lane) && !self.ready[lane].is_empty());
        if let Some(oldest) = &mut self.desk.lock().lanes.oldest_outcome {
            *oldest = if they_ride { Instant::now() + SOON } else { past() };
        }
        let want = match self.desk.next_step(due) {
            Step::Call { want } => want,
            Step::Sleep { until, .. } => {
                let wakes = until.is_some_and(|until| until < Instant::now() + 2 * SOON);
                self.fetcher = Loop::Sleeps { wakes };
                return Ok(());
            }
            Step::Over => {
                self.fetcher = Loop::Over;
                return Ok(());
            }
        };
        let (mut left, mut is_idle) = (want.jobs, true);
        self.fetcher = Loop::Looks;
        for lane in (0..self.scenario.lanes).filter(|&lane| !self.is_silent[lane]).collect::<Vec<_>>() {
            let wanted = if self.ready[lane].is_empty() { 0 } else { left };
            if wanted == 0 && !self.desk.has_outcomes(lane) {
                continue;
            }
            is_idle = false;
            if self.calls_of(lane) < self.scenario.calls_at_once {
                left -= self.call(lane, wanted)?;
            }
            // Of several queues it waits for none for long.
            if self.scenario.lanes == 1 && self.calls_of(lane) >= self.scenario.calls_at_once {
                self.fetcher = Loop::Waits;
            }
        }
        if is_idle { Err("the fetch loop spins".to_owned()) } else { Ok(()) }
    }

    /// It is sent and executed. Gives how many jobs it brings.
    pub(super) fn call(&mut self, lane: usize, want: usize) -> Result<usize, String> {
        let batch = self.desk.begin_call(lane, want, None);
        let flags = batch.outcomes.said().into_iter().map(|(verb, id, token)| self.executes(&verb, &id, token));
        let flags = flags.collect::<Result<Vec<_>, _>>()?;
        let granted: Vec<_> = (0..want).map_while(|_| self.grants(lane)).collect();
        let count = granted.len();
        self.calls.push(Call { lane, want, batch, flags, granted });
        Ok(count)
    }

    pub(super) fn executes(&mut self, verb: &str, id: &str, token: u64) -> Result<bool, String> {
        let is_it = |lease: &Lease| lease.token == token && lease.kind.id == id;
        let at = self.leases.iter().position(is_it).ok_or_else(|| format!("{verb} {id} of no lease"))?;
        let lease = &mut self.leases[at];
        let is_ours = lease.is_held && lease.settled_as.is_none();
        if verb == "start" {
            lease.start_is_noted |= is_ours;
            return Ok(is_ours);
        }
        if std::mem::replace(&mut lease.is_sent, true) {
            return Err(format!("{id} is settled a second time: {verb}"));
        }
        let runs = self.owners.iter().any(|owner| {
            matches!(&owner.doing, Doing::Runs(running) if running.lease == at && running.interrupted.is_none())
        });
        if runs {
            return Err(format!("{id} is settled while it runs: {verb}"));
        }
        if is_ours {
            lease.settled_as = Some(Fate::of_verb(verb));
            if lease.settled_as == Some(Fate::Back) {
                let kind = lease.kind;
                self.ready[kind.lane].push_back(kind);
            }
        }
        Ok(is_ours)
    }

    pub(super) fn grants(&mut self, lane: usize) -> Option<usize> {
        let kind = self.ready[lane].pop_front()?;
        self.leases.push(Lease {
            kind,
            token: 16 * (self.leases.len() as u64 + 1),
            is_held: true,
            start_is_noted: false,
            settled_as: None,
            is_settled_by_handler: false,
            decided_as: None,
            is_known_as_lost: false,
            is_sent: false,
            is_started: false,
        });
        Some(self.leases.len() - 1)
    }

    pub(super) fn job(&self, lease: usize) -> Job {
        let Lease { kind, token, .. } = &self.leases[lease];
        let mut envelope = Envelope::new(kind.id, Data::trusted("1"));
        (envelope.max_attempts, envelope.timeout) = (kind.max_retries, Millis::from_duration(FAR).ok());
        Job::granted(envelope, 0, *token, self.queue, kind.is_suspect)
    }

    pub(super) fn answer(&mut self, at: usize) {
        let Call { lane, want, batch, flags, granted } = self.calls.remove(at);
        self.desk.end_call(lane, want, &batch, Duration::ZERO, None);
        if std::mem::take(&mut self.is_silent[lane]) {
            self.desk.speaks_again(lane);
        }
        self.desk.answered("orders", &batch, &flags);
        for ((verb, ..), is_settled) in batch.outcomes.said().iter().zip(flags) {
            if is_settled && verb != "start" {
                self.answered[Fate::of_verb(verb) as usize] += 1;
            }
        }
        if batch.has_unheard {
            self.desk.note_unheard(lane);
        }
        let jobs: Vec<_> = granted.into_iter().map(|lease| self.job(lease)).collect();
        if !jobs.is_empty() {
            self.desk.deliver(lane, &batch, jobs, &[]);
        }
        self.wakes_fetcher();
    }

    pub(super) fn give_up(&mut self, at: usize) {
        self.is_abandoned = true;
        self.desk.abandon();
        self.all_stop();
        let Call { lane, want, batch, .. } = self.calls.remove(at);
        self.desk.end_call(lane, want, &batch, Duration::ZERO, None);
        if std::mem::take(&mut self.is_silent[lane]) {
            self.desk.speaks_again(lane);
        }
        self.wakes_fetcher();
    }

    pub(super) fn renewed(&mut self) {
        let Some((lane, held)) = self.renewal.take() else { return };
        let is_kept = |(id, token): &(String, u64)| {
            let is_it = |lease: &&Lease| lease.token == *token && lease.kind.id == *id;
            self.leases.iter().find(is_it).is_some_and(|lease| lease.is_held && lease.settled_as.is_none())
        };
        let kept: Vec<bool> = held.iter().map(is_kept).collect();
        self.desk.renewed(lane, &held, &kept, Instant::now(), LEASE);
        for ((id, token), _) in held.iter().zip(&kept).filter(|(_, kept)| !**kept) {
            let is_it = |lease: &Lease| lease.token == *token && lease.kind.id == *id;
            let Some(at) = self.leases.iter().position(is_it) else { continue };
            let runs = |owner: &Owner| matches!(&owner.doing, Doing::Runs(running) if running.lease == at);
            match self.owners.iter().position(runs) {
                Some(owner) => self.interrupted(owner, Interruption::LeaseLost),
                None => self.leases[at].is_known_as_lost = true,
            }
        }
    }

    pub(super) fn lose(&mut self, at: usize) {
        let lease = &mut self.leases[at];
        lease.is_held = false;
        let kind = Kind { is_suspect: true, ..lease.kind };
        // It has failed if its start is noted, and it may not run again.
        if !(kind.max_retries == 0 && lease.start_is_noted) {
            self.ready[kind.lane].push_back(kind);
            if matches!(self.fetcher, Loop::Sleeps { .. }) {
                self.wakes_fetcher();
            }
        }
    }
}
