//! Waiting without the GIL, and the ways out of a wait: Ctrl-C, and the interruption of a handler.

use std::ffi::c_ulong;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use duly::blocking::{self, Interrupt};
use duly::{Error, ErrorKind};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyType, PyWeakrefReference};

use crate::error::Failure;

/// During a wait: runs signal handlers on the thread on which Python runs them, the main one, and ends it on a thread in which an exception
/// was raised from outside. Python would raise that only behind the wait.
pub(crate) struct Signals {
    are_ours: Option<bool>,
    /// Since the first look, so that a call that ends before reads no clock.
    began: Option<Instant>,
    /// How often something had been raised from outside when it began, and when this was looked at last.
    raised: [u64; 2],
}

impl Signals {
    fn begin() -> Self {
        let raised = RAISED.count.load(Ordering::Acquire);
        Self { are_ours: None, began: None, raised: [raised; 2] }
    }
}

impl Interrupt for Signals {
    type Error = Failure;

    fn check(&mut self) -> Result<(), Failure> {
        park_if_exiting();
        self.began.get_or_insert_with(Instant::now);
        if self.are_ours == Some(false) {
            // Another thread has nothing to run, and must not fight for the GIL ten times a second.
            return RAISED.take_in_wait(self);
        }
        let checked = Python::try_attach(|py| {
            let ours = match self.are_ours {
                Some(known) => known,
                None => is_main_thread(py)?,
            };
            self.are_ours = Some(ours);
            if ours { py.check_signals() } else { Ok(()) }
        });
        checked.unwrap_or(Ok(())).map_err(Failure::Python)
    }
}

/// A call that waits for so long is left when its thread is interrupted: ordinary ones come to their end, such as that which frees a lock.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// What was raised in which thread from outside, one after the other. What was raised during a wait of that thread is still on its way there,
/// as no Python code has run in it since. Locked only with the GIL, so that no fork leaves it locked.
struct Raised {
    count: AtomicU64,
    in_threads: Mutex<Vec<InThread>>,
}

struct InThread {
    thread: c_ulong,
    number: u64,
    /// Weak: references to the class tell whether what was raised is still somewhere.
    exception: Py<PyWeakrefReference>,
}

static RAISED: Raised = Raised { count: AtomicU64::new(0), in_threads: Mutex::new(Vec::new()) };

/// Raises it in that thread, as soon as it is in Python code, or waits here for long; nothing takes back what was not raised yet. False if
/// there is no such thread.
pub(crate) fn raise_in(thread: c_ulong, exception: Option<&Bound<'_, PyType>>) -> bool {
    let is_there = set_pending(thread, exception.map_or(std::ptr::null_mut(), Bound::as_ptr));
    let before = RAISED.remove(thread);
    if is_there && let Some(exception) = exception {
        // Without memory for it, it comes behind the wait.
        if let Ok(exception) = PyWeakrefReference::new(exception) {
            RAISED.add(thread, exception.unbind());
        }
    }
    drop(before); // not under the lock
    is_there
}

fn set_pending(thread: c_ulong, exception: *mut ffi::PyObject) -> bool {
    // CPython declares the number unsigned since 3.7, pyo3 as before; the bits are the same.
    #[expect(clippy::cast_possible_wrap, reason = "see above")]
    let thread = thread as std::ffi::c_long;
    // SAFETY: the GIL is held, as by every method of a class; the exception is a class or null, and Python takes a
    // reference of its own.
    unsafe { ffi::PyThreadState_SetAsyncExc(thread, exception) > 0 }
}

/// As Python's `threading.get_ident` says it.
pub(crate) fn this_thread() -> c_ulong {
    // SAFETY: it reads a number of this thread and needs nothing.
    unsafe { ffi::PyThread_get_thread_ident() }
}

impl Raised {
    fn add(&self, thread: c_ulong, exception: Py<PyWeakrefReference>) {
        let mut in_threads = self.in_threads.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        in_threads.push(InThread { thread, number, exception });
    }

    fn remove(&self, thread: c_ulong) -> Option<InThread> {
        let mut in_threads = self.in_threads.lock().unwrap_or_else(PoisonError::into_inner);
        let index = in_threads.iter().position(|one| one.thread == thread)?;
        Some(in_threads.swap_remove(index))
    }

    /// Raises here what was raised in this thread since this wait began.
    fn take_in_wait(&self, wait: &mut Signals) -> Result<(), Failure> {
        let count = self.count.load(Ordering::Acquire);
        let [before, looked_at] = wait.raised;
        if count == looked_at || wait.began.is_none_or(|began| began.elapsed() < LONG_WAIT) {
            return Ok(());
        }
        wait.raised = [before, count];
        let raised = Python::try_attach(|py| {
            let one = self.remove(this_thread()).filter(|one| one.number > before)?;
            let exception = one.exception.bind(py).upgrade_as::<PyType>().ok().flatten()?;
            set_pending(one.thread, std::ptr::null_mut());
            Some(Failure::Python(PyErr::from_type(exception, ())))
        });
        raised.flatten().map_or(Ok(()), Err)
    }
}

/// The process whose main thread is known, and that thread.
static MAIN_THREAD: (AtomicU32, AtomicU64) = (AtomicU32::new(0), AtomicU64::new(0));

