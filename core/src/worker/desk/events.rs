//! The events of a worker.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Desk, Phase, State};
use crate::queue::{ClientEvent, Listener};
use crate::value::error::Error;
use crate::value::time::LONGEST_WAIT;
use crate::worker::event::{BesideJobs, WorkerEvent};

/// Events that nobody reads are dropped, the oldest first.
const MOST_EVENTS: usize = 1000;

/// For how long something beside the jobs fails before it is said: less than the time between a beat and the next but one.
const HELD_UP: Duration = Duration::from_secs(5);

/// Events that its owner has not read yet.
#[derive(Default)]
pub(super) struct Events {
    pub(super) unread: VecDeque<(Instant, WorkerEvent)>,
    /// That the worker stops is reported once.
    pub(super) stop_is_reported: bool,
}

/// The outage of now, and the one before.
#[derive(Default)]
pub(super) struct Trouble {
    /// How many of the loop's calls and waits get no answer, and since when one does not.
    pub(super) calls: usize,
    since: Option<Instant>,
    recovered_at: Option<Instant>,
}

impl Desk {
    /// Hears what the client of the worker's loop notices.
    pub(in crate::worker) fn listener(self: &Arc<Self>) -> Listener {
        let desk = Arc::clone(self);
        Listener::new(move |event| {
            let ClientEvent::DataLost { queue } = event;
            desk.tell(WorkerEvent::DataLost { queue: queue.clone() });
        })
    }
}

/// One call or wait that may get no answer. However many of them there are, an outage is reported once, and its end once.
pub(in crate::worker) struct Outage<'a> {
    desk: &'a Desk,
    mine: Mutex<Mine>,
}

struct Mine {
    /// Since when there is no answer.
    since: Instant,
    is_noted: bool,
    is_reported: bool,
}

impl<'a> Outage<'a> {
    /// A call or wait that begins now.
    pub(in crate::worker) fn of_call(desk: &'a Desk) -> Self {
        Self { desk, mine: Mutex::new(Mine { since: Instant::now(), is_noted: false, is_reported: false }) }
    }

    /// Did it get no answer so far?
    pub(in crate::worker) fn has_failed(&self) -> bool {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner).is_noted
    }

    /// It failed, and is tried again.
    pub(in crate::worker) fn failed(&self, error: &Error) {
        let mut mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        if mine.is_reported {
            return;
        }
        let mut state = self.desk.lock();
        let is_new = !mem::replace(&mut mine.is_noted, true);
        state.trouble.calls += usize::from(is_new);
        if state.trouble.since.is_some() {
            mine.is_reported = true;
        } else if state.trouble.recovered_at.is_none_or(|at| mine.since > at) {
            mine.is_reported = true;
            state.trouble.since = Some(mine.since);
            state.report(WorkerEvent::Trouble { error: error.clone() }, self.desk);
        } else {
            // It began before the end of an outage that was reported, and has just noticed that one. The next failure is news.
            mine.since = Instant::now();
        }
        if is_new && state.trouble.calls == 1 {
            // No executor is left for a suspect whose start cannot be noted now.
            self.desk.wake_executors(state, usize::MAX);
        }
    }
}

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        if !self.mine.get_mut().unwrap_or_else(PoisonError::into_inner).is_noted {
            return;
        }
        let mut state = self.desk.lock();
        state.trouble.calls -= 1;
        if state.trouble.calls == 0
            && !state.phase.is_over()
            && let Some(since) = state.trouble.since.take()
        {
            state.trouble.recovered_at = Some(Instant::now());
            state.report(WorkerEvent::Recovered { after: since.elapsed() }, self.desk);
        }
    }
}

/// Something that is tried again and again beside the jobs. Its failures are said if it fails for long though the loop's calls do not:
/// a server may refuse it alone, as it may have no memory for it, or hold something else under its key.
pub(in crate::worker) struct Beside<'a> {
    desk: &'a Desk,
    queue: &'a str,
    what: BesideJobs,
    fails_since: Option<Instant>,
    is_reported: bool,
}

