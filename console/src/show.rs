//! How what a command finds is shown: a table for people, one JSON value for programs.

use clap::Args;
use comfy_table::{CellAlignment, ColumnConstraint, Table, presets};
use duly::{Envelope, Error, ErrorKind, Millis};
use serde::Serialize;

use crate::Output;

/// The most characters of a text in a table: no id is longer.
const MOST_CHARACTERS: usize = 128;

/// How it is shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Shown {
    /// Write JSON, one value
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many failures the job can have, the last of which is for good: one more than retries.
pub(crate) fn most_failures(envelope: &Envelope) -> u64 {
    u64::from(envelope.max_attempts) + 1
}

impl Output<'_> {
    pub(crate) fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("it cannot be written as JSON: {error}")))?;
        self.line(&text);
        Ok(())
    }

    /// Columns whose heading begins with a space are numbers. Nothing is written if there are no rows.
    pub(crate) fn table(&mut self, headings: &[&str], rows: Vec<Vec<String>>) {
        if rows.is_empty() {
            return;
        }
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(headings.iter().map(|heading| heading.trim()));
        for row in rows {
            table.add_row(row.iter().map(|cell| printable(cell)).collect::<Vec<_>>());
        }
        for (column, heading) in table.column_iter_mut().zip(headings) {
            column.set_constraint(ColumnConstraint::ContentWidth).set_padding((0, 2));
            if heading.starts_with(' ') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            self.line(line.trim_end());
        }
    }
}

/// Whether a queue is paused, as a word. A pause or resume that failed on its way has reached some partitions only.
pub(crate) fn paused(parts: u16, partitions: u16) -> Option<String> {
    match parts {
        0 => None,
        some if some < partitions => Some(format!("paused in {some} of {partitions} partitions")),
        _ => Some("paused".to_owned()),
    }
}

/// On one line of a terminal, and no longer than a table has room for.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = escaped(text.chars().take(MOST_CHARACTERS));
    if text.chars().nth(MOST_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}

/// Is it text that somebody can copy as it is shown?
pub(crate) fn can_be_copied(text: &str) -> bool {
    !text.chars().any(|one| one.is_control() || is_invisible(one))
}

/// As a shell reads it.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.:/@%+".contains(one);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// An option of a command that a message shows, with its value, whatever that begins with.
pub(crate) fn option(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{between}{}", quoted(value))
}

/// The name of a queue behind the options of a command that a message shows: it is none of them, whatever it begins with.
pub(crate) fn argument(name: &str) -> String {
    if name.starts_with('-') { format!("-- {name}") } else { name.to_owned() }
}

/// For a terminal, which must not obey it: control characters are written as in Rust.
pub(crate) fn escaped(text: impl IntoIterator<Item = char>) -> String {
    let mut shown = String::new();
    for character in text {
        if character.is_control() || is_invisible(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Does it change what stands beside it, such as its direction?
pub(crate) fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "a number of jobs")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// A time of the server, in UTC.
pub(crate) fn moment(at: Millis) -> String {
    let at = i64::try_from(at.get()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Nothing as a dash.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned())
}

/// A span in the two largest of its units, such as `1h 5m`.
pub(crate) fn span(span: Millis) -> String {
    let seconds = span.get() / 1000;
    match seconds {
        0 => format!("{span}s"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(printable("name\u{202e}cod"), "name\\u{202e}cod");
        assert_eq!(escaped("a\u{9b}2Jb".chars()), "a\\u{9b}2Jb");
        assert_eq!(printable("订单"), "订单");
        assert_eq!(printable(&"x".repeat(200)).chars().count(), MOST_CHARACTERS + 1);
    }

    #[test]
    fn a_queue_whose_name_begins_like_an_option_is_an_argument() {
        assert_eq!(["orders", "--all"].map(argument), ["orders", "-- --all"]);
    }

    #[test]
    fn spans_and_moments_are_read_at_a_glance() {
        let shown = |ms| span(Millis::new(ms));
        let all = [40, 59_999, 65_000, 3_900_000, 90_000_000].map(shown);
        assert_eq!(all, ["0.04s", "59s", "1m 5s", "1h 5m", "1d 1h"]);
        assert_eq!(moment(Millis::new(1_790_000_030_500)), "2026-09-21 14:13:50");
        assert_eq!(moment(Millis::new(u64::MAX)), "?");
    }

    #[test]
    fn a_queue_is_paused_in_some_partitions_or_in_all() {
        let said = [(0, 0), (1, 0), (0, 4), (2, 4), (4, 4)].map(|(parts, partitions)| paused(parts, partitions));
        let paused = Some("paused".to_owned());
        assert_eq!(said, [None, paused.clone(), None, Some("paused in 2 of 4 partitions".to_owned()), paused]);
    }

    #[test]
    fn a_table_has_a_row_a_line() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = Output {
            out: &mut out,
            err: &mut err,
            stop: duly::Stop::default(),
            acting: crate::actions::Acting::default(),
        };
        output.table(&["QUEUE", " READY"], vec![vec!["a".to_owned(), "10".to_owned()], vec!["bb".into(), "2".into()]]);
        output.table(&["NOTHING"], Vec::new());
        assert_eq!(String::from_utf8(out).unwrap(), "QUEUE  READY\na         10\nbb         2\n");
    }
}