/// Asked of Python once in each process: it counts the thread that forked as the main one of the child. More often would be Python code in the
/// middle of a wait, in which what is raised from outside would come.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let (of_process, main) = &MAIN_THREAD;
    if of_process.load(Ordering::Acquire) != std::process::id() {
        let thread = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
        main.store(thread.extract()?, Ordering::Relaxed);
        of_process.store(std::process::id(), Ordering::Release);
    }
    #[allow(clippy::useless_conversion)] // not where the system's numbers are smaller
    Ok(main.load(Ordering::Relaxed) == u64::from(this_thread()))
}

/// Runs a call of the engine without the GIL. A panic becomes an `InternalError`.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    call: impl FnOnce(&mut Signals) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    // With the GIL: what is raised from here on comes in this wait.
    let mut signals = Signals::begin();
    let run = || {
        let result = catch_unwind(AssertUnwindSafe(|| call(&mut signals)));
        park_if_exiting();
        result
    };
    py.detach(run).unwrap_or_else(|panic| Err(panicked(&*panic).into())).map_err(PyErr::from)
}

/// Behind a call that has leased jobs. Python handles a signal that came meanwhile as soon as this returns: if that raises, nobody has
/// the jobs, and they go back.
pub(crate) fn unless_interrupted(py: Python<'_>, jobs: impl FnOnce() -> PyResult<Vec<blocking::Job>>) -> PyResult<()> {
    let Err(raised) = py.check_signals() else { return Ok(()) };
    let jobs = jobs()?;
    wait(py, |_| {
        blocking::Job::give_back(&jobs);
        Ok(())
    })?;
    Err(raised)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let said = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    Error::new(
        ErrorKind::Internal,
        format!("a defect in duly, please report it: {}", said.unwrap_or("a panic without a message")),
    )
}

/// The thread that ends the interpreter, once it has begun to.
static EXITING: OnceLock<ThreadId> = OnceLock::new();

/// Called by `atexit`. First what is being logged comes to its end: the line would be lost, and its thread must not be in Python when
/// the interpreter ends.
#[pyfunction]
pub(crate) fn note_exit(py: Python<'_>) {
    let _ = EXITING.set(thread::current().id());
    py.detach(|| LOGGING.finish(LONGEST_FAREWELL));
}

/// How long the end of a process waits for a logger that does not come back.
const LONGEST_FAREWELL: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The threads of ours that are in Python, or on their way there. Without a lock: a fork could leave it held.
struct InPython {
    count: AtomicUsize,
    /// Of which process the count is: a forked child has none of the threads.
    pid: AtomicU32,
    is_over: AtomicBool,
}

static LOGGING: InPython =
    InPython { count: AtomicUsize::new(0), pid: AtomicU32::new(0), is_over: AtomicBool::new(false) };

/// As long as this lives, the interpreter does not end.
pub(crate) struct Stay(());

/// None when the interpreter ends already.
pub(crate) fn stay_in_python() -> Option<Stay> {
    let pid = std::process::id();
    if LOGGING.pid.swap(pid, Ordering::SeqCst) != pid {
        LOGGING.count.store(0, Ordering::SeqCst);
    }
    LOGGING.count.fetch_add(1, Ordering::SeqCst);
    let stay = Stay(());
    (!LOGGING.is_over.load(Ordering::SeqCst)).then_some(stay)
}

impl Drop for Stay {
    fn drop(&mut self) {
        LOGGING.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl InPython {
    fn finish(&self, within: Duration) {
        let until = Instant::now() + within;
        let is_running =
            || self.pid.load(Ordering::SeqCst) == std::process::id() && self.count.load(Ordering::SeqCst) > 0;
        while is_running() && Instant::now() < until {
            thread::sleep(LOOK_AGAIN);
        }
        self.is_over.store(true, Ordering::SeqCst);
        // Whoever came in between.
        while is_running() && Instant::now() < until {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// A daemon thread whose wait is over while the interpreter ends must not ask for the GIL: before Python 3.14 such a thread
/// is unwound through Rust's frames, which aborts the process. It sleeps until the process is gone.
///
/// Functions of `atexit` that were registered before ours run behind it, and may wait for what this thread does: so it goes on as long as
/// the interpreter runs. It begins to end at once behind the last of them: who has seen it run for this long waits for one of these.
fn park_if_exiting() {
    if EXITING.get().is_none_or(|main| *main == thread::current().id()) {
        return;
    }
    let asked = is_finalizing();
    let until = Instant::now() + LAST_STEPS;
    while asked.as_ref().is_some_and(|is_finalizing| !is_finalizing()) {
        if Instant::now() >= until {
            return;
        }
        thread::sleep(LOOK_AGAIN / 8);
    }
    loop {
        thread::park();
    }
}

/// From the last function of `atexit` to the mark that no thread may run any more.
const LAST_STEPS: Duration = Duration::from_millis(3);

/// Asks whether the interpreter has begun to end; nothing where it cannot be asked without the GIL. The limited API has no such function for
/// the older versions, but all have it.
fn is_finalizing() -> Option<impl Fn() -> bool> {
    static ASKED: OnceLock<Option<extern "C" fn() -> std::ffi::c_int>> = OnceLock::new();
    let found = *ASKED.get_or_init(|| {
        [c"Py_IsFinalizing", c"_Py_IsFinalizing"].into_iter().find_map(|name| {
            // SAFETY: the name ends with a zero; nothing is loaded.
            let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            // SAFETY: a function of Python with this name has been such a one since 3.7.
            (!symbol.is_null()).then(|| unsafe {
                std::mem::transmute::<*mut std::ffi::c_void, extern "C" fn() -> std::ffi::c_int>(symbol)
            })
        })
    });
    found.map(|asked| move || asked() != 0)
}
