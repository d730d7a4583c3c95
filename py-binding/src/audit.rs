//! `duly.AuditReport` and `duly.Finding`: what an audit of a queue gives.

use pyo3::prelude::*;
use pyo3::types::PyList;

/// One broken invariant.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct Finding {
    invariant: &'static str,
    id: String,
    detail: String,
    repaired: bool,
}

impl From<duly::Finding> for Finding {
    fn from(finding: duly::Finding) -> Self {
        Self {
            invariant: finding.invariant.as_str(),
            id: finding.id,
            detail: finding.detail,
            repaired: finding.repaired,
        }
    }
}

#[pymethods]
impl Finding {
    fn __repr__(&self) -> String {
        let repaired = if self.repaired { ", repaired" } else { "" };
        format!("<duly.Finding {} {:?}: {}{repaired}>", self.invariant, self.id, self.detail)
    }
}

/// The result of an audit, and how much it checked.
#[pyclass(frozen, get_all, module = "duly")]
pub(crate) struct AuditReport {
    findings: Py<PyList>,
    jobs: u64,
    entries: u64,
    suspects: u64,
    pages: u64,
    clean: bool,
}

impl AuditReport {
    pub(crate) fn new(py: Python<'_>, report: duly::AuditReport) -> PyResult<Self> {
        let clean = report.is_clean();
        let findings: PyResult<Vec<_>> =
            report.findings.into_iter().map(|finding| Py::new(py, Finding::from(finding))).collect();
        Ok(Self {
            findings: PyList::new(py, findings?)?.unbind(),
            jobs: report.jobs,
            entries: report.entries,
            suspects: report.suspects,
            pages: report.pages,
            clean,
        })
    }
}

#[pymethods]
impl AuditReport {
    fn __repr__(&self, py: Python<'_>) -> String {
        let findings = self.findings.bind(py);
        let is_repaired =
            |finding: &Bound<'_, PyAny>| finding.cast::<Finding>().is_ok_and(|found| found.get().repaired);
        let repaired = match findings.iter().filter(is_repaired).count() {
            0 => String::new(),
            repaired => format!(", {repaired} repaired"),
        };
        format!(
            "<duly.AuditReport: {} jobs, {} entries, {} findings{repaired}>",
            self.jobs,
            self.entries,
            findings.len()
        )
    }
}
