//! `Duly\AuditReport` and `Duly\Finding`: what an audit of a queue gives.

use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;

use crate::record::{record, signed};

record! {
    /// One broken invariant.
    Finding = "Duly\\Finding" {
        /// Which one, in one word such as `record` or `one_state`.
        invariant: String,
        /// The job; empty when it is about the queue as a whole.
        id: String,
        /// What is wrong.
        detail: String,
        /// Whether it was mended.
        repaired: bool,
    }
}

impl From<duly::Finding> for Finding {
    fn from(finding: duly::Finding) -> Self {
        let invariant = finding.invariant.as_str().to_owned();
        Self { invariant, id: finding.id, detail: finding.detail, repaired: finding.repaired }
    }
}

record! {
    /// What an audit found, and how much it looked at.
    AuditReport = "Duly\\AuditReport" {
        /// What is broken.
        findings: Vec<Finding>,
        /// Records that were looked at.
        jobs: i64,
        /// Entries of ready lists that were looked at.
        entries: i64,
        /// What looked wrong at first, nearly all of it jobs that were on the move.
        suspects: i64,
        /// Calls that were made.
        pages: i64,
        /// Whether nothing is broken.
        clean: bool,
    }
}

impl From<duly::AuditReport> for AuditReport {
    fn from(report: duly::AuditReport) -> Self {
        Self {
            clean: report.is_clean(),
            findings: report.findings.into_iter().map(Finding::from).collect(),
            jobs: signed(report.jobs),
            entries: signed(report.entries),
            suspects: signed(report.suspects),
            pages: signed(report.pages),
        }
    }
}
