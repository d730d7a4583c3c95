//! What pages of jobs take of the memory, until whoever has asked for them has taken them.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::reply::Refusal;

/// Of all pages together that are made or not sent yet.
const MOST_KIB: usize = 128 * 1024;
/// Of one page while it is made: the records that it reads, and some more as JSON.
const KIB_OF_PAGE: u32 = 16 * 1024;
/// How long a page waits for others to be taken.
const LONGEST: Duration = Duration::from_secs(5);

/// What all pages together may have.
pub(super) struct Rooms(Arc<Semaphore>);

impl Default for Rooms {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_KIB)))
    }
}

/// What one of them has.
pub(super) struct Room(OwnedSemaphorePermit);

/// A text with its room.
struct Kept {
    text: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Rooms {
    /// For a page that is to be made.
    ///
    /// Errors: too many others are there that nobody takes.
    pub(super) async fn of_page(&self) -> Result<Room, Refusal> {
        match timeout(LONGEST, Arc::clone(&self.0).acquire_many_owned(KIB_OF_PAGE)).await {
            Ok(Ok(room)) => Ok(Room(room)),
            _ => Err(Refusal::busy(
                "as many pages as may wait to be taken: ask again, and take what was asked for before",
            )),
        }
    }
}

impl Room {
    /// The text, which has of this room what it needs for as long as it is there.
    pub(super) fn kept_by(mut self, text: Bytes) -> Bytes {
        drop(self.0.split(self.0.num_permits().saturating_sub(text.len().div_ceil(1024))));
        Bytes::from_owner(Kept { text, _room: self })
    }
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::super::reply::Reply;
    use super::*;

    #[tokio::test]
    async fn an_answer_has_room_until_it_is_gone() {
        let rooms = Rooms::default();
        let room = rooms.of_page().await.unwrap();
        let left = || MOST_KIB - rooms.0.available_permits();
        assert_eq!(left(), 16 * 1024);
        let answer = Reply::json(StatusCode::OK, vec![b'x'; 3000]).holding(room).into_response();
        assert_eq!(left(), 3);
        drop(answer);
        assert_eq!(left(), 0);
    }
}
