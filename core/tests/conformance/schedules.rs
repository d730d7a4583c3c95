//! The verbs of schedules.

use std::collections::BTreeMap;

use duly::{CatchUp, Error, Millis, Queue, Schedule, ScheduleView};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::{PushArgs, span};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleArgs {
    job: Option<PushArgs>,
    cron: Option<String>,
    every: Option<f64>,
    tz: Option<String>,
    anchor: Option<f64>,
    start: Option<f64>,
    until: Option<f64>,
    count: Option<u64>,
    jitter: Option<f64>,
    catch_up: Option<Value>,
    grace: Option<f64>,
    overlap: Option<String>,
}

impl ScheduleArgs {
    fn made(self) -> Result<Schedule, Error> {
        let job = self.job.unwrap_or_default().made("")?;
        let mut schedule = match (self.cron, self.every) {
            (Some(cron), _) => Schedule::cron(&cron, job)?,
            (None, every) => Schedule::every(span(every.unwrap_or_default())?, job)?,
        };
        if let Some(tz) = self.tz {
            schedule = schedule.tz(&tz)?;
        }
        if let Some(anchor) = self.anchor {
            schedule = schedule.anchor(Millis::from_unix_seconds(anchor)?)?;
        }
        if let Some(start) = self.start {
            schedule = schedule.start(Millis::from_unix_seconds(start)?);
        }
        if let Some(until) = self.until {
            schedule = schedule.until(Millis::from_unix_seconds(until)?);
        }
        if let Some(count) = self.count {
            schedule = schedule.count(count);
        }
        if let Some(jitter) = self.jitter {
            schedule = schedule.jitter(span(jitter)?);
        }
        if let Some(catch_up) = self.catch_up {
            let word = catch_up.as_str().map_or_else(|| catch_up.to_string(), str::to_owned);
            schedule = schedule.catch_up(word.parse::<CatchUp>()?);
        }
        if let Some(grace) = self.grace {
            schedule = schedule.grace(span(grace)?);
        }
        if let Some(overlap) = self.overlap {
            schedule = schedule.overlap(overlap.parse()?);
        }
        Ok(schedule)
    }
}

pub(super) async fn put(queue: &Queue, name: &str, schedule: ScheduleArgs) -> Result<Value, Error> {
    Ok(json!(queue.schedules().put(name, &schedule.made()?).await?.as_str()))
}

pub(super) async fn sync(
    queue: &Queue,
    owner: &str,
    schedules: BTreeMap<String, ScheduleArgs>,
) -> Result<Value, Error> {
    let made = |(name, schedule): (String, ScheduleArgs)| Ok((name, schedule.made()?));
    let list = schedules.into_iter().map(made).collect::<Result<Vec<_>, Error>>()?;
    let report = queue.schedules().sync(owner, &list).await?;
    let (created, changed) = (report.created, report.changed);
    Ok(json!({
        "created": created, "changed": changed, "unchanged": report.unchanged, "removed": report.removed,
    }))
}

pub(super) fn view(view: &ScheduleView) -> Value {
    let seconds = |at: Option<Millis>| at.map(Millis::as_seconds);
    let schedule = view.schedule.as_ref().ok();
    let fires = view.fires.iter().map(|fire| {
        json!({
            "slot": fire.slot.as_seconds(), "at": fire.at.as_seconds(), "outcome": fire.outcome.as_str(),
            "job_id": fire.job_id,
        })
    });
    json!({
        "name": view.name, "owner": view.owner, "paused": view.is_paused, "next": seconds(view.next),
        "last": seconds(view.last), "fired": view.fired, "made_at": view.made_at.as_seconds(),
        "changed_at": view.changed_at.as_seconds(), "fires": fires.collect::<Vec<_>>(),
        "cron": schedule.and_then(Schedule::pattern), "tz": schedule.and_then(Schedule::tz_name),
        "every": schedule.and_then(Schedule::interval).map(|(every, _)| every.as_secs_f64()),
    })
}