impl<'a> Beside<'a> {
    pub(in crate::worker) fn of(desk: &'a Desk, queue: &'a str, what: BesideJobs) -> Self {
        Self { desk, queue, what, fails_since: None, is_reported: false }
    }

    pub(in crate::worker) fn failed(&mut self, error: &Error) {
        if self.is_reported {
            return;
        }
        if self.desk.lock().trouble.since.is_some() {
            // The outage is reported.
            self.fails_since = None;
        } else if self.fails_since.get_or_insert_with(Instant::now).elapsed() >= HELD_UP {
            self.is_reported = true;
            self.desk.tell(WorkerEvent::HeldUp { queue: self.queue.to_owned(), what: self.what, error: error.clone() });
        }
    }

    pub(in crate::worker) fn worked(&mut self) {
        self.fails_since = None;
        if mem::take(&mut self.is_reported) {
            self.desk.tell(WorkerEvent::GoesOn { queue: self.queue.to_owned(), what: self.what });
        }
    }
}

impl Desk {
    /// Reports this to its owner.
    pub(in crate::worker) fn tell(&self, event: WorkerEvent) {
        self.lock().report(event, self);
    }

    /// The next event, waited for by a task.
    pub(in crate::worker) async fn event(&self) -> WorkerEvent {
        loop {
            let there = self.for_event.tasks.notified();
            if let Some((_, event)) = self.lock().events.unread.pop_front() {
                return event;
            }
            there.await;
        }
    }

    /// The next event, waited for by a thread; none when the time is over, or when the engine has ended.
    pub(in crate::worker) fn event_within(&self, wait: Duration) -> Option<WorkerEvent> {
        let until = Instant::now() + wait.min(LONGEST_WAIT);
        let mut state = self.lock();
        loop {
            if let Some((_, event)) = state.events.unread.pop_front() {
                return Some(event);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.phase == Phase::Ended {
                return None;
            }
            state = self.for_event.threads.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// For how long nobody has read an event.
    pub(in crate::worker) fn unread_for(&self) -> Duration {
        self.lock().events.unread.front().map_or(Duration::ZERO, |(at, _)| at.elapsed())
    }
}

impl State {
    pub(super) fn report(&mut self, event: WorkerEvent, desk: &Desk) {
        if self.events.unread.len() == MOST_EVENTS
            && let Some((_, unread)) = self.events.unread.pop_front()
        {
            self.unclaim(&unread);
        }
        self.events.unread.push_back((Instant::now(), event));
        self.show();
        desk.for_event.threads.notify_all();
        desk.for_event.tasks.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;
    use crate::worker::WorkerSettings;

    fn reported(desk: &Desk) -> Vec<String> {
        let events = std::iter::from_fn(|| desk.event_within(Duration::ZERO));
        events.map(|event| event.to_string().split([',', ':']).next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn a_call_that_notices_late_reports_no_second_outage() {
        let desk = Desk::new(&WorkerSettings::new(vec![("orders".to_owned(), 1)]));
        let error = Error::new(ErrorKind::Timeout, "no answer");
        let (first, second, late) = (Outage::of_call(&desk), Outage::of_call(&desk), Outage::of_call(&desk));
        first.failed(&error);
        first.failed(&error);
        second.failed(&error);
        assert_eq!(reported(&desk), ["the server cannot be used"]);
        drop(first);
        assert_eq!(reported(&desk), [""; 0], "the second has no answer yet");
        drop(second);
        assert_eq!(reported(&desk), ["the server answers again"]);

        late.failed(&error);
        assert_eq!(reported(&desk), [""; 0]);
        late.failed(&error);
        assert_eq!(reported(&desk), ["the server cannot be used"], "the next one");
        drop(late);
        assert_eq!(reported(&desk), ["the server answers again"]);
    }
}
