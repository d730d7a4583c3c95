//! `duly audit`.

use clap::Args;
use duly::{AuditOptions, Error};
use serde_json::json;

use crate::show::{Shown, printable};
use crate::target::One;
use crate::{DONE, FAILED, Output};

/// Check the invariants of a queue, also while it is in use; the status is 1 if something is broken
#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(flatten)]
    one: One,
    /// Mend what is broken
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    shown: Shown,
}

impl Audit {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let queue = self.one.open(&output).await?;
        if self.repair {
            output.acting.begin(self.one.action("audit --repair", &[]));
        }
        let report = queue.audit(AuditOptions::new().repair(self.repair)).await?;
        output.acting.done_to(report.findings.iter().filter(|finding| finding.repaired).count() as u64);
        let left = report.findings.iter().filter(|finding| !finding.repaired).count();
        let status = if left == 0 { DONE } else { FAILED };
        if self.shown.json {
            let finding = |finding: &duly::Finding| {
                json!({
                    "invariant": finding.invariant.as_str(),
                    "id": finding.id,
                    "detail": finding.detail,
                    "repaired": finding.repaired,
                })
            };
            let findings: Vec<_> = report.findings.iter().map(finding).collect();
            output.json(&json!({"jobs": report.jobs, "entries": report.entries, "findings": findings}))?;
            return Ok(status);
        }
        for finding in &report.findings {
            let mended = if finding.repaired { "  (mended)" } else { "" };
            let (id, detail) = (printable(&finding.id), printable(&finding.detail));
            output.line(&format!("{}  {id}  {detail}{mended}", finding.invariant.as_str()));
        }
        let (jobs, found) = (report.jobs, report.findings.len());
        let what = if found == 0 { "nothing is broken".to_owned() } else { format!("{found} broken, {left} left") };
        output.line(&format!("{jobs} jobs were looked at: {what}"));
        if left > 0 && !self.repair {
            output.line("--repair mends them");
        }
        Ok(status)
    }
}
