//! `duly rates`.

use std::time::Duration;

use clap::Args;
use duly::{Error, Millis, NameRates, RunCounts, Spread};

use crate::show::{Shown, moment, span};
use crate::target::One;
use crate::{DONE, Output, when};

/// Show what the runs of a queue came to: how many jobs are done, how long they waited, how long handlers took
#[derive(Debug, Args)]
#[command(after_help = "\
Workers count this, and report it up to 10 s later. WAIT is how long jobs had been due when their first run began, RUN how long runs took.

examples:
  duly rates orders
  duly rates orders --within 3d --windows")]
pub(crate) struct Rates {
    #[command(flatten)]
    one: One,
    /// How far back, at most 3d
    #[arg(long, value_name = "SPAN", value_parser = when::span, default_value = "1h")]
    within: Duration,
    /// By the minute, or by ten minutes if it is more than 8h, instead of by name
    #[arg(long)]
    windows: bool,
    #[command(flatten)]
    shown: Shown,
}

impl Rates {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let rates = self.one.open(&output).await?.rates(self.within).await?;
        if self.shown.json {
            output.json(&rates)?;
            return Ok(DONE);
        }
        if rates.total.runs() == 0 && rates.names.is_empty() {
            output.line(&format!("no run of {} ended since {}", self.one.queue, moment(rates.since)));
            return Ok(DONE);
        }
        let first = if self.windows { "SINCE (UTC)" } else { "NAME" };
        let headings = [
            first,
            " DONE",
            " FAILED",
            " RETRIED",
            " RELEASED",
            " WAIT p50",
            " p95",
            " p99",
            " RUN p50",
            " p95",
            " p99",
        ];
        let mut rows: Vec<_> = if self.windows {
            rates.windows.iter().map(|window| row(moment(window.start), &window.counts)).collect()
        } else {
            rates.names.iter().map(|of_name| row(name(of_name), &of_name.counts)).collect()
        };
        rows.push(row("(all)".to_owned(), &rates.total));
        output.table(&headings, rows);
        Ok(DONE)
    }
}

/// How a name is called, also where it is none.
fn name(of_name: &NameRates) -> String {
    match &of_name.name {
        Some(name) => name.clone(),
        None if of_name.others => "(others)".to_owned(),
        None => "-".to_owned(),
    }
}

fn row(what: String, counts: &RunCounts) -> Vec<String> {
    let numbers = [counts.done, counts.failed, counts.retried, counts.released].map(|count| count.to_string());
    let times =
        [&counts.wait, &counts.run].into_iter().flat_map(|times| [0.5, 0.95, 0.99].map(|part| time(times, part)));
    std::iter::once(what).chain(numbers).chain(times).collect()
}

/// `-` if nothing was counted.
pub(crate) fn time(times: &Spread, part: f64) -> String {
    times.quantile(part).map_or_else(|| "-".to_owned(), short)
}

/// In the largest unit of which it is at least one.
pub(crate) fn short(time: Duration) -> String {
    match time.as_micros() {
        us @ ..1000 => format!("{us}us"),
        us @ ..10_000 => format!("{}.{}ms", us / 1000, us / 100 % 10),
        us @ ..1_000_000 => format!("{}ms", us / 1000),
        us @ ..10_000_000 => format!("{}.{}s", us / 1_000_000, us / 100_000 % 10),
        _ => span(Millis::from_duration(time).unwrap_or(Millis::ZERO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_at_a_glance() {
        let all = [7, 1_500, 45_000, 2_345_678, 65_000_000].map(|us| short(Duration::from_micros(us)));
        assert_eq!(all, ["7us", "1.5ms", "45ms", "2.3s", "1m 5s"]);
    }
}
