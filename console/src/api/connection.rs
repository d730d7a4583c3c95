//! Connections that are kept for further requests, and those that are too slow.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1::Connection;
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Api;

/// For how long a connection is kept without a request, its last answer taken or not.
pub(crate) const LONGEST_REST: Duration = Duration::from_secs(75);
/// How long the head of a request may take.
const LONGEST_HEAD: Duration = Duration::from_secs(5);
/// How long one answer of the API may take: its body, its wait, and the calls to the server.
const LONGEST_ANSWER: Duration = Duration::from_secs(90);

/// Until when a connection may be as it is.
pub(crate) struct Pace {
    now: Mutex<(Phase, Instant)>,
    is_sooner: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The next byte begins a request.
    Rest,
    Head,
    Answer,
}

impl Pace {
    /// A new connection has no time to rest.
    pub(crate) fn new() -> Arc<Self> {
        let now = Mutex::new((Phase::Head, Instant::now() + LONGEST_HEAD));
        Arc::new(Self { now, is_sooner: Notify::new() })
    }

    fn set(&self, phase: Phase, longest: Duration) {
        let until = Instant::now() + longest;
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if until < now.1 {
            self.is_sooner.notify_one();
        }
        *now = (phase, until);
    }

    /// The first byte of a request.
    fn byte(&self) {
        let phase = self.now.lock().unwrap_or_else(PoisonError::into_inner).0;
        if phase == Phase::Rest {
            self.set(Phase::Head, LONGEST_HEAD);
        }
    }

    /// A request of the API is being answered.
    pub(crate) fn answers(&self) {
        self.set(Phase::Answer, LONGEST_ANSWER);
    }

    /// A page is, and the connection ends with it.
    pub(crate) fn answers_within(&self, longest: Duration) {
        self.set(Phase::Answer, longest);
    }

    /// It was answered.
    pub(crate) fn rests(&self) {
        self.set(Phase::Rest, LONGEST_REST);
    }

    async fn is_over(&self) {
        loop {
            let until = self.now.lock().unwrap_or_else(PoisonError::into_inner).1;
            if until <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = self.is_sooner.notified() => {}
            }
        }
    }
}

/// Serves a connection until its end, until it is too slow, or until the command ends: what is being answered then is answered.
pub(crate) async fn keep<S>(serving: Connection<TokioIo<Paced>, S>, pace: &Pace, api: &Api)
where
    S: HttpService<Incoming, ResBody = Full<Bytes>>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // First: what is answered because of that says that the connection ends.
        biased;
        () = api.ended() => {}
        _ = &mut serving => return,
        () = pace.is_over() => return,
    }
    serving.as_mut().graceful_shutdown();
    tokio::select! {
        _ = serving => {}
        () = pace.is_over() => {}
    }
}

/// A socket that tells when a request begins.
pub(crate) struct Paced {
    stream: TcpStream,
    pace: Arc<Pace>,
}

impl Paced {
    pub(crate) fn new(stream: TcpStream, pace: Arc<Pace>) -> Self {
        Self { stream, pace }
    }
}

impl AsyncRead for Paced {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if into.filled().len() > before {
            self.pace.byte();
        }
        read
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(pace: &Pace) -> Duration {
        pace.now.lock().unwrap().1 - Instant::now()
    }

    #[test]
    fn a_connection_rests_longer_than_a_head_may_take() {
        let pace = Pace::new();
        assert!(left(&pace) <= LONGEST_HEAD, "a new one must send a request");
        pace.answers();
        pace.byte();
        assert!(left(&pace) > LONGEST_REST, "those of a body are counted by who reads it");
        pace.rests();
        assert!(left(&pace) > LONGEST_HEAD * 2);
        pace.byte();
        let first = pace.now.lock().unwrap().1;
        pace.byte();
        assert_eq!(pace.now.lock().unwrap().1, first, "the first byte counts, and no other");
        assert!(left(&pace) <= LONGEST_HEAD);
    }

    #[tokio::test]
    async fn an_end_that_comes_sooner_is_heard_of() {
        let pace = Pace::new();
        pace.answers();
        let sooner = async {
            tokio::task::yield_now().await;
            pace.answers_within(Duration::ZERO);
        };
        let both = async { tokio::join!(pace.is_over(), sooner) };
        tokio::time::timeout(LONGEST_HEAD, both).await.unwrap();
    }
}
