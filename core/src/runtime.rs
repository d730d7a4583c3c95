//! The tokio runtimes behind the blocking facade and the language skins: made at first use, and again after a fork.
//!
//! A runtime that was inherited through a fork has lost its threads and hangs for ever, so each is kept with the process id
//! that made it. A child leaks its parent's: dropping it would close sockets that the parent still uses.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use once_cell::sync::Lazy;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::AbortHandle;

use crate::error::{Error, ErrorKind};

/// How often a waiting call looks whether it was interrupted.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The process id of the maker, and what it made.
type Kept<T> = Option<(u32, Arc<T>)>;

/// A value that belongs to the process that made it.
pub struct PerProcess<T> {
    kept: Mutex<Kept<T>>,
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { kept: Mutex::new(None) }
    }

    /// The value of this process, made now if there is none yet.
    ///
    /// A fork may happen while another thread of the parent holds the lock; the child's copy then stays locked for ever. The
    /// lock is held only while a value is looked up or made, so this tries for a while and then says so, and never hangs.
    pub fn get(&self, make: impl FnOnce() -> Result<T, Error>) -> Result<Arc<T>, Error> {
        let mut kept = self.lock()?;
        let pid = std::process::id();
        if let Some((_, value)) = kept.as_ref().filter(|(maker, _)| *maker == pid) {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(make()?);
        if let Some(of_the_parent) = kept.replace((pid, Arc::clone(&value))) {
            std::mem::forget(of_the_parent);
        }
        Ok(value)
    }

    fn lock(&self) -> Result<MutexGuard<'_, Kept<T>>, Error> {
        for _ in 0..2000 {
            match self.kept.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(std::sync::TryLockError::Poisoned(poisoned)) => return Ok(PoisonError::into_inner(poisoned)),
                Err(std::sync::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        Err(Error::new(
            ErrorKind::Internal,
            "this process was forked while a duly client was being made in another thread: make a new client here",
        ))
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if let Ok(mut kept) = self.kept.try_lock()
            && kept.as_ref().is_some_and(|(maker, _)| *maker != std::process::id())
        {
            std::mem::forget(kept.take());
        }
    }
}

/// The runtime on which blocking calls run: the calling thread drives the sockets itself, so that an answer costs no hop
/// from one thread to another.
pub(crate) fn local() -> Result<Arc<Runtime>, Error> {
    static LOCAL: Lazy<PerProcess<Runtime>> = Lazy::new(PerProcess::new);
    // A name that is looked up is, in a thread.
    LOCAL.get(|| {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().on_thread_start(|| _ = block_signals()).build().map_err(no_runtime)
    })
}

/// The runtime with a thread of its own, for futures that nobody blocks on (asyncio, what goes on between blocking calls).
pub fn background() -> Result<Arc<Runtime>, Error> {
    static BACKGROUND: Lazy<PerProcess<Runtime>> = Lazy::new(PerProcess::new);
    BACKGROUND.get(|| {
        // tokio panics if it gets none.
        let is_one_left = without_signals(|| std::thread::Builder::new().spawn(|| ()));
        let _ = is_one_left.map_err(no_thread)?.join();
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("duly").enable_all().on_thread_start(|| _ = block_signals());
        without_signals(|| builder.build()).map_err(no_runtime)
    })
}

/// A task that goes on also while nobody blocks on the caller's runtime: one without threads of its own stands still then.
pub(crate) fn spawn_steady(task: impl Future<Output = ()> + Send + 'static) -> Result<AbortHandle, Error> {
    let handle = Handle::current();
    if handle.runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(background()?.spawn(task).abort_handle());
    }
    Ok(handle.spawn(task).abort_handle())
}

/// Has this thread leave all signals to others: Python and PHP notice them in their own threads only.
fn block_signals() -> libc::sigset_t {
    // SAFETY: all zeros is a valid signal set, and both sets live until the calls return, which fill them.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Runs what starts a thread so that the thread leaves all signals to others, from its beginning on.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let _restored = Restored(block_signals());
    start()
}

/// Gives the thread its mask back, also behind a panic.
struct Restored(libc::sigset_t);

impl Drop for Restored {
    fn drop(&mut self) {
        // SAFETY: the set lives until the call returns.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, "the system gives no thread").caused_by(error)
}

fn no_runtime(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, "the system gives no event queue: are there too many open files?").caused_by(error)
}

/// Runs a call to its end, and asks `interrupted` ten times a second whether to give it up. It is asked outside the runtime:
/// a signal handler of the caller's language may call duly itself.
pub(crate) fn block_on<T, E: From<Error>>(
    call: impl Future<Output = Result<T, Error>>,
    mut interrupted: impl FnMut() -> Result<(), E>,
) -> Result<T, E> {
    let runtime = local()?;
    let mut call = pin!(call);
    loop {
        match runtime.block_on(async { tokio::time::timeout(CHECK_EVERY, call.as_mut()).await }) {
            Ok(answer) => return answer.map_err(E::from),
            Err(_) => interrupted()?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_a_process() {
        let value = PerProcess::new();
        let first = value.get(|| Ok(1)).unwrap();
        let second = value.get(|| Ok(2)).unwrap();
        assert_eq!((*first, *second), (1, 1));
    }

    #[test]
    fn a_waiting_call_can_be_interrupted() {
        let never = std::future::pending::<Result<(), Error>>();
        let interrupted = block_on(never, || Err(Error::new(ErrorKind::Interrupted, "stop")));
        assert_eq!(interrupted.unwrap_err().kind(), ErrorKind::Interrupted);
    }
}
