//! The host's clock and randomness. Nothing about a queue is decided by either.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::value::error::{Error, ErrorKind};
use crate::value::time::Millis;

/// The host's clock, for what only informs: parts of ids and envelopes, the worker registry.
pub(crate) fn now() -> Millis {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::from_duration(since_1970).unwrap_or(Millis::ZERO)
}

/// The name of this host; empty if the system gives none.
pub fn name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: it writes at most as many bytes as the buffer has.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0;
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    if failed { String::new() } else { String::from_utf8_lossy(&name[..length]).into_owned() }
}

/// Who makes a call, as a history notes it: `<language> <process> <host>`.
pub(crate) fn origin(language: &str) -> String {
    format!("{language} {} {}", std::process::id(), name().replace(char::is_control, "?"))
}

/// 64 random bits as 16 hexadecimal digits, for a name that nobody else has.
pub(crate) fn random_id() -> Result<String, Error> {
    let random = getrandom::u64()
        .map_err(|error| Error::new(ErrorKind::Internal, format!("the system gives no random bytes: {error}")))?;
    Ok(format!("{random:016x}"))
}

/// From 0 to 1, to spread waits, so that processes that were started together do not act together. A machine without
/// randomness still gets a middling wait.
pub(crate) fn random_fraction() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

/// One of so many, from 0 on; 0 for none.
pub(crate) fn random_below(count: usize) -> usize {
    let random = getrandom::u64().map_or(0, |number| usize::try_from(number % (1 << 16)).unwrap_or(0));
    random.checked_rem(count).unwrap_or(0)
}
