//! `Duly\Limits`: how much of a queue may run at once and start in a time.

use duly::Rate;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert::{millis, values, whole};
use crate::error::Fault;
use crate::record::record;

record! {
    /// The limits of a queue.
    Limits = "Duly\\Limits" {
        /// The most jobs that are reserved at once.
        concurrency: Option<i64>,
        /// How many jobs start in how many seconds.
        rate: Option<Vec<f64>>,
    }
}

impl From<duly::Limits> for Limits {
    fn from(limits: duly::Limits) -> Self {
        let rate = limits.rate.map(|rate| vec![f64::from(rate.jobs), rate.per.as_secs_f64()]);
        Self { concurrency: limits.concurrency.map(i64::from), rate }
    }
}

/// What `setLimits` takes: a number, and a list of a number and a time.
pub fn limits_of(concurrency: Option<i64>, rate: Option<&ZendHashTable>) -> Result<duly::Limits, Fault> {
    let mut limits = duly::Limits::new();
    let most = duly::MAX_CONCURRENCY.into();
    limits.concurrency = concurrency.map(|number| whole("concurrency", number, most)).transpose()?;
    if let Some(rate) = rate {
        let wrong = || Fault::invalid("rate is a list of two: how many jobs, in how many seconds, such as [100, 1.0]");
        let pair: Vec<&Zval> = values(rate).collect();
        let [jobs, per] = pair.as_slice() else { return Err(wrong()) };
        let jobs = whole("the jobs of a rate", jobs.long().ok_or_else(wrong)?, duly::MAX_RATE_JOBS.into())?;
        limits.rate = Some(Rate { jobs, per: millis("the time of a rate", per)?.to_duration() });
    }
    Ok(limits)
}
