//! The body of a request: how large, how slow, and of what type.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::MOST_CONNECTIONS;
use super::reply::Refusal;

/// Of one request.
pub(super) const MOST_BODY_BYTES: usize = 16 * 1024 * 1024;
/// Of all requests together that are read or carried out: those that are more wait. Small ones have room of their own, as much as all
/// connections need, so that no large or slow one keeps a job from being acked.
const MOST_KIB: usize = 128 * 1024;
const MOST_KIB_OF_SMALL: usize = MOST_CONNECTIONS as usize * SMALL_BYTES / 1024;
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
    bytes: Vec<u8>,
    _room: SemaphorePermit<'a>,
}

impl std::ops::Deref for Read<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Bodies {
    /// Errors: not JSON by its header, too large, too slow, not whole.
    pub(super) async fn read<B>(&self, headers: &HeaderMap, body: B) -> Result<Read<'_>, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let length = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let may_be_any = is_json(headers);
        if length.is_some_and(|bytes| bytes > 0) && !may_be_any {
            return Err(Refusal::wrong_type());
        }
        if length.is_some_and(|bytes| bytes > MOST_BODY_BYTES) {
            return Err(Refusal::too_large(MOST_BODY_BYTES));
        }
        timeout(LONGEST, self.read_all(body, length, may_be_any)).await.map_err(|_| Refusal::too_slow())?
    }

    /// `length`: if it is known. A body that does not say it is small until it is not. Without `may_be_any` it must have nothing.
    async fn read_all<B>(&self, mut body: B, length: Option<usize>, may_be_any: bool) -> Result<Read<'_>, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let closed = |_: AcquireError| Refusal::busy("no body is read any more");
        let not_whole = || Refusal::invalid("the body is not whole");
        let mut has = length.unwrap_or(SMALL_BYTES);
        let rooms = if has <= SMALL_BYTES { &self.small } else { &self.large };
        let mut room = rooms.acquire_many(kib(has)).await.map_err(closed)?;
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(some) = frame.map_err(|_| not_whole())?.into_data() else { continue };
            if !may_be_any && !some.is_empty() {
                return Err(Refusal::wrong_type());
            }
            if bytes.len() + some.len() > MOST_BODY_BYTES {
                return Err(Refusal::too_large(MOST_BODY_BYTES));
            }
            if bytes.len() + some.len() > has {
                has = MOST_BODY_BYTES;
                // What it has until now is kept meanwhile.
                room = self.large.acquire_many(kib(has)).await.map_err(closed)?;
            }
            bytes.extend_from_slice(&some);
        }
        if length.is_some_and(|length| length != bytes.len()) {
            return Err(not_whole());
        }
        // What a body of unknown length does not need is others', also while its request waits for a job.
        drop(room.split((kib(has) - kib(bytes.len())) as usize));
        Ok(Read { bytes, _room: room })
    }
}

/// As room is counted, rounded up.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Its parameters may be any: JSON is UTF-8.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    kind.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;
    use hyper::header::HeaderValue;

    use super::*;

    /// A body that does not say its length.
    struct Chunks(Vec<usize>);

    impl Body for Chunks {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop().map(|length| Ok(Frame::data(Bytes::from(vec![b' '; length])))))
        }
    }

    fn json() -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
    }

    #[tokio::test]
    async fn a_small_body_of_unknown_length_waits_behind_no_large_ones() {
        let bodies = Bodies::default();
        let large = bodies.large.acquire_many(kib(MOST_KIB * 1024)).await.unwrap();
        let read = bodies.read(&json(), Chunks(vec![10, SMALL_BYTES - 10])).await.unwrap();
        assert_eq!(read.len(), SMALL_BYTES);
        let small = bodies.read(&json(), Chunks(vec![10])).await.unwrap();
        assert_eq!(bodies.small.available_permits(), MOST_KIB_OF_SMALL - 65, "they keep what they need");
        drop((read, small));
        let (headers, most) = (json(), MOST_BODY_BYTES / 2);
        let reading = bodies.read(&headers, Chunks(vec![most, most]));
        let mut reading = std::pin::pin!(reading);
        assert!(timeout(Duration::ZERO, &mut reading).await.is_err(), "a larger one waits");
        drop(large);
        assert_eq!(reading.await.unwrap().len(), MOST_BODY_BYTES);
        assert_eq!(bodies.large.available_permits(), MOST_KIB);
        assert_eq!(bodies.small.available_permits(), MOST_KIB_OF_SMALL);
        let refused = bodies.read(&headers, Chunks(vec![1, most, most])).await.err().unwrap();
        assert!(refused.message().starts_with("the body has more than"));
    }

    #[test]
    fn a_header_says_that_a_body_is_json() {
        let says =
            |kind: &'static str| is_json(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]));
        assert!(says("application/json") && says("Application/JSON; charset=utf-8"));
        assert!(!says("text/plain") && !says("application/json-patch+json") && !is_json(&HeaderMap::new()));
    }
}
