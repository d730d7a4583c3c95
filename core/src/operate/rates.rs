//! How many runs of a queue ended how, how long their jobs had waited, and how long they took: what workers have counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::queue::{Part, Queue};
use crate::script::{Counted, Declared, KeptTally, RatesReply};
use crate::value::error::Error;
use crate::value::histogram::Histogram;
use crate::value::tally::Tally;
use crate::value::time::Millis;

/// How far back rates go unless somebody says otherwise: an hour.
pub const DEFAULT_RATES_WITHIN: Duration = Duration::from_secs(3600);

const MINUTE_MS: u64 = 60_000;
const TEN_MINUTES_MS: u64 = 600_000;
/// So many minutes are kept one by one: eight hours.
const MOST_MINUTES: u64 = 480;
/// So many times ten minutes are kept: three days.
const MOST_TENS: u64 = 432;
/// One call reads as many, of up to 200 names each.
const TENS_A_CALL: u64 = 10;

/// What the runs of a queue came to in a span of time. All is counted by the workers of a queue, and reported with their beat: up to 10 s
/// after the end of a run. A worker that is killed takes with it what it has not reported. Runs without a worker (`reserve`) are not
/// counted.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Where the first window begins, by the server's clock.
    pub since: Millis,
    /// How long a window is: a minute, or ten minutes if more than 8 hours were asked for. The last one is not over yet.
    pub step: Millis,
    /// The windows in which a run ended, the oldest first.
    pub windows: Vec<RateWindow>,
    /// All of these windows.
    pub total: RunCounts,
    /// By the name of the job, the busiest first. Names are kept for each ten minutes: they begin where these ten minutes do.
    pub names: Vec<NameRates>,
}

/// What the runs of a queue came to in a minute or in ten minutes.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RateWindow {
    /// Where it begins.
    pub start: Millis,
    /// What the runs came to that ended in it.
    pub counts: RunCounts,
}

/// What the runs of jobs with one name came to.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NameRates {
    /// The name; `None` for jobs without one, and for those of `others`.
    pub name: Option<String>,
    /// Are these the runs of all other names together? Of a queue 200 names are counted each by itself.
    pub others: bool,
    /// What the runs came to.
    pub counts: RunCounts,
}

/// Whose runs they are.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Named(String),
    Unnamed,
    Others,
}

/// What runs came to.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunCounts {
    /// Runs after which the job was done.
    pub done: u64,
    /// Runs after which it went to `failed`.
    pub failed: u64,
    /// Runs that failed and are tried again.
    pub retried: u64,
    /// Runs after which it was given back without a failure.
    pub released: u64,
    /// How long jobs had been due when their first run began: by the clock of the host that pushed them, and that of the worker. Not of
    /// jobs whose id the user chose, and not of runs after the first. A job that was rescheduled or requeued counts from its first due time.
    pub wait: Spread,
    /// How long the runs took.
    pub run: Spread,
}

/// How long something took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread {
    sum: Duration,
    histogram: Histogram,
}

impl RunCounts {
    fn of(tally: &Tally) -> Self {
        let spread =
            |us, histogram: &Histogram| Spread { sum: Duration::from_micros(us), histogram: histogram.clone() };
        Self {
            done: tally.done,
            failed: tally.failed,
            retried: tally.retried,
            released: tally.released,
            wait: spread(tally.wait_us, &tally.wait),
            run: spread(tally.run_us, &tally.run),
        }
    }

    /// How many runs.
    pub fn runs(&self) -> u64 {
        [self.done, self.failed, self.retried, self.released].into_iter().fold(0, u64::saturating_add)
    }
}

impl Spread {
    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.histogram.count()
    }

    /// The sum of them all.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Their mean; none if there are none.
    pub fn mean(&self) -> Option<Duration> {
        let count = u128::from(self.count());
        let us = self.sum.as_micros().checked_div(count)?;
        Some(Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX)))
    }

    /// The time that this part of them, 0 to 1, did not take longer than, at most 10 % off; none if there are none. 0.95: the time in
    /// which 95 of 100 were ready.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        self.histogram.quantile(part)
    }

    /// How many did not take longer than that, at most 10 % off.
    pub fn up_to(&self, bound: Duration) -> u64 {
        self.histogram.up_to(bound)
    }
}

/// Count, mean, p50, p95 and p99, in seconds.
impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let mut fields = serializer.serialize_struct("Spread", 5)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("mean", &seconds(self.mean()))?;
        for (name, part) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            fields.serialize_field(name, &seconds(self.quantile(part)))?;
        }
        fields.end()
    }
}

/// Which part of what is kept is asked for.
struct Asked {
    minutes: u64,
    tens: u64,
}

impl Asked {
    fn of(within: Duration) -> Result<Self, Error> {
        let minutes = within.as_millis().div_ceil(u128::from(MINUTE_MS));
        match u64::try_from(minutes) {
            Ok(minutes @ 1..=MOST_MINUTES) => Ok(Self { minutes, tens: minutes.div_ceil(10) + 1 }),
            Ok(minutes) if (1..=MOST_TENS * 10).contains(&minutes) => {
                Ok(Self { minutes: 0, tens: minutes.div_ceil(10).min(MOST_TENS) })
            }
            _ => Err(Error::invalid("within must be more than 0 and at most 259200 seconds (3 days)")),
        }
    }

