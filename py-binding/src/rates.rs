//! `duly.Rates` and its parts: what runs came to.

use duly::Millis;
use pyo3::prelude::*;

/// What the runs of a queue came to in a span of time.
///
/// Workers count it. One that is killed takes with it what it has not reported yet. Runs of jobs that were reserved by
/// hand are not counted.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Rates {
    since: f64,
    step: f64,
    windows: Vec<Py<RateWindow>>,
    total: Py<RunCounts>,
    names: Vec<Py<NameRates>>,
}

/// What the runs came to that ended in one window of time.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct RateWindow {
    start: f64,
    counts: Py<RunCounts>,
}

/// What the runs of jobs with one name came to.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct NameRates {
    name: Option<String>,
    others: bool,
    counts: Py<RunCounts>,
}

/// What runs came to.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct RunCounts {
    done: u64,
    failed: u64,
    retried: u64,
    released: u64,
    wait: Py<Spread>,
    run: Py<Spread>,
}

/// How long something took, in seconds; p50, p95 and p99 are at most 10 % off. None if nothing was counted.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Spread {
    count: u64,
    mean: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

impl Rates {
    pub(crate) fn new(py: Python<'_>, rates: &duly::Rates) -> PyResult<Self> {
        let window = |window: &duly::RateWindow| {
            let counts = RunCounts::new(py, &window.counts)?;
            Py::new(py, RateWindow { start: Millis::as_seconds(window.start), counts })
        };
        let name = |of_name: &duly::NameRates| {
            let counts = RunCounts::new(py, &of_name.counts)?;
            Py::new(py, NameRates { name: of_name.name.clone(), others: of_name.others, counts })
        };
        Ok(Self {
            since: Millis::as_seconds(rates.since),
            step: Millis::as_seconds(rates.step),
            windows: rates.windows.iter().map(window).collect::<PyResult<_>>()?,
            total: RunCounts::new(py, &rates.total)?,
            names: rates.names.iter().map(name).collect::<PyResult<_>>()?,
        })
    }
}

impl RunCounts {
    fn new(py: Python<'_>, counts: &duly::RunCounts) -> PyResult<Py<Self>> {
        let duly::RunCounts { done, failed, retried, released, .. } = *counts;
        let (wait, run) = (Spread::new(py, &counts.wait)?, Spread::new(py, &counts.run)?);
        Py::new(py, Self { done, failed, retried, released, wait, run })
    }
}

impl Spread {
    fn new(py: Python<'_>, spread: &duly::Spread) -> PyResult<Py<Self>> {
        let quantile = |part| spread.quantile(part).map(|time| time.as_secs_f64());
        let mean = spread.mean().map(|time| time.as_secs_f64());
        let (p50, p95, p99) = (quantile(0.5), quantile(0.95), quantile(0.99));
        Py::new(py, Self { count: spread.count(), mean, p50, p95, p99 })
    }
}

#[pymethods]
impl Rates {
    fn __repr__(&self) -> String {
        let (total, windows) = (self.total.get(), self.windows.len());
        format!("<duly.Rates {} done, {} failed in {windows} windows>", total.done, total.failed)
    }
}

#[pymethods]
impl RateWindow {
    fn __repr__(&self) -> String {
        let counts = self.counts.get();
        format!("<duly.RateWindow of {}: {} done, {} failed>", self.start, counts.done, counts.failed)
    }
}

#[pymethods]
impl NameRates {
    fn __repr__(&self) -> String {
        let counts = self.counts.get();
        format!("<duly.NameRates of {:?}: {} done, {} failed>", self.name, counts.done, counts.failed)
    }
}

#[pymethods]
impl RunCounts {
    fn __repr__(&self) -> String {
        let Self { done, failed, retried, released, .. } = self;
        format!("<duly.RunCounts {done} done, {failed} failed, {retried} retried, {released} released>")
    }
}

#[pymethods]
impl Spread {
    fn __repr__(&self) -> String {
        let shown = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.6} s"));
        let (p50, p95) = (shown(self.p50), shown(self.p95));
        format!("<duly.Spread of {}: p50 {p50}, p95 {p95}>", self.count)
    }
}
