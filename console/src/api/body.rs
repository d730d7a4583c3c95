//! The body of a request: how large, how slow, and of what type.

use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::reply::Refusal;

/// Of one request.
pub(super) const MOST_BODY_BYTES: usize = 16 * 1024 * 1024;
/// Of all requests together that are read or carried out: those that are more wait. Small ones have room of their own, so that no large or
/// slow one keeps a job from being acked.
const MOST_KIB: usize = 128 * 1024;
const MOST_KIB_OF_SMALL: usize = 32 * 1024;
const SMALL_BYTES: usize = 64 * 1024;
/// How long a body may take, with that wait.
const LONGEST: Duration = Duration::from_secs(20);

/// What all bodies together may have.
pub(super) struct Bodies {
    small: Semaphore,
    large: Semaphore,
}

impl Default for Bodies {
    fn default() -> Self {
        Self { small: Semaphore::new(MOST_KIB_OF_SMALL), large: Semaphore::new(MOST_KIB) }
    }
}

/// A body, for as long as it is needed.
pub(super) struct Read<'a> {
    bytes: Bytes,
    _room: tokio::sync::SemaphorePermit<'a>,
}

impl std::ops::Deref for Read<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Bodies {
    /// Errors: not JSON by its header, too large, too slow, not whole.
    pub(super) async fn read(&self, headers: &HeaderMap, body: Incoming) -> Result<Read<'_>, Refusal> {
        if !body.is_end_stream() && !is_json(headers) {
            return Err(Refusal::wrong_type());
        }
        let length = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        if length.is_some_and(|bytes| bytes > MOST_BODY_BYTES) {
            return Err(Refusal::too_large(MOST_BODY_BYTES));
        }
        let is_small = length.is_some_and(|bytes| bytes <= SMALL_BYTES);
        let wanted = length.unwrap_or(MOST_BODY_BYTES).div_ceil(1024);
        let read = async {
            let rooms = if is_small { &self.small } else { &self.large };
            let room = rooms.acquire_many(u32::try_from(wanted).unwrap_or(u32::MAX)).await;
            (room, Limited::new(body, MOST_BODY_BYTES).collect().await)
        };
        let (Ok(mut room), collected) = timeout(LONGEST, read).await.map_err(|_| Refusal::too_slow())? else {
            return Err(Refusal::busy("no body is read any more"));
        };
        let not_whole = || Refusal::invalid("the body is not whole");
        let bytes = collected.map_err(|error| {
            if error.is::<LengthLimitError>() { Refusal::too_large(MOST_BODY_BYTES) } else { not_whole() }
        })?;
        let bytes = bytes.to_bytes();
        if length.is_some_and(|length| length != bytes.len()) {
            return Err(not_whole());
        }
        // A body of unknown length had room for the longest: what it does not need is others', also while its request waits for a job.
        drop(room.split(wanted.saturating_sub(bytes.len().div_ceil(1024))));
        Ok(Read { bytes, _room: room })
    }
}

/// Its parameters may be any: JSON is UTF-8.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    kind.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_header_says_that_a_body_is_json() {
        let says =
            |kind: &'static str| is_json(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]));
        assert!(says("application/json") && says("Application/JSON; charset=utf-8"));
        assert!(!says("text/plain") && !says("application/json-patch+json") && !is_json(&HeaderMap::new()));
    }
}
