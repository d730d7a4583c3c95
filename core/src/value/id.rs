//! Job ids: sixteen letters and digits whose order is the order of time.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::time::Millis;

/// Digits in ASCII order, so that sorting the text sorts the time; letters and digits only, so that an id needs no
/// escaping in a URL, a file name, a shell or a log (a `-` in front would look like an option).
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_CHARS: usize = 16;
const TIME_CHARS: usize = 7;
/// 62^7: milliseconds after the epoch, enough until the year 2131.
const TIMES: u64 = 62_u64.pow(7);
/// 62^9: about 2^53.6 numbers within one millisecond.
const TAILS: u64 = 62_u64.pow(9);
/// 2020-01-01T00:00:00Z in unix milliseconds.
const EPOCH_MS: u64 = 1_577_836_800_000;

/// The id of a job: made by duly (16 characters, ordered by time), or brought by the user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Box<str>);

impl JobId {
    /// An id of the user's own: 1 to 128 bytes of UTF-8 without control characters, else
    /// [`ErrorKind::InvalidArgument`].
    pub fn new(id: impl Into<String>) -> Result<Self, Error> {
        let id = id.into();
        name::check_id(&id)?;
        Ok(Self(id.into_boxed_str()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The unix time in an id that duly made (or that looks like one).
    pub fn made_at(&self) -> Option<Millis> {
        made_at(&self.0)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for JobId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0.into_string()
    }
}

/// The unix time that the text holds if it has the form of a made id: 16 characters of the alphabet.
pub(crate) fn made_at(id: &str) -> Option<Millis> {
    let bytes = id.as_bytes();
    if bytes.len() != ID_CHARS || !bytes.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let ms = bytes[..TIME_CHARS].iter().fold(0, |ms, &byte| ms * 62 + digit_value(byte));
    Some(Millis::new(EPOCH_MS + ms))
}

fn digit_value(byte: u8) -> u64 {
    u64::from(match byte {
        b'0'..=b'9' => byte - b'0',
        b'A'..=b'Z' => byte - b'A' + 10,
        _ => byte - b'a' + 36,
    })
}

/// Makes job ids: strictly rising within one generator, and not met twice across threads, processes, forks and hosts.
///
/// An id is 7 base-62 digits of milliseconds since 2020 and 9 base-62 digits (2^53.6) of tail. The first id in a
/// millisecond draws its tail from the operating system; the next ones in that millisecond count up from there.
///
/// How likely is a collision? Ids of one generator never collide. Two generators that make `a` and `b` ids in the same
/// millisecond collide with a chance of about (a+b) / 1.35e16. Ten thousand jobs a second without pause, each from
/// another process: 45 pairs a millisecond, 2 / 1.35e16 each, 3.2e10 milliseconds a year: 2.1e-4, one collision in
/// 5,000 years. 200,000 jobs a second from 20 processes: 190 pairs, 20 / 1.35e16 each: one in 110 years. And a
/// collision matters only if both jobs live in one queue, where the push finds it.
///
/// A fresh draw in every millisecond, instead of a number per process, also heals copies that nothing announces
/// (snapshots of virtual machines). A fork is seen by the changed process id.
///
/// ```
/// use duly::{IdGenerator, Millis};
///
/// let ids = IdGenerator::new();
/// let now = Millis::new(1_790_000_000_000);
/// let (first, second) = (ids.next(now)?, ids.next(now)?);
/// assert!(first < second);
/// assert_eq!(first.as_str().len(), 16);
/// assert_eq!(first.made_at(), Some(now));
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Debug)]
pub struct IdGenerator {
    last: Mutex<Last>,
    /// The process that may wait for the lock.
    pid: AtomicU32,
    /// The lock was held by a thread that does not exist in this forked process: it will never be free.
    orphaned: AtomicBool,
}

/// The last id made, as numbers; and by which process.
#[derive(Debug, Clone, Copy)]
struct Last {
    pid: u32,
    time: u64,
    tail: u64,
}

impl Default for IdGenerator {
    fn default() -> Self {
        Self::new()
    }
}

impl IdGenerator {
    /// A generator for this process and the processes that fork from it.
    pub fn new() -> Self {
        let pid = std::process::id();
        Self {
            last: Mutex::new(Last { pid, time: 0, tail: TAILS }),
            pid: AtomicU32::new(pid),
            orphaned: AtomicBool::new(false),
        }
    }

    /// The next id. `now` is the unix time by the **server's** clock, as well as the caller knows it; if it is not
    /// later than at the last call, the ids still rise.
    ///
    /// [`ErrorKind::Internal`] if the operating system has no random numbers.
    pub fn next(&self, now: Millis) -> Result<JobId, Error> {
        self.next_as(std::process::id(), now)
    }

    fn next_as(&self, pid: u32, now: Millis) -> Result<JobId, Error> {
        let time = now.get().saturating_sub(EPOCH_MS).min(TIMES - 1);
        let Some(mut last) = self.lock(pid) else {
            return Ok(written(time, random_tail()?));
        };
        if time > last.time || last.pid != pid || last.tail >= TAILS - 1 {
            // When the tails of a millisecond are used up, or the clock stands still, the next millisecond is borrowed.
            let borrowed = if last.pid == pid && last.tail == TAILS - 1 { last.time + 1 } else { last.time };
            *last = Last { pid, time: time.max(borrowed).min(TIMES - 1), tail: random_tail()? };
        } else {
            last.tail += 1;
        }
        Ok(written(last.time, last.tail))
    }

