//! The desk's state of each queue. One whose node says nothing holds up no other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outcomes::Batch;
use super::{Desk, Leased, State, Tallies};
use crate::worker::appetite::Appetite;

/// What the desk keeps of the queues, and its sums over those that are not silent.
pub(super) struct Lanes {
    pub(super) each: Vec<Lane>,
    /// How many of them are silent.
    pub(super) silent: usize,
    /// Calls under way, and how many jobs they may bring.
    pub(super) calls: usize,
    pub(super) asked: usize,
    pub(super) outcomes: usize,
    pub(super) oldest_outcome: Option<Instant>,
}

/// What the desk keeps of one queue.
pub(super) struct Lane {
    /// Outcomes that wait for a call.
    pub(super) batches: VecDeque<Batch>,
    /// Outcomes that are on their way to the server.
    pub(super) under_way: Vec<Arc<Batch>>,
    /// Outcomes that were refused for good.
    pub(super) refused: Vec<Arc<Batch>>,
    /// How many bytes of outcomes a call may carry.
    pub(super) uploads: Appetite,
    /// Calls under way, and how many jobs they may bring.
    pub(super) calls: usize,
    pub(super) asked: usize,
    /// Its call gets no answer for now. The sums of calls, jobs asked for, outcomes and starts leave it out.
    pub(super) is_silent: bool,
    /// Has the queue limits, or a history?
    pub(super) has_options: bool,
    /// Was it reported that the queue has jobs of a later version?
    pub(super) has_newer: bool,
    /// What its runs came to since the last beat.
    pub(super) tallies: Tallies,
}

impl Lanes {
    pub(super) fn new(queues: usize) -> Self {
        let each = (0..queues).map(|_| Lane::new()).collect();
        Self { each, silent: 0, calls: 0, asked: 0, outcomes: 0, oldest_outcome: None }
    }

    /// A call to this queue begins, or has ended.
    pub(super) fn count_call(&mut self, lane: usize, want: usize, begins: bool) {
        let of_lane = &mut self.each[lane];
        let add = |sum: &mut usize, more: usize| if begins { *sum += more } else { *sum -= more };
        add(&mut of_lane.calls, 1);
        add(&mut of_lane.asked, want);
        if !of_lane.is_silent {
            add(&mut self.calls, 1);
            add(&mut self.asked, want);
        }
    }

    /// Leaves a queue that falls silent out of the sums. Gives how many starts wait for a call to it.
    fn leave_out(&mut self, lane: usize) -> usize {
        let of_lane = &mut self.each[lane];
        of_lane.is_silent = true;
        self.silent += 1;
        self.calls -= of_lane.calls;
        self.asked -= of_lane.asked;
        self.outcomes -= of_lane.outcomes();
        if self.outcomes == 0 {
            self.oldest_outcome = None;
        }
        of_lane.starts()
    }

    /// The same the other way round.
    fn take_in(&mut self, lane: usize) -> usize {
        let of_lane = &mut self.each[lane];
        of_lane.is_silent = false;
        self.silent -= 1;
        self.calls += of_lane.calls;
        self.asked += of_lane.asked;
        let outcomes = of_lane.outcomes();
        self.outcomes += outcomes;
        if outcomes > 0 {
            self.oldest_outcome.get_or_insert_with(Instant::now);
        }
        of_lane.starts()
    }

    /// Is any call under way, also to a queue that says nothing?
    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0 || (self.silent > 0 && self.each.iter().any(|lane| lane.calls > 0))
    }

    /// Has the server answered to all outcomes, also those of silent queues?
    pub(super) fn all_is_settled(&self) -> bool {
        self.each.iter().all(Lane::is_settled)
    }

    /// How many bytes of results, errors and records are to be sent, or on their way.
    pub(super) fn payload_bytes(&self) -> usize {
        self.each.iter().map(Lane::payload_bytes).sum()
    }
}

impl Lane {
    fn new() -> Self {
        Self {
            batches: VecDeque::new(),
            under_way: Vec::new(),
            refused: Vec::new(),
            uploads: Appetite::for_uploads(),
            calls: 0,
            asked: 0,
            is_silent: false,
            has_options: false,
            has_newer: false,
            tallies: Tallies::default(),
        }
    }

    /// A call that took these outcomes along was answered after so long, or given up.
    pub(super) fn call_ended(&mut self, batch: &Arc<Batch>, took: Duration, lease: Duration) {
        self.under_way.retain(|other| !Arc::ptr_eq(other, batch));
        if batch.outcomes.payload_bytes() > 0 {
            self.uploads.learn(batch.outcomes.payload_bytes(), took, lease);
        }
    }

    /// The call that took these outcomes along was refused.
    pub(super) fn refuse(&mut self, batch: &Arc<Batch>) {
        let refused = self.under_way.extract_if(.., |other| Arc::ptr_eq(other, batch));
        self.refused.extend(refused);
    }

    /// Nothing waits for a call, or for the answer to one.
    fn is_settled(&self) -> bool {
        self.batches.is_empty() && self.under_way.is_empty()
    }

    /// How many bytes of results, errors and records are to be sent, or on their way.
    fn payload_bytes(&self) -> usize {
        let all = self.under_way.iter().map(|batch| &**batch).chain(&self.batches);
        all.map(|batch| batch.outcomes.payload_bytes()).sum()
    }

