//! Of an owner that calls the hooks of failed jobs between its runs: what is claimed when, and how long the next run waits.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use super::unheard::Claimed;
use super::{Desk, State};

/// So many of a queue are claimed at once, and no more: others are to get some, too.
pub(super) const MOST_BETWEEN_RUNS: usize = 10;
/// When the next run has waited so long for hooks that are called before it, no more of them are begun.
pub(super) const LONGEST_HEARING: Duration = Duration::from_millis(500);
/// How long an executor waits until its owner reads the events again.
const READ_AGAIN: Duration = Duration::from_millis(1);

/// Of an owner that runs one job at a time and calls the hooks between two of them. While a job or a hook runs nothing is claimed,
/// because it would wait for the end of that; before the next run begins, the server is asked for some of what was left.
pub(super) struct BetweenRuns {
    /// By the queue: may there be something to hear? At first that is not known.
    may_hear: Vec<bool>,
    /// Since the last run began; at first the beat asks.
    is_asked: bool,
    /// When there is a job to run: until then it waits for hooks.
    waits_until: Option<Instant>,
    /// How many to claim at once: one after an answer that came too late for the hooks to be called.
    most: usize,
}

/// May the next run begin, or must it wait for hooks that are called before it?
#[derive(Clone, Copy)]
pub(super) enum Hearing {
    /// It may.
    Over,
    /// The run waits at most so long for the server's answer.
    Asks(Duration),
    /// The owner is to read its events before it asks again, this much later.
    Due(Duration),
}

impl Hearing {
    pub(super) fn at_most(self, wait: Duration) -> Duration {
        match self {
            Self::Over => wait,
            Self::Asks(longest) | Self::Due(longest) => wait.min(longest),
        }
    }
}

impl BetweenRuns {
    pub(super) fn new(lanes: usize) -> Self {
        Self { may_hear: vec![true; lanes], is_asked: true, waits_until: None, most: MOST_BETWEEN_RUNS }
    }

    /// How many jobs may be claimed at once.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Has the next run waited long enough?
    pub(super) fn is_over(&self) -> bool {
        self.waits_until.is_some_and(|until| until <= Instant::now())
    }

    /// An answer with jobs came in time for their hooks, or too late.
    pub(super) fn learn(&mut self, is_late: bool) {
        self.most = if is_late { 1 } else { MOST_BETWEEN_RUNS.min(2 * self.most) };
    }
}

impl Desk {
    /// The executor may wait for what was heard.
    pub(super) fn wake_hearers(&self, state: MutexGuard<'_, State>) {
        if state.between_runs.is_some() {
            self.wake_executors(state, usize::MAX);
        }
    }

    /// May the next run begin? Asks what there is to hear, if that is not known.
    pub(super) fn hears_first(&self, state: &mut State) -> Hearing {
        let Some(between) = &mut state.between_runs else { return Hearing::Over };
        let may_hear = between.may_hear.contains(&true);
        let is_due = state.claimed.iter().any(Claimed::is_due);
        if !(may_hear || is_due) {
            return Hearing::Over;
        }
        if !std::mem::replace(&mut between.is_asked, true) {
            for (lane, _) in between.may_hear.iter().enumerate().filter(|(_, may_hear)| **may_hear) {
                self.note_news(lane);
            }
        }
        if state.jobs.fetched.is_empty() {
            return Hearing::Over;
        }
        let now = Instant::now();
        let until = *between.waits_until.get_or_insert(now + LONGEST_HEARING);
        if now < until {
            return if is_due { Hearing::Due(READ_AGAIN) } else { Hearing::Asks(until - now) };
        }
        between.may_hear.fill(false);
        self.give_back_late(state);
        Hearing::Over
    }

    /// If a job to run has waited long enough for the hooks of others, another worker is to call those that are not begun.
    pub(super) fn give_back_late(&self, state: &mut State) {
        let has_job = !state.jobs.fetched.is_empty();
        let Some(between) = state.between_runs.as_mut().filter(|_| has_job) else { return };
        between.waits_until.get_or_insert_with(|| Instant::now() + LONGEST_HEARING);
        if between.is_over() {
            self.give_back_due(state);
        }
    }

    /// Another worker is to call the hooks that are not begun.
    pub(super) fn give_back_due(&self, state: &mut State) {
        for one in state.claimed.iter_mut().filter(|one| one.is_due()) {
            let lane = one.give_back();
            if let Some(between) = &mut state.between_runs {
                between.may_hear[lane] = true;
            }
            self.note_news(lane);
        }
    }
}

impl State {
    /// Does the owner call a hook just now? It has the grace, as a run.
    pub(super) fn is_in_hook(&self) -> bool {
        self.claimed.iter().any(Claimed::is_begun)
    }

    pub(super) fn note_may_hear(&mut self, lane: usize, may_hear: bool) {
        self.hooks.note_more(lane, may_hear);
        if let Some(between) = &mut self.between_runs {
            between.may_hear[lane] = may_hear;
        }
    }

    /// A run begins: what comes from now on is for the time before the next one. Or none can begin yet, and so none waits.
    pub(super) fn waits_no_more(&mut self, begins: bool) {
        if let Some(between) = &mut self.between_runs {
            between.is_asked &= !begins;
            between.waits_until = None;
        }
    }
}
