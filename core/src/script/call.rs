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
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    /// The queue's name, for messages.
    pub(crate) queue: &'a str,
    /// The cluster slot of the queue's keys (they share one hash tag).
    pub(crate) slot: u16,
    pub(crate) keys: ByteStrings,
    /// So many of them, the last ones, are those of single jobs.
    pub(crate) keys_of_jobs: u32,
    pub(crate) args: ByteStrings,
    /// Has it a number?
    pub(crate) is_numbered: bool,
    pub(crate) flags: Flags,
    /// Was it sent before, and may have been executed?
    pub(crate) is_again: bool,
}

/// What follows from the declaration of a call's script: which arguments differ where it is sent again or may not do all, by their indices in
/// `ARGV`, from 0; and whose it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Of `call_renew` or `again`, which say whether it was sent before, and may have been executed.
    pub(crate) again: Option<usize>,
    /// Of `ahead`: it is a reserve, which reclaims leases that are over unless this says that it spares them.
    pub(crate) ahead: Option<usize>,
    /// It is about a queue, and so about leases.
    pub(crate) is_of_queue: bool,
    /// How many keys it has of each single job.
    pub(crate) kinds_of_jobs: u8,
    /// It writes more than one server could keep of it by itself: in a cluster it is refused while its slot moves.
    pub(crate) waits_for_moves: bool,
}

impl<'a> Call<'a> {
    /// Of a script that no declaration is about: right when executed twice.
    pub(crate) fn plain(script: &'a Script, queue: &'a str, slot: u16, keys: ByteStrings, args: ByteStrings) -> Self {
        Self {
            script,
            queue,
            slot,
            keys,
            keys_of_jobs: 0,
            args,
            is_numbered: false,
            flags: Flags::default(),
            is_again: false,
        }
    }

    /// The keys as a cluster gets them: one more, which is never there. While a slot moves, a server refuses each call for a key that it does
    /// not have, before the call begins; a script all of whose keys it still has would run, and be refused in its middle what it has emptied
    /// and touches again.
    pub(crate) fn keys_in_cluster(&self) -> Option<ByteStrings> {
        let absent = [self.keys.iter().next().filter(|_| self.flags.waits_for_moves)?, b":absent"].concat();
        let mut keys = ByteStrings::default();
        // Scripts count the keys of single jobs from the end, and all others from the beginning.
        let own = self.keys.len() - self.keys_of_jobs as usize;
        self.keys.iter().take(own).for_each(|key| keys.push(key));
        keys.push(&absent);
        self.keys.iter().skip(own).for_each(|key| keys.push(key));
        Some(keys)
    }

    /// Is it a reserve, which reclaims leases that are over unless it is to spare them?
    pub(crate) fn reclaims(&self) -> bool {
        self.flags.ahead.is_some()
    }

    /// What is sent. `again`: behind an attempt that may have been executed; `spares`: of a reserve, leases that are over.
    pub(crate) fn args(&self, again: bool, spares: bool) -> impl Iterator<Item = &[u8]> {
        let again = self.flags.again.filter(|_| again || self.is_again);
        let ahead = self.flags.ahead.filter(|_| spares);
        let noted = if self.is_numbered { KNOWN } else { UNKNOWN };
        self.args.iter().enumerate().map(move |(at, word)| match word {
            b"0" if again == Some(at) => noted,
            word if ahead == Some(at) => sparing(word),
            word => word,
        })
    }
}

/// Of `call_renew`: renewal is asked for, of a memory that was kept and not long ago.
pub(super) const KNOWN: &[u8] = b"2";
/// The same; perhaps there is none.
pub(super) const UNKNOWN: &[u8] = b"1";

/// The flag `ahead` of a reserve that spares leases.
fn sparing(ahead: &[u8]) -> &[u8] {
    if ahead == b"0" { b"2" } else { b"3" }
}
