//! The limits of a queue, and of names of its jobs.

use std::collections::BTreeMap;

use crate::script::{Levels, LimitUsage, LimitsReply};

use super::command::{Answer, CallId, Refused};
use super::rate::{self, Rate, RateAt};
use super::state::State;

/// The number of the queue's own.
const QUEUE: u64 = 0;
/// The most numbers that names can have.
const MOST_NUMBERS: u64 = 200;
/// How many of the jobs that run when a limit is set are counted.
const MOST_COUNTED: usize = 1000;

/// At most `concurrency` jobs reserved at once; `jobs` starts in `per_us`. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Limit {
    pub(super) concurrency: u64,
    pub(super) jobs: u64,
    pub(super) per_us: u64,
}

impl Limit {
    /// What is no limit is left out.
    pub(super) fn text(self) -> String {
        let some = |number: u64, text: String| if number > 0 { text } else { String::new() };
        let rate = some(self.jobs, format!("{}:{}", self.jobs, self.per_us));
        format!("{};{rate}", some(self.concurrency, self.concurrency.to_string()))
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    pub(super) fn rate(self, seen: Option<RateAt>, now_us: u64) -> Option<Rate> {
        (self.jobs > 0).then(|| Rate::new(self.jobs, self.per_us, seen, now_us))
    }
}

/// The limit of the queue, or of a name; none: it was taken away, but not all of its jobs are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) number: u64,
    pub(super) limit: Limit,
    pub(super) name: String,
}

/// What a queue knows of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Limits {
    Known(Vec<Limited>),
    /// `meta` was lost with them.
    Lost,
}

impl Limits {
    pub(super) fn text(&self) -> String {
        let line = |limited: &Limited| format!("{};{};{}", limited.number, limited.limit.text(), limited.name);
        match self {
            Self::Known(limits) => limits.iter().map(line).collect::<Vec<_>>().join("\n"),
            Self::Lost => "?".to_owned(),
        }
    }
}

/// How many more jobs of each number may run.
pub(super) type Rooms = BTreeMap<u64, u64>;

/// What the queue's limit leaves at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// `None`: as many as there are.
    pub(super) places: Option<u64>,
    pub(super) starts: Option<u64>,
}

impl Room {
    pub(super) fn total(self) -> Option<usize> {
        self.places.into_iter().chain(self.starts).min().map(|room| usize::try_from(room).unwrap())
    }

    pub(super) fn is_none(self) -> bool {
        self.total() == Some(0)
    }

    /// Is it the rate alone that holds jobs back once so many more have started?
    pub(super) fn waits_for_rate(self, started: usize) -> bool {
        self.total() == Some(started) && self.places.is_none_or(|places| places > started as u64)
    }
}

impl State {
    /// The limits as a call finds them.
    pub(super) fn limits(&self) -> Option<Limits> {
        let is_lost = self.meta.levels.is_none() && !self.records.is_empty();
        self.meta.limits.clone().or_else(|| is_lost.then_some(Limits::Lost))
    }

    pub(super) fn known_limits(&self) -> &[Limited] {
        match &self.meta.limits {
            Some(Limits::Known(limits)) => limits,
            _ => &[],
        }
    }

    /// Those of names.
    pub(super) fn name_limits(&self) -> impl Iterator<Item = &Limited> {
        self.known_limits().iter().filter(|limited| limited.number != QUEUE)
    }

    /// That of the queue.
    pub(super) fn queue_limit(&self) -> Limit {
        let own = self.known_limits().iter().find(|limited| limited.number == QUEUE);
        own.map(|limited| limited.limit).unwrap_or_default()
    }

    /// The number of the job's name, if that has one.
    pub(super) fn number_of(&self, id: &str) -> Option<u64> {
        let name = self.records.get(id)?.name.as_ref()?;
        self.name_limits().find(|limited| &limited.name == name).map(|limited| limited.number)
    }

    /// Limits that were taken away give no places.
    pub(super) fn take_place(&mut self, id: &str) {
        let number = self.number_of(id);
        let gives = |limited: &&Limited| Some(limited.number) == number && !limited.limit.is_none();
        let place = self.name_limits().find(gives).map(|limited| limited.number);
        if let Some(number) = place {
            self.places.insert(id.to_owned(), number);
        }
    }

