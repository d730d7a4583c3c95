//! `Duly\RetryPolicy`.

use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert::{given, millis, values, whole};
use crate::error::Fault;

/// How long to wait before each retry. Spans are seconds.
#[php_class]
#[php(name = "Duly\\RetryPolicy")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct RetryPolicy {
    pub policy: duly::RetryPolicy,
}

impl RetryPolicy {
    fn checked(policy: duly::RetryPolicy) -> Result<Self, Fault> {
        policy.check()?;
        Ok(Self { policy })
    }

    fn from_list(delays: &ZendHashTable) -> Result<Self, Fault> {
        let delays = values(delays).map(|delay| millis("delays", delay)).collect::<Result<_, _>>()?;
        Self::checked(duly::RetryPolicy::List { delays })
    }
}

#[php_impl]
impl RetryPolicy {
    /// The step times the number of failures: 5, 10, 15, ... by default.
    pub fn linear(step: &Zval) -> PhpResult<Self> {
        Ok(Self::checked(duly::RetryPolicy::Linear { step: millis("step", step)? })?)
    }

    /// Always the same wait.
    pub fn fixed(delay: &Zval) -> PhpResult<Self> {
        Ok(Self::checked(duly::RetryPolicy::Fixed { delay: millis("delay", delay)? })?)
    }

    /// Base, then each time so many times longer, never longer than the cap; with jitter a random part of that.
    #[php(defaults(factor = 2.0, jitter = true))]
    pub fn exponential(base: &Zval, factor: f64, cap: Option<&Zval>, jitter: bool) -> PhpResult<Self> {
        let policy = || -> Result<Self, Fault> {
            let base = millis("base", base)?;
            let cap = given(cap).map_or(Ok(duly::RetryPolicy::DEFAULT_CAP), |cap| millis("cap", cap))?;
            Self::checked(duly::RetryPolicy::Exponential { base, factor, cap, jitter })
        };
        Ok(policy()?)
    }

    /// These waits in turn; the last one repeats.
    pub fn list(delays: &ZendHashTable) -> PhpResult<Self> {
        Ok(Self::from_list(delays)?)
    }

    /// The wait in seconds after this many failures (1 or more); the same seed gives the same jitter.
    #[php(defaults(seed = 0))]
    pub fn delay(&self, failures: i64, seed: i64) -> PhpResult<f64> {
        let (failures, seed) = (whole("failures", failures, u32::MAX.into())?, whole("seed", seed, i64::MAX)?);
        Ok(self.policy.delay(failures, seed).as_seconds())
    }

    /// The wait in seconds of a job that failed so often, or null if it goes to `failed`.
    #[php(defaults(seed = 0))]
    pub fn decide(&self, failures: i64, maxRetries: i64, seed: i64) -> PhpResult<Option<f64>> {
        let failures = whole("failures", failures, u32::MAX.into())?;
        let max_retries = whole("maxRetries", maxRetries, u32::MAX.into())?;
        Ok(match duly::decide(&self.policy, failures, max_retries, whole("seed", seed, i64::MAX)?) {
            duly::Decision::RetryAfter(after) => Some(after.as_seconds()),
            _ => None,
        })
    }
}
