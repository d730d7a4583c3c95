//! Opens a socket to one server: name, TCP, TLS.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::address::Address;
use super::trouble::Trouble;
use super::{tls, wrong_kind};
use crate::process::standard;
use crate::value::error::{Error, ErrorKind};

/// Bytes to and from a server.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    /// Reads what is there, or `WouldBlock`. Asks the system itself: the runtime only knows of what has arrived after
    /// it has run again, and this is for the moments when it does not run.
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes what there is room for, or `WouldBlock`.
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

macro_rules! plain_socket {
    ($socket:ty) => {
        impl ByteStream for $socket {
            fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                (&*socket2::SockRef::from(&*self)).read(buffer)
            }

            fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
                (&*socket2::SockRef::from(&*self)).write(bytes)
            }
        }
    };
}
plain_socket!(TcpStream);
plain_socket!(UnixStream);

/// What the runtime has not noticed yet is not seen here: the bytes must pass through TLS.
impl ByteStream for TlsStream<TcpStream> {
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(self).poll_read(&mut context, &mut buffer) {
            Poll::Ready(result) => result.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(written) = Pin::new(&mut *self).poll_write(&mut context, bytes) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        // Pending here leaves the bytes inside of TLS, to be lost with it; there is no more to be done.
        let _ = Pin::new(self).poll_flush(&mut context);
        written
    }
}

/// A stream that counts its signs of life: bytes that came, and room for more of what there was no room for. A reply or a request
/// that is on its way over a slow line is no silence.
pub(super) struct Observed {
    stream: Box<dyn ByteStream>,
    /// The last write found no room. A write that finds room at once says nothing of the other side.
    was_full: bool,
    signs: Arc<AtomicU64>,
}

impl Observed {
    /// The stream, and the number of its signs of life.
    pub(super) fn new(stream: Box<dyn ByteStream>) -> (Self, Arc<AtomicU64>) {
        let signs = Arc::new(AtomicU64::new(0));
        (Self { stream, was_full: false, signs: Arc::clone(&signs) }, signs)
    }

    /// There is one writer, so that no addition needs to be atomic.
    fn note(&self) {
        self.signs.store(self.signs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl AsyncRead for Observed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let had = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > had {
            self.note();
        }
        read
    }
}

impl AsyncWrite for Observed {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if self.was_full && matches!(written, Poll::Ready(Ok(1..))) {
            self.note();
        }
        self.was_full = written.is_pending();
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// How many bytes may wait in the kernel before a socket takes no more. Otherwise a large push over a slow line would look like
/// silence: all of it taken at once, and no answer for as long as the line needs.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MOST_UNSENT: u32 = 32 * 1024;

/// Bytes may hang this long before the kernel gives the connection up: those that are not acknowledged, and, because it does
/// not tell these apart, those for which a proxy before a slow line has no room.
const USER_TIMEOUT: Duration = Duration::from_secs(15);

/// Opens a socket before `until`, or says why not. Nothing is sent, so every failure is "nothing was executed".
pub(super) async fn open(
    address: &Address,
    tls: Option<&TlsConnector>,
    until: Instant,
) -> Result<Box<dyn ByteStream>, Trouble> {
    let is_connected = AtomicBool::new(false);
    match tokio::time::timeout_at(until, open_whenever(address, tls, until, &is_connected)).await {
        Ok(opened) => opened,
        Err(_) if is_connected.load(Ordering::Relaxed) => Err(says_nothing(address)),
        Err(_) => Err(timed_out(address)),
    }
}

pub(super) fn timed_out(address: &Address) -> Trouble {
    slow(format!("{address} did not accept a connection in time: is the address right, is a firewall between?"))
}

/// Connected, and then silence.
pub(super) fn says_nothing(address: &Address) -> Trouble {
    slow(format!(
        "{address} accepts connections and then says nothing: is it overloaded or frozen, is it a Redis server?"
    ))
}

/// A slow network or server may come round: even a new client tries again.
fn slow(message: String) -> Trouble {
    Trouble { final_when_new: false, ..Trouble::no_connection(Error::new(ErrorKind::Unreachable, message)) }
}

async fn open_whenever(
    address: &Address,
    tls: Option<&TlsConnector>,
    until: Instant,
    is_connected: &AtomicBool,
) -> Result<Box<dyn ByteStream>, Trouble> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut => timed_out(address),
        _ => Trouble::no_connection(explain(address, error)),
    };
    standard::occupy();
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?)),
        Address::Tcp { host, port } => {
            let tcp = connect(host, *port, until).await.map_err(failed)?;
            is_connected.store(true, Ordering::Relaxed);
            match tls {
                None => Ok(Box::new(tcp)),
                Some(tls) => Ok(Box::new(handshake(tls, host, tcp, address, until).await?)),
            }
        }
    }
}

/// A server that answers this late is asked whether it speaks plain text, while the handshake goes on.
const SILENT_HANDSHAKE: Duration = Duration::from_millis(500);

async fn handshake(
    tls: &TlsConnector,
    host: &str,
    tcp: TcpStream,
    address: &Address,
    until: Instant,
) -> Result<TlsStream<TcpStream>, Trouble> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Trouble::refused(Error::invalid(format!("'{host}' is no name that a certificate can have"))))?;
    let mut handshake = std::pin::pin!(tls.connect(name, tcp));
    let plain_text_answers = async {
        tokio::time::sleep(SILENT_HANDSHAKE).await;
        match Box::pin(wrong_kind::instead_of_tls(address, until)).await {
            Some(trouble) => trouble,
            None => std::future::pending().await,
        }
    };
    let error = tokio::select! {
        biased;
        done = &mut handshake => match done {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        },
        trouble = plain_text_answers => return Err(trouble),
    };
    if let Some(trouble) = tls::refusal(address, &error) {
        return Err(trouble);
    }
    match Box::pin(wrong_kind::instead_of_tls(address, until)).await {
        Some(trouble) => Err(trouble),
        None => Err(Trouble::no_connection(
            Error::new(
                ErrorKind::Unreachable,
                format!("{address} does not speak TLS as expected: is it the server's TLS port?"),
            )
            .caused_by(error),
        )),
    }
}

/// Tries the host's addresses in turn, each with its share of the time: one dead address must not eat all of it.
async fn connect(host: &str, port: u16, until: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<_> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))?
        .collect();
    // The program may have closed one while the name was looked up.
    standard::occupy();
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for (tried, address) in (0..).zip(addresses) {
        let share = until.saturating_duration_since(Instant::now()) / (count - tried);
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                set_options(&stream)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last_error = error,
            Err(_) => last_error = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last_error)
}

/// Without these a peer that vanished (pulled cable, dropped NAT entry) is waited for a quarter of an hour.
fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let keepalive =
        socket2::TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(3));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
        socket.set_tcp_notsent_lowat(MOST_UNSENT)?;
    }
    Ok(())
}

fn explain(address: &Address, error: io::Error) -> Error {
    let message = match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "connection to {address} refused: is the server running there? set DULY_URL, or use `embedded:` to try \
             duly without one"
        ),
        io::ErrorKind::NotFound => match address {
            Address::Tcp { host, .. } => {
                format!("the host name '{host}' was not found: check the URL, or set DULY_URL")
            }
            Address::Unix(path) => format!(
                "there is no unix socket {}: is the server running? set DULY_URL, or use `embedded:`",
                path.display()
            ),
        },
        io::ErrorKind::PermissionDenied => format!("this user may not open {address}"),
        _ => format!("no connection to {address}"),
    };
    Error::new(ErrorKind::Unreachable, message).caused_by(error)
}
