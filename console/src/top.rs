//! `duly top`: all queues and workers as they are now, again and again.
//!
//! | file | duty |
//! |---|---|
//! | `draw.rs` | puts the view on the screen |
//! | `live.rs` | keys, readings and signals, until it ends |
//! | `reading.rs` | reads queues and workers, at a bounded rate |
//! | `row.rs` | a queue as it is shown: its numbers, rates and columns |
//! | `screen.rs` | takes the terminal, and gives it back |
//! | `view.rs` | what is chosen, sorted, and asked |

mod draw;
mod live;
mod reading;
mod row;
mod screen;
mod view;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use duly::{Client, Error};

use self::row::COLUMNS;
use crate::show::printable;
use crate::target::Target;
use crate::{DONE, FAILED, Output, invalid};

/// How long a reading waits for the server.
const PATIENCE: Duration = Duration::from_secs(3);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// Watch queues and workers in the terminal, as they change
#[derive(Debug, Args)]
#[command(after_help = "\
keys:
  q, Ctrl-C          quit
  up, down, k, j     choose a queue; Page Up, Page Down, Home, End
  s, S               sort by the next column, by the one before
  Tab                go to the workers, and back
  p                  pause the chosen queue, or resume it; it asks first

Columns that the terminal has no room for are left out. Rates are what changed between two readings. However many queues there
are, 500 calls a second are made at the most: with 1,000 queues there is a reading every 4 s.

examples:
  duly top
  duly top orders mail --interval 1s
  duly top --once")]
pub(crate) struct Top {
    #[command(flatten)]
    target: Target,
    /// The queues [default: all that were used]
    queues: Vec<String>,
    /// Time between two readings, such as 500ms or 5s
    #[arg(long, default_value = "2s", value_parser = crate::when::span)]
    interval: Duration,
    /// Write one table, for which it reads twice, and end; needs no terminal
    #[arg(long)]
    once: bool,
}

impl Top {
    /// Until it is ended?
    pub(crate) fn is_live(&self) -> bool {
        !self.once
    }

    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        if !(SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&self.interval) {
            return Err(invalid("an interval is 0.1 s to 1 hour"));
        }
        if !self.once && !std::io::stdout().is_terminal() {
            return Err(invalid(
                "the output is no terminal, and `duly top` needs one: take `duly top --once` for one table, \
                 `duly queues --json` for a program",
            ));
        }
        let client = self.target.builder().deadline(PATIENCE).build()?;
        for name in &self.queues {
            client.queue(name)?;
        }
        if self.once {
            return self.write_once(&client, &mut output).await;
        }
        // A wrong address or password is said before the screen is taken.
        client.queues(1, None).await?;
        live::show(&client, &self.queues, self.interval, output.out).await
    }

    async fn write_once(&self, client: &Client, output: &mut Output<'_>) -> Result<u8, Error> {
        let before = reading::read(client, &self.queues).await?;
        tokio::time::sleep(self.interval).await;
        let mut now = reading::read(client, &self.queues).await?;
        now.compare_with(&before.rows);
        if now.rows.is_empty() {
            output.line("no queue was used under this prefix");
        }
        let headings = COLUMNS.each_ref().map(|column| column.heading);
        let rows = now.rows.iter().map(|row| COLUMNS.iter().map(|column| column.cell(row)).collect());
        output.table(&headings, rows.collect());
        let mut status = DONE;
        for row in &now.rows {
            if let Err(error) = &row.numbers {
                output.complain(&format!("the queue {}: {error}", printable(&row.name)));
                status = FAILED;
            }
        }
        Ok(status)
    }
}
