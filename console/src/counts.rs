//! `duly counts`.

use clap::Args;
use duly::Error;

use crate::{DONE, Output, Target};

/// Show how many jobs of each queue are in each state
#[derive(Debug, Args)]
pub(crate) struct Counts {
    #[command(flatten)]
    target: Target,
    /// The queues
    #[arg(required = true)]
    queues: Vec<String>,
}

impl Counts {
    pub(crate) async fn run(&self, output: Output<'_>) -> Result<u8, Error> {
        let client = self.target.client()?;
        for name in &self.queues {
            let counts = client.queue(name)?.counts().await?;
            let (delayed, ready) = (counts.delayed, counts.ready);
            let paused = if counts.paused { "  paused" } else { "" };
            _ = writeln!(
                output.out,
                "{name}: delayed {delayed}  ready {ready}  reserved {}  failed {}{paused}",
                counts.reserved, counts.failed
            );
        }
        Ok(DONE)
    }
}
