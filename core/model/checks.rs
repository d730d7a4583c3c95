//! What must hold of any text that a stranger has written. A check panics where it does not.
//!
//! `properties.rs` tries them on random texts, and `fuzzing.rs` on those that libFuzzer makes.
#![allow(clippy::unwrap_used, reason = "a check that panics is a test that fails")]

#[path = "checks/reading.rs"]
pub(crate) mod reading;
#[path = "checks/replies.rs"]
pub(crate) mod replies;
#[path = "checks/words.rs"]
pub(crate) mod words;

use std::collections::BTreeMap;

/// What the texts have come across, and how often.
pub(crate) type Seen = BTreeMap<&'static str, u32>;

pub(crate) fn note(seen: &mut Seen, what: &'static str) {
    *seen.entry(what).or_default() += 1;
}

/// Stands in texts for what no error may repeat.
pub(crate) const SECRET: &str = "s3cr3t";