    /// How many jobs have a place under it: of the queue's own, all that are reserved.
    pub(super) fn places_of(&self, number: u64) -> u64 {
        match number {
            QUEUE => self.leases.len() as u64,
            number => self.places.values().filter(|&&place| place == number).count() as u64,
        }
    }

    pub(super) fn room(&self) -> Room {
        let limit = self.queue_limit();
        let places = limit.concurrency.saturating_sub(self.places_of(QUEUE));
        let rate = self.rate_of(QUEUE, limit);
        Room { places: (limit.concurrency > 0).then_some(places), starts: rate.map(Rate::starts) }
    }

    pub(super) fn rooms(&self) -> Rooms {
        let starts = |limited: &Limited| self.rate_of(limited.number, limited.limit).map_or(u64::MAX, Rate::starts);
        let room = |limited: &Limited| self.places_left(limited).min(starts(limited));
        self.name_limits().map(|limited| (limited.number, room(limited))).collect()
    }

    fn places_left(&self, limited: &Limited) -> u64 {
        match limited.limit.concurrency {
            0 => u64::MAX,
            most => most.saturating_sub(self.places_of(limited.number)),
        }
    }

    fn rate_of(&self, number: u64, limit: Limit) -> Option<Rate> {
        limit.rate(self.meta.rate_at.get(&number).copied(), self.now_us())
    }

    /// The first microsecond at which the queue's rate lets a job start.
    pub(super) fn opens_us(&self) -> u64 {
        self.rate_of(QUEUE, self.queue_limit()).unwrap().opens_us()
    }

    /// The first microsecond at which the rate of a name lets a parked job start that has a place.
    pub(super) fn next_start_us(&self) -> Option<u64> {
        let is_parked = |limited: &Limited| self.parked.values().any(|parked| parked.number == limited.number);
        let waiting = self.name_limits().filter(|limited| self.places_left(limited) > 0 && is_parked(limited));
        let rates = waiting.filter_map(|limited| self.rate_of(limited.number, limited.limit));
        rates.filter(|rate| rate.starts() == 0).map(Rate::opens_us).min()
    }

    /// So many jobs of each limit start now.
    pub(super) fn charge_rates(&mut self, ids: &[String]) {
        for limited in self.known_limits().to_vec() {
            let number = limited.number;
            let counts = |id: &&String| number == QUEUE || self.number_of(id) == Some(number);
            let started = ids.iter().filter(counts).count() as u64;
            if let Some(rate) = self.rate_of(number, limited.limit).filter(|_| started > 0) {
                self.meta.rate_at.insert(number, rate.seen_after(started));
            }
        }
    }

    /// Each reserve writes down what is too late.
    pub(super) fn forget_other_rates(&mut self) {
        for limited in self.known_limits().to_vec() {
            let seen = self.meta.rate_at.get(&limited.number).copied();
            let rate = self.rate_of(limited.number, limited.limit);
            if let Some(corrected) = rate.zip(seen).and_then(|(rate, seen)| rate.corrected(seen)) {
                self.meta.rate_at.insert(limited.number, corrected);
            }
        }
    }

    /// Who ends a lease and takes no other job wakes somebody who may take one.
    pub(super) fn note_freed(&mut self) {
        let is_limited = self.queue_limit().concurrency > 0;
        let some_wait = is_limited && self.ready.values().any(|list| !list.is_empty());
        let later = || self.next_start_us().is_some_and(|next| !self.is_awaited(next.div_ceil(1000)));
        if !self.meta.paused && (some_wait || self.is_some_takeable() || later()) {
            self.wake_one();
        }
    }

    /// What is left of limits without those that were taken away and have no job any more.
    fn live(&self, limits: Limits) -> Option<Limits> {
        let parked: Vec<u64> = self.parked.values().map(|parked| parked.number).collect();
        let is_used = |number: u64| number != QUEUE && (self.places_of(number) > 0 || parked.contains(&number));
        let live: Vec<_> = match limits {
            Limits::Known(limits) => {
                limits.into_iter().filter(|limited| !limited.limit.is_none() || is_used(limited.number)).collect()
            }
            Limits::Lost => (1..=MOST_NUMBERS)
                .filter(|&number| is_used(number))
                .map(|number| Limited { number, limit: Limit::default(), name: String::new() })
                .collect(),
        };
        (!live.is_empty()).then_some(Limits::Known(live))
    }

