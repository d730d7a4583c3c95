//! `duly.Schedule`, and what is stored of one.

use duly::{Millis, NewJob as CoreJob};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::convert;
use crate::error::{Failure, invalid};
use crate::new_job::NewJob;
use crate::queue::object;

/// A job that is pushed again and again, by a cron pattern or at an interval.
///
/// Args:
///     job: the job of each slot: a `NewJob` without an id, a delay, `on_duplicate` and `durability`.
///     cron: five fields (minute, hour, day, month, weekday) or six (seconds in front), with names, lists, ranges,
///         steps, `L`, `#` and `W`; or "@hourly", "@daily" or "@midnight", "@weekly", "@monthly", "@yearly" or
///         "@annually".
///     every: the interval, in seconds or as a timedelta, 0.1 s to 100 years; instead of `cron`.
///     tz: the time zone of the pattern, such as "Europe/Berlin". A fixed time in a gap runs at the first moment after
///         it, and once if a clock shows it twice; patterns with `*`, ranges or steps follow the clock. Default: "UTC".
///     anchor: a moment from which the interval is counted: a datetime with a time zone, or unix seconds. Default: 0.
///     start: no slot before this moment. Default: none.
///     until: no slot after this moment. Default: none.
///     count: the most slots that fire, 1 or more. Default: no limit.
///     jitter: fires up to this long after each slot, in seconds or as a timedelta, at most 24 h and always before the
///         next slot; the same span for every worker. Default: 0.
///     catch_up: which slots fire that were missed while no worker was alive: "latest" (the newest), "skip" (the newest
///         if it is not older than `grace`), or a number from 1 to 100 (so many of the newest). Default: "latest".
///     grace: see `catch_up`; in seconds or as a timedelta. Default: 60.
///     overlap: what happens while the job of an earlier slot is delayed, ready or running: "allow" (both run), "skip"
///         (no new job), "replace" (the earlier one is cancelled). Default: "allow".
#[pyclass(frozen, module = "duly")]
#[derive(Clone)]
pub(crate) struct Schedule {
    pub(crate) schedule: duly::Schedule,
}

fn repeated(
    job: CoreJob,
    cron: Option<&str>,
    every: Option<&Bound<'_, PyAny>>,
    tz: Option<&str>,
    anchor: Option<&Bound<'_, PyAny>>,
) -> Result<duly::Schedule, Failure> {
    let mut schedule = match (cron, every) {
        (Some(cron), None) => duly::Schedule::cron(cron, job)?,
        (None, Some(every)) => duly::Schedule::every(convert::duration("every", every)?, job)?,
        _ => return Err(invalid("give cron or every, one of them").into()),
    };
    if let Some(tz) = tz {
        schedule = schedule.tz(tz)?;
    }
    if let Some(anchor) = anchor {
        schedule = schedule.anchor(convert::moment("anchor", anchor)?)?;
    }
    Ok(schedule)
}

fn catch_up(given: &Bound<'_, PyAny>) -> Result<duly::CatchUp, Failure> {
    if given.is_instance_of::<PyInt>() || given.is_instance_of::<PyString>() {
        return Ok(given.str().map_err(Failure::from)?.to_string_lossy().parse()?);
    }
    Err(invalid("catch_up is 'latest', 'skip', or a number from 1 to 100").into())
}

