//! What the worker tells of itself.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Desk, Phase, State};
use crate::error::Error;
use crate::worker::event::WorkerEvent;

/// Events that nobody reads are dropped, the oldest first.
const MOST_EVENTS: usize = 1000;

/// Something gets no answer.
pub(in crate::worker) struct Trouble(Arc<Desk>);

impl Drop for Trouble {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.in_trouble -= 1;
        if state.in_trouble == 0
            && state.phase != Phase::Over
            && let Some(since) = state.trouble_since.take()
        {
            state.tell(WorkerEvent::Recovered { after: since.elapsed() }, &self.0);
        }
    }
}

impl Desk {
    /// A call or a wait gets no answer, until the given value is dropped. Told once, however many of them there are.
    pub(in crate::worker) fn trouble(self: &Arc<Self>, error: &Error) -> Trouble {
        let mut state = self.lock();
        state.in_trouble += 1;
        if state.trouble_since.is_none() {
            state.trouble_since = Some(Instant::now());
            state.tell(WorkerEvent::Trouble { error: error.clone() }, self);
        }
        Trouble(Arc::clone(self))
    }

    /// The next event, waited for by a task.
    pub(in crate::worker) async fn event(&self) -> WorkerEvent {
        loop {
            let there = self.event_there_async.notified();
            if let Some(event) = self.lock().events.pop_front() {
                return event;
            }
            there.await;
        }
    }

    /// The next event, waited for by a thread; none when the time is over, or when the worker is.
    pub(in crate::worker) fn event_within(&self, wait: Duration) -> Option<WorkerEvent> {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                return Some(event);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.phase == Phase::Over {
                return None;
            }
            state = self.event_there.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    pub(super) fn tell(&mut self, event: WorkerEvent, desk: &Desk) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
        desk.event_there.notify_all();
        desk.event_there_async.notify_one();
    }
}
