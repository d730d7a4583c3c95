//! A connection that only waits for wake-ups.
//!
//! It is a bare socket, read by whoever waits on it, and not one of the crate's multiplexed connections: those are
//! driven by a task, so a wake-up would cross one more thread, and dropping one does not close the socket before that
//! task runs again, which in a program that runs its runtime only during calls may be never.

use std::io;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::address::Address;
use super::classify;
use super::link::{Dialer, Purpose};
use super::stream::{self, ByteStream};
use super::trouble::Trouble;
use super::wake::{Sign, WaitedBy, no_line};
use crate::value::error::{Error, ErrorKind};

/// How long a wait that was called back may take to say so before the line is not worth keeping.
const SETTLE: Duration = Duration::from_secs(1);

/// A reply to BLPOP is the key and a token; more than this is not one.
const LONGEST_REPLY: usize = 64 * 1024;

/// The element that the scripts put into the list when a schedule fires sooner than any before it.
const OF_SCHEDULE: &[u8] = b"schedules";

/// What is waited for, and what becomes of the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited<'a> {
    /// The first element in any of these lists. It is taken: one waiter gets it.
    Take(&'a [&'a [u8]]),
    /// It stays: all waiters see it, and the list keeps its lifetime.
    See(&'a [u8]),
    /// An entry in any of these streams, behind the one with the number at the same index. It stays, too.
    News { streams: &'a [&'a [u8]], after: &'a [u64] },
}

impl Waited<'_> {
    /// The server is not to wait for longer than that.
    fn command(self, seconds: u64) -> Cmd {
        match self {
            Self::Take(keys) => redis::Cmd::new().arg("BLPOP").arg(keys).arg(seconds).clone(),
            // The list is never empty in between, as it would be if the element were taken and given back.
            Self::See(key) => redis::Cmd::new().arg("BRPOPLPUSH").arg(key).arg(key).arg(seconds).clone(),
            Self::News { streams, after } => {
                let mut command = redis::cmd("XREAD");
                command.arg("COUNT").arg(1).arg("BLOCK").arg(seconds.saturating_mul(1000)).arg("STREAMS").arg(streams);
                for number in after {
                    command.arg(format!("{number}-0"));
                }
                command
            }
        }
    }

    pub(super) fn by(self) -> WaitedBy {
        match self {
            Self::Take(_) => WaitedBy::Taking,
            Self::See(_) => WaitedBy::Seeing,
            Self::News { .. } => WaitedBy::Reading,
        }
    }

    fn owed(self) -> Owed {
        match self {
            Self::Take(keys) => Owed::Taken(keys.iter().map(|key| key.to_vec()).collect()),
            Self::See(key) => Owed::Seen(key.to_vec()),
            Self::News { streams, after } => {
                Owed::News(streams.iter().map(|stream| stream.to_vec()).collect(), after.to_vec())
            }
        }
    }

    /// What this element says, if its list is one of those that are waited for.
    fn sign_of(self, element: &Element<'_>) -> Option<Sign> {
        let index = match (self, element.list) {
            (Self::Take(keys), Some(list)) => keys.iter().position(|key| *key == list),
            (Self::See(_) | Self::News { .. }, None) => Some(0),
            _ => None,
        };
        index.map(|index| Sign { index, is_of_schedule: element.token == OF_SCHEDULE })
    }
}

/// An element that came.
struct Element<'a> {
    /// The list from which it was taken; none for one that is still there.
    list: Option<&'a [u8]>,
    token: &'a [u8],
}

impl<'a> Element<'a> {
    fn of(reply: &'a Value) -> Option<Self> {
        match reply {
            Value::BulkString(token) => Some(Self { list: None, token }),
            Value::Array(parts) => match parts.as_slice() {
                [Value::BulkString(list), Value::BulkString(token)] => Some(Self { list: Some(list), token }),
                // Streams, each with its entries.
                [Value::Array(_), ..] => Some(Self { list: None, token: b"" }),
                _ => None,
            },
            _ => None,
        }
    }

