//! `Duly\Schedule`, and what is stored of one.

use duly::Millis;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;

use crate::convert::{Text, given, millis, moment, text, utf8, whole};
use crate::error::Fault;
use crate::new_job::NewJob;
use crate::record::{record, signed};

/// The most slots of a preview.
const MOST_SLOTS: i64 = 1000;

/// A job that is pushed again and again, by a cron pattern or at an interval.
#[php_class]
#[php(name = "Duly\\Schedule")]
#[php(flags = ClassFlags::Final)]
#[derive(Debug, Clone)]
pub struct Schedule {
    pub schedule: duly::Schedule,
}

#[php_impl]
impl Schedule {
    /// Give `cron` or `every`.
    #[php(optional = cron)]
    pub fn __construct(
        job: &NewJob,
        cron: Option<Text>,
        every: Option<&Zval>,
        tz: Option<Text>,
        anchor: Option<&Zval>,
        start: Option<&Zval>,
        until: Option<&Zval>,
        count: Option<i64>,
        jitter: Option<&Zval>,
        catchUp: Option<&Zval>,
        grace: Option<&Zval>,
        overlap: Option<Text>,
    ) -> PhpResult<Self> {
        let made = || -> Result<duly::Schedule, Fault> {
            let job = job.job.clone();
            let mut schedule = match (utf8("cron", cron)?, given(every)) {
                (Some(cron), None) => duly::Schedule::cron(&cron, job)?,
                (None, Some(every)) => duly::Schedule::every(millis("every", every)?.to_duration(), job)?,
                _ => return Err(Fault::invalid("give cron or every, one of them")),
            };
            if let Some(tz) = utf8("tz", tz)? {
                schedule = schedule.tz(&tz)?;
            }
            if let Some(anchor) = given(anchor) {
                schedule = schedule.anchor(moment("anchor", anchor)?)?;
            }
            if let Some(start) = given(start) {
                schedule = schedule.start(moment("start", start)?);
            }
            if let Some(until) = given(until) {
                schedule = schedule.until(moment("until", until)?);
            }
            if let Some(count) = count {
                schedule = schedule.count(whole("count", count, u32::MAX.into())?);
            }
            if let Some(jitter) = given(jitter) {
                schedule = schedule.jitter(millis("jitter", jitter)?.to_duration());
            }
            if let Some(given) = given(catchUp) {
                schedule = schedule.catch_up(catch_up(given)?);
            }
            if let Some(grace) = given(grace) {
                schedule = schedule.grace(millis("grace", grace)?.to_duration());
            }
            if let Some(overlap) = utf8("overlap", overlap)? {
                schedule = schedule.overlap(overlap.parse()?);
            }
            Ok(schedule.checked()?)
        };
        Ok(Self { schedule: made()? })
    }

    /// The pattern, as it is stored.
    #[php(getter)]
    pub fn cron(&self) -> Option<String> {
        self.schedule.pattern().map(str::to_owned)
    }

    /// The time zone of the pattern.
    #[php(getter)]
    pub fn tz(&self) -> Option<String> {
        self.schedule.tz_name().map(str::to_owned)
    }

    /// The interval in seconds.
    #[php(getter)]
    pub fn every(&self) -> Option<f64> {
        self.schedule.interval().map(|(every, _)| every.as_secs_f64())
    }

    /// The moment from which the interval is counted.
    #[php(getter)]
    pub fn anchor(&self) -> Option<f64> {
        self.schedule.interval().map(|(_, anchor)| anchor.as_seconds())
    }

    /// No slot is before it.
    #[php(getter)]
    pub fn start(&self) -> Option<f64> {
        self.schedule.start.map(Millis::as_seconds)
    }

    /// No slot is behind it.
    #[php(getter)]
    pub fn until(&self) -> Option<f64> {
        self.schedule.until.map(Millis::as_seconds)
    }

