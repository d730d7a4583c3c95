//! `duly limits`.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use duly::{Error, NameLimits, Rate};
use serde_json::json;

use crate::show::{Shown, or_dash};
use crate::target::One;
use crate::{DONE, Output};

/// Show the limits of a queue, or change them
#[derive(Debug, Args)]
#[command(after_help = "\
examples:
  duly limits orders
  duly limits orders --concurrency 20
  duly limits orders --name mail.send --rate 100/1s
  duly limits orders --name mail.send --rate none
  duly limits orders --max-length 100000")]
pub(crate) struct Limits {
    #[command(flatten)]
    one: One,
    /// Change those of the jobs of this name, and not those of the whole queue
    #[arg(long)]
    name: Option<String>,
    /// The most jobs that run at once, in all workers together; or `none`
    #[arg(long, value_parser = jobs::<u32>)]
    concurrency: Option<Limit<u32>>,
    /// How many jobs start in a time, such as 100/1s; or `none`
    #[arg(long, value_parser = rate)]
    rate: Option<Limit<Rate>>,
    /// How many jobs the queue takes, failed ones not counted: more are refused; or `none`
    #[arg(long, value_parser = jobs::<u64>, conflicts_with = "name")]
    max_length: Option<Limit<u64>>,
    #[command(flatten)]
    shown: Shown,
}

/// What a limit is set to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit<T> {
    None,
    Is(T),
}

impl<T: Copy> Limit<T> {
    fn value(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::Is(limit) => Some(limit),
        }
    }

    pub(crate) fn set(change: Option<Self>, limit: &mut Option<T>) {
        match change {
            None => {}
            Some(Self::None) => *limit = None,
            Some(Self::Is(new)) => *limit = Some(new),
        }
    }
}

/// A concurrency or a maximum length.
pub(crate) fn jobs<T: FromStr>(text: &str) -> Result<Limit<T>, String> {
    match text {
        "none" => Ok(Limit::None),
        _ => text.parse().map(Limit::Is).map_err(|_| "it is a number of jobs, or none".to_owned()),
    }
}

pub(crate) fn rate(text: &str) -> Result<Limit<Rate>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let wrong = || "a rate is such as 100/1s or 5/10m, or none".to_owned();
    let (jobs, per) = text.split_once('/').ok_or_else(wrong)?;
    let per =
        if per.starts_with(|first: char| first.is_ascii_alphabetic()) { format!("1{per}") } else { per.to_owned() };
    Ok(Limit::Is(Rate { jobs: jobs.parse().map_err(|_| wrong())?, per: crate::when::span(&per).map_err(|_| wrong())? }))
}

/// A concurrency or a maximum length as a command line takes it.
pub(crate) fn or_none<T: ToString>(most: Option<T>) -> String {
    most.map_or_else(|| "none".to_owned(), |most| most.to_string())
}

/// A rate as a command line takes it.
pub(crate) fn rate_or_none(rate: Option<Rate>) -> String {
    let Some(Rate { jobs, per }) = rate else { return "none".to_owned() };
    match (per.as_secs(), per.subsec_nanos()) {
        (seconds, 0) if seconds > 0 && seconds.is_multiple_of(3600) => format!("{jobs}/{}h", seconds / 3600),
        (seconds, 0) if seconds > 0 && seconds.is_multiple_of(60) => format!("{jobs}/{}m", seconds / 60),
        _ => format!("{jobs}/{}s", per.as_secs_f64()),
    }
}

/// Changes those of a name, or those of the whole queue.
pub(crate) fn change(
    limits: &mut duly::Limits,
    name: Option<&str>,
    concurrency: Option<Limit<u32>>,
    rate: Option<Limit<Rate>>,
) {
    let Some(name) = name else {
        Limit::set(concurrency, &mut limits.concurrency);
        Limit::set(rate, &mut limits.rate);
        return;
    };
    let mut of_name = limits.names.remove(name).unwrap_or_default();
    Limit::set(concurrency, &mut of_name.concurrency);
    Limit::set(rate, &mut of_name.rate);
    if of_name != NameLimits::new() {
        limits.names.insert(name.to_owned(), of_name);
    }
}

impl Limits {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let changes = self.concurrency.is_some() || self.rate.is_some() || self.max_length.is_some();
        let queue =
            if changes { self.one.open_for_settings(&mut output).await? } else { self.one.open(&output).await? };
        let mut limits = queue.limits().await?;
        if changes {
            let given = [
                ("name", self.name.clone()),
                ("concurrency", self.concurrency.map(|limit| or_none(limit.value()))),
                ("rate", self.rate.map(|limit| rate_or_none(limit.value()))),
                ("max_length", self.max_length.map(|limit| or_none(limit.value()))),
            ];
            let given = given.each_ref().map(|(name, value)| (*name, value.as_deref().unwrap_or("")));
            output.acting.begin(self.one.action("limits", &given));
            Limit::set(self.max_length, &mut limits.max_length);
            change(&mut limits, self.name.as_deref(), self.concurrency, self.rate);
            queue.set_limits(&limits).await?;
        }
        let of_queue = (None, limits.concurrency, limits.rate);
        let of_names = limits.names.iter().map(|(name, limit)| (Some(name), limit.concurrency, limit.rate));
        let all = std::iter::once(of_queue).chain(of_names);
        if self.shown.json {
            let max_length = limits.max_length;
            let value = |(name, concurrency, rate): (Option<&String>, Option<u32>, Option<Rate>)| {
                let rate = rate.map(|rate| json!({"jobs": rate.jobs, "per": rate.per.as_secs_f64()}));
                let mut value = json!({"name": name, "concurrency": concurrency, "rate": rate});
                if name.is_none() {
                    value["max_length"] = json!(max_length);
                }
                value
            };
            output.json(&all.map(value).collect::<Vec<_>>())?;
            return Ok(DONE);
        }
        let row = |(name, concurrency, rate): (Option<&String>, Option<u32>, Option<Rate>)| {
            let name = name.cloned().unwrap_or_else(|| "(the whole queue)".to_owned());
            let rate = rate.map(|rate| format!("{} in {}", rate.jobs, seconds(rate.per)));
            vec![name, or_dash(concurrency.map(|most| most.to_string())), or_dash(rate)]
        };
        output.table(&["NAME", " CONCURRENCY", " RATE"], all.map(row).collect());
        if let Some(most) = limits.max_length {
            output.line(&format!("the queue takes {most} jobs at the most"));
        }
        Ok(DONE)
    }
}

fn seconds(span: Duration) -> String {
    format!("{} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_as_it_is_read() {
        for text in ["none", "100/1s", "5/10m", "1/2h", "7/0.5s", "3/90s", "1/0.000001s"] {
            let read = match rate(text).unwrap() {
                Limit::None => None,
                Limit::Is(rate) => Some(rate),
            };
            assert_eq!(rate_or_none(read), text);
        }
        assert_eq!([or_none::<u32>(None), or_none(Some(20))], ["none", "20"]);
    }
}
