//! `duly.Limits`: how much of a queue may run at once and start in a time.

use std::collections::BTreeMap;

use duly::{NameLimits, Rate};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::convert;
use crate::error::{Failure, invalid};

/// The limits of a queue. The time of the rate is in seconds.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Limits {
    /// The most jobs that are reserved at once.
    concurrency: Option<u32>,
    /// How many jobs start in how many seconds.
    rate: Option<(u32, f64)>,
    /// The limits of single job names.
    names: BTreeMap<String, BTreeMap<&'static str, u32>>,
}

impl From<duly::Limits> for Limits {
    fn from(limits: duly::Limits) -> Self {
        let rate = limits.rate.map(|rate| (rate.jobs, rate.per.as_secs_f64()));
        let of = |limits: NameLimits| limits.concurrency.map(|most| ("concurrency", most)).into_iter().collect();
        let names = limits.names.into_iter().map(|(name, limits)| (name, of(limits))).collect();
        Self { concurrency: limits.concurrency, rate, names }
    }
}

#[pymethods]
impl Limits {
    fn __repr__(&self) -> String {
        let concurrency = self.concurrency.map_or("None".to_owned(), |most| most.to_string());
        let rate = self.rate.map_or("None".to_owned(), |(jobs, per)| format!("({jobs}, {per:?})"));
        format!("<duly.Limits: concurrency={concurrency}, rate={rate}, names={:?}>", self.names)
    }
}

/// What `set_limits` takes: a number, a pair of a number and a time, and a dict of dicts.
pub(crate) fn limits_of(
    concurrency: Option<&Bound<'_, PyAny>>,
    rate: Option<&Bound<'_, PyAny>>,
    names: Option<&Bound<'_, PyAny>>,
) -> Result<duly::Limits, Failure> {
    let mut limits = duly::Limits::new();
    limits.concurrency =
        concurrency.map(|most| convert::whole("concurrency", most, 1..=duly::MAX_CONCURRENCY.into())).transpose()?;
    if let Some(rate) = rate {
        let (jobs, per): (Bound<'_, PyAny>, Bound<'_, PyAny>) = rate
            .extract()
            .map_err(|_| invalid("rate is a pair: how many jobs, in how many seconds, such as (100, 1.0)"))?;
        let jobs = convert::whole("the jobs of a rate", &jobs, 1..=duly::MAX_RATE_JOBS.into())?;
        limits.rate = Some(Rate { jobs, per: convert::duration("the time of a rate", &per)? });
    }
    if let Some(names) = names {
        limits.names = names_of(names)?;
    }
    Ok(limits)
}

fn names_of(given: &Bound<'_, PyAny>) -> Result<BTreeMap<String, NameLimits>, Failure> {
    let refused = || invalid("names is a dict such as {'mail.send': {'concurrency': 5}}");
    let mut names = BTreeMap::new();
    for (name, given) in given.cast::<PyDict>().map_err(|_| refused())?.iter() {
        let name = convert::text("a name", name.cast::<PyString>().map_err(|_| refused())?)?;
        let mut limits = NameLimits::new();
        for (word, value) in given.cast::<PyDict>().map_err(|_| refused())?.iter() {
            if !word.eq("concurrency")? {
                return Err(refused().into());
            }
            if !value.is_none() {
                let range = 1..=duly::MAX_CONCURRENCY.into();
                limits.concurrency = Some(convert::whole("concurrency", &value, range)?);
            }
        }
        names.insert(name, limits);
    }
    Ok(names)
}
