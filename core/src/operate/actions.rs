//! The log of actions: what operators have done by the command and the page, the newest 1,000 entries of all of them.

use crate::queue::{Client, Part};
use crate::script::{self, Declared, NoteAction};
use crate::value::error::Error;
use crate::value::time::Millis;

/// So many actions the log keeps; older ones go.
pub const MAX_ACTIONS: usize = 1000;
/// Under this name the log lies, where others have that of a queue.
const LOG: &str = "actions";
/// What of an entry is kept, in bytes: who, what, outcome.
const MOST_WHO: usize = 96;
const MOST_WHAT: usize = 256;
const MOST_OUTCOME: usize = 128;

/// What an operator has done.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Action {
    /// When it was noted, by the server's clock: at its end.
    pub at: Millis,
    /// By whom, such as `ann@host` of the command.
    pub who: String,
    /// A verb and what it was about, such as `pause queue=orders`; never the data of a job.
    pub what: String,
    /// What became of it, such as `done`.
    pub outcome: String,
}

impl Client {
    /// Puts an action into the log of this prefix: once, however often the call has to be sent. Texts are cut: 96 bytes of who, 256 of what,
    /// 128 of the outcome.
    ///
    /// Errors: those of any call; then it may be missing.
    pub async fn note_action(&self, who: &str, what: &str, outcome: &str) -> Result<(), Error> {
        let texts = [(who, MOST_WHO), (what, MOST_WHAT), (outcome, MOST_OUTCOME)];
        let entry = texts.map(|(text, most)| one_line(text, most)).join("\n");
        let note = NoteAction { most_actions: MAX_ACTIONS, entry };
        Part::beside_queues(self.clone(), LOG).run(note.with([])).await.map_err(Error::of_all_queues)
    }

    /// The actions that the log has, the newest first: `limit` of them at the most, 1 to 1,000, behind the newest `skip`.
    ///
    /// Errors: `InvalidArgument`.
    pub async fn actions(&self, limit: usize, skip: usize) -> Result<Vec<Action>, Error> {
        if limit == 0 || limit > MAX_ACTIONS {
            return Err(Error::invalid(format!("limit must be 1 to {MAX_ACTIONS}, not {limit}")).during("actions"));
        }
        let log = Part::beside_queues(self.clone(), LOG);
        let page = script::actions(&log.shared.keys, skip.min(MAX_ACTIONS), limit);
        let entries = script::noted_actions(log.command("actions", page).await?)?;
        Ok(entries.iter().rev().map(|entry| read(entry)).collect())
    }
}

/// On one line, as lines part the texts of an entry; and no longer than so many bytes.
fn one_line(text: &str, most: usize) -> String {
    let mut line = text.replace(char::is_control, " ");
    if line.len() > most {
        let end = (0..=most - '…'.len_utf8()).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line
}

/// What another version or program has written has less.
fn read(entry: &str) -> Action {
    let mut lines = entry.split('\n').map(str::to_owned);
    let at = lines.next().and_then(|at| at.parse().ok()).map_or(Millis::ZERO, Millis::new);
    let mut text = || lines.next().unwrap_or_default();
    Action { at, who: text(), what: text(), outcome: text() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_short_and_has_one_line_a_text() {
        assert_eq!(one_line("a\nb\u{1b}c", 96), "a b c");
        assert_eq!(one_line("12345678", 8), "12345678");
        assert_eq!(one_line("123456789", 8), "12345…");
        let cut = one_line(&"单".repeat(100), MOST_WHO);
        assert!(cut.len() <= MOST_WHO && cut.ends_with("单…"), "{cut}");
    }

    #[test]
    fn what_is_no_entry_is_shown_as_far_as_it_is_one() {
        let action = |at, who: &str, what: &str, outcome: &str| Action {
            at: Millis::new(at),
            who: who.to_owned(),
            what: what.to_owned(),
            outcome: outcome.to_owned(),
        };
        assert_eq!(read("5\nann@host\npause queue=q\ndone"), action(5, "ann@host", "pause queue=q", "done"));
        assert_eq!(read("5\nann\nof a later version\ndone\nmore"), action(5, "ann", "of a later version", "done"));
        assert_eq!(read("noise"), action(0, "", "", ""));
    }
}
