//! The tokio runtimes behind the blocking facade and the language skins: made at first use, and again after a fork.
//!
//! A runtime that was inherited through a fork has lost its threads and hangs for ever, so each is kept with the process id
//! that made it. A child leaks its parent's: dropping it would close sockets that the parent still uses.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use once_cell::race::OnceBox;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::error::Elapsed;

use super::id::id;
use super::standard;
use crate::value::error::{Error, ErrorKind};

/// How often a waiting call looks whether it was interrupted.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How often at most a call first looks for what has come: more often would cost each call of a busy program.
const EACH_LOOK_MS: u64 = 50;
/// How long an interrupted call may take to give back what it has got.
const FAREWELL: Duration = Duration::from_secs(1);

/// A value that belongs to the process that made it.
///
/// A fork may happen at any moment of any other thread, and what that thread holds then is held for ever in the child. So
/// looking a value up takes no lock, and the lock of those who make one says in which process they are.
pub struct PerProcess<T> {
    first: OnceBox<Made<T>>,
    /// The process in which a thread makes a value just now; 0 for none.
    making: AtomicU32,
}

/// What one process made, and what the processes that were forked from it did.
struct Made<T> {
    pid: u32,
    value: Option<Arc<T>>,
    forked: OnceBox<Made<T>>,
}

impl<T> Drop for Made<T> {
    fn drop(&mut self) {
        // Dropping a parent's value would close sockets that it still uses.
        if self.pid != id() {
            std::mem::forget(self.value.take());
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { first: OnceBox::new(), making: AtomicU32::new(0) }
    }

    /// The value of this process, made now if there is none yet. One thread makes it, the others wait.
    pub fn get(&self, make: impl FnOnce() -> Result<T, Error>) -> Result<Arc<T>, Error> {
        let pid = id();
        if let Some(value) = self.made_in(pid).0 {
            return Ok(value);
        }
        let _making = self.begin_making(pid);
        let (ours, end) = self.made_in(pid);
        if let Some(value) = ours {
            return Ok(value);
        }
        let value = Arc::new(make()?);
        // Nobody else makes one now, so there is none.
        let _ = end.set(Box::new(Made { pid, value: Some(Arc::clone(&value)), forked: OnceBox::new() }));
        Ok(value)
    }

    /// The value of this process, if it was made.
    pub fn known(&self) -> Option<Arc<T>> {
        self.made_in(id()).0
    }

    /// What this process made; and where the next process puts what it makes.
    fn made_in(&self, pid: u32) -> (Option<Arc<T>>, &OnceBox<Made<T>>) {
        let mut at = &self.first;
        while let Some(made) = at.get() {
            if made.pid == pid {
                return (made.value.clone(), &made.forked);
            }
            at = &made.forked;
        }
        (None, at)
    }

    fn begin_making(&self, pid: u32) -> Making<'_> {
        let mut holder = 0;
        loop {
            match self.making.compare_exchange(holder, pid, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Making(&self.making),
                Err(0) => holder = 0,
                Err(here) if here == pid => {
                    holder = 0;
                    std::thread::sleep(Duration::from_millis(1));
                }
                // A thread of the process that this one was forked from: here it does not exist.
                Err(elsewhere) => holder = elsewhere,
            }
        }
    }
}

/// The lock of those who make a value.
struct Making<'a>(&'a AtomicU32);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// The runtime on which blocking calls run: the calling thread drives the sockets itself, so that an answer costs no hop
/// from one thread to another.
pub(crate) fn local() -> Result<Arc<Runtime>, Error> {
    static LOCAL: PerProcess<Runtime> = PerProcess::new();
    // A name that is looked up is, in a thread.
    LOCAL.get(|| {
        standard::occupy();
        let mut builder = Builder::new_current_thread();
        builder.enable_all().on_thread_start(|| _ = block_signals()).build().map_err(no_runtime)
    })
}

