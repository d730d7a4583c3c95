//! A server that is not what the URL says: with or without TLS, or no Redis at all.
//!
//! Redis waits for more when it is greeted by TLS, and OpenSSL hangs up without a word when it is greeted in plain text:
//! both look like an outage, and would be waited for. So a connection that fails in one of these ways is followed by one
//! look, on a connection of its own, at what is spoken there. Nothing secret is sent with it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::address::Address;
use super::trouble::Trouble;
use super::{stream, tls};
use crate::value::error::{Error, ErrorKind};

/// How long a look may take: whoever answers at all answers such a greeting at once.
const LOOK: Duration = Duration::from_secs(1);

const PING: &[u8] = b"PING\r\n";

/// TLS was begun at `address` and nothing, or nonsense, came back. None: nothing speaks plain text there either.
pub(super) async fn instead_of_tls(address: &Address, until: Instant) -> Option<Trouble> {
    let answer = answer_to(PING, address, None, until).await.ok()?;
    if is_redis(&answer) {
        return Some(another_kind(format!(
            "{address} does not speak TLS: use a URL without it, redis:// instead of rediss:// (redis+sentinel://, \
             redis+cluster://), or name the server's TLS port"
        )));
    }
    (!answer.is_empty() && !is_tls(&answer)).then(|| not_redis(address))
}

/// A new connection, over TLS or not, ended before it was answered. None: it may be an ordinary outage.
pub(super) async fn instead_of_a_welcome(
    address: &Address,
    tls: Option<&TlsConnector>,
    until: Instant,
) -> Option<Trouble> {
    let hello = match address {
        Address::Tcp { host, .. } if tls.is_none() => tls::hello(host),
        _ => None,
    };
    match answer_to(hello.as_deref().unwrap_or(PING), address, tls, until).await {
        // A server that does not like our certificate says so only now; the `redis` crate swallows it.
        Err(error) => tls::refusal(address, &error),
        Ok(answer) if hello.is_some() && is_tls(&answer) => Some(another_kind(format!(
            "{address} seems to speak TLS: use a URL with it, rediss:// instead of redis:// (rediss+sentinel://, \
             rediss+cluster://), or name the server's plain port"
        ))),
        Ok(answer) => (!answer.is_empty() && !is_redis(&answer)).then(|| not_redis(address)),
    }
}

fn another_kind(message: String) -> Trouble {
    Trouble::refused(Error::new(ErrorKind::WrongServer, message))
}

/// What answered is no Redis. A box between may answer for a server that is down, so a client that had worked tries again.
pub(super) fn not_redis(address: &Address) -> Trouble {
    Trouble::no_connection(Error::new(
        ErrorKind::Protocol,
        format!("what answers at {address} is not Redis: check host and port in the URL"),
    ))
}

/// `+PONG`, or an error in capitals: `-NOAUTH`, `-ERR`, `-DENIED`, `-LOADING` ...
fn is_redis(answer: &[u8]) -> bool {
    answer.starts_with(b"+PONG") || matches!(answer, [b'-', b'A'..=b'Z', b'A'..=b'Z', ..])
}

/// The beginning of a record: a handshake or an alert, of version 3.x.
fn is_tls(answer: &[u8]) -> bool {
    matches!(answer, [0x15 | 0x16, 3, ..])
}

/// The first bytes that come back; none when it hangs up.
async fn answer_to(
    greeting: &[u8],
    address: &Address,
    tls: Option<&TlsConnector>,
    until: Instant,
) -> io::Result<Vec<u8>> {
    let until = until.min(Instant::now() + LOOK);
    let look = async {
        let mut stream = stream::open(address, tls, until).await.map_err(|trouble| io::Error::other(*trouble.error))?;
        stream.write_all(greeting).await?;
        stream.flush().await?;
        let mut answer = vec![0; 64];
        let count = stream.read(&mut answer).await?;
        answer.truncate(count);
        Ok(answer)
    };
    tokio::time::timeout_at(until, look).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
