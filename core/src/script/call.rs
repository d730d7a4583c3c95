//! One call of a script: its text, its keys and its arguments, ready to be sent (and sent again) as they are.

use once_cell::race::OnceBox;

/// A Lua script: its whole text, and the text's SHA-1, which is its name on the server.
pub(crate) struct Script {
    pub(crate) text: String,
    // Not a cell that others wait for: a fork may happen while it is filled.
    sha: OnceBox<String>,
}

impl Script {
    pub(crate) fn new(text: String) -> Self {
        Self { text, sha: OnceBox::new() }
    }

    /// Forty hexadecimal digits.
    pub(crate) fn sha(&self) -> &str {
        self.sha.get_or_init(|| Box::new(sha1_smol::Sha1::from(self.text.as_bytes()).digest().to_string()))
    }
}

/// A list of byte strings in one buffer, because a batch has thousands of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ByteStrings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteStrings {
    pub(crate) fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn push_display(&mut self, number: impl std::fmt::Display) {
        use std::io::Write as _;
        // Writing to a Vec cannot fail.
        let _ = write!(self.bytes, "{number}");
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        other.iter().for_each(|item| self.push(item));
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of all items together, to size a buffer before it is filled.
    pub(crate) fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

/// A call that can be sent any number of times: every script answers a repeated call as it answered the first.
#[allow(clippy::struct_excessive_bools)] // each is asked where the call is written
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    /// The queue's name, for messages.
    pub(crate) queue: &'a str,
    /// The cluster slot of the queue's keys (they share one hash tag).
    pub(crate) slot: u16,
    pub(crate) keys: ByteStrings,
    pub(crate) args: ByteStrings,
    /// Has it a number?
    pub(crate) is_numbered: bool,
    /// Has it a flag that says whether it was sent before, and may have been executed: `call_renew` or `again`?
    pub(crate) notes_again: bool,
    /// Is it a reserve, which reclaims leases that are over unless its flag `ahead` says that it spares them?
    pub(crate) reclaims: bool,
    /// Was it sent before, and may have been executed?
    pub(crate) is_again: bool,
}

/// Where the arguments of a numbered call have its flag `call_renew`, and those of a `lock` the flag `again`.
pub(crate) const RENEW_FLAG: usize = 3;
/// Where the arguments of a reserve have the flag `ahead`.
pub(crate) const AHEAD_FLAG: usize = 9;