    /// The state, or None in a process that was forked while another thread of its parent held the lock.
    fn lock(&self, pid: u32) -> Option<MutexGuard<'_, Last>> {
        if self.orphaned.load(Ordering::Relaxed) {
            return None;
        }
        if self.pid.load(Ordering::Relaxed) == pid {
            return Some(self.last.lock().unwrap_or_else(PoisonError::into_inner));
        }
        // Just forked. The lock is held for well under a microsecond, so a lock that stays taken has no owner here.
        for _ in 0..1000 {
            match self.last.try_lock() {
                Ok(guard) => {
                    self.pid.store(pid, Ordering::Relaxed);
                    return Some(guard);
                }
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        self.orphaned.store(true, Ordering::Relaxed);
        None
    }
}

fn random_tail() -> Result<u64, Error> {
    let number = getrandom::u64().map_err(|error| {
        Error::new(ErrorKind::Internal, "the operating system gave no random numbers for a job id").caused_by(error)
    })?;
    // 2^64 is 1363 times 62^9, so the remainder favours no tail by more than 0.08 %.
    Ok(number % TAILS)
}

fn written(time: u64, tail: u64) -> JobId {
    let mut chars = [b'0'; ID_CHARS];
    write_digits(&mut chars[..TIME_CHARS], time);
    write_digits(&mut chars[TIME_CHARS..], tail);
    JobId(chars.iter().map(|&byte| char::from(byte)).collect::<String>().into_boxed_str())
}

fn write_digits(chars: &mut [u8], mut number: u64) {
    for char in chars.iter_mut().rev() {
        *char = ALPHABET[(number % 62) as usize];
        number /= 62;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;

    const NOW: Millis = Millis::new(1_790_000_000_000);

    #[test]
    fn order_of_text_is_order_of_time() {
        let ids = IdGenerator::new();
        let mut before = ids.next(NOW).unwrap();
        for step in 0..20_000_u64 {
            // Three ids in each millisecond, and now and then the clock steps back.
            let now = NOW.get() + step / 3 - if step % 1000 == 999 { 500 } else { 0 };
            let id = ids.next(Millis::new(now)).unwrap();
            assert!(id > before, "{id} after {before}");
            assert!(id.made_at().unwrap().get() >= now);
            before = id;
        }
        assert!(written(5, TAILS - 1) < written(6, 0));
        assert_eq!(written(TIMES - 1, TAILS - 1).as_str(), "zzzzzzzzzzzzzzzz");
        assert_eq!(written(0, 0).made_at(), Some(Millis::new(EPOCH_MS)));
    }

    #[test]
    fn a_million_ids_from_eight_threads_are_all_different() {
        let ids = Arc::new(IdGenerator::new());
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let ids = Arc::clone(&ids);
                std::thread::spawn(move || {
                    (0..125_000_u64).map(|n| ids.next(Millis::new(NOW.get() + n / 1000)).unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut all = HashSet::new();
        for thread in threads {
            let made = thread.join().unwrap();
            assert!(made.is_sorted());
            all.extend(made);
        }
        assert_eq!(all.len(), 1_000_000);
    }

    #[test]
    fn a_forked_child_draws_anew_in_the_same_millisecond() {
        let parent = IdGenerator::new();
        let pid = std::process::id();
        parent.next(NOW).unwrap();
        let state = *parent.last.lock().unwrap();
        let child = IdGenerator { last: Mutex::new(state), pid: AtomicU32::new(pid), orphaned: AtomicBool::new(false) };
        let of_parent: HashSet<_> = (0..1000).map(|_| parent.next(NOW).unwrap()).collect();
        let of_child: HashSet<_> = (0..1000).map(|_| child.next_as(pid + 1, NOW).unwrap()).collect();
        assert!(of_parent.is_disjoint(&of_child));
        // The proof that the process id is what makes the difference.
        let copy = IdGenerator { last: Mutex::new(state), pid: AtomicU32::new(pid), orphaned: AtomicBool::new(false) };
        assert!(of_parent.contains(&copy.next(NOW).unwrap()));
    }

    #[test]
    fn a_child_forked_while_the_lock_was_held_does_not_hang() {
        let ids = IdGenerator::new();
        let _held_by_a_thread_that_is_gone = ids.last.lock().unwrap();
        let made: HashSet<_> = (0..1000).map(|_| ids.next_as(std::process::id() + 1, NOW).unwrap()).collect();
        assert_eq!(made.len(), 1000);
    }

    #[test]
    fn used_up_tails_borrow_the_next_millisecond() {
        let ids = IdGenerator::new();
        let first = ids.next(NOW).unwrap();
        ids.last.lock().unwrap().tail = TAILS - 1;
        let second = ids.next(NOW).unwrap();
        assert_eq!(second.made_at(), first.made_at().map(|at| at.saturating_add(Millis::new(1))));
    }

    #[test]
    fn only_made_ids_hold_a_time() {
        for id in ["", "order-42", "000000000000000-", "00000000000000000"] {
            assert_eq!(made_at(id), None, "{id}");
        }
        assert!(JobId::new("").is_err() && JobId::new("a\n").is_err() && JobId::new("order 42").is_ok());
    }
}
