//! The state that the loop that fires schedules needs.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::Desk;

impl Desk {
    /// A wake-up said that a schedule fires sooner than was known.
    pub(in crate::worker) fn schedule_changed(&self, lane: usize) {
        let of_queue = &self.for_queues[lane].schedules;
        // What a beat said before does not count any more. Nothing that is done under the lock can panic, so a poisoned one is still
        // whole.
        *of_queue.next_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
        of_queue.changed.notify_one();
    }

    /// A beat said when the next schedule fires.
    pub(in crate::worker) fn schedule_fires_in(&self, lane: usize, fires_in: Option<Duration>) {
        let Some(fires_in) = fires_in else { return };
        let of_queue = &self.for_queues[lane].schedules;
        *of_queue.next_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + fires_in);
        of_queue.changed.notify_one();
    }

    /// Ready when there is something to know.
    pub(in crate::worker) async fn schedules_changed(&self, lane: usize) {
        self.for_queues[lane].schedules.changed.notified().await;
    }

    /// What the last beat said, once.
    pub(in crate::worker) fn take_schedule(&self, lane: usize) -> Option<Instant> {
        self.for_queues[lane].schedules.next_at.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
