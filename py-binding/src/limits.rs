//! `duly.Limits`: how much of a queue may run at once and start in a time.

use duly::Rate;
use pyo3::prelude::*;

use crate::convert;
use crate::error::{Failure, invalid};

/// The limits of a queue. The time of the rate is in seconds.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Limits {
    /// The most jobs that are reserved at once.
    concurrency: Option<u32>,
    /// How many jobs start in how many seconds.
    rate: Option<(u32, f64)>,
}

impl From<duly::Limits> for Limits {
    fn from(limits: duly::Limits) -> Self {
        let rate = limits.rate.map(|rate| (rate.jobs, rate.per.as_secs_f64()));
        Self { concurrency: limits.concurrency, rate }
    }
}

#[pymethods]
impl Limits {
    fn __repr__(&self) -> String {
        let concurrency = self.concurrency.map_or("None".to_owned(), |most| most.to_string());
        let rate = self.rate.map_or("None".to_owned(), |(jobs, per)| format!("({jobs}, {per:?})"));
        format!("<duly.Limits: concurrency={concurrency}, rate={rate}>")
    }
}

/// What `set_limits` takes: a number, and a pair of a number and a time.
pub(crate) fn limits_of(
    concurrency: Option<&Bound<'_, PyAny>>,
    rate: Option<&Bound<'_, PyAny>>,
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
    Ok(limits)
}
