//! Of an owner that pulls jobs when it likes, and may stop asking for them: a consumer.
//!
//! A worker has executors, and jobs are fetched for all that are free. Here jobs are fetched for those who ask, and for one who has asked
//! a moment ago; what nobody takes goes back. Nobody can be asked to end a run either: one that is interrupted is over at once, and
//! another one may follow.

use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::runs::{Concluded, Run, Taken};
use super::{Desk, Phase, State};
use crate::process::sign::Sign;
use crate::queue::Decided;
use crate::value::retry::Next;
use crate::value::time::LONGEST_WAIT;
use crate::worker::executor::ExecutorShared;

/// Who asks again within this time has not stopped asking.
const LINGERS: Duration = Duration::from_millis(250);
/// Who does not wait gets what the next look at the queues brings, if that takes no longer and the server answers.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// What is known of the owner.
#[derive(Default)]
pub(super) struct Pulls {
    /// Counts the questions, and those at which the fetch loop has found nothing.
    asked: u64,
    looked: u64,
    /// One that found nothing is asked again before this.
    pub(super) asks_until: Option<Instant>,
    /// One that does not wait wants to know what is there now, and not what was there a moment ago.
    looks_anew: bool,
    /// Gets readable when there is something to take or to read, for an event loop.
    sign: Option<Sign>,
    /// The event loop has found nothing, and waits for the sign.
    awaits_sign: bool,
}

/// One question, until it is answered.
struct Question {
    until: Instant,
    /// Does it wait for the look of the fetch loop only?
    is_instant: bool,
    number: u64,
}

impl Question {
    fn new(wait: Duration) -> Self {
        let longest = if wait.is_zero() { LONGEST_LOOK } else { wait.min(LONGEST_WAIT) };
        Self { until: Instant::now() + longest, is_instant: wait.is_zero(), number: 0 }
    }
}

/// A task that waits, until it is gone.
struct WaitingTask<'a>(&'a Desk);

impl Drop for WaitingTask<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting.tasks -= 1;
    }
}

impl Desk {
    /// The desk of an owner that pulls.
    pub(in crate::worker) fn pulled(mut self) -> Self {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).pulls = Some(Pulls::default());
        self
    }

    pub(in crate::worker) fn is_pulled(&self) -> bool {
        self.lock().pulls.is_some()
    }

    /// The next run, waited for by a thread; without a wait, for as long as one look at the queues takes.
    pub(in crate::worker) fn pull_within(&self, executor: &Arc<ExecutorShared>, wait: Duration) -> Taken {
        let mut question = Question::new(wait);
        let mut state = self.lock();
        loop {
            let left = match self.answer(&mut state, executor, &mut question) {
                Ok(taken) => {
                    self.refill(state);
                    return taken;
                }
                Err(left) => left,
            };
            state.waiting.threads += 1;
            state = self.for_job.threads.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting.threads -= 1;
        }
    }

    /// A run that may begin now; asks for none.
    pub(in crate::worker) fn pull_now(&self, executor: &Arc<ExecutorShared>) -> Taken {
        let mut state = self.lock();
        if state.phase != Phase::Working {
            return Taken::Over;
        }
        if state.runs.running >= state.concurrency {
            return Taken::None;
        }
        let taken = state.take(executor, self);
        if matches!(taken, Taken::Run(_)) {
            state.asks_no_more();
            self.refill(state);
        }
        taken
    }

    /// The same for a task, which may be dropped while it waits.
    pub(in crate::worker) async fn pull(&self, executor: &Arc<ExecutorShared>, wait: Duration) -> Taken {
        let mut question = Question::new(wait);
        loop {
            // Registered before the look, so that what comes in between is not missed.
            let mut there = std::pin::pin!(self.for_job.tasks.notified());
            there.as_mut().enable();
            let left = {
                let mut state = self.lock();
                match self.answer(&mut state, executor, &mut question) {
                    Ok(taken) => {
                        self.refill(state);
                        return taken;
                    }
                    Err(left) => {
                        state.waiting.tasks += 1;
                        left
                    }
                }
            };
            let _waits = WaitingTask(self);
            _ = tokio::time::timeout(left, there).await;
        }
    }

    /// A run, or that there is none; or how much longer to wait for one.
    fn answer(
        &self,
        state: &mut State,
        executor: &Arc<ExecutorShared>,
        question: &mut Question,
    ) -> Result<Taken, Duration> {
        if state.phase != Phase::Working {
            return Ok(Taken::Over);
        }
        let all_are_out = state.runs.running >= state.concurrency;
        if !all_are_out && let taken @ Taken::Run(_) = state.take(executor, self) {
            state.asks_no_more();
            return Ok(taken);
        }
        let is_first = question.number == 0;
        let Some(pulls) = &mut state.pulls else { return Ok(Taken::None) };
        if is_first {
            pulls.asked += 1;
            question.number = pulls.asked;
        }
        let now = Instant::now();
        pulls.asks_until = Some(now + LINGERS);
        pulls.awaits_sign = pulls.sign.is_some();
        pulls.looks_anew |= is_first && question.is_instant && !all_are_out && pulls.sign.is_none();
        let nobody_looks = pulls.sign.is_some() || all_are_out || state.trouble.calls > 0;
        let is_answered = pulls.looked >= question.number || nobody_looks;
        let left = question.until.saturating_duration_since(now);
        let is_over = left.is_zero() || question.is_instant && is_answered;
        if is_over {
            pulls.hide();
        }
        if is_first && state.wake_if(true) {
            self.for_fetcher.notify_one();
        }
        if is_over { Ok(Taken::None) } else { Err(left) }
    }

    /// Are the queues to be looked at now, whatever is known of them? Said once.
    pub(in crate::worker) fn looks_anew(&self) -> bool {
        let mut state = self.lock();
        state.pulls.as_mut().is_some_and(|pulls| std::mem::take(&mut pulls.looks_anew))
    }

    /// Settles the job of a run that was pulled, with the next call to its queue. Nothing if that is decided already.
    pub(in crate::worker) fn settle(&self, run: &Run, decided: Decided) -> Option<Next> {
        match self.conclude(run, Some(decided), false) {
            Concluded::Noted(next) => Some(next),
            Concluded::Before(_) => None,
        }
    }

    /// A descriptor that is readable while there is something to take or to read, until a question finds nothing.
    pub(in crate::worker) fn sign(&self) -> io::Result<RawFd> {
        let mut state = self.lock();
        let wakes = state.wake_if(true);
        let Some(pulls) = &mut state.pulls else { return Err(io::ErrorKind::Unsupported.into()) };
        if pulls.sign.is_none() {
            // What is there may have come before.
            pulls.sign.insert(Sign::new()?).show();
        }
        pulls.awaits_sign = true;
        let fd = pulls.sign.as_ref().map_or(-1, Sign::fd);
        drop(state);
        if wakes {
            self.for_fetcher.notify_one();
        }
        Ok(fd)
    }
}

