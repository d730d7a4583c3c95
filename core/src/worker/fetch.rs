//! The fetch loop: one script call settles what ended, promotes what is due, takes back what dead workers held, and fetches
//! the next jobs. Between calls it sleeps until something is due, a push wakes it, or a handler ends.
//!
//! | file | duty |
//! |---|---|
//! | `round.rs` | calls to the queues, in their order, and their answers |
//! | `sleep.rs` | waits between calls, and what happens to promises and wake-ups then |
//! | `lane.rs` | what the loop knows of one queue, and when it looks there again |

mod lane;
mod round;
mod sleep;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use self::lane::{Lane, look_again};
use self::round::Answered;
use super::WorkerSettings;
use super::desk::{Desk, Step, Want};
use super::wakes::Wakes;
use crate::queue::{Client, Part, Selection};
use crate::value::error::Error;

/// A queue that leaves a call without an answer for so long holds up the others no longer. In a cluster each may be elsewhere.
const SILENT: Duration = Duration::from_secs(1);

/// The loop's own state.
pub(super) struct Fetcher {
    desk: Arc<Desk>,
    client: Client,
    lanes: Vec<Lane>,
    selection: Selection,
    lease: Duration,
    is_pulled: bool,
    /// When to look again at a queue that is idle: at the earliest, and at the latest.
    look_again: (Duration, Duration),
    /// Calls under way: tasks of their own, so that none depends on what the loop waits for.
    calls: JoinSet<Answered>,
    wakes: Wakes,
}

impl Fetcher {
    pub(super) fn new(client: &Client, settings: &WorkerSettings, desk: Arc<Desk>) -> Result<Self, Error> {
        let own = client.for_worker(desk.listener())?;
        let now = Instant::now();
        let mut lanes = Vec::with_capacity(settings.queues.len());
        for (name, weight) in &settings.queues {
            lanes.push(Lane::new(own.queue_or_part(name)?, client.queue_or_part(name)?, *weight, now));
        }
        let wakes = Wakes::new(Arc::clone(&desk), lanes.len());
        let (selection, lease) = (settings.selection, settings.lease);
        let (look_again, is_pulled) = (look_again(lanes.len()), desk.is_pulled());
        Ok(Self { desk, client: own, lanes, selection, lease, is_pulled, look_again, calls: JoinSet::new(), wakes })
    }

    /// The loop's own.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn queues(&self) -> Vec<Part> {
        self.lanes.iter().map(|lane| lane.queue.clone()).collect()
    }

    /// The same queues as jobs carry them.
    pub(super) fn queues_of_jobs(&self) -> Vec<Part> {
        self.lanes.iter().map(|lane| lane.for_jobs.clone()).collect()
    }

    /// Runs until the desk says that it is over, also when a queue [has failed](Desk::fails). Errors: a defect, behind which nothing goes on.
    pub(super) async fn run(mut self) -> Result<(), Error> {
        loop {
            let now = Instant::now();
            self.note_silence(now);
            if self.is_pulled && self.desk.looks_anew() {
                self.lanes.iter_mut().for_each(|lane| lane.looks_anew(now));
            }
            let due = self.is_due(now, self.desk.has_free_executor());
            match self.desk.next_step(due) {
                Step::Call { want } => self.round(want).await?,
                Step::Sleep { until, want } => {
                    self.give_up_promises(want);
                    self.sleep(now, until, want).await?;
                }
                Step::Over => {
                    self.give_up_promises(Want::default());
                    while let Some(answered) = self.calls.join_next().await {
                        self.take_answer(answered)?;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// May a queue be asked for jobs now? As [`Self::round`] would do it.
    fn is_due(&self, now: Instant, free: bool) -> bool {
        let is_due = |lane: &Lane| lane.look_at <= now && (free || !lane.limited) && lane.takes_a_call();
        match self.selection {
            Selection::Strict => {
                let held_back = self.lanes.iter().position(|lane| !lane.lets_pass(now));
                self.lanes[..held_back.map_or(self.lanes.len(), |index| index + 1)].iter().any(is_due)
            }
            Selection::Weighted => {
                self.lanes.iter().all(|lane| free || !lane.waits_for_executor(now)) && self.lanes.iter().any(is_due)
            }
        }
    }

    /// When the others go on without this queue, if it says nothing.
    fn silent_at(&self, index: usize) -> Option<Instant> {
        let lane = &self.lanes[index];
        (self.lanes.len() > 1 && lane.calls > 0 && !lane.is_silent()).then(|| lane.heard_at + SILENT)
    }

    fn note_silence(&mut self, now: Instant) {
        for index in 0..self.lanes.len() {
            if self.silent_at(index).is_some_and(|at| at <= now) {
                self.lanes[index].silent_since = Some(now);
                self.desk.falls_silent(index);
            }
        }
    }
}