    /// The most slots that fire.
    #[php(getter)]
    pub fn count(&self) -> Option<i64> {
        self.schedule.count.map(signed)
    }

    /// Up to how many seconds behind its slot it fires.
    #[php(getter)]
    pub fn jitter(&self) -> f64 {
        self.schedule.jitter.as_seconds()
    }

    /// `latest`, `skip`, or a number.
    #[php(getter)]
    pub fn catch_up(&self) -> String {
        self.schedule.catch_up.to_string()
    }

    /// How many seconds old a slot may be under `skip`.
    #[php(getter)]
    pub fn grace(&self) -> f64 {
        self.schedule.grace.as_seconds()
    }

    /// `allow`, `skip` or `replace`.
    #[php(getter)]
    pub fn overlap(&self) -> String {
        self.schedule.overlap.as_str().to_owned()
    }

    /// The next slots behind this moment: a preview.
    #[php(defaults(count = 5))]
    pub fn next(&self, after: &Zval, count: i64) -> PhpResult<Vec<f64>> {
        let slots = self.schedule.next_slots(moment("after", after)?, whole("count", count, MOST_SLOTS)?);
        Ok(slots.into_iter().map(Millis::as_seconds).collect())
    }
}

fn catch_up(given: &Zval) -> Result<duly::CatchUp, Fault> {
    let given = given.dereference();
    let word = match given.long() {
        Some(number) if given.is_long() => number.to_string(),
        _ => text("catchUp", given)?,
    };
    Ok(word.parse()?)
}

record! {
    /// A slot that fired.
    Fire = "Duly\\Fire" {
        /// The slot.
        slot: f64,
        /// When it fired.
        at: f64,
        /// `pushed`, `skipped` or `replaced`.
        outcome: String,
        /// The id of its job.
        job_id: String,
    }
}

record! {
    /// A schedule as it is stored.
    ScheduleView = "Duly\\ScheduleView" {
        /// Its name.
        name: String,
        /// What it does; null if this version cannot read it.
        schedule: Option<Schedule>,
        /// Whose it is, if `sync` put it.
        owner: Option<String>,
        /// Is it paused?
        paused: bool,
        /// The next slot.
        next: Option<f64>,
        /// The last slot that was due.
        last: Option<f64>,
        /// How many slots fired.
        fired: i64,
        /// When it was put.
        made_at: f64,
        /// When it was changed.
        changed_at: f64,
        /// The last twenty slots that fired.
        fires: Vec<Fire>,
    }
}

record! {
    /// What `sync` did: the names of schedules.
    SyncReport = "Duly\\SyncReport" {
        /// Those that are new.
        created: Vec<String>,
        /// Those that were others.
        changed: Vec<String>,
        /// Those that keep their next slots.
        unchanged: Vec<String>,
        /// Those that are gone.
        removed: Vec<String>,
    }
}

impl From<duly::Fire> for Fire {
    fn from(fire: duly::Fire) -> Self {
        let outcome = fire.outcome.as_str().to_owned();
        Self { slot: fire.slot.as_seconds(), at: fire.at.as_seconds(), outcome, job_id: fire.job_id }
    }
}

impl From<duly::ScheduleView> for ScheduleView {
    fn from(view: duly::ScheduleView) -> Self {
        Self {
            name: view.name,
            schedule: view.schedule.ok().map(|schedule| Schedule { schedule }),
            owner: view.owner,
            paused: view.is_paused,
            next: view.next.map(Millis::as_seconds),
            last: view.last.map(Millis::as_seconds),
            fired: signed(view.fired),
            made_at: view.made_at.as_seconds(),
            changed_at: view.changed_at.as_seconds(),
            fires: view.fires.into_iter().map(Fire::from).collect(),
        }
    }
}

impl From<duly::SyncReport> for SyncReport {
    fn from(report: duly::SyncReport) -> Self {
        let duly::SyncReport { created, changed, unchanged, removed, .. } = report;
        Self { created, changed, unchanged, removed }
    }
}
