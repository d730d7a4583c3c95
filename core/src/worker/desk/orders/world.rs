//! What stands around a desk in these tests: a server that knows the leases, executors or owners that pull, the fetch loop, the timer and
//! the renewals. No clock decides anything: what time would bring is an event.

mod checks;
mod clock;
mod owners;
mod server;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use self::clock::{FAR, past};
use self::owners::{Doing, Owner, Running, Says, asks};
use self::server::{Call, LEASE, Lease, Loop};
use super::scenario::{Kind, Rare, Scenario};
use crate::queue::Part;
use crate::value::retry::Next;
use crate::worker::WorkerSettings;
use crate::worker::desk::{Desk, Phase};
use crate::worker::executor::{Executor, ExecutorShared};

/// A world that does not come to rest after so many events never does.
const LONGEST: usize = 200;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The fetch loop looks. If they ride, outcomes may wait for more of them.
    Look {
        they_ride: bool,
    },
    /// Of this call.
    Answer(usize),
    GiveUp(usize),
    /// Of this owner.
    Asks(usize),
    Finishes(usize),
    Decides(usize),
    Says(usize),
    /// It hears of the answer.
    IsTold(usize),
    Renew(usize),
    Renewed,
    /// Of this lease.
    Lose(usize),
    Ring,
    Stop,
    GraceEnds,
    Hoard,
    Silence(usize),
}

/// What becomes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    Failed,
    Back,
}

impl Fate {
    fn of_verb(verb: &str) -> Self {
        match verb {
            "ack" => Self::Done,
            "release" | "unstarted" => Self::Back,
            _ => Self::Failed,
        }
    }

    fn of_next(next: Next) -> Self {
        match next {
            Next::Ack => Self::Done,
            Next::ReleaseAfter(_) => Self::Back,
            _ => Self::Failed,
        }
    }
}

pub(super) struct World<'a> {
    scenario: &'a Scenario<'a>,
    desk: Arc<Desk>,
    queue: &'a Part,
    ready: Vec<VecDeque<Kind>>,
    leases: Vec<Lease>,
    owners: Vec<Owner>,
    calls: Vec<Call>,
    renewal: Option<(usize, Vec<(String, u64)>)>,
    renewals: usize,
    rare: Vec<Rare>,
    fetcher: Loop,
    is_silent: Vec<bool>,
    is_stopped: bool,
    is_abandoned: bool,
    /// Acked, failed, released: as the server has answered the worker.
    answered: [u64; 3],
    happened: Vec<Event>,
}