    /// The commands that put it back at the front, for the next waiter, and how many they are; none for one that was not taken. An
    /// element that says how long it lives (`3000ms`) was the only one of a list with a lifetime.
    fn give_back(&self) -> Option<(Vec<u8>, usize)> {
        let list = self.list?;
        let mut bytes = redis::cmd("LPUSH").arg(list).arg(self.token).get_packed_command();
        let Some(life_ms) = self.token.strip_suffix(b"ms") else { return Some((bytes, 1)) };
        redis::cmd("PEXPIRE").arg(list).arg(life_ms).write_packed_command(&mut bytes);
        Some((bytes, 2))
    }
}

/// A wait whose reply has not been read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owed {
    Taken(Vec<Vec<u8>>),
    Seen(Vec<u8>),
    News(Vec<Vec<u8>>, Vec<u64>),
}

/// A connection that only waits for wake-ups.
pub(super) struct WakeLine {
    address: Address,
    stream: Box<dyn ByteStream>,
    unread: Vec<u8>,
    owed: Option<Owed>,
    /// For CLIENT UNBLOCK; none when the user may not use that, then an ended wait costs the connection.
    pub(super) client_id: Option<i64>,
}

impl WakeLine {
    pub(super) async fn dial(dialer: &Dialer, address: &Address, deadline: Instant) -> Result<Self, Trouble> {
        let until = dialer.ready_before(deadline);
        let stream = stream::open(address, dialer.tls().as_ref(), until).await?;
        let mut line = Self { address: address.clone(), stream, unread: Vec::new(), owed: None, client_id: None };
        match tokio::time::timeout_at(until, line.introduce(dialer)).await {
            Ok(Ok(())) => Ok(line),
            Ok(Err(trouble)) => Err(Trouble { may_have_run: false, ..trouble.of_a_new_connection() }),
            Err(_) => Err(stream::timed_out(address)),
        }
    }

    async fn introduce(&mut self, dialer: &Dialer) -> Result<(), Trouble> {
        let (needed, mut welcome) = dialer.introduction(Purpose::Verbs);
        let needed_count = needed.len();
        let mut id = redis::cmd("CLIENT");
        id.arg("ID");
        // Nobody has the id 0: this only asks whether we may.
        let mut may_unblock = redis::cmd("CLIENT");
        may_unblock.arg("UNBLOCK").arg(0);
        welcome.push(id);
        welcome.push(may_unblock);
        let mut bytes = Vec::new();
        for cmd in needed.iter().chain(&welcome) {
            cmd.write_packed_command(&mut bytes);
        }
        self.write(&bytes).await?;
        let mut replies = Vec::new();
        for at in 0..needed_count + welcome.len() {
            let reply = self.read_line_reply().await?;
            match &reply {
                Value::ServerError(said) if at < needed_count || said.code() == "NOAUTH" => {
                    return Err(classify::server_error(said, &self.address));
                }
                _ => replies.push(reply),
            }
        }
        if let [.., Value::Int(id), Value::Int(_)] = replies.as_slice() {
            self.client_id = Some(*id);
        }
        Ok(())
    }

    /// Does the reply to the same wait still have to be read?
    pub(super) fn owes(&self, waited: Waited<'_>) -> bool {
        match (&self.owed, waited) {
            (Some(Owed::Taken(owed)), Waited::Take(keys)) => owed.iter().map(Vec::as_slice).eq(keys.iter().copied()),
            (Some(Owed::Seen(owed)), Waited::See(key)) => owed == key,
            (Some(Owed::News(owed, numbers)), Waited::News { streams, after }) => {
                numbers == after && owed.iter().map(Vec::as_slice).eq(streams.iter().copied())
            }
            _ => false,
        }
    }