    /// How long a window is, in ms.
    fn step(&self) -> u64 {
        if self.minutes > 0 { MINUTE_MS } else { TEN_MINUTES_MS }
    }

    /// Where the first window begins.
    fn first(&self, now: u64) -> u64 {
        let windows = if self.minutes > 0 { self.minutes } else { self.tens };
        (now / self.step()).saturating_sub(windows - 1) * self.step()
    }
}

/// The sums of all parts of a queue.
#[derive(Default)]
struct Sums {
    windows: BTreeMap<u64, Tally>,
    names: BTreeMap<Whose, Tally>,
}

impl Sums {
    fn add(&mut self, kept: &KeptTally, asked: &Asked, first: u64) {
        let (Some(tally), Some((step, start))) = (tally_of(kept), start_of(&kept.window)) else { return };
        if start.saturating_add(step) <= first {
            return;
        }
        match name_of(&kept.whose) {
            Some(name) => self.names.entry(name).or_default().add_all(&tally),
            None if step == asked.step() => self.windows.entry(start).or_default().add_all(&tally),
            None => {}
        }
    }

    fn rates(self, asked: &Asked, first: u64) -> Rates {
        let mut total = Tally::default();
        self.windows.values().for_each(|tally| total.add_all(tally));
        let window = |(start, tally)| RateWindow { start: Millis::new(start), counts: RunCounts::of(&tally) };
        Rates {
            since: Millis::new(first),
            step: Millis::new(asked.step()),
            windows: self.windows.into_iter().map(window).collect(),
            total: RunCounts::of(&total),
            names: by_name(self.names),
        }
    }
}

/// How long the window is, and when it begins.
fn start_of(window: &str) -> Option<(u64, u64)> {
    let step = match window.bytes().next()? {
        b'm' => MINUTE_MS,
        b't' => TEN_MINUTES_MS,
        _ => return None,
    };
    Some((step, window[1..].parse::<u64>().ok()?.checked_mul(step)?))
}

/// None if the runs are those of all jobs.
fn name_of(whose: &str) -> Option<Whose> {
    match whose.split_at_checked(1)? {
        (":", "") => Some(Whose::Unnamed),
        (":", name) => Some(Whose::Named(name.to_owned())),
        ("+", "") => Some(Whose::Others),
        _ => None,
    }
}

impl Queue {
    /// What the runs of this queue came to within this span of time up to now: how many jobs a minute are done, how long they wait, how
    /// long handlers take. More than 0, at most 3 days; by the minute up to 8 hours, else by ten minutes.
    ///
    /// ```no_run
    /// # async fn doc(orders: duly::Queue) -> Result<(), duly::Error> {
    /// let rates = orders.rates(std::time::Duration::from_secs(3600)).await?;
    /// if let Some(wait) = rates.total.wait.quantile(0.95) {
    ///     println!("{} jobs done in an hour; 95 of 100 began within {wait:?}", rates.total.done);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: `InvalidArgument`.
    pub async fn rates(&self, within: Duration) -> Result<Rates, Error> {
        let asked = Asked::of(within).map_err(self.during("rates"))?;
        let (mut sums, mut first) = (Sums::default(), 0);
        for part in self.each_part() {
            let mut skip = 0;
            while skip < asked.tens {
                let minutes = if skip == 0 { asked.minutes } else { 0 };
                let tens = (asked.tens - skip).min(TENS_A_CALL);
                let reply = part.counted(minutes, tens, skip, 0).await?;
                first = asked.first(reply.now);
                reply.tallies.iter().for_each(|kept| sums.add(kept, &asked, first));
                skip += tens;
            }
        }
        Ok(sums.rates(&asked, first))
    }

    /// What the runs of this queue came to since workers count them, of all jobs and by name; from the beginning again when three days
    /// went by without a run. For a monitor that wants numbers that only grow.
    pub async fn run_totals(&self) -> Result<(RunCounts, Vec<NameRates>), Error> {
        let (mut total, mut names) = (Tally::default(), BTreeMap::<Whose, Tally>::new());
        for part in self.each_part() {
            for kept in part.counted(0, 0, 0, 1).await?.tallies {
                let Some(tally) = tally_of(&kept) else { continue };
                let sum = name_of(&kept.whose).map_or(&mut total, |name| names.entry(name).or_default());
                sum.add_all(&tally);
            }
        }
        Ok((RunCounts::of(&total), by_name(names)))
    }
}

impl Part {
    async fn counted(&self, minutes: u64, tens: u64, skip: u64, total: u64) -> Result<RatesReply, Error> {
        self.run(Counted { minutes, tens, skip, total }.with([]).during("rates")).await
    }
}

fn tally_of(kept: &KeptTally) -> Option<Tally> {
    std::str::from_utf8(&kept.tally).ok().and_then(Tally::decode)
}

/// The busiest first.
fn by_name(names: BTreeMap<Whose, Tally>) -> Vec<NameRates> {
    let of = |(whose, tally)| NameRates {
        others: whose == Whose::Others,
        name: if let Whose::Named(name) = whose { Some(name) } else { None },
        counts: RunCounts::of(&tally),
    };
    let mut names: Vec<_> = names.into_iter().map(of).collect();
    names.sort_by_key(|of_name| Reverse(of_name.counts.runs()));
    names
}
