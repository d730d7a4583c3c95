//! The rules for names, ids, keys, headers and the words for states. Every check of a user's text is here and nowhere else.

use std::collections::BTreeMap;

use crate::value::error::Error;
use crate::value::state::State;

/// The longest name of a queue or worker, and the longest key prefix, in bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// The longest job id that a user may bring, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 128;
/// The longest business key, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 256;
/// The longest handler name, in bytes of UTF-8.
pub const MAX_HANDLER_BYTES: usize = 128;
/// The longest name of a schedule, in bytes of UTF-8.
pub const MAX_SCHEDULE_NAME_BYTES: usize = 96;
/// The most headers that one job may have.
pub const MAX_HEADERS: usize = 64;
/// The longest header name, in bytes of UTF-8.
pub const MAX_HEADER_NAME_BYTES: usize = 128;
/// The longest header value, in bytes of UTF-8.
pub const MAX_HEADER_VALUE_BYTES: usize = 4096;
/// The last priority: 0 runs first, 9 last.
pub const MAX_PRIORITY: u8 = 9;
/// The priority of a job that names none.
pub const DEFAULT_PRIORITY: u8 = 5;

/// A queue name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
///
/// Braces would move the cluster's hash tag, and `/` is kept for the partitions of a queue (`orders/0`).
/// Anything else is [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
///
/// ```
/// assert!(duly::name::check_queue("orders:eu").is_ok());
/// assert!(duly::name::check_queue("orders/0").is_err());
/// ```
pub fn check_queue(name: &str) -> Result<(), Error> {
    check_plain(name, "a queue name must have 1 to 128 of the characters A-Z a-z 0-9 . _ : - and no others")
}

/// The name of a lock: as that of a queue, which it has nothing to do with.
pub fn check_lock(name: &str) -> Result<(), Error> {
    check_plain(name, "the name of a lock must have 1 to 128 of the characters A-Z a-z 0-9 . _ : - and no others")
}

/// The name of a topic, of a subscription or of one of its members: as that of a queue, which they have nothing to do with.
pub fn check_topic(name: &str) -> Result<(), Error> {
    let rule = "names of topics, subscriptions and members must have 1 to 128 of the characters A-Z a-z 0-9 . _ : - and no others";
    check_plain(name, rule)
}

/// A key prefix: as a queue name, and it may be empty.
pub fn check_prefix(prefix: &str) -> Result<(), Error> {
    if is_plain(prefix) {
        return Ok(());
    }
    Err(Error::invalid("a key prefix must have at most 128 of the characters A-Z a-z 0-9 . _ : - and no others"))
}

/// A job id that the user brings: 1 to 128 bytes of UTF-8 without control characters.
pub fn check_id(id: &str) -> Result<(), Error> {
    check_text(id, MAX_ID_BYTES, "a job id must have 1 to 128 bytes of UTF-8 and no control characters")
}

/// A business key: 1 to 256 bytes of UTF-8 without control characters.
pub fn check_key(key: &str) -> Result<(), Error> {
    check_text(key, MAX_KEY_BYTES, "a key must have 1 to 256 bytes of UTF-8 and no control characters")
}

/// A handler name: 1 to 128 bytes of UTF-8 without control characters.
pub fn check_handler(name: &str) -> Result<(), Error> {
    check_text(name, MAX_HANDLER_BYTES, "a handler name must have 1 to 128 bytes of UTF-8 and no control characters")
}

/// A worker's name: 1 to 128 bytes of UTF-8 without control characters.
pub fn check_worker(name: &str) -> Result<(), Error> {
    check_text(name, MAX_NAME_BYTES, "a worker's name must have 1 to 128 bytes of UTF-8 and no control characters")
}

/// A schedule's name: 1 to 96 bytes of UTF-8 without control characters; the ids of its jobs begin with it.
pub fn check_schedule(name: &str) -> Result<(), Error> {
    check_text(
        name,
        MAX_SCHEDULE_NAME_BYTES,
        "a schedule's name must have 1 to 96 bytes of UTF-8 and no control characters",
    )
}

