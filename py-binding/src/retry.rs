//! `duly.RetryPolicy`.

use duly::Millis;
use pyo3::prelude::*;

use crate::convert;
use crate::error::{Failure, OrRaise as _};

/// How long to wait before each retry, at most 100 years. The default is `linear(5)`: 5, 10, 15, 20, 25 seconds.
///
/// From the 11th failure on, a wait is at least one second, whatever the policy says.
#[pyclass(frozen, eq, module = "duly")]
#[derive(PartialEq)]
pub(crate) struct RetryPolicy(duly::RetryPolicy);

impl RetryPolicy {
    pub(crate) fn policy(&self) -> duly::RetryPolicy {
        self.0.clone()
    }

    fn checked(policy: duly::RetryPolicy) -> Result<Self, Failure> {
        policy.check()?;
        Ok(Self(policy))
    }
}

#[pymethods]
impl RetryPolicy {
    /// Wait `step` after the first failure, twice that after the second, and so on.
    #[staticmethod]
    fn linear(step: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::checked(duly::RetryPolicy::Linear { step: convert::span("step", step)? })?)
    }

    /// Wait the same time after every failure.
    #[staticmethod]
    fn fixed(delay: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::checked(duly::RetryPolicy::Fixed { delay: convert::span("delay", delay)? })?)
    }

    /// Wait `base`, then `factor` (1 to 1,000) times longer each time, up to `cap` (default: an hour).
    ///
    /// With jitter, each wait is random between zero and that.
    #[staticmethod]
    #[pyo3(
        signature = (base, *, factor=None, cap=None, jitter=true),
        text_signature = "(base, *, factor=2.0, cap=None, jitter=True)"
    )]
    fn exponential(
        base: &Bound<'_, PyAny>,
        factor: Option<&Bound<'_, PyAny>>,
        cap: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = convert::is_set::<convert::Jitter>)] jitter: bool,
    ) -> PyResult<Self> {
        let base = convert::span("base", base)?;
        let factor = factor.map_or(Ok(2.0), |factor| convert::float("factor", factor)).map_err(Failure::from)?;
        let cap = cap.map_or(Ok(duly::RetryPolicy::DEFAULT_CAP), |cap| convert::span("cap", cap))?;
        Ok(Self::checked(duly::RetryPolicy::Exponential { base, factor, cap, jitter })?)
    }

    /// Wait as the list says (1 to 100 entries); the last one repeats.
    #[staticmethod]
    fn list(delays: &Bound<'_, PyAny>) -> PyResult<Self> {
        let given =
            convert::items(delays).ok_or_else(|| convert::of_wrong_type("delays", "a list of waits", delays))?;
        let delays: Result<Vec<Millis>, Failure> = given.map(|delay| convert::span("delays", &delay?)).collect();
        Ok(Self::checked(duly::RetryPolicy::List { delays: delays? })?)
    }

    /// Return the wait in seconds after this many failures; the same seed gives the same jitter.
    #[pyo3(signature = (failures, *, seed=None), text_signature = "($self, failures, *, seed=0)")]
    fn delay(&self, failures: &Bound<'_, PyAny>, seed: Option<&Bound<'_, PyAny>>) -> PyResult<f64> {
        Ok(self.0.delay(count("failures", failures)?, seed_of(seed)?).as_seconds())
    }

    /// Return the wait in seconds of a job that has failed this often, or None if it goes to `failed`.
    #[pyo3(
        signature = (failures, max_retries, *, seed=None),
        text_signature = "($self, failures, max_retries, *, seed=0)"
    )]
    fn decide(
        &self,
        failures: &Bound<'_, PyAny>,
        max_retries: &Bound<'_, PyAny>,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<f64>> {
        let (failures, max_retries) = (count("failures", failures)?, count("max_retries", max_retries)?);
        Ok(match duly::decide(&self.0, failures, max_retries, seed_of(seed)?) {
            duly::Decision::RetryAfter(after) => Some(after.as_seconds()),
            _ => None,
        })
    }

    fn __repr__(&self) -> PyResult<String> {
        let shown = match &self.0 {
            duly::RetryPolicy::Linear { step } => format!("linear({step})"),
            duly::RetryPolicy::Fixed { delay } => format!("fixed({delay})"),
            duly::RetryPolicy::Exponential { base, factor, cap, jitter } => {
                let jitter = if *jitter { "True" } else { "False" };
                format!("exponential({base}, factor={factor:?}, cap={cap}, jitter={jitter})")
            }
            duly::RetryPolicy::List { delays } => {
                let delays: Vec<String> = delays.iter().map(ToString::to_string).collect();
                format!("list([{}])", delays.join(", "))
            }
            _ => return Err(duly::Error::new(duly::ErrorKind::Internal, "an unknown retry policy")).or_raise(),
        };
        Ok(format!("RetryPolicy.{shown}"))
    }
}

fn count(what: &str, given: &Bound<'_, PyAny>) -> Result<u32, Failure> {
    Ok(convert::whole(what, given, 0..=u32::MAX.into())?)
}

fn seed_of(given: Option<&Bound<'_, PyAny>>) -> Result<u64, Failure> {
    Ok(given.map_or(Ok(0), |seed| convert::whole("seed", seed, 0..=u64::MAX))?)
}
