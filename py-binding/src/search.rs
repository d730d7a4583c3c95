//! The filter of `Queue.search`, and the `duly.SearchPage` that it gives.

use duly::Filter;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{self, Keywords};
use crate::error::Failure;
use crate::inspect::JobView;

const OPTIONS: [&str; 9] =
    ["name", "key_prefix", "error", "priority", "older_than", "since", "until", "limit", "cursor"];

/// The filter, the limit and the cursor.
pub(crate) fn search_options(
    py: Python<'_>,
    options: Option<&Bound<'_, PyDict>>,
) -> Result<(Filter, usize, Option<String>), Failure> {
    let given = Keywords::of("search", &OPTIONS, options)?;
    let mut filter = Filter::new();
    if let Some(name) = given.get(intern!(py, "name"))? {
        filter = filter.name(convert::text("name", &name)?);
    }
    if let Some(prefix) = given.get(intern!(py, "key_prefix"))? {
        filter = filter.key_prefix(convert::text("key_prefix", &prefix)?);
    }
    if let Some(error) = given.get(intern!(py, "error"))? {
        filter = filter.error(convert::text("error", &error)?);
    }
    if let Some(priority) = given.get(intern!(py, "priority"))? {
        filter = filter.priority(convert::whole("priority", &priority, 0..=duly::MAX_PRIORITY.into())?);
    }
    if let Some(age) = given.get(intern!(py, "older_than"))? {
        filter = filter.older_than(convert::duration("older_than", &age)?);
    }
    if let Some(since) = given.get(intern!(py, "since"))? {
        filter = filter.since(convert::moment("since", &since)?);
    }
    if let Some(until) = given.get(intern!(py, "until"))? {
        filter = filter.until(convert::moment("until", &until)?);
    }
    let limit = given.get(intern!(py, "limit"))?;
    let limit = limit.map_or(Ok(100), |limit| convert::whole("limit", &limit, 1..=duly::MAX_BATCH as u64))?;
    let cursor = given.get(intern!(py, "cursor"))?.map(|cursor| convert::text("cursor", &cursor)).transpose()?;
    Ok((filter, limit, cursor))
}

/// A page of the jobs that a search found.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct SearchPage {
    jobs: Vec<Py<JobView>>,
    looked_at: u64,
    cursor: Option<String>,
}

impl SearchPage {
    pub(crate) fn new(py: Python<'_>, page: duly::SearchPage) -> PyResult<Self> {
        let jobs: PyResult<_> = page.jobs.into_iter().map(|job| Py::new(py, JobView::new(job))).collect();
        Ok(Self { jobs: jobs?, looked_at: page.looked_at, cursor: page.cursor })
    }
}

#[pymethods]
impl SearchPage {
    fn __repr__(&self) -> String {
        let more = if self.cursor.is_some() { ", and more" } else { "" };
        format!("<duly.SearchPage of {}{more}>", self.jobs.len())
    }
}