/// The owner of schedules: 1 to 128 bytes of UTF-8 without control characters.
pub fn check_owner(owner: &str) -> Result<(), Error> {
    check_text(owner, MAX_NAME_BYTES, "an owner must have 1 to 128 bytes of UTF-8 and no control characters")
}

/// A priority: 0 (runs first) to 9.
pub fn check_priority(priority: u8) -> Result<(), Error> {
    if priority <= MAX_PRIORITY {
        return Ok(());
    }
    Err(Error::invalid("a priority must be 0 to 9, where 0 runs first and 5 is the default"))
}

/// Headers: at most 64; each name 1 to 128 bytes without control characters, each value at most 4096 bytes.
pub fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), Error> {
    if headers.len() > MAX_HEADERS {
        return Err(Error::invalid("a job may have at most 64 headers"));
    }
    for (name, value) in headers {
        check_text(
            name,
            MAX_HEADER_NAME_BYTES,
            "a header name must have 1 to 128 bytes of UTF-8 and no control characters",
        )?;
        if value.len() > MAX_HEADER_VALUE_BYTES {
            return Err(Error::invalid("a header value must have at most 4096 bytes of UTF-8"));
        }
    }
    Ok(())
}

fn check_plain(name: &str, rule: &'static str) -> Result<(), Error> {
    if !name.is_empty() && is_plain(name) { Ok(()) } else { Err(Error::invalid(rule)) }
}

fn is_plain(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-'))
}

fn check_text(text: &str, max_bytes: usize, rule: &'static str) -> Result<(), Error> {
    if text.is_empty() || text.len() > max_bytes || text.chars().any(char::is_control) {
        return Err(Error::invalid(rule));
    }
    Ok(())
}

impl State {
    /// The state of this name. Errors: `InvalidArgument`.
    pub fn parse(name: &str) -> Result<Self, Error> {
        [Self::Delayed, Self::Ready, Self::Reserved, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
            .ok_or_else(|| Error::invalid("a state is delayed, ready, reserved or failed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;

    #[test]
    fn queue_names_hold_no_brace_slash_space_or_control() {
        for name in ["orders", "a", "A.b_c:d-9", &"q".repeat(128)] {
            assert!(check_queue(name).is_ok() && check_lock(name).is_ok(), "{name}");
        }
        for name in ["", "a b", "a{b}", "orders/0", "a\n", "a\0", "\u{fc}", &"q".repeat(129)] {
            for check in [check_queue, check_lock] {
                assert_eq!(check(name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name:?}");
            }
        }
        assert!(check_prefix("").is_ok());
        assert!(check_prefix("shop:").is_ok());
        assert!(check_prefix("{shop}").is_err());
    }

    #[test]
    fn ids_keys_and_handlers_are_printable_and_bounded() {
        for (check, max) in [
            (check_id as fn(&str) -> Result<(), Error>, MAX_ID_BYTES),
            (check_key, MAX_KEY_BYTES),
            (check_handler, MAX_HANDLER_BYTES),
            (check_worker, MAX_NAME_BYTES),
        ] {
            assert!(check("close:42 \u{8ba2}\u{5355}").is_ok());
            assert!(check(&"k".repeat(max)).is_ok());
            for text in ["", "a\u{7f}", "a\u{85}", "a\tb", &"k".repeat(max + 1)] {
                assert!(check(text).is_err(), "{text:?}");
            }
        }
    }

    #[test]
    fn headers_and_priority_are_bounded() {
        let one = |name: &str, value: String| check_headers(&BTreeMap::from([(name.to_owned(), value)]));
        assert!(one("traceparent", "00-0af7-b7ad-01".to_owned()).is_ok());
        assert!(one("", String::new()).is_err());
        assert!(one("a", "v".repeat(4097)).is_err());
        assert!(check_headers(&(0..65).map(|n| (n.to_string(), String::new())).collect()).is_err());
        assert!(check_priority(0).is_ok() && check_priority(9).is_ok() && check_priority(10).is_err());
    }
}
