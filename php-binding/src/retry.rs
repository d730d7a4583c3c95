//! `Duly\RetryPolicy`.

use duly::Millis;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};

use crate::convert::{seconds, values};
use crate::error::Fault;

/// How long to wait before each retry. Spans are seconds.
#[php_class]
#[php(name = "Duly\\RetryPolicy")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct RetryPolicy {
    pub policy: duly::RetryPolicy,
}

fn millis(name: &str, value: &Zval) -> Result<Millis, Fault> {
    Ok(Millis::from_seconds(seconds(name, value)?)?)
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
    #[php(defaults(factor = 2.0, cap = 3600.0, jitter = true))]
    pub fn exponential(base: f64, factor: f64, cap: f64, jitter: bool) -> PhpResult<Self> {
        let policy = || -> Result<Self, Fault> {
            let (base, cap) = (Millis::from_seconds(base)?, Millis::from_seconds(cap)?);
            Self::checked(duly::RetryPolicy::Exponential { base, factor, cap, jitter })
        };
        Ok(policy()?)
    }

    /// These waits in turn; the last one repeats.
    pub fn list(delays: &ZendHashTable) -> PhpResult<Self> {
        Ok(Self::from_list(delays)?)
    }
}
