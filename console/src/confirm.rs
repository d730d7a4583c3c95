//! Asking before what cannot be undone.

use std::io::IsTerminal;
use std::os::fd::AsRawFd;
use std::time::Duration;

use clap::Args;
use duly::{Error, ErrorKind};

use crate::{Output, invalid};

/// How often it is asked whether there is an answer. A call that waits for one would not end with a signal for which the program has a
/// handler.
const LOOK: Duration = Duration::from_millis(50);

/// The answer, if it is given beforehand.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Yes {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Yes {
    /// Asks on a terminal. Errors: `InvalidArgument` without one, `Interrupted` if a signal comes before the answer.
    pub(crate) async fn agrees(self, question: &str, output: &mut Output<'_>) -> Result<bool, Error> {
        if self.yes {
            return Ok(true);
        }
        let input = std::io::stdin();
        if !input.is_terminal() {
            return Err(invalid(format!("{question} There is no terminal to ask on: add --yes")));
        }
        _ = write!(output.err, "{question} [y/N] ");
        _ = output.err.flush();
        wait_for_input(&input, || output.stop.is_set()).await;
        // A signal that came before the answer is heard of by then.
        tokio::time::sleep(LOOK).await;
        if output.stop.is_set() {
            // Behind the question.
            _ = writeln!(output.err);
            return Err(Error::new(ErrorKind::Interrupted, "interrupted; nothing was changed"));
        }
        let mut answer = String::new();
        let is_read = input.read_line(&mut answer).is_ok();
        let agrees = is_read && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
        if !agrees {
            output.complain("nothing was changed");
        }
        Ok(agrees)
    }
}

/// Waits until something can be read without a wait, or this is over.
pub(crate) async fn wait_for_input(input: &impl AsRawFd, is_over: impl Fn() -> bool) {
    while !is_over() && !is_answered(input) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Is there a line, or the end of the input? What cannot be asked is read.
fn is_answered(input: &impl AsRawFd) -> bool {
    let mut asked = libc::pollfd { fd: input.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: it lives until the call returns, which is at once.
    unsafe { libc::poll(&raw mut asked, 1, 0) != 0 }
}