    fn outcomes(&self) -> usize {
        self.batches.iter().map(|batch| batch.outcomes.len()).sum()
    }

    fn starts(&self) -> usize {
        self.batches.iter().map(Batch::starts).sum()
    }
}

impl Desk {
    /// A call to this queue gets no answer: until it does, the others go on without it.
    pub(in crate::worker) fn falls_silent(&self, lane: usize) {
        let mut state = self.lock();
        if !state.lanes.each[lane].is_silent {
            state.jobs.starts.unsent -= state.lanes.leave_out(lane);
            // Jobs that waited behind one of its own may start.
            self.wake_executors(state, usize::MAX);
        }
    }

    /// It was answered.
    pub(in crate::worker) fn speaks_again(&self, lane: usize) {
        let mut state = self.lock();
        if state.lanes.each[lane].is_silent {
            state.jobs.starts.unsent += state.lanes.take_in(lane);
        }
    }
}

impl State {
    pub(super) fn is_silent(&self, leased: &Leased) -> bool {
        self.lanes.each[leased.lane].is_silent
    }

    /// Is its lease surely ours, and its queue there to hear that it starts?
    pub(super) fn may_be_noted(&self, leased: &Leased, now: Instant) -> bool {
        leased.sure_until > now && !self.is_silent(leased)
    }

    /// How many jobs wait for an executor. Those of a silent queue whose leases nobody renews cannot be started, and keep the
    /// executors from no other job.
    pub(super) fn waiting_here(&self) -> usize {
        if self.lanes.silent == 0 {
            return self.jobs.fetched.len();
        }
        let now = Instant::now();
        let leased = self.jobs.fetched.iter().filter_map(|&index| self.jobs.leased[index].as_ref());
        leased.filter(|leased| leased.sure_until > now || !self.is_silent(leased)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::envelope::Envelope;
    use crate::queue::{Client, Job, Part};
    use crate::value::data::Data;
    use crate::value::error::{Error, ErrorKind};
    use crate::worker::WorkerSettings;
    use crate::worker::desk::{Outage, Step, Taken};
    use crate::worker::executor::{Ended, ExecutorShared};

    fn desk() -> (Desk, Part) {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let mut settings = WorkerSettings::new(vec![("a".to_owned(), 1), ("b".to_owned(), 1)]);
        settings.concurrency = 1;
        (Desk::new(&settings), client.queue_or_part("a").unwrap())
    }

    fn job(queue: &Part, id: &str) -> Job {
        Job::granted(Envelope::new(id, Data::from_json("1", 10).unwrap()), 0, 16, queue, false)
    }

    #[tokio::test]
    async fn what_a_silent_queue_was_asked_for_keeps_no_executor_from_the_others() {
        let (desk, queue) = desk();
        let waits = desk.begin_call(0, 1, None);
        assert!(matches!(desk.next_step(true), Step::Sleep { .. }), "the only executor is promised to the first queue");
        desk.falls_silent(0);
        assert!(matches!(desk.next_step(true), Step::Call { want } if want.jobs == 1));
        let answered = desk.begin_call(1, 1, None);
        desk.end_call(1, 1, &answered, Duration::ZERO, None);
        desk.end_call(0, 1, &waits, Duration::ZERO, None);
        desk.speaks_again(0);
        assert!(matches!(desk.next_step(true), Step::Call { want } if want.jobs == 1));

        // Jobs of it that cannot be started, as nobody renews their leases, do not either.
        desk.deliver(0, &Batch::default(), vec![job(&queue, "a1")], &[]);
        assert!(matches!(desk.next_step(true), Step::Sleep { .. }));
        desk.lock().jobs.leased[0].as_mut().unwrap().sure_until = Instant::now();
        desk.falls_silent(0);
        assert!(matches!(desk.next_step(true), Step::Call { want } if want.jobs == 1));
    }

    #[tokio::test]
    async fn outcomes_of_a_silent_queue_wait_and_are_sent_when_it_answers_again() {
        let (desk, queue) = desk();
        let executor = Arc::new(ExecutorShared::new(0));
        desk.deliver(0, &Batch::default(), vec![job(&queue, "a1")], &[]);
        let Taken::Run(run) = desk.take_within(&executor, Duration::ZERO) else { panic!("it may start") };
        let waits = desk.begin_call(0, 1, None);
        desk.falls_silent(0);
        desk.finish(&run, Ended::DONE, true).unwrap();
        assert!(matches!(desk.next_step(false), Step::Sleep { .. }), "its queue does not answer");

        // It is not forgotten by a stop.
        desk.stop(Duration::ZERO);
        assert!(matches!(desk.next_step(false), Step::Sleep { .. }));
        desk.end_call(0, 1, &waits, Duration::ZERO, None);
        desk.speaks_again(0);
        assert!(matches!(desk.next_step(false), Step::Call { .. }));
        let settles = desk.begin_call(0, 0, None);
        assert_eq!(settles.outcomes.len(), 1);
        let outage = Outage::of_call(&desk);
        outage.failed(&Error::new(ErrorKind::Timeout, "no answer"));
        let (other, farewell) = (Batch::default(), Duration::from_secs(60));
        assert!(!desk.is_hopeless(&other, farewell), "another call would end the worker, and this one with it");
        desk.end_call(0, 0, &settles, Duration::ZERO, None);
        assert!(desk.is_hopeless(&other, farewell));
        assert!(matches!(desk.next_step(false), Step::Over));
    }
}
