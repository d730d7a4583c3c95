//! What must hold.

use std::collections::BTreeMap;
use std::time::Duration;

use super::owners::{Doing, Says};
use super::server::{Lease, Loop};
use super::{Fate, World};
use crate::worker::event::{Interruption, WorkerEvent};

impl World<'_> {
    pub(super) fn interruptions_are_right(&self) -> Result<(), String> {
        for owner in &self.owners {
            let Doing::Runs(running) = &owner.doing else { continue };
            let found_lost = || matches!(running.says, Says::Refused).then_some(Interruption::LeaseLost);
            let (found, expected) =
                (owner.executor.was_interrupted(&running.run), running.interrupted.or_else(found_lost));
            if found != expected {
                let id = running.run.job.id();
                return Err(format!("the run of {id} is interrupted as {found:?} and not {expected:?}"));
            }
        }
        Ok(())
    }

    /// Unless the worker stops, each job has come to an end.
    pub(super) fn nothing_waits(&self) -> Result<(), String> {
        if self.desk.is_stopping() {
            return Ok(());
        }
        let waits = |lease: &&Lease| lease.is_held && lease.settled_as.is_none();
        let left = self.leases.iter().filter(waits).map(|lease| lease.kind.id);
        let left: Vec<_> = left.chain(self.ready.iter().flatten().map(|kind| kind.id)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} wait for ever")) }
    }

    pub(super) fn has_ended(&self) -> Result<(), String> {
        let is_over = self.owners.iter().all(|owner| matches!(owner.doing, Doing::Over));
        if self.fetcher != Loop::Over || !is_over || !self.calls.is_empty() {
            return Err("the stop never ends".to_owned());
        }
        self.desk.has_ended();
        let events: Vec<_> = std::iter::from_fn(|| self.desk.event_within(Duration::ZERO)).collect();
        let not_stored = events.iter().filter_map(|event| match event {
            WorkerEvent::OutcomeNotStored { job } => Some(&*job.id),
            _ => None,
        });
        let not_stored: Vec<_> = not_stored.collect();
        for lease in &self.leases {
            let id = lease.kind.id;
            let expected = if lease.is_started { lease.decided_as } else { Some(Fate::Back) };
            match lease.settled_as {
                _ if lease.is_settled_by_handler => {}
                Some(fate) if Some(fate) != expected => {
                    return Err(format!("{id} is {fate:?} and not {expected:?}"));
                }
                None if lease.is_held && !self.is_abandoned => return Err(format!("{id} is left to its lease")),
                None if lease.is_held && expected != Some(Fate::Back) && !not_stored.contains(&id) => {
                    return Err(format!("{id} is left to its lease, and nobody says so"));
                }
                _ => {}
            }
        }
        self.counters_are_zero()
    }

    pub(super) fn counters_are_zero(&self) -> Result<(), String> {
        let state = self.desk.lock();
        let (lanes, starts) = (&state.lanes, &state.jobs.starts);
        let report = state.report;
        let counted = BTreeMap::from([
            ("runs", state.runs.running),
            ("leased", state.jobs.leased.iter().flatten().count()),
            ("indexes", state.jobs.leased.len() - state.jobs.free.len()),
            ("fetched", state.jobs.fetched.len()),
            ("calls", lanes.calls + lanes.each.iter().map(|lane| lane.calls).sum::<usize>()),
            ("asked", lanes.asked + lanes.each.iter().map(|lane| lane.asked).sum::<usize>()),
            ("under way", lanes.each.iter().map(|lane| lane.under_way.len()).sum()),
            ("silent", lanes.silent),
            ("outcomes", if self.is_abandoned { 0 } else { lanes.outcomes }),
            ("unsent starts", if self.is_abandoned { 0 } else { starts.unsent }),
            ("waiting starts", starts.suspects + starts.without_retries + starts.noted),
            ("tasks", state.waiting.tasks),
            ("trouble", state.trouble.calls),
        ]);
        let is_off = counted.values().any(|count| *count != 0);
        if is_off || [report.acked, report.failed, report.released] != self.answered {
            return Err(format!("counters are off: {counted:?}, {report:?}, answered {:?}", self.answered));
        }
        Ok(())
    }
}