fn is_ready(future: Pin<&mut (impl Future + ?Sized)>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario<'a>, queue: &'a Part) -> Self {
        let mut settings = WorkerSettings::new((0..scenario.lanes).map(|lane| (format!("q{lane}"), 1)).collect());
        (settings.concurrency, settings.lease, settings.grace) = (scenario.concurrency, LEASE, FAR);
        (settings.max_jobs, settings.timeout) = (scenario.max_jobs, Some(FAR));
        let desk = Desk::new(&settings);
        let desk = Arc::new(if scenario.is_pulled { desk.pulled() } else { desk });
        if scenario.fetches_ahead {
            let mut state = desk.lock();
            state.prefetch.learn(Duration::ZERO);
            (0..2).for_each(|_| state.prefetch.grow(scenario.concurrency));
        }
        let mut ready = vec![VecDeque::new(); scenario.lanes];
        scenario.kinds.iter().for_each(|kind| ready[kind.lane].push_back(*kind));
        let owner = |tag| {
            let executor = Executor { desk: Arc::clone(&desk), shared: Arc::new(ExecutorShared::new(tag)) };
            Owner { doing: asks(&executor, scenario.is_pulled), executor }
        };
        Self {
            scenario,
            queue,
            ready,
            leases: Vec::new(),
            owners: (0..scenario.owners as u64).map(owner).collect(),
            calls: Vec::new(),
            renewal: None,
            renewals: scenario.renewals,
            rare: scenario.rare.to_vec(),
            fetcher: Loop::Looks,
            is_silent: vec![false; scenario.lanes],
            is_stopped: false,
            is_abandoned: false,
            answered: [0; 3],
            happened: Vec::new(),
            desk,
        }
    }

    /// One order; the error says what was wrong with it.
    pub(super) fn run(mut self, draw: &mut dyn FnMut(usize) -> usize) -> Result<(), String> {
        let mut orders = || {
            for _ in 0..self.scenario.before {
                let first = self.usual().first().copied().ok_or("nothing comes first")?;
                self.happens(first)?;
            }
            for _ in 0..self.scenario.events {
                let mut possible = self.usual();
                possible.extend(self.unusual());
                if possible.is_empty() {
                    break;
                }
                self.happens(possible.swap_remove(draw(possible.len())))?;
            }
            self.comes_to_rest()?;
            self.nothing_waits()?;
            if !self.is_stopped {
                self.happens(Event::Stop)?;
            }
            self.comes_to_rest()?;
            self.has_ended()
        };
        let checked = orders();
        checked.map_err(|wrong: String| format!("{wrong}, after {:?}: {:#?}", self.happened, self.leases))
    }

    /// Everybody goes on, and nothing unusual happens.
    fn comes_to_rest(&mut self) -> Result<(), String> {
        for _ in 0..LONGEST {
            // The renewals go on, too.
            let Some(next) = self.usual().first().copied().or_else(|| self.unsure_lane().map(Event::Renew)) else {
                return Ok(());
            };
            self.happens(next)?;
        }
        Err("it never comes to rest".to_owned())
    }

    /// A queue with a job that waits to be renewed.
    fn unsure_lane(&self) -> Option<usize> {
        let (state, now) = (self.desk.lock(), Instant::now());
        let mut waiting = state.jobs.fetched.iter().filter_map(|&index| state.jobs.leased[index].as_ref());
        waiting.find(|leased| leased.sure_until <= now).map(|leased| leased.lane)
    }

    /// What may happen next of itself; those first that bring the others to an end.
    fn usual(&self) -> Vec<Event> {
        let mut possible: Vec<Event> = (0..self.calls.len()).map(Event::Answer).collect();
        possible.extend(self.renewal.is_some().then_some(Event::Renewed));
        for (at, owner) in self.owners.iter().enumerate() {
            match &owner.doing {
                Doing::Asks { woken, .. } if woken.0.load(Ordering::Relaxed) => possible.push(Event::Asks(at)),
                Doing::Runs(Running { says: Says::UnderWay { .. }, .. }) => possible.push(Event::IsTold(at)),
                Doing::Runs(_) => possible.push(Event::Finishes(at)),
                _ => {}
            }
        }
        if matches!(self.fetcher, Loop::Looks | Loop::Sleeps { wakes: true }) {
            possible.push(Event::Look { they_ride: false });
        }
        possible
    }

    fn unusual(&self) -> Vec<Event> {
        let mut possible = Vec::new();
        let state = self.desk.lock();
        let may = |rare| self.rare.contains(&rare);
        let is_stopping = matches!(state.phase, Phase::Stopping { .. });
        if self.fetcher == Loop::Looks && state.lanes.outcomes > 0 {
            possible.push(Event::Look { they_ride: true });
        }
        if self.renewals > 0 && self.renewal.is_none() {
            possible.extend((0..self.scenario.lanes).map(Event::Renew));
        }
        for (at, owner) in self.owners.iter().enumerate() {
            let Doing::Runs(running) = &owner.doing else { continue };
            let is_new = matches!(running.says, Says::Nothing) && !running.is_decided;
            let fails = self.leases[running.lease].kind.fails;
            possible.extend((may(Rare::Decide) && is_new && fails).then_some(Event::Decides(at)));
            possible.extend((may(Rare::Says) && is_new).then_some(Event::Says(at)));
        }
        if may(Rare::Lose) {
            let held = |at: &usize| self.leases[*at].is_held && self.leases[*at].settled_as.is_none();
            possible.extend((0..self.leases.len()).filter(held).map(Event::Lose));
        }
        let once = [
            (Rare::Ring, !state.runs.timeouts.is_empty(), Event::Ring),
            (Rare::Stop, true, Event::Stop),
            (Rare::GraceEnds, self.is_stopped && is_stopping, Event::GraceEnds),
            (Rare::Hoard, !state.jobs.fetched.is_empty() && matches!(self.fetcher, Loop::Sleeps { .. }), Event::Hoard),
        ];
        possible.extend(once.into_iter().filter(|(rare, is_possible, _)| may(*rare) && *is_possible).map(|one| one.2));
        if may(Rare::Silence) && self.scenario.lanes > 1 {
            let calls = |lane: &usize| self.calls_of(*lane) > 0 && !self.is_silent[*lane];
            possible.extend((0..self.scenario.lanes).filter(calls).map(Event::Silence));
        }
        if may(Rare::GiveUp) && is_stopping {
            possible.extend((0..self.calls.len()).map(Event::GiveUp));
        }
        possible
    }

    fn happens(&mut self, event: Event) -> Result<(), String> {
        self.happened.push(event);
        let rare = match event {
            Event::Ring => Some(Rare::Ring),
            Event::Lose(_) => Some(Rare::Lose),
            Event::Stop => Some(Rare::Stop),
            Event::GraceEnds => Some(Rare::GraceEnds),
            Event::Decides(_) => Some(Rare::Decide),
            Event::Says(_) => Some(Rare::Says),
            Event::Hoard => Some(Rare::Hoard),
            Event::Silence(_) => Some(Rare::Silence),
            Event::GiveUp(_) => Some(Rare::GiveUp),
            _ => None,
        };
        self.rare.retain(|one| Some(*one) != rare);
        match event {
            Event::Look { they_ride } => self.look(they_ride)?,
            Event::Answer(call) => self.answer(call),
            Event::GiveUp(call) => self.give_up(call),
            Event::Asks(owner) => self.ask(owner)?,
            Event::Finishes(owner) => self.finish(owner)?,
            Event::Decides(owner) => self.decide(owner)?,
            Event::Says(owner) => self.say(owner),
            Event::IsTold(owner) => self.tell(owner)?,
            Event::Renew(lane) => {
                let held = self.desk.begin_renewal(lane, Instant::now(), LEASE);
                self.renewals = self.renewals.saturating_sub(1);
                self.renewal = (!held.is_empty()).then_some((lane, held));
            }
            Event::Renewed => self.renewed(),
            Event::Lose(lease) => self.lose(lease),
            Event::Ring => self.ring(),
            Event::Stop => {
                self.is_stopped = true;
                self.desk.stop(FAR);
            }
            Event::GraceEnds => self.grace_ends(),
            Event::Hoard => {
                for leased in self.desk.lock().jobs.leased.iter_mut().flatten() {
                    leased.fetched_at = past();
                }
                self.look(false)?;
            }
            Event::Silence(lane) => {
                self.is_silent[lane] = true;
                self.desk.falls_silent(lane);
                self.wakes_fetcher();
            }
        }
        self.keep_clocks();
        self.attend_timer()?;
        if matches!(self.fetcher, Loop::Sleeps { .. }) && is_ready(std::pin::pin!(self.desk.called())) {
            self.fetcher = Loop::Looks;
        }
        self.interruptions_are_right()
    }
}
