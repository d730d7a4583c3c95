//! `Duly\Limits`: how much of a queue may run at once and start in a time, and how many jobs it takes.

use std::collections::BTreeMap;

use duly::{NameLimits, Rate};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::flags::{ClassFlags, DataType};
use ext_php_rs::prelude::*;
use ext_php_rs::types::array::Iter;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert::{millis, values, whole};
use crate::error::Fault;
use crate::record::{record, signed};

record! {
    /// The limits of a queue.
    Limits = "Duly\\Limits" {
        /// The most jobs that are reserved at once.
        concurrency: Option<i64>,
        /// How many jobs start in how many seconds.
        rate: Option<Vec<f64>>,
        /// The limits of single job names.
        names: BTreeMap<String, BTreeMap<String, NameLimit>>,
        /// How many jobs the queue takes.
        max_length: Option<i64>,
    }
}

/// One limit of a name.
#[derive(Debug, Clone)]
pub enum NameLimit {
    Concurrency(i64),
    Rate(Vec<f64>),
}

impl IntoZval for NameLimit {
    const TYPE: DataType = DataType::Mixed;
    const NULLABLE: bool = false;

    fn set_zval(self, zv: &mut Zval, persistent: bool) -> ext_php_rs::error::Result<()> {
        match self {
            Self::Concurrency(most) => most.set_zval(zv, persistent),
            Self::Rate(rate) => rate.set_zval(zv, persistent),
        }
    }
}

fn shown(rate: Rate) -> Vec<f64> {
    vec![f64::from(rate.jobs), rate.per.as_secs_f64()]
}

impl From<duly::Limits> for Limits {
    fn from(limits: duly::Limits) -> Self {
        let rate = limits.rate.map(shown);
        let of = |limits: NameLimits| {
            let most = limits.concurrency.map(|most| ("concurrency".to_owned(), NameLimit::Concurrency(most.into())));
            let rate = limits.rate.map(|rate| ("rate".to_owned(), NameLimit::Rate(shown(rate))));
            most.into_iter().chain(rate).collect()
        };
        let names = limits.names.into_iter().map(|(name, limits)| (name, of(limits))).collect();
        Self { concurrency: limits.concurrency.map(i64::from), rate, names, max_length: limits.max_length.map(signed) }
    }
}

/// What `setLimits` takes: a number, a list of a number and a time, and an array of arrays.
pub fn limits_of(
    concurrency: Option<i64>,
    rate: Option<&ZendHashTable>,
    names: Option<&ZendHashTable>,
    max_length: Option<i64>,
) -> Result<duly::Limits, Fault> {
    let mut limits = duly::Limits::new();
    let most = duly::MAX_CONCURRENCY.into();
    limits.concurrency = concurrency.map(|number| whole("concurrency", number, most)).transpose()?;
    limits.rate = rate.map(rate_of).transpose()?;
    limits.max_length = max_length.map(max_length_of).transpose()?;
    if let Some(names) = names {
        limits.names = names_of(names)?;
    }
    Ok(limits)
}

fn max_length_of(given: i64) -> Result<u64, Fault> {
    let most = u64::try_from(given).ok().filter(|most| (1..=duly::MAX_LENGTH).contains(most));
    most.ok_or_else(|| {
        Fault::invalid(format!("maxLength must be a whole number from 1 to {}, not {given}", duly::MAX_LENGTH))
    })
}

fn rate_of(given: &ZendHashTable) -> Result<Rate, Fault> {
    let wrong = || Fault::invalid("rate is a list of two: how many jobs, in how many seconds, such as [100, 1.0]");
    let pair: Vec<&Zval> = values(given).collect();
    let [jobs, per] = pair.as_slice() else { return Err(wrong()) };
    let jobs = whole("the jobs of a rate", jobs.long().ok_or_else(wrong)?, duly::MAX_RATE_JOBS.into())?;
    Ok(Rate { jobs, per: millis("the time of a rate", per)?.to_duration() })
}

fn names_of(given: &ZendHashTable) -> Result<BTreeMap<String, NameLimits>, Fault> {
    let wrong =
        || Fault::invalid("names is an array such as ['mail.send' => ['concurrency' => 5, 'rate' => [100, 60.0]]]");
    let mut names = BTreeMap::new();
    // Not the table's own iterator: it panics at a key that is not UTF-8.
    let mut members = Iter::new(given);
    while let Some((name, value)) = members.next_zval() {
        let name = match name.long() {
            Some(number) if name.is_long() => number.to_string(),
            _ => name.string().ok_or_else(wrong)?,
        };
        let mut limits = NameLimits::new();
        let mut words = Iter::new(value.dereference().array().ok_or_else(wrong)?);
        while let Some((word, value)) = words.next_zval() {
            let value = value.dereference();
            match word.string().as_deref() {
                Some("concurrency" | "rate") if value.is_null() => {}
                Some("concurrency") => {
                    let number = if value.is_long() { value.long() } else { None };
                    let most = whole("concurrency", number.ok_or_else(wrong)?, duly::MAX_CONCURRENCY.into())?;
                    limits.concurrency = Some(most);
                }
                Some("rate") => limits.rate = Some(rate_of(value.array().ok_or_else(wrong)?)?),
                _ => return Err(wrong()),
            }
        }
        names.insert(name, limits);
    }
    Ok(names)
}