impl Pulls {
    fn hide(&mut self) {
        if let Some(sign) = &mut self.sign {
            sign.hide();
        }
    }
}

impl State {
    /// For how many runs at once jobs are to be here.
    pub(super) fn slots(&self) -> usize {
        let Some(pulls) = &self.pulls else { return self.concurrency };
        if pulls.awaits_sign {
            return self.concurrency;
        }
        let lingers = pulls.asks_until.is_some_and(|until| until > Instant::now());
        let asking = (self.waiting.threads + self.waiting.tasks).max(usize::from(lingers));
        self.concurrency.min(self.runs.running + asking)
    }

    /// Is there somebody who takes what waits, as soon as it may start?
    pub(super) fn has_takers(&self) -> bool {
        let asks = self.pulls.is_none() || self.waiting.threads + self.waiting.tasks > 0;
        asks && self.runs.running < self.concurrency
    }

    /// When one who has asked is taken for gone.
    pub(super) fn asks_until(&self) -> Option<Instant> {
        self.pulls.as_ref()?.asks_until
    }

    /// Who has asked has got a job, or did not come for it.
    pub(super) fn asks_no_more(&mut self) {
        if let Some(pulls) = &mut self.pulls {
            pulls.asks_until = None;
            pulls.awaits_sign = false;
        }
    }

    /// Does somebody want to know what is there now, and the fetch loop has not heard of it?
    pub(super) fn is_asked_anew(&self) -> bool {
        self.pulls.as_ref().is_some_and(|pulls| pulls.looks_anew)
    }

    /// The fetch loop has nothing to do: those who asked for what is there need not wait for that any longer.
    pub(super) fn has_looked(&mut self, desk: &Desk) {
        let Some(pulls) = self.pulls.as_mut().filter(|pulls| pulls.looked < pulls.asked) else { return };
        if self.lanes.calls == 0 {
            pulls.looked = pulls.asked;
            desk.for_job.threads.notify_all();
            desk.for_job.tasks.notify_waiters();
        }
    }

    /// Tells an event loop that a job may be taken, if one may.
    pub(super) fn show_jobs(&mut self) {
        if self.pulls.is_some() && !self.jobs.fetched.is_empty() && self.runs.running < self.concurrency {
            self.show();
        }
    }

    /// Tells an event loop to look.
    pub(super) fn show(&mut self) {
        if let Some(sign) = self.pulls.as_mut().and_then(|pulls| pulls.sign.as_mut()) {
            sign.show();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::worker::WorkerSettings;
    use crate::worker::desk::Step;

    #[tokio::test]
    async fn a_question_that_comes_when_the_loop_has_seen_what_is_due_waits_for_the_next_look() {
        let settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        let (desk, executor) = (Desk::new(&settings).pulled(), Arc::new(ExecutorShared::new(0)));
        assert!(!desk.looks_anew());
        let mut asked = pin!(desk.pull(&executor, Duration::ZERO));
        let mut is_answered = || asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_answered());
        let Step::Sleep { until: Some(until), .. } = desk.next_step(false) else { panic!("nothing is due") };
        assert!(until <= Instant::now() && !is_answered());
        assert!(desk.looks_anew());
        let Step::Sleep { .. } = desk.next_step(false) else { panic!("it was looked at") };
        assert!(is_answered());
    }
}
