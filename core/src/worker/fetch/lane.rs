//! The fetch loop's state of one queue, and when it checks that again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::process::host;
use crate::queue::{Part, Trust};
use crate::script::{ReserveReply, ReserveStatus};
use crate::worker::appetite::{self, Appetite};
use crate::worker::desk::Want;
use crate::worker::outlasts::Past;

/// Every waiter looks again after this long at the latest, whatever the reply said, because wake-ups are hints that can get
/// lost with whoever took them; and up to `SPREAD` earlier, so that waiters do not look all at once.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(3200);
const SPREAD: Duration = Duration::from_millis(600);
/// A worker of many queues leaves them so much time each, and up to the half of it less: some eleven looks a second at those
/// that are idle, however many they are.
const LOOK_OF_EACH: Duration = Duration::from_millis(120);
/// A queue that gave fewer jobs than asked is looked at again this much later: to learn when its next job is due, but in
/// the same call as the first outcome if that comes as soon.
const SECOND_LOOK: Duration = Duration::from_millis(1);
/// How many calls to a queue that has plenty are under way at once: the server works on one while we unpack the other.
const CALLS_AT_ONCE: usize = 2;

/// One queue.
pub(super) struct Lane {
    /// With the engine's own connections.
    pub(super) queue: Part,
    /// What jobs carry: the user's client.
    pub(super) for_jobs: Part,
    pub(super) weight: u32,
    pub(super) look_at: Instant,
    /// The server time at which we promised to come back; 0 for no promise.
    pub(super) promise: u64,
    /// In the promises of others.
    pub(super) trust: Trust,
    /// It has limits: a job that waited here for an executor would take a place from a worker that is idle.
    pub(super) limited: bool,
    /// Its last call for jobs brought all that was asked for: the next may go out before it is answered.
    pub(super) has_plenty: bool,
    /// How long its last call took: a second one beside a long one would only hold up the renewals behind both.
    pub(super) last_call: Duration,
    /// Its last call for jobs brought none, and there was none to be had.
    pub(super) is_empty: bool,
    pub(super) calls: usize,
    /// When the first of these calls began, or one was answered since.
    pub(super) heard_at: Instant,
    /// Since when it is passed over, because it was called and said nothing for too long.
    pub(super) silent_since: Option<Instant>,
    pub(super) appetite: Appetite,
    pub(super) past: Arc<Past>,
    /// When it was woken, or somebody asked what is there now, if it was not called since: a call that was under way may not have seen it.
    pub(super) woken_at: Option<Instant>,
}

impl Lane {
    pub(super) fn new(queue: Part, for_jobs: Part, weight: u32, now: Instant) -> Self {
        Self {
            queue,
            for_jobs,
            weight,
            look_at: now,
            promise: 0,
            trust: Trust::default(),
            limited: false,
            has_plenty: false,
            last_call: Duration::ZERO,
            is_empty: false,
            calls: 0,
            heard_at: now,
            silent_since: None,
            appetite: Appetite::default(),
            past: Arc::default(),
            woken_at: None,
        }
    }

    /// Something may be there that no call has seen, also none that is under way.
    pub(super) fn looks_anew(&mut self, now: Instant) {
        self.look_at = now;
        self.woken_at = Some(now);
    }

    /// How many jobs to ask this queue for.
    pub(super) fn wants(&self, want: Want) -> usize {
        if self.limited { want.free } else { want.jobs }
    }

    /// Under a strict order: may the queues behind it be asked?
    pub(super) fn lets_pass(&self, now: Instant) -> bool {
        self.is_silent() || (self.is_empty && self.look_at > now)
    }

    /// It is to be looked at, as soon as an executor is free.
    pub(super) fn waits_for_executor(&self, now: Instant) -> bool {
        self.limited && self.look_at <= now && !self.is_silent()
    }

    /// Is there nothing to do here until it is due or woken? What was due when the loop `looked` waits for a call to be answered,
    /// or for executors to want more. What has become due since has nobody else to wait for.
    pub(super) fn sleeps(&self, want: Want, looked: Instant) -> bool {
        self.wants(want) > 0 && self.look_at > looked
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent_since.is_some()
    }

    pub(super) fn takes_a_call(&self) -> bool {
        let takes_two = self.has_plenty && self.last_call <= appetite::LONG;
        !self.is_silent() && (self.calls == 0 || (takes_two && self.calls < CALLS_AT_ONCE))
    }
}

/// When a worker of so many queues looks again at one that is idle: at the earliest, and at the latest.
pub(super) fn look_again(queues: usize) -> (Duration, Duration) {
    let of_all = LOOK_OF_EACH.saturating_mul(u32::try_from(queues).unwrap_or(u32::MAX));
    (LOOK_AGAIN.saturating_sub(SPREAD).max(of_all / 2), LOOK_AGAIN.max(of_all))
}

/// When to look at a queue again.
pub(super) fn next_look(
    reply: &ReserveReply,
    want: usize,
    (earliest, latest): (Duration, Duration),
    trust: &mut Trust,
) -> Duration {
    let granted = reply.jobs.len();
    if granted > 0 {
        return if granted < want { SECOND_LOOK } else { Duration::ZERO };
    }
    let again = latest.saturating_sub(latest.saturating_sub(earliest).mul_f64(host::random_fraction()));
    if reply.is_unfinished() {
        return Duration::ZERO;
    }
    let is_paused = reply.status == ReserveStatus::Paused;
    trust.next_look(reply.next_in, reply.promised > 0, is_paused, again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_idle_queues_are_looked_at_a_few_times_a_second_together() {
        let seconds = |queues| {
            let (earliest, latest) = look_again(queues);
            (earliest.as_secs_f64(), latest.as_secs_f64())
        };
        assert_eq!(seconds(1), (2.6, 3.2));
        assert_eq!(seconds(26), (2.6, 3.2));
        assert_eq!(seconds(50), (3.0, 6.0));
        assert_eq!(seconds(300), (18.0, 36.0));
    }
}