/// The runtime with a thread of its own, for futures that nobody blocks on (asyncio, what goes on between blocking calls).
pub fn background() -> Result<Arc<Runtime>, Error> {
    static BACKGROUND: PerProcess<Runtime> = PerProcess::new();
    BACKGROUND.get(|| {
        standard::occupy();
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

/// Starts a thread of a worker, which hears no signals.
pub(crate) fn start_worker_thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    without_signals(|| thread.spawn(run))
        .map_err(|error| Error::new(ErrorKind::Internal, "the system gives no thread to the worker").caused_by(error))
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, "the system gives no thread").caused_by(error)
}

fn no_runtime(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, "the system gives no event queue: are there too many open files?").caused_by(error)
}

/// Tasks that calls left behind when they were dropped.
#[derive(Default)]
struct Leftovers {
    count: AtomicUsize,
    over: Notify,
}

static LEFTOVERS: PerProcess<Leftovers> = PerProcess::new();

struct Leftover(Option<Arc<Leftovers>>);

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(all) = &self.0
            && all.count.fetch_sub(1, Ordering::AcqRel) == 1
        {
            all.over.notify_waiters();
        }
    }
}

/// Goes on with something whose caller is gone, as a task; outside a runtime nobody could, and nothing happens.
pub(crate) fn leave_behind(rest: impl Future<Output = ()> + Send + 'static) {
    let Ok(runtime) = Handle::try_current() else { return };
    let all = LEFTOVERS.get(|| Ok(Leftovers::default())).ok();
    if let Some(all) = &all {
        all.count.fetch_add(1, Ordering::AcqRel);
    }
    let leftover = Leftover(all);
    runtime.spawn(async move {
        rest.await;
        drop(leftover);
    });
}

/// Runs this within the time that an interrupted call has; what takes longer is left behind.
pub(crate) fn part_with(rest: impl Future<Output = ()> + Send + 'static) {
    let Ok(runtime) = local() else { return };
    {
        let _entered = runtime.enter();
        leave_behind(rest);
    }
    finish_leftovers(&runtime);
}

/// Runs what was left behind, for a while.
fn finish_leftovers(runtime: &Runtime) {
    // If it takes longer, the next call of this process goes on with it, and else the end of the lease.
    runtime.block_on(leftovers_end());
}

/// Waits until what was left behind has ended, for a second at the most.
pub async fn leftovers_end() {
    let Ok(all) = LEFTOVERS.get(|| Ok(Leftovers::default())) else { return };
    let over = async {
        loop {
            let mut over = pin!(all.over.notified());
            over.as_mut().enable();
            if all.count.load(Ordering::Acquire) == 0 {
                return;
            }
            over.await;
        }
    };
    let _ = tokio::time::timeout(FAREWELL, over).await;
}

/// Ends the connections of clients that are gone. The runtime of blocking calls runs only while there is one.
pub(crate) fn end_what_is_gone() {
    let Ok(runtime) = local() else { return };
    runtime.block_on(take_turns(3));
}

/// Runs a call to its end, and asks `interrupted` ten times a second whether to give it up. It is asked outside the runtime:
/// a signal handler of the caller's language may call duly itself.
///
/// A call that is given up may have got jobs, or get them yet: they are given back before this returns, if the server answers
/// within a second.
pub(crate) fn block_on<T, E: From<Error>>(
    call: impl Future<Output = Result<T, Error>>,
    interrupted: impl FnMut() -> Result<(), E>,
) -> Result<T, E> {
    let runtime = local()?;
    match until_interrupted(&runtime, call, interrupted) {
        Ok(answer) => answer.map_err(E::from),
        Err(interruption) => {
            finish_leftovers(&runtime);
            Err(interruption)
        }
    }
}

fn until_interrupted<T, E>(
    runtime: &Runtime,
    call: impl Future<Output = Result<T, Error>>,
    mut interrupted: impl FnMut() -> Result<(), E>,
) -> Result<Result<T, Error>, E> {
    // Left behind the call: what it leaves are tasks of the runtime on which it ran.
    let mut entered = None;
    let mut call = pin!(call);
    look_for_what_has_come(runtime);
    loop {
        match run_a_while(runtime, call.as_mut()) {
            Ok(answer) => return Ok(answer),
            Err(_) => {
                if let Err(interruption) = interrupted() {
                    entered.replace(runtime.enter());
                    return Err(interruption);
                }
            }
        }
    }
}