#[pymethods]
impl Schedule {
    #[new]
    #[allow(clippy::too_many_arguments)] // all but one by name
    #[pyo3(
        signature = (job, *, cron=None, every=None, tz=None, anchor=None, start=None, until=None, count=None, jitter=None,
            catch_up=None, grace=None, overlap=None),
        text_signature = "(job, *, cron=None, every=None, tz=None, anchor=None, start=None, until=None, count=None, \
            jitter=0, catch_up='latest', grace=60, overlap='allow')"
    )]
    fn new(
        job: &Bound<'_, NewJob>,
        cron: Option<&str>,
        every: Option<&Bound<'_, PyAny>>,
        tz: Option<&str>,
        anchor: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        until: Option<&Bound<'_, PyAny>>,
        count: Option<&Bound<'_, PyAny>>,
        jitter: Option<&Bound<'_, PyAny>>,
        catch_up: Option<&Bound<'_, PyAny>>,
        grace: Option<&Bound<'_, PyAny>>,
        overlap: Option<&str>,
    ) -> PyResult<Self> {
        let made = || -> Result<duly::Schedule, Failure> {
            let mut schedule = repeated(job.get().job(), cron, every, tz, anchor)?;
            if let Some(start) = start {
                schedule = schedule.start(convert::moment("start", start)?);
            }
            if let Some(until) = until {
                schedule = schedule.until(convert::moment("until", until)?);
            }
            if let Some(count) = count {
                schedule = schedule.count(convert::whole("count", count, 1..=u32::MAX.into())?);
            }
            if let Some(jitter) = jitter {
                schedule = schedule.jitter(convert::duration("jitter", jitter)?);
            }
            if let Some(given) = catch_up {
                schedule = schedule.catch_up(self::catch_up(given)?);
            }
            if let Some(grace) = grace {
                schedule = schedule.grace(convert::duration("grace", grace)?);
            }
            if let Some(overlap) = overlap {
                schedule = schedule.overlap(overlap.parse()?);
            }
            Ok(schedule.checked()?)
        };
        Ok(Self { schedule: made()? })
    }

    /// The pattern, as it is stored.
    #[getter]
    fn cron(&self) -> Option<&str> {
        self.schedule.pattern()
    }

    /// The time zone of the pattern.
    #[getter]
    fn tz(&self) -> Option<&str> {
        self.schedule.tz_name()
    }

    /// The interval in seconds.
    #[getter]
    fn every(&self) -> Option<f64> {
        self.schedule.interval().map(|(every, _)| every.as_secs_f64())
    }

    /// The moment from which the interval is counted, in unix seconds.
    #[getter]
    fn anchor(&self) -> Option<f64> {
        self.schedule.interval().map(|(_, anchor)| anchor.as_seconds())
    }

    /// No slot before this moment, in unix seconds.
    #[getter]
    fn start(&self) -> Option<f64> {
        self.schedule.start.map(Millis::as_seconds)
    }

    /// No slot after this moment, in unix seconds.
    #[getter]
    fn until(&self) -> Option<f64> {
        self.schedule.until.map(Millis::as_seconds)
    }

    /// The most slots that fire.
    #[getter]
    fn count(&self) -> Option<u64> {
        self.schedule.count
    }

    /// Up to how many seconds after its slot it fires.
    #[getter]
    fn jitter(&self) -> f64 {
        self.schedule.jitter.as_seconds()
    }

    /// `latest`, `skip`, or a number.
    #[getter]
    fn catch_up(&self) -> String {
        self.schedule.catch_up.to_string()
    }

    /// How many seconds old a slot may be that still fires under `skip`.
    #[getter]
    fn grace(&self) -> f64 {
        self.schedule.grace.as_seconds()
    }

    /// `allow`, `skip` or `replace`.
    #[getter]
    fn overlap(&self) -> &'static str {
        self.schedule.overlap.as_str()
    }

    /// Return the next slots after this moment, at most 1,000, in unix seconds: a preview.
    #[pyo3(signature = (after, count=None), text_signature = "($self, after, count=5)")]
    fn next(&self, after: &Bound<'_, PyAny>, count: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<f64>> {
        let after = convert::moment("after", after)?;
        let slots = self.schedule.next_slots(after, how_many(count, duly::Schedule::MOST_PREVIEWED)?);
        Ok(slots.into_iter().map(Millis::as_seconds).collect())
    }

    fn __richcmp__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let is_equal = self.schedule == other.get().schedule;
        match op {
            CompareOp::Eq => object(py, is_equal),
            CompareOp::Ne => object(py, !is_equal),
            _ => Ok(py.NotImplemented()),
        }
    }

    fn __repr__(&self) -> String {
        match (self.cron(), self.tz(), self.every()) {
            (Some(cron), Some(tz), _) => format!("<duly.Schedule {cron:?} in {tz}>"),
            (_, _, every) => format!("<duly.Schedule every {} s>", every.unwrap_or_default()),
        }
    }
}

pub(crate) fn how_many(count: Option<&Bound<'_, PyAny>>, most: u32) -> Result<usize, Failure> {
    count.map_or(Ok(5), |count| convert::whole("count", count, 1..=most.into())).map_err(Failure::from)
}

/// A slot that fired. Times are unix seconds by the server's clock.
#[pyclass(frozen, get_all, module = "duly")]
#[derive(Clone)]
pub(crate) struct Fire {
    slot: f64,
    at: f64,
    outcome: &'static str,
    job_id: String,
}

#[pymethods]
impl Fire {
    fn __repr__(&self) -> String {
        format!("<duly.Fire {:?}, {}>", self.job_id, self.outcome)
    }
}

/// A schedule as it is stored. Times are unix seconds by the server's clock.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct ScheduleView {
    name: String,
    schedule: Option<Schedule>,
    owner: Option<String>,
    paused: bool,
    next: Option<f64>,
    last: Option<f64>,
    fired: u64,
    made_at: f64,
    changed_at: f64,
    fires: Vec<Fire>,
}

impl From<duly::ScheduleView> for ScheduleView {
    fn from(view: duly::ScheduleView) -> Self {
        let fire = |fire: duly::Fire| Fire {
            slot: fire.slot.as_seconds(),
            at: fire.at.as_seconds(),
            outcome: fire.outcome.as_str(),
            job_id: fire.job_id,
        };
        Self {
            name: view.name,
            schedule: view.schedule.ok().map(|schedule| Schedule { schedule }),
            owner: view.owner,
            paused: view.is_paused,
            next: view.next.map(Millis::as_seconds),
            last: view.last.map(Millis::as_seconds),
            fired: view.fired,
            made_at: view.made_at.as_seconds(),
            changed_at: view.changed_at.as_seconds(),
            fires: view.fires.into_iter().map(fire).collect(),
        }
    }
}

#[pymethods]
impl ScheduleView {
    fn __repr__(&self) -> String {
        format!("<duly.ScheduleView {:?}>", self.name)
    }
}

/// The changes that `sync` made: the names of schedules.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct SyncReport {
    created: Vec<String>,
    changed: Vec<String>,
    unchanged: Vec<String>,
    removed: Vec<String>,
}

impl From<duly::SyncReport> for SyncReport {
    fn from(report: duly::SyncReport) -> Self {
        let duly::SyncReport { created, changed, unchanged, removed, .. } = report;
        Self { created, changed, unchanged, removed }
    }
}

#[pymethods]
impl SyncReport {
    fn __repr__(&self) -> String {
        let Self { created, changed, unchanged, removed } = self;
        format!(
            "<duly.SyncReport: {} created, {} changed, {} unchanged, {} removed>",
            created.len(),
            changed.len(),
            unchanged.len(),
            removed.len()
        )
    }
}