    /// Reads what an earlier wait still owes. Gives the line, if it is still good, and what it says if it is
    /// among what is waited for now.
    pub(super) async fn settle(mut self, waited: Waited<'_>, until: Instant) -> Option<(Self, Option<Sign>)> {
        let until = until.min(Instant::now() + SETTLE);
        if self.owed.is_none() {
            // An idle line has nothing to read, unless it was closed.
            return self.read_what_is_there().is_ok_and(|()| self.unread.is_empty()).then_some((self, None));
        }
        let is_same = self.owes(waited);
        let value = tokio::time::timeout_at(until, self.read_reply()).await.ok()?.ok()?;
        self.owed = None;
        let Some(element) = Element::of(&value) else {
            return matches!(value, Value::Nil).then_some((self, None));
        };
        // What was taken is in the reply; what was only seen is ours if it was the same list.
        let sign = waited.sign_of(&element).filter(|_| is_same || element.list.is_some());
        if sign.is_none()
            && let Some((bytes, replies)) = element.give_back()
        {
            self.write(&bytes).await.ok()?;
            for _ in 0..replies {
                tokio::time::timeout_at(until, self.read_line_reply()).await.ok()?.ok()?;
            }
        }
        Some((self, sign))
    }

    /// Waits for the element; none when the server ended the wait. A future dropped half-way leaves a line
    /// that still [owes](WakeLine::owes) the reply: what was read stays with it.
    pub(super) async fn wait(&mut self, waited: Waited<'_>, until: Instant) -> Result<Option<Sign>, Trouble> {
        // Whole seconds, for servers before 6.0. This timeout only clears up after a client that vanished.
        let seconds = until.saturating_duration_since(Instant::now()).as_secs() + 1;
        let bytes = waited.command(seconds).get_packed_command();
        self.owed = Some(waited.owed());
        self.write(&bytes).await?;
        let value = self.read_reply().await?;
        self.owed = None;
        match &value {
            Value::ServerError(said) => Err(classify::server_error(said, &self.address)),
            Value::Nil => Ok(None),
            value => match Element::of(value).and_then(|element| waited.sign_of(&element)) {
                Some(sign) => Ok(Some(sign)),
                None => Err(Trouble::no_answer(Error::new(
                    ErrorKind::Protocol,
                    format!("{} answered a wait with something that is not a valid reply", self.address),
                ))),
            },
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let written = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        written.await.map_err(|error| self.lost(error))
    }

    async fn read_reply(&mut self) -> Result<Value, Trouble> {
        loop {
            // The replies are a hundred bytes: to parse from the start each time costs nothing, and keeps no state
            // that a dropped future could lose.
            if !self.unread.is_empty()
                && let Ok(value) = redis::parse_redis_value(&self.unread)
            {
                self.unread.clear();
                return Ok(value);
            }
            self.read_more().await?;
        }
    }

    /// One reply of a single line; what follows it stays unread.
    async fn read_line_reply(&mut self) -> Result<Value, Trouble> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..end + 2).collect();
                return redis::parse_redis_value(&line)
                    .map_err(|error| no_line(format!("{} answered: {error}", self.address)));
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Result<(), Trouble> {
        match self.stream.read_buf(&mut self.unread).await {
            Ok(0) => Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) if self.unread.len() > LONGEST_REPLY => Err(self.lost(io::ErrorKind::InvalidData.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, error: io::Error) -> Trouble {
        Trouble::no_answer(
            Error::new(ErrorKind::Timeout, format!("the connection to {} was lost while waiting", self.address))
                .caused_by(error),
        )
    }

    /// Reads without waiting; an error when the connection has been closed.
    fn read_what_is_there(&mut self) -> io::Result<()> {
        let mut bytes = [0; 512];
        loop {
            match self.stream.read_now(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.unread.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A wait that is dropped closes its connection, here and now. If the element had already come it is put back at the
/// front for the next waiter, wherever that one is.
impl Drop for WakeLine {
    fn drop(&mut self) {
        let Some(Owed::Taken(_)) = self.owed.take() else { return };
        if self.read_what_is_there().is_err() {
            return;
        }
        let Ok(value) = redis::parse_redis_value(&self.unread) else { return };
        if let Some((bytes, _)) = Element::of(&value).and_then(|element| element.give_back()) {
            // Best effort: a socket that has been idle has room for a hundred bytes.
            let _ = self.stream.write_now(&bytes);
        }
    }
}
