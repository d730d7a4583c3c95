//! Numbers of things in messages.

/// `1 job`, `2 jobs`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The verb behind a number of things: `1 job is`, `2 jobs are`.
pub(crate) fn verb(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}
