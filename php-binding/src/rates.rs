//! What runs came to: `Duly\Rates` and its parts.

use duly::Millis;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;

use crate::record::record;

record! {
    /// What the runs of a queue came to in a span of time.
    Rates = "Duly\\Rates" {
        /// Where the first window begins, in unix seconds by the server's clock.
        since: f64,
        /// How many seconds a window is.
        step: f64,
        /// The windows in which a run ended, the oldest first.
        windows: Vec<RateWindow>,
        /// All of them.
        total: RunCounts,
        /// By the name of the job, the busiest first.
        names: Vec<NameRates>,
    }
}

record! {
    /// What the runs came to that ended in one window of time.
    RateWindow = "Duly\\RateWindow" {
        /// Where it begins, in unix seconds.
        start: f64,
        /// What they came to.
        counts: RunCounts,
    }
}

record! {
    /// What the runs of jobs with one name came to.
    NameRates = "Duly\\NameRates" {
        /// The name; null for jobs without one, and for those of `others`.
        name: Option<String>,
        /// Are these the runs of all other names together?
        others: bool,
        /// What they came to.
        counts: RunCounts,
    }
}

record! {
    /// What runs came to.
    RunCounts = "Duly\\RunCounts" {
        /// Runs after which the job was done.
        done: i64,
        /// Runs after which it went to `failed`.
        failed: i64,
        /// Runs that failed and are tried again.
        retried: i64,
        /// Runs after which it was given back without a failure.
        released: i64,
        /// How long jobs had been due when their first run began.
        wait: Spread,
        /// How long the runs took.
        run: Spread,
    }
}

record! {
    /// How long something took, in seconds.
    Spread = "Duly\\Spread" {
        /// How many times were counted.
        count: i64,
        /// Their mean.
        mean: Option<f64>,
        /// Half of them took no longer.
        p50: Option<f64>,
        /// 95 of 100 took no longer.
        p95: Option<f64>,
        /// 99 of 100 took no longer.
        p99: Option<f64>,
    }
}

impl From<duly::Rates> for Rates {
    fn from(rates: duly::Rates) -> Self {
        let window = |window: duly::RateWindow| RateWindow {
            start: Millis::as_seconds(window.start),
            counts: RunCounts::of(&window.counts),
        };
        let name = |of_name: duly::NameRates| NameRates {
            name: of_name.name,
            others: of_name.others,
            counts: RunCounts::of(&of_name.counts),
        };
        Self {
            since: Millis::as_seconds(rates.since),
            step: Millis::as_seconds(rates.step),
            windows: rates.windows.into_iter().map(window).collect(),
            total: RunCounts::of(&rates.total),
            names: rates.names.into_iter().map(name).collect(),
        }
    }
}

impl RunCounts {
    fn of(counts: &duly::RunCounts) -> Self {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            done: number(counts.done),
            failed: number(counts.failed),
            retried: number(counts.retried),
            released: number(counts.released),
            wait: Spread::of(&counts.wait),
            run: Spread::of(&counts.run),
        }
    }
}

impl Spread {
    fn of(spread: &duly::Spread) -> Self {
        let quantile = |part| spread.quantile(part).map(|time| time.as_secs_f64());
        Self {
            count: i64::try_from(spread.count()).unwrap_or(i64::MAX),
            mean: spread.mean().map(|time| time.as_secs_f64()),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
        }
    }
}
