//! Leases of what waits and what runs.

use std::collections::HashMap;
use std::time::Instant;

use super::{Desk, Leased};
use crate::registry::RunningJob;
use crate::time::Millis;
use crate::worker::event::Interruption;

impl Desk {
    /// The leases of a queue that are to be renewed: (id, token) of what waits and what runs. One that a handler settled and
    /// works on is over.
    pub(in crate::worker) fn leases(&self, lane: usize) -> Vec<(String, u64)> {
        let state = self.lock();
        let of_lane = state.leased.iter().flatten().filter(|leased| leased.lane == lane);
        let ours = of_lane.filter(|leased| !leased.is_interrupted() && !leased.job.is_settled());
        ours.map(|leased| (leased.job.id().to_owned(), leased.job.token())).collect()
    }

    /// The runs of a queue's jobs, at most so many; `now` is this moment by the host's clock.
    pub(in crate::worker) fn running(&self, lane: usize, most: usize, now: Millis) -> Vec<RunningJob> {
        let state = self.lock();
        let of_lane = state.leased.iter().flatten().filter(|leased| leased.lane == lane && !leased.is_interrupted());
        let running = |leased: &Leased| {
            let ago = Millis::from_duration(leased.run.as_ref()?.started.elapsed()).ok()?;
            let id = leased.job.id().to_owned();
            Some(RunningJob { id, name: leased.job.envelope.name.clone(), started_at: now.saturating_sub(ago) })
        };
        of_lane.filter_map(running).take(most).collect()
    }

    /// Ready when a lease of this queue should be renewed before its turn.
    pub(in crate::worker) async fn needs_renewal(&self, lane: usize) {
        self.for_renewal[lane].notified().await;
    }

    /// The answer to a renewal that was asked for at this moment: these leases of a queue were kept, or lost.
    pub(in crate::worker) fn renewed(&self, lane: usize, renewals: &[(String, u64)], kept: &[bool], asked_at: Instant) {
        let now = Instant::now();
        let sure_until = asked_at + self.lease;
        let answers: HashMap<_, _> =
            renewals.iter().zip(kept).map(|((id, token), kept)| (&**id, (*token, *kept))).collect();
        let mut state = self.lock();
        let (mut sure_again, mut lost) = (0, 0);
        for index in 0..state.leased.len() {
            let Some(leased) = state.leased[index].as_mut().filter(|leased| leased.lane == lane) else { continue };
            match answers.get(leased.job.id()) {
                Some(&(token, true)) if token == leased.job.token() => {
                    sure_again += usize::from(leased.sure_until <= now);
                    leased.sure_until = sure_until;
                }
                Some(&(token, false)) if token == leased.job.token() && !leased.job.is_being_settled() => {
                    lost += 1;
                    state.interrupt(index, Interruption::LeaseLost, self);
                }
                _ => {}
            }
        }
        // Executors may be free by now because what waited for them was lost, or starts be noted because it was not.
        if lost + sure_again > 0 && state.wake_to_refill() {
            self.for_fetcher.notify_one();
        }
        self.wake_executors(state, sure_again + lost);
        if sure_again > 0 && sure_until <= now {
            self.for_renewal[lane].notify_one();
        }
    }
}