    fn write_limits(&mut self, limits: Option<Limits>) {
        if limits.is_none() {
            self.meta.parked = None;
        }
        self.meta.limits = limits;
    }

    /// Each reserve forgets the limits that are over, and finds a queue again that lost its `meta`.
    ///
    /// `found`: as it found them.
    pub(super) fn forget_limits(&mut self, passed: Levels, found: Option<Limits>) {
        let Some(limits) = found else { return };
        if self.meta.levels.is_none() {
            self.note_use(passed, None);
        }
        let live = self.live(limits);
        if live != self.meta.limits {
            self.write_limits(live);
        }
    }

    pub(super) fn limit(
        &mut self,
        passed: Levels,
        call: &CallId,
        of_queue: Option<Limit>,
        names: &[(String, Limit)],
    ) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit(passed)?;
        if !self.set_limits(passed, of_queue, names) {
            return Ok(self.remember(call, "busy".to_owned()));
        }
        self.wake_one();
        Ok(self.remember(call, "ok".to_owned()))
    }

    /// Says whether there were numbers enough.
    fn set_limits(&mut self, passed: Levels, of_queue: Option<Limit>, names: &[(String, Limit)]) -> bool {
        let found = self.limits();
        if found.is_none() && of_queue.is_none() && names.is_empty() {
            self.note_use(passed, found);
            return true;
        }
        let mut limits = match found.clone().and_then(|limits| self.live(limits)) {
            Some(Limits::Known(limits)) => limits,
            _ => Vec::new(),
        };
        let mut is_new = false;
        for limited in &mut limits {
            let wanted = names.iter().find(|(name, _)| name == &limited.name).map(|(_, limit)| *limit);
            let wanted = if limited.number == QUEUE { of_queue } else { wanted }.unwrap_or_default();
            is_new |= limited.number != QUEUE && limited.limit.is_none() && !wanted.is_none();
            limited.limit = wanted;
        }
        if let Some(limit) = of_queue.filter(|_| limits.iter().all(|limited| limited.number != QUEUE)) {
            limits.push(Limited { number: QUEUE, limit, name: String::new() });
        }
        for (name, limit) in names {
            let is_known = |limited: &Limited| limited.number != QUEUE && &limited.name == name;
            if !limits.iter().any(is_known) {
                let is_free = |number: &u64| limits.iter().all(|limited| limited.number != *number);
                let number = (1..=limits.len() as u64 + 1).find(is_free).unwrap();
                limits.push(Limited { number, limit: *limit, name: name.clone() });
                is_new = true;
            }
        }
        if limits.iter().any(|limited| limited.number > MOST_NUMBERS) {
            return false;
        }
        let live = self.live(Limits::Known(limits));
        self.note_use(passed, found);
        self.write_limits(live);
        // What a rate has seen goes with it.
        let rated: Vec<_> =
            self.known_limits().iter().filter(|limited| limited.limit.jobs > 0).map(|l| l.number).collect();
        self.meta.rate_at.retain(|number, _| rated.contains(number));
        if is_new {
            let mut reserved: Vec<_> = self.leases.iter().map(|(id, lease)| (lease.ends, id.clone())).collect();
            reserved.sort();
            for (_, id) in reserved.into_iter().take(MOST_COUNTED) {
                self.take_place(&id);
            }
        }
        true
    }

    /// `of_job`: only of the limits that may hold it back.
    pub(super) fn limits_reply(&self, of_job: Option<&str>) -> LimitsReply {
        let own = of_job.map(|id| self.number_of(id));
        let counts = |limited: &&Limited| own.is_none_or(|own| limited.number == QUEUE || own == Some(limited.number));
        let usage = |limited: &Limited| LimitUsage {
            number: limited.number,
            count: i64::try_from(self.places_of(limited.number)).unwrap(),
            seen: self.meta.rate_at.get(&limited.number).map(|&at| rate::text(at)).unwrap_or_default(),
        };
        let mut used: Vec<_> = self.known_limits().iter().filter(counts).collect();
        if of_job.is_some() {
            used.sort_by_key(|limited| limited.number); // the queue's first
        }
        LimitsReply {
            text: self.meta.limits.as_ref().map(Limits::text).unwrap_or_default(),
            usage: used.into_iter().map(usage).collect(),
        }
    }
}
