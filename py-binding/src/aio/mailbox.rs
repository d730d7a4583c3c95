//! How results reach an event loop: the engine's thread puts them in a box and wakes the loop through a socket.
//!
//! That thread never touches Python. `call_soon_threadsafe` would have it wait for the GIL, and with it every other call;
//! and before Python 3.14 a thread that asks for the GIL while the interpreter ends is unwound through Rust's frames, which
//! aborts the process.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyWeakrefReference;

use crate::web::note_first_call_of_loop;

/// Completes one future, on the loop's thread.
pub(super) type Letter = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

/// What waits to be delivered, and the socket's end that wakes the loop.
pub(super) struct Letters {
    /// Nothing when the loop is closed, and nobody waits for any.
    waiting: Mutex<Option<Vec<Letter>>>,
    bell: UnixStream,
}

impl Letters {
    /// To a loop that is closed nothing is delivered: a lock in the letter is given up.
    pub(super) fn post(&self, letter: Letter) {
        let mut waiting = self.lock();
        let Some(letters) = waiting.as_mut() else { return };
        letters.push(letter);
        let first = letters.len() == 1;
        drop(waiting);
        if first {
            // A full socket rings already.
            let _ = (&self.bell).write(&[1]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Letter>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reading end. It belongs to one event loop, which alone holds it, as a reader: it goes when the loop is closed.
#[pyclass(frozen, weakref)]
pub(super) struct Mailbox {
    letters: Arc<Letters>,
    door: UnixStream,
}

impl Mailbox {
    pub(super) fn letters(&self) -> &Arc<Letters> {
        &self.letters
    }

    /// The running loop and its mailbox, made at the loop's first call.
    pub(super) fn of_running_loop(py: Python<'_>) -> PyResult<(Bound<'_, PyAny>, Bound<'_, Self>)> {
        static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static BY_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let get = GET.get_or_try_init(py, || py.import("duly._calls")?.getattr("running_loop").map(Bound::unbind))?;
        let event_loop = get.bind(py).call0()?;
        // Weak on both sides: a loop that is gone or closed takes its mailbox along.
        let by_loop = BY_LOOP
            .get_or_try_init(py, || py.import("weakref")?.call_method0("WeakKeyDictionary").map(Bound::unbind))?
            .bind(py);
        let known = by_loop.call_method1("get", (&event_loop,))?;
        let known = if known.is_none() { known } else { known.call0()? };
        if !known.is_none() {
            return Ok((event_loop, known.cast_into::<Self>()?));
        }
        note_first_call_of_loop(py)?;
        duly::occupy_standard_streams();
        let (bell, door) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        door.set_nonblocking(true)?;
        let (letters, fd) = (Arc::new(Letters { waiting: Mutex::new(Some(Vec::new())), bell }), door.as_raw_fd());
        let mailbox = Bound::new(py, Self { letters, door })?;
        event_loop.call_method1("add_reader", (fd, mailbox.getattr("deliver")?))?;
        by_loop.set_item(&event_loop, PyWeakrefReference::new(&mailbox)?)?;
        Ok((event_loop, mailbox))
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let letters = self.letters.lock().take();
        drop(letters); // not under the lock
    }
}

#[pymethods]
impl Mailbox {
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let mut rings = [0; 64];
        loop {
            match (&self.door).read(&mut rings) {
                Ok(64) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let letters = self.letters.lock().as_mut().map(std::mem::take).unwrap_or_default();
        let mut outcome = Ok(());
        for letter in letters {
            outcome = outcome.and(letter(py));
        }
        outcome
    }
}
