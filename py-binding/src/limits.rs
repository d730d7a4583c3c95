//! `duly.Limits`: how much of a queue may run at once and start in a time, and how many jobs it takes.

use std::collections::BTreeMap;
use std::fmt;

use duly::{NameLimits, Rate};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::convert;
use crate::error::{Failure, invalid};

/// The limits of a queue, as `queue.limits()` returns them.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Limits {
    /// The most jobs that are reserved at once.
    concurrency: Option<u32>,
    /// How many jobs start in how many seconds.
    rate: Option<(u32, f64)>,
    /// The limits of single job names.
    names: BTreeMap<String, BTreeMap<&'static str, NameLimit>>,
    /// How many jobs the queue takes.
    max_length: Option<u64>,
}

/// One limit of a name.
#[derive(Clone, IntoPyObject)]
enum NameLimit {
    Concurrency(u32),
    Rate((u32, f64)),
}

impl fmt::Debug for NameLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Concurrency(most) => most.fmt(out),
            Self::Rate(rate) => rate.fmt(out),
        }
    }
}

fn shown(rate: Rate) -> (u32, f64) {
    (rate.jobs, rate.per.as_secs_f64())
}

impl From<duly::Limits> for Limits {
    fn from(limits: duly::Limits) -> Self {
        let rate = limits.rate.map(shown);
        let of = |limits: NameLimits| {
            let concurrency = limits.concurrency.map(|most| ("concurrency", NameLimit::Concurrency(most)));
            let rate = limits.rate.map(|rate| ("rate", NameLimit::Rate(shown(rate))));
            concurrency.into_iter().chain(rate).collect()
        };
        let names = limits.names.into_iter().map(|(name, limits)| (name, of(limits))).collect();
        Self { concurrency: limits.concurrency, rate, names, max_length: limits.max_length }
    }
}

#[pymethods]
impl Limits {
    fn __repr__(&self) -> String {
        let concurrency = self.concurrency.map_or("None".to_owned(), |most| most.to_string());
        let rate = self.rate.map_or("None".to_owned(), |(jobs, per)| format!("({jobs}, {per:?})"));
        let length = self.max_length.map(|most| format!(", max_length={most}")).unwrap_or_default();
        format!("<duly.Limits: concurrency={concurrency}, rate={rate}, names={:?}{length}>", self.names)
    }
}

/// What `set_limits` takes: a number, a pair of a number and a time, and a dict of dicts.
pub(crate) fn limits_of(
    concurrency: Option<&Bound<'_, PyAny>>,
    rate: Option<&Bound<'_, PyAny>>,
    names: Option<&Bound<'_, PyAny>>,
    max_length: Option<&Bound<'_, PyAny>>,
) -> Result<duly::Limits, Failure> {
    let mut limits = duly::Limits::new();
    limits.concurrency =
        concurrency.map(|most| convert::whole("concurrency", most, 1..=duly::MAX_CONCURRENCY.into())).transpose()?;
    limits.rate = rate.map(rate_of).transpose()?;
    limits.max_length = max_length.map(|most| convert::whole("max_length", most, 1..=duly::MAX_LENGTH)).transpose()?;
    if let Some(names) = names {
        limits.names = names_of(names)?;
    }
    Ok(limits)
}

fn rate_of(given: &Bound<'_, PyAny>) -> Result<Rate, Failure> {
    let (jobs, per): (Bound<'_, PyAny>, Bound<'_, PyAny>) = given
        .extract()
        .map_err(|_| invalid("rate is a pair: how many jobs, in how many seconds, such as (100, 1.0)"))?;
    let jobs = convert::whole("the jobs of a rate", &jobs, 1..=duly::MAX_RATE_JOBS.into())?;
    Ok(Rate { jobs, per: convert::duration("the time of a rate", &per)? })
}

fn names_of(given: &Bound<'_, PyAny>) -> Result<BTreeMap<String, NameLimits>, Failure> {
    let refused = || invalid("names is a dict such as {'mail.send': {'concurrency': 5, 'rate': (100, 60.0)}}");
    let mut names = BTreeMap::new();
    for (name, given) in given.cast::<PyDict>().map_err(|_| refused())?.iter() {
        let name = convert::text("a name", name.cast::<PyString>().map_err(|_| refused())?)?;
        let mut limits = NameLimits::new();
        for (word, value) in given.cast::<PyDict>().map_err(|_| refused())?.iter() {
            let given = Some(&value).filter(|value| !value.is_none());
            if word.eq("concurrency")? {
                let whole = |most| convert::whole("concurrency", most, 1..=duly::MAX_CONCURRENCY.into());
                limits.concurrency = given.map(whole).transpose()?;
            } else if word.eq("rate")? {
                limits.rate = given.map(rate_of).transpose()?;
            } else {
                return Err(refused().into());
            }
        }
        names.insert(name, limits);
    }
    Ok(names)
}
