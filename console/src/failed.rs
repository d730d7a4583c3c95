//! `duly failed`.

use clap::Args;
use duly::{Error, FailureGroup};
use serde_json::json;

use crate::matches::{end_progress, progress};
use crate::show::{Shown, moment, or_dash, printable};
use crate::target::One;
use crate::{DONE, Output};

/// Show failed jobs in groups: those of one name that failed in the same way
#[derive(Debug, Args)]
#[command(after_help = "\
To run a group again:  duly requeue QUEUE --name NAME --group KIND
To remove it:          duly purge QUEUE failed --name NAME --group KIND
Jobs without a name:   --unnamed instead of --name
`duly peek QUEUE failed` shows them one by one.")]
pub(crate) struct Failed {
    #[command(flatten)]
    one: One,
    /// Maximum number of groups, the largest first
    #[arg(long, default_value_t = 20, value_parser = crate::jobs::at_least_one)]
    limit: usize,
    #[command(flatten)]
    shown: Shown,
}

impl Failed {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let queue = self.one.open(&output).await?;
        let mut groups = queue.failure_groups();
        while groups.look().await? {
            progress(&format!("looked at {} failed jobs", groups.looked_at()), &mut output);
        }
        end_progress(&mut output);
        let (total, others) = (groups.looked_at(), groups.others());
        let groups = groups.largest();
        let shown = &groups[..groups.len().min(self.limit)];
        if self.shown.json {
            let value = |group: &FailureGroup| {
                json!({
                    "name": group.name,
                    "kind": group.kind,
                    "count": group.count,
                    "first": group.first.as_seconds(),
                    "last": group.last.as_seconds(),
                    "id": group.id,
                    "error": group.error,
                })
            };
            output.json(&shown.iter().map(value).collect::<Vec<_>>())?;
        } else if groups.is_empty() {
            output.line(&format!("no job of {} has failed for good", printable(queue.name())));
        } else {
            let row = |group: &FailureGroup| {
                vec![
                    group.count.to_string(),
                    or_dash(group.name.clone()),
                    group.kind.clone(),
                    moment(group.first),
                    moment(group.last),
                    group.id.clone(),
                ]
            };
            let headings = [" JOBS", "NAME", "KIND", "FIRST (UTC)", "LAST (UTC)", "ID OF THE LAST"];
            output.table(&headings, shown.iter().map(row).collect());
        }
        let hidden = groups.len() - shown.len();
        if hidden > 0 {
            let counted: u64 = shown.iter().map(|group| group.count).sum();
            let left = total - counted - others;
            output.complain(&format!("{left} of {total} failed jobs are in other groups: --limit shows more"));
        }
        if others > 0 {
            output.complain(&format!(
                "{others} of {total} failed jobs are in groups too small and too many to be counted"
            ));
        }
        Ok(DONE)
    }
}
