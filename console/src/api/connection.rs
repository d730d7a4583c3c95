//! Connections that are kept for further requests, and those that are too slow.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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

/// How often a connection whose request is being answered is asked whether its other end is there.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// What a socket is asked for. An error, and that both sides are closed, it reports in any case.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOSED: libc::c_short = libc::POLLRDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOSED: libc::c_short = 0;

/// The connections that there are.
#[derive(Default)]
pub(crate) struct Paces {
    all: Mutex<Vec<Weak<Pace>>>,
    rested: Arc<Notify>,
}

impl Paces {
    /// Of a new connection, which has no time to rest.
    pub(crate) fn of(&self, stream: &TcpStream) -> Arc<Pace> {
        self.add(stream.as_raw_fd())
    }

    fn add(&self, socket: RawFd) -> Arc<Pace> {
        let now = Mutex::new((Phase::Head, Instant::now() + LONGEST_HEAD));
        let pace = Arc::new(Pace { now, is_sooner: Notify::new(), rested: Arc::clone(&self.rested), socket });
        let mut all = locked(&self.all);
        all.retain(|pace| pace.strong_count() > 0);
        all.push(Arc::downgrade(&pace));
        pace
    }

    /// The connection that has rested for longest.
    fn resting(&self) -> Option<Arc<Pace>> {
        let all = locked(&self.all);
        let resting = all.iter().filter_map(Weak::upgrade).filter_map(|pace| Some((pace.rests_until()?, pace)));
        resting.min_by_key(|(until, _)| *until).map(|(_, pace)| pace)
    }

    /// Could another connection have its slot?
    pub(crate) fn has_resting(&self) -> bool {
        self.resting().is_some()
    }

    /// Ends the connection that has rested for longest.
    pub(crate) fn make_room(&self) {
        if let Some(pace) = self.resting() {
            pace.end_rest();
        }
    }

    /// One begins to rest, or has since this was last asked.
    pub(crate) async fn one_rests(&self) {
        self.rested.notified().await;
    }
}

/// Nothing that is done under the lock can panic half way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until when a connection may be as it is.
pub(crate) struct Pace {
    now: Mutex<(Phase, Instant)>,
    is_sooner: Notify,
    rested: Arc<Notify>,
    socket: RawFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The next byte begins a request, and nothing is left to be sent.
    Rest,
    /// The next byte begins a request, and the last answer is not sent to its end.
    Sending,
    Head,
    Answer,
}

impl Pace {
    fn set(&self, phase: Phase, longest: Duration) {
        let until = Instant::now() + longest;
        let mut now = locked(&self.now);
        if until < now.1 {
            self.is_sooner.notify_one();
        }
        *now = (phase, until);
    }

    /// The first byte of a request.
    fn byte(&self) {
        let phase = locked(&self.now).0;
        if matches!(phase, Phase::Rest | Phase::Sending) {
            self.set(Phase::Head, LONGEST_HEAD);
        }
    }

    /// All that was to be sent is.
    fn flushed(&self) {
        let mut now = locked(&self.now);
        if now.0 == Phase::Sending {
            now.0 = Phase::Rest;
            self.rested.notify_one();
        }
    }

    fn rests_until(&self) -> Option<Instant> {
        let (phase, until) = *locked(&self.now);
        (phase == Phase::Rest).then_some(until)
    }

    /// Another connection needs its slot.
    fn end_rest(&self) {
        let mut now = locked(&self.now);
        if now.0 == Phase::Rest {
            // It is nothing to others from now on.
            *now = (Phase::Head, Instant::now());
            self.is_sooner.notify_one();
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
        self.set(Phase::Sending, LONGEST_REST);
    }

    /// The other end has closed the connection. To be asked only while its socket is there.
    ///
    /// Hyper notices that, too, but not behind a byte of the next request.
    pub(crate) async fn is_gone(&self) {
        loop {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            if is_closed(self.socket) {
                return;
            }
        }
    }

    async fn is_over(&self) {
        loop {
            let until = locked(&self.now).1;
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

fn is_closed(socket: RawFd) -> bool {
    let mut asked = libc::pollfd { fd: socket, events: CLOSED, revents: 0 };
    // SAFETY: `asked` is one entry, the count that is passed, and outlives the call. That waits for nothing, and reports a number that is no socket.
    let found = unsafe { libc::poll(&raw mut asked, 1, 0) };
    found > 0 && asked.revents & (CLOSED | libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
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
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.pace.flushed();
        }
        flushed
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
        pace.now.lock().unwrap().1.saturating_duration_since(Instant::now())
    }

    /// Of no socket.
    fn pace(paces: &Paces) -> Arc<Pace> {
        paces.add(-1)
    }

    #[test]
    fn a_connection_rests_longer_than_a_head_may_take() {
        let pace = pace(&Paces::default());
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
        pace.rests();
        pace.flushed();
        assert!(left(&pace) > LONGEST_HEAD * 2, "its answer is taken, and it rests");
        pace.byte();
        assert!(left(&pace) <= LONGEST_HEAD);
    }

    #[tokio::test]
    async fn the_connection_that_has_rested_for_longest_makes_room() {
        let paces = Paces::default();
        let all: Vec<_> = (0..4).map(|_| pace(&paces)).collect();
        assert!(!paces.has_resting(), "new ones do not rest");
        // The first one has an answer that is not taken yet, and the last one is being answered.
        all[0].rests();
        for pace in &all[1..3] {
            pace.rests();
            pace.flushed();
        }
        all[3].answers();
        tokio::time::timeout(LONGEST_HEAD, paces.one_rests()).await.unwrap();
        for longest in &all[1..3] {
            paces.make_room();
            tokio::time::timeout(LONGEST_HEAD, longest.is_over()).await.unwrap();
        }
        assert!(!paces.has_resting());
        paces.make_room();
        assert!(left(&all[0]) > LONGEST_HEAD && left(&all[3]) > LONGEST_HEAD);
        drop(all);
        let _new = pace(&paces);
        assert_eq!(paces.all.lock().unwrap().len(), 1, "those that are gone are not kept");
    }

    #[tokio::test]
    async fn the_other_end_that_goes_is_seen_behind_a_byte() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (own, _) = listener.accept().await.unwrap();
        let pace = Paces::default().of(&own);
        other.writable().await.unwrap();
        assert_eq!(other.try_write(b"x").unwrap(), 1);
        own.readable().await.unwrap();
        assert!(!is_closed(own.as_raw_fd()), "it is there");
        drop(other);
        tokio::time::timeout(LONGEST_HEAD, pace.is_gone()).await.unwrap();
    }

    #[tokio::test]
    async fn an_end_that_comes_sooner_is_heard_of() {
        let pace = pace(&Paces::default());
        pace.answers();
        let sooner = async {
            tokio::task::yield_now().await;
            pace.answers_within(Duration::ZERO);
        };
        let both = async { tokio::join!(pace.is_over(), sooner) };
        tokio::time::timeout(LONGEST_HEAD, both).await.unwrap();
    }
}
