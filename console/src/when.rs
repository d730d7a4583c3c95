//! Spans and times as they are written on a command line.

use std::time::Duration;

use clap::Args;
use duly::{Error, Millis};

use crate::invalid;

/// When a job is due.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct When {
    /// Due after so long, such as 90s, 30m or 2h
    #[arg(long, value_parser = span)]
    delay: Option<Duration>,
    /// Due at this time, such as 2026-12-01T06:00:00Z
    #[arg(long)]
    at: Option<jiff::Timestamp>,
    /// Due now
    #[arg(long)]
    now: bool,
}

impl When {
    /// Nothing if none is given.
    pub(crate) fn moment(&self) -> Result<Option<duly::When>, Error> {
        if let Some(at) = self.at {
            let ms = u64::try_from(at.as_millisecond()).map_err(|_| invalid("a job is due after 1970"))?;
            return Ok(Some(duly::When::At(Millis::new(ms))));
        }
        let after = match self.delay {
            Some(delay) => duly::When::After(Millis::from_duration(delay)?),
            None if self.now => duly::When::Now,
            None => return Ok(None),
        };
        Ok(Some(after))
    }
}

/// As the log of actions has it.
pub(crate) fn described(when: duly::When) -> String {
    match when {
        duly::When::After(delay) => format!("in {}", crate::show::span(delay)),
        duly::When::At(at) => crate::show::moment(at),
        _ => "now".to_owned(),
    }
}

/// A span such as `90s`, `30m`, `2h` or `1d`, or a number of seconds.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let wrong = || "a span is a number of seconds, or such as 90s, 30m, 2h or 1d".to_owned();
    let (number, unit) = text.split_at(text.find(|at: char| at.is_ascii_alphabetic()).unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        let of = |text| span(text).unwrap().as_millis();
        let all = ["90", "90s", "1.5m", "2h", "1d", "250ms"].map(of);
        assert_eq!(all, [90_000, 90_000, 90_000, 7_200_000, 86_400_000, 250]);
        for wrong in ["", "-1s", "soon", "1w", "1h30m", "NaN", "1e999"] {
            span(wrong).unwrap_err();
        }
    }
}