/// Looks for what has come since the last call, if the last look is long ago: nobody reads the sockets between two calls. That a server has
/// closed a connection is seen before a request is lost on it, of which nobody could say whether it was executed.
fn look_for_what_has_come(runtime: &Runtime) {
    static FIRST: OnceBox<Instant> = OnceBox::new();
    static LAST_LOOK_MS: AtomicU64 = AtomicU64::new(0);
    let now =
        || u64::try_from(FIRST.get_or_init(|| Box::new(Instant::now())).elapsed().as_millis()).unwrap_or(u64::MAX);
    if now().saturating_sub(LAST_LOOK_MS.load(Ordering::Relaxed)) >= EACH_LOOK_MS {
        // First the runtime reads the sockets, then it runs the tasks that wait for them.
        runtime.block_on(take_turns(2));
        // Behind it: of two threads that call at once, both look.
        LAST_LOOK_MS.store(now(), Ordering::Relaxed);
    }
}

/// Lets the runtime read its sockets and run its tasks.
async fn take_turns(number: usize) {
    for _ in 0..number {
        tokio::task::yield_now().await;
    }
}

/// One function for all calls with this answer: the runtime's own code would have a copy of each call in several places.
fn run_a_while<T>(runtime: &Runtime, call: Pin<&mut dyn Future<Output = T>>) -> Result<T, Elapsed> {
    runtime.block_on(async { tokio::time::timeout(CHECK_EVERY, call).await })
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
    fn a_fork_while_another_thread_makes_a_value_locks_nothing_in_the_child() {
        static VALUE: PerProcess<u32> = PerProcess::new();
        let (making, is_making) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let maker = std::thread::spawn(move || {
            let make = || {
                making.send(()).unwrap();
                may_go_on.recv().unwrap();
                Ok(1)
            };
            *VALUE.get(make).unwrap()
        });
        is_making.recv().unwrap();
        // SAFETY: the child makes a number, ends itself without running anything else, and is ended if it hangs.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: neither touches memory.
            unsafe {
                libc::alarm(20);
                let made = VALUE.get(|| Ok(2)).map_or(0, |value| *value);
                libc::_exit(i32::from(made != 2));
            }
        }
        let mut status = 0;
        // SAFETY: the status lives until the call returns.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child was ended by a signal, or has another value");
        go_on.send(()).unwrap();
        assert_eq!(maker.join().unwrap(), 1);
        assert_eq!(*VALUE.get(|| Ok(3)).unwrap(), 1);
    }

    #[test]
    fn a_value_whose_making_failed_is_made_by_the_next() {
        let value = PerProcess::new();
        value.get(|| Err::<u32, _>(Error::new(ErrorKind::Internal, "no"))).unwrap_err();
        assert_eq!(*value.get(|| Ok(2)).unwrap(), 2);
    }

    #[test]
    fn what_an_interrupted_call_leaves_behind_is_done_before_it_returns() {
        struct Leaves(Arc<AtomicUsize>);
        impl Drop for Leaves {
            fn drop(&mut self) {
                let done = Arc::clone(&self.0);
                leave_behind(async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    // As a reserve does: its answer comes, and what it brings is given back by a call of its own.
                    leave_behind(async move {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        done.store(1, Ordering::Release);
                    });
                });
            }
        }
        let done = Arc::new(AtomicUsize::new(0));
        let leaves = Leaves(Arc::clone(&done));
        let call = async move {
            let _leaves = leaves;
            std::future::pending::<Result<(), Error>>().await
        };
        block_on(call, || Err(Error::new(ErrorKind::Interrupted, "stop"))).unwrap_err();
        assert_eq!(done.load(Ordering::Acquire), 1);
    }

    #[test]
    fn a_waiting_call_can_be_interrupted() {
        let never = std::future::pending::<Result<(), Error>>();
        let interrupted = block_on(never, || Err(Error::new(ErrorKind::Interrupted, "stop")));
        assert_eq!(interrupted.unwrap_err().kind(), ErrorKind::Interrupted);
    }
}
