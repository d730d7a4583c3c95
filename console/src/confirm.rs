//! Asking before what cannot be undone.

use std::io::IsTerminal;

use clap::Args;
use duly::Error;

use crate::{Output, invalid};

/// The answer, if it is given beforehand.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Yes {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Yes {
    /// Asks on a terminal. Errors: `InvalidArgument` without one.
    pub(crate) fn agrees(self, question: &str, output: &mut Output<'_>) -> Result<bool, Error> {
        if self.yes {
            return Ok(true);
        }
        let input = std::io::stdin();
        if !input.is_terminal() {
            return Err(invalid(format!("{question} There is no terminal to ask on: add --yes")));
        }
        _ = write!(output.err, "{question} [y/N] ");
        _ = output.err.flush();
        let mut answer = String::new();
        let is_read = input.read_line(&mut answer).is_ok();
        let agrees = is_read && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
        if !agrees {
            output.complain("nothing was changed");
        }
        Ok(agrees)
    }
}
